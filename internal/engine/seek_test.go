package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// TestSeek: an iterator of a view moves to the first row at or after a key, and to the last one
// before it, within its bounds.
func TestSeek(t *testing.T) {
	asked := false
	r := newLooker(t, &looker{gets: func(v *engine.View) error {
		ns, _ := v.Namespace("default")
		it, err := v.Iter(counterRow(ns, "counter2"), counterRow(ns, "counter4"))
		if err != nil {
			return err
		}
		is := func(what string, ok bool, want string) {
			t.Helper()
			if got := ""; ok {
				if got = string(it.Key()[4:]); got != want {
					t.Errorf("%s is at %q, want %q", what, got, want)
				}
			} else if want != "" {
				t.Errorf("%s finds nothing, want %q", what, want)
			}
		}
		is("SeekGE of a row", it.SeekGE(counterRow(ns, "counter25")), "counter25")
		is("Next", it.Next(), "counter26")
		is("SeekGE between rows", it.SeekGE(counterRow(ns, "counter291")), "counter3")
		is("SeekGE before all", it.SeekGE(counterRow(ns, "a")), "counter2")
		is("SeekGE behind all", it.SeekGE(counterRow(ns, "counter5")), "")
		is("SeekLT of a row", it.SeekLT(counterRow(ns, "counter25")), "counter24")
		is("Next", it.Next(), "counter25")
		is("SeekLT behind all", it.SeekLT(counterRow(ns, "z")), "counter39")
		is("SeekLT of the first", it.SeekLT(counterRow(ns, "counter2")), "")
		is("First", it.First(), "counter2")
		asked = true
		return it.Close()
	}})
	if err := r.execs[0].Query(t.Context(), &toy.Sum{Namespace: "default"},
		engine.Replica{Now: func() int64 { return r.now }}); err != nil || !asked {
		t.Errorf("err = %v, asked: %t", err, asked)
	}
}

// TestEnded: a query with expensive work per row can check whether its caller still waits.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newLooker(t, &looker{gets: func(v *engine.View) error {
		if err := v.Ended(); err != nil {
			t.Errorf("Ended() = %v before its caller is gone", err)
		}
		cancel()
		if err := v.Ended(); !errors.Is(err, context.Canceled) {
			t.Errorf("Ended() = %v", err)
		}
		return nil
	}})
	err := r.execs[0].Query(ctx, &toy.Sum{Namespace: "default"}, engine.Replica{Now: func() int64 { return r.now }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}
