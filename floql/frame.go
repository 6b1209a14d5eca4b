package floql

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/floedb/floe/internal/agg"
)

// ranks are what topk can rank by.
var ranks = []string{"avg", "max", "min", "last", "sum"}

// rank returns what a series is ranked by; false if it has no points.
func (s *frameSeries) rank(by string) (float64, bool) {
	var sum agg.Sum
	n, least, greatest, last := uint64(0), math.Inf(1), math.Inf(-1), 0.0
	for _, v := range s.values {
		if isNull(v) {
			continue
		}
		n++
		least, greatest, last = min(least, v), max(greatest, v), v
		sum.Add(v)
	}
	if n == 0 {
		return 0, false
	}
	switch by {
	case "max":
		return greatest, true
	case "min":
		return least, true
	case "last":
		return last, true
	case "sum":
		return sum.Float(), true
	}
	return sum.Mean(n), true
}

func topk(r *run, f *frame, s *stage) error    { return r.keepRanked(f, s, -1) }
func bottomk(r *run, f *frame, s *stage) error { return r.keepRanked(f, s, 1) }

// keepRanked keeps the first k series by rank, ascending or (-1) descending, in the order in which they were; of equal ones those that come first. Series
// without points go.
func (r *run) keepRanked(f *frame, s *stage, direction int) error {
	type ranked struct {
		at   int
		rank float64
	}
	var all []ranked
	for i, fs := range f.series {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if v, ok := fs.rank(s.args[1].text); ok {
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

// sortSeries orders series by their last value, those without one last; equal ones stay in their order.
func sortSeries(_ *run, f *frame, s *stage) error {
	direction := 1
	if s.args[0].text == "desc" {
		direction = -1
	}
	f.sorted = true
	slices.SortStableFunc(f.series, func(a, b *frameSeries) int {
		x, hasX := a.rank("last")
		y, hasY := b.rank("last")
		if !hasX || !hasY {
			return cmp.Compare(boolToInt(!hasX), boolToInt(!hasY))
		}
		return direction * cmp.Compare(x, y)
	})
	return nil
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fill gives every series a point in each bucket, as far as that is possible.
func fill(r *run, f *frame, s *stage) error {
	if f.windows == nil {
		return nil
	}
	r.bytes -= f.bytes()
	n := f.windows.Count()
	if err := cmp.Or(r.limits.checkResult(n*int64(len(f.series))), r.limits.CheckBytes(r.bytes+16*n*int64(len(f.series)))); err != nil {
		return err
	}
	starts := make([]int64, n)
	for i := range starts {
		starts[i], _, _ = f.windows.Bucket(int64(i))
	}
	for _, fs := range f.series {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		fs.spread(starts)
		fs.fill(&s.args[0])
	}
	r.bytes += f.bytes()
	return nil
}

// spread gives a series a point in every bucket, null where it had none.
func (s *frameSeries) spread(starts []int64) {
	times, values := make([]int64, 0, len(starts)), make([]float64, 0, len(starts))
	i := 0
	for _, t := range starts {
		v := math.NaN()
		if i < len(s.times) && s.times[i] == t {
			v = s.values[i]
			i++
		}
		times, values = append(times, t), append(values, v)
	}
	s.times, s.values = times, values
}

// fill replaces nulls.
func (s *frameSeries) fill(with *arg) {
	switch with.text {
	case "null":
		return
	case "prev":
		for i := 1; i < len(s.values); i++ {
			if isNull(s.values[i]) {
				s.values[i] = s.values[i-1]
			}
		}
	case "linear":
		s.interpolate()
	default:
		for i, v := range s.values {
			if isNull(v) {
				s.values[i] = with.number
			}
		}
	}
	s.times, s.values = only(s.times, s.values, notNull) // the nulls that are left are at the ends
}

// interpolate replaces nulls between two points by what lies on the line between them.
func (s *frameSeries) interpolate() {
	before := -1
	for i, v := range s.values {
		if isNull(v) {
			continue
		}
		if before >= 0 {
			from, span := s.values[before], float64(s.times[i]-s.times[before])
			for j := before + 1; j < i; j++ {
				s.values[j] = from + float64((v-from)*(float64(s.times[j]-s.times[before])/span))
			}
		}
		before = i
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
		fs.combine(op, with)
	}
	f.dropEmpty()
	r.bytes += f.bytes()
	return nil
}

// partner returns the series of equal tags with which one is combined: the one of the same field if there are several.
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
	return nil, errorAt(s.text, s.args[1].offset, "the query has the fields %q and %q of the same tags, and none is %q as on the left, expected field() to choose one",
		with[0].Field, with[1].Field, fs.Field)
}

// combine computes the points at times that both have; what is not finite goes.
func (s *frameSeries) combine(op simple, with *frameSeries) {
	n := 0
	for i, t := range s.times {
		j := sort.Search(len(with.times), func(k int) bool { return with.times[k] >= t })
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
}
