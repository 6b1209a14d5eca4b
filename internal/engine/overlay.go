package engine

import (
	"bytes"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/arena"
)

// overlay holds the writes of the entries being applied until they go to Pebble in one batch.
//
// Reads inside Apply look here first, so a command sees the writes of earlier commands of the
// batch. A key written many times reaches Pebble once, and the batch is sorted, which halves the
// cost of the memtable insert. An indexed Pebble batch would do the same job, but costs a skip-list
// insert for every write and cannot roll back a single command.
//
// A command's writes are undone by replaying undo backwards to a mark. Keys and values are in the
// arena, so returned slices stay valid until reset.
type overlay struct {
	index  map[string]int32 // key -> position in ops; the strings alias the arena
	ops    []overlayOp
	ranges rangeSet // deleted before any of ops
	undo   []overlayUndo
	splits []rangeSplit // what undo needs for its ranges

	order overlayOrder
	arena arena.Arena
	bytes int // total since the last reset
}

type overlayOp struct {
	key, value []byte
	deleted    bool
	born       bool // the row did not exist before: if it is deleted again, nothing need be written
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
	undoRange                  // op is the position in splits
)

func newOverlay() *overlay { return &overlay{index: make(map[string]int32)} }

func (o *overlay) get(key []byte) (op overlayOp, ok bool) {
	if i, ok := o.index[unsafe.String(unsafe.SliceData(key), len(key))]; ok {
		return o.ops[i], true
	}
	return overlayOp{deleted: true}, o.ranges.find(key) != nil
}

// set records a write (or a delete); it copies key and value.
func (o *overlay) set(key, value []byte, deleted bool) { o.write(key, value, deleted, false) }

// insert is set for a row that is known not to exist.
func (o *overlay) insert(key, value []byte) { o.write(key, value, false, true) }

func (o *overlay) write(key, value []byte, deleted, born bool) {
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
	o.ops = append(o.ops, overlayOp{key: key, value: value, deleted: deleted, born: born})
	o.index[unsafe.String(unsafe.SliceData(key), len(key))] = i
	o.undo = append(o.undo, overlayUndo{kind: undoFresh, op: i})
}

// deleteRange records the delete of all rows with lower <= key < upper; it copies both.
func (o *overlay) deleteRange(lower, upper []byte) {
	o.order.update(o.ops)
	o.order.each(o.ops, lower, upper, func(i int32) {
		if op := &o.ops[i]; !op.deleted {
			o.undo = append(o.undo, overlayUndo{kind: undoCover, op: i, value: op.value})
			op.value, op.deleted = nil, true
		}
	})
	o.undo = append(o.undo, overlayUndo{kind: undoRange, op: int32(len(o.splits))})
	o.splits = append(o.splits, o.ranges.add(keyRange{o.arena.Copy(lower), o.arena.Copy(upper)}))
	o.bytes += len(lower) + len(upper)
}

// settle makes the writes so far final, so that they can no longer be rolled back.
func (o *overlay) settle() {
	clear(o.splits)
	o.undo, o.splits = o.undo[:0], o.splits[:0]
}

// rollback undoes everything after the first mark entries of undo.
func (o *overlay) rollback(mark int) {
	for i := len(o.undo) - 1; i >= mark; i-- {
		u := o.undo[i]
		switch u.kind {
		case undoChange, undoCover:
			o.ops[u.op].value, o.ops[u.op].deleted = u.value, u.deleted
		case undoFresh:
			// Fresh ops were appended in this order, so the last one is the one to remove.
			op := &o.ops[u.op]
			delete(o.index, unsafe.String(unsafe.SliceData(op.key), len(op.key)))
			o.ops = o.ops[:u.op]
		case undoRange:
			o.ranges.undo(&o.splits[u.op])
			o.splits = o.splits[:u.op]
		}
	}
	o.undo = o.undo[:mark]
	o.order.shorten(len(o.ops))
}

// scan returns the ops with lower <= key < upper in key order, as they are now.
func (o *overlay) scan(lower, upper []byte) []overlayOp {
	o.order.update(o.ops)
	found := o.order.scan(o.ops, lower, upper)
	if len(found) == 0 {
		return nil
	}
	ops := make([]overlayOp, len(found))
	for at, i := range found {
		ops[at] = o.ops[i]
	}
	return ops
}

// first returns the first op with lower <= key < upper that is not a delete, or nil.
func (o *overlay) first(lower, upper []byte) (first *overlayOp) {
	o.order.update(o.ops)
	for _, run := range o.order.runs {
		for _, i := range run[o.order.seek(o.ops, run, lower):] {
			op := &o.ops[i]
			if bytes.Compare(op.key, upper) >= 0 {
				break
			}
			if !op.deleted {
				first, upper = op, op.key
				break
			}
		}
	}
	return first
}

// empty reports whether there are no writes.
func (o *overlay) empty() bool { return len(o.ops) == 0 && len(o.ranges) == 0 }

// size is about the number of bytes that writeTo adds to a batch.
func (o *overlay) size() (n int) {
	for i := range o.ops {
		n += len(o.ops[i].key) + len(o.ops[i].value) + 16
	}
	return n
}

// writeTo adds the deleted ranges to the batch, followed by the final value of every key in key
// order.
func (o *overlay) writeTo(b *pebble.Batch) error {
	for _, r := range o.ranges {
		if err := b.DeleteRange(r.lower, r.upper, nil); err != nil {
			return err
		}
	}
	o.order.update(o.ops)
	for _, i := range o.order.all(o.ops) {
		op := &o.ops[i]
		var err error
		switch {
		case op.deleted && op.born:
		case op.deleted:
			err = b.Delete(op.key, nil)
		default:
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
	o.settle()
	o.ops, o.ranges, o.bytes = o.ops[:0], o.ranges[:0], 0
	o.order.shorten(0)
	o.arena.Reset()
}
