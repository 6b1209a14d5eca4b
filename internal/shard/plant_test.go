//go:build plant

package shard

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// planted lists the shard test that must find each bug which no simulation would: all work
// proceeds, only some of it slowly.
var planted = []plant.Planted{
	{plant.FirstCome, "TestTurns"},
	{plant.FloodAhead, "TestTurns"},
	{plant.FloodFills, "TestFloodLeavesRoom"},
}

// TestPlanted enables one bug after the other.
func TestPlanted(t *testing.T) { plant.Run(t, planted) }
