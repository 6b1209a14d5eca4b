package line

import (
	"errors"
	"fmt"
	"math"
)

// Precision is the unit of timestamps. They are read as ms: finer ones are rounded down.
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

// ParsePrecision returns the precision that is written as ns, us, ms or s.
func ParsePrecision(s string) (Precision, error) {
	for p, name := range precisions {
		if name == s {
			return Precision(p), nil
		}
	}
	return 0, fmt.Errorf("precision %.16q is none of ns, us, ms and s", s)
}

// millis converts a timestamp, rounding down; ok is false if it leaves the range.
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

// Kind is what a value is written as.
type Kind uint8

// The kinds of values. Strings are no values.
const (
	Float Kind = iota
	Integer
	Unsigned
	Boolean
)

// Field is a field of a line: a number, or a boolean as 1 or 0.
type Field struct {
	Key  []byte // unescaped, valid until the next line
	Kind Kind
	// Decimal says that the value is exactly what Mantissa / 10^Exponent rounds to, with |Mantissa|
	// < 2^53 and Exponent up to 22. Value is not set then.
	Decimal  bool
	Exponent uint8
	Mantissa int64
	Value    float64 // finite; of integers beyond 2^53 the nearest one
}

// Line is a line that is in order. It is valid until the next one is read.
type Line struct {
	Number  int    // from 1
	Series  []byte // measurement and tags as they are written: for ParseSeries, which may find that they are malformed
	Fields  []Field
	Strings int // fields that are strings, which are left out
	// Time is in ms since the epoch; HasTime is false if the line says none.
	Time    int64
	HasTime bool
}

// Error says why a line was not read.
type Error struct {
	Line   int // its number, from 1
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// errOpen says that a string is not closed where the line ends: it may go on in the next one.
var errOpen = errors.New("string without closing quote")
