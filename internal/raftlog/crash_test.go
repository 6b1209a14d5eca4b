package raftlog

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// beforeWrites calls fn before every operation that changes the file system.
func beforeWrites(fs vfs.FS, fn func(errorfs.Op) error) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return nil
		}
		return fn(op)
	}))
}

func crashClone(fs *vfs.MemFS, percent int, seed uint64) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 2))})
}

// TestCrashAtEveryIOPoint crashes before each file operation of a random workload: what was synced
// must be there, and of the rest a prefix. Of some crashes it also takes every crash during the
// recovery and the first writes after it.
func TestCrashAtEveryIOPoint(t *testing.T) {
	seeds := 12
	if brief() {
		seeds = 1
	}
	reused := 0
	for range seeds {
		seed := rand.Uint64()
		for name, options := range map[string]func(vfs.FS) Options{"small": small, "reusing": reusing, "large": large} {
			t.Run(fmt.Sprintf("segments=%s/seed=%d", name, seed), func(t *testing.T) { reused += crashEverywhere(t, seed, options) })
		}
	}
	if reused < seeds {
		t.Errorf("%d spare files used in all, want at least %d", reused, seeds)
	}
	t.Logf("%d spare files used", reused)
}

// crashEverywhere returns how many spare files became segments.
func crashEverywhere(t *testing.T, seed uint64, options func(vfs.FS) Options) (reused int) {
	fs := vfs.NewCrashableMem()
	var d *driver
	points := 0
	crash := func() {
		points++
		for _, percent := range []int{0, 50, 100} {
			what := fmt.Sprintf("seed %d: crash point %d, %d %% unsynced", seed, points, percent)
			clone := crashClone(fs, percent, seed+uint64(points))
			if points%20 == 0 {
				crashInRecovery(t, what, d, clone, options)
				continue
			}
			l, _ := d.checkSurvivor(t, what, options(clone))
			must(t, "Close", l.Close())
		}
	}
	o := options(beforeWrites(fs, func(op errorfs.Op) error {
		if d != nil {
			crash()
		}
		if op.Kind == errorfs.OpReuseForWrite {
			reused++
		}
		return nil
	}))
	l := mustOpen(t, o)
	d = newDriver(seed, l, 4)
	for range 50 {
		must(t, "step", d.step())
		checkState(t, fmt.Sprintf("seed %d", seed), l, d.now)
	}
	must(t, "Close", l.Close())
	d.synced = len(d.history)
	crash()
	if points < 20 {
		t.Errorf("seed %d: %d crash points, want at least 20", seed, points)
	}
	return reused
}

// crashInRecovery recovers from a crash that left fs, and crashes again before each operation of
// the recovery and of what follows.
func crashInRecovery(t *testing.T, what string, first *driver, fs *vfs.MemFS, options func(vfs.FS) Options) {
	second := &driver{base: state{}, now: state{}, history: first.history, synced: first.synced, maybe: first.maybe}
	second.base = first.base
	point := 0
	crash := func() {
		point++
		for _, percent := range []int{0, 50} {
			what := fmt.Sprintf("%s: second crash point %d, %d %% unsynced", what, point, percent)
			l, _ := second.checkSurvivor(t, what, options(crashClone(fs, percent, uint64(point))))
			must(t, "Close", l.Close())
		}
	}
	l, got := first.checkSurvivor(t, what, options(beforeWrites(fs, func(errorfs.Op) error { crash(); return nil })))
	*second = driver{rng: rand.New(rand.NewPCG(uint64(first.synced), 3)), log: l, shards: 4, base: got, now: got}
	for range 4 {
		must(t, what+": step", second.step())
	}
	must(t, what+": Close", l.Close())
	second.synced = len(second.history)
	crash()
}

// TestKilledProcessThenPowerCut: what a killed process has written but not synced is served after
// Open, so it must be durable by then.
func TestKilledProcessThenPowerCut(t *testing.T) {
	fs := vfs.NewCrashableMem()
	killed := mustOpen(t, small(fs))
	us := []Update{{Shard: 1, HardState: hard(1, 1, 3), Entries: entries(1, 3, 1)}}
	must(t, "Write", killed.Write(us))
	want := state{}.apply(effectsOf(us)...)
	checkState(t, "after the kill", mustOpen(t, small(fs)), want)
	checkState(t, "after the power cut", mustOpen(t, small(crashClone(fs, 0, 0))), want)
}

// TestFailedStartSealsTheOldSegment: the start of a new segment reached the disk although writing
// it failed. It says where the old one ends, so nothing may be added there, even if it fits.
func TestFailedStartSealsTheOldSegment(t *testing.T) {
	fs := vfs.NewCrashableMem()
	fail := false
	l := mustOpen(t, small(failAfterWrite{fs, &fail}))
	first := []Update{{Shard: 1, Entries: entries(1, 7, 1)}}
	must(t, "Write", l.Write(first))
	fail = true
	if err := l.Write([]Update{{Shard: 2, Entries: entries(1, 7, 1)}}); err == nil {
		t.Fatal("Write = nil, want an error")
	}
	fail = false
	second := []Update{{Shard: 1, Entries: entries(8, 8, 1)}}
	must(t, "Write", l.Write(second))
	must(t, "Sync", l.Sync())
	want := state{}.apply(effectsOf(first)...).apply(effectsOf(second)...).settled()
	for _, percent := range []int{0, 100} {
		what := fmt.Sprintf("after a crash with %d %% unsynced", percent)
		checkState(t, what, mustOpen(t, small(crashClone(fs, percent, 0))), want)
	}
}
