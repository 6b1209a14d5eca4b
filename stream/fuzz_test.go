package stream_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// command returns an operation's command for namespace n.
func command(tb testing.TB, op engine.Operation) engine.Command {
	tb.Helper()
	cmd, err := engine.OpOf(op).Limit(stream.DefaultMaxPayloadBytes)
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Namespace = "n"
	return cmd
}

// someOps are operations that succeed in this order in an empty namespace.
func someOps() []engine.Operation {
	return []engine.Operation{
		stream.CreateOp("log", stream.Partitions(3), stream.MaxAge(time.Second), stream.MaxLen(4)),
		stream.AppendManyOp("log", []stream.Message{{Key: "a"}, {Payload: []byte("x"), Headers: map[string]string{"h": "v", "i": ""}},
			{Key: "b"}}),
		stream.AppendOp("log", stream.Message{Payload: []byte("y")}, stream.Partition(2), stream.Dedup("p", 7)),
		stream.AppendOp("log", stream.Message{Payload: []byte("z")}, stream.Partition(2), stream.Dedup("p", 8)),
		stream.AppendOp("auto", stream.Message{Payload: []byte("1")}, stream.IfLastID(stream.ID{})),
		stream.SetRetentionOp("log", stream.Retention{MaxAge: time.Hour, MaxLen: 2, MaxBytes: 1 << 20}),
		stream.TrimOp("log", stream.MaxLen(1)),
		stream.TrimOp("log", stream.MaxBytes(1<<20)),
		stream.CreateGroupOp("log", "g", stream.FromEnd()),
		stream.ConfigureGroupOp("log", "g", stream.AckTimeout(time.Second), stream.MaxAttempts(1), stream.Backoff(0, time.Second)),
		stream.SeekOp("log", "g", stream.FromBeginning(), stream.Partition(2)),
		stream.ReadGroupOp("log", "g", "c", stream.Limit(1)),
		stream.ExtendOp("log", "g", []stream.Ref{{Partition: 2, Offset: 1}}, time.Second),
		stream.NackOp("log", "g", []stream.Ref{{Partition: 2, Offset: 1, Attempt: 1}}, stream.Delay(time.Second), stream.Reason("why")),
		stream.NackOp("log", "g", []stream.Ref{{Partition: 2, Offset: 1}, {Partition: 2, Offset: 2}, {Partition: 1, Offset: 7}},
			stream.ToDLQ()),
		stream.AckOp("log", "g", stream.Ref{Partition: 2, Offset: 1, Attempt: 1}),
		stream.LeaveOp("log", "g", "c"),
		stream.TrimOp("log", stream.MaxAge(time.Second), stream.DryRun()),
		stream.TrimOp("log", stream.Before(stream.ID{Millis: machinetest.Epoch, Seq: 1})),
		engine.OpOfCondition(stream.LastIDIs("none", 0, stream.ID{})),
		stream.AppendOp("gone", stream.Message{}),
		stream.DeleteOp("gone", stream.Force()),
	}
}

// strangeOps are commands that no store sends.
func strangeOps() []engine.Operation {
	return []engine.Operation{
		stream.AppendWithSpec("log", 1, 0, 3, 1), stream.AppendWithSpec("log", math.MaxUint64, math.MaxUint64, 1024,
			5), stream.AppendWithSpec("new", 9, 9, 2, 1),
		stream.AdoptOp("log"), stream.DropOp("log"), stream.DropOp("new"), stream.AdoptGroupOp("log", "g"), stream.DropGroupOp("log",
			"g"), stream.DropGroupOp("new", "g"),
	}
}

