//go:build plant

package engine_test

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// planted lists the engine test that must find each bug which no simulation would, because it takes
// megabytes or time.
var planted = []plant.Planted{
	{plant.EndlessEntry, "TestEntryIsBounded"},
	{plant.EndlessFire, "TestFireEndsEarly"},
	{plant.UncountedParts, "TestTransactionIsBoundedAsAWhole"},
	{plant.LaneBlocks, "TestATemporaryRefusalBlocksItsLaneOnly"},
	{plant.KeepRemembered, "TestMemory"},
}

// TestPlanted enables one bug after the other.
func TestPlanted(t *testing.T) { plant.Run(t, planted) }
