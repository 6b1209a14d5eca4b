package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
)

var cutsFlag = flag.Int("cuts", 12, "how often TestPower cuts the power, with each durability half of it")

// powerInterval is the sync interval of an Async child.
const powerInterval = 20 * time.Millisecond

// TestPower simulates a power failure of a real file system under a process that has just been
// killed. With Sync no acknowledged write may be lost. With Async a shard may lose the newest
// acknowledged writes, but none from before its last sync, which is at most an interval ago.
// Revisions of lost writes must not be assigned again.
func TestPower(t *testing.T) {
	t.Parallel()
	cuts := *cutsFlag / 2
	if testing.Short() {
		cuts = 6
	}
	for _, durability := range []floe.Durability{floe.Sync, floe.Async} {
		t.Run(durability.String(), func(t *testing.T) { cutMany(t, durability == floe.Async, cuts) })
	}
}

func cutMany(t *testing.T, async bool, cuts int) {
	start := time.Now()
	p := &parent{t: t, rng: rand.New(rand.NewPCG(machinetest.Seed(t), 2)), writing: 15 * powerInterval}
	disk, x := newExt4(t), &examiner{t: t}
	dir := filepath.Join(disk.root, "data")
	var lg ledger
	when := []moment{inWrites, inFlushes, inWrites, inOpen, inFlushes, atFirstAck, inWrites, inClose}
	seen, steps := 0, 0
	for round := range cuts {
		m := when[round%len(when)]
		o := order{Dir: dir, Async: async, Interval: powerInterval, Small: m == inFlushes || p.rng.IntN(3) == 0, Life: round}
		l := p.kill(o, m)
		if disk.cut() {
			seen++
		}
		lg.live(l, async)
		if err := lg.survive(x.examine(dir, lg.spaces), l, async); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("cut %d failed, at %v, with %+v", round, m, o)
		}
	}
	for _, at := range lg.stand {
		steps += at.position
	}
	t.Logf("%d cuts in %v, %d of them seen to lose what nobody had synced: %d transactions survived, %d acknowledged ones were lost "+
		"in %d cuts, "+
		"at most %v before the kill, %d rows verified, slowest open %v", cuts, time.Since(start).Round(time.Millisecond), seen, steps,
		lg.lost, lg.losing, lg.longest, x.verified, x.slowest)
	// A file system commits on its own every five seconds, perhaps just before a cut.
	if seen < cuts*3/4 || steps < cuts || x.verified == 0 || async && lg.losing == 0 && !testing.Short() {
		t.Error("hardly any cut has lost anything, or there was hardly any transaction: the test has not tested what it should")
	}
}

// ledger records the acknowledged writes of all lives on a disk, and what has survived.
type ledger struct {
	stand   [writers]writerPosition // after the last cut
	acked   [writers]writerPosition // since then, or the stand
	highest [shards]uint64          // highest revision ever acknowledged
	spaces  map[string]bool
	reused  error

	lost, losing int
	longest      time.Duration
}

// live records the acknowledged writes of a child, and checks that it has reused no revision of an
// earlier life.
func (lg *ledger) live(l life, async bool) {
	before := lg.highest
	lg.acked = lg.stand
	if lg.spaces == nil {
		lg.spaces = make(map[string]bool)
	}
	for _, s := range l {
		switch s.what {
		case saysAck:
			id := writerShard(s.w)
			if s.revision <= before[id] && lg.reused == nil {
				lg.reused = fmt.Errorf("shard %d: step %d of writer %d got revision %d, but %d had been given out before", id, s.n, s.w,
					s.revision, before[id])
			}
			lg.highest[id] = max(lg.highest[id], s.revision)
			lg.acked[s.w] = writerPosition{s.n, s.revision}
		case saysSaw:
			if at := &lg.acked[s.w]; !async && s.n > at.position {
				*at = writerPosition{s.n, s.revision}
			}
		case saysSpace:
			if !async {
				lg.spaces[s.name] = true
			}
		}
	}
}

// survive compares the state after a cut with the acknowledged writes, and makes it the new stand.
func (lg *ledger) survive(found [writers]writerPosition, l life, async bool) error {
	defer func() { lg.stand = found }()
	if lg.reused != nil {
		return lg.reused
	}
	var end [shards]uint64 // last revision that survived
	for w, at := range found {
		end[writerShard(w)] = max(end[writerShard(w)], at.revision)
		if want := lg.acked[w].position; !async && at.position < want {
			return fmt.Errorf("writer %d: position %d, but %d was acknowledged or shown", w, at.position, want)
		}
		if at.position < lg.stand[w].position {
			return fmt.Errorf("writer %d: position %d, but %d had survived an earlier cut", w, at.position, lg.stand[w].position)
		}
	}
	synced, lost := l.lastSync(), 0
	for i, s := range l {
		if s.what != saysAck || s.n <= found[s.w].position {
			continue
		}
		if s.revision <= end[writerShard(s.w)] {
			return fmt.Errorf("shard %d: step %d of writer %d at revision %d is lost, but revision %d is not: what survived is no prefix",
				writerShard(s.w), s.n, s.w, s.revision, end[writerShard(s.w)])
		}
		if i < synced {
			return fmt.Errorf("step %d of writer %d is lost, although the log was synced after its acknowledgement", s.n, s.w)
		}
		if lost++; lost == 1 {
			if err := lg.late(l[i:]); err != nil {
				return fmt.Errorf("step %d of writer %d: %w", s.n, s.w, err)
			}
		}
	}
	lg.lost += lost
	if lost > 0 {
		lg.losing++
	}
	return nil
}

// late checks that the oldest lost transaction was acknowledged within an interval before the end.
// It uses the child's own time. So a busy machine, or a slow sync, does not count as a late sync.
func (lg *ledger) late(rest life) error {
	const margin = 100 * time.Millisecond
	var age time.Duration
	syncing := false
	for _, s := range rest {
		switch s.what {
		case saysSyncing:
			syncing = true
		case saysSynced:
			syncing = false
		case saysTick:
			if !syncing {
				age += tickTime
			}
		}
	}
	lg.longest = max(lg.longest, age)
	if age > powerInterval+margin {
		return fmt.Errorf("lost %v after its acknowledgement, with a sync every %v", age, powerInterval)
	}
	return nil
}

// lastSync returns where the last completed sync of the log began, or 0.
func (l life) lastSync() int {
	last, began := 0, 0
	for i, s := range l {
		switch s.what {
		case saysSyncing:
			began = i
		case saysSynced:
			last = began
		}
	}
	return last
}
