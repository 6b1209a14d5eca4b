package kv_test

import (
	"errors"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// TestTombstonesAreKeptForADay: tombstones last a full day, to the millisecond. That includes keys
// deleted just after the one that is due.
func TestTombstonesAreKeptForADay(t *testing.T) {
	const day = 24 * 60 * 60 * 1000
	r := newRig(t, 1)
	s := r.store("n")
	for _, k := range []string{"a", "b"} {
		if _, err := s.Put(t.Context(), k, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []string{"a", "b"} {
		if _, err := s.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		r.Pass(1)
	}
	known := func(k string, want bool) {
		t.Helper()
		r.Fire()
		if _, err := engine.Collect(s.History(k).All(t.Context())); (err == nil) != want || !want && !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("history of %s at %d: %v, want it to be known: %v", k, r.Now()-machinetest.Epoch, err, want)
		}
	}
	r.Pass(day - 3) // to a millisecond before the first one's end
	known("a", true)
	r.Pass(1)
	known("a", false)
	known("b", true)
	r.Pass(1)
	known("b", false)
}
