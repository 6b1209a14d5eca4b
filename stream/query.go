package stream

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// The queries of the machine: arguments first, results after the blank line.

// specQuery asks a stream's home for its record; with wait until there is one.
type specQuery struct {
	namespace string
	stream    string
	wait      bool

	found bool
	spec  spec
}

// readQuery reads the partitions of a stream that a shard has, in the order of IDs.
type readQuery struct {
	namespace string
	stream    string
	partition int // -1: all
	start     start
	id        uint64     // of the stream that from is of; also a result
	from      []position // instead of start: where an earlier query has come to; also a result
	end       ID
	limit     int
	maxBytes  int
	wait      bool // until there is something

	found   bool
	records []Record
	more    bool // there are more records up to end
}

// position is where a reader has come to in a partition.
type position struct {
	partition int
	next      uint64 // offset
}

// infoQuery asks for what a shard knows of a stream.
type infoQuery struct {
	namespace string
	stream    string

	found bool
	info  Info
}

// listQuery asks for the streams of a namespace whose home the shard is, in the order of their names.
type listQuery struct {
	namespace string
	after     string
	limit     int

	infos []Info
}

// refsQuery finds the records of IDs, and recordsQuery reads records.
type refsQuery struct {
	namespace string
	stream    string
	ids       []ID

	refs []Ref // of those that are there, in the order of ids
}

type recordsQuery struct {
	namespace string
	stream    string
	refs      []Ref
	maxBytes  int

	records []Record
	done    int // refs that were looked at
}

// MaxReadLimit is the largest Limit of a read.
const MaxReadLimit = 1000

// Bounds of a read: so many bytes of messages end it.
const (
	defaultReadLimit = 100
	maxReadBytes     = 4 << 20
)

func (*specQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*readQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*infoQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*listQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*refsQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*recordsQuery) Machine() engine.MachineID { return engine.MachineStream }

// Query answers a query of the store.
func (m *Machine) Query(v *engine.View, q engine.Query) error {
	switch q := q.(type) {
	case *specQuery:
		return m.querySpec(v, q)
	case *readQuery:
		return m.queryRead(v, q)
	case *infoQuery:
		return m.queryInfo(v, q)
	case *listQuery:
		return m.queryList(v, q)
	case *refsQuery:
		return m.queryRefs(v, q)
	case *recordsQuery:
		return m.queryRecords(v, q)
	case *groupSpecQuery:
		return m.queryGroupSpec(v, q)
	case *groupWaitQuery:
		return m.queryGroupWait(v, q)
	case *groupsQuery:
		return m.queryGroups(v, q)
	case *pendingQuery:
		return m.queryPending(v, q)
	}
	return engine.Errorf(ErrInvalid, "stream: unknown query %T", q)
}

// view is a stream as a query sees it.
type view struct {
	header
	v         *engine.View
	namespace string
	name      string
	spread    bool // only some of the partitions are here
}

// viewOf returns the stream, nil if there is none.
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

// partitions returns those that have had records and are in the shard; the others are noPartition.
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

func (m *Machine) querySpec(v *engine.View, q *specQuery) error {
	if q.wait {
		if err := v.WaitOn(streamTopic(q.namespace, q.stream)); err != nil {
			return err
		}
	}
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil {
		return err
	}
	if w == nil && q.wait {
		return engine.ErrWait
	}
	if w != nil {
		q.found, q.spec = true, w.spec
	}
	return nil
}

