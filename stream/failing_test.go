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

// reads returns calls that read a stream with groups, and another that does not exist.
func reads(t *testing.T, r *machinetest.Rig) map[string]func() (any, error) {
	s, ctx := engine.StoreOf[stream.Store](r.Router(), "n", 0), t.Context()
	calls := map[string]func() (any, error){
		"All": func() (any, error) { return engine.Collect(s.All(ctx)) },
		"Activity": func() (any, error) {
			return s.Activity(ctx, "log", stream.ActivitySpan{From: time.UnixMilli(machinetest.Epoch), Step: time.Second, Parts: 10})
		},
		"Get":            func() (any, error) { return s.Get(ctx, "log") },
		"Groups":         func() (any, error) { return engine.Collect(s.Groups("log").All(ctx)) },
		"Read":           func() (any, error) { return s.Read(ctx, "log", stream.Limit(3)) },
		"Read one":       func() (any, error) { return s.Read(ctx, "log", stream.Partition(1)) },
		"Read of a time": func() (any, error) { return s.Read(ctx, "log", stream.FromTime(time.UnixMilli(machinetest.Epoch+1))) },
		"Read a tail":    func() (any, error) { return s.Read(ctx, "log", stream.Tail(), stream.Limit(2)) },
		"Read a tail of one": func() (any, error) {
			return s.Read(ctx, "log", stream.Tail(), stream.Limit(2), stream.Partition(0))
		},
		"Refs":    func() (any, error) { return s.Refs(ctx, "log", stream.ID{Millis: machinetest.Epoch}) },
		"Records": func() (any, error) { return s.Records(ctx, "log", stream.Ref{Partition: 1, Offset: 1}) },
	}
	for _, group := range []string{"shared", "exclusive", "keyed"} {
		calls["Group "+group] = func() (any, error) { return s.Groups("log").Get(ctx, group) }
		calls["Pending of "+group] = func() (any, error) { return engine.Collect(s.Pending("log", group).All(ctx)) }
	}
	return calls
}

// newReadable returns a rig with a stream of two partitions and groups of all modes.
func newReadable(t *testing.T) *machinetest.Rig {
	t.Helper()
	r, ctx := machinetest.New(t, 1, engine.TableOf[stream.Store]()), t.Context()
	s := engine.StoreOf[stream.Store](r.Router(), "n", 0)
	must(t, s.Create(ctx, "log", stream.Partitions(2)))
	for name, mode := range map[string]stream.Mode{"shared": stream.Shared, "exclusive": stream.Exclusive, "keyed": stream.KeyShared} {
		must(t, s.Groups("log").Create(ctx, name, stream.InMode(mode), stream.FromBeginning()))
	}
	for i := range 12 {
		_, err := s.Append(ctx, "log", stream.Message{Key: string(rune('a' + i%5)), Payload: []byte("p")}, stream.Partition(i%2))
		must(t, err)
		r.Pass(1)
	}
	for _, group := range []string{"shared", "exclusive", "keyed"} {
		for _, consumer := range []string{"x", "y"} {
			_, err := s.ReadGroup(ctx, "log", group, consumer, stream.Limit(3))
			must(t, err)
		}
	}
	return r
}

// TestFailingReads: a call returns the error of any read that fails.
func TestFailingReads(t *testing.T) {
	r := newReadable(t)
	r.EachRead(reads(t, r))
}

// TestMalformedRows: a call that reads a malformed row returns an error.
func TestMalformedRows(t *testing.T) {
	r := newReadable(t)
	r.EachDamage(engine.MachineStream, machinetest.CutShort, reads(t, r))
}
