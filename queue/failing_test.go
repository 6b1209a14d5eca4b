package queue_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
)

// TestEachFailure: a call returns the error of any request to a shard that fails.
func TestEachFailure(t *testing.T) {
	for _, spread := range []bool{false, true} {
		r, ctx := newRig(t, 3), t.Context()
		if err := engine.NewNamespaces(r.Router()).Create(ctx, "n", spread); err != nil {
			t.Fatal(err)
		}
		s := engine.StoreOf[queue.Store](r.Router(), "n", 0)
		for range 3 {
			if _, err := s.Enqueue(ctx, "q", []byte("p")); err != nil {
				t.Fatal(err)
			}
		}
		call := func(f func(s *queue.Store) error) func(engine.Door) error {
			return func(d engine.Door) error { return f(engine.StoreOf[queue.Store](engine.NewRouter(d), "n", 0)) }
		}
		// the thing does not exist, unless the request fails
		missing := func(err error) error { return machinetest.Except(err, queue.ErrNotFound) }
		r.EachFailure(map[string]func(engine.Door) error{
			"Configure":     call(func(s *queue.Store) error { return s.Configure(ctx, "q", queue.Settings{MaxLen: 1000}) }),
			"Delete":        call(func(s *queue.Store) error { return missing(s.Delete(ctx, "none")) }),
			"DeleteDead":    call(func(s *queue.Store) error { return missing(s.DeadLetters("q").Delete(ctx, 99)) }),
			"DeleteMessage": call(func(s *queue.Store) error { return missing(s.Messages("q").Delete(ctx, 99)) }),
			"Dequeue":       call(func(s *queue.Store) error { _, err := s.Dequeue(ctx, "empty"); return err }),
			"Enqueue":       call(func(s *queue.Store) error { _, err := s.Enqueue(ctx, "q", []byte("p")); return err }),
			"EnqueueMany": call(func(s *queue.Store) error {
				_, err := s.EnqueueMany(ctx, "q", []queue.NewMessage{{Payload: []byte("p")}})
				return err
			}),
			"Message":     call(func(s *queue.Store) error { _, err := s.Messages("q").Get(ctx, 1); return err }),
			"Pause":       call(func(s *queue.Store) error { return s.Pause(ctx, "q") }),
			"Purge":       call(func(s *queue.Store) error { _, err := s.Purge(ctx, "empty"); return missing(err) }),
			"Resume":      call(func(s *queue.Store) error { return s.Resume(ctx, "q") }),
			"Requeue":     call(func(s *queue.Store) error { return missing(s.DeadLetters("q").Requeue(ctx, 99)) }),
			"RequeueAll":  call(func(s *queue.Store) error { _, err := s.DeadLetters("q").RequeueAll(ctx); return err }),
			"Stats":       call(func(s *queue.Store) error { _, err := s.Get(ctx, "q"); return err }),
			"All":         call(func(s *queue.Store) error { return machinetest.LastError(s.All(ctx)) }),
			"Page":        call(func(s *queue.Store) error { _, err := s.Page(ctx); return err }),
			"Messages":    call(func(s *queue.Store) error { return machinetest.LastError(s.Messages("q").All(ctx, queue.Limit(2))) }),
			"DeadLetters": call(func(s *queue.Store) error { return machinetest.LastError(s.DeadLetters("q").All(ctx)) }),
			"Dequeue and end": call(func(s *queue.Store) error {
				ms, err := s.Dequeue(ctx, "q", queue.Lease(time.Minute))
				if err != nil || len(ms) == 0 {
					return err
				}
				receipt := ms[0].Receipt
				if _, err := s.Extend(ctx, "q", receipt, time.Minute); err != nil {
					return err
				}
				_, err = s.Nack(ctx, "q", []queue.Receipt{receipt})
				return err
			}),
		})
	}
}

// TestMalformedBodies: a command whose body does not decode is refused.
func TestMalformedBodies(t *testing.T) {
	machinetest.RefusesMalformed(t, engine.MachineQueue, func() *machinetest.Rig { return newRig(t, 1) })
}

// TestMalformedRows: a query that reads a malformed row returns an error, even if only the headers
// of a message do not decode.
func TestMalformedRows(t *testing.T) {
	r := machinetest.New(t, 1, primitives(engine.TableOf[queue.Store]().New)...) // without a cache
	for _, op := range someOps() {
		if out := r.Entry(0, command(t, op))[0]; out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	s, ctx := storeOf(r, "n"), t.Context()
	calls := map[string]func() (any, error){
		"Messages": func() (any, error) { return engine.Collect(s.Messages("q").All(ctx)) },
		"leased":   func() (any, error) { return engine.Collect(s.Messages("q").All(ctx, queue.InState(queue.Leased))) },
		"Dead":     func() (any, error) { return engine.Collect(s.DeadLetters("q").All(ctx)) },
		"All":      func() (any, error) { return engine.Collect(s.All(ctx)) },
	}
	for seq := range uint64(8) {
		calls[fmt.Sprint("message ", seq)] = func() (any, error) {
			m, err := s.Messages("q").Get(ctx, seq)
			return m, machinetest.Except(err, queue.ErrNotFound)
		}
	}
	r.EachDamage(engine.MachineQueue, func(row machinetest.Row) [][]byte {
		return append(machinetest.CutShort(row), bytes.Replace(row.Value, []byte("\x05trace"), []byte("\x7ftrace"), 1),
			bytes.Replace(row.Value, []byte("\x01a\x011"), []byte("\x7fa\x011"), 1))
	}, calls)
}
