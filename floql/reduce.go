package floql

import (
	"errors"
	"slices"

	"github.com/floedb/floe/internal/agg"
)

// partial returns the computation of a reduction of the points read, and its windows.
func (r *run) partial(d *reduction, f *frame, shift int64, limits Limits) (*partial, *agg.Windows, error) {
	if f.rng.From >= f.rng.To {
		f.windows = nil
		return nil, nil, nil
	}
	w, err := r.windows(d, f)
	if err != nil {
		return nil, nil, err
	}
	shifted := w.Shift(shift)
	p := plan{by: d.by, agg: agg.Plan{
		Func: d.fn, P: d.p, Pre: d.pre, Panes: shifted.Panes, From: f.rng.From - shift, To: f.rng.To - shift,
	}}
	if limits.Bytes > 0 {
		limits.Bytes = max(limits.Bytes-r.bytes, 1)
	}
	return newPartial(p, limits), w, nil
}

// windows returns the buckets of a reduction: its own, those of the previous one, or the whole
// range.
func (r *run) windows(d *reduction, f *frame) (*agg.Windows, error) {
	if d.windows == nil {
		if f.windows != nil {
			w := f.windows.Starts()
			return &w, nil
		}
		w := agg.Whole(f.rng.From, f.rng.To)
		return &w, nil
	}
	most := r.limits.ResultPoints
	if most < 0 {
		most = 1 << 40
	}
	w, err := d.windows.Windows(f.rng, most, r.ctx.Err)
	if errors.Is(err, agg.ErrWindows) {
		return nil, r.limits.checkResult(most + 1)
	}
	return &w, err
}

// finish makes the sorted series of a frame from an aggregation.
func (r *run) finish(p *partial, w *agg.Windows, f *frame) error {
	f.series, f.sorted, r.bytes = nil, false, r.bytes-f.bytes()
	total := int64(0)
	groups, err := p.table.Groups()
	if err != nil {
		return p.limit(err)
	}
	for _, id := range groups {
		times, values, err := p.table.Finish(id, w, r.ctx.Err)
		if err != nil {
			return p.limit(err)
		}
		times, values = only(times, values, isFinite) // a sum may exceed the largest number
		s := &frameSeries{times: times, values: values}
		if s.Field, s.Tags, err = parseGroup(id); err != nil {
			return err
		}
		if total += s.bytes(); len(times) == 0 {
			continue
		}
		f.series = append(f.series, s)
		if err := r.limits.CheckBytes(r.bytes + total); err != nil {
			return err
		}
	}
	r.bytes += total
	f.windows = w
	if start, _, _ := w.Bucket(0); w.Count() > 0 {
		f.rng.From = min(f.rng.From, start)
	}
	return r.limits.CheckSeries(int64(len(f.series)))
}

func (s *frameSeries) bytes() int64 { return int64(16*len(s.times)) + 100 + s.Series.bytes() }

func (f *frame) bytes() (n int64) {
	for _, s := range f.series {
		n += s.bytes()
	}
	return n
}

// dropEmpty removes series without points, so that fill gives them none.
func (f *frame) dropEmpty() {
	f.series = slices.DeleteFunc(f.series, func(s *frameSeries) bool { return len(s.times) == 0 })
}

// reduce aggregates the points of a frame.
func (r *run) reduce(d *reduction, f *frame) error {
	limits := r.limits
	limits.Points = -1 // these points were already read
	p, w, err := r.partial(d, f, 0, limits)
	if err != nil || p == nil {
		return err
	}
	for _, s := range f.series {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		times, values := only(s.times, s.values, notNull)
		if err := p.addColumn(&Column{&s.Series, times, values}); err != nil {
			return err
		}
	}
	return r.finish(p, w, f)
}
