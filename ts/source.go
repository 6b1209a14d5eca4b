package ts

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
	"github.com/floedb/floe/internal/pushdown"
)

// source provides the measurements of a namespace to queries. Each shard reads and aggregates its
// own part.
type source struct {
	store *Store
	exact bool // refuse ranges whose raw points are gone
}

var _ pushdown.Aggregator[floql.Selection, floql.Series] = source{}

// Read implements floql.Source.
func (s source) Read(ctx context.Context, sel floql.Selection) iter.Seq2[floql.Column, error] {
	return func(yield func(floql.Column, error) bool) {
		fail := func(err error) { yield(floql.Column{}, err) }
		q := readQuery{namespace: s.store.Namespace(), selection: sel, exact: s.exact}
		parts, shards, err := engine.AskAll(ctx, &s.store.scope, q)
		if err != nil {
			fail(err)
			return
		}
		for i, part := range parts {
			series := make(map[seriesField]*floql.Series)
			for {
				if err := part.refused.err(sel.Limits); err != nil {
					fail(err)
					return
				}
				for _, r := range part.runs {
					if !yield(floql.Column{Series: part.seriesOf(series, r.series), Times: r.times, Values: r.values}, nil) {
						return
					}
				}
				if !part.more {
					break
				}
				next := q
				next.inc, next.start = part.inc, part.next
				if err := s.store.scope.QueryShard(ctx, shards[i], &next); err != nil {
					fail(err)
					return
				}
				part = &next
			}
		}
	}
}

// seriesField identifies a series of one shard and a field.
type seriesField struct {
	id    seriesID
	field string
}

// seriesOf returns one of the series of a page: the same pointer for the same series.
func (q *readQuery) seriesOf(all map[seriesField]*floql.Series, i int) *floql.Series {
	r := &q.series[i]
	k := seriesField{r.id, r.field}
	s := all[k]
	if s == nil {
		s = &floql.Series{Field: r.field, Tags: r.tags.forQuery()}
		all[k] = s
	}
	return s
}

// Aggregate implements pushdown.Aggregator.
func (s source) Aggregate(ctx context.Context, sel floql.Selection, p pushdown.Partial[floql.Series]) error {
	q := aggregateQuery{namespace: s.store.Namespace(), selection: sel, plan: p.Plan(), here: true}
	parts, _, err := engine.AskAll(ctx, &s.store.scope, q)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := part.refused.err(sel.Limits); err != nil {
			return err
		}
		if part.failed != nil {
			return part.failed
		}
		var err error
		switch {
		case part.states != nil:
			err = p.Join(ctx, part.states)
		case part.partial != nil:
			err = p.Merge(part.partial)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Query evaluates a FloQL query over the time series of the namespace; see package floql. Windows
// are aggregated in the shards, so that buckets are transferred rather than points. If points have
// been removed, Query uses the remaining rollups if they give the same answer.
//
// Options: floql.Options. Errors: *floql.Error for a mistake in the query, with its position;
// *floql.LimitError if it exceeds a limit; ErrInvalid if it needs points that only remain as
// rollups; ErrUnavailable; ctx's error.
func (s *Store) Query(ctx context.Context, query string, opts ...floql.Options) (*floql.Result, error) {
	var o floql.Options
	if len(opts) > 0 {
		o = opts[0]
	}
	return floql.Eval(ctx, source{s, true}, query, o)
}

// Sample is one point of one field.
type Sample struct {
	Time  time.Time
	Value float64
	Tags  []floql.Tag // of its series, sorted; shared by all of its samples: do not modify
}

// ReadOption selects which points Store.Read and Store.Last read.
type ReadOption interface{ applyRead(*readOptions) }

type readOption func(*readOptions)

func (f readOption) applyRead(o *readOptions) { f(o) }

type readOptions struct {
	tags     map[string]string
	filters  []floql.Filter
	from, to time.Time
}

// Between selects only points from one time up to, but not including, another. A zero time is no
// bound.
func Between(from, to time.Time) ReadOption {
	return readOption(func(o *readOptions) { o.from, o.to = from, to })
}

// Read iterates over the points of a field of a measurement, or of one of its rollups
// ("cpu:5m:max"). Points of each series come in order of time, but points of different series are
// interleaved. Each pair is a sample and nil, or a zero Sample and an error, after which iteration
// ends; nothing runs before the first step, and break or a done ctx releases everything. A
// measurement, field or series that does not exist has no points.
//
// Options: Tags, Matching, Between. Errors: ErrInvalid for malformed names; ErrConflict if the
// measurement is deleted in the meantime; ErrUnavailable; ctx's error.
func (s *Store) Read(ctx context.Context, measurement, field string, opts ...ReadOption) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		for c, err := range s.columns(ctx, measurement, field, opts) {
			if err != nil {
				yield(Sample{}, err)
				return
			}
			for i, t := range c.Times {
				if !yield(Sample{time.UnixMilli(t), c.Values[i], c.Series.Tags}, nil) {
					return
				}
			}
		}
	}
}

