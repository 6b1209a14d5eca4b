package line

import (
	"fmt"
	"math"
	"strconv"
)

const (
	maxMantissa = 1<<53 - 1
	maxExponent = 22
)

// number reads a plain number, with digits that fit a mantissa and without exponent, and returns
// its length. It returns -1 for anything else.
func (f *Field) number(b []byte) int {
	i := 0
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		i = 1
	}
	m, digits, point := uint64(0), 0, -1
	for ; i < len(b); i++ {
		c := b[i]
		if d := uint64(c - '0'); d <= 9 {
			m = m*10 + d
			digits++
			continue
		}
		if c != '.' || point >= 0 {
			break
		}
		point = i
	}
	places := 0
	if point >= 0 {
		places = i - point - 1
	}
	if digits == 0 || digits > 18 || m > maxMantissa || m == 0 && negative {
		return -1
	}
	if i < len(b) && b[i] != ',' && b[i] != ' ' {
		if b[i] != 'i' || point >= 0 || i+1 < len(b) && b[i+1] != ',' && b[i+1] != ' ' {
			return -1
		}
		f.Kind = Integer
		i++
	}
	f.Decimal, f.Mantissa, f.Exponent = true, int64(m), uint8(places)
	if negative {
		f.Mantissa = -f.Mantissa
	}
	return i
}

// other reads a value that number rejects, and returns its length.
func (f *Field) other(b []byte) (n int, err error) {
	for n < len(b) && b[n] != ',' && b[n] != ' ' {
		n++
	}
	b = b[:n]
	if n == 0 {
		return 0, fmt.Errorf("no value")
	}
	switch last := b[n-1]; {
	case last == 'i' && n > 1:
		return n, f.integer(b[:n-1])
	case last == 'u' && n > 1:
		return n, f.unsigned(b[:n-1])
	case b[0] == '-' || b[0] == '.' || b[0] >= '0' && b[0] <= '9':
		return n, f.float(b)
	}
	f.Kind, f.Decimal = Boolean, true
	switch string(b) {
	case "t", "T", "true", "True", "TRUE":
		f.Mantissa = 1
	case "f", "F", "false", "False", "FALSE":
	default:
		return 0, fmt.Errorf("%.32q is not a number, boolean or quoted string", b)
	}
	return n, nil
}

func (f *Field) integer(b []byte) error {
	v, ok := parseInt(b)
	if !ok {
		return fmt.Errorf("%.32qi is not a 64-bit integer", b)
	}
	f.Kind = Integer
	f.setWhole(v >= -maxMantissa && v <= maxMantissa, v, float64(v))
	return nil
}

func (f *Field) unsigned(b []byte) error {
	v, ok := parseUint(b)
	if !ok {
		return fmt.Errorf("%.32qu is not an unsigned 64-bit integer", b)
	}
	f.Kind = Unsigned
	f.setWhole(v <= maxMantissa, int64(v), float64(v))
	return nil
}

func (f *Field) setWhole(exact bool, m int64, v float64) {
	if exact {
		f.Decimal, f.Mantissa = true, m
		return
	}
	f.Value = v
}

// float reads a number with an exponent, with many digits, or -0.
func (f *Field) float(b []byte) error {
	if !isFloat(b) {
		return fmt.Errorf("%.32q is not a number", b)
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsInf(v, 0) {
		return fmt.Errorf("%.32q is beyond the range of a 64-bit number", b)
	}
	f.Value = v
	f.decimal(b)
	return nil
}

// decimal checks whether a number read by float is a decimal.
func (f *Field) decimal(b []byte) {
	m, exponent, negative := int64(0), 0, false
	point := false
	for i, c := range b {
		switch {
		case c == '-':
			negative = true
		case c == '.':
			point = true
		case c == 'e' || c == 'E':
			e, err := strconv.Atoi(string(b[i+1:]))
			if err != nil {
				return
			}
			exponent += e
		default:
			if m = m*10 + int64(c-'0'); m > maxMantissa {
				return
			}
			if point {
				exponent--
			}
		}
		if c == 'e' || c == 'E' {
			break
		}
	}
	for ; exponent > 0 && m != 0; exponent-- {
		if m *= 10; m > maxMantissa {
			return
		}
	}
	if m == 0 && negative || exponent < -maxExponent {
		return
	}
	if negative {
		m = -m
	}
	f.Decimal, f.Mantissa, f.Exponent, f.Value = true, m, uint8(max(0, -exponent)), 0
}

// isFloat reports whether b is an optional sign, digits with at most one point, and an optional
// exponent.
func isFloat(b []byte) bool {
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	whole := digits(b)
	b = b[whole:]
	places := 0
	if len(b) > 0 && b[0] == '.' {
		places = digits(b[1:])
		b = b[1+places:]
	}
	if whole+places == 0 {
		return false
	}
	if len(b) == 0 {
		return true
	}
	if b[0] != 'e' && b[0] != 'E' {
		return false
	}
	if b = b[1:]; len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	return len(b) > 0 && digits(b) == len(b)
}

func digits(b []byte) (n int) {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}
