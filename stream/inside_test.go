package stream

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestQueriesArriveAsTheyWere: queries and answers are the same after the transfer between
// processes.
func TestQueriesArriveAsTheyWere(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	message := Message{Key: "k", Payload: []byte("payload"), Headers: map[string]string{"a": "b"}}
	record := Record{Message: message, ID: ID{1, 2}, Partition: 3, Offset: 4, LSN: 5}
	stats := Stats{
		Name: "s", Retention: Retention{time.Hour, 2, 3}, CreatedAt: at(4), Appended: 5, Reads: 6,
		Partitions: []PartitionStats{{Partition: 1, Records: 2, Bytes: 3, First: 4, Last: 5, FirstID: ID{6, 7}, LastID: ID{8, 9},
			Shard: 10}},
	}
	sp := spec{id: 1, version: 2, partitions: 3, policy: policy{4, 5, 6}}
	config := groupSpec{1, 2, groupConfig{mode: KeyShared, start: start{startAt, ID{3, 4}}, ackTimeout: 5, maxAttempts: 6, backoffMin: 7,
		backoffMax: 8}}
	group := GroupStats{
		Name: "g", Mode: Exclusive, AckTimeout: 2, MaxAttempts: 3, BackoffMin: 4, BackoffMax: 5, CreatedAt: at(6), Holder: "h",
		Members: []Member{{"c", 1, at(2), at(3)}}, Cursors: []GroupCursor{{1, ID{2, 3}, ID{4, 5}, 6, 7, 8}},
	}
	pending := PendingRecord{ID: ID{1, 2}, Ref: Ref{3, 4, 5, 0}, Consumer: "c", DeliveredAt: at(6), Deadline: at(7), Reason: "why"}
	wire := engine.NewWire([]engine.Primitive{table()})
	for _, tt := range []struct {
		asked  engine.Query
		answer func(engine.Query) // sets an answer
	}{
		{&specQuery{namespace: "n", stream: "s", wait: true, not: 3},
			func(q engine.Query) { q.(*specQuery).found, q.(*specQuery).spec = true, sp }},
		{
			&readQuery{
				namespace: "n", stream: "s", partition: 2, start: start{startTail, ID{3, 4}}, id: 5, strict: true, from: []position{{6, 7}},
				end: ID{8, 9}, limit: 10,
				maxBytes: 11, wait: true,
			},
			func(q engine.Query) {
				r := q.(*readQuery)
				r.found, r.id, r.from, r.records, r.more = true, 12, []position{{1, 2}, {3, 4}}, []Record{record}, true
			},
		},
		{&readQuery{partition: -1, limit: 1}, func(q engine.Query) { q.(*readQuery).from = []position{} }},
		{&statsQuery{namespace: "n", stream: "s", id: 3},
			func(q engine.Query) { q.(*statsQuery).found, q.(*statsQuery).stats = true, stats }},
		{&listQuery{namespace: "n", prefix: "p", after: "a", limit: 4}, func(q engine.Query) {
			l := q.(*listQuery)
			l.streams, l.last, l.more = []listed{{Stats: stats, id: 5, partitions: 6}}, "z", true
		}},
		{&refsQuery{namespace: "n", stream: "s", id: 3, ids: []ID{{4, 5}}},
			func(q engine.Query) { q.(*refsQuery).refs = []Ref{{Partition: 6, Offset: 7}} }},
		{&recordsQuery{namespace: "n", stream: "s", refs: []Ref{{Partition: 6, Offset: 7}}, maxBytes: 3}, func(q engine.Query) {
			q.(*recordsQuery).records, q.(*recordsQuery).done = []Record{record, {Message: Message{Payload: []byte{}}, ID: ID{1, 1}}}, 2
		}},
		{&groupSpecQuery{namespace: "n", stream: "s", group: "g", consumer: "c"}, func(q engine.Query) {
			g := q.(*groupSpecQuery)
			g.spec, g.found, g.config, g.held = sp, true, config, held{true, true, 3}
		}},
		{&groupSpecQuery{namespace: "n"}, func(q engine.Query) { q.(*groupSpecQuery).spec = sp }},
		{
			&groupWaitQuery{namespace: "n", stream: "s", group: "g", consumer: "c", epoch: 5, since: 6, id: 7, home: true},
			func(q engine.Query) { q.(*groupWaitQuery).since = 8 },
		},
		{&groupsQuery{namespace: "n", stream: "s", name: "g", prefix: "p", after: "a", limit: 6, id: 7, spec: &config},
			func(q engine.Query) {
				g := q.(*groupsQuery)
				g.found, g.infos, g.more = true, []GroupStats{group}, true
			}},
		{&groupsQuery{limit: 1}, func(q engine.Query) {}},
		{&pendingQuery{namespace: "n", stream: "s", group: "g", after: Ref{1, 2, 3, 0}, limit: 4, streamID: 5, groupID: 6},
			func(q engine.Query) {
				p := q.(*pendingQuery)
				p.found, p.records, p.more = true, []PendingRecord{pending}, true
			}},
		{&activityQuery{namespace: "n", stream: "s", id: 3, from: -4, step: 5, count: 6, partitions: []int{7, 8}}, func(q engine.Query) {
			q.(*activityQuery).records, q.(*activityQuery).bytes = []int64{1, 2}, []int64{3, 4}
		}},
	} {
		got, err := wire.DecodeQuery(engine.AppendQuery(nil, tt.asked))
		if err != nil || !reflect.DeepEqual(got, tt.asked) {
			t.Errorf("%T arrives as %+v, %v, want %+v", tt.asked, got, err, tt.asked)
			continue
		}
		tt.answer(tt.asked)
		if err := engine.DecodeResults(got, engine.AppendResults(nil, tt.asked)); err != nil || !reflect.DeepEqual(got, tt.asked) {
			t.Errorf("the answer of %T arrives as %+v, %v, want %+v", tt.asked, got, err, tt.asked)
		}
	}
	result := func(err error) error {
		if err != nil {
			return engine.Errorf(ErrInvalid, "%v", err)
		}
		return nil
	}
	arrives := func(q engine.Query) error { _, err := wire.DecodeQuery(engine.AppendQuery(nil, q)); return result(err) }
	answers := func(to, q engine.Query) error { return result(engine.DecodeResults(to, engine.AppendResults(nil, q))) }
	const none = math.MinInt64
	positions := func(n int64) (all []position) { return slices.Repeat([]position{{0, 1}}, int(n)) }
	span := func(from, step int64, count int) error {
		return arrives(&activityQuery{from: from, step: step, count: count})
	}
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "partition of a read", Least: -1, Most: MaxPartitions - 1, Says: []string{"partition"},
			Try: func(n int64) error { return arrives(&readQuery{limit: 1, partition: int(n)}) }},
		{Name: "start of a read", Least: none, Most: int64(numStarts) - 1, Says: []string{"start"},
			Try: func(n int64) error { return arrives(&readQuery{limit: 1, start: start{kind: startKind(n)}}) }},
		{Name: "limit of a read", Least: 1, Most: MaxReadLimit, Says: []string{"limit"},
			Try: func(n int64) error { return arrives(&readQuery{limit: int(n)}) }},
		{Name: "bytes of a read", Least: 0, Most: maxReadBytes, Says: []string{"bytes"},
			Try: func(n int64) error { return arrives(&readQuery{limit: 1, maxBytes: int(n)}) }},
		{Name: "positions of a read", Least: none, Most: MaxPartitions, Says: []string{"from"},
			Try: func(n int64) error { return arrives(&readQuery{limit: 1, from: positions(n)}) }},
		{Name: "partition of a position", Least: 0, Most: MaxPartitions - 1, Says: []string{"partition"},
			Try: func(n int64) error { return arrives(&readQuery{limit: 1, from: []position{{int(n), 1}}}) }},
		{Name: "offset of a position", Least: 1, Most: math.MaxInt64, Says: []string{"partition"},
			Try: func(n int64) error { return arrives(&readQuery{limit: 1, from: []position{{1, uint64(n)}}}) }},
		{Name: "limit of a list", Least: 1, Most: MaxReadLimit, Says: []string{"limit"},
			Try: func(n int64) error { return arrives(&listQuery{limit: int(n)}) }},
		{Name: "limit of groups", Least: 1, Most: MaxReadLimit, Says: []string{"limit"},
			Try: func(n int64) error { return arrives(&groupsQuery{limit: int(n)}) }},
		{Name: "mode of a group", Least: none, Most: int64(numModes) - 1, Says: []string{"group"}, Try: func(n int64) error {
			return arrives(&groupsQuery{limit: 1, spec: &groupSpec{config: groupConfig{mode: Mode(n), ackTimeout: 1}}})
		}},
		{Name: "limit of pending records", Least: 1, Most: MaxReadLimit, Says: []string{"limit"},
			Try: func(n int64) error { return arrives(&pendingQuery{limit: int(n)}) }},
		{Name: "ids", Least: none, Most: MaxReadLimit, Says: []string{"ids"},
			Try: func(n int64) error { return arrives(&refsQuery{ids: make([]ID, n)}) }},
		{Name: "refs", Least: none, Most: MaxReadLimit, Says: []string{"refs"},
			Try: func(n int64) error { return arrives(&recordsQuery{refs: make([]Ref, n)}) }},
		{Name: "partition of a ref", Least: 0, Most: MaxPartitions - 1, Says: []string{"partition"},
			Try: func(n int64) error { return arrives(&recordsQuery{refs: []Ref{{Partition: int(n)}}}) }},
		{Name: "begin of a span", Least: -maxActivityMillis, Most: maxActivityMillis, Says: []string{"from"},
			Try: func(n int64) error { return span(n, 1, 1) }},
		{Name: "step of a span", Least: 1, Most: maxActivityMillis / MaxActivityParts, Says: []string{"step"},
			Try: func(n int64) error { return span(0, n, 1) }},
		{Name: "parts of a span", Least: 1, Most: MaxActivityParts, Says: []string{"parts"},
			Try: func(n int64) error { return span(0, 1, int(n)) }},
		{Name: "partitions of a span", Least: none, Most: MaxPartitions, Says: []string{"partitions"}, Try: func(n int64) error {
			return arrives(&activityQuery{step: 1, count: 1, partitions: make([]int, n)})
		}},
		{Name: "partitions of a stream", Least: 0, Most: MaxPartitions, Says: []string{"partitions"},
			Try: func(n int64) error { return answers(new(specQuery), &specQuery{spec: spec{partitions: int(n)}}) }},
		{Name: "partitions of a listed stream", Least: 1, Most: MaxPartitions, Says: []string{"partitions"}, Try: func(n int64) error {
			return answers(new(listQuery), &listQuery{streams: []listed{{partitions: int(n)}}})
		}},
		{Name: "parts of an activity", Least: none, Most: MaxActivityParts, Says: []string{"parts"}, Try: func(n int64) error {
			return answers(new(activityQuery), &activityQuery{records: make([]int64, n), bytes: make([]int64, n)})
		}},
	})
	if err := answers(new(activityQuery), &activityQuery{records: []int64{1}}); err == nil {
		t.Error("an activity of records without bytes arrives")
	}
	asked := new(recordsQuery)
	b := codec.EncodeFields(nil, &[]Record{record},
		func(all *[]Record, f *codec.Fields) { codec.ListOf(f, "records", all, (*Record).code) })
	if err := engine.DecodeResults(asked, append(b[:len(b)-len(message.append(nil))],
		slices.Repeat([]byte{0xff}, len(message.append(nil))+1)...)); err == nil {
		t.Error("a record whose message is garbage arrives")
	}
}

