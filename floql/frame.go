package floql

import (
	"cmp"
	"math"
	"slices"

	"github.com/floedb/floe/internal/agg"
)

// ranks are the values that topk can rank by.
var ranks = []string{"avg", "max", "min", "last", "sum"}

// rank returns the rank of a series; false if it has no points.
func (r *run) rank(s *frameSeries, by string) (rank float64, ok bool, err error) {
	var sum agg.Sum
	n, least, greatest, last := uint64(0), math.Inf(1), math.Inf(-1), 0.0
	for i, v := range s.values {
		if err := r.ended(i); err != nil {
			return 0, false, err
		}
		if isNull(v) {
			continue
		}
		n++
		least, greatest, last = min(least, v), max(greatest, v), v
		sum.Add(v)
	}
	if n == 0 {
		return 0, false, nil
	}
	switch by {
	case "max":
		return greatest, true, nil
	case "min":
		return least, true, nil
	case "last":
		return last, true, nil
	case "sum":
		return sum.Float(), true, nil
	}
	return sum.Mean(n), true, nil
}

// ended returns the error of ctx, which it checks for every chunk of a loop over points. i is the
// index of the point, from 0.
func (r *run) ended(i int) error {
	if i%chunk != 0 {
		return nil
	}
	return r.ctx.Err()
}

func topk(r *run, f *frame, s *stage) error    { return r.keepRanked(f, s, -1) }
func bottomk(r *run, f *frame, s *stage) error { return r.keepRanked(f, s, 1) }

// keepRanked keeps the first k series by rank, ascending or (-1) descending, in their original
// order. If ranks are equal, earlier series win. Series without points are dropped.
func (r *run) keepRanked(f *frame, s *stage, direction int) error {
	type ranked struct {
		at   int
		rank float64
	}
	var all []ranked
	for i, fs := range f.series {
		v, ok, err := r.rank(fs, s.args[1].text)
		if err != nil {
			return err
		}
		if ok {
			all = append(all, ranked{i, v})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return direction * cmp.Compare(a.rank, b.rank) })
	all = all[:min(len(all), int(s.args[0].number))]
	slices.SortFunc(all, func(a, b ranked) int { return a.at - b.at })
	r.bytes -= f.bytes()
	var kept []*frameSeries
	for _, k := range all {
		kept = append(kept, f.series[k.at])
	}
	f.series = kept
	r.bytes += f.bytes()
	return nil
}

// sortSeries sorts series by their last value. Series without a value come last, and equal ones
// keep their order.
func sortSeries(r *run, f *frame, s *stage) error {
	direction := 1
	if s.args[0].text == "desc" {
		direction = -1
	}
	f.sorted = true
	type ranked struct {
		series *frameSeries
		last   float64
		any    bool
	}
	all := make([]ranked, len(f.series))
	for i, fs := range f.series {
		last, ok, err := r.rank(fs, "last")
		if err != nil {
			return err
		}
		all[i] = ranked{fs, last, ok}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		if !a.any || !b.any {
			return cmp.Compare(boolToInt(!a.any), boolToInt(!b.any))
		}
		return direction * cmp.Compare(a.last, b.last)
	})
	for i := range all {
		f.series[i] = all[i].series
	}
	return nil
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fill gives every series a point in each bucket, where possible.
func fill(r *run, f *frame, s *stage) error {
	if f.windows == nil || len(f.series) == 0 {
		return nil
	}
	r.bytes -= f.bytes()
	buckets, series := f.windows.Count(), int64(len(f.series))
	if err := r.limits.checkResult(product(buckets, series)); err != nil {
		return err
	}
	// The times of the buckets are listed once and shared by all series.
	if err := r.limits.CheckBytes(sum(r.bytes, product(16, product(buckets, series+1)))); err != nil {
		return err
	}
	var starts []int64
	for i := range buckets {
		if err := r.ended(int(i)); err != nil {
			return err
		}
		start, _, _ := f.windows.Bucket(i)
		starts = append(starts, start)
	}
	for _, fs := range f.series {
		if err := fs.spread(starts, r.ended); err != nil {
			return err
		}
		if err := fs.fill(&s.args[0], r.ended); err != nil {
			return err
		}
	}
	r.bytes += f.bytes()
	return nil
}

