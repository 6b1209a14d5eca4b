//go:build plant

package stream_test

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// planted lists the test that must find each bug in consumer groups, or in the takes they build on.
var planted = []plant.Planted{
	{plant.AckFailedToo, "TestConsumeOutcomes"},
	{plant.ReservedForever, "TestConsumeIsServedOverAndOver"},
	{plant.ReadWhileEnding, "TestNothingOvertakesWhatIsTakenBack"},
	{plant.SeekKeepsDue, "TestSeekForgetsWhatWasDue"},
	{plant.ExcuseExpelled, "TestUsedUpRecordsAreBuriedInParts"},
	{plant.MissNobody, "TestAWaitingConsumerThatIsLostIsMissed"},
	{plant.ForgetAnnounced, "TestRefusedRecordsAreThereAtOnce"},
	{plant.UnboundedExpire, "TestWhatIsDueTogetherIsDoneInParts"},
	{plant.ReviveGroup, "TestLateCommandForADeletedGroup"},
}

// TestPlanted enables one bug after the other.
func TestPlanted(t *testing.T) { plant.Run(t, planted) }
