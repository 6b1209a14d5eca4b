package expression

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/floedb/floe/internal/document"
)

// Compile compiles an expression over records. Errors include the column, from 1.
func Compile(text string) (*Expr, error) {
	e, _, err := compile(text, nil)
	return e, err
}

// Condition compiles a boolean expression over records.
func Condition(text string) (*Expr, error) { return condition(text, nil) }

// Hop is a step of a path: to a member of an object or an element of an array.
type Hop struct {
	Key   string
	At    int64 // index of an element, from 0
	Index bool  // use At instead of Key
}

// Variables compiles a condition whose paths begin with variables instead of members of a record.
// It calls variable for each path; the first hop is the variable. variable returns the number that
// Holds uses for its value. The condition may use only operators and functions that Code supports.
func Variables(text string, variable func(path []Hop) (int, error)) (*Expr, error) {
	return condition(text, variable)
}

func condition(text string, variable func([]Hop) (int, error)) (*Expr, error) {
	e, is, err := compile(text, variable)
	if err == nil && is&set(isBool) == 0 {
		return nil, fmt.Errorf("the expression is %s, expected true or false", is)
	}
	return e, err
}

func compile(text string, variable func([]Hop) (int, error)) (*Expr, types, error) {
	if len(text) > MaxText {
		return nil, 0, fmt.Errorf("the expression has %d bytes, at most %d are allowed", len(text), MaxText)
	}
	node, err := parse(text)
	if err != nil {
		var at *file.Error
		if errors.As(err, &at) {
			err = fmt.Errorf("column %d: %s", at.Column+1, strings.TrimSuffix(at.Message, "\n"))
		}
		return nil, 0, err
	}
	c := compiler{variable: variable}
	top, is, err := c.compile(node)
	if err != nil {
		return nil, 0, err
	}
	if variable != nil {
		text = "" // the coded form has no text
	}
	return &Expr{top: top, text: text}, is, nil
}

// parse converts panics of the third-party parser, which hostile text might cause, to errors.
func parse(text string) (n ast.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	return tree.Node, nil
}

// types is a set of kinds: the possible kinds of a term.
type types uint16

const anything = types(1<<kinds - 1)

func set(list ...valueKind) (t types) {
	for _, k := range list {
		t |= 1 << k
	}
	return t
}

var (
	numbers = set(isInt, isFloat)
	arrays  = set(isArray, isList)
)

