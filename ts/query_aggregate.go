package ts

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/pushdown"
)

func (q *aggregateQuery) answer(v *engine.View) error {
	err := q.aggregate(v)
	if failed, ok := errors.AsType[*pushdown.StageError](err); ok {
		q.failed, err = failed, nil
	}
	return q.refused.note(err)
}

// aggregate adds all points of the selection to a Partial. If points have been removed and rollups
// remain, it adds the rollups.
func (q *aggregateQuery) aggregate(v *engine.View) error {
	q.partial, q.states, q.refused, q.failed = nil, nil, "", nil
	p, err := pushdown.NewPartial[floql.Series](q.plan, q.selection.Limits)
	if err != nil {
		return engine.Errorf(ErrInvalid, "ts: plan of a query: %v", err)
	}
	v.Freeze()
	v.Skims()
	t, ok, err := find(v, q.namespace, q.selection.Measurement)
	if err != nil || !ok {
		return err
	}
	s, found, err := t.scan(v, &q.selection)
	if err != nil {
		return err
	}
	a := &aggregation{partial: p, found: found, scan: s, series: make(map[memberOf]pushdown.PartialSeries)}
	if t.gone(q.selection.From, v.Now()) {
		err = a.withRollups(&q.selection)
	} else if s.from < s.to {
		err = a.points()
	}
	if err != nil {
		return err
	}
	if q.here {
		q.states = p
		return nil
	}
	q.partial, err = p.Encode(asked{context.Background(), v}, nil)
	return err
}

// asked is the context of a running query: it is done when no caller waits for the answer.
type asked struct {
	context.Context
	view *engine.View
}

// Err returns the reason for ending the query.
func (a asked) Err() error { return a.view.Ended() }

// aggregation adds points to a Partial.
type aggregation struct {
	*scan
	partial pushdown.Partial[floql.Series]
	found   *selector
	series  map[memberOf]pushdown.PartialSeries
	latest  memberOf
	to      pushdown.PartialSeries // latest
	counted int64                  // bytes of partial reported to the view
}

// memberOf is a series of a field.
type memberOf struct {
	field fieldID
	id    uint32
}

// member returns the receiver of the points of a series.
func (a *aggregation) member(field fieldID, id uint32) (pushdown.PartialSeries, error) {
	m := memberOf{field, id}
	if a.to != nil && a.latest == m {
		return a.to, nil
	}
	to := a.series[m]
	if to == nil {
		tags, err := a.found.tagsOf(seriesID(id))
		if err != nil {
			return nil, err
		}
		to, err = a.partial.Series(&floql.Series{Field: a.open.fields[field].name, Tags: tags.forQuery()})
		if err != nil {
			return nil, err
		}
		a.series[m] = to
		a.view.Holds(answerSize(tags))
	}
	a.latest, a.to = m, to
	return to, nil
}

// answerSize is the memory of a series in an answer, in addition to its states: a constant, and an
// amount per tag.
func answerSize(tags tagList) int { return 200 + 100*len(tags) }

// grown reports the memory of the states to the view.
func (a *aggregation) grown() {
	if n := a.partial.Bytes(); n > a.counted {
		a.view.Holds(int(n - a.counted))
		a.counted = n
	}
}

// points adds the points of the scan.
func (a *aggregation) points() error {
	if err := a.hold(); err != nil {
		return err
	}
	return a.heldPoints()
}

// heldPoints adds the points of the scan once the blocks have been read.
func (a *aggregation) heldPoints() error {
	return a.runHeld(frontOf(math.MinInt64), func(at spot, times []int64, values []float64) error {
		to, err := a.member(a.fields[at.field], at.series)
		if err != nil {
			return err
		}
		defer a.grown()
		if a.partial.Computes() {
			return a.compute(to, times, values)
		}
		return to.Add(times, values)
	})
}

