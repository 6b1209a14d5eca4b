package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/expression"
)

// The limits of times.
const (
	MinTime   = math.MinInt64 // before there is a watermark
	EndOfTime = math.MaxInt64 // the watermark of an ended input
)

const (
	// maxGrowth is the maximum size of the output that operators before a stateful one make from a
	// record.
	maxGrowth = 16 << 20
	// maxBatch is maxGrowth for a batch of several records.
	maxBatch = 24 << 20
	// maxEffort is the maximum total number of steps of a record's expressions, and of a batch of
	// several records: about 80 ms.
	maxEffort = 8 * expression.Budget
	// perWorker is the number of records that justifies a goroutine.
	perWorker = 64
)

// ErrBatch is returned by Tick.Add if a batch of several records becomes too large. The tick must
// be discarded; one with half of the records may succeed.
var ErrBatch = errors.New("pipeline: the batch makes more than a tick may hold")

var errGrowth = fmt.Errorf("the record becomes larger than %d MiB", maxGrowth>>20)

// Tick is a step of a job. It is not safe for concurrent use.
type Tick struct {
	program   *Program
	stage     *Stage
	state     State
	lookup    Lookup
	limits    Limits
	watermark int64
	ctx       context.Context // of the current call

	batch    []Record
	writes   []Write
	passes   []Pass
	failures []failure
	failed   map[failedAt]bool // in this batch
	counts   []Counts
	parts    []byte    // memory for values; see part
	samples  []sample  // of the measures of one record
	lent     []*[]item // of the batch, returned to the pool after it
	grown    int       // total bytes of the batch
	effort   int       // expression steps of the batch
	done     int       // expression steps of earlier batches
	bytes    int       // of writes and rows
	rows     int
}

// failure is a Failure with its record's index in the batch.
type failure struct {
	Failure
	from int32
}

// failedAt is an operator or sink, and a record of the batch on which it failed.
type failedAt struct {
	operator string
	from     int32
}

// NewTick is Stage.NewTick for all operators.
func (p *Program) NewTick(state State, lookup Lookup, limits Limits, watermark int64) *Tick {
	return p.whole.NewTick(state, lookup, limits, watermark)
}

// Spent returns the slice from Tick.Writes for reuse by another tick.
func (p *Program) Spent(writes []Write) {
	if cap(writes) == 0 {
		return
	}
	clear(writes)
	writes = writes[:0]
	p.spent.Put(&writes)
}

// fails records a failure, at most one per operator or sink and record. Sinks take turns, so
// failures of one sink and record are not adjacent.
func (t *Tick) fails(f failure) {
	at := failedAt{f.Operator, f.from}
	if f.from >= 0 && t.failed[at] {
		return
	}
	if t.failed == nil {
		t.failed = make(map[failedAt]bool)
	}
	t.failed[at] = true
	t.failures = append(t.failures, f)
}

// Writes returns the writes of sinks, in order.
func (t *Tick) Writes() []Write { return t.writes }

// Passes returns the records for other stages, in order.
func (t *Tick) Passes() []Pass { return t.passes }

// Failures returns the records that operators and sinks failed to process, in order.
func (t *Tick) Failures() []Failure {
	list := make([]Failure, len(t.failures))
	for i := range t.failures {
		list[i] = t.failures[i].Failure
	}
	return list
}

// Counts returns the operators' counts, indexed as in Job.Operators.
func (t *Tick) Counts() []Counts { return t.counts }

// Add runs records through the operators, in order. It may be called several times. Advance must be
// called after it, even if the watermark has not moved, to emit the windows that late records
// changed. Errors: those of state, lookup and ctx, and ErrBatch. After an error the tick must be
// discarded.
func (t *Tick) Add(ctx context.Context, batch []Record) error {
	t.ctx, t.batch, t.grown, t.failed = ctx, batch, 0, nil
	t.done, t.effort = t.done+t.effort, 0
	defer t.end()
	main := t.items(len(batch))
	side := make(map[int][]item)
	for i := range batch {
		it := item{Record: batch[i], from: int32(i)}
		if at := t.enters(&it); at >= t.stage.until {
			it.Right = true
			t.pass(t.program.beginsAt(at), &it)
			continue
		} else if at >= 0 {
			it.Right = true
			side[at] = append(side[at], it)
			continue
		}
		main = append(main, it)
	}
	return t.run(t.stage.from, main, side)
}

