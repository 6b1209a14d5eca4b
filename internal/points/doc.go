// Package points is the codec of time series: of the blocks that callers write, and of the chunks
// into which they are sealed.
//
// An encoding holds points, ordered by field, series and time. A point has a series (u32), a field
// (u16), a time (ms since the epoch) and a finite value. The points of a series and field are a
// sequence of runs of up to MaxRun points, ordered by time; no two points have the same time. A run
// can be found and decoded without the others. The descriptions of runs are columns, bit-packed
// with one width per column, so that values common to all runs take no space.
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
// Numbers are varints. Times shared by several runs are stored once. The kind of a run of decimals
// is the number of its decimal places (0-22). A value is float64(m) / 10^kind, with |m| < 2^53.
// That is exact and equal to parsing "12.5", because both yield the value nearest to the quotient.
// Other runs (kind 23) hold the bits of their values, mapped to integers in the order of the
// values. In both cases a sequence of integers is its first one and the differences, each stored in
// width bits relative to a base. The high part of a larger difference is stored among the
// exceptions. So a gap in regular times or a few long steps of a random walk do not widen all other
// differences.
package points