// TestOutOfRange: values out of range in bodies of other processes and in tokens are refused.
func TestOutOfRange(t *testing.T) {
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "bound of a trim", Least: math.MinInt64, Most: int64(numTrimBounds) - 1, Says: []string{"trim bound"},
			Try: func(n int64) error { return trimStream.Op("s", trimBody{bound: trimBound(n)}, nil).Err }},
		{Name: "receiver of a delivery", Least: math.MinInt64, Most: int64(receiverEnd) - 1, Says: []string{"receiver out of range"},
			Try: func(n int64) error {
				token := deliveryToken{to: receiver(n)}
				c := codec.NewEncoder(nil)
				token.code(&c)
				d := codec.NewDecoder(c.Encoded())
				if token.code(&d); d.Done() != nil {
					return engine.Errorf(ErrInvalid, "%v", d.Done())
				}
				return nil
			}},
	})
	k := pushDueKey(5, 6, "s", "x")
	if due, ns, stream, subscriber, ok := parsePushDue(k); due != 5 || ns != 6 || stream != "s" || subscriber != "x" || !ok {
		t.Errorf("%q is parsed as %d, %d, %q, %q, %v", k, due, ns, stream, subscriber, ok)
	}
	for n := range 14 {
		if _, _, _, _, ok := parsePushDue(k[:n]); ok {
			t.Errorf("%q is parsed", k[:n])
		}
	}
}

