//go:build plant

package processing

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// TestPlanted enables one bug after the other, each in its own process. The bug's test must fail,
// and passes without the bug.
//
//	go test -tags plant -overlay .plant/overlay.json -run '^TestPlanted$' ./stream/processing
func TestPlanted(t *testing.T) {
	plant.Run(t, []plant.Planted{
		{plant.LastAgain, "TestKilledWhileFiring"},
		{plant.IdleHolds, "TestEveryOrderOfIdlePartitions"},
		{plant.FailureCooked, "TestRawFailures"},
		{plant.FuncPanics, "TestFunc"},
		{plant.IdleRuns, "TestBackfillInParts"},
		{plant.FirstRefused, "TestManyRefused"},
		{plant.LateUncounted, "TestLatePoints"},
		{plant.AnyTick, "TestOvertaken"},
		{plant.AnyRevisionOfJob, "TestRestoreToEqualCursors"},
		{plant.BacklogStays, "TestOtherShards"},
		{plant.ClocksAlike, "TestClocksOfShards"},
		{plant.LargeTicks, "TestTicksAmongOthers"},
		{plant.TooManyWait, "TestMoreThanAQueueHolds"},
		{plant.MarkStays, "TestOtherSource"},
		{plant.RefusedStands, "TestRefusedForGood"},
		{plant.RefusedLost, "TestRefusedForGood"},
		{plant.ErrorsUncounted, "TestRefusedForGood"},
		{plant.PutsAll, "TestSinks"},
		{plant.ErrorsEternal, "TestRefusedForGood"},
		{plant.AnyStream, "TestSourceAgain"},
		{plant.GapUntold, "TestSourceAgain"},
		{plant.EndMoves, "TestStopAtEnd"},
		{plant.LatestLater, "TestLatest"},
		{plant.OldGeneration, "TestSavepoint"},
		{plant.CountersRestored, "TestSavepoint"},
		{plant.CancelKeeps, "TestPipeline"},
		{plant.NameStays, "TestPipeline"},
		{plant.PartStays, "TestSpread"},
		{plant.AnyEpochOfJob, "TestSpreadEnds"},
		{plant.ExchangeEndless, "TestSpreadExchangeFull"},
		{plant.UnreadIdle, "TestUnreadIsNotIdle"},
		{plant.IdleForever, "TestSpreadIdleThenRestored"},
		{plant.StaleIdle, "TestSpreadUnreadAtRestart"},
		{plant.EndUnheard, "TestSpreadEnd"},
		{plant.EndsWithWindows, "TestStoppedWhileItEnds"},
		{plant.PassedStays, "TestSpreadSavepoint"},
	})
}
