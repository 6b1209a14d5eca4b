package stream

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// groupSpecQuery asks a stream's home for the records of stream and group.
type groupSpecQuery struct {
	namespace string
	stream    string
	group     string
	consumer  string // "": none

	spec   spec // zero: there is no such stream
	found  bool
	config groupSpec
	held   held
}

// held is the right of a consumer of an exclusive group.
type held struct {
	known bool // it is, and the consumer is one that is there: no command has to say so
	held  bool // it has it
	epoch uint64
}

// groupWaitQuery waits until there may be something for a consumer.
type groupWaitQuery struct {
	namespace string
	stream    string
	group     string
	consumer  string
	epoch     uint64 // of the consumer's right in an exclusive group, 0: none
	since     int64  // also a result: when it began to wait, 0: now
}

// groupsQuery asks for groups of a stream: one of a name, or those with a prefix after a name.
type groupsQuery struct {
	namespace string
	stream    string
	name      string
	prefix    string
	after     string
	limit     int

	found bool // the stream
	infos []GroupStats
	more  bool
}

// pendingQuery asks for records of a group that are not done.
type pendingQuery struct {
	namespace string
	stream    string
	group     string
	after     Ref
	limit     int

	found   bool
	records []PendingRecord
	more    bool

	bound Ref // if there are more: nothing behind it is of use
}

func (*groupSpecQuery) Machine() engine.MachineID { return engine.MachineStream }
func (*groupWaitQuery) Machine() engine.MachineID { return engine.MachineStream }
func (*groupsQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*pendingQuery) Machine() engine.MachineID   { return engine.MachineStream }

// group returns a group of the stream, nil if there is none.
func (w *view) group(name string) (*groupHeader, error) {
	b, ok, err := w.v.Get(groupKey(nil, w.gen, name))
	if err != nil || !ok {
		return nil, err
	}
	g, err := decodeGroup(b)
	return &g, err
}

func (w *view) cursor(g *groupHeader, p int) (groupCursor, error) {
	b, ok, err := w.v.Get(cursorKey(nil, w.gen, g.id, p))
	if err != nil || !ok {
		return groupCursor{next: 1}, err
	}
	return decodeCursor(b)
}

func (m *machine) queryGroupSpec(v *engine.View, q *groupSpecQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil {
		return err
	}
	q.spec = w.spec
	g, err := w.group(q.group)
	if err != nil || g == nil {
		return err
	}
	q.found, q.config = true, groupSpec{g.home, g.groupConfig}
	if q.consumer == "" || g.mode != Exclusive || g.recalling {
		return nil
	}
	l := look{m: m, v: v, namespace: q.namespace, name: q.stream, group: q.group, consumer: q.consumer, w: w, g: g}
	q.held, err = l.right()
	return err
}

func (m *machine) queryGroupWait(v *engine.View, q *groupWaitQuery) error {
	if q.since == 0 {
		q.since = v.Now()
	}
	v.Freeze()
	l := look{m: m, v: v, namespace: q.namespace, name: q.stream, group: q.group, consumer: q.consumer, epoch: q.epoch, limit: 1, waits: true, since: q.since}
	n, err := l.look()
	if err != nil {
		return err
	}
	if n == 0 {
		return engine.ErrWait
	}
	v.Claim(l.turn)
	return nil
}

// groupOf returns stream and group, nil if there is none.
func groupOf(v *engine.View, namespace, stream, group string) (*view, *groupHeader, error) {
	w, err := viewOf(v, namespace, stream)
	if err != nil || w == nil {
		return nil, nil, err
	}
	g, err := w.group(group)
	return w, g, err
}

func (m *machine) queryGroups(v *engine.View, q *groupsQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil {
		return err
	}
	q.found = true
	if q.name != "" {
		g, err := w.group(q.name)
		if err != nil || g == nil {
			return err
		}
		info, err := w.describeGroup(q.name, g)
		q.infos = append(q.infos, info)
		return err
	}
	lower, upper, ok := key.Behind(groupKey(nil, w.gen, q.prefix), groupKey(nil, w.gen, q.after))
	if !ok {
		return nil
	}
	it, err := v.Iter(lower, upper)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if q.more = len(q.infos) == q.limit || len(q.infos) > 0 && v.Full(); q.more {
			break
		}
		g, err := decodeGroup(it.Value())
		if err == nil {
			var info GroupStats
			info, err = w.describeGroup(string(it.Key()[9:]), &g)
			q.infos = append(q.infos, info)
		}
		if err != nil {
			it.Close()
			return err
		}
	}
	return it.Close()
}

// rows calls f for the group's rows of a kind.
func (w *view) rows(kind byte, g *groupHeader, f func(k, v []byte) error) error {
	return scanRows(w.v, groupPrefix(nil, kind, w.gen, g.id), f)
}

// scanRows calls f for all rows with a prefix.
func scanRows(v *engine.View, prefix []byte, f func(k, v []byte) error) error {
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			it.Close()
			return err
		}
	}
	return it.Close()
}

// underWay is what a group has under way in a partition, without what has been trimmed.
type underWay struct {
	pending int
	lowest  uint64 // offset of the first record that is not done, 0: none
}

