package agg

import "github.com/floedb/floe/internal/codec"

// moment is the column of Count, Total and Avg: the number of points and their exact sum.
type moment struct {
	f    Func
	n    [blockLen]uint64
	sums *[blockLen]Sum // nil for Count
}

func newMoment(f Func, _ float64) column {
	m := &moment{f: f}
	if f != Count {
		m.sums = new([blockLen]Sum)
	}
	return m
}

func (m *moment) add(i int, _ string, _ []int64, values []float64) {
	m.n[i] += uint64(len(values))
	if m.sums != nil {
		m.sums[i].AddColumn(values)
	}
}

// addSum adds n points by their sum, given as a float64 and its rounding error.
func (m *moment) addSum(i int, n uint64, sum, lost float64) {
	m.n[i] += n
	if m.sums != nil {
		m.sums[i].AddColumn([]float64{sum, lost})
	}
}

func (m *moment) merge(i int, o column, j int) {
	from := o.(*moment)
	m.n[i] += from.n[j]
	if m.sums != nil {
		m.sums[i].Merge(&from.sums[j])
	}
}

func (m *moment) empty(i int) bool { return m.n[i] == 0 }

func (m *moment) final(i int) (float64, bool) {
	switch {
	case m.f == Count:
		return float64(m.n[i]), true
	case m.f == Total:
		return m.sums[i].Float(), true
	}
	return m.sums[i].Mean(m.n[i]), true
}

func (m *moment) code(i int, c *codec.Coder) {
	codeCount(c, &m.n[i])
	if m.sums != nil {
		m.sums[i].Code(c)
	}
}

func (m *moment) bytes(i int) int64 {
	if m.sums == nil {
		return 0
	}
	return m.sums[i].bytes()
}

// codeCount codes a nonzero number of points.
func codeCount(c *codec.Coder, n *uint64) {
	if c.Uvarint(n); c.Reading() && (*n == 0 || *n > 1<<60) {
		c.Fail("bad count")
	}
}
