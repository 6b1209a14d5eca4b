package stream

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/test/machinetest"
)

// newFilledRig has trimmed streams, streams with age and length limits, of one and of several
// partitions, deleted streams and producers.
func newFilledRig(t *testing.T) *machinetest.Rig {
	t.Helper()
	r := machinetest.New(t, 1, table())
	ctx, s, other := t.Context(), engine.StoreOf[Store](r.Router(), "n", 0), engine.StoreOf[Store](r.Router(), "other", 0)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(s *Store, name string, opts ...AppendOption) {
		t.Helper()
		_, err := s.Append(ctx, name, Message{Key: "k", Payload: []byte("payload"), Headers: map[string]string{"h": "v"}}, opts...)
		do(err)
	}
	put(s, "gone", Dedup("left behind", 1))
	do(s.Delete(ctx, "gone", Force()))
	do(s.Create(ctx, "log", Partitions(3), MaxAge(time.Hour)))
	for i := range 30 {
		put(s, "log", Partition(i%3))
		r.Advance(1)
	}
	_, err := s.Trim(ctx, "log", MaxLen(8))
	do(err)
	do(s.Create(ctx, "short", MaxLen(5)))
	for i := range 9 {
		put(s, "short", Dedup("p", uint64(i)))
	}
	put(other, "plain")
	do(s.Create(ctx, "empty", Partitions(1024)))
	if found := r.Problems(0); len(found) > 0 {
		t.Fatalf("before anything is changed: %q", found)
	}
	return r
}

// tamperer changes rows behind the machine's back.
type tamperer struct {
	t *testing.T
	*machinetest.Rig
}

func (w tamperer) get(machine engine.MachineID, k []byte) []byte {
	w.t.Helper()
	for _, row := range w.Rows(0) {
		if row.Machine == machine && bytes.Equal(row.Key, k) {
			return row.Value
		}
	}
	w.t.Fatalf("there is no row %q", k)
	return nil
}

func (w tamperer) set(k, value []byte) {
	w.Tamper(0, machinetest.Row{Machine: engine.MachineStream, Key: k, Value: value})
}

func (w tamperer) delete(k []byte) {
	w.t.Helper()
	w.get(engine.MachineStream, k)
	w.set(k, nil)
}

func (w tamperer) header(name string) header {
	w.t.Helper()
	return must(decodeHeader(w.get(engine.MachineStream, streamKey(nil, 0, name))))
}

func (w tamperer) stream(name string, f func(h *header)) {
	w.t.Helper()
	h := w.header(name)
	f(&h)
	w.set(streamKey(nil, 0, name), h.encode(nil))
}

func (w tamperer) partition(name string, f func(p *partition)) {
	w.t.Helper()
	k := partKey(nil, w.header(name).gen, 0)
	p := must(decodePartition(w.get(engine.MachineStream, k)))
	f(&p)
	w.set(k, p.encode(nil))
}

func (w tamperer) record(name string, offset uint64) []byte {
	return recordKey(nil, w.header(name).gen, 0, offset)
}

func (w tamperer) change(name string, offset uint64, f func(s *stored)) {
	w.t.Helper()
	k := w.record(name, offset)
	s := must(decodeStored(w.get(engine.MachineStream, k)))
	f(&s)
	w.set(k, s.encode(nil))
}

func (w tamperer) producer(f func(p *producerRow)) {
	w.t.Helper()
	k := producerKey(nil, w.header("short").gen, "p")
	p := must(decodeProducer(w.get(engine.MachineStream, k)))
	f(&p)
	w.set(k, p.encode())
}

// dropTimer removes the first timer whose token ends with end.
func (w tamperer) dropTimer(end string) {
	w.t.Helper()
	for _, row := range w.Rows(0) {
		if row.Machine == 0 && row.Key[0] == 't' && strings.HasSuffix(string(row.Key), end) {
			w.Tamper(0, machinetest.Row{Key: row.Key})
			return
		}
	}
	w.t.Fatalf("no timer ends with %q", end)
}

