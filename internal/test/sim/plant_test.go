//go:build plant

package sim

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/plant"
)

var rotateFlag = flag.Int("plant-rotate", 0, "plant only so many bugs, chosen at random; 0: all")

// planted names the suite that must find a bug, within maxPlantSeeds seeds.
var planted = []struct {
	bug plant.Bug
	by  *suite
}{
	{plant.AckBeforeSync, &oneNode},
	{plant.VoteUnsynced, &cluster},
	{plant.DirUnsynced, &oneNode},
	{plant.TruncateTooFar, &oneNode},
	{plant.ReviseRevisions, &oneNode},
	{plant.InstallSilently, &cluster},
	{plant.KeepOldRows, &cluster},
	{plant.ReadUnasked, &cluster},
	{plant.ReadEarly, &cluster},
	{plant.DeliverTwice, &oneNode},
	{plant.ForgetMore, &oneNode},
	{plant.ReplyLost, &oneNode},
	{plant.ReplyTwice, &oneNode},
	{plant.CountUndone, &oneNode},
	{plant.FollowRefused, &oneNode},
	{plant.UnfencedDuty, &cluster},
	{plant.LoseOutbox, &oneNode},
	{plant.LoseTimers, &oneNode},
	{plant.MapOrder, &cluster},
	{plant.AppliedLate, &oneNode},
	{plant.HalfTxn, &oneNode},
	{plant.CountRefused, &oneNode},
	{plant.AnyRevision, &oneNode},
	{plant.MissedChange, &oneNode},
	{plant.EternalExpiry, &oneNode},
	{plant.LostVersion, &oneNode},
	{plant.AnyReceipt, &oneNode},
	{plant.EternalLease, &oneNode},
	{plant.KeepTaken, &oneNode},
	{plant.SealDropsNewest, &oneNode},
	{plant.AnyFingerprint, &oneNode},
	{plant.GenerationsReversed, &oneNode},
}

// maxPlantSeeds is the maximum number of seeds for a bug. A bug that needs more would go unnoticed
// through too many changes.
const maxPlantSeeds = 1000

// TestPlanted enables the bugs one after the other. Each must be found.
func TestPlanted(t *testing.T) {
	rand.Shuffle(len(planted), func(i, j int) { planted[i], planted[j] = planted[j], planted[i] })
	bugs := planted
	if *rotateFlag > 0 {
		bugs = planted[:min(*rotateFlag, len(planted))]
	}
	for _, p := range bugs {
		t.Run(string(p.bug), func(t *testing.T) {
			plant.Set(p.bug)
			defer plant.Set("")
			p.by.find(t, p.bug)
		})
	}
}

// find runs seeds until one fails.
func (u suite) find(t *testing.T, b plant.Bug) {
	first, began := rand.Uint64()>>20+1, time.Now()
	if *seedFlag != 0 {
		first = *seedFlag
	}
	for n := range uint64(maxPlantSeeds) {
		if r := u.simulate(t, first+n); r.err != nil {
			t.Logf("%s found by %s with seed %d, the %d. one, after %v: %.300v", b, u.test, first+n, n+1,
				time.Since(began).Round(time.Millisecond), r.err)
			return
		}
	}
	t.Errorf("%s not found by %s with the seeds from %d on; the first of them: go test -tags plant -overlay .plant/overlay.json "+
		"./internal/test/sim -run '^TestPlanted$/^%s$' -seed %d",
		b, u.test, first, b, first)
}