func (t types) String() string {
	if t&^set(isList) == anything&^set(isList) {
		return "anything"
	}
	var all []string
	for k := range kinds {
		if name := article(k); t&(1<<k) != 0 && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return document.OneOf(all)
}

// compiler converts the parser's nodes to terms and infers their types.
type compiler struct {
	variable func([]Hop) (int, error) // nil: paths are in a record
	terms    int
	depth    int // nesting depth of predicates
	pattern  int // instructions of all patterns so far
}

// refuse returns an error for an invalid construct, with its position.
func refuse(n ast.Node, format string, args ...any) error {
	return fmt.Errorf("column %d: %w", n.Location().From+1, fmt.Errorf(format, args...))
}

// constant returns a constant term.
func constant(v value) (term, types, error) { return term{op: opConst, value: v}, set(v.kind), nil }

func (c *compiler) compile(n ast.Node) (term, types, error) {
	if c.terms++; c.terms > MaxTerms {
		return term{}, 0, fmt.Errorf("the expression has more than %d terms", MaxTerms)
	}
	switch n := n.(type) {
	case *ast.NilNode:
		return constant(value{})
	case *ast.BoolNode:
		return constant(boolean(n.Value))
	case *ast.IntegerNode:
		return constant(integer(int64(n.Value)))
	case *ast.FloatNode:
		return constant(float(n.Value))
	case *ast.StringNode:
		return constant(text(n.Value))
	case *ast.ChainNode:
		return c.compile(n.Node)
	case *ast.IdentifierNode, *ast.MemberNode:
		return c.name(n)
	case *ast.PointerNode:
		return c.pointer(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.ArrayNode:
		return c.array(n)
	case *ast.SliceNode:
		if c.variable == nil {
			return c.slice(n)
		}
	case *ast.MapNode:
		if c.variable == nil {
			return c.object(n)
		}
	case *ast.BuiltinNode:
		return c.call(n, n.Name, n.Arguments)
	case *ast.CallNode:
		return c.call(n, n.Callee.String(), n.Arguments)
	}
	return term{}, 0, c.misplaced(n, strings.ToLower(strings.TrimSuffix(reflect.TypeOf(n).Elem().Name(), "Node")))
}

// misplaced rejects a construct that expressions do not support.
func (c *compiler) misplaced(n ast.Node, what string) error {
	if c.variable != nil {
		return refuse(n,
			"%s, expected literals, paths, comparison, arithmetic, and, or, not, in, contains, startsWith, endsWith, ?:, ?? and len", what)
	}
	return refuse(n, "%s does not go here", what)
}

// name compiles a path, or a name for a part of the record other than its value.
func (c *compiler) name(n ast.Node) (term, types, error) {
	hops, static := hopsOf(n)
	if !static {
		m := n.(*ast.MemberNode)
		return c.op(n, opMember, anything, m.Node, m.Property)
	}
	root, hops := hops[0].Key, hops[1:]
	switch {
	case root == "null" && len(hops) == 0:
		return constant(value{})
	case c.variable != nil:
		return c.path(n, root, hops)
	case root == "headers":
		if len(hops) != 1 || hops[0].Index {
			return term{}, 0, refuse(n, `headers stands alone, expected headers.name, headers["name"] or "name" in headers`)
		}
		return term{op: opHeader, name: hops[0].Key}, set(isString, isNull), nil
	case root == "key" && len(hops) == 0:
		return term{op: opKey}, set(isString), nil
	case root == "event_time" && len(hops) == 0:
		return term{op: opTime}, set(isInt), nil
	case root == "key" || root == "event_time":
		return term{}, 0, refuse(n, "%s has no members; for the member of the value write $.%[1]s", root)
	case root == "$env":
		return term{}, 0, refuse(n, "$env, expected $ for the value of the record")
	case root != "$":
		hops = slices.Insert(hops, 0, Hop{Key: root})
	}
	p, err := pathOf(hops)
	if err != nil {
		return term{}, 0, refuse(n, "%w", err)
	}
	return term{op: opPath, path: p}, anything &^ set(isList), nil
}

// path compiles a path of a variable, with or without a leading $.
func (c *compiler) path(n ast.Node, root string, hops []Hop) (term, types, error) {
	if root != "$" {
		hops = slices.Insert(hops, 0, Hop{Key: root})
	}
	at, err := c.variable(hops)
	if err != nil {
		return term{}, 0, refuse(n, "%w", err)
	}
	return term{op: opVariable, at: at}, anything &^ set(isList), nil
}

// hopsOf returns the hops of a static path: a name and its members, without computed ones.
func hopsOf(n ast.Node) (hops []Hop, static bool) {
	for {
		switch at := n.(type) {
		case *ast.IdentifierNode:
			hops = append(hops, Hop{Key: at.Value})
			slices.Reverse(hops)
			return hops, true
		case *ast.ChainNode:
			n = at.Node
		case *ast.MemberNode:
			switch key := at.Property.(type) {
			case *ast.StringNode:
				hops = append(hops, Hop{Key: key.Value})
			case *ast.IntegerNode:
				hops = append(hops, Hop{At: int64(key.Value), Index: true})
			default:
				return nil, false
			}
			n = at.Node
		default:
			return nil, false
		}
	}
}

// pointer compiles #, .member of the current element, or #index.
func (c *compiler) pointer(n *ast.PointerNode) (term, types, error) {
	switch {
	case c.depth == 0:
		return term{}, 0, refuse(n, "# stands outside of a predicate")
	case n.Name == "":
		return term{op: opItem, at: c.depth - 1}, anything, nil
	case n.Name == "index":
		return term{op: opIndex, at: c.depth - 1}, set(isInt), nil
	}
	return term{}, 0, refuse(n, "unknown #%s, expected # or #index", n.Name)
}

// op compiles an operation and its operands.
func (c *compiler) op(n ast.Node, o op, returns types, args ...ast.Node) (term, types, error) {
	t := term{op: o}
	is := make([]types, len(args))
	for i, arg := range args {
		a, k, err := c.compile(arg)
		if err != nil {
			return term{}, 0, err
		}
		t.args, is[i] = append(t.args, a), k
	}
	returns, ok := outcome(o, returns, is)
	if !ok {
		var all []string
		for _, k := range is {
			all = append(all, k.String())
		}
		return term{}, 0, refuse(n, "%s does not go with %s", names[o], strings.Join(all, " and "))
	}
	return t, returns, nil
}

// outcome returns the possible types of an operation's result, and whether it can succeed at all.
func outcome(o op, returns types, is []types) (types, bool) {
	both := func(want types) bool { return is[0]&want != 0 && is[len(is)-1]&want != 0 }
	str := set(isString)
	switch o {
	case opNot, opAnd, opOr:
		return set(isBool), both(set(isBool))
	case opNegate, opPlus:
		return is[0] & numbers, both(numbers)
	case opAdd:
		switch {
		case !both(numbers) && !both(str):
			return 0, false
		case !both(numbers):
			return str, true
		case !both(str):
			return numbers, true
		}
		return numbers | str, true
	case opSubtract, opMultiply, opModulo:
		return numbers, both(numbers)
	case opDivide, opPower:
		return set(isFloat), both(numbers)
	case opEqual, opDiffer:
		return set(isBool), true
	case opLess, opLessEqual, opGreater, opGreaterEqual:
		return set(isBool), both(numbers) || both(str)
	case opIn:
		return set(isBool), is[1]&(arrays|set(isObject, isNull)) != 0
	case opBetween:
		return set(isBool), is[1]&set(isInt) != 0 && is[2]&set(isInt) != 0
	case opContains, opStartsWith, opEndsWith, opMatches:
		return set(isBool), both(str)
	case opMember:
		container := arrays | set(isObject, isNull)
		return returns, is[0]&container != 0 && is[1]&set(isString, isInt) != 0
	case opSlice:
		return is[0]&str | set(isList), is[0]&(arrays|str) != 0 && is[1]&set(isInt) != 0
	}
	return returns, true
}

func (c *compiler) unary(n *ast.UnaryNode) (term, types, error) {
	switch n.Operator {
	case "not", "!":
		return c.op(n, opNot, 0, n.Node)
	case "+":
		return c.op(n, opPlus, 0, n.Node)
	case "-":
		switch literal := n.Node.(type) {
		case *ast.IntegerNode:
			return constant(integer(-int64(literal.Value)))
		case *ast.FloatNode:
			return constant(float(-literal.Value))
		}
		return c.op(n, opNegate, 0, n.Node)
	}
	return term{}, 0, c.misplaced(n, "operator "+n.Operator)
}

// operators lists the binary operators.
var operators = map[string]op{
	"and": opAnd, "&&": opAnd, "or": opOr, "||": opOr, "+": opAdd, "-": opSubtract, "*": opMultiply, "/": opDivide, "%": opModulo,
	"**": opPower, "^": opPower,
	"==": opEqual, "!=": opDiffer, "<": opLess, "<=": opLessEqual, ">": opGreater, ">=": opGreaterEqual,
	"contains": opContains, "startsWith": opStartsWith, "endsWith": opEndsWith,
}

func (c *compiler) binary(n *ast.BinaryNode) (term, types, error) {
	o, known := operators[n.Operator]
	switch {
	case n.Operator == "in":
		return c.in(n)
	case n.Operator == "matches" && c.variable == nil:
		return c.matches(n)
	case n.Operator == "??":
		left, a, err := c.compile(n.Left)
		if err != nil {
			return term{}, 0, err
		}
		right, b, err := c.compile(n.Right)
		return term{op: opElse, args: []term{left, right}}, a&^set(isNull) | b, err
	}
	if !known || c.variable != nil && !o.coded() {
		return term{}, 0, c.misplaced(n, "operator "+n.Operator)
	}
	return c.op(n, o, 0, n.Left, n.Right)
}

func (c *compiler) in(n *ast.BinaryNode) (term, types, error) {
	if id, ok := n.Right.(*ast.IdentifierNode); ok && id.Value == "headers" && c.variable == nil {
		name, ok := n.Left.(*ast.StringNode)
		if !ok {
			return term{}, 0, refuse(n, `expected the name of a header in quotes in front of "in headers"`)
		}
		return term{op: opHasHeader, name: name.Value}, set(isBool), nil
	}
	if inside, ok := n.Right.(*ast.BinaryNode); ok && inside.Operator == ".." {
		c.terms++ // counted as in the coded form
		return c.op(n, opBetween, 0, n.Left, inside.Left, inside.Right)
	}
	return c.op(n, opIn, 0, n.Left, n.Right)
}

// matches compiles the operator matches. The regular expression must be a literal.
func (c *compiler) matches(n *ast.BinaryNode) (term, types, error) {
	pattern, ok := n.Right.(*ast.StringNode)
	if !ok {
		return term{}, 0, refuse(n, "matches needs a pattern in quotes")
	}
	parsed, err := syntax.Parse(pattern.Value, syntax.Perl)
	if err != nil {
		return term{}, 0, refuse(n, "%w", err)
	}
	if c.pattern += instructions(parsed); c.pattern > maxPattern {
		return term{}, 0, refuse(n, "the patterns of the expression have more than %d instructions", maxPattern)
	}
	re, err := regexp.Compile(pattern.Value)
	if err != nil {
		return term{}, 0, refuse(n, "%w", err)
	}
	t, is, err := c.op(n, opMatches, 0, n.Left)
	t.match, t.steps = re, stepsOf(re)
	return t, is, err
}

// maxPattern is the maximum number of instructions of an expression's patterns. Nested repetitions
// can have millions in a few bytes.
const maxPattern = 100_000

// instructions returns the approximate number of a pattern's instructions.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, s := range re.Sub {
		n += instructions(s)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min+1, re.Max)
	}
	return min(n, maxPattern+1)
}