// enters returns the join where a record's source enters, -1 for the beginning.
func (t *Tick) enters(it *item) int {
	if t.stage.index > 0 {
		return -1
	}
	return t.program.enters[it.Origin.Source]
}

// items returns memory for records of the batch, in a size that many ticks can reuse.
func (t *Tick) items(n int) []item {
	list, _ := t.program.spare.Get().(*[]item)
	if list == nil || cap(*list) < n {
		made := make([]item, 0, n)
		list = &made
	}
	t.lent = append(t.lent, list)
	return (*list)[:0]
}

// end releases the memory of the batch.
func (t *Tick) end() {
	for _, list := range t.lent {
		clear((*list)[:cap(*list)])
		t.program.spare.Put(list)
	}
	t.batch, t.lent = nil, nil
}

// run takes records through the operators, starting at i, and to the sinks. The records of side
// enter at later operators.
func (t *Tick) run(i int, in []item, side map[int][]item) error {
	for i < t.stage.until {
		s := &t.program.instances[i]
		if list := side[i]; list != nil {
			in = append(in, list...)
			slices.SortStableFunc(in, func(a, b item) int { return int(a.from) - int(b.from) })
		}
		if len(in) == 0 && len(side) == 0 {
			return nil
		}
		var err error
		if s.stateful == nil {
			if in, err = t.stateless(i, s.until, in); err != nil {
				return err
			}
			i = s.until
			continue
		}
		if in, err = t.stateful(i, in); err != nil {
			return err
		}
		i++
	}
	if t.stage.until < len(t.program.instances) {
		in = t.passOn(in)
	}
	if err := t.sink(in); err != nil {
		return err
	}
	return t.tooMuch()
}

// stateful runs an operator that has state or does lookups.
func (t *Tick) stateful(i int, in []item) ([]item, error) {
	s := &t.program.instances[i]
	out := t.items(len(in))
	live := in
	if slices.ContainsFunc(in, func(it item) bool { return it.late }) {
		live = slices.DeleteFunc(slices.Clone(in), func(it item) bool { return it.late })
	}
	t.counts[i].In += int64(len(live))
	out, err := s.stateful.add(t, s, live, out)
	if err != nil {
		return nil, err
	}
	passed := len(out)
	for j := range out {
		if out[j].late {
			passed--
		}
	}
	t.counts[i].Out += int64(passed)
	for _, it := range in {
		if it.late {
			out = append(out, it)
		}
	}
	return out, t.ctx.Err()
}

// tooMuch returns an error if the batch has become too large.
func (t *Tick) tooMuch() error {
	if len(t.batch) > 1 && (t.grown > maxBatch || t.effort > maxEffort) {
		return ErrBatch
	}
	return nil
}

// Tired reports whether expressions have used so much time that the tick should end to let other
// jobs run.
func (t *Tick) Tired() bool { return t.done+t.effort > maxEffort }

// worker runs records through stateless operators, one after the other.
type worker struct {
	ctx      context.Context // of the tick
	program  *Program
	until    int // index after the last operator
	out      []item
	failures []failure
	counts   []Counts
	batch    []Record
	growth   int              // bytes of the current record
	over     error            // set if the record has become too large
	grown    int              // of all records
	meter    expression.Meter // for the current record
	effort   int              // of all records
}

// stateless runs records through the operators from <= i < until. Several goroutines share the
// records, and the result does not depend on their number.
func (t *Tick) stateless(from, until int, in []item) ([]item, error) {
	n := max(1, min(t.program.job.Parallelism, len(in)/perWorker))
	workers := make([]worker, n)
	var group sync.WaitGroup
	for i := range workers {
		w := &workers[i]
		part := in[i*len(in)/n : (i+1)*len(in)/n]
		*w = worker{ctx: t.ctx, program: t.program, until: until, out: t.items(len(part)), counts: make([]Counts, len(t.counts)),
			batch: t.batch}
		if i == n-1 {
			w.all(from, part)
			break
		}
		group.Go(func() { w.all(from, part) })
	}
	group.Wait()
	out := workers[0].out
	for i := range workers {
		w := &workers[i]
		if i > 0 {
			out = append(out, w.out...)
		}
		for _, f := range w.failures {
			t.fails(f)
		}
		t.grown += w.grown
		t.effort += w.effort
		for j := from; j < until; j++ {
			t.counts[j].add(&w.counts[j])
		}
	}
	if err := t.tooMuch(); err != nil {
		return nil, err
	}
	return out, t.ctx.Err()
}

