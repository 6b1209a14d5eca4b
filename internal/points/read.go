package points

import (
	"math"
	"slices"
)

// Reader reads an encoding. The zero value is empty until Open. A reused Reader keeps its memory.
//
// A Reader does not panic on any input, but its results are meaningful only for encodings that pass
// Check.
type Reader struct {
	sections []section
}

type section struct {
	field uint16
	own   bool   // has its own shape
	data  []byte // the section's data
	rest  []byte // the section's data and everything after it
}

// Open starts to read data, which must not be changed while it is being read. It checks only the
// directory. Errors: ErrCorrupt.
func (r *Reader) Open(data []byte) error {
	r.sections = r.sections[:0]
	s := scanner{b: data}
	if v := s.byte(); s.err == nil && v != version {
		s.fail("version %d", v)
	}
	n := s.uvarint("number of fields", maxFields)
	if s.err == nil && n == 0 {
		s.fail("no fields")
	}
	field := -1
	for range n {
		field += 1 + s.uvarint("field", maxFields)
		length := s.uvarint("length of a field", len(data)<<1|1)
		if s.err != nil {
			return s.err
		}
		if field >= maxFields {
			return corrupt("field %d", field)
		}
		r.sections = append(r.sections, section{field: uint16(field), own: length&1 == 1, rest: data[:length>>1]})
	}
	if s.err != nil {
		return s.err
	}
	for i := range r.sections {
		sec := &r.sections[i]
		n := len(sec.rest)
		if n > len(s.b) || n == 0 || i == 0 && !sec.own {
			return corrupt("field %d: %d bytes", sec.field, n)
		}
		sec.data, sec.rest = s.b[:n], s.b
		s.b = s.b[n:]
	}
	if len(s.b) > 0 {
		return corrupt("%d bytes left over", len(s.b))
	}
	return nil
}

// Fields appends the fields of the encoding, sorted, to dst.
func (r *Reader) Fields(dst []uint16) []uint16 {
	for i := range r.sections {
		dst = append(dst, r.sections[i].field)
	}
	return dst
}

// Runs positions c before the first run of a field. It returns false if the field has no points.
// Errors: ErrCorrupt.
func (r *Reader) Runs(field uint16, c *Cursor) (ok bool, err error) {
	i, ok := slices.BinarySearchFunc(r.sections, field, func(s section, f uint16) int { return int(s.field) - int(f) })
	if !ok {
		return false, nil
	}
	return true, r.open(i, c)
}

func (r *Reader) open(i int, c *Cursor) error {
	shaped := i
	for !r.sections[shaped].own {
		shaped--
	}
	s := scanner{b: r.sections[shaped].rest}
	c.openShape(&s)
	if s.err != nil {
		return s.err
	}
	if i != shaped {
		s.b = r.sections[i].rest
	}
	c.openValues(&s)
	if s.err != nil {
		return s.err
	}
	if end := len(r.sections[i].rest) - len(s.b); end != len(r.sections[i].data) {
		return corrupt("field %d: %d bytes of %d", r.sections[i].field, end, len(r.sections[i].data))
	}
	return nil
}

// Cursor iterates over the runs of a field, by series and time. A reused Cursor keeps its memory.
//
//	for c.Next() {
//		times, values := c.Read()
//		use(c.Series(), times, values)
//	}
type Cursor struct {
	runs   int
	first  uint32
	gaps   column
	timeOf column
	counts column
	times  sequences
	kinds  column
	parts  [2]sequences // decimals and bits

	i       int // current run; -1: before the first one
	series  uint32
	shared  bool            // several runs share a sequence of times
	at      sequenceStart   // of the times of the current run, unless shared
	places  []sequenceStart // of all sequences of times, if shared
	part    [2]sequenceStart
	kind    uint8
	n       int // points of the current run
	uniform bool

	timesOf int // number of the sequence in ts
	ts, xs  []int64
	vs      []float64
}

func (c *Cursor) openShape(s *scanner) {
	c.i, c.series, c.at, c.part, c.timesOf = -1, 0, sequenceStart{}, [2]sequenceStart{}, -1
	c.runs = s.uvarint("number of runs", maxRuns)
	if s.err == nil && c.runs == 0 {
		s.fail("no runs")
	}
	c.first = uint32(s.uvarint("series", math.MaxUint32))
	c.gaps = s.column("gaps", max(0, c.runs-1))
	n := s.uvarint("number of times", maxRuns)
	if s.err == nil && (n == 0 || n > c.runs) {
		s.fail("%d times of %d runs", n, c.runs)
	}
	c.timeOf = column{}
	c.shared = n < c.runs
	if c.shared && n > 1 {
		c.timeOf = s.column("times of runs", c.runs)
	}
	c.counts = s.column("points", n)
	c.times = s.sequences("times", n)
	c.places = c.places[:0]
	if c.shared && s.err == nil {
		c.placeTimes(n)
	}
}

