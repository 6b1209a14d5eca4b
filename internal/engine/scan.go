package engine

import (
	"bytes"
	"cmp"
	"context"

	"github.com/floedb/floe/internal/key"
)

// The rows and bytes that a query may read before it is Full, and the hard limits for a query
// without pages. A row takes about a third of a microsecond. So a page returns at once, and no
// query uses a processor for much longer than a second.
const (
	fullScanRows  = 10_000
	fullScanBytes = 16 << 20
	MaxScanRows   = 1 << 22
	MaxScanBytes  = 2 << 30
)

// scan counts the rows and bytes that a query has read since it last started, and has the
// conditions that end it early. The zero value has no limit.
type scan struct {
	ctx         context.Context // of the caller; nil: nothing is counted
	stop        <-chan struct{} // closed when the replica stops
	endless     bool            // for a duty: there is no limit
	rows, bytes int
	held        int          // bytes that the query keeps
	skims       bool         // it reports itself how many
	large       bool         // so many that it has or requested a slot: see Readers
	fault       func() error // see Replica.Fault
	err         error        // why it ended early: then that is its answer, whatever the machine makes of the rows it got
}

// scanCheck is the number of rows after which a query checks whether its caller still waits.
const scanCheck = 256

// Full reports whether a query has read so much that it must answer with the results so far, and
// with the position at which to continue. A query without pages continues, and fails at MaxScanRows
// and MaxScanBytes.
func (v *View) Full() bool {
	s := &v.scan
	return s.rows >= fullScanRows || s.bytes >= fullScanBytes
}

// looksAt counts a row. It returns false if the query must end; see scan.err.
func (v *View) looksAt() bool {
	s := &v.scan
	if s.ctx == nil {
		return true
	}
	if s.rows++; s.rows%scanCheck == 0 || s.exceeds() {
		v.checkScan()
	}
	return s.err == nil
}

// fails returns the error of a read that a test makes fail, or nil.
func (v *View) fails() error {
	if v.scan.fault == nil {
		return nil
	}
	return v.scan.fault()
}

// Ended returns the reason if a query must end now, because its caller is gone or the node closes.
// Reads of rows check that too, so Ended is for a query that does much work between two reads.
func (v *View) Ended() error {
	if v.scan.ctx != nil {
		v.checkScan()
	}
	return v.scan.err
}

func (s *scan) exceeds() bool { return !s.endless && (s.rows > MaxScanRows || s.bytes > MaxScanBytes) }

func (v *View) checkScan() {
	s := &v.scan
	if s.err != nil {
		return
	}
	if s.exceeds() {
		s.err = Errorf(ErrInvalid, "shard %d: a query of %s scanned %d rows with %d bytes: the limits are %d and %d",
			v.x.shard, v.x.table.byID[v.machine].Name, s.rows, s.bytes, MaxScanRows, MaxScanBytes)
		return
	}
	select {
	case <-s.stop:
		s.err = Errorf(ErrClosed, "shard %d: closed during a query", v.x.shard)
	default:
		s.err = s.ctx.Err()
	}
}

// Scan calls f for the rows with lower <= key < upper while it returns true.
func (v *View) Scan(lower, upper []byte, f func(k, value []byte) (more bool, err error)) error {
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	it, err := v.Iter(lower, upper)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; {
		if ok, err = f(it.Key(), it.Value()); ok {
			ok = it.Next()
		}
	}
	return cmp.Or(err, it.Close())
}

// ListRows returns up to limit items, read from the rows whose keys begin with prefix and follow
// after. It returns fewer if the view is Full, and reports whether there are more. A row for which
// read returns false is skipped.
func ListRows[T any](v *View, prefix, after []byte, limit int, read func(k, value []byte) (item T, ok bool, err error)) (items []T,
	more bool, err error) {
	lower, upper, ok := key.Behind(prefix, after)
	if !ok {
		return nil, false, nil
	}
	err = v.Scan(lower, upper, func(k, value []byte) (bool, error) {
		if more = len(items) == limit || len(items) > 0 && v.Full(); more {
			return false, nil
		}
		item, ok, err := read(k, value)
		if ok {
			items = append(items, item)
		}
		return true, err
	})
	return items, more, err
}