// stepsOf returns the maximum number of steps of a pattern per byte, which is the number of its
// program's instructions, since each may be tried. Plain text needs none.
func stepsOf(re *regexp.Regexp) int {
	if _, complete := re.LiteralPrefix(); complete {
		return 0
	}
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return maxSteps
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return maxSteps
	}
	return min(len(program.Inst), maxSteps)
}

// maxSteps exceeds the program size of any pattern that fits into an expression.
const maxSteps = 1 << 20

func (c *compiler) conditional(n *ast.ConditionalNode) (term, types, error) {
	t := term{op: opIf}
	var is [3]types
	for i, part := range []ast.Node{n.Cond, n.Exp1, n.Exp2} {
		a, k, err := c.compile(part)
		if err != nil {
			return term{}, 0, err
		}
		t.args, is[i] = append(t.args, a), k
	}
	if is[0]&set(isBool) == 0 {
		return term{}, 0, refuse(n, "?: does not go with %s in front of it, expected true or false", is[0])
	}
	return t, is[1] | is[2], nil
}

func (c *compiler) slice(n *ast.SliceNode) (term, types, error) {
	from, to := n.From, n.To
	if from == nil {
		from = &ast.IntegerNode{}
	}
	if to == nil {
		to = &ast.NilNode{}
	}
	return c.op(n, opSlice, 0, n.Node, from, to)
}

