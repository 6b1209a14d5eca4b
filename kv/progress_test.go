package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

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

// TestProgressOfSnapshotUnderWrites resumes from the first progress of a watch whose snapshot, of several pages, was taken while
// writers were at work: with the snapshot, what follows leads to the state at the end.
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
					// Another writer may have deleted it just before.
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
