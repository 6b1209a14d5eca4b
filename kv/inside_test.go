package kv

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestQueriesArriveAsTheyWere: queries and their results survive encoding between processes.
func TestQueriesArriveAsTheyWere(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	entry := Entry{Key: "k", Value: []byte("value"), Revision: 3, Version: 4, UpdatedAt: at(5), ExpiresAt: at(6)}
	event := Event{Type: EventDelete, Key: "k", Value: []byte("value"), Revision: 3, Version: 4, Time: at(5)}
	version := Version{Version: 3, Revision: 4, Term: 5, Time: at(6), Size: 7, Tombstone: true, Expired: true, Value: []byte("value")}
	wire := engine.NewWire([]engine.Primitive{table()})
	for _, tt := range []struct{ asked, answered engine.Query }{
		{
			&getQuery{namespace: "n", keys: []string{"k", "l"}, withoutValues: true},
			&getQuery{namespace: "n", keys: []string{"k", "l"}, withoutValues: true, entries: []Entry{entry}, left: 1},
		},
		{
			&scanQuery{namespace: "n", prefix: "p", after: "a", limit: 2, keysOnly: true, maxBytes: 3, position: true},
			&scanQuery{
				namespace: "n", prefix: "p", after: "a", limit: 2, keysOnly: true, maxBytes: 3, position: true,
				items: []Item{{Entry: entry, Size: 5}}, more: true, last: "l", lsn: 6,
			},
		},
		{
			&historyQuery{namespace: "n", key: "k", withoutValues: true, before: 4, limit: 2},
			&historyQuery{
				namespace: "n", key: "k", withoutValues: true, before: 4, limit: 2,
				found: true, versions: []Version{version, {Version: 2, Revision: 1, Time: at(0)}}, more: true,
			},
		},
		{&waitQuery{namespace: "n", key: "k", after: 3, exists: true},
			&waitQuery{namespace: "n", key: "k", after: 3, exists: true, event: event}},
		{
			&changesQuery{namespace: "n", prefix: "p", after: 3, limit: 4, queue: []recentKey{{5, []byte("k")}}, queueEnd: 6, scanned: "s",
				patience: minPatience},
			&changesQuery{
				namespace: "n", prefix: "p", after: 3, limit: 4, queue: []recentKey{{7, []byte("l")}}, queueEnd: 8, scanned: "t",
				patience: minPatience,
				events:   []Event{event}, next: 9, compacted: true,
			},
		},
	} {
		got, err := wire.DecodeQuery(engine.AppendQuery(nil, tt.asked))
		if err != nil || !reflect.DeepEqual(got, tt.asked) {
			t.Errorf("%T arrives as %+v, %v, want %+v", tt.asked, got, err, tt.asked)
			continue
		}
		if err := engine.DecodeResults(got, engine.AppendResults(nil, tt.answered)); err != nil || !reflect.DeepEqual(got, tt.answered) {
			t.Errorf("the answer of %T arrives as %+v, %v, want %+v", tt.asked, got, err, tt.answered)
		}
	}
	for _, n := range []int{maxSentQueue - 1, maxSentQueue, maxSentQueue + 1} {
		asked := &changesQuery{limit: 1, queueEnd: 1 << 20}
		for i := range n {
			asked.queue = append(asked.queue, recentKey{uint64(10 * i), fmt.Append(nil, i)})
		}
		got, err := wire.DecodeQuery(engine.AppendQuery(nil, asked))
		if err != nil {
			t.Fatal(err)
		}
		q, sent, end := got.(*changesQuery), min(n, maxSentQueue), uint64(1<<20)
		if n > maxSentQueue {
			end = 10 * (maxSentQueue - 1) // after the entries that were sent
		}
		if !reflect.DeepEqual(q.queue, asked.queue[:sent]) || q.queueEnd != end || len(asked.queue) != n || asked.queueEnd != 1<<20 {
			t.Errorf("of %d changes %d arrive, told up to %d, want %d up to %d", n, len(q.queue), q.queueEnd, sent, end)
		}
	}
	result := func(err error) error {
		if err != nil {
			return engine.Errorf(ErrInvalid, "%v", err)
		}
		return nil
	}
	arrives := func(q engine.Query) error { _, err := wire.DecodeQuery(engine.AppendQuery(nil, q)); return result(err) }
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "limit of a listing", Least: 1, Most: MaxPageItems, Try: func(n int64) error { return arrives(&scanQuery{limit: int(n)}) }},
		{Name: "bytes of a listing", Least: 0, Most: maxPageBytes,
			Try: func(n int64) error { return arrives(&scanQuery{limit: 1, maxBytes: int(n)}) }},
		{Name: "limit of changes", Least: 1, Most: watchPage, Try: func(n int64) error { return arrives(&changesQuery{limit: int(n)}) }},
		{Name: "patience", Least: minPatience, Most: maxPatience,
			Try: func(n int64) error { return arrives(&changesQuery{limit: 1, patience: n}) }},
		{Name: "keys that are left of three", Least: 0, Most: 2, Try: func(n int64) error {
			return result(engine.DecodeResults(&getQuery{keys: make([]string, 3)}, engine.AppendResults(nil, &getQuery{left: int(n)})))
		}},
	})
	if err := arrives(&changesQuery{limit: 1, patience: 0}); err != nil {
		t.Errorf("changes without patience: %v", err)
	}
}

