//go:build plant

package roster

import (
	"testing"

	"github.com/floedb/floe/internal/plant"
)

// TestPlanted switches on one bug after the other, each in a process of its own. Its test has to fail, and does not without the bug.
//
//	go test -tags plant -overlay .plant/overlay.json -run '^TestPlanted$' ./internal/roster
func TestPlanted(t *testing.T) {
	plant.Run(t, []plant.Planted{
		{plant.CountsAnew, "TestLives"},
	})
}