// groupRows is a rig with a stream whose groups have rows of all kinds.
type groupRows struct{ tamperer }

func newGroupRows(t *testing.T) groupRows {
	t.Helper()
	r := machinetest.New(t, 1, table())
	ctx, s := t.Context(), engine.StoreOf[Store](r.Router(), "n", 0)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(group, consumer string, opts ...GroupReadOption) []Delivery {
		t.Helper()
		got, err := s.ReadGroup(ctx, "log", group, consumer, opts...)
		do(err)
		return got
	}
	fail := func(group string, d Delivery, opts ...NackOption) {
		t.Helper()
		_, err := s.Nack(ctx, "log", group, []Ref{d.Ref()}, opts...)
		do(err)
	}
	do(s.Create(ctx, "log", Partitions(1)))
	for name, mode := range map[string]Mode{"shared": Shared, "alone": Exclusive, "keyed": KeyShared} {
		do(s.Groups("log").Create(ctx, name, InMode(mode), AckTimeout(time.Minute), MaxAttempts(3)))
	}
	for _, k := range []string{"x", "y", "x", "x", "z"} {
		_, err := s.Append(ctx, "log", Message{Key: k, Payload: []byte("p")})
		do(err)
	}
	fail("shared", read("shared", "a", Limit(1))[0], Delay(time.Second), Reason("why"))
	read("shared", "a", Limit(2))
	read("alone", "a", Limit(2))
	got := read("keyed", "a", Limit(1)) // x: its other records are held
	read("keyed", "b", Limit(10))
	fail("keyed", got[0], Delay(time.Second))
	if found := r.Problems(0); len(found) > 0 {
		t.Fatalf("before anything is changed: %q", found)
	}
	return groupRows{tamperer{t, r}}
}

