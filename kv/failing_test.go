package kv_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// TestEachFailure: a call returns the error of any request to a shard that fails.
func TestEachFailure(t *testing.T) {
	for _, spread := range []bool{false, true} {
		r := machinetest.New(t, 3, engine.TableOf[kv.Store]())
		ctx := t.Context()
		if err := engine.NewNamespaces(r.Router()).Create(ctx, "n", spread); err != nil {
			t.Fatal(err)
		}
		s := engine.StoreOf[kv.Store](r.Router(), "n", 0)
		for i := range 8 {
			if _, err := s.Put(ctx, string(rune('a'+i)), []byte(`{"n":1}`)); err != nil {
				t.Fatal(err)
			}
		}
		call := func(f func(s *kv.Store) error) func(engine.Door) error {
			return func(d engine.Door) error { return f(engine.StoreOf[kv.Store](engine.NewRouter(d), "n", 0)) }
		}
		r.EachFailure(map[string]func(engine.Door) error{
			"All":  call(func(s *kv.Store) error { return machinetest.LastError(s.All(ctx)) }),
			"Page": call(func(s *kv.Store) error { _, err := s.Page(ctx, kv.Limit(2)); return err }),
			"Delete": call(func(s *kv.Store) error {
				_, err := s.Delete(ctx, "none")
				return machinetest.Except(err, kv.ErrNotFound)
			}),
			"Exists":  call(func(s *kv.Store) error { _, err := s.Exists(ctx, "a"); return err }),
			"Get":     call(func(s *kv.Store) error { _, err := s.Get(ctx, "a"); return err }),
			"GetMany": call(func(s *kv.Store) error { _, err := s.GetMany(ctx, "a", "b", "c", "d", "none"); return err }),
			"History": call(func(s *kv.Store) error { _, err := engine.Collect(s.History("a").All(ctx)); return err }),
			"Incr":    call(func(s *kv.Store) error { _, err := s.Incr(ctx, "counter", 1); return err }),
			"JSONGet": call(func(s *kv.Store) error { _, err := s.JSONGet(ctx, "a", "$.n"); return err }),
			"JSONSet": call(func(s *kv.Store) error { _, err := s.JSONSet(ctx, "a", "$.n", []byte("2")); return err }),
			"Persist": call(func(s *kv.Store) error { return s.Persist(ctx, "a") }),
			"Put":     call(func(s *kv.Store) error { _, err := s.Put(ctx, "a", []byte(`{"n":1}`)); return err }),
			"Touch":   call(func(s *kv.Store) error { return s.Touch(ctx, "a", time.Hour) }),
			"Update": call(func(s *kv.Store) error {
				_, err := s.Update(ctx, "a", func(e kv.Entry) ([]byte, error) { return e.Value, nil })
				return err
			}),
			"Wait": call(func(s *kv.Store) error { _, err := s.Wait(ctx, "a"); return err }),
			"TryLock": call(func(s *kv.Store) error {
				l, err := s.TryLock(ctx, "lock", time.Minute)
				if err != nil {
					return machinetest.Except(err, kv.ErrConflict)
				}
				return l.Unlock(ctx)
			}),
		})
	}
}

// TestMalformedBodies: a command whose body does not decode is refused.
func TestMalformedBodies(t *testing.T) {
	machinetest.RefusesMalformed(t, engine.MachineKV, func() *machinetest.Rig { return newRig(t, 1).Rig })
}

// TestFailingReads: a query returns the error of any read that fails, whether it finds recent
// changes in memory or not.
func TestFailingReads(t *testing.T) {
	r, ctx := newRig(t, 1), t.Context()
	s := r.store("n")
	for i := range 30 {
		must(s.Put(ctx, fmt.Sprint("k", i%10), []byte{byte(i)}))
	}
	middle := must(s.Get(ctx, "k3")).Revision - 12
	calls := map[string]func() (any, error){
		"changes":             func() (any, error) { return s.Changes("k", 0).Ask(ctx) },
		"changes of a key":    func() (any, error) { return s.Changes("k3", 0).Ask(ctx) },
		"changes since":       func() (any, error) { return s.Changes("k", middle).Ask(ctx) },
		"changes of it since": func() (any, error) { return s.Changes("k3", middle).Ask(ctx) },
		"Get":                 func() (any, error) { return s.Get(ctx, "k3") },
		"GetMany":             func() (any, error) { return s.GetMany(ctx, "k3", "k4", "none") },
		"History":             func() (any, error) { return s.History("k3").Page(ctx) },
		"Page":                func() (any, error) { return s.Page(ctx, kv.Prefix("k")) },
		"WaitChange":          func() (any, error) { return s.WaitChange(ctx, "k3", middle) },
	}
	r.EachRead(calls)
	r.Restart()
	r.EachRead(calls)
}