func (w tamperer) setTimer(token string) {
	k := append(key.AppendInt64([]byte{'t'}, math.MaxInt64-1), byte(engine.MachineStream), 0, 0, 0, 0)
	w.Tamper(0, machinetest.Row{Key: append(k, token...), Value: []byte{}})
}

func TestVerifyReports(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(w tamperer)
		want   string
	}{
		"lost stream": {func(w tamperer) { w.delete(streamKey(nil, 0, "empty")) },
			`namespace "n": its row counts 3 streams, found 2`},
		"stream of nobody": {func(w tamperer) { w.set(streamKey(nil, 0, "new"), w.get(2, streamKey(nil, 0, "empty"))) },
			`its row counts 3 streams, found 4`},
		"lost stream with rows": {func(w tamperer) { w.delete(streamKey(nil, 0, "short")) }, "belong to 0 streams"},
		"stream twice": {func(w tamperer) { w.set(streamKey(nil, 0, "twin"), w.get(2, streamKey(nil, 0, "short"))) },
			"belong to 2 streams"},
		"stream of no namespace": {func(w tamperer) { w.set(streamKey(nil, 9, "x"), w.get(2, streamKey(nil, 0, "empty"))) },
			`namespace 9, stream "x": the shard has 2 namespaces`},
		"stream without a name": {func(w tamperer) { w.set(streamKey(nil, 0, ""), w.get(2, streamKey(nil, 0, "empty"))) }, "has no name"},
		"bad name": {func(w tamperer) { w.set(streamKey(nil, 0, "a\n"), w.get(2, streamKey(nil, 0, "empty"))) },
			"control character"},
		"garbage for a stream": {func(w tamperer) { w.set(streamKey(nil, 0, "log"), []byte("garbage")) }, `stream "log": stream row`},
		"deleted at home": {func(w tamperer) { w.stream("empty", func(h *header) { *h = header{spec: spec{id: h.id}} }) },
			"has an invalid row of a deleted stream"},
		"no id":      {func(w tamperer) { w.stream("empty", func(h *header) { h.id = 0 }) }, "has no id"},
		"another id": {func(w tamperer) { w.stream("empty", func(h *header) { h.id++ }) }, "but has id"},
		"made ahead": {func(w tamperer) { w.stream("empty", func(h *header) { h.gen = 1 << 40 }) },
			"was created at LSN 1099511627776"},
		"made later": {func(w tamperer) { w.stream("empty", func(h *header) { h.createdAt = 1 << 60 }) }, "but the shard's stamp is"},
		"fewer partitions": {func(w tamperer) { w.stream("log", func(h *header) { h.partitions = 2 }) },
			"belongs to none of its 2 partitions"},
		"too long": {func(w tamperer) { w.stream("short", func(h *header) { h.policy.maxLen = 4 }) },
			"holds 5 records, more than 4"},
		"too many bytes": {func(w tamperer) { w.stream("short", func(h *header) { h.policy.maxBytes = 8 }) }, "bytes, more than 8"},
		"a left row": {func(w tamperer) {
			w.set(streamKey(nil, 0, "gone"), (&header{spec: spec{id: 1}, gen: 1, timer: 5}).encode(nil))
		}, "has an invalid row of a deleted stream"},
		"dropped at home": {func(w tamperer) { w.stream("log", func(h *header) { h.dropped = 1 }) },
			"has groups dropped at LSN 1"},
		"timer not set":         {func(w tamperer) { w.stream("log", func(h *header) { h.timer = 0 }) }, "but has no timer"},
		"timer of another time": {func(w tamperer) { w.stream("log", func(h *header) { h.timer++ }) }, "has no timer at"},
		"timer unknown":         {func(w tamperer) { w.stream("log", func(h *header) { h.timer++ }) }, "is not in its row"},
		"timer for nothing":     {func(w tamperer) { w.stream("log", func(h *header) { h.policy.maxAge = 0 }) }, "but keeps all records"},
		"timer lost":            {func(w tamperer) { w.dropTimer("log") }, `stream "log": has no timer at`},
		"timer of no stream": {func(w tamperer) { w.setTimer("r\x00\x00\x00\x00\x00\x00\x00\x01nobody") },
			`stream "nobody": a timer at`},
		"timer of no meaning": {func(w tamperer) { w.setTimer("?") }, `timer with unknown token "?"`},
		"second producer timer": {func(w tamperer) { w.setTimer(string(producerToken(w.header("short").gen, "p"))) },
			`is not in the row of producer "p"`},
		"producer without timer": {func(w tamperer) { w.dropTimer("p") }, `producer "p" has no timer`},
		"producer ahead":         {func(w tamperer) { w.producer(func(p *producerRow) { p.used = 1 << 60 }) }, `producer "p" appended at`},
		"producer out of order": {func(w tamperer) { w.producer(func(p *producerRow) { p.appends[1].sequence = 99 }) },
			"sequence number 99 comes before 8"},
		"producer of no record": {func(w tamperer) {
			w.producer(func(p *producerRow) { p.appends[0].result = encodeAppended(&[]Appended{{Offset: 10, LSN: 1}}) })
		}, "impossible record"},
		"producer's result": {func(w tamperer) { w.producer(func(p *producerRow) { p.appends[0].result = []byte{1} }) },
			`producer "p", sequence number 8`},
		"garbage for a producer": {func(w tamperer) { w.set(producerKey(nil, w.header("short").gen, "q"), []byte{1}) },
			`producer "q": stream producer row`},
		"lost partition": {func(w tamperer) { w.delete(partKey(nil, w.header("log").gen, 1)) },
			"of partition 1, which has no row"},
		"garbage for a partition": {func(w tamperer) { w.set(partKey(nil, w.header("log").gen, 1), []byte{9}) },
			"partition 1: stream partition row"},
		"empty partition": {func(w tamperer) { w.set(partKey(nil, w.header("empty").gen, 1), noPartition.encode(nil)) },
			"partition 1 has a row but had no record"},
		"partition ends early": {func(w tamperer) { w.partition("log", func(p *partition) { p.last-- }) },
			"has a record at offset 10 of partition 0, which holds 3 to 9"},
		"partition ends late": {func(w tamperer) { w.partition("log", func(p *partition) { p.last++ }) },
			"ends at offset 10, its row says 11"},
		"partition's last id": {func(w tamperer) { w.partition("log", func(p *partition) { p.lastID.Millis++ }) },
			"partition 0 ends with id"},
		"partition's bytes": {func(w tamperer) { w.partition("log", func(p *partition) { p.bytes++ }) },
			"partition 0 ends after 140 bytes, its row says 141"},
		"partition kept": {func(w tamperer) { w.partition("log", func(p *partition) { p.kept-- }) },
			"the record at offset 2 of partition 0 is missing"},
		"partition's edge": {func(w tamperer) { w.partition("log", func(p *partition) { p.edge = ID{} }) },
			"the rows before offset 3 end with id 0-0"},
		"lost record":      {func(w tamperer) { w.delete(w.record("log", 5)) }, "the record at offset 5 of partition 0 is missing"},
		"lost last record": {func(w tamperer) { w.delete(w.record("log", 10)) }, "ends at offset 9, its row says 10"},
		"lost removed record": {func(w tamperer) { w.delete(w.record("short", 2)) },
			"the record at offset 2 of partition 0 is missing"},
		"record too much": {func(w tamperer) { w.set(w.record("log", 11), w.get(2, w.record("log", 10))) },
			"has a record at offset 11 of partition 0"},
		"garbage for a record": {func(w tamperer) { w.set(w.record("log", 5), []byte{0x80}) },
			"offset 5 of partition 0: stream record row"},
		"cut message": {func(w tamperer) { w.change("log", 5, func(s *stored) { s.message = s.message[:5] }) },
			"offset 5 of partition 0: stream record row"},
		"id goes back": {func(w tamperer) { w.change("log", 5, func(s *stored) { s.id.Millis -= 9 }) },
			"offset 5 of partition 0 has id"},
		"id of another partition": {func(w tamperer) { w.change("log", 5, func(s *stored) { s.id.Seq++ }) },
			"offset 5 of partition 0 has id"},
		"id ahead": {func(w tamperer) { w.change("log", 10, func(s *stored) { s.id.Millis = 1 << 60 }) },
			"but the shard's stamp is"},
		"LSN goes back": {func(w tamperer) { w.change("log", 5, func(s *stored) { s.lsn = 1 }) },
			"offset 5 of partition 0 has LSN 1"},
		"bytes before": {func(w tamperer) { w.change("log", 5, func(s *stored) { s.before++ }) },
			"offset 5 of partition 0 follows 56 bytes, but its row says 57"},
		"shorter message": {func(w tamperer) { w.change("log", 5, func(s *stored) { s.message = s.message[:8] }) },
			"offset 6 of partition 0 follows"},
		"short record key": {func(w tamperer) { w.set(w.record("log", 5)[:15], []byte{1}) }, "is not a record"},
		"records of nobody": {func(w tamperer) { w.set(recordKey(nil, 1<<50, 0, 1), []byte{1}) },
			"rows r of LSN 1125899906842624 belong to 0 streams"},
		"partition of nobody": {func(w tamperer) { w.set(partKey(nil, 1, 0), []byte{1}) }, "rows p of LSN 1 belong to 0 streams"},
		"producer of nobody": {func(w tamperer) { w.set(producerKey(nil, math.MaxUint64, "x"), []byte{1}) },
			"rows d of LSN 18446744073709551615 belong to 0 streams"},
		"short key":            {func(w tamperer) { w.set([]byte("p\x00"), []byte{1}) }, "row 7000 is too short"},
		"unknown kind":         {func(w tamperer) { w.set([]byte("!"), []byte{1}) }, "row 21 is of an unknown kind"},
		"unknown kind at last": {func(w tamperer) { w.set([]byte{0xff}, []byte{1}) }, "row ff is of an unknown kind"},
		"memory of a stream":   {func(w tamperer) { w.stream("short", func(h *header) { h.version++ }) }, `stream "short": memory has`},
		"memory of a partition": {func(w tamperer) { w.partition("short", func(p *partition) { p.first++ }) },
			"partitions in memory differ from the rows"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFilledRig(t)
			c.tamper(tamperer{t, r})
			if found := strings.Join(r.Problems(0), "\n"); !strings.Contains(found, c.want) {
				t.Errorf("Verify reports\n%s\nwant %q", found, c.want)
			}
		})
	}
}