func (w groupRows) header(group string) groupHeader {
	return must(decodeGroup(w.get(engine.MachineStream, groupKey(nil, w.gen(), group))))
}

func (w groupRows) gen() uint64 { return w.tamperer.header("log").gen }

// first returns the first row of a kind that a group has.
func (w groupRows) first(group string, kind byte) (k, value []byte) {
	w.t.Helper()
	prefix := groupPrefix(nil, kind, w.gen(), w.header(group).id)
	for _, row := range w.Rows(0) {
		if row.Machine == engine.MachineStream && strings.HasPrefix(string(row.Key), string(prefix)) {
			return slices.Clone(row.Key), slices.Clone(row.Value)
		}
	}
	w.t.Fatalf("group %s has no row %c", group, kind)
	return nil, nil
}

func (w groupRows) group(name string, f func(*groupHeader)) {
	g := w.header(name)
	f(&g)
	w.set(groupKey(nil, w.gen(), name), g.encode(nil))
}

func (w groupRows) batch(group string, f func(*batch)) {
	k, value := w.first(group, rowBatch)
	b := must(decodeBatch(k, value))
	f(b)
	w.set(k, b.encode(nil))
}

func (w groupRows) failure(group string, f func(*failure)) {
	k, value := w.first(group, rowFailure)
	b := must(decodeFailure(k, value))
	f(b)
	w.set(k, b.encode(nil))
}

