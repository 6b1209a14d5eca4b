package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
)

// TestDeletesWithoutAByte: other programs have taken all free space, and deletes continue for as
// long as the reserve lasts, which is longer than until the first flush. That flush used to find no
// space, because the reserve was smaller than the flushed data and half of it was for others. It
// was retried in vain, while deletes waited for it and were refused. At the end they are refused
// with a clear error. A delete admitted just before a flush that did not fit used to wait until it
// timed out.
func TestDeletesWithoutAByte(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	small := newSmallFS(vfs.NewCrashableMem(), 16<<20)
	f := &filler{t: t, rng: rand.New(rand.NewPCG(s, 15)), want: make(map[string][]byte)}
	c := smallConfig(small)
	c.BallastBytes = 1 << 20 // four memtables of 128 KiB, and half as much again, besides what is kept
	f.attach(open(t, c))
	var keys []string
	for range 200 {
		must(t, f.put())
	}
	for key := range f.want {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until(ctx, t, "the ballast", func() bool { return f.host.ballastMissing() == 0 })
	must(t, f.host.db.Flush())
	small.eat(0)
	deleted, flushes := 0, f.host.db.Metrics().Flush.Count
	for _, key := range keys {
		_, err := f.store.Delete(ctx, key)
		if errors.Is(err, engine.ErrReadOnly) {
			break
		}
		must(t, err)
		f.want[key] = nil
		deleted++
	}
	if flushes = f.host.db.Metrics().Flush.Count - flushes; flushes < 2 {
		t.Errorf("%d of %d keys were deleted, with %d flushes", deleted, len(keys), flushes)
	}
	f.check("full")
	small.takenByOthers(0)
	f.writable()
	f.check("in the end")
	closeHost(t, f.host)
	t.Logf("%d of %d keys were deleted, with %d flushes", deleted, len(keys), flushes)
}