// TestVerifyReturnsFailedReads: Verify and Restore return the error of any read.
func TestVerifyReturnsFailedReads(t *testing.T) {
	for _, r := range []*machinetest.Rig{newFilledRig(t), newGroupRows(t).Rig} {
		r.EachReadOfVerify()
		r.FailReads(nil)
		r.Restart()
	}
}

// TestVerifyReadsAreReported: a read of damaged rows returns an error, never a wrong answer, and
// never runs forever.
func TestVerifyReadsAreReported(t *testing.T) {
	r := newFilledRig(t)
	w := tamperer{t, r}
	w.delete(w.record("log", 5))
	s := engine.StoreOf[Store](r.Router(), "n", 0)
	if _, err := s.Read(t.Context(), "log", Partition(0)); err == nil ||
		!strings.Contains(err.Error(), "no row for offset 5 of partition 0") {
		t.Errorf("Read = %v", err)
	}
	q := recordsQuery{namespace: "n", stream: "log", maxBytes: maxReadBytes}
	for i := range uint64(3) {
		q.refs = append(q.refs, Ref{Partition: 0, Offset: 4 + i})
	}
	if err := r.Query(t.Context(), 0, &q); err == nil || !strings.Contains(err.Error(), "no row for offset 5") {
		t.Errorf("records of refs = %v", fmt.Sprint(q.records, err))
	}
}
