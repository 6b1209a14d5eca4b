//go:build plant

package queue

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// TestPlanted switches on one bug after the other, each in a process of its own. Its test has to
// fail, and does not without the bug.
//
//	go test -tags plant -overlay .plant/overlay.json -run '^TestPlanted$' ./queue
func TestPlanted(t *testing.T) {
	plant.Run(t, []plant.Planted{
		{plant.AckFailed, "TestConsumeOutcomes"},
	})
}
