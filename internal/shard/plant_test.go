//go:build plant

package shard

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// planted says which test of a shard has to find a bug that no simulation would: everybody gets on,
// only some of them slowly.
var planted = []plant.Planted{
	{plant.FirstCome, "TestTurns"},
	{plant.FloodAhead, "TestTurns"},
	{plant.FloodFills, "TestFloodLeavesRoom"},
}

// TestPlanted switches on one bug after the other.
func TestPlanted(t *testing.T) { plant.Run(t, planted) }