// compute adds points that pass through expressions first. Expressions can be so expensive that it
// checks after every point whether the query has ended.
func (a *aggregation) compute(to pushdown.PartialSeries, times []int64, values []float64) error {
	for len(times) > 0 {
		atOnce := to.AtOnce()
		n := min(len(times), atOnce)
		if err := to.Add(times[:n], values[:n]); err != nil {
			return err
		}
		weight := maxUnseen
		if n < atOnce {
			weight = maxUnseen / atOnce * n
		}
		if err := a.ended(weight); err != nil {
			return err
		}
		times, values = times[n:], values[n:]
	}
	return nil
}

// withRollups adds rollups for the times whose points have been removed, and points for later
// times. Of several tiers it uses the finest one that covers a time.
func (a *aggregation) withRollups(sel *floql.Selection) error {
	now, policy := a.view.Now(), &a.open.policy
	kept := a.open.keptFrom(now)
	var usable []*tier
	for i := range policy.tiers {
		if t := &policy.tiers[i]; a.partial.TakesRollups(t.every) {
			usable = append(usable, t)
		}
	}
	if len(usable) == 0 {
		return goneError(sel, kept)
	}
	slices.SortFunc(usable, func(x, y *tier) int { return cmp.Compare(x.every, y.every) })
	split := a.partial.Split(kept)
	var ranges []tierRange // newest first
	for _, t := range usable {
		begin, end := max(sel.From, a.partial.Split(max(t.oldest(now), a.open.content.wholeFrom(t.id), sel.From))), split
		if n := len(ranges); n > 0 {
			end = ranges[n-1].from
		} else if end = ceil(kept, t.every); end > sel.To {
			end = sel.To - sel.To%t.every // the range is removed to its end: exact only if that is the end of a bucket
		}
		if begin < end {
			ranges = append(ranges, tierRange{t, begin, end})
		}
	}
	if len(ranges) > 0 {
		split = ranges[0].to
	}
	if split < kept && split < sel.To {
		return goneError(sel, kept)
	}
	return a.addRanges(ranges, split)
}

// addRanges adds the rollups of ranges, newest first, and the points at or after a time. Buckets
// that are not computed yet are read from their points, which are kept until then.
func (a *aggregation) addRanges(ranges []tierRange, split int64) error {
	end := a.scan.to
	if a.from = split; len(ranges) > 0 {
		a.from = ranges[len(ranges)-1].from
	}
	if a.from >= end {
		return nil
	}
	if err := a.hold(); err != nil {
		return err
	}
	points := func(from, to int64) error {
		if a.from, a.scan.to = from, to; from >= to {
			return nil
		}
		return a.heldPoints()
	}
	for _, r := range slices.Backward(ranges) {
		open, err := a.unrolled(r)
		if err != nil {
			return err
		}
		at := r.from
		for _, o := range open {
			if err := a.rollups(tierRange{r.tier, at, o.from}); err != nil {
				return err
			}
			a.stands = r.tier.id
			if err := points(o.from, o.until); err != nil {
				return err
			}
			a.stands, at = rawTier, o.until
		}
		if err := a.rollups(tierRange{r.tier, at, r.to}); err != nil {
			return err
		}
	}
	return points(split, end)
}

// unrolled returns the buckets of a range whose rollups lack points: those not computed yet, and
// those with unsealed points. The result is in ascending order, with adjacent buckets joined.
//
// Errors: ErrInvalid if some of their points may have been removed.
func (a *aggregation) unrolled(r tierRange) (all []dirtyRange, err error) {
	prefix := tierKey(nil, rowDirty, a.open.inc, r.tier.id)
	it, err := a.view.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	add := func(from, until int64) {
		if from, until = max(from, r.from), min(until, r.to); from < until {
			all = append(all, dirtyRange{r.tier.id, from, until})
		}
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var d dirty
		d, err = decodeDirty(it.Value())
		add(d.from, partitionOf(it.Key()))
	}
	if err = cmp.Or(err, it.Close()); err != nil {
		return nil, err
	}
	for _, blocks := range a.blocks {
		for _, b := range blocks {
			add(bucketOf(b.span.oldest, r.tier.every), bucketOf(b.span.newest, r.tier.every)+r.tier.every)
		}
	}
	slices.SortFunc(all, func(x, y dirtyRange) int { return cmp.Compare(x.from, y.from) })
	joined := all[:0]
	for _, d := range all {
		if n := len(joined); n > 0 && d.from <= joined[n-1].until {
			joined[n-1].until = max(joined[n-1].until, d.until)
		} else {
			joined = append(joined, d)
		}
	}
	// Retention removes whole partitions.
	c := &a.open.content
	if kept := floorDiv(c.oldest, a.open.partition) * a.open.partition; len(joined) > 0 && c.expired > 0 && joined[0].from < kept {
		return nil, engine.Errorf(ErrInvalid,
			"ts: the rollups of %q every %v are not computed from %s on, and some points before %s are already removed: retry later",
			a.open.name, duration(r.tier.every), formatTime(joined[0].from), formatTime(kept))
	}
	return joined, nil
}

