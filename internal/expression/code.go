package expression

import (
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// Numbers of terms in the coded form of conditions. They are part of compiled workflow definitions
// and must not change.
const (
	codeNull byte = iota + 1
	codeTrue
	codeFalse
	codeInt
	codeFloat
	codeString
	codeVariable
	codeFirst // first number of codedOps
)

const (
	codeIn    = codeFirst + 16
	codeRange = codeIn + 1
	codeLen   = codeIn + 5
	codeArray = codeLen + 2
)

// codedOps lists the operations from codeFirst on. opBetween is coded as opIn with a range on its
// right.
var codedOps = [...]op{
	opNot, opNegate, opPlus, opAnd, opOr, opAdd, opSubtract, opMultiply, opDivide, opModulo, opEqual, opDiffer, opLess, opLessEqual,
	opGreater, opGreaterEqual,
	opIn, opBetween, opContains, opStartsWith, opEndsWith, opCall, opMember, opArray, opIf, opElse,
}

func (o op) coded() bool { return slices.Contains(codedOps[:], o) }

// arity returns the number of operands of a coded operation.
func (o op) arity() int {
	switch o {
	case opNot, opNegate, opPlus, opCall:
		return 1
	case opIf:
		return 3
	}
	return 2
}

// Code codes a condition with variables. variable codes the variable with the number at, and sets
// at when decoding.
func (e *Expr) Code(c *codec.Coder, variable func(c *codec.Coder, at *int)) {
	t := coder{Coder: c, left: MaxTerms, variable: variable}
	t.term(&e.top)
}

type coder struct {
	*codec.Coder
	left     int // terms
	variable func(c *codec.Coder, at *int)
}

// number returns the number of a term.
func (t *term) number() byte {
	switch {
	case t.op == opVariable:
		return codeVariable
	case t.op == opBetween:
		return codeIn
	case t.op != opConst:
		return codeFirst + byte(slices.Index(codedOps[:], t.op))
	}
	switch v := &t.value; v.kind {
	case isBool:
		return codeFalse - byte(v.bits)
	case isInt:
		return codeInt
	case isFloat:
		return codeFloat
	case isString:
		return codeString
	case isList:
		return codeArray
	}
	return codeNull
}

func (c *coder) term(t *term) {
	n := byte(0)
	if !c.Reading() {
		n = t.number()
	}
	c.Byte(&n)
	c.rest(t, n)
}

// rest codes a term after its number.
func (c *coder) rest(t *term, n byte) {
	if c.left--; c.left < 0 {
		c.Fail("expression of too many terms")
	}
	if c.Err() != nil {
		return
	}
	if c.Reading() {
		c.begin(t, n)
	}
	switch v := &t.value; n {
	case codeInt:
		whole := v.whole()
		c.Varint(&whole)
		*v = integer(whole)
	case codeFloat:
		f := v.float()
		if c.Float64(&f); math.IsNaN(f) || math.IsInf(f, 0) {
			c.Fail("number that is none")
		}
		*v = float(f)
	case codeString:
		c.String(&v.text)
	case codeVariable:
		c.variable(c.Coder, &t.at)
	case codeArray:
		c.array(t)
	case codeIn:
		c.in(t)
	default:
		for i := range t.args {
			c.term(&t.args[i])
		}
	}
}

// begin creates the term of a number, with room for its operands.
func (c *coder) begin(t *term, n byte) {
	switch kinds := [...]valueKind{codeNull: isNull, codeTrue: isBool, codeFalse: isBool, codeInt: isInt, codeFloat: isFloat,
		codeString: isString}; {
	case n >= codeNull && n <= codeString:
		*t = term{op: opConst, value: value{kind: kinds[n]}}
		if n == codeTrue {
			t.value.bits = 1
		}
	case n == codeVariable:
		*t = term{op: opVariable}
	case n < codeFirst || int(n-codeFirst) >= len(codedOps) || n == codeRange:
		c.Fail("operation that is not known")
	case n == codeLen:
		*t = term{op: opCall, call: &functions[0], args: make([]term, 1)}
	default:
		*t = term{op: codedOps[n-codeFirst]}
		t.args = make([]term, t.op.arity())
	}
}

// array codes an array. An array of constants is a constant.
func (c *coder) array(t *term) {
	if t.op == opConst {
		list := t.value.list
		t = &term{args: make([]term, len(list))}
		for i := range list {
			t.args[i] = term{op: opConst, value: list[i]}
		}
	}
	codec.List(c.Coder, &t.args, func(_ *codec.Coder, e *term) { c.term(e) })
	if c.Reading() && c.Err() == nil {
		t.fold()
	}
}

// in codes opIn, and opBetween as opIn with a range.
func (c *coder) in(t *term) {
	c.term(&t.args[0])
	n := byte(codeRange)
	if !c.Reading() && t.op == opIn {
		n = t.args[1].number()
	}
	if c.Byte(&n); n != codeRange {
		c.rest(&t.args[1], n)
		return
	}
	if c.left--; c.Reading() {
		t.op, t.args = opBetween, append(t.args, term{})
	}
	c.term(&t.args[1])
	c.term(&t.args[2])
}