func (m *Machine) queryRead(v *engine.View, q *readQuery) error {
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
	if w == nil {
		if q.wait {
			return engine.ErrWait
		}
		return nil
	}
	q.found = true
	if q.partition >= w.partitions {
		return engine.Errorf(ErrInvalid, "stream %q has %d partitions, no partition %d", q.stream, w.partitions, q.partition)
	}
	if q.from != nil && q.id != w.id {
		q.from, q.start = nil, start{} // it has been deleted and made again
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

// read fills in records, and moves from.
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
	// The tail of a stream is the end of the tails of its partitions.
	tail := q.start.kind == startTail
	if tail && len(q.from) > 1 {
		return q.readTail(w, parts)
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

// begin sets from to where the start is in each of the partitions.
func (q *readQuery) begin(w *view, parts []partition) error {
	for p := range parts {
		if q.partition >= 0 && p != q.partition || !w.here(p) {
			continue
		}
		at, err := w.offset(q.start, p, &parts[p], q.limit)
		if err != nil {
			return err
		}
		q.from = append(q.from, position{p, at})
	}
	return nil
}

// offset returns where reading of a partition begins.
func (w *view) offset(s start, p int, part *partition, limit int) (uint64, error) {
	switch s.kind {
	case startAt:
		return offsetOf(w.v.Get, w.gen, p, part.first, part.last, s.id)
	case startTail:
		return part.last + 1 - min(part.records(), uint64(limit)), nil
	case startEnd:
		return part.last + 1, nil
	}
	return part.first, nil
}

// cursor reads a partition.
type cursor struct {
	partition int
	it        *engine.Iter
	from      *position
	last      uint64
	stored    stored // the next one
}

// open opens the partitions that have records from where reading has come to.
func (q *readQuery) open(w *view, parts []partition) (cursors []*cursor, err error) {
	for i := range q.from {
		at := &q.from[i]
		part := &parts[at.partition]
		if at.next = max(at.next, part.first); at.next > part.last {
			continue
		}
		it, err := w.v.Iter(recordKey(nil, w.gen, at.partition, at.next), recordKey(nil, w.gen, at.partition, part.last+1))
		if err != nil {
			return cursors, err
		}
		c := &cursor{partition: at.partition, it: it, from: at, last: part.last}
		cursors = append(cursors, c)
		if err := c.take(it.First()); err != nil {
			return cursors, err
		}
	}
	return cursors, nil
}

// take reads the row the iterator has come to, which has to be there.
func (c *cursor) take(ok bool) (err error) {
	if !ok || binary.BigEndian.Uint64(c.it.Key()[11:]) != c.from.next {
		return missing(c.partition, c.from.next)
	}
	c.stored, err = decodeStored(c.it.Value())
	return err
}

// merge takes records in the order of their IDs.
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

// without returns the cursors but for one, in a slice of its own: all of them have to be closed.
func without(cursors []*cursor, c *cursor) []*cursor {
	return slices.DeleteFunc(slices.Clone(cursors), func(other *cursor) bool { return other == c })
}

// readTail reads the last records of several partitions, by reading their tails and dropping what is too much.
func (q *readQuery) readTail(w *view, parts []partition) error {
	one := *q
	one.start = start{}
	one.limit = q.limit * len(q.from)
	one.maxBytes = maxReadBytes * 4
	if err := one.read(w); err != nil {
		return err
	}
	q.from, q.more, q.records = one.from, one.more, one.records
	if n := len(q.records); n > q.limit {
		q.records = q.records[n-q.limit:]
	}
	return nil
}

// Info describes a stream.
type Info struct {
	Name       string
	Retention  Retention
	CreatedAt  time.Time
	Appended   int64 // records ever appended
	Reads      int64 // records read, on the nodes that were asked, since they started
	Partitions []PartitionInfo
}

// PartitionInfo describes a partition.
type PartitionInfo struct {
	Partition int
	Records   int64
	Bytes     int64  // of keys, headers and payloads
	First     uint64 // offset of the first record; one more than Last if there is none
	Last      uint64 // offset of the last record ever appended
	FirstID   ID     // zero if there is no record
	LastID    ID     // of the last record ever appended
	Shard     int
}

// Records returns how many records the stream holds.
func (i *Info) Records() (n int64) {
	for _, p := range i.Partitions {
		n += p.Records
	}
	return n
}

func (m *Machine) queryInfo(v *engine.View, q *infoQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil {
		return err
	}
	q.found = true
	q.info, err = m.describe(w)
	return err
}

func (m *Machine) describe(w *view) (Info, error) {
	info := Info{
		Name: w.name, Retention: w.policy.retention(), CreatedAt: time.UnixMilli(w.createdAt), Reads: m.readsOf(w.gen),
	}
	parts, err := w.all()
	if err != nil {
		return info, err
	}
	for p := range parts {
		if !w.here(p) {
			continue
		}
		part := &parts[p]
		pi := PartitionInfo{
			Partition: p, Records: int64(part.records()), First: part.first, Last: part.last, LastID: part.lastID, Shard: int(w.v.Shard()),
		}
		if part.records() > 0 {
			s, err := storedAt(w.v.Get, w.gen, p, part.first)
			if err != nil {
				return info, err
			}
			pi.FirstID, pi.Bytes = s.id, int64(part.bytes-s.before)
		}
		info.Appended += int64(part.last)
		info.Partitions = append(info.Partitions, pi)
	}
	return info, nil
}

func (m *Machine) queryList(v *engine.View, q *listQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	it, err := v.Iter(append(streamKey(nil, ns, q.after), 0), key.PrefixEnd(streamKey(nil, ns, "")))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && len(q.infos) < q.limit; ok = it.Next() {
		name := string(it.Key()[5:])
		if engine.NameShard(q.namespace, name, v.Shards()) != v.Shard() && v.Spread(q.namespace) {
			continue
		}
		h, err := decodeHeader(it.Value())
		if err == nil && !h.deleted() {
			var info Info
			info, err = m.describe(&view{header: h, v: v, namespace: q.namespace, name: name, spread: v.Spread(q.namespace) && !engine.Tagged(name)})
			q.infos = append(q.infos, info)
		}
		if err != nil {
			it.Close()
			return err
		}
	}
	return it.Close()
}

func (m *Machine) queryRefs(v *engine.View, q *refsQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil {
		return err
	}
	for _, id := range q.ids {
		p := int(id.Seq % uint64(w.partitions))
		part, err := w.partition(p)
		if err != nil {
			return err
		}
		offset, err := offsetOf(v.Get, w.gen, p, part.first, part.last, id)
		if err != nil || offset > part.last {
			if err != nil {
				return err
			}
			continue
		}
		if got, err := idAt(v.Get, w.gen, p, offset); err != nil {
			return err
		} else if got == id {
			q.refs = append(q.refs, Ref{Partition: p, Offset: offset})
		}
	}
	return nil
}

func (m *Machine) queryRecords(v *engine.View, q *recordsQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil {
		q.done = len(q.refs)
		return err
	}
	defer func() { m.countReads(w.gen, len(q.records)) }()
	size := 0
	for q.done < len(q.refs) && size <= q.maxBytes {
		n := run(q.refs[q.done:])
		read, err := q.readRun(w, q.refs[q.done], n, &size)
		if err != nil {
			return err
		}
		q.done += read
	}
	return nil
}

// run returns how many of the refs are one behind the other.
func run(refs []Ref) int {
	n := 1
	for n < len(refs) && refs[n].Partition == refs[0].Partition && refs[n].Offset == refs[0].Offset+uint64(n) {
		n++
	}
	return n
}

// readRun reads the records of n refs and returns how many it looked at.
func (q *recordsQuery) readRun(w *view, first Ref, n int, size *int) (read int, err error) {
	part, err := w.partition(first.Partition)
	if err != nil {
		return 0, err
	}
	end := first.Offset + uint64(n)
	from, to := max(first.Offset, part.first), min(end, part.last+1)
	if from >= to {
		return n, nil
	}
	it, err := w.v.Iter(recordKey(nil, w.gen, first.Partition, from), recordKey(nil, w.gen, first.Partition, to))
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok && *size <= q.maxBytes; ok = it.Next() {
		rec, err := decodeRecord(it.Value(), first.Partition, from)
		if err != nil {
			it.Close()
			return 0, err
		}
		q.records = append(q.records, rec)
		*size += len(it.Value())
		from++
	}
	if from == to {
		from = end
	}
	return int(from - first.Offset), it.Close()
}