// columns reads the points of Read, in columns.
func (s *Store) columns(ctx context.Context, measurement, field string, opts []ReadOption) iter.Seq2[floql.Column, error] {
	sel, err := readSelection(measurement, field, opts)
	if err != nil {
		return func(yield func(floql.Column, error) bool) { yield(floql.Column{}, err) }
	}
	if sel.From >= sel.To {
		return func(func(floql.Column, error) bool) {}
	}
	return source{s, false}.Read(ctx, sel)
}

func readSelection(measurement, field string, opts []ReadOption) (floql.Selection, error) {
	var o readOptions
	opts, bad := engine.Given(opts)
	for _, opt := range opts {
		opt.applyRead(&o)
	}
	sel, err := o.selection(measurement, field)
	return sel, cmp.Or(bad, err)
}

// readBytes is the memory limit of a page of points: all unsealed bytes of a shard, and the same
// amount for sorting.
const readBytes = 2 * maxUnsealed

func (o *readOptions) selection(measurement, field string) (floql.Selection, error) {
	sel := floql.Selection{
		Measurement: measurement, Fields: []string{field}, From: points.MinTime, To: points.MaxTime + 1,
		Limits: floql.Limits{Points: -1, Series: -1, Bytes: readBytes},
	}
	if err := engine.CheckName("measurement", measurement); err != nil {
		return sel, err
	}
	if err := checkField(field); err != nil {
		return sel, err
	}
	if !o.from.IsZero() {
		sel.From = max(sel.From, nearMillis(o.from))
	}
	if !o.to.IsZero() {
		sel.To = min(sel.To, ceilMillis(o.to))
	}
	if err := checkTags(o.tags); err != nil {
		return sel, err
	}
	for name, value := range o.tags {
		f, err := floql.NewFilter(name, floql.Equal, value)
		if err != nil {
			return sel, engine.Errorf(ErrInvalid, "ts: tag %q: %v", name, err)
		}
		sel.Filters = append(sel.Filters, f)
	}
	slices.SortFunc(sel.Filters, func(a, b floql.Filter) int { return strings.Compare(a.Tag, b.Tag) })
	filters, err := checkFilters(o.filters)
	sel.Filters = append(sel.Filters, filters...)
	return sel, err
}

// nearMillis converts a time to ms. Times far outside the range of points are moved to just before
// or after it.
func nearMillis(t time.Time) int64 {
	s := max(min(t.Unix(), points.MaxTime/1000+1), points.MinTime/1000-1)
	return time.Unix(s, int64(t.Nanosecond())).UnixMilli()
}

// ceilMillis converts a time to ms, rounded up.
func ceilMillis(t time.Time) int64 {
	ms := nearMillis(t)
	if t.Nanosecond()%1_000_000 > 0 {
		ms++
	}
	return ms
}