func (w groupRows) member(group string, f func(*member)) {
	k, value := w.first(group, rowMember)
	m := must(decodeMember(value))
	f(&m)
	w.set(k, m.encode(nil))
}

func (w groupRows) cursor(group string, f func(*groupCursor)) {
	k, value := w.first(group, rowCursor)
	c := must(decodeCursor(value))
	f(&c)
	w.set(k, c.encode(nil))
}

// move changes the key of the first row of a kind.
func (w groupRows) move(group string, kind byte, f func(k []byte) []byte) {
	k, value := w.first(group, kind)
	w.set(k, nil)
	w.set(f(k), value)
}

// TestVerifyReportsGroups damages rows of consumer groups: Verify must report it.
func TestVerifyReportsGroups(t *testing.T) {
	last := func(k []byte) []byte { k[len(k)-1] ^= 0x40; return k }
	cases := map[string]struct {
		damage func(groupRows)
		want   string
	}{
		"garbage for a group": {func(w groupRows) { w.set(groupKey(nil, w.gen(), "shared"), []byte{9}) },
			`consumer group "shared": stream group row`},
		"group lost": {func(w groupRows) { w.delete(groupKey(nil, w.gen(), "shared")) }, "belongs to no consumer group"},
		"group of a bad name": {func(w groupRows) { g := w.header("shared"); w.set(groupKey(nil, w.gen(), "a\n"), g.encode(nil)) },
			"control character"},
		"group twice": {func(w groupRows) { g := w.header("shared"); w.set(groupKey(nil, w.gen(), "twin"), g.encode(nil)) },
			"has the id of another group"},
		"group without an id": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.id = 0 }) }, "was created at LSN 0"},
		"group made ahead": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.id = 1 << 40 }) },
			"was created at LSN 1099511627776"},
		"members ahead": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.membersChangedAt = 1 << 40 }) },
			"its members changed at LSN 1099511627776"},
		"announced ahead": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.announced.at = 1 << 60 }) },
			"announced records due at 1152921504606846976"},
		"announced count": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.again++ }) },
			`consumer group "shared": `},
		"slots announced": {func(w groupRows) { w.group("keyed", func(g *groupHeader) { g.heads.set(3, true) }) },
			`consumer group "keyed": `},
		"takes records back": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.recalling = !g.recalling }) },
			`consumer group "shared": `},
		"another holder": {func(w groupRows) { w.group("alone", func(g *groupHeader) { g.holder = "b" }) },
			`but "b" is the exclusive consumer`},
		"no timer": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.timer = 0 }) },
			"1 members and 3 pending records, but no timer"},
		"timer too late": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.timer += 1 << 40 }) },
			"has records due at"},
		"timer not set": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.timer-- }) }, "has no timer at"},
		"timer unknown": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.timer-- }) },
			`consumer group "shared" has a timer at`},
		"timer of no meaning": {func(w groupRows) { w.setTimer(string([]byte{tokenGroup, 1})) }, "with unknown token"},
		"memory of a group": {func(w groupRows) { w.group("shared", func(g *groupHeader) { g.version++ }) },
			`consumer group "shared": memory has`},
		"row of no partition": {func(w groupRows) { k, v := w.first("shared", rowCursor); k[len(k)-1] = 1; w.set(k, v) },
			"belongs to none of the stream's 1 partitions"},
		"row too short": {func(w groupRows) { k, v := w.first("shared", rowCursor); w.set(k[:len(k)-1], v) },
			"belongs to none of the stream's 1 partitions"},
		"garbage for a cursor": {func(w groupRows) { k, _ := w.first("shared", rowCursor); w.set(k, []byte{0}) }, "stream cursor row"},
		"cursor ahead": {func(w groupRows) { w.cursor("shared", func(c *groupCursor) { c.next = 7 }) },
			"before offset 7, but the last offset is 5"},
		"cursor behind": {func(w groupRows) { w.cursor("shared", func(c *groupCursor) { c.next = 3 }) },
			"offset 3 of partition 0 is pending, but only offsets before 3 were read"},
		"sought in the future": {func(w groupRows) { w.cursor("shared", func(c *groupCursor) { c.sought = 1 << 40 }) },
			"was sought in partition 0 at LSN 1099511627776, after the last one"},
		"records under way": {func(w groupRows) { w.cursor("shared", func(c *groupCursor) { c.pending++ }) },
			"counts 4 pending records in partition 0, found 3"},
		"records held": {func(w groupRows) { w.cursor("keyed", func(c *groupCursor) { c.held++ }) },
			"held records of partition 0, found"},
		"garbage for a member": {func(w groupRows) { k, _ := w.first("shared", rowMember); w.set(k, []byte{9}) }, "stream member row"},
		"member lost": {func(w groupRows) { k, _ := w.first("shared", rowMember); w.delete(k) },
			`"a" has 2 records but is not a member`},
		"member of a bad name": {func(w groupRows) {
			w.move("shared", rowMember,
				func(k []byte) []byte { k[len(k)-1] = '\n'; return k })
		}, "control character"},
		"member joined late": {func(w groupRows) { w.member("shared", func(m *member) { m.joined = m.seen + 1 }) },
			`member "a" joined at`},
		"member seen late": {func(w groupRows) { w.member("shared", func(m *member) { m.seen = 1 << 60 }) },
			`was seen at 1152921504606846976`},
		"member's records": {func(w groupRows) { w.member("shared", func(m *member) { m.pending++ }) },
			`counts 3 records of "a", found 2`},
		"member in memory": {func(w groupRows) { w.member("shared", func(m *member) { m.joined-- }) }, "memory has members"},
		"member that ends": {func(w groupRows) { w.member("shared", func(m *member) { m.end = stays + 1 }) },
			`memory has members`},
		"garbage for a batch":    {func(w groupRows) { k, _ := w.first("shared", rowBatch); w.set(k, []byte{9}) }, "stream batch row"},
		"batch lost":             {func(w groupRows) { k, _ := w.first("shared", rowBatch); w.delete(k) }, "the rows "},
		"batch without attempts": {func(w groupRows) { w.batch("shared", func(b *batch) { b.attempt = 0 }) }, "invalid delivery"},
		"batch delivered late": {func(w groupRows) { w.batch("shared", func(b *batch) { b.delivered = 1 << 60 }) },
			"invalid delivery"},
		"batch with keys": {func(w groupRows) { w.batch("shared", func(b *batch) { b.keys = make([]uint64, len(b.offsets)) }) },
			"invalid delivery"},
		"batch without keys": {func(w groupRows) { w.batch("keyed", func(b *batch) { b.keys = nil }) }, "invalid delivery"},
		"batch of an LSN ahead": {func(w groupRows) { w.move("shared", rowBatch, func(k []byte) []byte { k[len(k)-8] = 1; return k }) },
			"invalid delivery"},
		"batch before its first": {func(w groupRows) { w.batch("shared", func(b *batch) { b.offsets[0] = b.first - 1 }) },
			"has records from"},
		"batch that is too wide": {func(w groupRows) {
			w.batch("shared", func(b *batch) { b.offsets[len(b.offsets)-1] = b.first + batchSpan })
		}, "has records from"},
		"record is pending twice": {func(w groupRows) { w.batch("shared", func(b *batch) { b.offsets = []uint64{2, 2} }) },
			"offset 2 of partition 0 is pending twice"},
		"deadline in memory": {func(w groupRows) { w.batch("shared", func(b *batch) { b.deadline++ }) }, "memory has"},
		"garbage for a failure": {func(w groupRows) { k, _ := w.first("shared", rowFailure); w.set(k, []byte{9}) },
			"stream failure row"},
		"failure lost": {func(w groupRows) { k, _ := w.first("shared", rowFailure); w.delete(k) },
			"counts 3 pending records in partition 0, found 2"},
		"failure without attempts": {func(w groupRows) { w.failure("shared", func(f *failure) { f.attempts = 0 }) },
			"invalid failure"},
		"failure delivered late": {func(w groupRows) { w.failure("shared", func(f *failure) { f.delivered = 1 << 60 }) },
			"invalid failure"},
		"failure of no record": {func(w groupRows) {
			w.move("shared", rowFailure,
				func(k []byte) []byte { k[len(k)-1] = 0; return k })
		}, "offset 0 of partition 0 is pending"},
		"reason in memory":           {func(w groupRows) { w.failure("shared", func(f *failure) { f.reason = "other" }) }, "memory has"},
		"key of a failure in memory": {func(w groupRows) { w.failure("keyed", func(f *failure) { f.hash ^= 1 }) }, "memory has"},
		"held record lost":           {func(w groupRows) { k, _ := w.first("keyed", rowHeld); w.delete(k) }, "records of key"},
		"held record of another key": {func(w groupRows) {
			w.move("keyed", rowHeld,
				func(k []byte) []byte { k[behindPart] ^= 1; return k })
		}, "records of key"},
		"held record that is ahead": {func(w groupRows) { w.move("keyed", rowHeld, last) }, "which is pending or was not read"},
		"held record under way": {func(w groupRows) { w.move("keyed", rowHeld, func(k []byte) []byte { k[len(k)-1] = 1; return k }) },
			"which is pending or was not read"},
		"held record of a short key": {func(w groupRows) { w.move("keyed", rowHeld, func(k []byte) []byte { return k[:len(k)-1] }) },
			"invalid row of a held record"},
		"held record of another mode": {func(w groupRows) { w.group("keyed", func(g *groupHeader) { g.mode = Shared }) },
			"invalid row of a held record"},
		"held key lost": {func(w groupRows) { k, _ := w.first("keyed", rowKey); w.delete(k) },
			"but no row counts its records"},
		"held key counted wrongly": {func(w groupRows) { k, _ := w.first("keyed", rowKey); w.set(k, []byte{3, 3}) },
			"counts 3 held records of key"},
		"held key from elsewhere": {func(w groupRows) { k, _ := w.first("keyed", rowKey); w.set(k, []byte{2, 4}) },
			"from offset 4, found 2 from 3"},
		"garbage for a held key": {func(w groupRows) { k, _ := w.first("keyed", rowKey); w.set(k, []byte{2}) },
			"invalid row of a held key"},
		"free key too much": {func(w groupRows) {
			k, _ := w.first("keyed", rowKey)
			w.set(freeKey(w.gen(), w.header("keyed").id, 0, slotOf(binary.BigEndian.Uint64(k[behindPart:])), 3),
				slices.Clone(k[behindPart:]))
		}, "is held, free: true, pending: true"},
		"free key of another slot": {func(w groupRows) {
			k, _ := w.first("keyed", rowKey)
			w.set(freeKey(w.gen(), w.header("keyed").id, 0, slotOf(binary.BigEndian.Uint64(k[behindPart:]))^1, 3),
				slices.Clone(k[behindPart:]))
		}, "does not name the first held record of a key exactly once"},
		"free key of another record": {func(w groupRows) {
			k, _ := w.first("keyed", rowKey)
			w.set(freeKey(w.gen(), w.header("keyed").id, 0, slotOf(binary.BigEndian.Uint64(k[behindPart:])), 4),
				slices.Clone(k[behindPart:]))
		}, "does not name the first held record of a key exactly once"},
		"garbage for a free key": {func(w groupRows) { w.set(freeKey(w.gen(), w.header("keyed").id, 0, 0, 3), []byte{1}) },
			"invalid row of a free key"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newGroupRows(t)
			c.damage(w)
			if found := strings.Join(w.Problems(0), "\n"); !strings.Contains(found, c.want) {
				t.Errorf("Verify reports\n%s\nwant %q", found, c.want)
			}
		})
	}
}