// FuzzApplyCommand applies arbitrary bodies in a namespace of one shard and in a spread one. A body
// is applied or refused, and the rows stay consistent. Only a body that does not decode may stop
// the shard, and Admit must reject it.
func FuzzApplyCommand(f *testing.F) {
	for _, op := range append(someOps(), strangeOps()...) {
		cmd := command(f, op)
		f.Add(cmd.Kind, cmd.Body, uint16(0))
		f.Add(cmd.Kind, cmd.Body, uint16(2000))
		for kind := uint8(1); kind <= stream.NumKinds; kind++ {
			f.Add(kind, cmd.Body, uint16(1))
		}
	}
	kind := engine.OpOf(someOps()[1]).Command.Kind
	for _, msg := range [][]byte{nil, {0}, {1}, {0, 1}, {0, 1, 1, 'h', 0}, {0, 0x80, 0x80, 0x80, 1}} {
		f.Add(kind, stream.AppendCommandBody("log", msg), uint16(1))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte, wait uint16) {
		r := machinetest.New(t, 2, engine.TableOf[stream.Store]())
		s := engine.StoreOf[stream.Store](r.Router(), "n", 0)
		if len(body)%2 == 0 {
			if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "n", true); err != nil {
				t.Fatal(err)
			}
		}
		for _, op := range someOps() {
			r.Txn("n").Do(op).Commit(t.Context())
		}
		r.Advance(int64(wait))
		spread, _ := r.Router().Spread(t.Context(), "n")
		cmd := engine.Command{Machine: engine.MachineStream, Kind: kind, Namespace: "n", Spread: spread, Body: body}
		p := engine.TableOf[stream.Store]()
		admitted := p.Admit(cmd, 1<<20)
		if admitted == nil {
			machinetest.SameInJSON(t, p, cmd)
		}
		for shard := range engine.ShardID(2) {
			if !spread && shard != engine.HomeShard("n", 2) {
				continue
			}
			out, stopped := r.Try(shard, cmd)
			if stopped {
				if admitted == nil {
					t.Errorf("kind %d, body %q is admitted and stops the shard", kind, body)
				}
				return
			}
			var refused *engine.Error
			var conflict *stream.ConflictError
			if out.Err != nil && !errors.As(out.Err, &refused) && !errors.As(out.Err, &conflict) {
				t.Errorf("kind %d, body %q: %v is no definite refusal", kind, body, out.Err)
			}

			r.Verify()
			r.Advance(int64(wait))
			r.Verify()
		}
		for info, err := range s.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Read(t.Context(), info.Name); err != nil && !errors.Is(err, stream.ErrNotFound) {
				t.Errorf("Read(%q): %v", info.Name, err)
			}
		}
	})
}

// FuzzAdmit checks that Admit rejects every command that the store would not send.
func FuzzAdmit(f *testing.F) {
	for _, op := range append(someOps(), strangeOps()...) {
		cmd := command(f, op)
		f.Add(cmd.Kind, cmd.Body)
	}
	kind := engine.OpOf(someOps()[1]).Command.Kind
	for _, msg := range [][]byte{{0, 0}, {0, 2, 1, 'b', 0, 1, 'a', 0}, {0, 2, 1, 'a', 0, 1, 'a', 0}, {0, 1, 0, 0}} {
		f.Add(kind, stream.AppendCommandBody("log", msg))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		r, s := newStore(t)
		cmd := engine.Command{Machine: engine.MachineStream, Kind: kind, Namespace: "n", Body: body}
		const limit = 100
		p := engine.TableOf[stream.Store]()
		if err := p.Admit(cmd, limit); err != nil {
			if !errors.Is(err, stream.ErrInvalid) {
				t.Errorf("Admit(kind %d, %q) = %v, want ErrInvalid", kind, body, err)
			}
			return
		}
		if r.Entry(0, cmd)[0].Err != nil {
			return
		}
		for info, err := range s.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			recs, err := s.Read(t.Context(), info.Name)
			if err != nil {
				t.Errorf("Read(%q): %v", info.Name, err)
			}
			for _, rec := range recs {
				if len(rec.Payload) > limit {
					t.Errorf("a payload of %d bytes got in", len(rec.Payload))
				}
				if _, err := engine.OpOf(stream.AppendOp("copy", rec.Message)).Limit(limit); err != nil {
					t.Errorf("the message %+v got in, and cannot be appended: %v", rec.Message, err)
				}
			}
		}
	})
}

// FuzzQuery decodes queries of another process and answers the valid ones.
func FuzzQuery(f *testing.F) {
	f.Add(uint8(2), []byte{})
	p := engine.TableOf[stream.Store]()
	for kind := uint8(1); int(kind) <= len(p.Queries); kind++ {
		f.Add(kind, engine.AppendQuery(nil, p.Query(kind))[2:])
	}
	for _, id := range []uint64{0, 1, 2} {
		for _, p := range []int{0, 1, 2, 1023} {
			q := stream.ReadFrom("n", "log", id, p)
			f.Add(q.Kind(), engine.AppendQuery(nil, q)[2:])
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		q, err := engine.NewWire([]engine.Primitive{p}).DecodeQuery(append([]byte{byte(engine.MachineStream), kind}, b...))
		if err != nil {
			return
		}
		r, _ := newStore(t)
		for _, op := range someOps()[:5] {
			r.Entry(0, command(t, op))
		}
		done, cancel := contextThatIsDone()
		defer cancel()
		if err := r.Query(done, 0, q); err != nil {
			return
		}
		if err := engine.DecodeResults(p.Query(kind), engine.AppendResults(nil, q)); err != nil {
			t.Errorf("kind %d: the results of %x cannot be read: %v", kind, b, err)
		}
	})
}

// TestQueriesNameTheField: an out-of-bounds query of another process is rejected with the name of
// the field.
func TestQueriesNameTheField(t *testing.T) {
	for _, partition := range []int{-2, stream.MaxPartitions} {
		_, err := engine.NewWire([]engine.Primitive{engine.TableOf[stream.Store]()}).DecodeQuery(engine.AppendQuery(nil,
			stream.ReadOfPartition("n", "log", partition)))
		wantError(t, "read of a partition that no stream has", err, stream.ErrInvalid, "partition")
	}
}
