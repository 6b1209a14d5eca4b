package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/kv"
)

func TestProgress(t *testing.T) {
	ctx, s := within(t), openStore(t)
	must(s.Put(ctx, "a", []byte("1")))
	must(s.Put(ctx, "b", []byte("2")))
	w := watch(t, ctx, s, "", kv.Progress())
	w.want("put a=1", "put b=2")
	e, err, _ := w.next()
	if err != nil || e.Type != kv.EventProgress || e.Revision == 0 {
		t.Fatalf("after the snapshot the watch tells %+v, %v; want progress", e, err)
	}
	must(s.Delete(ctx, "a"))
	last := must(s.Put(ctx, "b", []byte("3")))
	resumed := watch(t, ctx, s, "", kv.FromRevision(e.Revision), kv.Progress())
	resumed.want("delete a=", "put b=3")
	if e, err, _ := resumed.next(); err != nil || e.Type != kv.EventProgress || e.Revision < last.Revision {
		t.Errorf("after the changes the watch tells %+v, %v; want progress up to %d", e, err, last.Revision)
	}
}

// TestProgressOfQuietPrefix: a watch of quiet keys receives progress while other keys of the shard
// change, even after more changes than the shard remembers. The other changes do not wake it.
// Neither it nor a watch resumed there misses later changes.
func TestProgressOfQuietPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := newAsked(t)
		ctx, cancel := context.WithCancel(t.Context())
		must(s.Put(ctx, "quiet/a", []byte("1")))
		events := make(chan kv.Event)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range s.Watch(ctx, "quiet/", kv.Progress()) {
				if err == nil {
					events <- e
				}
			}
		}()
		defer func() { cancel(); <-done }()
		want := func(what string, typ kv.EventType, atLeast uint64) kv.Event {
			t.Helper()
			synctest.Wait()
			select {
			case e := <-events:
				if e.Type != typ || e.Revision < atLeast {
					t.Fatalf("%s: %v at %d, want %v at %d or later", what, e.Type, e.Revision, typ, atLeast)
				}
				return e
			default:
				t.Fatalf("%s: no event, want %v", what, typ)
				return kv.Event{}
			}
		}
		want("snapshot", kv.EventPut, 1)
		last := want("snapshot", kv.EventProgress, 1).Revision
		quarter := func() {
			a.Pass(2500)
			<-time.After(2500 * time.Millisecond)
			synctest.Wait()
		}
		for round := range 2 {
			synctest.Wait()
			looks := a.looks.Load()
			for range 4 {
				putMany(t, a.Rig, "busy%05d", kv.MaxRecent/3, 0)
				quarter()
			}
			e := want("quiet time", kv.EventProgress, last+kv.MaxRecent)
			last = e.Revision
			synctest.Wait()
			if n := a.looks.Load() - looks; n > 4 {
				t.Errorf("round %d: the watch has looked %d times at what does not concern it", round, n)
			}
		}
		// With no changes at all, there are no events.
		for range 12 {
			quarter()
		}
		select {
		case e := <-events:
			t.Errorf("in a shard at rest: %v at %d", e.Type, e.Revision)
		default:
		}
		w := must(s.Put(ctx, "quiet/b", nil))
		if e := want("change", kv.EventPut, w.Revision); e.Key != "quiet/b" {
			t.Errorf("put of %q", e.Key)
		}
		want("change", kv.EventProgress, w.Revision)
		resumed := watch(t, ctx, s, "quiet/", kv.FromRevision(last))
		resumed.want("put quiet/b=")
		resumed.stop()
	})
}

// TestProgressOfSnapshotUnderWrites resumes from the first progress of a watch whose snapshot, of
// several pages, was taken during writes. The snapshot and the later events together give the final
// state.
func TestProgressOfSnapshotUnderWrites(t *testing.T) {
	ctx, s := within(t), openStore(t)
	const keys = 1000
	name := func(i int) string { return fmt.Sprintf("key-%04d", i%keys) }
	for i := range keys {
		must(s.Put(ctx, name(i), []byte("0")))
	}
	writing, stop := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := w; writing.Err() == nil; i += 37 {
				must(s.Put(ctx, name(i), fmt.Append(nil, i)))
				if i%5 == 0 {
					// Another writer may have deleted it.
					if _, err := s.Delete(ctx, name(i)); err != nil && !errors.Is(err, kv.ErrNotFound) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	defer writers.Wait()
	defer stop()

	state := make(map[string]string)
	keep := func(e kv.Event) {
		if e.Type == kv.EventPut {
			state[e.Key] = string(e.Value)
		} else {
			delete(state, e.Key)
		}
	}
	var from uint64
	for e, err := range s.Watch(ctx, "", kv.Progress()) {
		if err != nil {
			t.Fatal(err)
		}
		if from = e.Revision; e.Type == kv.EventProgress {
			break
		}
		keep(e)
	}
	stop()
	writers.Wait()
	end := must(s.Put(ctx, "~end", nil))
	for e, err := range s.Watch(ctx, "", kv.FromRevision(from)) {
		if err != nil || e.Type == kv.EventCompacted {
			t.Fatalf("resumed at %d: %v, %v", from, e.Type, err)
		}
		if e.Revision == end.Revision {
			break
		}
		keep(e)
	}
	for it, err := range s.All(ctx, kv.Prefix("key-")) {
		if err != nil {
			t.Fatal(err)
		}
		if state[it.Key] != string(it.Value) {
			t.Errorf("%s is %q by the watch and %q in the store", it.Key, state[it.Key], it.Value)
		}
		delete(state, it.Key)
	}
	if len(state) > 0 {
		t.Errorf("the watch knows %d keys that do not exist: %.200v", len(state), state)
	}
}

// TestChangesAskedAgain: a query for changes that is repeated after its call failed returns the
// changes made between the calls. It used to skip them.
func TestChangesAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newAsked(t)
		ctx, cancel := context.WithCancel(t.Context())
		watching := make(chan struct{})
		go func() { // changes always wake a watch
			defer close(watching)
			for range s.Watch(ctx, "") {
			}
		}()
		defer func() { cancel(); <-watching }()
		w := must(s.Put(ctx, "quiet/a", nil))
		c := s.Changes("quiet/", w.Revision)
		once, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if keys, err := c.Ask(once); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("changes %q, %v; want none", keys, err)
		}
		must(s.Put(ctx, "quiet/b", nil))
		must(s.Put(ctx, "other", nil))
		synctest.Wait()
		bounded, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		if keys, err := c.Ask(bounded); err != nil || len(keys) != 1 || keys[0] != "quiet/b" {
			t.Errorf("changes %q, %v; want quiet/b", keys, err)
		}
	})
}
