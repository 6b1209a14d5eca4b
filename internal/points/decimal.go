package points

import (
	"math"
	"slices"
)

// decimals writes the mantissas of points to dst, all with the same number of decimal places. It
// returns that number, and the number of leading points that are exact with it: all of them if
// possible. For values without known decimal places it tries guess first.
func decimals(dst []int64, points []point, guess uint8) (exponent uint8, n int) {
	for i := range points {
		if e := points[i].exponent; e != notDecimal {
			exponent = max(exponent, e)
		}
	}
	for {
		bad := mantissas(dst, points, exponent)
		if bad < 0 {
			return exponent, len(points)
		}
		p := points[bad]
		if p.exponent != notDecimal {
			return exponent, bad // too many digits with the decimal places of another point
		}
		more, ok := placesOf(math.Float64frombits(uint64(p.value)), exponent+1, guess)
		if !ok {
			return exponent, bad
		}
		exponent = more
	}
}

// fewestDecimals is the minimum number of consecutive decimals among other values that form a
// separate run. Such a run saves more than its description takes.
const fewestDecimals = 64

// rowOf finds the first sufficiently long row of decimals among points that have no common number
// of decimal places. It writes their mantissas to their places in dst. If there is no such row,
// from is len(points). So a single -0 or 0.1+0.2 does not turn a day of decimals into raw bits.
func rowOf(dst []int64, points []point, guess uint8) (exponent uint8, from, to int) {
	exponent, ok := mostPlaces(points, guess)
	if !ok {
		return 0, len(points), len(points)
	}
	for i := range points {
		exact := mantissas(dst[i:i+1], points[i:i+1], exponent) < 0
		if !exact && to-from >= fewestDecimals {
			break
		}
		if to = i + 1; !exact {
			from = to
		}
	}
	if to-from < fewestDecimals {
		from = len(points)
	}
	return exponent, from, to
}

// mostPlaces estimates from a sample the number of decimal places that nearly all points need. ok
// is false if the points are not decimals.
func mostPlaces(points []point, guess uint8) (exponent uint8, ok bool) {
	const some, others = 16, 3
	if len(points) < fewestDecimals {
		return 0, false
	}
	all := make([]uint8, 0, some)
	for i := range some {
		if places, ok := points[i*len(points)/some].places(guess); ok {
			all = append(all, places)
		}
	}
	if len(all) < some-others {
		return 0, false
	}
	slices.Sort(all)
	return all[some-others-1], true
}

// places returns the number of decimal places that the point needs.
func (p *point) places(guess uint8) (exponent uint8, ok bool) {
	if p.exponent != notDecimal {
		return p.exponent, true
	}
	if p.value == 0 {
		return 0, true
	}
	return placesOf(math.Float64frombits(uint64(p.value)), 0, guess)
}

// mantissas writes mantissas to dst and returns the index of the first point that has none, -1 if
// all have one.
func mantissas(dst []int64, points []point, exponent uint8) (bad int) {
	for i := range points {
		p := &points[i]
		var m int64
		switch {
		case p.exponent == exponent:
			m = p.value
		case p.exponent == notDecimal:
			v := math.Float64frombits(uint64(p.value))
			scaled := math.RoundToEven(v * powers[exponent])
			// Compare bits: -0 is not a decimal.
			if !(math.Abs(scaled) <= MaxMantissa) || math.Float64bits(Value(int64(scaled), exponent)) != uint64(p.value) {
				return i
			}
			m = int64(scaled)
		default:
			if p.exponent > exponent {
				return i
			}
			factor := int64(powers[min(exponent-p.exponent, 18)])
			m = p.value * factor
			if exponent-p.exponent > 16 && p.value != 0 || m/factor != p.value || m > MaxMantissa || m < -MaxMantissa {
				return i
			}
		}
		dst[i] = m
	}
	return -1
}

// placesOf returns the fewest decimal places, at least least, with which v is exact.
func placesOf(v float64, least, guess uint8) (exponent uint8, ok bool) {
	if v == 0 || least > MaxExponent {
		return 0, false
	}
	if guess >= least && exact(v, guess) {
		return guess, true
	}
	// With the most decimal places for which the mantissa has at most 15 digits, the product is off
	// by less than a half. If v needs fewer places, it is exact with these too.
	binary := math.Ilogb(v)
	most := (49 - binary) * 30103 / 100000
	most = min(most, MaxExponent)
	if most < int(least) || !exact(v, uint8(most)) {
		return 0, false
	}
	m := int64(math.RoundToEven(v * powers[most]))
	for most > int(least) && m%10 == 0 {
		m /= 10
		most--
	}
	return uint8(most), true
}

func exact(v float64, exponent uint8) bool {
	scaled := math.RoundToEven(v * powers[exponent])
	return math.Abs(scaled) <= MaxMantissa && Value(int64(scaled), exponent) == v
}
