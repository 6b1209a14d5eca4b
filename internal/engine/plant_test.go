//go:build plant

package engine_test

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// planted says which test of the engine has to find a bug that no simulation would, because it
// takes megabytes or a time.
var planted = []plant.Planted{
	{plant.EndlessEntry, "TestEntryIsBounded"},
	{plant.EndlessFire, "TestFireEndsEarly"},
	{plant.UncountedParts, "TestTransactionIsBoundedAsAWhole"},
	{plant.LaneBlocks, "TestATemporaryRefusalBlocksItsLaneOnly"},
	{plant.KeepRemembered, "TestMemory"},
}

// TestPlanted switches on one bug after the other.
func TestPlanted(t *testing.T) { plant.Run(t, planted) }