func (c *Counts) add(o *Counts) {
	c.In += o.In
	c.Out += o.Out
	c.Errors += o.Errors
	c.Late += o.Late
	c.Dropped += o.Dropped
}

// all runs records. It stops if a batch of several becomes too large, because its result is
// discarded.
func (w *worker) all(from int, in []item) {
	for i := range in {
		if in[i].late {
			w.out = append(w.out, in[i])
			continue
		}
		before := len(w.out)
		w.growth, w.over, w.meter = 0, nil, expression.Meter{Most: maxEffort}
		w.enter(from, &in[i])
		if w.over != nil {
			w.out = w.out[:before]
		}
		w.grown += w.growth
		w.effort += w.meter.Spent
		if len(w.batch) > 1 && (w.grown > maxBatch || w.effort > maxEffort) {
			return
		}
	}
}

// enter runs a record, which it may change, through an operator and the following ones.
func (w *worker) enter(i int, it *item) {
	if i == w.until {
		w.out = append(w.out, *it)
		return
	}
	w.counts[i].In++
	s := &w.program.instances[i]
	if err := s.stateless.apply(w, i, it); err != nil && (w.over == nil || !errors.Is(err, errStop)) {
		w.fails(i, err, it)
		if errors.Is(err, errGrowth) {
			w.over = errStop
		}
	}
}

// fails records a failure of an operator.
func (w *worker) fails(i int, err error, it *item) {
	w.counts[i].Errors++
	w.failures = noted(w.failures, fail(w.program.instances[i].name, err, it, w.batch))
}

// noted appends a failure, unless the operator has already failed on a part of the same record,
// because both failures would report the same bytes.
func noted(all []failure, f failure) []failure {
	for i := len(all) - 1; i >= 0 && f.from >= 0 && all[i].from == f.from; i-- {
		if all[i].Operator == f.Operator {
			return all
		}
	}
	return append(all, f)
}

// errStop stops work on a record that has become too large and has been reported.
var errStop = errors.New("stopped")

// next passes a record to the next operator.
func (w *worker) next(i int, it *item) {
	w.counts[i].Out++
	w.enter(i+1, it)
}

// made passes on a record with a new value.
func (w *worker) made(i int, it *item) error {
	if err := w.grow(len(it.Value) + perItem); err != nil {
		return err
	}
	w.next(i, it)
	return w.over
}

// grow counts bytes made from a record.
func (w *worker) grow(n int) error {
	if w.over != nil {
		return w.over
	}
	if w.growth += n; w.growth > maxGrowth {
		return errGrowth
	}
	return nil
}

// room returns an empty slice with capacity for a new value.
func (w *worker) room(about int) []byte { return make([]byte, 0, about+64) }

// fail creates a failure of a record, as read from its source if that is known.
func fail(name string, err error, it *item, batch []Record) failure {
	f := failure{Failure{Operator: name, Reason: err.Error(), Record: it.Record}, it.from}
	if it.from >= 0 && int(it.from) < len(batch) {
		f.Record = batch[it.from]
	}
	return f
}

// Limits on the output to sinks of a record, or of a step of firing.
const (
	maxWrites     = 100_000
	maxWriteBytes = 24 << 20
)

var errWrites = fmt.Errorf("more than %d records, or %d MiB of them, would go to sinks", maxWrites, maxWriteBytes>>20)

// sink creates the writes of records for all sinks whose tags match. If a single record yields too
// many, it fails and has none. If several together do, the error is ErrBatch.
func (t *Tick) sink(in []item) error {
	sinks := t.program.job.Sinks
	t.writes = slices.Grow(t.writes, len(in))
	writes, bytes, rows := len(t.writes), t.bytes, t.rows
	for i := range in {
		it := &in[i]
		for j := range sinks {
			match := sinks[j].private.match
			if match&it.Tags != match || it.late && match&t.program.late == 0 {
				continue
			}
			w, err := sinks[j].write(j, it)
			if err != nil {
				t.fails(fail(sinks[j].Name, err, it, t.batch))
				continue
			}
			t.writes = append(t.writes, w)
			t.bytes += len(w.Key) + len(w.Record.Value) + 64
			t.rows++
		}
		if len(t.writes)-writes > maxWrites || t.bytes-bytes > maxWriteBytes {
			if len(t.batch) > 1 || len(t.batch) == 0 && t.limits.Rows > 1 {
				return ErrBatch
			}
			t.fails(fail(sinks[t.writes[writes].Sink].Name, errWrites, &in[0], t.batch))
			t.writes, t.bytes, t.rows = t.writes[:writes], bytes, rows
			return nil
		}
	}
	return nil
}

