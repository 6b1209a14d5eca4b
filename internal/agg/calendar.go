package agg

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // so that every machine has the same time zones, or any at all
)

// Zone returns the time zone with a name of the IANA database. Only query planning needs it,
// because the resulting windows are sent as bounds.
func Zone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("the local time zone differs between machines")
	}
	return time.LoadLocation(name)
}

// calendar computes where windows of a time zone begin. A step of months begins on the first of a
// month, a step of days at midnight, and a shorter step at a time of day.
//
// A wall is the time that the zone's clocks show, in ms as if it were UTC. Boundaries are multiples
// of the step in walls, counted from 1970-01-01 00:00 (weeks from the Monday before). Each becomes
// the instant at which the clocks show it:
//
//   - A wall that clocks skip begins at the first instant after the gap. A day that a zone skips
//     whole (Apia, 2011-12-30) has no window.
//   - A wall that clocks show twice counts when they show it first. The second time also counts if
//     a whole step lies between it and the boundary before it. So the day on which summer time ends
//     has 25 windows of 1h, but 4 of 6h.
type calendar struct {
	every Step
	loc   *time.Location
	stop  func() error // nil for short computations
}

// boundary is the start of a window: an instant, and the wall that belongs to it.
type boundary struct{ at, wall int64 }

func (c *calendar) check() error {
	switch ms := c.every.Millis; {
	case c.every.Months > 0 || ms%day == 0:
		return nil
	case day%ms != 0:
		return errors.New("windows with a time zone must be whole days or divide a day")
	}
	return nil
}

// number returns the greatest k whose wall is at or before the given one.
func (c *calendar) number(wall int64) int64 {
	if c.every.Months > 0 {
		t := time.UnixMilli(wall).UTC()
		return floorDiv(int64(t.Year()-1970)*12+int64(t.Month()-1), c.every.Months)
	}
	return floorDiv(wall-origin(c.every.Millis), c.every.Millis)
}

// wall returns the wall at which window k begins.
func (c *calendar) wall(k int64) int64 {
	if c.every.Months > 0 {
		return addMonths(0, k*c.every.Months)
	}
	return origin(c.every.Millis) + k*c.every.Millis
}

// addMonths adds months to a wall. A day that the resulting month lacks becomes a day of the next
// month, as in time.AddDate.
func addMonths(wall, months int64) int64 {
	return time.UnixMilli(wall).UTC().AddDate(0, int(months), 0).UnixMilli()
}

// starts returns the boundaries of a range: from the last one at or before its beginning to the
// first one at or after its end.
//
// Errors: ErrWindows if there are more than max.
func (c *calendar) starts(r Range, max int64) ([]boundary, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	_, offset := time.UnixMilli(r.From).In(c.loc).Zone()
	k := c.number(r.From + 1000*int64(offset))
	for k--; c.first(k) > r.From; k-- { // one more than needed, for walls that occur twice
	}
	var all []boundary
	for at := int64(0); len(all) == 0 || at < r.To; k++ {
		if c.stop != nil && k%256 == 0 {
			if err := c.stop(); err != nil {
				return nil, err
			}
		}
		wall := c.wall(k)
		times := c.instants(wall)
		for _, at = range times {
			all = append(all, boundary{at, wall})
		}
		if at = times[0]; int64(len(all)) > max+4 {
			return nil, fmt.Errorf("%w: more than %d", ErrWindows, max)
		}
	}
	all = c.tidy(all)
	i, found := slices.BinarySearchFunc(all, r.From, func(b boundary, t int64) int { return cmp.Compare(b.at, t) })
	if !found {
		i--
	}
	end, _ := slices.BinarySearchFunc(all, r.To, func(b boundary, t int64) int { return cmp.Compare(b.at, t) })
	if all = all[i : end+1]; int64(len(all)) > max+1 {
		return nil, fmt.Errorf("%w: more than %d", ErrWindows, max)
	}
	return all, nil
}