// array compiles an array. An array of literals is built once.
func (c *compiler) array(n *ast.ArrayNode) (term, types, error) {
	t, _, err := c.op(n, opArray, 0, n.Nodes...)
	if err != nil {
		return term{}, 0, err
	}
	t.fold()
	return t, set(isList), nil
}

// fold converts an array of constants to a constant.
func (t *term) fold() {
	list := make([]value, len(t.args))
	for i := range t.args {
		if t.args[i].op != opConst {
			return
		}
		list[i] = t.args[i].value
	}
	*t = term{op: opConst, value: value{kind: isList, list: list}}
}

func (c *compiler) object(n *ast.MapNode) (term, types, error) {
	var parts []ast.Node
	for _, p := range n.Pairs {
		pair, ok := p.(*ast.PairNode)
		if !ok {
			return term{}, 0, refuse(p, "expected a key and a value")
		}
		parts = append(parts, pair.Key, pair.Value)
	}
	return c.op(n, opObject, set(isObject), parts...)
}

func (c *compiler) call(n ast.Node, name string, args []ast.Node) (term, types, error) {
	if c.variable != nil && name != "len" {
		return term{}, 0, c.misplaced(n, "function "+document.Clip(name))
	}
	if slices.Contains(loops, name) && len(args) == 2 || name == "count" || name == "map" || name == "filter" {
		return c.loop(n, name, args)
	}
	if name == "sum" && len(args) == 1 {
		return c.loop(n, name, append(slices.Clone(args), &ast.PredicateNode{Node: &ast.PointerNode{}}))
	}
	i := slices.IndexFunc(functions, func(f function) bool { return f.name == name })
	if i < 0 {
		return term{}, 0, refuse(n, "unknown function %s%s", document.Clip(name), clockless(name))
	}
	f := &functions[i]
	if len(args) < f.least || f.most >= 0 && len(args) > f.most {
		return term{}, 0, refuse(n, "%s has %s, expected %s", name, countOf(len(args)), f.arity())
	}
	t := term{op: opCall, call: f}
	for j, arg := range args {
		a, is, err := c.compile(arg)
		if err != nil {
			return term{}, 0, err
		}
		if want := map[byte]types{'s': set(isString), 'n': numbers, 'a': arrays,
			'x': anything}[f.takes[min(j, len(f.takes)-1)]]; is&want == 0 {
			return term{}, 0, refuse(arg, "%s does not go with %s, expected %s", name, is, want)
		}
		t.args = append(t.args, a)
	}
	if f.returns == kinds {
		return t, anything, nil
	}
	return t, set(f.returns), nil
}

