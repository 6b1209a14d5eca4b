package points

import "slices"

// Info describes the contents of an encoding.
type Info struct {
	Points   int
	From, To int64  // minimum and maximum time
	Last     uint32 // greatest series
}

// Check decodes all of data and describes it, if an Encoder could have written it within the limits
// of the package. Use it for untrusted encodings. Afterwards r reads data. It keeps the allocated
// memory. Errors: ErrCorrupt.
func (r *Reader) Check(data []byte) (info Info, err error) {
	if err := r.Open(data); err != nil {
		return Info{}, err
	}
	var c Cursor
	for i := range r.sections {
		if err := r.open(i, &c); err != nil {
			return Info{}, err
		}
		if err := c.check(&info); err != nil {
			return Info{}, corrupt("field %d: %v", r.sections[i].field, err)
		}
	}
	return info, nil
}

func (c *Cursor) check(info *Info) error {
	if err := c.checkShape(); err != nil {
		return err
	}
	series, last := int64(-1), int64(0)
	for c.Next() {
		s := int64(c.first)
		if c.i > 0 {
			gap := c.gaps.at(c.i - 1)
			if gap < 0 || gap > maxSeries-series {
				return corrupt("gap %d after series %d", gap, series)
			}
			s = series + gap
		}
		if info.Points += c.n; info.Points > MaxPoints {
			return corrupt("more than %d points", MaxPoints)
		}
		times := c.Times()
		if s == series && times[0] <= last {
			return corrupt("series %d: time %d after %d", s, times[0], last)
		}
		if err := checkTimes(times); err != nil {
			return err
		}
		if err := c.checkValues(); err != nil {
			return err
		}
		series, last = s, times[len(times)-1]
		if info.Points == c.n {
			info.From, info.To = times[0], last
		}
		info.From, info.To, info.Last = min(info.From, times[0]), max(info.To, last), max(info.Last, uint32(s))
	}
	return c.checkParts()
}

const maxSeries = 1<<32 - 1

func checkTimes(times []int64) error {
	before := int64(MinTime - 1)
	for _, t := range times {
		if t <= before || t > MaxTime {
			return corrupt("time %d after %d", t, before)
		}
		before = t
	}
	return nil
}

func (c *Cursor) checkValues() error {
	if c.kind > kindBits {
		return corrupt("kind %d", c.kind)
	}
	if c.part[partOf(c.kind)].i >= c.parts[partOf(c.kind)].n {
		return corrupt("more runs of kind %d than exist", c.kind)
	}
	for _, x := range c.ints() {
		if c.kind == kindBits && !finite(floatOf(x)) || c.kind < kindBits && (x > MaxMantissa || x < -MaxMantissa) {
			return corrupt("value %d of kind %d", x, c.kind)
		}
	}
	return nil
}

// checkShape checks the parts that do not depend on the order of runs.
func (c *Cursor) checkShape() error {
	if err := c.times.check(c.countAt); err != nil {
		return err
	}
	for i := range c.times.n {
		if n := c.counts.at(i); uint64(n) >= MaxRun {
			return corrupt("%d points", n)
		}
	}
	for i := range c.runs {
		if n := c.timeOf.at(i); uint64(n) >= uint64(c.times.n) {
			return corrupt("times %d of %d", n, c.times.n)
		}
		if k := c.kinds.at(i); uint64(k) > kindBits {
			return corrupt("kind %d", k)
		}
	}
	return nil
}

// checkParts checks the sequences of values. The cursor, which is after the last run, restarts.
func (c *Cursor) checkParts() error {
	var counts [2][]int
	for i := range c.runs {
		c.i = i
		p := partOf(uint8(c.kinds.at(i)))
		counts[p] = append(counts[p], c.countAt(c.timesAt()))
	}
	for p := range c.parts {
		if len(counts[p]) != c.parts[p].n {
			return corrupt("%d runs, not %d", len(counts[p]), c.parts[p].n)
		}
		if err := c.parts[p].check(func(i int) int { return counts[p][i] }); err != nil {
			return err
		}
	}
	return nil
}

// check checks the descriptions of the sequences, and that the sequences use all the data. count
// returns the number of integers in a sequence.
func (q *sequences) check(count func(int) int) error {
	at := sequenceStart{}
	for i := range q.n {
		if w := q.width.at(i); uint64(w) > 64 {
			return corrupt("width %d", w)
		}
		n := count(i)
		if !q.none {
			if err := q.checkPlaces(at, n); err != nil {
				return err
			}
		}
		q.skip(&at, n)
	}
	switch {
	case q.n == 0:
		return nil
	case at.exception != q.total:
		return corrupt("%d exceptions of %d", at.exception, q.total)
	case bytesOf(int(at.bit), 1) != q.size:
		return corrupt("%d bits of differences in %d bytes", at.bit, q.size)
	}
	s := scanner{}
	checkPadding(&s, "differences", q.diffs, int(at.bit), 1)
	return s.err
}

// checkPlaces checks the exceptions of a sequence.
func (q *sequences) checkPlaces(at sequenceStart, n int) error {
	k := q.exceptions.at(at.i)
	if k < 0 || k > int64(q.total-at.exception) {
		return corrupt("%d exceptions", k)
	}
	before := int64(0)
	for e := at.exception; e < at.exception+int(k); e++ {
		p := q.places.at(e)
		if p <= before || p >= int64(n) || q.highs.at(e) == 0 {
			return corrupt("exception at %d of %d", p, n)
		}
		before = p
	}
	return nil
}

// Series appends the series of the encoding, sorted, to dst.
func (r *Reader) Series(dst []uint32) ([]uint32, error) {
	from := len(dst)
	var c Cursor
	for i := range r.sections {
		if !r.sections[i].own {
			continue
		}
		if err := r.open(i, &c); err != nil {
			return dst, err
		}
		for c.Next() {
			if n := len(dst); n == from || dst[n-1] != c.series {
				dst = append(dst, c.series)
			}
		}
	}
	slices.Sort(dst[from:])
	return dst[:from+len(slices.Compact(dst[from:]))], nil
}