// tidy sorts boundaries by instant and removes duplicates and boundaries that occur a second time
// too soon.
func (c *calendar) tidy(all []boundary) []boundary {
	slices.SortStableFunc(all, func(a, b boundary) int { return cmp.Compare(a.at, b.at) })
	kept := all[:0]
	latest := int64(-1 << 62) // wall
	for _, b := range all {
		again := b.wall <= latest
		latest = max(latest, b.wall)
		switch n := len(kept); {
		case n > 0 && b.at == kept[n-1].at:
			kept[n-1].wall = b.wall
		case n == 0 || !again || b.at-kept[n-1].at >= c.every.Millis:
			kept = append(kept, b)
		}
	}
	return kept
}

func (c *calendar) first(k int64) int64 { return c.instants(c.wall(k))[0] }

// instants returns the instants at which clocks show a wall, or the first instant after the gap if
// they skip it. A repeated wall has two instants if the step is less than a day, otherwise one.
func (c *calendar) instants(wall int64) []int64 {
	const farthest = 16 * 60 * 60 * 1000 // no zone was ever farther from UTC
	var at []int64
	for t := wall - farthest; ; {
		here := time.UnixMilli(t).In(c.loc)
		_, offset := here.Zone()
		begin, end := bounds(here)
		switch candidate := wall - 1000*int64(offset); {
		case len(at) == 0 && candidate < begin:
			return []int64{begin}
		case candidate >= begin && candidate < end:
			at = append(at, candidate)
		}
		if len(at) > 0 && (c.every.Months > 0 || c.every.Millis >= day) || end > wall+farthest {
			return at
		}
		t = end
	}
}

// bounds returns the period during which a zone keeps its offset at time t. Beyond a zone's table,
// ZoneBounds ends the period 365 days after New Year, which precedes t on the last day of a leap
// year. In that case the period ends an hour later, and the caller can continue from there.
func bounds(t time.Time) (begin, end int64) {
	begin, end = -1<<62, 1<<62
	b, e := t.ZoneBounds()
	if !b.IsZero() {
		begin = b.UnixMilli()
	}
	if !e.IsZero() {
		end = e.UnixMilli()
	}
	if now := t.UnixMilli(); end <= now {
		end = now + 60*60*1000
	}
	return begin, end
}

func (l *Layout) calendarWindows(r Range, max int64, stop func() error) (Windows, error) {
	c := calendar{l.Every, l.zone(), stop}
	if err := c.check(); err != nil {
		return Windows{}, err
	}
	w := Windows{from: r.From, to: r.To, spans: []span{}}
	if r.From >= r.To {
		return w, nil
	}
	starts, err := c.starts(r, max)
	if err != nil {
		return Windows{}, err
	}
	if l.Size == l.Every {
		for i, b := range starts {
			w.Panes.bounds = append(w.Panes.bounds, b.at)
			if i > 0 {
				w.spans = append(w.spans, span{int64(i) - 1, int64(i)})
			}
		}
		return w, nil
	}
	ends, err := c.ends(starts[:len(starts)-1], l.Size)
	if err != nil {
		return Windows{}, err
	}
	return w.between(starts[:len(starts)-1], ends), nil
}

// ends returns the ends of windows: by the calendar if their size is days or months, otherwise by
// elapsed time.
func (c *calendar) ends(starts []boundary, size Step) ([]int64, error) {
	by := calendar{size, c.loc, c.stop}
	if err := by.check(); err != nil {
		return nil, err
	}
	ends := make([]int64, len(starts))
	latest := int64(-1 << 62)
	for i, b := range starts {
		if i%256 == 0 && c.stop != nil {
			if err := c.stop(); err != nil {
				return nil, err
			}
		}
		switch {
		case size.Months > 0:
			ends[i] = by.instants(addMonths(b.wall, size.Months))[0]
		case size.Millis >= day:
			ends[i] = by.instants(b.wall + size.Millis)[0]
		default:
			ends[i] = b.at + size.Millis
		}
		latest = max(latest, ends[i], b.at+1)
		ends[i] = latest
	}
	return ends, nil
}

// between makes panes between all edges.
func (w *Windows) between(starts []boundary, ends []int64) Windows {
	edges := slices.Clone(ends)
	for _, b := range starts {
		edges = append(edges, b.at)
	}
	slices.Sort(edges)
	w.Panes.bounds = slices.Compact(edges)
	for i, b := range starts {
		w.spans = append(w.spans, span{w.Panes.Index(b.at), w.Panes.Index(ends[i])})
	}
	return *w
}