// ceil returns the first multiple of every at or after a time.
func ceil(t, every int64) int64 {
	if t%every > 0 {
		t += every
	}
	return t - t%every
}

// tierRange is the part of a query answered from a tier.
type tierRange struct {
	tier     *tier
	from, to int64
}

// rollups adds the buckets of a tier.
func (a *aggregation) rollups(r tierRange) error {
	if r.from >= r.to {
		return nil
	}
	s := *a.scan
	s.tier, s.from, s.to, s.blocks = r.tier, r.from, r.to, nil
	partitions, err := s.partitions(math.MinInt64)
	if err != nil {
		return err
	}
	for i := range partitions {
		for _, field := range s.fields {
			if err := a.rollupField(&s, &partitions[i], field); err != nil {
				return err
			}
		}
	}
	return nil
}

// rollupColumnCount is the number of columns of a rollup, not counting those of sumRests.
const rollupColumnCount = int(columnSumParts - columnCount + 1)

// rollupField adds the buckets of a field in a partition. All columns have the same buckets.
func (a *aggregation) rollupField(s *scan, p *partitionAt, field fieldID) (err error) {
	var mergers [rollupColumnCount]merger
	defer func() {
		for i := range mergers {
			err = cmp.Or(err, mergers[i].close())
		}
	}()
	for i := range mergers {
		mergers[i].bytes = s.bytes
		if err := s.feeds(&mergers[i], p, field, columnCount+column(i)); err != nil {
			return err
		}
	}
	var columns [rollupColumnCount][]float64
	var times []int64
	var r agg.Rollup
	rests := sumRests{scan: s, partition: p, field: field}
	defer func() { err = cmp.Or(err, rests.close()) }()
	for _, id := range s.ids {
		for i := range mergers {
			columns[i] = columns[i][:0]
			first := i == 0
			if first {
				times = times[:0]
			}
			err := mergers[i].each(id, s.from, s.to, func(ts []int64, vs []float64) error {
				if columns[i] = append(columns[i], vs...); first {
					times = append(times, ts...)
				}
				return s.ended(len(ts))
			})
			if err != nil {
				return err
			}
			if len(columns[i]) != len(times) {
				return engine.Errorf(codec.ErrCorrupt, "ts: series %d: columns of %d and %d rollups", id, len(times), len(columns[i]))
			}
		}
		if len(times) == 0 {
			continue
		}
		to, err := a.member(field, uint32(id))
		if err != nil {
			return err
		}
		if err := rests.read(id, times, columns[columnSumParts-columnCount]); err != nil {
			return err
		}
		for k := range times {
			r = rollupOf(times[k], &columns, k)
			r.SumRest = rests.of(k, columns[columnSumParts-columnCount][k])
			if err := to.AddRollup(&r); err != nil {
				return err
			}
		}
		a.grown()
	}
	return nil
}

func rollupOf(start int64, columns *[rollupColumnCount][]float64, k int) agg.Rollup {
	at := func(c column) float64 { return columns[c-columnCount][k] }
	return agg.Rollup{
		Start: start, Count: uint64(at(columnCount)), Sum: at(columnSum), SumLost: at(columnSumLow), Min: at(columnMin), Max: at(columnMax),
		First: at(columnFirst), FirstTime: int64(at(columnFirstTime)), Last: at(columnLast), LastTime: int64(at(columnLastTime)),
	}
}
