//go:build plant

package workloop_test

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// planted says which test has to find a bug in the loop.
var planted = []plant.Planted{
	{plant.NeverRenew, "TestLeasesAreRenewed"},
	{plant.SettleLost, "TestLostIsNotSettled"},
	{plant.TakeDraining, "TestDrainTakesNothing"},
	{plant.PanicUncaught, "TestPanicIsAFailure"},
	{plant.LaneOvertakes, "TestLaneFailure"},
	{plant.NeverPause, "TestNoHotLoop"},
}

// TestPlanted switches on one bug after the other.
func TestPlanted(t *testing.T) { plant.Run(t, planted) }
