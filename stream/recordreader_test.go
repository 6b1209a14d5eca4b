package stream

import (
	"fmt"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// openQuery reads a stream the way duties of other machines do.
type openQuery struct {
	engine.Query
	namespace, stream string
	use               func(*protocol.Stream, protocol.RecordReader) error
}

func (*openQuery) Machine() engine.MachineID { return engine.MachineStream }

func (*openQuery) Kind() uint8 { return queryActivity + 1 }

func (m *machine) queryOpen(v *engine.View, o *openQuery) error {
	s, r, err := m.OpenStream(v, o.namespace, o.stream)
	if err != nil {
		return err
	}
	return o.use(s, r)
}

// newOpenRig returns a rig that answers openQuery and accepts forwards of any machine.
func newOpenRig(t *testing.T, shards int) *machinetest.Rig {
	p := table()
	p.Queries = append(p.Queries, engine.QueryRow(queryActivity+1, "open", (*machine).queryOpen))
	for i := range p.Commands {
		if c := &p.Commands[i]; c.Kind == kindForward {
			c.From, c.Admit = c.From|engine.FromUsers, func(engine.Command, int) error { return nil }
		}
	}
	return machinetest.New(t, shards, p)
}

// TestRecordReader: other machines see a stream as Read returns it, at one moment.
func TestRecordReader(t *testing.T) {
	r, ctx := newOpenRig(t, 1), t.Context()
	s := engine.StoreOf[Store](r.Router(), "n", 0)
	open := func(namespace, name string, use func(*protocol.Stream, protocol.RecordReader) error) {
		t.Helper()
		if err := r.Query(ctx, 0, &openQuery{namespace: namespace, stream: name, use: use}); err != nil {
			t.Fatal(err)
		}
	}
	absent := func(s *protocol.Stream, _ protocol.RecordReader) error {
		if s != nil {
			t.Errorf("a stream that there is not is %+v", s)
		}
		return nil
	}
	open("n", "log", absent)
	if err := s.Create(ctx, "log", Partitions(2)); err != nil {
		t.Fatal(err)
	}
	open("n", "other", absent)
	var want []Record
	for i := range 6 {
		msg := Message{Key: fmt.Sprint("k", i), Payload: make([]byte, i*700), Headers: map[string]string{"h": fmt.Sprint(i)}}
		for at := range msg.Payload {
			msg.Payload[at] = byte(i)
		}
		a, err := s.Append(ctx, "log", msg, Partition(0))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, Record{Message: msg, ID: a.ID, Offset: a.Offset, LSN: a.LSN})
		r.Advance(1)
	}
	if _, err := s.Trim(ctx, "log", MaxLen(4)); err != nil { // 3 to 6 remain
		t.Fatal(err)
	}
	open("n", "log", func(s *protocol.Stream, reader protocol.RecordReader) error {
		parts := []protocol.Partition{{Here: true, First: 3, Last: 6, LastID: protocol.RecordID(want[5].ID)}, {Here: true, First: 1}}
		if s.ID == 0 || !slices.Equal(s.Partitions, parts) {
			t.Errorf("stream %d: %+v, want %+v", s.ID, s.Partitions, parts)
		}
		for from := range uint64(9) {
			for most := 1; most <= 5; most++ {
				var got []protocol.Record
				err := reader.Read(0, from, func(rec *protocol.Record) bool {
					got = append(got, *rec)
					return len(got) < most
				})
				if err != nil {
					return err
				}
				at := int(min(max(from, 3), 7)) - 1
				wanted := want[at:min(at+most, 6)]
				same := slices.EqualFunc(got, wanted, func(g protocol.Record, w Record) bool {
					return g.ID == protocol.RecordID(w.ID) && g.Offset == w.Offset && g.LSN == w.LSN && g.Key == w.Key &&
						g.Headers["h"] == w.Headers["h"] && string(g.Payload) == string(w.Payload)
				})
				if !same {
					t.Errorf("%d records from %d on: %d, want %d", most, from, len(got), len(wanted))
				}
			}
			found, err := reader.Find(0, func(rec *protocol.Record) bool {
				w := want[rec.Offset-1]
				if rec.ID != protocol.RecordID(w.ID) || rec.LSN != w.LSN {
					t.Errorf("at %d is %+v", rec.Offset, *rec)
				}
				return rec.Offset >= from
			})
			if err != nil || found != min(max(from, 3), 7) {
				t.Errorf("the first one from %d on is %d, %v", from, found, err)
			}
		}
		if found, err := reader.Find(1, func(*protocol.Record) bool { return true }); err != nil || found != 1 {
			t.Errorf("in a partition without records %d is found, %v", found, err)
		}
		return reader.Read(1, 1, func(*protocol.Record) bool { t.Error("a partition without records has one"); return true })
	})
	// Three starts see all four records, the others see 3, 2, 1 and none; each reads up to 1, 2, 3,
	// 4 and 5 of them.
	reads := int64(0)
	for _, left := range []int{4, 4, 4, 4, 3, 2, 1, 0, 0} {
		for most := 1; most <= 5; most++ {
			reads += int64(min(left, most))
		}
	}
	if st, err := s.Get(ctx, "log"); err != nil || st.Reads != reads {
		t.Errorf("%d reads are counted, %v, want %d", st.Reads, err, reads)
	}
	query := func(use func(protocol.RecordReader) (any, error)) func() (any, error) {
		return func() (got any, err error) {
			read := func(_ *protocol.Stream, reader protocol.RecordReader) error {
				got, err = use(reader)
				return err
			}
			err = r.Query(ctx, 0, &openQuery{namespace: "n", stream: "log", use: read})
			return got, err
		}
	}
	calls := map[string]func() (any, error){
		"Find": query(func(reader protocol.RecordReader) (any, error) {
			return reader.Find(0, func(rec *protocol.Record) bool { return rec.Offset > 6 })
		}),
		"Read": query(func(reader protocol.RecordReader) (any, error) {
			var got []protocol.Record
			err := reader.Read(0, 0, func(rec *protocol.Record) bool {
				got = append(got, *rec)
				return true
			})
			return got, err
		}),
	}
	r.EachRead(calls)
	r.EachDamage(engine.MachineStream, machinetest.CutShort, calls)
}