// underWay finds out what a group has under way in a partition. The numbers are kept; rows are looked at for the first record, and for those that have been
// trimmed, which come first. Of these it adds up whose they are.
func (w *view) underWay(g *groupHeader, p int, part *partition, at groupCursor, trimmed map[string]uint64) (u underWay, err error) {
	u.pending = int(at.pending)
	if at.pending > 0 {
		err = w.partRows(rowBatch, g, p, func(k, v []byte) error {
			b, err := decodeBatch(k, v)
			if err != nil {
				return err
			}
			if u.lowest != 0 && b.first >= max(u.lowest, part.first) {
				return errEnough
			}
			gone, _ := slices.BinarySearch(b.offsets, part.first)
			u.pending -= gone
			trimmed[b.consumer] += uint64(gone)
			if gone < len(b.offsets) {
				u.add(b.offsets[gone])
			}
			return nil
		})
	}
	if at.pending > 0 && err == nil {
		err = w.partRows(rowFailure, g, p, func(k, _ []byte) error {
			o := binary.BigEndian.Uint64(k[behindPart:])
			if o >= part.first {
				u.add(o)
				return errEnough
			}
			u.pending--
			return nil
		})
	}
	if err == nil && at.held > 0 {
		err = w.lowestHeld(g, p, at, &u)
	}
	return u, err
}

// partRows calls f for the group's rows of a kind in a partition, until it has had enough.
func (w *view) partRows(kind byte, g *groupHeader, p int, f func(k, v []byte) error) error {
	err := scanRows(w.v, partPrefix(nil, kind, w.gen, g.id, p), f)
	if err == errEnough {
		err = nil
	}
	return err
}

func (u *underWay) add(offset uint64) {
	if u.lowest == 0 || offset < u.lowest {
		u.lowest = offset
	}
}

func (w *view) describeGroup(name string, g *groupHeader) (GroupStats, error) {
	info := GroupStats{
		Name: name, Mode: g.mode, AckTimeout: duration(g.ackTimeout), MaxDeliver: int(g.maxDeliver), BackoffMin: duration(g.backoffMin),
		BackoffMax: duration(g.backoffMax), CreatedAt: time.UnixMilli(g.createdAt), Holder: g.holder,
	}
	parts, err := w.all()
	if err != nil {
		return info, err
	}
	members, err := w.members(g)
	if err != nil {
		return info, err
	}
	trimmed := make(map[string]uint64)
	for p := range parts {
		if !w.here(p) {
			continue
		}
		at, err := w.cursor(g, p)
		if err != nil {
			return info, err
		}
		under, err := w.underWay(g, p, &parts[p], at, trimmed)
		if err != nil {
			return info, err
		}
		c, err := w.describeCursor(p, &parts[p], at, under)
		if err != nil {
			return info, err
		}
		info.Cursors = append(info.Cursors, c)
	}
	for _, consumer := range slices.Sorted(maps.Keys(members)) {
		if mem := members[consumer]; mem.there() {
			info.Members = append(info.Members, Member{
				Consumer: consumer, Pending: int(mem.pending - trimmed[consumer]), JoinedAt: time.UnixMilli(mem.joined), LastSeen: time.UnixMilli(mem.seen),
			})
		}
	}
	return info, nil
}

// fewHeld is how many held records of a partition are looked at one by one.
const fewHeld = 1000

