package stream

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/floedb/floe/internal/key"
)

// underWay summarizes a group's pending records in a partition, without trimmed ones.
type underWay struct {
	pending int
	lowest  uint64 // offset of the first record that is not done, 0: none
	held    uint64 // held records that have not been trimmed; an upper bound if very many are held
}

// underWay summarizes a group's pending records in a partition. The counts are stored. Rows are
// read only for the first record and for trimmed records, which come first. It adds the trimmed
// records of each consumer to trimmed.
func (w *view) underWay(g *groupHeader, p int, part *partition, at groupCursor, trimmed map[string]uint64) (u underWay, err error) {
	u.pending = int(at.pending)
	// Held records have been scanned, so they lie before the cursor. Only those that have not been
	// trimmed count.
	u.held = min(at.held, max(at.next, part.first)-part.first)
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
		err = w.lowestHeld(g, p, part.first, at, &u)
	}
	return u, err
}

// partRows calls f for the group's rows of a kind in a partition, until f returns errEnough.
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
		Name: name, Mode: g.mode, AckTimeout: duration(g.ackTimeout), MaxAttempts: int(g.maxAttempts), BackoffMin: duration(g.backoffMin),
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
		if err == nil && g.id == 0 { // the group does not exist in this shard yet
			at.next, err = g.start.offset(w.v.Get, w.gen, p, &parts[p])
		}
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
				Consumer: consumer, Pending: int(mem.pending - trimmed[consumer]), JoinedAt: time.UnixMilli(mem.joined),
				LastSeen: time.UnixMilli(mem.seen),
			})
		}
	}
	return info, nil
}

// fewHeld is the number of held records of a partition up to which each is read.
const fewHeld = 1000

// lowestHeld adds the first held record to under, or an earlier pending one. Held records are
// ordered only within their keys. For free keys, the first one of each slot is indexed. For a busy
// key, a pending record comes first and has already been added.
func (w *view) lowestHeld(g *groupHeader, p int, first uint64, at groupCursor, under *underWay) error {
	if at.held <= fewHeld {
		under.held = 0
		return scanRows(w.v, partPrefix(nil, rowHeld, w.gen, g.id, p), func(k, _ []byte) error {
			if o := binary.BigEndian.Uint64(k[behindPart+8:]); o >= first {
				under.add(o)
				under.held++
			}
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

// members returns the members of a group, including those that have left but whose records are
// still being taken back.
func (w *view) members(g *groupHeader) (map[string]member, error) {
	members := make(map[string]member)
	return members, w.rows(rowMember, g, func(k, v []byte) error {
		mem, err := decodeMember(v)
		members[consumerIn(k)] = mem
		return err
	})
}

func duration(millis int64) time.Duration { return time.Duration(millis) * time.Millisecond }

func (w *view) describeCursor(p int, part *partition, at groupCursor, under underWay) (c GroupCursor, err error) {
	c = GroupCursor{Partition: p, Pending: under.pending}
	next := max(at.next, part.first)
	c.Lag = int64(part.last+1-next) + int64(under.held)
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
	if under.held > 0 {
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

// idBefore returns the ID of the record before an offset. Among removed records, only the last
// one's ID is known.
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
