package engine

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// verifyCache reports rows in memory that differ from those of the state. Queries and Apply would
// use the wrong rows.
func (a *Audit) verifyCache() error {
	for i := range a.x.committed.rows.buckets {
		for _, r := range a.x.committed.rows.buckets[i].rowsOf(a.x.committed.rows) {
			k := r.b[:r.key]
			value, ok, err := getRow(a.reader(), k)
			switch {
			case err != nil:
				return err
			case !ok:
				a.Reportf("row %x is in memory, but not in the state", k)
			case !bytes.Equal(value, r.value()):
				a.Reportf("row %x differs between memory and state", k)
			}
		}
	}
	return nil
}

// rowsOf returns the rows of a shard.
func (b *rowBucket) rowsOf(of *shardRows) (rows []cachedRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.slots {
		if r.of == of && r.b != nil {
			rows = append(rows, r)
		}
	}
	return rows
}

// verifyFresh reports rows for which Apply would read a stale version. Apply searches only the
// tables, except for rows known to have been written since the last flush.
func (a *Audit) verifyFresh() error {
	if err := a.x.committed.openTables(); err != nil {
		return err
	}
	lower, upper := Bounds(a.x.shard)
	state, err := a.reader().NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	tables := a.x.committed.tables
	inTables := func(ok bool) bool { return ok && bytes.Compare(tables.Key(), upper) < 0 }
	more, flushed := state.First(), inTables(tables.SeekGE(lower))
	for err == nil && (more || flushed) {
		order := 1
		if more && !flushed {
			order = -1
		} else if more {
			order = bytes.Compare(state.Key(), tables.Key())
		}
		switch {
		case order < 0:
			a.verifyKnown(state.Key())
		case order > 0:
			a.verifyKnown(tables.Key())
		case !bytes.Equal(state.Value(), tables.Value()):
			a.verifyKnown(state.Key())
		}
		if order <= 0 {
			more = state.Next()
		}
		if order >= 0 {
			flushed = inTables(tables.Next())
		}
		err = a.Tick()
	}
	if closeErr := state.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("read state: %w", closeErr)
	}
	if tablesErr := tables.Error(); err == nil && tablesErr != nil {
		err = fmt.Errorf("read state: %w", tablesErr)
	}
	return err
}

// verifyKnown checks that freshRows has recorded the change of a row since the last flush.
func (a *Audit) verifyKnown(k []byte) {
	if len(k) > rowPrefix && k[rowPrefix-1] < maxMachines && a.x.committed.caches(k) &&
		!a.x.committed.fresh.may(hashRow(k), a.x.committed.durable) {
		a.Reportf("row %x has changed since the last flush, but memory does not record that", k)
	}
}
