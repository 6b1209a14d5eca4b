package points

import (
	"errors"
	"fmt"
	"math"
)

// Limits of an encoding.
const (
	MaxRun = 4096 // points per run

	// MaxPoints is the maximum number of points in an encoding. A limit in bytes would not bound
	// it, because identical points take no space.
	MaxPoints = 1 << 20

	// MinTime and MaxTime bound times, in ms since the epoch. They are more than 8,000 years before
	// and after it.
	MinTime = -(1 << 48)
	MaxTime = 1 << 48

	MaxMantissa = 1<<53 - 1 // maximum absolute mantissa of a decimal
	MaxExponent = 22        // maximum decimal places: 10^22 is the last power of ten that a float64 represents exactly
)

const (
	version  = 1
	kindBits = MaxExponent + 1 // kind of runs that are not decimals
	maxRuns  = MaxPoints
	// maxFields is the number of possible fields.
	maxFields = 1 << 16
)

// ErrCorrupt is matched by every error of this package.
var ErrCorrupt = errors.New("malformed points")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

var powers = [MaxExponent + 1]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
	1e18, 1e19, 1e20, 1e21, 1e22}

// Value returns the value of a decimal: mantissa / 10^exponent, rounded once. The absolute mantissa
// is at most MaxMantissa, the exponent at most MaxExponent.
func Value(mantissa int64, exponent uint8) float64 {
	if exponent == 0 {
		return float64(mantissa)
	}
	return float64(mantissa) / powers[exponent]
}

// ordered maps the bits of a float64 to an integer with the same order as the values, and back.
func ordered(bits int64) int64 { return bits ^ int64(uint64(bits>>63)>>1) }

func floatOf(order int64) float64 { return math.Float64frombits(uint64(ordered(order))) }

func finite(v float64) bool { return math.Float64bits(v)>>52&0x7ff != 0x7ff }
