//go:build plant

package auth

import (
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// TestPlanted switches on one bug after the other, each in a process of its own. Its test has to
// fail, and does not without the bug.
//
//	go test -tags plant -overlay .plant/overlay.json -run '^TestPlanted$' ./internal/auth
func TestPlanted(t *testing.T) {
	plant.Run(t, []plant.Planted{
		{plant.KeyEternal, "TestKeyExpires"},
		{plant.EndedGoesOn, "TestEndSession"},
		{plant.SessionEternal, "TestSessionEnds"},
		{plant.RevokedStays, "TestRevoked"},
		{plant.LateAnswer, "TestRevoked"},
		{plant.NewKeyUnasked, "TestNewKeyIsFound"},
		{plant.MadeUncounted, "TestNamespacesOfKeys"},
		{plant.AnySignature, "TestKeysModel"},
		{plant.AnySecret, "TestKeysModel"},
		{plant.EachAddress, "TestRightKeyPassesWrongOnes"},
		{plant.FailuresForgotten, "TestRightKeyPassesWrongOnes"},
		{plant.LastAdminGoes, "TestKeysModel"},
		{plant.AdminsStay, "TestKeysModel"},
		{plant.SecondStore, "TestKeysModel"},
	})
}
