package raftlog

import (
	"errors"
	"slices"
)

// Summary describes the contents of a log.
type Summary struct {
	Segments int
	Bytes    int64 // of valid records
}

// Verify reads every record of the live segments in o.Dir and reports the first damage of each
// segment. Open, by contrast, stops at the first damage it finds. It does not check that the
// segments are consecutive, which Open does. It writes nothing.
//
// Errors: those of FS, ErrNewer.
func Verify(o Options, report func(*CorruptionError)) (Summary, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Summary{}, err
	}
	v := &verification{log: &Log{fs: o.FS, dir: o.Dir, logger: o.Logger, shards: make(map[uint16]*Shard), oldest: 1}, report: report}
	err = v.run()
	return v.Summary, err
}

// verification checks one segment after the other.
type verification struct {
	Summary
	log     *Log     // has the log's location and mark
	numbers []uint32 // of the existing files
	report  func(*CorruptionError)
	seen    []CorruptionError
}

func (v *verification) run() (err error) {
	var spares []string
	if v.numbers, spares, err = v.log.listFiles(); err != nil || len(v.numbers)+len(spares) == 0 {
		return err
	}
	if len(v.numbers) == 0 {
		v.report(&CorruptionError{File: v.log.fs.PathJoin(v.log.dir, spares[0]), Reason: "all segments are missing"})
		return nil
	}
	if err := v.log.learnMark(v.numbers); v.damaged(&err) || err != nil {
		return err
	}
	last, err := v.log.findLast(v.numbers)
	whole := !v.damaged(&err)
	if err != nil || whole && last.number == 0 {
		return err
	}
	if !whole {
		// The first and last segments of the log are unknown. Every existing file should be
		// complete, and the newest has been checked.
		last = survey{number: slices.Max(v.numbers), oldest: slices.Min(v.numbers)}
	}
	for n := last.oldest; n < last.number || whole && n == last.number; n++ {
		if err := v.segment(n, last); err != nil {
			return err
		}
	}
	return nil
}

// segment reads a segment as if it were the oldest, so that it does not depend on others, which may
// be damaged.
func (v *verification) segment(n uint32, last survey) error {
	v.Segments++
	if !slices.Contains(v.numbers, n) {
		err := v.log.lost(n, v.numbers)
		v.damaged(&err)
		return err
	}
	if n < last.number && !slices.Contains(v.numbers, n+1) {
		return nil // only the missing segment recorded where this one ends
	}
	end, err := v.log.endOf(n, last)
	if v.damaged(&err) || err != nil {
		return err
	}
	alone := &Log{fs: v.log.fs, dir: v.log.dir, logger: v.log.logger, shards: make(map[uint16]*Shard), oldest: n, mark: v.log.mark}
	err = alone.replaySegment(n, end)
	if !v.damaged(&err) && err == nil {
		v.Bytes += end
	}
	return err
}

// damaged clears *err if it is damage, and reports each damage once.
func (v *verification) damaged(err *error) bool {
	var damage *CorruptionError
	if !errors.As(*err, &damage) {
		return false
	}
	*err = nil
	if !slices.Contains(v.seen, *damage) {
		v.seen = append(v.seen, *damage)
		v.report(damage)
	}
	return true
}