// placeTimes finds the start of each sequence of times, because runs use them in any order.
func (c *Cursor) placeTimes(n int) {
	at := sequenceStart{}
	for i := range n {
		c.places = append(c.places, at)
		c.times.skip(&at, c.countAt(i))
	}
}

func (c *Cursor) openValues(s *scanner) {
	c.kinds = s.column("kinds", c.runs)
	n := s.uvarint("runs of bits", c.runs)
	if s.err != nil {
		return
	}
	c.parts[0] = s.sequences("decimals", c.runs-n)
	c.parts[1] = s.sequences("bits", n)
	p := &c.parts[partOf(uint8(c.kinds.at(0)))]
	c.uniform = c.gaps.width == 0 && c.counts.width == 0 && c.kinds.width == 0 && p.constant && p.none &&
		(c.shared || c.times.constant && c.times.none)
}

func partOf(kind uint8) int {
	if kind == kindBits {
		return 1
	}
	return 0
}

// countAt returns the number of points in a sequence of times. A number out of range is corrupt and
// reads as 1.
func (c *Cursor) countAt(i int) int {
	if n := c.counts.at(i); uint64(n) < MaxRun {
		return int(n) + 1
	}
	return 1
}

// Next moves to the next run. It returns false after the last one.
func (c *Cursor) Next() bool {
	if c.i >= 0 && c.i < c.runs {
		c.parts[partOf(c.kind)].skip(&c.part[partOf(c.kind)], c.n)
		if !c.shared {
			c.times.skip(&c.at, c.n)
		}
	}
	if c.i++; c.i >= c.runs {
		c.i = c.runs
		return false
	}
	if c.series = c.series + uint32(c.gaps.at(c.i-1)); c.i == 0 {
		c.series = c.first
	}
	c.settle()
	return true
}

// settle reads the description of the current run.
func (c *Cursor) settle() {
	c.kind = uint8(c.kinds.at(c.i))
	c.n = c.countAt(c.timesAt())
}

// timesAt returns the number of the current run's sequence of times.
func (c *Cursor) timesAt() int {
	if !c.shared {
		return c.i
	}
	if n := c.timeOf.at(c.i); uint64(n) < uint64(c.times.n) {
		return int(n)
	}
	return 0
}

// Seek moves to the first run with at least the given series, which may be the current run. It
// returns false if none exists.
func (c *Cursor) Seek(series uint32) bool {
	if c.i < 0 && !c.Next() {
		return false
	}
	if c.uniform && c.i < c.runs && c.series < series && c.gaps.least > 0 {
		c.jump(series)
	}
	for c.i < c.runs && c.series < series {
		c.Next()
	}
	return c.i < c.runs
}

// jump skips towards a series by equal gaps, if all runs are alike.
func (c *Cursor) jump(series uint32) {
	k := min(int(int64(series-c.series)/c.gaps.least), c.runs-1-c.i)
	p := partOf(c.kind)
	c.parts[p].skipAll(&c.part[p], k, c.n)
	if !c.shared {
		c.times.skipAll(&c.at, k, c.n)
	}
	c.i += k
	c.series += uint32(int64(k) * c.gaps.least)
	c.settle()
}

// Series returns the series of the current run.
func (c *Cursor) Series() uint32 { return c.series }

// Len returns the number of points in the current run, 1 to MaxRun.
func (c *Cursor) Len() int { return c.n }

// First returns the time of the current run's first point.
func (c *Cursor) First() int64 { return c.times.first.at(c.timesAt()) }

// Times returns the times of the current run. They are valid until the next Next or Seek, and must
// not be changed.
func (c *Cursor) Times() []int64 {
	at := c.timesAt()
	if at == c.timesOf {
		return c.ts
	}
	from := c.at
	if c.shared {
		from = c.places[at]
	}
	c.ts = slices.Grow(c.ts[:0], c.n)[:c.n]
	c.times.decode(from, c.ts)
	c.timesOf = at
	return c.ts
}

// Read returns the times and values of the current run. They are valid until the next Next or Seek,
// and must not be changed.
func (c *Cursor) Read() (times []int64, values []float64) {
	xs := c.ints()
	c.vs = slices.Grow(c.vs[:0], c.n)[:c.n]
	switch {
	case c.kind == 0:
		for i, x := range xs {
			c.vs[i] = float64(x)
		}
	case c.kind <= MaxExponent:
		power := powers[c.kind]
		for i, x := range xs {
			c.vs[i] = float64(x) / power
		}
	default:
		for i, x := range xs {
			c.vs[i] = floatOf(x)
		}
	}
	return c.Times(), c.vs
}

// ints decodes the integers of the current run's values.
func (c *Cursor) ints() []int64 {
	c.xs = slices.Grow(c.xs[:0], c.n)[:c.n]
	p := partOf(c.kind)
	if c.part[p].i < c.parts[p].n {
		c.parts[p].decode(c.part[p], c.xs)
	} else {
		clear(c.xs)
	}
	return c.xs
}
