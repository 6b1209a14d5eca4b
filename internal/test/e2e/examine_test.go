package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// writerPosition is the state of a writer: its position, and the revision of the transaction that
// wrote it.
type writerPosition struct {
	position int
	revision uint64
}

// examiner opens the state after a crash and checks that it consists of exactly the steps up to
// some position of each writer.
type examiner struct {
	t        *testing.T
	folds    [writers]fold
	slowest  time.Duration
	verified int64 // rows
}

// examine checks a copy of dir, so that the next child finds dir as the crash left it. It returns
// the positions of the writers.
func (x *examiner) examine(dir string, spaces map[string]bool) [writers]writerPosition {
	x.t.Helper()
	copied, err := os.MkdirTemp(x.t.TempDir(), "copy")
	if err == nil {
		err = os.CopyFS(copied, os.DirFS(dir))
	}
	if errors.Is(err, os.ErrNotExist) {
		return [writers]writerPosition{} // killed before it created its directory
	}
	if err != nil {
		x.t.Fatal(err)
	}
	x.verify(copied)
	start := time.Now()
	node, err := floe.Open(floe.Config{DataDir: copied, Shards: shards})
	if err != nil {
		x.t.Fatalf("open after the crash: %v", err)
	}
	x.slowest = max(x.slowest, time.Since(start))
	var places [writers]writerPosition
	for w := range writers {
		places[w] = x.checkWriter(node, w)
	}
	x.checkCounts(node)
	for name := range spaces {
		if _, err := node.Namespaces().Get(x.t.Context(), name); err != nil {
			x.t.Errorf("namespace %s, whose creation was acknowledged: %v", name, err)
		}
	}
	if err := node.Close(); err != nil {
		x.t.Fatalf("close: %v", err)
	}
	x.verify(copied)
	if err := os.RemoveAll(copied); err != nil {
		x.t.Fatal(err)
	}
	return places
}

// verify reads all files of the directory after a crash or a clean Close, and every row that
// replaying the log creates.
func (x *examiner) verify(dir string) {
	x.t.Helper()
	x.verified += verifyDir(x.t, nil, dir)
}

// verifyDir verifies a data directory of a single node or of a cluster, and returns the number of
// rows. A nil fsys means the operating system's file system.
func verifyDir(t *testing.T, fsys vfs.FS, dir string) (rows int64) {
	t.Helper()
	// also in a Cleanup
	report, err := shard.Verify(context.Background(), shard.VerifyConfig{FS: fsys, Dir: dir, Primitives: primitive.All()})
	if errors.Is(err, engine.ErrInvalid) || errors.Is(err, os.ErrNotExist) {
		return 0 // killed before it wrote anything, or wiped
	}
	if err != nil {
		t.Errorf("verify %s: %v", dir, err)
	}
	for _, problem := range report.Problems {
		t.Errorf("verify %s: %s", dir, problem)
	}
	for _, n := range report.Rows {
		rows += n
	}
	return rows
}

func (x *examiner) checkWriter(node *floe.Node, w int) writerPosition {
	x.t.Helper()
	ctx, store := x.t.Context(), node.KV(space)
	var at writerPosition
	e, err := store.Get(ctx, positionKey(w))
	if err == nil {
		at.revision = e.Revision
		at.position, err = strconv.Atoi(string(e.Value))
	}
	if err != nil && !errors.Is(err, floe.ErrNotFound) {
		x.t.Fatal(err)
	}
	if err == nil {
		checkHistory(x.t, store, positionKey(w), e.Revision)
	}
	f := x.folds[w].to(w, at.position)
	x.folds[w] = f
	found := 0
	for it, err := range store.All(ctx, kv.Prefix(dataPrefix(w))) {
		if err != nil {
			x.t.Fatal(err)
		}
		found++
		if n, ok := f.data[it.Key]; !ok || string(it.Value) != string(stepValue(w, n)) {
			x.t.Errorf("writer %d at step %d: %s = %.40q, want what step %d wrote: %v", w, at.position, it.Key, it.Value, n, ok)
		}
		checkHistory(x.t, store, it.Key, it.Revision)
	}
	if found != len(f.data) {
		x.t.Errorf("writer %d at step %d: %d keys, want %d", w, at.position, found, len(f.data))
	}
	counter := int64(0)
	if e, err := store.Get(ctx, counterKey(w)); err == nil {
		counter, _ = strconv.ParseInt(string(e.Value), 10, 64)
	}
	if counter != f.counter {
		x.t.Errorf("writer %d at step %d: counter %d, want %d", w, at.position, counter, f.counter)
	}
	for key, n := range f.leases {
		if err := checkLease(ctx, store, key, w, n); err != nil {
			x.t.Errorf("writer %d at step %d: %v", w, at.position, err)
		}
	}
	x.checkQueue(node, w, &f)
	x.checkStream(node, w, &f)
	return at
}

// checkQueue checks that a writer's queue holds the messages of its steps, with the right ones
// leased.
func (x *examiner) checkQueue(node *floe.Node, w int, f *fold) {
	x.t.Helper()
	ctx, store := x.t.Context(), node.Queue(space)
	if f.queue.enqueued == 0 {
		return
	}
	var want, got []string
	for priority, steps := range f.queue.held {
		for i, n := range steps {
			want = append(want, fmt.Sprint(priority, i < f.queue.leased[priority], string(stepValue(w, n))))
		}
	}
	for m, err := range store.Messages(queueName(w)).All(ctx) {
		if err != nil {
			x.t.Fatal(err)
		}
		got = append(got, fmt.Sprint(m.Priority, m.State == queue.Leased, string(m.Payload)))
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("writer %d at step %d: its queue holds\n%.60q\nwant\n%.60q", w, f.position, got, want)
	}
	s, err := store.Get(ctx, queueName(w))
	if err != nil || s.Enqueued != f.queue.enqueued || s.Dequeued != f.queue.taken {
		x.t.Errorf("writer %d at step %d: %+v, %v; want %d enqueued, %d delivered", w, f.position, s, err, f.queue.enqueued, f.queue.taken)
	}
}