// lowestHeld notes the first record that is held, or one before it that is under way. Records that are held have no order but within their keys. Of
// those whose keys are free the first of each slot is known, and in front of those of a busy key there is one under way, which has been noted.
func (w *view) lowestHeld(g *groupHeader, p int, at groupCursor, under *underWay) error {
	if at.held <= fewHeld {
		return scanRows(w.v, partPrefix(nil, rowHeld, w.gen, g.id, p), func(k, _ []byte) error {
			under.add(binary.BigEndian.Uint64(k[behindPart+8:]))
			return nil
		})
	}
	prefix := partPrefix(nil, rowFree, w.gen, g.id, p)
	for slot := range slots {
		lower := append(prefix[:len(prefix):len(prefix)], byte(slot))
		it, err := w.v.Iter(lower, key.PrefixEnd(lower))
		if err != nil {
			return err
		}
		if it.First() {
			under.add(binary.BigEndian.Uint64(it.Key()[behindPart+1:]))
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
	return nil
}

// members returns the members of a group, also those that have left and whose records are being taken back.
func (w *view) members(g *groupHeader) (map[string]member, error) {
	members := make(map[string]member)
	return members, w.rows(rowMember, g, func(k, v []byte) error {
		mem, err := decodeMember(v)
		members[string(k[behindPart-2:])] = mem
		return err
	})
}

func duration(millis int64) time.Duration { return time.Duration(millis) * time.Millisecond }

func (w *view) describeCursor(p int, part *partition, at groupCursor, under underWay) (c GroupCursor, err error) {
	c = GroupCursor{Partition: p, Pending: under.pending}
	next := max(at.next, part.first)
	c.Lag = int64(part.last+1-next) + int64(at.held)
	if c.LastDelivered, err = w.idBefore(p, part, at.next); err != nil {
		return c, err
	}
	oldest := next
	if under.lowest != 0 {
		oldest = min(next, max(under.lowest, part.first))
	}
	if c.Acked, err = w.idBefore(p, part, oldest); err != nil || c.Lag == 0 {
		return c, err
	}
	waits := next
	if at.held > 0 {
		waits = oldest
	}
	if waits <= part.last {
		id, err := idAt(w.v.Get, w.gen, p, waits)
		if err != nil {
			return c, err
		}
		c.LagTime = max(duration(w.v.Now()-id.Millis), 0)
	}
	return c, nil
}

// idBefore returns the ID of the record before an offset. Of records that were removed only the last one's is known.
func (w *view) idBefore(p int, part *partition, offset uint64) (ID, error) {
	switch {
	case offset <= 1:
		return ID{}, nil
	case offset > part.last:
		return part.lastID, nil
	case offset <= part.kept:
		return part.edge, nil
	}
	return idAt(w.v.Get, w.gen, p, offset-1)
}

func (m *machine) queryPending(v *engine.View, q *pendingQuery) error {
	v.Freeze()
	w, g, err := groupOf(v, q.namespace, q.stream, q.group)
	if err != nil || g == nil {
		return err
	}
	q.found = true
	if p := q.after.Partition; p >= w.partitions {
		return engine.Errorf(ErrInvalid, "stream: cursor %q is not one of this listing: stream %q has %d partitions", q.after.cursor(), q.stream, w.partitions)
	}
	now := v.Now()
	parts, err := w.all()
	if err != nil {
		return err
	}
	members, err := w.members(g)
	if err != nil {
		return err
	}
	err = w.rowsFrom(rowBatch, g, q.after.Partition, q.after.Offset-min(q.after.Offset, batchSpan), func(k, v []byte) error {
		b, err := decodeBatch(k, v)
		if err != nil {
			return err
		}
		if q.beyond(Ref{Partition: b.partition, Offset: b.first}) {
			return errEnough
		}
		rec := PendingRecord{Consumer: b.consumer, DeliveredAt: time.UnixMilli(b.delivered), Deadline: time.UnixMilli(b.deadline)}
		if reason := members[b.consumer].end.reason(); reason != "" {
			rec.Consumer, rec.Deadline, rec.Reason = "", time.UnixMilli(now), reason
		}
		for _, o := range b.offsets {
			rec.Ref = Ref{b.partition, o, int(b.attempt)}
			q.add(parts, rec)
		}
		return nil
	})
	if err == nil {
		err = w.rowsFrom(rowFailure, g, q.after.Partition, q.after.Offset, func(k, v []byte) error {
			f, err := decodeFailure(k, v)
			if err == nil && q.beyond(Ref{Partition: partitionIn(k), Offset: f.offset}) {
				return errEnough
			}
			if err == nil {
				q.add(parts, PendingRecord{
					Ref: Ref{partitionIn(k), f.offset, int(f.attempts)}, DeliveredAt: time.UnixMilli(f.delivered), Deadline: time.UnixMilli(f.due), Reason: f.reason,
				})
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	q.cut()
	return q.identify(w)
}

// errEnough ends a look at rows.
var errEnough = errors.New("enough")

// rowsFrom calls f for the group's rows of a kind that begins with partition and offset, from a place on, until it has had enough.
func (w *view) rowsFrom(kind byte, g *groupHeader, partition int, offset uint64, f func(k, v []byte) error) error {
	it, err := w.v.Iter(key.AppendUint64(partPrefix(nil, kind, w.gen, g.id, partition), offset), key.PrefixEnd(groupPrefix(nil, kind, w.gen, g.id)))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = f(it.Key(), it.Value())
	}
	if err == errEnough {
		err = nil
	}
	return cmp.Or(err, it.Close())
}

// beyond reports whether a place is behind all that is going to be answered.
func (q *pendingQuery) beyond(place Ref) bool { return q.more && place.compare(q.bound) > 0 }

// add adds a record if it is behind the place asked for and has not been trimmed. What is too much is cut now and then.
func (q *pendingQuery) add(parts []partition, rec PendingRecord) {
	after := PendingRecord{Ref: q.after}
	if q.after != (Ref{}) && comparePending(rec, after) <= 0 || rec.Ref.Offset < parts[rec.Ref.Partition].first || q.beyond(rec.Ref) {
		return
	}
	if q.records = append(q.records, rec); len(q.records) >= 2*q.limit+MaxReadLimit {
		q.cut()
	}
}

func (q *pendingQuery) cut() {
	slices.SortFunc(q.records, comparePending)
	if len(q.records) > q.limit {
		q.records, q.more = q.records[:q.limit], true
		q.bound = q.records[q.limit-1].Ref
	}
}

// identify fills in the IDs.
func (q *pendingQuery) identify(w *view) (err error) {
	for i := range q.records {
		rec := &q.records[i]
		if rec.ID, err = idAt(w.v.Get, w.gen, rec.Ref.Partition, rec.Ref.Offset); err != nil {
			return err
		}
	}
	return nil
}
