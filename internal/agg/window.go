package agg

import (
	"errors"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
)

// MaxTime bounds times and durations, in ms on both sides of the epoch. It is 285,000 years, so
// that sums of a few of them do not overflow.
const MaxTime = 1 << 53

// ErrWindows is wrapped by errors that report too many buckets.
var ErrWindows = errors.New("too many buckets")

const (
	day  = 24 * 60 * 60 * 1000
	week = 7 * day
)

// Step is the length of a window or the distance between two. It is a number of months or of ms;
// the other is 0.
type Step struct {
	Months int64
	Millis int64
}

// Panes divide time: by a step and an origin, or by explicit bounds.
type Panes struct {
	step, origin int64
	bounds       []int64 // ascending; pane i goes from bounds[i] to bounds[i+1]
}

// Index returns the pane of a time. With explicit bounds it is -1 before the first bound, and the
// number of bounds minus one at or after the last bound. Neither is a pane.
func (p *Panes) Index(t int64) int64 {
	if p.bounds == nil {
		return floorDiv(t-p.origin, p.step)
	}
	i, found := slices.BinarySearch(p.bounds, t)
	if !found {
		i--
	}
	return int64(i)
}

// Start returns the first ms of a pane, which follows the last ms of the previous pane.
func (p *Panes) Start(i int64) int64 {
	if p.bounds == nil {
		return p.origin + i*p.step
	}
	return p.bounds[i]
}

// Aligned reports whether all bounds of the panes are multiples of every ms since the epoch.
func (p *Panes) Aligned(every int64) bool {
	for _, b := range p.bounds {
		if b%every != 0 {
			return false
		}
	}
	return p.bounds != nil || p.step%every == 0 && p.origin%every == 0
}

// holds reports whether a pane exists and overlaps a range.
func (p *Panes) holds(i, from, to int64) bool {
	if p.bounds != nil {
		return i >= 0 && i < int64(len(p.bounds))-1 && p.bounds[i] < to && p.bounds[i+1] > from
	}
	return i >= p.Index(from) && i <= p.Index(to-1)
}

// cover reports whether every time of a range has a pane.
func (p *Panes) cover(from, to int64) bool {
	return len(p.bounds) == 0 || p.bounds[0] <= from && p.bounds[len(p.bounds)-1] >= to
}

// Code codes the panes.
func (p *Panes) Code(c *codec.Coder) {
	c.Varint(&p.step)
	c.Varint(&p.origin)
	if p.step == 0 {
		codec.List(c, &p.bounds, (*codec.Coder).Varint)
	}
	if c.Reading() && !p.valid() {
		c.Fail("bad windows")
	}
}

func (p *Panes) valid() bool {
	if p.step != 0 {
		return p.step > 0 && p.step <= MaxTime && p.origin >= -3*MaxTime && p.origin <= MaxTime
	}
	for i, b := range p.bounds {
		if b < -3*MaxTime || b > 3*MaxTime || i > 0 && b <= p.bounds[i-1] {
			return false
		}
	}
	return p.origin == 0 && len(p.bounds) > 1
}

// Windows are the buckets of a query; each consists of one or more panes.
type Windows struct {
	Panes    Panes
	from, to int64
	// By step: a bucket begins every stride panes and has size panes.
	stride, size int64
	// By bounds: the panes of each bucket. nil if the windows have a step.
	spans []span
}

// span is the panes of a bucket, the last excluded.
type span struct{ first, end int64 }

// Whole returns a single bucket for a range.
func Whole(from, to int64) Windows {
	return Windows{Panes: Panes{bounds: []int64{from, to}}, from: from, to: to, spans: []span{{0, 1}}}
}

// Layout describes windows: their size, their distance (every), and a time zone, or nil for
// multiples of ms since the epoch. Windows begin at multiples of every; windows of weeks begin on
// Mondays. Steps of months, and all steps if there is a zone, follow the calendar (UTC without a
// zone), see calendar.
type Layout struct {
	Size, Every Step
	Zone        *time.Location
}

func (l *Layout) byCalendar() bool {
	return l.Zone != nil || l.Size.Months > 0 || l.Every.Months > 0
}

func (l *Layout) zone() *time.Location {
	if l.Zone == nil {
		return time.UTC
	}
	return l.Zone
}

