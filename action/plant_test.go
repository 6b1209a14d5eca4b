//go:build plant

package action

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// TestPlanted enables one planted bug after another, each in its own process. The bug's test must
// fail with the bug and pass without it.
//
//	go test -tags plant -overlay .plant/overlay.json -run '^TestPlanted$' ./action
func TestPlanted(t *testing.T) {
	plant.Run(t, []plant.Planted{
		{plant.TickTwice, "TestScheduleModel"},
		{plant.TickTwice, "TestStaleTick"},
		{plant.TickLost, "TestScheduleLongOutage"},
		{plant.CatchUpIgnored, "TestScheduleModel"},
		{plant.CatchUpIgnored, "TestScheduleOutage"},
		{plant.BufferedLost, "TestScheduleModel"},
		{plant.KeylessFirst, "TestDispatchModel"},
		{plant.KeylessFirst, "TestKeysAndNoneInTurn"},
		{plant.CancelFrees, "TestDispatchModel"},
		{plant.RetryUnrated, "TestDispatchModel"},
		{plant.ReleaseCounts, "TestDispatchModel"},
		{plant.LaneForgotten, "TestDispatchModel"},
		{plant.DelayForgets, "TestRandom"},
		{plant.EternalRun, "TestRandom"},
		{plant.AnyAttempt, "TestLateResult"},
		{plant.SilentForever, "TestSessionLost"},
		{plant.LostUncounted, "TestSessionLost"},
		{plant.ReconciliationIgnored, "TestLostAnswers"},
		{plant.CancelUntold, "TestCancelReachesTheHandler"},
	})
}
