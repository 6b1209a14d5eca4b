package engine

import (
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/arena"
)

// committed is the shard's part of the state in Pebble as of the last Commit, with those of its
// rows that are in memory. Any goroutine may use db, table and rows. The iterators and their fields
// belong to the goroutine that applies, which also writes each batch.
//
// A lookup of a row that the cache may hold searches the cache first, then tables unless the row
// may be fresh, then points.
type committed struct {
	shard ShardID
	db    *pebble.DB
	table *table
	rows  *shardRows // the row cache, as this shard uses it

	points  *pebble.Iterator // over all rows, for lookups of this batch; opened by the first lookup
	ranges  *pebble.Iterator // the same for the first rows of ranges: it has bounds, which points must not have
	reads   arena.Arena      // rows read by the current command
	changed []changedRow     // rows of the batch being written that the cache may hold

	tables  *pebble.Iterator // over what was flushed when it was opened, for lookups of rows that are not fresh
	durable uint64           // raft index of the last entry in tables
	fresh   freshRows        // rows written since
	used    bool             // tables has been used since the last ReleaseOld
	flushed atomic.Bool      // reopening tables would include more entries; any goroutine
	merged  atomic.Bool      // reopening tables would leave fewer of them to search, and release old ones; any goroutine
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

// seekAll looks up a row in the whole state. One iterator serves a batch, which is cheaper than a
// Get for each row.
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
// Without an upper bound it would move to the next existing row, over the tombstones of all rows
// deleted in between.
func (c *committed) within(lower, upper []byte) (it *pebble.Iterator, err error) {
	if c.ranges != nil {
		c.ranges.SetBounds(lower, upper)
		return c.ranges, nil
	}
	c.ranges, err = c.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	return c.ranges, err
}

// openTables reopens tables if that is worthwhile. It is not worthwhile after every flush, because
// until the new tables are merged, they make each search longer. The iterator uses bloom filters at
// the lowest level too, where most rows are.
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

// noteChanged records which rows of a batch the cache may hold.
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

// endBatch closes the iterators opened by lookups of a batch.
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

// Flushed records that more of the state has been flushed. Merged records that some of its tables
// have been replaced. Any goroutine may call them.
func (x *Executor) Flushed() { x.committed.flushed.Store(true) }

// Merged is described with Flushed.
func (x *Executor) Merged() { x.committed.merged.Store(true) }

// ReleaseOld closes iterators that keep old tables from being removed, or that were not used since
// the last call. The goroutine that applies must call it from time to time.
func (x *Executor) ReleaseOld() error {
	if c := &x.committed; c.used && !c.merged.Load() {
		c.used = false
		return nil
	}
	return x.Release()
}

// Release closes all iterators of the executor, so that the database can be closed. Only the
// goroutine that applies may call it.
func (x *Executor) Release() error { return x.committed.release() }
