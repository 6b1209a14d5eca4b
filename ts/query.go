package ts

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
	"github.com/floedb/floe/internal/pushdown"
)

// pagePoints is the approximate number of points on a page of a readQuery, over all series. Paging
// bounds the memory and time of each step, and a reader can stop early.
const pagePoints = 1 << 16

// readQuery queries points of a selection, starting at a position.
type readQuery struct {
	namespace string
	selection floql.Selection
	exact     bool // refuse a range whose points are partly removed, with rollups in their place
	inc       incarnation
	start     spot // if inc is not 0

	series  []readSeries
	runs    []readRun
	next    spot // position to continue from
	more    bool
	refused limitRefusal
}

// readSeries is one field of a series, with its points.
type readSeries struct {
	id    seriesID
	field string
	tags  tagList
}

// readRun holds points of a series, which is given by its index in the answer.
type readRun struct {
	series int
	times  []int64
	values []float64
}

// aggregateQuery queries the states of an aggregation over a selection.
type aggregateQuery struct {
	namespace string
	selection floql.Selection
	plan      []byte
	here      bool // the caller is in this process and takes the states unencoded: not sent

	partial []byte                         // result, encoded
	states  pushdown.Partial[floql.Series] // result, if here
	refused limitRefusal
	failed  *pushdown.StageError // result: a stage before the aggregation failed for a point
}

// limitRefusal is the limit that a query exceeded, "" if none. It is a result, because the caller
// formats the error.
type limitRefusal string

// note records a limit error, and returns any other.
func (l *limitRefusal) note(err error) error {
	if e := (*floql.LimitError)(nil); errors.As(err, &e) {
		*l = limitRefusal(e.Limit)
		return nil
	}
	if errors.Is(err, errMergeBytes) {
		*l = "bytes"
		return nil
	}
	return err
}

// err returns the error for the exceeded limit.
func (l limitRefusal) err(limits floql.Limits) error {
	switch l {
	case "":
		return nil
	case "series":
		return limits.CheckSeries(math.MaxInt64)
	case "points":
		return limits.CheckPoints(math.MaxInt64)
	}
	return limits.CheckBytes(math.MaxInt64)
}

