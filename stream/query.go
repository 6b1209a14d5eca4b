package stream

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// The queries of the machine: arguments first, results after the blank line.

// specQuery reads a stream's record from its home. With wait it waits until the stream exists and
// its id differs from not.
type specQuery struct {
	namespace string
	stream    string
	wait      bool
	not       uint64

	found bool
	spec  spec
}

// readQuery reads a shard's partitions of a stream, in the order of IDs.
type readQuery struct {
	namespace string
	stream    string
	partition int // -1: all
	start     start
	id        uint64     // of the stream that from refers to; also a result
	strict    bool       // read no other stream than that
	from      []position // instead of start: the positions after an earlier query; also a result
	end       ID
	limit     int
	maxBytes  int
	wait      bool // until there is a record

	found   bool
	records []Record
	more    bool // there are more records up to end
}

// position is a reader's position in a partition.
type position struct {
	partition int
	next      uint64 // offset
}

// statsQuery reads a shard's stats of a stream.
type statsQuery struct {
	namespace string
	stream    string
	id        uint64 // of the stream, 0: any

	found bool
	stats Stats
}

// listQuery reads a shard's stats of the streams of a namespace, in the order of their names.
type listQuery struct {
	namespace string
	prefix    string
	after     string
	limit     int

	streams []listed
	last    string // last name examined
	more    bool   // there are more
}

// refsQuery finds the records of IDs, and recordsQuery reads records.
type refsQuery struct {
	namespace string
	stream    string
	id        uint64 // of the stream, 0: any
	ids       []ID

	refs []Ref // of existing records, in the order of ids
}

type recordsQuery struct {
	namespace string
	stream    string
	refs      []Ref
	maxBytes  int

	records []Record
	done    int // number of refs processed
}

// MaxReadLimit is the maximum Limit of a read.
const MaxReadLimit = 1000

// Limits of a read: a read ends when its messages exceed this many bytes.
const (
	defaultReadLimit = 100
	maxReadBytes     = 4 << 20
)

// maxListedPartitions limits a page of streams: each partition takes about 150 bytes and a lookup
// of its first record.
const maxListedPartitions = 4096

func (*specQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*readQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*statsQuery) Machine() engine.MachineID   { return engine.MachineStream }
func (*listQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*refsQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*recordsQuery) Machine() engine.MachineID { return engine.MachineStream }

// view is a stream as a query sees it.
type view struct {
	header
	v         *engine.View
	namespace string
	name      string
	spread    bool // only some of the partitions are in this shard
}

// viewOf returns the stream, nil if it does not exist.
func viewOf(v *engine.View, namespace, name string) (*view, error) {
	ns, ok := v.Namespace(namespace)
	if !ok {
		return nil, nil
	}
	b, ok, err := v.Get(streamKey(nil, ns, name))
	if err != nil || !ok {
		return nil, err
	}
	h, err := decodeHeader(b)
	if err != nil || h.deleted() {
		return nil, err
	}
	return &view{header: h, v: v, namespace: namespace, name: name, spread: v.Spread(namespace) && !engine.Tagged(name)}, nil
}

// here reports whether the shard has the partition.
func (w *view) here(p int) bool {
	return !w.spread || engine.NameShard(w.namespace, route(w.name, p), w.v.Shards()) == w.v.Shard()
}

func (w *view) partition(p int) (partition, error) {
	b, ok, err := w.v.Get(partKey(nil, w.gen, p))
	if err != nil || !ok {
		return noPartition, err
	}
	return decodePartition(b)
}

// all returns the partitions that have had records and are in the shard; the others are
// noPartition.
func (w *view) all() ([]partition, error) {
	parts := make([]partition, w.partitions)
	for p := range parts {
		parts[p] = noPartition
	}
	if len(parts) == 1 {
		var err error
		parts[0], err = w.partition(0)
		return parts, err
	}
	prefix := genKey(nil, rowPart, w.gen)
	it, err := w.v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		p, err := decodePartition(it.Value())
		if err != nil {
			it.Close()
			return nil, err
		}
		parts[binary.BigEndian.Uint16(it.Key()[9:])] = p
	}
	return parts, it.Close()
}

func (m *machine) querySpec(v *engine.View, q *specQuery) error {
	if q.wait {
		if err := v.WaitOn(streamTopic(q.namespace, q.stream)); err != nil {
			return err
		}
	}
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil {
		return err
	}
	if q.wait && (w == nil || w.id == q.not) {
		return engine.ErrWait
	}
	if w != nil {
		q.found, q.spec = true, w.spec
	}
	return nil
}

