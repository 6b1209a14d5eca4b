//go:build plant

package queue

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// TestPlanted enables one planted bug after another, each in its own process. The bug's test must
// fail with the bug and pass without it.
//
//	go test -tags plant -overlay .plant/overlay.json -run '^TestPlanted$' ./queue
func TestPlanted(t *testing.T) {
	plant.Run(t, []plant.Planted{
		{plant.AckFailed, "TestConsumeOutcomes"},
	})
}
