//go:build plant

package ts_test

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// TestPlanted enables one planted bug after another, each in its own process. The bug's test must
// fail with the bug and pass without it.
//
//	go test -tags plant -overlay .plant/overlay.json -run '^TestPlanted$' ./ts
func TestPlanted(t *testing.T) {
	plant.Run(t, []plant.Planted{
		{plant.SealUnfenced, "TestOvertakenSeal"},
		{plant.SealDropsNewest, "TestManySealsAndMerges"},
		{plant.GenerationsReversed, "TestManySealsAndMerges"},
		{plant.AnyFingerprint, "TestStaleNumbers"},
		{plant.LateUnmarked, "TestLateStorm"},
		{plant.SealDeleted, "TestDeletedInBlock"},
		{plant.DeletionForgotten, "TestDeletedInBlock"},
		{plant.RetireUnseen, "TestWrittenWhileRetired"},
		{plant.RestLost, "TestMergeOfMany"},
		{plant.ReadExpired, "TestReadWhileItChanges"},
		{plant.PartialAnswer, "TestQueriesOverRollups"},
		{plant.RewriteUnfenced, "TestOvertakenMerge"},
		{plant.RoomUnchecked, "TestCallersAtTheLimit"},
	})
}
