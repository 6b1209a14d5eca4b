package agg

import (
	"math"

	"github.com/floedb/floe/internal/codec"
)

// extreme is the column of Min, Max and Spread: the least and the greatest value. -0 is below 0, so
// that the result does not depend on the order of points.
type extreme struct {
	f        Func
	there    [blockLen]bool
	min, max [blockLen]float64
}

func newExtreme(f Func, _ float64) column { return &extreme{f: f} }

func (e *extreme) add(i int, _ string, _ []int64, values []float64) {
	least, greatest := values[0], values[0]
	for _, v := range values[1:] {
		// Comparisons come first, because they nearly always decide. The functions of math handle
		// -0.
		if v <= least {
			least = math.Min(least, v)
		}
		if v >= greatest {
			greatest = math.Max(greatest, v)
		}
	}
	e.addRange(i, least, greatest)
}

func (e *extreme) addRange(i int, least, greatest float64) {
	if !e.there[i] {
		e.there[i], e.min[i], e.max[i] = true, least, greatest
		return
	}
	e.min[i], e.max[i] = math.Min(e.min[i], least), math.Max(e.max[i], greatest)
}

func (e *extreme) merge(i int, o column, j int) {
	from := o.(*extreme)
	e.addRange(i, from.min[j], from.max[j])
}

func (e *extreme) empty(i int) bool { return !e.there[i] }

func (e *extreme) final(i int) (float64, bool) {
	switch e.f {
	case Min:
		return e.min[i], true
	case Max:
		return e.max[i], true
	}
	return e.max[i] - e.min[i], true
}

func (e *extreme) code(i int, c *codec.Coder) {
	codeValue(c, &e.min[i])
	codeValue(c, &e.max[i])
	e.there[i] = true
	if c.Reading() && math.Min(e.min[i], e.max[i]) != e.min[i] {
		c.Fail("minimum above the maximum")
	}
}

func (e *extreme) bytes(int) int64 { return 0 }

// codeValue codes a finite value.
func codeValue(c *codec.Coder, v *float64) {
	if c.Float64(v); c.Reading() && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
		c.Fail("value is not finite")
	}
}