// valueQuery reads a key as the duties of other machines do.
type valueQuery struct {
	engine.Query
	namespace, key string
	now            int64
	value          []byte
}

func (*valueQuery) Machine() engine.MachineID { return engine.MachineKV }

func (*valueQuery) Kind() uint8 { return queryChanges + 1 }

func (m *machine) queryValue(v *engine.View, q *valueQuery) (err error) {
	q.value, err = m.ReadValue(v, q.namespace, []byte(q.key), q.now)
	return err
}

// TestPutInJSON: conditions and times to live of a put in JSON, and those that exclude each other.
func TestPutInJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"value":"eA==","if_revision":5}`:                  "{5 3} 0",
		`{"value":"eA==","if_present":true,"ttl_ms":7}`:     "{0 2} 7",
		`{"value":"eA==","keep_ttl":true}`:                  fmt.Sprint("{0 0} ", int64(keepTTL)),
		`{"value":"eA==","if_absent":true,"if_revision":5}`: "contradicting conditions: absent and revision 5",
		`{"value":"eA==","if_revision":0}`:                  "{0 1} 0", // absent
		`{"value":"eA==","keep_ttl":true,"ttl_ms":7}`:       "TTL",
	} {
		var b putBody
		got := ""
		if err := codec.ReadJSON([]byte(text), true, b.code); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprintf("{%d %d} %d", b.revision, b.cond, b.ttl)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// TestValuesForOtherMachines: other machines put several keys with one command, each with its own
// revision. They read the same values as Get.
func TestValuesForOtherMachines(t *testing.T) {
	p := table()
	p.Queries = append(p.Queries, engine.QueryRow(queryChanges+1, "value", (*machine).queryValue))
	for i := range p.Commands { // the test has no other machine to send it
		if c := &p.Commands[i]; c.Kind == kindPutMany {
			c.From, c.Admit = engine.FromUsers, func(engine.Command, int) error { return nil }
		}
	}
	r := machinetest.New(t, 1, p)
	put := func(key, value string, opts ...PutOption) []byte {
		t.Helper()
		cmd, err := engine.OpOf(PutOp(key, []byte(value), opts...)).Limit(DefaultMaxValueBytes)
		if err != nil {
			t.Fatal(err)
		}
		return cmd.Body
	}
	putMany := func(bodies ...[]byte) error {
		var all []byte
		for _, b := range bodies {
			all = codec.AppendBytes(all, b)
		}
		out, stopped := r.Try(0, engine.Command{Machine: engine.MachineKV, Kind: protocol.KindPutMany, Namespace: "n", Body: all})
		if stopped {
			return engine.ErrMalformed
		}
		return out.Err
	}
	valueOf := func(namespace, key string, now int64) []byte {
		t.Helper()
		q := &valueQuery{namespace: namespace, key: key, now: now}
		if err := r.Query(t.Context(), 0, q); err != nil {
			t.Fatal(err)
		}
		return q.value
	}
	if got := valueOf("n", "a", machinetest.Epoch); got != nil {
		t.Errorf("in a namespace that is not there a is %q", got)
	}
	if err := putMany(put("a", "1"), put("b", "", TTL(time.Second)), put("a", "2", IfAbsent()), put("c", "3", IfAbsent()),
		put("a", "4")); err != nil {
		t.Fatal(err)
	}
	var revisions []uint64
	for _, key := range []string{"a", "b", "c"} {
		q := &getQuery{namespace: "n", keys: []string{key}}
		if err := r.Query(t.Context(), 0, q); err != nil || len(q.entries) != 1 {
			t.Fatalf("%s: %d entries, %v", key, len(q.entries), err)
		}
		revisions = append(revisions, q.entries[0].Revision)
	}
	if a, b, c := revisions[0], revisions[1], revisions[2]; !(b < c && c < a) {
		t.Errorf("revisions of a, b, c: %v, want those of b, c, a to ascend", revisions)
	}
	for _, c := range []struct {
		key  string
		now  int64
		want []byte
	}{
		{"a", machinetest.Epoch, []byte("4")}, {"b", machinetest.Epoch + 999, []byte{}}, {"b", machinetest.Epoch + 1000, nil}, {"c",
			machinetest.Epoch, []byte("3")}, {"d", machinetest.Epoch, nil},
	} {
		if got := valueOf("n", c.key, c.now); !bytes.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s at %d is %#v, want %#v", c.key, c.now-machinetest.Epoch, got, c.want)
		}
	}
	remove := engine.OpOf(DeleteOp("a"))
	cmd, err := remove.Limit(DefaultMaxValueBytes)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Namespace = "n"
	if out := r.Entry(0, cmd)[0]; out.Err != nil {
		t.Fatal(out.Err)
	}
	if got := valueOf("n", "a", machinetest.Epoch); got != nil {
		t.Errorf("a deleted key is %q", got)
	}
	r.Verify()
	for name, bodies := range map[string][][]byte{
		"one that is too short": {put("e", "1"), {1}}, "a key that cannot be": {put("e", "1"),
			slices.Concat([]byte{0}, put("e", "1")[2:])},
	} {
		if err := putMany(bodies...); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := new(machine).putMany(nil, []byte{5, 1}); err == nil {
		t.Error("a body that ends early is taken")
	}
}

// TestTimesToLiveOfOtherProcesses checks the limits of a command's numbers.
func TestTimesToLiveOfOtherProcesses(t *testing.T) {
	machinetest.TryLimits(t, []machinetest.Limit{{Name: "time to live", Least: math.MinInt64, Most: maxTTLMillis,
		Says: []string{"ttl of", "ms is not in 0-"}, Try: func(n int64) error {
			return DecodeBody(kindTouch, PutCommandBody("k", uint64(n)))
		}}})
}

// TestOldestChanges: a scan keeps the oldest changes up to its limit, and remembers up to where
// they are complete.
func TestOldestChanges(t *testing.T) {
	o := newOldest(&changesQuery{queueEnd: 100})
	o.limit = 3
	for _, revision := range []uint64{50, 20, 70, 10, 101, 60, 30, 100} {
		if compacted, err := o.addKey(nil, 1, []byte("k"), row{revision: revision, version: 1}, 0); compacted || err != nil {
			t.Fatalf("revision %d: %v, %v", revision, compacted, err)
		}
	}
	var got []uint64
	for _, k := range o.sorted() {
		got = append(got, k.revision)
	}
	if !slices.Equal(got, []uint64{10, 20, 30}) || o.upTo != 30 {
		t.Errorf("kept %d up to %d", got, o.upTo)
	}
}

// TestGuards: the condition of a command is checked whatever it writes.
func TestGuards(t *testing.T) {
	r, ctx := machinetest.New(t, 1, table()), t.Context()
	s := engine.StoreOf[Store](r.Router(), "n", 0)
	if _, err := s.Put(ctx, "k", []byte("1")); err != nil {
		t.Fatal(err)
	}
	g := guard{cond: absent}
	for name, op := range map[string]engine.Op{
		"incr":        incr.Op("k", incrBody{g, 1, math.MinInt64, math.MaxInt64, 0}, nil),
		"json set":    jsonSet.Op("k", jsonSetBody{guard: g, raw: []byte("2")}, nil),
		"json delete": jsonDelete.Op("k", jsonDeleteBody{guard: g}, nil),
	} {
		cmd, err := op.Limit(100)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Namespace = "n"
		var conflict *ConflictError
		if _, err := r.Propose(ctx, 0, cmd); !errors.As(err, &conflict) || conflict.Key != "k" {
			t.Errorf("%s of a key that must be absent: %v, want a conflict", name, err)
		}
	}
	if e, err := s.Get(ctx, "k"); err != nil || string(e.Value) != "1" {
		t.Errorf("Get = %+v, %v", e, err)
	}
	if _, err := s.History("k").Page(ctx, Cursor("x")); !errors.Is(err, ErrInvalid) {
		t.Errorf("History with a malformed cursor: %v, want ErrInvalid", err)
	}
}
