package engine

import (
	"bytes"
	"slices"
	"sort"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/arena"
)

// overlay holds the writes of the entries being applied until they go to Pebble in one batch.
//
// Reads inside Apply look here first, so a command sees what earlier commands of the same batch wrote; a key written many
// times reaches Pebble once; and the batch is sorted, which halves the cost of the memtable insert. An indexed Pebble batch
// would do the same job, but pays a skip-list insert for every write and cannot take back a single command.
//
// A command's writes are undone by replaying undo backwards to a mark. Keys and values live in the arena: slices handed out
// stay valid until reset.
type overlay struct {
	index  map[string]int32 // key -> position in ops; the strings alias the arena
	ops    []overlayOp
	ranges []keyRange // deleted before any of ops
	undo   []overlayUndo

	sorted []int32 // positions ordered by key, covering ops[:len(sorted)]; built when an iterator asks
	arena  arena.Arena
	bytes  int
}

type overlayOp struct {
	key, value []byte
	deleted    bool
}

type overlayUndo struct {
	kind    undoKind
	op      int32
	deleted bool
	value   []byte
}

type undoKind uint8

const (
	undoChange undoKind = iota // the op had another value
	undoFresh                  // the op did not exist before
	undoCover                  // the op was deleted as part of a range
	undoRange                  // op is the position of a range
)

// keyRange is lower <= key < upper.
type keyRange struct{ lower, upper []byte }

func (r *keyRange) holds(key []byte) bool {
	return bytes.Compare(r.lower, key) <= 0 && bytes.Compare(key, r.upper) < 0
}

func newOverlay() *overlay { return &overlay{index: make(map[string]int32)} }

func (o *overlay) get(key []byte) (op overlayOp, ok bool) {
	if i, ok := o.index[unsafe.String(unsafe.SliceData(key), len(key))]; ok {
		return o.ops[i], true
	}
	return overlayOp{deleted: true}, coveredBy(o.ranges, key) != nil
}

// coveredBy returns the first of the ranges that holds the key.
func coveredBy(ranges []keyRange, key []byte) *keyRange {
	for i := range ranges {
		if ranges[i].holds(key) {
			return &ranges[i]
		}
	}
	return nil
}

// set records a write (or a delete); it copies key and value.
func (o *overlay) set(key, value []byte, deleted bool) {
	value = o.arena.Copy(value)
	o.bytes += len(key) + len(value)
	if i, ok := o.index[unsafe.String(unsafe.SliceData(key), len(key))]; ok {
		op := &o.ops[i]
		o.undo = append(o.undo, overlayUndo{kind: undoChange, op: i, deleted: op.deleted, value: op.value})
		op.value, op.deleted = value, deleted
		return
	}
	key = o.arena.Copy(key)
	i := int32(len(o.ops))
	o.ops = append(o.ops, overlayOp{key: key, value: value, deleted: deleted})
	o.index[unsafe.String(unsafe.SliceData(key), len(key))] = i
	o.undo = append(o.undo, overlayUndo{kind: undoFresh, op: i})
}

// deleteRange records the delete of all rows with lower <= key < upper; it copies both.
func (o *overlay) deleteRange(lower, upper []byte) {
	o.sort()
	for _, i := range o.sorted[o.seek(lower):] {
		op := &o.ops[i]
		if bytes.Compare(op.key, upper) >= 0 {
			break
		}
		if !op.deleted {
			o.undo = append(o.undo, overlayUndo{kind: undoCover, op: i, value: op.value})
			op.value, op.deleted = nil, true
		}
	}
	o.undo = append(o.undo, overlayUndo{kind: undoRange, op: int32(len(o.ranges))})
	o.ranges = append(o.ranges, keyRange{o.arena.Copy(lower), o.arena.Copy(upper)})
	o.bytes += len(lower) + len(upper)
}

// rollback takes back everything after the first mark entries of undo.
func (o *overlay) rollback(mark int) {
	for i := len(o.undo) - 1; i >= mark; i-- {
		u := o.undo[i]
		switch u.kind {
		case undoChange, undoCover:
			o.ops[u.op].value, o.ops[u.op].deleted = u.value, u.deleted
		case undoFresh:
			// Fresh ops were appended in this order, so the one to remove is the last.
			op := &o.ops[u.op]
			delete(o.index, unsafe.String(unsafe.SliceData(op.key), len(op.key)))
			o.ops = o.ops[:u.op]
		case undoRange:
			o.ranges = o.ranges[:u.op]
		}
	}
	o.undo = o.undo[:mark]
	if len(o.sorted) > len(o.ops) {
		o.sorted = o.sorted[:0]
	}
}

// sort brings sorted up to date. Few new ops are inserted one by one, so alternating writes and iterations stay cheap.
func (o *overlay) sort() {
	const fewNew = 16
	if len(o.ops)-len(o.sorted) > fewNew {
		o.sorted = o.sorted[:0]
		for i := range o.ops {
			o.sorted = append(o.sorted, int32(i))
		}
		slices.SortFunc(o.sorted, func(a, b int32) int { return bytes.Compare(o.ops[a].key, o.ops[b].key) })
		return
	}
	for i := len(o.sorted); i < len(o.ops); i++ {
		o.sorted = slices.Insert(o.sorted, o.seek(o.ops[i].key), int32(i))
	}
}

// seek returns the first position in sorted whose key is at or after key.
func (o *overlay) seek(key []byte) int {
	return sort.Search(len(o.sorted), func(i int) bool { return bytes.Compare(o.ops[o.sorted[i]].key, key) >= 0 })
}

// scan returns the ops with lower <= key < upper in key order, as they are now.
func (o *overlay) scan(lower, upper []byte) []overlayOp {
	o.sort()
	var ops []overlayOp
	for _, i := range o.sorted[o.seek(lower):] {
		if op := o.ops[i]; bytes.Compare(op.key, upper) < 0 {
			ops = append(ops, op)
			continue
		}
		break
	}
	return ops
}

// empty reports whether there is nothing to write.
func (o *overlay) empty() bool { return len(o.ops) == 0 && len(o.ranges) == 0 }

// writeTo adds the deleted ranges to the batch, and then the final value of every key, in key order.
func (o *overlay) writeTo(b *pebble.Batch) error {
	for _, r := range o.ranges {
		if err := b.DeleteRange(r.lower, r.upper, nil); err != nil {
			return err
		}
	}
	o.sort()
	for _, i := range o.sorted {
		op := &o.ops[i]
		var err error
		if op.deleted {
			err = b.Delete(op.key, nil)
		} else {
			err = b.Set(op.key, op.value, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *overlay) reset() {
	clear(o.index)
	clear(o.ops)
	clear(o.ranges)
	clear(o.undo)
	o.ops, o.ranges, o.undo, o.sorted, o.bytes = o.ops[:0], o.ranges[:0], o.undo[:0], o.sorted[:0], 0
	o.arena.Reset()
}
