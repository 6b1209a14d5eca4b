// Package points is the codec of time series: of the blocks that callers write and of the pages into which they are sealed.
//
// An encoding holds points, each of a series (u32), a field (u16), a time (ms since the epoch) and a finite value, by field, series and time. What
// belongs to one series and field is a sequence of runs of up to MaxRun points, in order of their times; no two points of them have the same time. A
// run is found and decoded without the others: what describes it are entries of columns, which are bit-packed with one width for a column, so that
// whatever is the same for all runs takes no room.
//
//	encoding = version u8 | number of fields | fields x (field gap, bytes of its section << 1 | has a shape) | sections
//	section  = shape, unless it is that of the section before | values
//	shape    = number of runs | series of the first | gap of each further run to the series before: column
//	         | number of sequences T | sequence of each run: column if 1 < T < runs
//	         | points of a sequence - 1: column T | times: sequences
//	values   = kind of each run: column | number of runs of bits | decimals: sequences | bits: sequences
//	sequences of n >= 1 integers each, which the number of points of each is known of:
//	         = first integer: column | base: column | width: column | number of exceptions E
//	         | if E > 0: exceptions of each: column, places: column E, high parts: column E
//	         | bytes of differences | differences
//	column   = width u8 (0-64) | least: zig-zag varint | values - least, width bits each, the lowest first, padded with 0 to a byte
//
// Numbers are varints. Times that several runs have in common stand there once. The kind of a run of decimals is the number of its decimal places
// (0-22): a value is float64(m) / 10^kind, with |m| < 2^53, which is exact and is what reading "12.5" yields, because both are the value nearest to
// the quotient. Other runs (kind 23) hold the bits of their values, in the order of their values. Either way a sequence of integers is its first one and
// differences, in width bits each, from a base on; a difference that needs more has its high part among the exceptions, so that a gap in regular times
// and the few long steps of a random walk do not widen all others.
package points

import (
	"errors"
	"fmt"
	"math"
)

// Limits of what an encoding holds.
const (
	MaxRun = 4096 // points of a run

	// MaxPoints is how many points an encoding has at most. Bytes would not bound that: points that are all alike take none.
	MaxPoints = 1 << 20

	// MinTime and MaxTime bound times, ms since the epoch: more than 8,000 years on either side of it.
	MinTime = -(1 << 48)
	MaxTime = 1 << 48

	MaxMantissa = 1<<53 - 1 // of a decimal, on either side of 0
	MaxExponent = 22        // decimal places: 10^22 is the last power of ten that a float64 holds exactly
)

const (
	version  = 1
	kindBits = MaxExponent + 1 // of a run that is not of decimals
	maxRuns  = MaxPoints
	// maxFields is how many different fields there are.
	maxFields = 1 << 16
)

// ErrCorrupt is matched by every error of this package.
var ErrCorrupt = errors.New("malformed points")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

var powers = [MaxExponent + 1]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// Value returns the value of a decimal: mantissa / 10^exponent, rounded once. The mantissa is within MaxMantissa, the exponent within MaxExponent.
func Value(mantissa int64, exponent uint8) float64 {
	if exponent == 0 {
		return float64(mantissa)
	}
	return float64(mantissa) / powers[exponent]
}

// ordered maps the bits of a float64 to an integer that is in the order of the values, and back.
func ordered(bits int64) int64 { return bits ^ int64(uint64(bits>>63)>>1) }

func floatOf(order int64) float64 { return math.Float64frombits(uint64(ordered(order))) }

func finite(v float64) bool { return math.Float64bits(v)>>52&0x7ff != 0x7ff }