// TestForward: records that other machines append to a stream of a spread namespace reach the
// partitions of their keys, in order.
func TestForward(t *testing.T) {
	const shards, partitions = 4, 8
	r, ctx := newOpenRig(t, shards), t.Context()
	if err := engine.NewNamespaces(r.Router()).Create(ctx, "wide", true); err != nil {
		t.Fatal(err)
	}
	s := engine.StoreOf[Store](r.Router(), "wide", 0)
	for name, n := range map[string]int{"log": partitions, "narrow": 1} {
		if err := s.Create(ctx, name, Partitions(n)); err != nil {
			t.Fatal(err)
		}
	}
	forward := func(name string, msgs ...Message) {
		t.Helper()
		cmd := engine.OpOf(AppendManyOp(name, msgs)).Command
		cmd.Kind, cmd.Namespace, cmd.Spread = kindForward, "wide", true
		if _, err := r.Propose(ctx, engine.NameShard("wide", name, shards), cmd); err != nil {
			t.Fatal(err)
		}
	}
	want := make(map[string][]string) // by key
	for round := range 3 {
		var msgs []Message
		for i := range 40 {
			msg := Message{Key: fmt.Sprint("k", i%20), Payload: fmt.Append(nil, round, " ", i)}
			msgs = append(msgs, msg)
			want[msg.Key] = append(want[msg.Key], string(msg.Payload))
		}
		forward("log", msgs...)
	}
	got, of, used := make(map[string][]string), make(map[string]int), make(map[int]bool)
	all, err := s.Read(ctx, "log", Limit(MaxReadLimit))
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range all {
		got[rec.Key] = append(got[rec.Key], string(rec.Payload))
		if p, known := of[rec.Key]; known && p != rec.Partition {
			t.Errorf("records of key %s are in partitions %d and %d", rec.Key, p, rec.Partition)
		}
		of[rec.Key], used[rec.Partition] = rec.Partition, true
	}
	if len(used) < partitions/2 {
		t.Errorf("20 keys are in %d partitions", len(used))
	}
	for k, payloads := range want {
		if !slices.Equal(got[k], payloads) {
			t.Errorf("of key %s are there %q, want %q", k, got[k], payloads)
		}
		if a, err := s.Append(ctx, "log", Message{Key: k}); err != nil || a.Partition != of[k] {
			t.Errorf("an append of key %s gets into partition %d, a forwarded record into %d, %v", k, a.Partition, of[k], err)
		}
	}
	here := 0
	for shard := range shards {
		err := r.Query(ctx, engine.ShardID(shard),
			&openQuery{namespace: "wide", stream: "log", use: func(s *protocol.Stream, _ protocol.RecordReader) error {
				for p := range s.Partitions {
					if s.Partitions[p].Here {
						here++
					}
				}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if here != partitions {
		t.Errorf("%d of %d partitions are in one shard", here, partitions)
	}
	for i := range 30 {
		forward("log", Message{Payload: []byte("unkeyed")}, Message{Payload: []byte("unkeyed")})
		forward("narrow", Message{Key: fmt.Sprint(i)}, Message{})
	}
	turns := make(map[int]int)
	if all, err = s.Read(ctx, "log", Limit(MaxReadLimit)); err != nil {
		t.Fatal(err)
	}
	for _, rec := range all {
		if string(rec.Payload) == "unkeyed" {
			turns[rec.Partition]++
		}
	}
	sum := 0
	for _, n := range turns {
		sum += n
	}
	if sum != 60 || len(turns) < 2 {
		t.Errorf("60 records without a key are in partitions %v", turns)
	}
	if all, err = s.Read(ctx, "narrow", Limit(MaxReadLimit)); err != nil || len(all) != 60 {
		t.Errorf("%d records are in the stream of one partition, %v, want 60", len(all), err)
	}
}
