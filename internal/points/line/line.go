package line

import (
	"errors"
	"fmt"
	"math"
)

// Precision is the unit of timestamps. They are converted to ms, and finer ones are rounded down.
type Precision uint8

// The units of timestamps.
const (
	Nanoseconds Precision = iota
	Microseconds
	Milliseconds
	Seconds
)

var precisions = [...]string{Nanoseconds: "ns", Microseconds: "us", Milliseconds: "ms", Seconds: "s"}

func (p Precision) String() string { return precisions[p] }

// ParsePrecision returns the precision named ns, us, ms or s.
func ParsePrecision(s string) (Precision, error) {
	for p, name := range precisions {
		if name == s {
			return Precision(p), nil
		}
	}
	return 0, fmt.Errorf("unknown precision %.16q, expected ns, us, ms or s", s)
}

// millis converts a timestamp, rounding down; ok is false if the result is out of range.
func (p Precision) millis(t int64) (ms int64, ok bool) {
	switch p {
	case Nanoseconds:
		return floor(t, 1e6), true
	case Microseconds:
		return floor(t, 1e3), true
	case Milliseconds:
		return t, true
	}
	return t * 1000, t >= math.MinInt64/1000 && t <= math.MaxInt64/1000
}

func floor(t, unit int64) int64 {
	q := t / unit
	if t%unit < 0 {
		q--
	}
	return q
}

// Kind is the notation of a value.
type Kind uint8

// The kinds of values. Strings do not count as values.
const (
	Float Kind = iota
	Integer
	Unsigned
	Boolean
)

// Field is a numeric or boolean field of a line; booleans are 1 or 0.
type Field struct {
	Key  []byte // unescaped, valid until the next line
	Kind Kind
	// Decimal means that the value is exactly Mantissa / 10^Exponent, rounded once, with |Mantissa|
	// < 2^53 and Exponent up to 22. Value is not set in that case.
	Decimal  bool
	Exponent uint8
	Mantissa int64
	Value    float64 // finite; for integers beyond 2^53 the nearest one
}

// Line is a valid line. It is valid until the next one is read.
type Line struct {
	Number  int    // from 1
	Series  []byte // measurement and tags as written: for ParseSeries, which may find them malformed
	Fields  []Field
	Strings int // number of string fields, which are left out
	// Time is in ms since the epoch; HasTime is false if the line has no timestamp.
	Time    int64
	HasTime bool
}

// Error is the reason why a line was rejected.
type Error struct {
	Line   int // its number, from 1
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// errOpen reports a string that is not closed at the end of the line. It may continue in the next
// line.
var errOpen = errors.New("string without closing quote")
