//go:build plant

package pipeline

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// TestPlanted switches on one bug after the other, each in a process of its own. Its test has to
// fail, and does not without the bug.
//
//	go test -tags plant -overlay .plant/overlay.json -run '^TestPlanted$' ./internal/pipeline
func TestPlanted(t *testing.T) {
	plant.Run(t, []plant.Planted{
		{plant.JoinPunctual, "TestScripts"},
		{plant.FailureEach, "TestScripts"},
		{plant.EndInside, "TestNaive"},
		{plant.BlockStays, "TestNaive"},
		{plant.MeasuresTogether, "TestNaive"},
		{plant.LateUntold, "TestNaive"},
		{plant.PurgeEarly, "TestNaive"},
		{plant.MergeUncounted, "TestNaive"},
		{plant.SessionsApart, "TestNaive"},
		{plant.SessionUntimed, "TestNaive"},
		{plant.SessionLate, "TestNaive"},
		{plant.PartnerUnnoted, "TestScripts"},
		{plant.SeenForever, "TestScripts"},
		{plant.IdleHolds, "TestWatermark"},
		{plant.MarkFalls, "TestWatermark"},
		{plant.IdleStands, "TestWatermark"},
		{plant.LateEverywhere, "TestScripts"},
	})
}