// Machine returns engine.MachineTS.
func (*readQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind identifies the kind of query.
func (*readQuery) Kind() uint8 { return queryRead }

// Machine returns engine.MachineTS.
func (*aggregateQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind identifies the kind of query.
func (*aggregateQuery) Kind() uint8 { return queryAggregate }

// Arguments codes the arguments of the query.
func (q *readQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	codeSelection(f, &q.selection)
	f.Bool("exact", &q.exact)
	f.Uvarint("incarnation", (*uint64)(&q.inc))
	q.start.code(f)
}

func (s *spot) code(f *codec.Fields) {
	f.Varint("partition", &s.partition)
	f.Int("field", &s.field, codec.Range{Max: MaxFields})
	codec.Narrow(f, "from_series", &s.series)
	f.Varint("from_ms", &s.time)
	if c := f.Binary(); c != nil && (s.field < 0 || s.field > MaxFields) {
		c.Fail("field out of range")
	}
}

// Arguments codes the arguments of the query.
func (q *aggregateQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	codeSelection(f, &q.selection)
	f.Blob("plan", &q.plan)
}

// Results codes the results.
func (q *aggregateQuery) Results(f *codec.Fields) {
	f.Blob("partial", &q.partial)
	f.Text("limit_exceeded", (*string)(&q.refused))
	failed, c := q.failed != nil, f.Binary()
	if c != nil {
		c.Bool(&failed)
	} else {
		failed = f.Given("failed_stage", failed)
	}
	if !failed {
		return
	}
	if q.failed == nil {
		q.failed = new(pushdown.StageError)
	}
	f.Int("failed_stage", &q.failed.Stage)
	f.Text("failed_message", &q.failed.Message)
}

// Results codes the results. The points are encoded by package points, with each series as a
// separate field.
func (q *readQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "series", &q.series, func(s *readSeries, f *codec.Fields) {
		codec.Narrow(f, "id", &s.id)
		f.Text("field", &s.field)
		s.tags.codeAs(f, "tags")
	})
	f.Uvarint("incarnation", (*uint64)(&q.inc))
	q.next.code(f)
	f.Bool("more", &q.more)
	f.Text("limit_exceeded", (*string)(&q.refused))
	c := f.Binary()
	if c == nil {
		codec.ListOf(f, "runs", &q.runs, (*readRun).codeJSON)
		return
	}
	var b []byte
	if !c.Reading() && len(q.runs) > 0 {
		b = q.encodeRuns()
	}
	if c.Bytes(&b); c.Reading() && b != nil && c.Err() == nil {
		if err := q.decodeRuns(b); err != nil {
			c.Fail(err.Error())
		}
	}
}

// codeJSON codes a run as two lists of the same length.
func (r *readRun) codeJSON(f *codec.Fields) {
	f.Int("series", &r.series)
	codec.ListOf(f, "times_ns", &r.times, func(at *int64, f *codec.Fields) { codeNanos(f, "", at) })
	codec.ListOf(f, "values", &r.values, func(v *float64, f *codec.Fields) { f.Float("", v) })
	if f.Parsing() && len(r.times) != len(r.values) {
		f.Refuse(fmt.Errorf("a run has %d times but %d values", len(r.times), len(r.values)))
	}
}

// codeNanos codes a time stored in ms. In JSON it is in ns, which exceeds an int64 before 1677 and
// after 2262.
func codeNanos(f *codec.Fields, name string, ms *int64) {
	if c := f.Binary(); c != nil {
		c.Varint(ms)
		return
	}
	if f.Checking() {
		return
	}
	codec.OnCopy(f, ms, func(ms *int64) {
		f.Custom(name, codec.Custom{
			Type: codec.IntegerType,
			Show: func(dst []byte) []byte {
				if dst = strconv.AppendInt(dst, *ms, 10); *ms != 0 {
					dst = append(dst, "000000"...)
				}
				return dst
			},
			Parse: func(value []byte) (err error) {
				if whole, ok := strings.CutSuffix(string(value), "000000"); ok {
					*ms, err = strconv.ParseInt(whole, 10, 64)
				} else if *ms, err = strconv.ParseInt(string(value), 10, 64); err == nil {
					*ms = floorDiv(*ms, int64(time.Millisecond))
				}
				if err != nil {
					err = fmt.Errorf("expected nanoseconds, found %.40s", value)
				}
				return err
			},
		})
	})
}

func (q *readQuery) encodeRuns() []byte {
	var e points.Encoder
	for _, r := range q.runs {
		e.Run(uint32(r.series), 0, r.times, r.values)
	}
	return e.Append(nil)
}

func (q *readQuery) decodeRuns(b []byte) error {
	var r points.Reader
	var c points.Cursor
	if _, err := r.Check(b); err != nil {
		return err
	}
	if _, err := r.Runs(0, &c); err != nil {
		return err
	}
	for c.Next() {
		if int(c.Series()) >= len(q.series) {
			return engine.Errorf(codec.ErrCorrupt, "series %d of %d", c.Series(), len(q.series))
		}
		times, values := c.Read()
		q.runs = append(q.runs, readRun{int(c.Series()), slices.Clone(times), slices.Clone(values)})
	}
	return nil
}

// target is the object of a name in a query: a measurement, or one of its rollups.
type target struct {
	open   *open
	tier   *tier
	column column
}

// rollupColumns maps aggregate names of rollups to columns. The sum is the first of its two
// numbers, which is the rounded sum.
var rollupColumns = map[string]column{
	"count": columnCount, "sum": columnSum, "min": columnMin, "max": columnMax, "first": columnFirst, "last": columnLast,
}

// find returns the target of a name, or false if it does not exist.
func find(v *engine.View, namespace, name string) (t target, ok bool, err error) {
	ns, ok := v.Namespace(namespace)
	if !ok {
		return t, false, nil
	}
	if t.open, ok, err = openView(v, ns, name); err != nil || ok {
		return t, ok, err
	}
	of, every, aggregate, ok := splitRollup(name)
	if !ok {
		return t, false, nil
	}
	if t.open, ok, err = openView(v, ns, of); err != nil || !ok {
		return t, false, err
	}
	for i := range t.open.policy.tiers {
		if tier := &t.open.policy.tiers[i]; tier.every == every.Milliseconds() {
			t.tier, t.column = tier, rollupColumns[aggregate]
			return t, true, nil
		}
	}
	return t, false, nil
}

// findAgain is find for a query of several pages: inc is the incarnation read by the previous page,
// 0 on the first.
func findAgain(v *engine.View, namespace, name string, inc incarnation) (t target, ok bool, err error) {
	t, ok, err = find(v, namespace, name)
	if ok && inc != 0 && inc != t.open.inc {
		err = engine.Errorf(ErrConflict, "measurement %q was deleted while it was read", name)
	}
	return t, ok, err
}

// oldest returns the time before which a target keeps no points.
func (t *target) oldest(now int64) int64 {
	if t.tier == nil {
		return t.open.policy.oldest(now)
	}
	return t.tier.oldest(now)
}

func (t *tier) oldest(now int64) int64 {
	if t.ttl == 0 {
		return points.MinTime
	}
	return now - t.ttl
}

// gone reports whether some points of a range have been removed while their rollups exist.
func (t *target) gone(from, now int64) bool {
	if t.tier != nil {
		return false
	}
	kept := t.open.keptFrom(now)
	return from < kept && t.open.content.oldest < kept && len(t.open.policy.tiers) > 0
}

// keptFrom returns the time before which points are too old, or were too old when the retention was
// extended. Points before it may exist if they were written since.
func (o *open) keptFrom(now int64) int64 { return max(o.policy.oldest(now), o.content.kept) }

// scan makes a scan of a selection over a target.
func (t *target) scan(v *engine.View, sel *floql.Selection) (*scan, *selector, error) {
	limits := sel.Limits.WithDefaults()
	s := &scan{
		view: v, open: t.open, tier: t.tier, column: t.column, fields: fieldsOf(t.open, sel.Fields), bytes: limits.Bytes, limits: limits,
		whole: len(sel.Filters) == 0 && len(t.open.fields) == 1,
		from:  sel.From - sel.LookBack, to: min(sel.To, points.MaxTime+1),
	}
	s.from = max(s.from, t.oldest(v.Now()))
	// The limit of series applies to those with points in the range, which are counted as they are
	// found. The series numbers of all matches count towards the memory of the query.
	found, err := selectSeries(v, t.open.inc, sel.Filters, limits)
	if err != nil {
		return nil, nil, err
	}
	if s.erased, err = t.open.erasures(v); err != nil {
		return nil, nil, err
	}
	s.ids = found.ids
	held := int64(seriesBytes * len(s.ids))
	v.Holds(int(held))
	if s.bytes >= 0 {
		s.bytes = max(s.bytes-held, 0)
	}
	return s, found, nil
}

func (q *readQuery) answer(v *engine.View) error { return q.refused.note(q.read(v)) }

func (q *readQuery) read(v *engine.View) error {
	q.series, q.runs, q.more, q.refused = nil, nil, false, ""
	v.Freeze()
	v.Skims()
	t, ok, err := findAgain(v, q.namespace, q.selection.Measurement, q.inc)
	if err != nil || !ok {
		return err
	}
	if q.exact && t.gone(q.selection.From, v.Now()) {
		return goneError(&q.selection, t.open.keptFrom(v.Now()))
	}
	start := q.start
	if q.inc == 0 {
		start = frontOf(math.MinInt64)
	}
	q.inc = t.open.inc
	s, found, err := t.scan(v, &q.selection)
	if err != nil {
		return err
	}
	if s.from < s.to {
		err = q.collect(s, found, start)
	}
	if errors.Is(err, errFull) {
		q.more, err = true, nil
	}
	return err
}

// pointBytes is the memory of a point.
const pointBytes = 16

// errFull ends a scan when the page is full.
var errFull = errors.New("page full")

// collect adds the points of a page.
func (q *readQuery) collect(s *scan, found *selector, start spot) error {
	type member struct {
		field int
		id    uint32
	}
	places := make(map[member]int)
	n := 0
	s.page = pagePoints
	err := s.run(start, func(at spot, times []int64, values []float64) error {
		if n >= pagePoints {
			q.next = at
			q.next.time = times[0]
			return errFull
		}
		n += len(times)
		s.view.Holds(pointBytes * len(times))
		m := member{at.field, at.series}
		place, ok := places[m]
		if !ok {
			tags, err := found.tagsOf(seriesID(at.series))
			if err != nil {
				return err
			}
			place = len(q.series)
			places[m] = place
			s.view.Holds(answerSize(tags))
			q.series = append(q.series, readSeries{seriesID(at.series), s.open.fields[s.fields[at.field]].name, tags})
		}
		q.runs = append(q.runs, readRun{place, slices.Clone(times), slices.Clone(values)})
		return nil
	})
	if err == nil && s.cut {
		q.next, err = frontOf(floorDiv(s.to, s.length())), errFull
	}
	return err
}

// goneError reports that a query needs points that are no longer kept.
func goneError(sel *floql.Selection, kept int64) error {
	return engine.Errorf(ErrInvalid,
		"ts: %q has only rollups before %s, but the query needs raw points: start at that time, aggregate first "+
			"(avg, sum, count, min, max, first, last, spread in windows that the rollups divide), or query a rollup by name",
		sel.Measurement, formatTime(kept))
}

func formatTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
