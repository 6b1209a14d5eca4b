package points

import "math"

// decimals writes the mantissas of all points at one number of decimal places to dst, and returns that; or false if there is none at which all of them
// are exact. It tries guess first for values that do not say how many places they have.
func decimals(dst []int64, points []point, guess uint8) (exponent uint8, ok bool) {
	for i := range points {
		if e := points[i].exponent; e != notDecimal {
			exponent = max(exponent, e)
		}
	}
	for {
		bad := mantissas(dst, points, exponent)
		if bad < 0 {
			return exponent, true
		}
		p := points[bad]
		if p.exponent != notDecimal {
			return 0, false // too many digits at the places that another one needs
		}
		if exponent, ok = placesOf(math.Float64frombits(uint64(p.value)), exponent+1, guess); !ok {
			return 0, false
		}
	}
}

// mantissas writes mantissas to dst and returns the index of the first point that has none, -1 if all have one.
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
			// The comparison is one of bits: -0 is no decimal.
			if !(math.Abs(scaled) <= MaxMantissa) || math.Float64bits(Value(int64(scaled), exponent)) != uint64(p.value) {
				return i
			}
			m = int64(scaled)
		default:
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

// placesOf returns the fewest decimal places from least on at which v is exact.
func placesOf(v float64, least, guess uint8) (exponent uint8, ok bool) {
	if v == 0 || least > MaxExponent {
		return 0, false
	}
	if guess >= least && exact(v, guess) {
		return guess, true
	}
	// At the most places at which the mantissa has no more than 15 digits the product is off by less than a half, and if v has
	// fewer it is exact there too.
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
