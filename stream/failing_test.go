package stream_test

import (
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// TestEachFailure: if any request of a call to a shard fails, the call returns that error.
func TestEachFailure(t *testing.T) {
	for _, spread := range []bool{false, true} {
		r, ctx := machinetest.New(t, 3, engine.TableOf[stream.Store]()), t.Context()
		if err := engine.NewNamespaces(r.Router()).Create(ctx, "n", spread); err != nil {
			t.Fatal(err)
		}
		s := engine.StoreOf[stream.Store](r.Router(), "n", 0)
		must(t, s.Create(ctx, "log", stream.Partitions(6)))
		var ids []stream.ID
		for p := range 6 {
			a, err := s.Append(ctx, "log", text("%d", p), stream.Partition(p))
			must(t, err)
			ids = append(ids, a.ID)
		}
		must(t, s.Groups("log").Create(ctx, "g"))
		call := func(f func(s *stream.Store) error) func(engine.Door) error {
			return func(d engine.Door) error { return f(engine.StoreOf[stream.Store](engine.NewRouter(d), "n", 0)) }
		}
		// The requested object does not exist, unless the query itself fails.
		missing := func(err error) error { return machinetest.Except(err, stream.ErrNotFound) }
		r.EachFailure(map[string]func(engine.Door) error{
			"Activity": call(func(s *stream.Store) error {
				_, err := s.Activity(ctx, "log", stream.ActivitySpan{From: time.UnixMilli(r.Now()), Step: time.Second, Parts: 10})
				return err
			}),
			"All":    call(func(s *stream.Store) error { return machinetest.LastError(s.All(ctx)) }),
			"Append": call(func(s *stream.Store) error { _, err := s.Append(ctx, "log", text("x")); return err }),
			"AppendMany": call(func(s *stream.Store) error {
				_, err := s.AppendMany(ctx, "log", []stream.Message{text("x")}, stream.Partition(3))
				return err
			}),
			"ConfigureGroup": call(func(s *stream.Store) error {
				return s.Groups("log").Configure(ctx, "g", stream.AckTimeout(time.Minute))
			}),
			"Delete":      call(func(s *stream.Store) error { return missing(s.Delete(ctx, "none")) }),
			"DeleteGroup": call(func(s *stream.Store) error { return missing(s.Groups("log").Delete(ctx, "none")) }),
			"GroupStats":  call(func(s *stream.Store) error { _, err := s.Groups("log").Get(ctx, "g"); return err }),
			"Groups":      call(func(s *stream.Store) error { return machinetest.LastError(s.Groups("log").All(ctx)) }),
			"Leave":       call(func(s *stream.Store) error { return missing(s.Leave(ctx, "log", "g", "none")) }),
			"Pending":     call(func(s *stream.Store) error { return machinetest.LastError(s.Pending("log", "g").All(ctx)) }),
			"Read":        call(func(s *stream.Store) error { _, err := s.Read(ctx, "log"); return err }),
			"Read a tail": call(func(s *stream.Store) error { _, err := s.Read(ctx, "log", stream.Tail()); return err }),
			"Refs":        call(func(s *stream.Store) error { _, err := s.Refs(ctx, "log", ids...); return err }),
			"Records": call(func(s *stream.Store) error {
				_, err := s.Records(ctx, "log", stream.Ref{Partition: 1, Offset: 1}, stream.Ref{Partition: 4, Offset: 1})
				return err
			}),
			"Seek":         call(func(s *stream.Store) error { return s.Seek(ctx, "log", "g", stream.FromBeginning()) }),
			"SetRetention": call(func(s *stream.Store) error { return s.SetRetention(ctx, "log", stream.Retention{MaxAge: time.Hour}) }),
			"Stats":        call(func(s *stream.Store) error { _, err := s.Get(ctx, "log"); return err }),
			"Trim": call(func(s *stream.Store) error {
				_, err := s.Trim(ctx, "log", stream.Before(stream.ID{Millis: 1}))
				return err
			}),
			"ReadGroup": call(func(s *stream.Store) error {
				ds, err := s.ReadGroup(ctx, "log", "g", "c", stream.Limit(1))
				if err != nil || len(ds) == 0 {
					return err
				}
				if _, err := s.Extend(ctx, "log", "g", ds[0].Ref(), time.Minute); err != nil {
					return err
				}
				_, err = s.Nack(ctx, "log", "g", stream.RefsOf(ds))
				return err
			}),
		})
	}
}

// TestMalformedBodies: a command whose body does not decode is rejected.
func TestMalformedBodies(t *testing.T) {
	machinetest.RefusesMalformed(t, engine.MachineStream,
		func() *machinetest.Rig { return machinetest.New(t, 1, engine.TableOf[stream.Store]()) })
}
