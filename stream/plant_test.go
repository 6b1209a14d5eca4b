//go:build plant

package stream_test

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// planted says which test has to find a bug in consumer groups, or in the takes on which they
// stand.
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

// TestPlanted switches on one bug after the other.
func TestPlanted(t *testing.T) { plant.Run(t, planted) }
