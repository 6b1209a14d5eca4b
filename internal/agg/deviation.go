package agg

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/floedb/floe/internal/codec"
)

// deviation is the column of Stddev: the number of points and the exact sums of values and squares.
type deviation struct {
	n       [blockLen]uint64
	sums    [blockLen]Sum
	squares [blockLen]wide
}

func newDeviation(Func, float64) column { return new(deviation) }

func (d *deviation) add(i int, _ string, _ []int64, values []float64) {
	d.n[i] += uint64(len(values))
	d.sums[i].AddColumn(values)
	for _, v := range values {
		if v == 0 {
			continue
		}
		m, exp := split(math.Float64bits(v))
		hi, lo := bits.Mul64(m, m)
		d.squares[i].add(hi, lo, 2*exp, false)
	}
}

func (d *deviation) merge(i int, o column, j int) {
	from := o.(*deviation)
	d.n[i] += from.n[j]
	d.sums[i].Merge(&from.sums[j])
	d.squares[i].merge(&from.squares[j])
}

func (d *deviation) empty(i int) bool { return d.n[i] == 0 }

// final returns the sample standard deviation, sqrt((n*squares - sum^2) / (n*(n-1))). Only the last
// step rounds.
func (d *deviation) final(i int) (float64, bool) {
	if d.n[i] < 2 {
		return 0, false
	}
	sum, squares := d.sums[i].whole(), d.squares[i]
	// Express both as multiples of 2^(128*least), since the square of the sum is a multiple of the
	// square of its unit.
	least := min(sum.base, floorHalf(squares.base))
	s := sum.big()
	s.Lsh(s, uint(64*(sum.base-least)))
	q := squares.big()
	q.Lsh(q, uint(64*(squares.base-2*least)))
	n := new(big.Int).SetUint64(d.n[i])
	q.Sub(q.Mul(q, n), s.Mul(s, s))
	if q.Sign() <= 0 {
		return 0, true
	}
	n.Mul(n, new(big.Int).Sub(n, big.NewInt(1)))
	const precision = 256
	v := new(big.Float).SetPrec(precision).SetInt(q)
	v.Quo(v, new(big.Float).SetPrec(precision).SetInt(n))
	v.SetMantExp(v, 128*least)
	f, _ := v.Sqrt(v).Float64()
	return f, true
}

func floorHalf(i int) int { return i >> 1 }

func (d *deviation) code(i int, c *codec.Coder) {
	codeCount(c, &d.n[i])
	d.sums[i].Code(c)
	d.squares[i].code(c)
	if c.Reading() && d.squares[i].sign() != 0 {
		c.Fail("negative sum of squares")
	}
}

func (d *deviation) bytes(i int) int64 { return d.sums[i].bytes() + int64(8*cap(d.squares[i].w)) }
