// Package points is the codec of time series: of the blocks that callers write and of the chunks
// into which they are sealed.
//
// An encoding holds points, each of a series (u32), a field (u16), a time (ms since the epoch) and
// a finite value, by field, series and time. What belongs to one series and field is a sequence of
// runs of up to MaxRun points, in order of their times; no two points of them have the same time. A
// run is found and decoded without the others: what describes it are entries of columns, which are
// bit-packed with one width for a column, so that whatever is the same for all runs takes no room.
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
// Numbers are varints. Times that several runs have in common stand there once. The kind of a run
// of decimals is the number of its decimal places (0-22): a value is float64(m) / 10^kind, with |m|
// < 2^53, which is exact and is what reading "12.5" yields, because both are the value nearest to
// the quotient. Other runs (kind 23) hold the bits of their values, in the order of their values.
// Either way a sequence of integers is its first one and differences, in width bits each, from a
// base on; a difference that needs more has its high part among the exceptions, so that a gap in
// regular times and the few long steps of a random walk do not widen all others.
package points
