package expression

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// Env is the record for which an expression is evaluated.
type Env interface {
	// JSON returns the record's value. It fails if the value is not JSON.
	JSON() (string, error)
	RecordKey() string
	Time() int64 // event time, ms
	Header(name string) (value string, there bool)
}

// Meter bounds the total cost of several evaluations, in steps; see Budget. It is not safe for
// concurrent use.
type Meter struct{ Most, Spent int }

// Pay adds the cost of scanning a number of bytes outside of expressions. A nil Meter has no limit.
// Errors: ErrCost.
func (m *Meter) Pay(bytes int) error {
	if m == nil {
		return nil
	}
	if m.Spent += 1 + bytes/pieceBytes; m.Spent > m.Most {
		return ErrCost
	}
	return nil
}

// Expr is a compiled expression. It is safe for concurrent use. The zero Expr is null.
type Expr struct {
	top  term
	text string
}

// MaxText is the maximum length of an expression in bytes.
const MaxText = 4 << 10

const (
	// MaxTerms is the maximum number of terms in an expression.
	MaxTerms = 1000
	// Budget is the maximum number of steps of an evaluation: terms, and the pieces of text and
	// JSON that they scan. It takes about 10 ms.
	Budget     = 1 << 20
	pieceBytes = 16
	// maxMade is the maximum size in bytes of the values that an evaluation creates.
	maxMade = 16 << 20
	// Conditions with variables read whole inputs and outputs, which are larger than records.
	variablesBudget = 4 * Budget
	variablesRoom   = 4 * maxMade
)

// String returns the source of the expression.
func (e *Expr) String() string { return e.text }

// Holds evaluates a condition with variables. value returns the value of a variable: valid JSON, or
// empty for null. It is not used after the next call. Errors: ErrCost, a result that is not a
// boolean, or an operator with operands of unsupported types.
func (e *Expr) Holds(value func(variable int) []byte) (bool, error) {
	r := begin(nil, nil)
	defer r.end()
	r.value, r.last, r.left, r.room = value, true, variablesBudget, variablesRoom
	return r.holds(e)
}

func (r *run) holds(e *Expr) (bool, error) {
	v, err := r.eval(&e.top)
	if err != nil {
		return false, err
	}
	if v.kind != isBool {
		return false, fmt.Errorf("the condition is %s, expected true or false", article(v.kind))
	}
	return v.yes(), nil
}

// Bool evaluates a condition. m bounds the total cost of this evaluation and others; if it is nil,
// the evaluation has its own limit. Errors: ErrCost, a result that is not a boolean, or an operator
// with operands of unsupported types.
func (e *Expr) Bool(env Env, m *Meter) (bool, error) {
	r := begin(env, m)
	defer r.end()
	return r.holds(e)
}

// AppendJSON appends the result of the expression as JSON. m is the same as for Bool.
func (e *Expr) AppendJSON(dst []byte, env Env, m *Meter) ([]byte, error) {
	r := begin(env, m)
	defer r.end()
	v, err := r.eval(&e.top)
	if err != nil {
		return dst, err
	}
	return v.appendJSON(dst)
}

func article(k valueKind) string {
	switch k {
	case isNull:
		return "null"
	case isArray, isObject, isList:
		return "an " + k.String()
	}
	return "a " + k.String()
}

// term is an operation with its operands, a constant, or a path.
type term struct {
	op    op
	args  []term
	value value // of a constant
	path  Path
	name  string // of a header, or function
	match *regexp.Regexp
	steps int // steps of the pattern per byte of input; 0: plain text
	call  *function
	at    int // depth of the predicate's element, or number of a variable
}

// op is an operation.
type op uint8

const (
	opConst op = iota
	opPath
	opKey
	opTime
	opHeader
	opHasHeader
	opVariable
	opItem // current element of a predicate
	opIndex
	opNot
	opNegate
	opPlus // unary
	opAnd
	opOr
	opAdd
	opSubtract
	opMultiply
	opDivide
	opModulo
	opPower
	opEqual
	opDiffer
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opIn
	opBetween // x in a..b
	opContains
	opStartsWith
	opEndsWith
	opMatches
	opMember // of an object by name, of an array by index
	opSlice
	opArray
	opObject // keys and values alternate
	opIf
	opElse // ??: the second operand if the first is null
	opCall
	opLoop // function of an array and a predicate
)

// names are the operations as written.
var names = map[op]string{opNot: "not", opNegate: "-", opPlus: "+", opAnd: "and", opOr: "or", opAdd: "+", opSubtract: "-", opMultiply: "*",
	opDivide: "/", opModulo: "%", opPower: "**",
	opEqual: "==", opDiffer: "!=", opLess: "<", opLessEqual: "<=", opGreater: ">", opGreaterEqual: ">=", opIn: "in", opBetween: "in",
	opContains: "contains", opStartsWith: "startsWith",
	opEndsWith: "endsWith", opMatches: "matches", opMember: "[]", opSlice: "[:]", opIf: "?:"}

var (
	// ErrCost is returned if an evaluation is too expensive, alone or together with others that
	// used the same Meter.
	ErrCost = errors.New("the expression takes too long")
	errMade = errors.New("the expression makes too much")
)

// run is one evaluation.
type run struct {
	env   Env
	meter *Meter
	most  int // cost limit
	left  int // remaining cost
	room  int // remaining bytes of created values
	value func(variable int) []byte
	last  bool    // if a member is repeated, the last one counts
	items []value // current elements of predicates, innermost last
	index []int64
}

