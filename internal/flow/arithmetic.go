package flow

import (
	"errors"
	"fmt"
	"math"
)

// maxText is how long a string may become by +.
const maxText = 1 << 20

func arithmetic(o op, x, y value) (value, error) {
	switch {
	case x.kind == isString && y.kind == isString && o == opAdd:
		if len(x.text)+len(y.text) > maxText {
			return value{}, fmt.Errorf("+ makes a string of more than %d bytes", maxText)
		}
		return value{kind: isString, text: x.text + y.text}, nil
	case !x.isNumber() || !y.isNumber():
		return value{}, mismatch(o, x, y)
	case x.kind == isInt && y.kind == isInt && o != opDivide:
		return integers(o, x, y)
	case o == opModulo:
		return value{}, errors.New("% needs integers")
	case o == opDivide && y.float() == 0:
		return value{}, errors.New("/ by zero")
	}
	n := floats(o, x.float(), y.float())
	if math.IsInf(n, 0) || math.IsNaN(n) {
		return value{}, fmt.Errorf("the result of %s is out of range", opNames[o].name)
	}
	return value{kind: isFloat, number: n}, nil
}

// floats computes with conversions around each result, so that no processor fuses two operations.
func floats(o op, x, y float64) float64 {
	switch o {
	case opAdd:
		return float64(x + y)
	case opSubtract:
		return float64(x - y)
	case opMultiply:
		return float64(x * y)
	}
	return float64(x / y)
}

func integers(o op, x, y value) (value, error) {
	n := value{kind: isInt}
	fits := true
	switch o {
	case opAdd:
		n.whole = x.whole + y.whole
		fits = (n.whole > x.whole) == (y.whole > 0)
	case opSubtract:
		n.whole = x.whole - y.whole
		fits = (n.whole < x.whole) == (y.whole > 0)
	case opMultiply:
		n.whole = x.whole * y.whole
		fits = x.whole == 0 || n.whole/x.whole == y.whole && !(x.whole == -1 && y.whole == math.MinInt64)
	default:
		if y.whole == 0 {
			return n, errors.New("% by zero")
		}
		n.whole = x.whole % y.whole
	}
	if !fits {
		return value{}, overflow(o, x, y)
	}
	return n, nil
}

func overflow(o op, x, y value) error {
	return fmt.Errorf("%d %s %d is out of range", x.whole, opNames[o].name, y.whole)
}