// clockless returns the reason why a function of expr-lang/expr is not supported.
func clockless(name string) string {
	switch name {
	case "now", "date", "duration", "timezone":
		return ": what an operator does depends on no clock; event_time is the record's, in ms"
	}
	return ""
}

func (f *function) arity() string {
	switch {
	case f.most < 0:
		return fmt.Sprintf("%d or more", f.least)
	case f.least == f.most:
		return fmt.Sprint(f.least)
	}
	return fmt.Sprintf("%d to %d", f.least, f.most)
}

// loop compiles a function with an array and a predicate.
func (c *compiler) loop(n ast.Node, name string, args []ast.Node) (term, types, error) {
	if len(args) != 2 {
		return term{}, 0, refuse(n, "%s has %s, expected an array and a predicate", name, countOf(len(args)))
	}
	over, is, err := c.compile(args[0])
	if err != nil {
		return term{}, 0, err
	}
	if is&arrays == 0 {
		return term{}, 0, refuse(args[0], "%s does not go with %s, expected an array", name, is)
	}
	body := args[1]
	if p, ok := body.(*ast.PredicateNode); ok {
		body = p.Node
	}
	c.depth++
	predicate, is, err := c.compile(body)
	c.depth--
	if err != nil {
		return term{}, 0, err
	}
	t := term{op: opLoop, name: name, args: []term{over, predicate}}
	switch name {
	case "map":
		return t, set(isList), nil
	case "sum":
		return t, numbers, nil
	}
	if is&set(isBool) == 0 {
		return term{}, 0, refuse(args[1], "the predicate of %s is %s, expected true or false", name, is)
	}
	switch name {
	case "filter":
		return t, set(isList), nil
	case "count":
		return t, set(isInt), nil
	case "find":
		return t, anything, nil
	}
	return t, set(isBool), nil
}

// countOf formats a number of arguments.
func countOf(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}