// full reports whether the tick has reached a limit.
func (t *Tick) full() bool {
	return t.limits.Bytes > 0 && t.bytes >= t.limits.Bytes || t.limits.Rows > 0 && t.rows >= t.limits.Rows
}

// Sizes of the memory blocks for values of stateful operators.
const (
	minPart = 1 << 10
	maxPart = 64 << 10
)

// part returns an empty slice for a value of up to n bytes. Memory is allocated in growing blocks,
// so that thousands of small values do not each need an allocation.
func (t *Tick) part(n int) []byte {
	if cap(t.parts)-len(t.parts) < n {
		t.parts = make([]byte, 0, max(n, min(max(2*cap(t.parts), minPart), maxPart)))
	}
	at := len(t.parts)
	t.parts = t.parts[:at+n]
	return t.parts[at : at : at+n]
}

// mark returns the watermark at an operator at the end of the last tick.
func (t *Tick) mark(s *instance) int64 { return t.stage.at(s, t.watermark) }

// slice returns the number of rows to scan before the limits are checked again.
func (t *Tick) slice() int {
	if t.limits.Rows == 0 {
		return perScan
	}
	return min(perScan, max(t.limits.Rows-t.rows, 1))
}

// Advance fires the windows, sessions and joins due up to a watermark. at is the position at which
// an earlier tick stopped on the way to the same watermark, nil at first. next is the position at
// which the next tick must continue, nil when all work is done. Advance does at least one step,
// unless the records brought the tick to a limit. EndOfTime is the watermark of a job that has read
// all its input. No records may be added until next is nil.
func (t *Tick) Advance(ctx context.Context, to int64, at []byte) (next []byte, err error) {
	t.ctx = ctx
	defer t.end()
	var from position
	if at != nil {
		if from, err = readPosition(at); err != nil {
			return nil, err
		}
		// Unfinished work continues from the watermark at which the first of these ticks began,
		// even if the caller now passes another one.
		t.watermark = min(t.watermark, from.watermark)
	}
	to = max(to, t.watermark)
	begun := false
	for i := t.stage.from; i < t.stage.until; i++ {
		s := &t.program.instances[i]
		if s.timed == nil || slices.Contains(from.done, s.number) {
			continue
		}
		rest := []byte(nil)
		if s.number == from.number {
			rest = from.rest
		}
		if !begun || !t.full() {
			begun = true
			if rest, err = s.timed.fire(t, s, t.stage.at(s, to), rest); err != nil {
				return nil, err
			}
			if rest == nil {
				from.done = append(from.done, s.number)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				continue
			}
		}
		return position{from.done, s.number, t.watermark, rest}.append(nil), nil
	}
	return nil, nil
}

// position is where Advance continues. It refers to operators by number, so it remains valid for
// another definition with other operators or another order.
type position struct {
	done      []uint16 // completed operators
	number    uint16   // current operator
	watermark int64    // watermark before
	rest      []byte   // the operator's own position
}

func (p position) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.done)))
	for _, n := range append(p.done, p.number) {
		dst = binary.BigEndian.AppendUint16(dst, n)
	}
	return append(appendTime(dst, p.watermark), p.rest...)
}

func readPosition(b []byte) (p position, err error) {
	r := codec.NewReader(b)
	n := r.Uvarint()
	rest := r.Rest()
	if r.Err() != nil || n > uint64(len(rest)) || uint64(len(rest)) < 2*n+10 {
		return p, fmt.Errorf("pipeline: position %x: %w", b, codec.ErrCorrupt)
	}
	for range n {
		p.done, rest = append(p.done, binary.BigEndian.Uint16(rest)), rest[2:]
	}
	p.number, p.watermark, p.rest = binary.BigEndian.Uint16(rest), timeIn(rest[2:]), rest[10:]
	return p, nil
}

// Renumber converts a position of Advance to new operator numbers. kept maps old numbers to new
// ones, for the operators that still exist. nil stays nil.
func Renumber(at []byte, kept map[uint16]uint16) ([]byte, error) {
	if at == nil {
		return nil, nil
	}
	p, err := readPosition(at)
	if err != nil {
		return nil, err
	}
	is := position{watermark: p.watermark}
	for _, n := range p.done {
		if k, ok := kept[n]; ok {
			is.done = append(is.done, k)
		}
	}
	if k, ok := kept[p.number]; ok {
		is.number, is.rest = k, p.rest
	}
	return is.append(nil), nil
}