// runs pools evaluations. Terms are called through functions, so otherwise each would escape to the
// heap.
var runs = sync.Pool{New: func() any { return new(run) }}

func begin(env Env, m *Meter) *run {
	r := runs.Get().(*run)
	r.env, r.meter, r.most = env, m, Budget
	if m != nil {
		r.most = max(min(Budget, m.Most-m.Spent), 0)
	}
	r.left, r.room = r.most, maxMade
	return r
}

func (r *run) end() {
	if m := r.meter; m != nil {
		m.Spent += r.most - r.left
	}
	*r = run{}
	runs.Put(r)
}

// pay adds the cost of a step that scans a number of bytes.
func (r *run) pay(bytes int) error {
	if r.left -= 1 + bytes/pieceBytes; r.left < 0 {
		return ErrCost
	}
	return nil
}

// make counts the bytes of a created value.
func (r *run) make(bytes int) error {
	if r.room -= bytes; r.room < 0 {
		return errMade
	}
	return r.pay(bytes)
}

func (r *run) eval(t *term) (value, error) {
	if err := r.pay(0); err != nil {
		return value{}, err
	}
	switch t.op {
	case opConst:
		return t.value, nil
	case opPath:
		return r.path(t)
	case opVariable:
		return r.variable(t)
	case opKey:
		return text(r.env.RecordKey()), nil
	case opTime:
		return integer(r.env.Time()), nil
	case opHeader:
		if s, there := r.env.Header(t.name); there {
			return text(s), nil
		}
		return value{}, nil
	case opHasHeader:
		_, there := r.env.Header(t.name)
		return boolean(there), nil
	case opItem:
		return r.items[t.at], nil
	case opIndex:
		return integer(r.index[t.at]), nil
	case opAnd, opOr:
		return r.logic(t)
	case opIf:
		yes, err := r.truth(&t.args[0], opIf)
		switch {
		case err != nil:
			return value{}, err
		case yes:
			return r.eval(&t.args[1])
		}
		return r.eval(&t.args[2])
	case opElse:
		v, err := r.eval(&t.args[0])
		if err != nil || v.kind != isNull {
			return v, err
		}
		return r.eval(&t.args[1])
	case opArray, opObject, opCall:
		return r.many(t)
	case opLoop:
		return r.loop(t)
	}
	return r.apply(t)
}

// path reads a member of the record's value. It scans the whole value but parses only the member.
func (r *run) path(t *term) (value, error) {
	json, err := r.env.JSON()
	if err != nil {
		return value{}, err
	}
	if err := r.pay(len(json) / 4); err != nil { // the parser skips quickly
		return value{}, err
	}
	return fromJSON(t.path.Of(json))
}

func (r *run) variable(t *term) (value, error) {
	raw := r.value(t.at)
	if len(raw) == 0 {
		return value{}, nil
	}
	if err := r.pay(len(raw)); err != nil {
		return value{}, err
	}
	return fromJSON(gjson.Parse(string(raw)))
}

// logic evaluates and and or. The second operand is skipped if the first one decides.
func (r *run) logic(t *term) (value, error) {
	for i := range t.args {
		yes, err := r.truth(&t.args[i], t.op)
		if err != nil || yes == (t.op == opOr) {
			return boolean(yes), err
		}
	}
	return boolean(t.op == opAnd), nil
}

// truth evaluates an operand that must be a boolean.
func (r *run) truth(t *term, of op) (bool, error) {
	v, err := r.eval(t)
	if err == nil && v.kind != isBool {
		err = mismatch(names[of], v)
	}
	return v.yes(), err
}

// mismatch returns the error for operands of unsupported types.
func mismatch(name string, args ...value) error {
	types := make([]string, len(args))
	for i := range args {
		types[i] = args[i].kind.String()
	}
	return fmt.Errorf("%s does not go with %s", name, strings.Join(types, " and "))
}

// many evaluates a variable number of terms.
func (r *run) many(t *term) (value, error) {
	args := make([]value, len(t.args))
	cost := itemBytes * len(args)
	for i := range args {
		var err error
		if args[i], err = r.eval(&t.args[i]); err != nil {
			return value{}, err
		}
		n := args[i].cost()
		if cost += n; r.pay(16+n) != nil { // before the next one is scanned: all may be the same large list
			return value{}, ErrCost
		}
	}
	switch t.op {
	case opArray:
		return value{kind: isList, list: args}, nil
	case opCall:
		if err := t.call.check(args); err != nil {
			return value{}, fmt.Errorf("%s: %w", t.call.name, err)
		}
		v, err := t.call.do(r, args)
		if err != nil {
			err = fmt.Errorf("%s: %w", t.call.name, err)
		}
		return v, err
	}
	return r.object(args, cost)
}

// object creates an object from keys and values.
func (r *run) object(args []value, cost int) (value, error) {
	if err := r.make(2 * cost); err != nil {
		return value{}, err
	}
	b := []byte{'{'}
	for i := 0; i < len(args); i += 2 {
		if args[i].kind != isString {
			return value{}, fmt.Errorf("a key is %s, expected a string", article(args[i].kind))
		}
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = args[i].appendJSON(b)
		var err error
		if b, err = args[i+1].appendJSON(append(b, ':')); err != nil {
			return value{}, err
		}
	}
	return value{kind: isObject, text: string(append(b, '}'))}, nil
}