func (m *machine) queryRead(v *engine.View, q *readQuery) error {
	if q.wait {
		if err := v.WaitOn(streamTopic(q.namespace, q.stream)); err != nil {
			return err
		}
	}
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil {
		return err
	}
	if w == nil || q.strict && w.id != q.id {
		if q.wait {
			return engine.ErrWait
		}
		return nil
	}
	q.found = true
	if q.partition >= w.partitions {
		return noSuchPartition(q.stream, w.partitions, q.partition)
	}
	if q.from != nil && q.id != w.id {
		q.from, q.start = nil, start{} // the stream was deleted and recreated
	}
	q.id = w.id
	if err := q.read(w); err != nil {
		return err
	}
	m.countReads(w.gen, len(q.records))
	if len(q.records) == 0 && q.wait {
		return engine.ErrWait
	}
	return nil
}

// read fills in records, and advances from.
func (q *readQuery) read(w *view) error {
	parts, err := w.all()
	if err != nil {
		return err
	}
	if q.from == nil {
		if err := q.begin(w, parts); err != nil {
			return err
		}
	}
	for _, at := range q.from {
		if at.partition >= len(parts) {
			return noSuchPartition(w.name, len(parts), at.partition)
		}
	}
	cursors, err := q.open(w, parts)
	if err == nil {
		err = q.merge(cursors)
	}
	for _, c := range cursors {
		if closeErr := c.it.Close(); err == nil {
			err = closeErr
		}
	}
	return err
}

// begin sets from to the start position in each partition.
func (q *readQuery) begin(w *view, parts []partition) error {
	for p := range parts {
		if q.partition >= 0 && p != q.partition || !w.here(p) {
			continue
		}
		part := &parts[p]
		at := part.first
		switch q.start.kind {
		case startAt:
			var err error
			if at, err = offsetOf(w.v.Get, w.gen, p, part.first, part.last, q.start.id); err != nil {
				return err
			}
		case startTail, startEnd:
			at = part.last + 1
		}
		q.from = append(q.from, position{p, at})
	}
	if q.start.kind == startTail {
		return q.rewind(w, parts)
	}
	return nil
}

// cursor reads a partition.
type cursor struct {
	partition int
	it        *engine.Iter
	from      *position
	last      uint64
	stored    stored // the next record
}

// open opens cursors for the partitions that have records at or after their positions.
func (q *readQuery) open(w *view, parts []partition) (cursors []*cursor, err error) {
	for i := range q.from {
		at := &q.from[i]
		part := &parts[at.partition]
		if at.next = max(at.next, part.first); at.next > part.last {
			continue
		}
		c, err := openCursor(w, at, part.last)
		if err == nil && q.start.kind == startAt && c.stored.id.Compare(q.start.id) < 0 {
			c, err = c.skip(w, q.start.id)
		}
		if c != nil {
			cursors = append(cursors, c)
		}
		if err != nil {
			return cursors, err
		}
	}
	return cursors, nil
}

// skip moves the cursor to the first record with an ID of at least id. The partition had no such
// record when the read began. It returns nil if there still is none.
func (c *cursor) skip(w *view, id ID) (_ *cursor, err error) {
	if c.from.next, err = offsetOf(w.v.Get, w.gen, c.partition, c.from.next, c.last, id); err != nil {
		return c, err
	}
	if err := c.it.Close(); err != nil || c.from.next > c.last {
		return nil, err
	}
	return openCursor(w, c.from, c.last)
}

func openCursor(w *view, at *position, last uint64) (*cursor, error) {
	it, err := w.v.Iter(recordKey(nil, w.gen, at.partition, at.next), recordKey(nil, w.gen, at.partition, last+1))
	if err != nil {
		return nil, err
	}
	c := &cursor{partition: at.partition, it: it, from: at, last: last}
	return c, c.take(it.First())
}

// take reads the row at the iterator, which must exist.
func (c *cursor) take(ok bool) (err error) {
	if !ok || offsetIn(c.it.Key()) != c.from.next {
		return cmp.Or(c.it.Err(), missing(c.partition, c.from.next))
	}
	c.stored, err = decodeStored(c.it.Value())
	return err
}

// merge adds records in the order of their IDs.
func (q *readQuery) merge(cursors []*cursor) error {
	for size := 0; len(cursors) > 0; {
		first := cursors[0]
		for _, c := range cursors[1:] {
			if c.stored.id.Compare(first.stored.id) < 0 {
				first = c
			}
		}
		if !q.end.IsZero() && first.stored.id.Compare(q.end) > 0 {
			return nil
		}
		if len(q.records) == q.limit || size > q.maxBytes {
			q.more = true
			return nil
		}
		rec, err := first.stored.record(first.partition, first.from.next)
		if err != nil {
			return err
		}
		q.records = append(q.records, rec)
		size += len(first.stored.message)
		if first.from.next++; first.from.next <= first.last {
			if err := first.take(first.it.Next()); err != nil {
				return err
			}
			continue
		}
		first.stored = stored{}
		cursors = without(cursors, first)
	}
	return nil
}

// without returns a copy of the cursors without one of them. The original is needed to close all.
func without(cursors []*cursor, c *cursor) []*cursor {
	return slices.DeleteFunc(slices.Clone(cursors), func(other *cursor) bool { return other == c })
}
