//go:build plant

package workflow

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// TestPlanted enables one bug after the other, each in its own process. The bug's test must fail,
// and passes without the bug.
//
//	go test -tags plant -overlay .plant/overlay.json -run '^TestPlanted$' ./workflow
func TestPlanted(t *testing.T) {
	plant.Run(t, []plant.Planted{
		{plant.AnyEnd, "TestScripts"},
		{plant.DueLater, "TestSignalAtDeadline"},
		{plant.SignalKept, "TestSignalAtDeadline"},
		{plant.EventLost, "TestScripts"},
		{plant.AmbiguousStays, "TestScripts"},
		{plant.FailureUndone, "TestCrashBetweenCompensations"},
		{plant.CancelForgets, "TestScripts"},
		{plant.UndoneTwice, "TestScripts"},
		{plant.TimedOutRuns, "TestTimedOutStepIsWithdrawn"},
		{plant.OneAttemptMore, "TestLimitsOfTries"},
		{plant.WithinIgnored, "TestLimitsOfTries"},
		{plant.OnePollMore, "TestLimitsOfTries"},
		{plant.BranchesUnbounded, "TestParallelLimits"},
		{plant.SiblingsRun, "TestParallelLimits"},
		{plant.StoppedCounts, "TestStoppedBranches"},
		{plant.FailedCounts, "TestParallelLimits"},
		{plant.FailureWaits, "TestParallelLimits"},
		{plant.ChildUnawaited, "TestChildIsAwaited"},
		{plant.HandlersLeft, "TestUndoWaitsForChild"},
		{plant.CutOffAnswers, "TestUndone"},
		{plant.EndlessLoop, "TestLoopIsStopped"},
		{plant.RunEternal, "TestScripts"},
		{plant.AnyInput, "TestScripts"},
		{plant.KeepAll, "TestKeptRuns"},
		{plant.HandoverSkipped, "TestKeptRuns"},
		{plant.RelayLost, "TestSpread"},
		{plant.DisownNobody, "TestCallOverBeforeItWasMade"},
		{plant.UnheardIsAbsent, "TestCallsBeforeShardsHaveHeard"},
		{plant.RetryKeepsKey, "TestScripts"},
		{plant.RetryAnywhere, "TestScripts"},
		{plant.RetryForgets, "TestScripts"},
		{plant.BatchConflicts, "TestTriggerMovedBack"},
		{plant.RetryLast, "TestRetryOfFirstFailure"},
		{plant.AmbiguousForgotten, "TestUndone"},
		{plant.UndoneBeside, "TestUndoWaitsForHandler"},
		{plant.LargeStays, "TestUndoneAtTheEnd"},
		{plant.LastVisitUndone, "TestUndoneInALoop"},
		{plant.FanForgets, "TestUndone"},
		{plant.SentAnew, "TestUndoneInALoop"},
		{plant.AnyEpoch, "TestBreaker"},
		{plant.OneProbeMore, "TestBreaker"},
		{plant.OneFailureMore, "TestBreaker"},
		{plant.RateUntaken, "TestRates"},
		{plant.RateUnshared, "TestRateOfAllShards"},
		{plant.AnyGeneration, "TestScripts"},
		{plant.CacheEternal, "TestScripts"},
		{plant.CacheUnbounded, "TestCacheIsBounded"},
		{plant.CachedCounts, "TestScripts"},
		{plant.OpenUntold, "TestBreakerOfAllShards"},
		{plant.InvalidUntold, "TestCacheOfAllShards"},
		{plant.FatalRetried, "TestScripts"},
		{plant.TrackForever, "TestScripts"},
		{plant.OneRunMore, "TestScripts"},
		{plant.RestUnrouted, "TestTriggerMovedBack"},
		{plant.EndTwice, "TestScheduledRunRetried"},
		{plant.ResumeCatchesUp, "TestScripts"},
		{plant.ScheduleTwice, "TestStaleTick"},
		{plant.OneBatchMore, "TestTriggerLimit"},
		{plant.EndsUnheard, "TestTriggerLimit"},
		{plant.PausedHands, "TestTriggerPlaces"},
		{plant.NeverWaits, "TestTriggerBatches"},
		{plant.OneRecordMore, "TestTriggerBatches"},
		{plant.BatchUnbounded, "TestTriggerBatches"},
		{plant.FromTheFirst, "TestTrigger"},
		{plant.RefusedUnburied, "TestTriggerRefused"},
	})
}