// Windows returns the buckets of a range. The first is the last one that begins at or before the
// beginning of the range. So parts of the first and the last bucket may lie outside the range. stop
// is called from time to time, and its error is returned.
//
// Errors: ErrWindows if a calendar, whose windows are listed, has more than max; other errors if a
// calendar cannot have the steps.
func (l *Layout) Windows(r Range, max int64, stop func() error) (Windows, error) {
	if !l.byCalendar() {
		return fixed(l.Size.Millis, l.Every.Millis, r), nil
	}
	return l.calendarWindows(r, max, stop)
}

// Range is a range of times in ms, To excluded.
type Range struct{ From, To int64 }

func fixed(size, every int64, r Range) Windows {
	step := gcd(size, every)
	return Windows{Panes: Panes{step: step, origin: origin(every)}, from: r.From, to: r.To, stride: every / step, size: size / step}
}

// origin is the start from which buckets are counted: the epoch, or for weeks the Monday before it.
func origin(every int64) int64 {
	if every%week == 0 {
		return -3 * day
	}
	return 0
}

// Floor returns the start of the bucket that contains a time.
func (l *Layout) Floor(t int64) (int64, error) {
	if !l.byCalendar() {
		every := l.Every.Millis
		return origin(every) + floorDiv(t-origin(every), every)*every, nil
	}
	starts, err := (&calendar{l.Every, l.zone(), nil}).starts(Range{t, t + 1}, 16)
	if err != nil {
		return 0, err
	}
	return starts[0].at, nil
}

// Count returns the number of buckets, including those without points.
func (w *Windows) Count() int64 {
	if w.spans != nil || w.stride == 0 {
		return int64(len(w.spans))
	}
	if w.from >= w.to {
		return 0
	}
	every := w.stride * w.Panes.step
	return floorDiv(w.to-1-w.Panes.origin, every) - floorDiv(w.from-w.Panes.origin, every) + 1
}

// Bucket returns the start of a bucket and its panes, end excluded; i counts from 0.
func (w *Windows) Bucket(i int64) (start, first, end int64) {
	if w.spans != nil {
		s := w.spans[i]
		return w.Panes.Start(s.first), s.first, s.end
	}
	first = (floorDiv(w.from-w.Panes.origin, w.stride*w.Panes.step) + i) * w.stride
	return w.Panes.Start(first), first, first + w.size
}

// containing returns the buckets that contain a pane, end excluded.
func (w *Windows) containing(pane int64) (first, end int64) {
	if w.spans == nil {
		zero := floorDiv(w.from-w.Panes.origin, w.stride*w.Panes.step)
		first = floorDiv(pane-w.size, w.stride) + 1 - zero
		end = floorDiv(pane, w.stride) + 1 - zero
		return max(first, 0), min(end, w.Count())
	}
	// Both ends of the spans ascend.
	n := len(w.spans)
	f, _ := slices.BinarySearchFunc(w.spans, pane, func(s span, p int64) int { return cmpBool(s.end <= p) })
	e, _ := slices.BinarySearchFunc(w.spans[f:n], pane, func(s span, p int64) int { return cmpBool(s.first <= p) })
	return int64(f), int64(f + e)
}

// cmpBool is the comparison of a binary search for the first element for which before is false.
func cmpBool(before bool) int {
	if before {
		return -1
	}
	return 1
}

// Tumbling reports whether each pane is a bucket.
func (w *Windows) Tumbling() bool {
	for i, s := range w.spans {
		if s.first != int64(i) || s.end != s.first+1 {
			return false
		}
	}
	return w.spans != nil || w.size == 1 && w.stride == 1
}

// Starts returns windows of one pane each with the same starts, so that points at the starts of
// buckets fall into the same buckets again.
func (w *Windows) Starts() Windows {
	if w.Tumbling() {
		return *w
	}
	s := Windows{from: w.from, to: w.to}
	if w.spans == nil {
		s.Panes = Panes{step: w.stride * w.Panes.step, origin: w.Panes.origin}
		s.stride, s.size = 1, 1
		return s
	}
	for i, b := range w.spans {
		s.Panes.bounds = append(s.Panes.bounds, w.Panes.Start(b.first))
		s.spans = append(s.spans, span{int64(i), int64(i) + 1})
	}
	s.Panes.bounds = append(s.Panes.bounds, w.Panes.Start(w.spans[len(w.spans)-1].end))
	return s
}

// Shift returns the windows for points that are d ms older.
func (w *Windows) Shift(d int64) Windows {
	s := *w
	s.from, s.to = w.from-d, w.to-d
	if w.Panes.bounds == nil {
		s.Panes.origin -= d
		return s
	}
	s.Panes.bounds = slices.Clone(w.Panes.bounds)
	for i := range s.Panes.bounds {
		s.Panes.bounds[i] -= d
	}
	return s
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
