package floql

import (
	"math"
	"strconv"

	"github.com/floedb/floe/internal/agg"
)

// pointFunc takes the points of one series, in order and in parts. It returns the resulting points
// in the same slices, which it may change. A NaN value is a null, written by fill.
type pointFunc func(times []int64, values []float64) ([]int64, []float64, error)

// each returns a function that changes every value independently. It drops results that are not
// finite, and keeps nulls.
func each(f func(float64) float64) func(*Series) pointFunc {
	return func(*Series) pointFunc {
		return func(times []int64, values []float64) ([]int64, []float64, error) {
			n := 0
			for i, v := range values {
				r := f(v)
				if !isNull(v) && !isFinite(r) {
					continue
				}
				times[n], values[n] = times[i], r
				n++
			}
			return times[:n], values[:n], nil
		}
	}
}

func isNull(v float64) bool   { return v != v }
func notNull(v float64) bool  { return v == v }
func isFinite(v float64) bool { return v-v == 0 }

// only keeps, in the same slices, the points whose values satisfy is.
func only(times []int64, values []float64, is func(float64) bool) ([]int64, []float64) {
	n := 0
	for i, v := range values {
		if is(v) {
			times[n], values[n] = times[i], v
			n++
		}
	}
	return times[:n], values[:n]
}

func abs(*stage) func(*Series) pointFunc   { return each(math.Abs) }
func ceil(*stage) func(*Series) pointFunc  { return each(math.Ceil) }
func floor(*stage) func(*Series) pointFunc { return each(math.Floor) }

func clamp(s *stage) func(*Series) pointFunc {
	lo, hi := s.args[0].number, s.args[1].number
	return each(func(v float64) float64 {
		switch {
		case v < lo:
			return lo
		case v > hi:
			return hi
		}
		return v
	})
}

func round(s *stage) func(*Series) pointFunc {
	n := int(s.args[0].number)
	return each(func(v float64) float64 { return roundTo(v, n) })
}

// roundTo rounds the shortest decimal number that represents v. So 1.005 with two decimals is 1.01,
// although the float64 is slightly less.
func roundTo(v float64, n int) float64 {
	switch {
	case isNull(v):
		return v
	case n == 0:
		return math.Round(v)
	}
	text := []byte(strconv.FormatFloat(math.Abs(v), 'e', -1, 64))
	r, err := strconv.ParseFloat(string(roundDecimal(text, n)), 64)
	if err != nil {
		return v // rounded up beyond the largest float64
	}
	return math.Copysign(r, v)
}

// roundDecimal rounds d.ddde±dd to n decimals, halves up.
func roundDecimal(text []byte, n int) []byte {
	e := len(text) - 1
	for text[e] != 'e' {
		e--
	}
	exp, _ := strconv.Atoi(string(text[e+1:]))
	digits := append([]byte{'0', text[0]}, text[min(2, e):e]...) // a leading 0 takes the carry
	keep := 2 + exp + n
	if keep >= len(digits) {
		return text
	}
	if keep < 1 {
		return []byte("0")
	}
	up := digits[keep] >= '5'
	digits = digits[:keep]
	for i := keep - 1; up; i-- {
		if up = digits[i] == '9'; up {
			digits[i] = '0'
		} else {
			digits[i]++
		}
	}
	return strconv.AppendInt(append(digits, 'e'), int64(exp+2-keep), 10)
}

func math_(s *stage) func(*Series) pointFunc {
	e := s.args[0].expr
	if e.simple != nil {
		return each(e.simple.compute)
	}
	return func(series *Series) pointFunc {
		run := newEvaluator(e, series)
		return func(times []int64, values []float64) ([]int64, []float64, error) {
			n := 0
			for i, v := range values {
				if !isNull(v) {
					r, err := run.run(times[i], v)
					if err != nil {
						return nil, nil, err
					}
					if v = r.(float64); !isFinite(v) {
						continue
					}
				}
				times[n], values[n] = times[i], v
				n++
			}
			return times[:n], values[:n], nil
		}
	}
}

// keep returns a function that keeps the points that are not null and for which f is true.
func keep(f func(time int64, value float64) (bool, error)) pointFunc {
	return func(times []int64, values []float64) ([]int64, []float64, error) {
		n := 0
		for i, v := range values {
			if isNull(v) {
				continue
			}
			ok, err := f(times[i], v)
			if err != nil {
				return nil, nil, err
			}
			if ok {
				times[n], values[n] = times[i], v
				n++
			}
		}
		return times[:n], values[:n], nil
	}
}

func where(s *stage) func(*Series) pointFunc {
	e := s.args[0].expr
	if e.simple != nil {
		return func(*Series) pointFunc {
			return keep(func(_ int64, v float64) (bool, error) { return e.simple.holds(v), nil })
		}
	}
	return func(series *Series) pointFunc {
		run := newEvaluator(e, series)
		return keep(func(t int64, v float64) (bool, error) {
			r, err := run.run(t, v)
			ok, _ := r.(bool)
			return ok, err
		})
	}
}

func limit(s *stage) func(*Series) pointFunc {
	return func(*Series) pointFunc {
		left := int(s.args[0].number)
		return func(times []int64, values []float64) ([]int64, []float64, error) {
			n := min(left, len(times))
			left -= n
			return times[:n], values[:n], nil
		}
	}
}

// differences returns a function that replaces every point except the first with the result of f
// for it and its predecessor. It drops nulls.
func differences(f func(value, before float64, ms int64) float64) func(*Series) pointFunc {
	return func(*Series) pointFunc {
		any, time, before := false, int64(0), 0.0
		return func(times []int64, values []float64) ([]int64, []float64, error) {
			n := 0
			for i, v := range values {
				if isNull(v) {
					continue
				}
				t, r := times[i], f(v, before, times[i]-time)
				if any && isFinite(r) {
					times[n], values[n] = t, r
					n++
				}
				any, time, before = true, t, v
			}
			return times[:n], values[:n], nil
		}
	}
}

func delta(*stage) func(*Series) pointFunc {
	return differences(func(v, before float64, _ int64) float64 { return v - before })
}

func derivative(s *stage) func(*Series) pointFunc {
	d := float64(s.args[0].step.Millis)
	return differences(func(v, before float64, ms int64) float64 { return (v - before) / float64(ms) * d })
}

func cumsum(*stage) func(*Series) pointFunc {
	return func(s *Series) pointFunc {
		var sum agg.Sum
		return each(func(v float64) float64 {
			if isNull(v) {
				return v
			}
			sum.Add(v)
			return sum.Float()
		})(s)
	}
}

func movingAvg(s *stage) func(*Series) pointFunc {
	return func(series *Series) pointFunc {
		var sum agg.Sum
		var latest []float64 // the last n, as a ring once it is full
		n, at := int(s.args[0].number), 0
		return each(func(v float64) float64 {
			if isNull(v) {
				return v
			}
			if len(latest) < n {
				latest = append(latest, v)
			} else {
				sum.Add(-latest[at])
				latest[at] = v
				at = (at + 1) % n
			}
			sum.Add(v)
			return sum.Mean(uint64(len(latest)))
		})(series)
	}
}
