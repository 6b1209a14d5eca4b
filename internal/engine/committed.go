package engine

import (
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/arena"
)

// committed is the shard's part of the state in Pebble, as the last Commit left it, with the rows
// of it that are in memory. Any goroutine may use db, table and rows. The iterators and what
// belongs to them are for the goroutine that applies, which also writes each batch.
//
// A lookup of a row that the cache may hold asks in this order: the cache; tables, unless the row
// may be fresh; points.
type committed struct {
	shard ShardID
	db    *pebble.DB
	table *table
	rows  *shardRows // the row cache, as this shard uses it

	points  *pebble.Iterator // over all rows, for lookups of this batch; opened by the first
	ranges  *pebble.Iterator // the same for the first rows of ranges: it has bounds, which points must not have
	reads   arena.Arena      // what the present command has read
	changed []changedRow     // rows of the batch being written that the cache may hold

	tables  *pebble.Iterator // over what was flushed when it was opened, for lookups of rows that are not fresh
	durable uint64           // index that tables has come to
	fresh   freshRows        // rows written since
	used    bool             // tables has been used since the last ReleaseOld
	flushed atomic.Bool      // a new tables would come further; any goroutine
	merged  atomic.Bool      // a new tables would have fewer tables to search, and release old ones; any goroutine
}

// caches reports whether the row cache holds rows like this one.
func (c *committed) caches(row []byte) bool {
	p := c.table.primitive(MachineID(row[rowPrefix-1]))
	return p != nil && p.Caches != nil && p.Caches(row[rowPrefix:])
}

// lookup returns the value of a row, valid while the command is being applied.
func (c *committed) lookup(k []byte) (value []byte, ok bool, err error) {
	if !c.caches(k) {
		value, ok, err = c.seekAll(k)
		return c.reads.Copy(value), ok, err
	}
	if value, ok := c.rows.get(k); ok {
		return value, true, nil
	}
	if err := c.openTables(); err != nil {
		return nil, false, err
	}
	if c.fresh.may(hashRow(k), c.durable) {
		value, ok, err = c.seekAll(k)
	} else {
		value, ok, err = seek(c.tables, k)
	}
	if ok {
		if kept, ok := c.rows.add(k, value); ok {
			return kept, true, nil
		}
	}
	return c.reads.Copy(value), ok, err
}

// seekAll looks a row up in the whole state. One iterator serves a batch: that is cheaper than a
// Get each.
func (c *committed) seekAll(k []byte) (value []byte, ok bool, err error) {
	if c.points == nil {
		if c.points, err = c.db.NewIter(&pebble.IterOptions{UseL6Filters: true}); err != nil {
			return nil, false, err
		}
	}
	return seek(c.points, k)
}

func seek(it *pebble.Iterator, k []byte) (value []byte, ok bool, err error) {
	if !it.SeekPrefixGE(k) {
		return nil, false, it.Error()
	}
	value, err = it.ValueAndErr()
	return value, err == nil, err
}

// within returns an iterator over the rows with lower <= key < upper, valid until the next call.
// Without an upper bound it would go on to the next row, wherever that is, over the remains of all
// rows that were deleted in between.
func (c *committed) within(lower, upper []byte) (it *pebble.Iterator, err error) {
	if c.ranges != nil {
		c.ranges.SetBounds(lower, upper)
		return c.ranges, nil
	}
	c.ranges, err = c.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	return c.ranges, err
}

// openTables opens tables if it is time for another one. That is not after every flush: until the
// tables that flushes add are merged, they would only be more to search. Its bloom filters are
// asked at the lowest level too, where most rows are.
func (c *committed) openTables() (err error) {
	c.used = true
	if c.tables != nil && !c.merged.Load() && (!c.flushed.Load() || c.fresh.rows() < manyFreshRows) {
		return nil
	}
	if err := c.closeTables(); err != nil {
		return err
	}
	c.merged.Store(false)
	c.flushed.Store(false)
	if c.tables, err = c.db.NewIter(&pebble.IterOptions{OnlyReadGuaranteedDurable: true, UseL6Filters: true}); err != nil {
		return err
	}
	row, ok, err := seek(c.tables, appliedKey(c.shard))
	if err != nil {
		return err
	}
	var a Applied
	if ok {
		if a, err = decodeApplied(row); err != nil {
			return err
		}
	}
	c.durable = a.Index
	c.fresh.flushed(a.Index)
	return nil
}

// write writes a batch that ends with the entry at index.
func (c *committed) write(over *overlay, index uint64) error {
	b := c.db.NewBatchWithSize(over.size())
	if err := over.writeTo(b); err != nil {
		return err
	}
	c.noteChanged(over, index)
	c.rows.begin(over.ops, c.changed)
	if err := c.db.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	c.rows.end(over.ops, c.changed)
	b.Close()
	return nil
}

// noteChanged notes which rows of a batch the cache may hold.
func (c *committed) noteChanged(over *overlay, index uint64) {
	c.changed = c.changed[:0]
	for i := range over.ops {
		if k := over.ops[i].key; c.caches(k) {
			r := changedRow{hash: hashRow(k), op: int32(i), slot: noSlot}
			c.fresh.add(r.hash, index)
			c.changed = append(c.changed, r)
		}
	}
}

// endBatch closes what lookups of a batch have opened.
func (c *committed) endBatch() error {
	var errs []error
	for _, it := range [...]**pebble.Iterator{&c.points, &c.ranges} {
		if *it != nil {
			errs = append(errs, (*it).Close())
			*it = nil
		}
	}
	return errors.Join(errs...)
}

// release closes all iterators.
func (c *committed) release() error { return errors.Join(c.endBatch(), c.closeTables()) }

func (c *committed) closeTables() error {
	if c.tables == nil {
		return nil
	}
	err := c.tables.Close()
	c.tables = nil
	return err
}

// Flushed tells that more of the state has been flushed, Merged that tables of it have become
// others. Any goroutine may call them.
func (x *Executor) Flushed() { x.committed.flushed.Store(true) }

// Merged is described with Flushed.
func (x *Executor) Merged() { x.committed.merged.Store(true) }

// ReleaseOld gives back what the executor holds of the database if that keeps old tables from being
// removed, or has not been used since the last call: it has to be called from time to time. Only
// for the goroutine that applies.
func (x *Executor) ReleaseOld() error {
	if c := &x.committed; c.used && !c.merged.Load() {
		c.used = false
		return nil
	}
	return x.Release()
}

// Release gives back all that the executor holds of the database, which can be closed then. Only
// for the goroutine that applies.
func (x *Executor) Release() error { return x.committed.release() }