// checkStream checks that a writer's stream holds the records of its steps, and that its group has
// delivered the right ones.
func (x *examiner) checkStream(node *floe.Node, w int, f *fold) {
	x.t.Helper()
	ctx, store, s := x.t.Context(), node.Stream(space), &f.stream
	if len(s.steps) == 0 {
		return
	}
	next := s.first
	for after := (stream.ID{}); ; {
		recs, err := store.Read(ctx, streamName(w), stream.After(after))
		if err != nil {
			x.t.Fatal(err)
		}
		if len(recs) == 0 {
			break
		}
		for _, rec := range recs {
			if next >= len(s.steps) || rec.Offset != uint64(next+1) || string(rec.Payload) != string(stepValue(w, s.steps[next])) {
				x.t.Errorf("writer %d at step %d: its stream of %d records has %.40q at offset %d, want record %d", w, f.position,
					len(s.steps), rec.Payload, rec.Offset, next+1)
				return
			}
			next++
		}
		after = recs[len(recs)-1].ID
	}
	if next != len(s.steps) {
		x.t.Errorf("writer %d at step %d: its stream ends at offset %d, want %d", w, f.position, next, len(s.steps))
	}
	if s.next == 0 {
		return
	}
	var want, got []uint64
	for _, at := range s.pending {
		if at >= s.first {
			want = append(want, uint64(at+1))
		}
	}
	pending, err := store.Pending(streamName(w), "g").Page(ctx, stream.Limit(1000))
	for _, p := range pending.Items {
		got = append(got, p.Ref.Offset)
	}
	info, infoErr := store.Groups(streamName(w)).Get(ctx, "g")
	lag := len(s.steps) - max(s.next, s.first)
	if err != nil || infoErr != nil || len(want) < 1000 && !slices.Equal(got, want) || info.Lag() != int64(lag) {
		x.t.Errorf("writer %d at step %d: its group has %d under way (%v), want %d, and %+v (%v), want a lag of %d", w, f.position, got,
			err, want, info, infoErr, lag)
	}
}

// checkLease checks that a key that step n wrote to expire soon exists until it expires and no
// longer.
func checkLease(ctx context.Context, store *kv.Store, key string, w, n int) error {
	e, getErr := store.Get(ctx, key)
	versions, err := engine.Collect(store.History(key).All(ctx))
	if err != nil {
		return err
	}
	put, gone := versions[0], versions[0].Expired
	if gone {
		put = versions[1]
	}
	due := put.Time.Add(leaseTime(n))
	switch {
	case string(put.Value) != string(stepValue(w, n)):
		return fmt.Errorf("%s was %.40q, want what step %d wrote", key, put.Value, n)
	case gone && versions[0].Time.Before(due):
		return fmt.Errorf("%s expired at %v, that is before %v", key, versions[0].Time, due)
	case getErr == nil && !e.ExpiresAt.Equal(due):
		return fmt.Errorf("%s expires at %v, want %v", key, e.ExpiresAt, due)
	case errors.Is(getErr, floe.ErrNotFound) && time.Now().Before(due):
		return fmt.Errorf("%s is gone before %v", key, due)
	case getErr != nil && !errors.Is(getErr, floe.ErrNotFound):
		return getErr
	}
	return nil
}

// checkHistory checks that versions and revisions fall from the present one, without a gap in the
// versions.
func checkHistory(t *testing.T, store *kv.Store, key string, revision uint64) {
	t.Helper()
	versions, err := engine.Collect(store.History(key).All(context.Background()))
	if err != nil {
		t.Fatal(err)
	}
	if versions[0].Revision != revision {
		t.Errorf("history of %s begins at revision %d, the key is at %d", key, versions[0].Revision, revision)
	}
	if want := min(int(versions[0].Version), kv.MaxVersions); len(versions) != want {
		t.Errorf("history of %s at version %d has %d versions, want %d", key, versions[0].Version, len(versions), want)
	}
	for i := 1; i < len(versions); i++ {
		if a, b := versions[i-1], versions[i]; b.Version != a.Version-1 || b.Revision >= a.Revision {
			t.Errorf("history of %s: version %d at revision %d follows version %d at %d", key, a.Version, a.Revision, b.Version, b.Revision)
		}
	}
}

// checkCounts compares the counters of the namespace with a recount. It repeats this if leases
// expire between the two.
func (x *examiner) checkCounts(node *floe.Node) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), 10*time.Second)
	defer cancel()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		info, err := node.Namespaces().Get(ctx, space)
		if errors.Is(err, floe.ErrNotFound) {
			return // killed before it was created
		}
		if err != nil {
			x.t.Fatal(err)
		}
		keys, bytes := recount(x.t, node)
		if info.Counts.Keys == keys && info.Counts.KeyBytes == bytes {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			x.t.Errorf("counted %d keys with %d bytes, there are %d with %d", info.Counts.Keys, info.Counts.KeyBytes, keys, bytes)
			return
		}
	}
}

func recount(t *testing.T, node *floe.Node) (keys, bytes int64) {
	t.Helper()
	for it, err := range node.KV(space).All(t.Context(), kv.NoValues(), kv.Limit(kv.MaxPageItems)) {
		if err != nil {
			t.Fatal(err)
		}
		keys, bytes = keys+1, bytes+int64(len(it.Key)+it.Size)
	}
	return keys, bytes
}
