package engine

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Iter walks forward over rows of a machine. Keys are in the machine's own form.
//
//	for ok := it.First(); ok; ok = it.Next() { use(it.Key(), it.Value()) }
//	err := it.Close()
//
// An iterator made inside Apply sees the rows as of its creation, including uncommitted rows of the
// batch.
type Iter struct {
	db      *pebble.Iterator
	prefix  int // bytes before the machine's keys
	front   []byte
	seek    []byte // scratch
	dbValid bool
	over    []overlayOp // rows of the batch being applied, the next one first; nil in a View
	ranges  rangeSet    // deleted by that batch
	onOver  bool        // the current row is over[0], not the one of db
	err     error
	tx      *Tx   // that created it; nil in a View
	view    *View // likewise; nil in a Tx
}

func newIter(r pebble.Reader, prefix, lower, upper []byte, o *overlay) (*Iter, error) {
	lo := append(prefix[:len(prefix):len(prefix)], lower...)
	hi := append(prefix[:len(prefix):len(prefix)], upper...)
	db, err := r.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	it := &Iter{db: db, prefix: len(prefix), front: prefix}
	if o != nil && len(o.ops) > 0 {
		it.over = o.scan(lo, hi)
	}
	if o != nil && len(o.ranges) > 0 {
		it.ranges = o.ranges.within(lo, hi)
	}
	return it, nil
}

// First moves to the first row.
func (it *Iter) First() bool {
	it.dbValid = it.uncovered(it.db.First())
	return it.settle() && it.counted()
}

// uncovered advances the database iterator to the next row outside all deleted ranges.
func (it *Iter) uncovered(valid bool) bool {
	for valid && len(it.ranges) > 0 {
		r := it.ranges.find(it.db.Key())
		if r == nil {
			break
		}
		valid = it.db.SeekGE(r.upper)
	}
	return valid
}

// Next moves to the next row.
func (it *Iter) Next() bool {
	if it.onOver {
		it.over = it.over[1:]
	} else {
		it.dbValid = it.uncovered(it.db.Next())
	}
	return it.settle() && it.counted()
}

// counted counts the row for the command or query that reads it. It returns false if a query must
// end.
func (it *Iter) counted() bool {
	if it.tx != nil {
		it.tx.cost.Looks++
	}
	if it.view == nil {
		return true
	}
	if err := it.view.fails(); err != nil {
		it.err = err
		return false
	}
	return it.view.looksAt()
}

// settle chooses the smaller of the two next rows. If their keys are equal, the batch's row is
// newer, and its deletes hide rows.
func (it *Iter) settle() bool {
	for len(it.over) > 0 {
		order := -1
		if it.dbValid {
			order = bytes.Compare(it.over[0].key, it.db.Key())
		}
		if order > 0 {
			break
		}
		if order == 0 {
			it.dbValid = it.uncovered(it.db.Next())
		}
		if !it.over[0].deleted {
			it.onOver = true
			return true
		}
		it.over = it.over[1:]
	}
	it.onOver = false
	return it.dbValid
}

// Key returns the row's key, valid until the next step.
func (it *Iter) Key() []byte {
	if it.onOver {
		return it.over[0].key[it.prefix:]
	}
	return it.db.Key()[it.prefix:]
}

// Value returns the row's value, valid until the next step.
func (it *Iter) Value() []byte {
	if it.onOver {
		return it.over[0].value
	}
	v, err := it.db.ValueAndErr()
	if err != nil {
		it.err = err
	}
	if it.view != nil {
		it.view.holds(len(v))
	}
	return v
}

// Err returns the first error, which may be the reason for an early end of the rows.
func (it *Iter) Err() error {
	err := cmp.Or(it.err, it.db.Error())
	if err == nil && it.view != nil {
		err = it.view.scan.err
	}
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	return nil
}

// Close releases the iterator and returns its first error.
func (it *Iter) Close() error {
	if it.tx != nil {
		it.tx.closed(it)
		if it.tx.x.checks.strict {
			it.tx.cost.Steps += stepsOf(it.db)
		}
	}
	if err := it.db.Close(); err != nil {
		it.err = err
	}
	if it.err == nil && it.view != nil {
		it.err = it.view.scan.err
	}
	if it.err != nil {
		return fmt.Errorf("read state: %w", it.err)
	}
	return nil
}

// SeekGE moves to the first row whose key is not less than k. It is for iterators of a View.
func (it *Iter) SeekGE(k []byte) bool {
	it.dbValid = it.db.SeekGE(it.fullKey(k))
	return it.settle() && it.counted()
}

// SeekLT moves to the last row whose key is less than k; Next continues after it. It is for
// iterators of a View.
func (it *Iter) SeekLT(k []byte) bool {
	it.dbValid = it.db.SeekLT(it.fullKey(k))
	return it.settle() && it.counted()
}

// Prev moves to the previous row. It is for iterators of a View.
func (it *Iter) Prev() bool {
	it.dbValid = it.db.Prev()
	return it.settle() && it.counted()
}

// fullKey returns a key of the machine as stored in the state.
func (it *Iter) fullKey(k []byte) []byte {
	if it.tx != nil {
		panic("engine: rows of a batch cannot be sought")
	}
	it.seek = append(append(it.seek[:0], it.front...), k...)
	return it.seek
}