// product and sum calculate with non-negative numbers. They saturate at the maximum int64, so that
// a check against a limit fails.
func product(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

func sum(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// spread gives a series a point in every bucket. Points that it did not have are null.
func (s *frameSeries) spread(starts []int64, ended func(int) error) error {
	values := make([]float64, len(starts))
	at := 0
	for i, t := range starts {
		if err := ended(i); err != nil {
			return err
		}
		values[i] = math.NaN()
		if at < len(s.times) && s.times[at] == t {
			values[i] = s.values[at]
			at++
		}
	}
	s.times, s.values = slices.Clone(starts), values
	return nil
}

// fill replaces nulls.
func (s *frameSeries) fill(with *arg, ended func(int) error) error {
	if with.text == "null" {
		return nil
	}
	before, at := math.NaN(), -1 // the latest point
	for i, v := range s.values {
		if err := ended(i); err != nil {
			return err
		}
		switch null := isNull(v); {
		case with.text == "prev" && null:
			s.values[i] = before
		case with.text == "" && null:
			s.values[i] = with.number
		case !null:
			if with.text == "linear" && at >= 0 {
				s.interpolate(at, i)
			}
			before, at = v, i
		}
	}
	s.times, s.values = only(s.times, s.values, notNull) // the remaining nulls are at the ends
	return nil
}

// interpolate replaces the nulls between two points with values on the line between them. If their
// difference would overflow, as from -1e308 to 1e308, it weights each of them instead, so that the
// result is finite.
func (s *frameSeries) interpolate(from, to int) {
	a, b, span := s.values[from], s.values[to], float64(s.times[to]-s.times[from])
	d := b - a
	for i := from + 1; i < to; i++ {
		part := float64(s.times[i]-s.times[from]) / span
		if isFinite(d) {
			s.values[i] = a + float64(d*part)
		} else {
			s.values[i] = float64(a*(1-part)) + float64(b*part)
		}
	}
}

// join combines the series of a frame with those of another query.
func join(r *run, f *frame, s *stage) error {
	right, err := r.query(s.args[1].query, r.rng)
	if err != nil {
		return err
	}
	byTags := make(map[string][]*frameSeries)
	for _, fs := range right.series {
		id := tagsID(fs.Tags)
		byTags[id] = append(byTags[id], fs)
	}
	op := simple{op: s.args[0].text}
	r.bytes -= f.bytes() + right.bytes()
	for _, fs := range f.series {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		with, err := partner(s, fs, byTags[tagsID(fs.Tags)])
		if err != nil {
			return err
		}
		if err := fs.combine(op, with, r.ended); err != nil {
			return err
		}
	}
	f.dropEmpty()
	r.bytes += f.bytes()
	return nil
}

// partner returns the series with equal tags with which a series is combined. If there are several,
// it is the one of the same field.
func partner(s *stage, fs *frameSeries, with []*frameSeries) (*frameSeries, error) {
	if len(with) == 1 {
		return with[0], nil
	}
	for _, w := range with {
		if w.Field == fs.Field {
			return w, nil
		}
	}
	if len(with) == 0 {
		return &frameSeries{}, nil
	}
	return nil, errorAt(s.text, s.args[1].offset,
		"the nested query has the fields %q and %q with equal tags, but not %q as on the left, expected field() to choose one",
		with[0].Field, with[1].Field, fs.Field)
}

// combine computes the points at the times of both, and drops results that are not finite.
func (s *frameSeries) combine(op simple, with *frameSeries, ended func(int) error) error {
	n, j := 0, 0
	for i, t := range s.times {
		if err := ended(i); err != nil {
			return err
		}
		for ; j < len(with.times) && with.times[j] < t; j++ {
			if err := ended(j); err != nil {
				return err
			}
		}
		if j == len(with.times) || with.times[j] != t {
			continue
		}
		op.number = with.values[j]
		v := op.compute(s.values[i])
		if isNull(s.values[i]) || isNull(op.number) {
			v = math.NaN()
		} else if !isFinite(v) {
			continue
		}
		s.times[n], s.values[n] = t, v
		n++
	}
	s.times, s.values = s.times[:n], s.values[:n]
	return nil
}
