package floql

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// expression is the expression of where or math, in the language of expr-lang/expr, restricted to
// computing one number or Boolean from one point: arithmetic, comparison, and, or, not, in,
// matches, conditions, and functions. It has no loops, and nothing whose memory could grow with its
// running time.
type expression struct {
	program *vm.Program
	simple  *simple // instead of the program, for `value OP number`
	steps   linear  // of one evaluation, see steps
}

// point is the environment of an expression.
type point struct {
	Value     float64           `expr:"value"`
	Timestamp int               `expr:"timestamp"` // ms
	Tags      map[string]string `expr:"tags"`
	Field     string            `expr:"field"`
}

// functions are those of expr-lang/expr that take numbers.
var functions = []string{"abs", "ceil", "floor", "round", "int", "float", "max", "min"}

const (
	maxExpression      = 4096
	maxExpressionNodes = 500
	maxPattern         = 10_000 // instructions of the patterns of an expression
	maxPatterns        = 50_000 // and of all expressions of a query: 10 ms to compile, and 2 MiB
)

// expressionError is an error in an expression, with the position of its byte.
type expressionError struct {
	offset  int
	message string
}

func (e *expressionError) Error() string { return e.message }

// compileExpression compiles an expression, and adds the size of its patterns to that of the query.
func compileExpression(text string, condition bool, patterns *int64) (*expression, error) {
	if len(text) > maxExpression {
		return nil, &expressionError{0, fmt.Sprintf("expression of %d bytes, expected no more than %d", len(text), maxExpression)}
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, expressionErrorOf(text, err)
	}
	c := checker{text: text}
	if c.check(tree.Node); c.err != nil {
		return nil, c.err
	}
	if *patterns = sum(*patterns, c.pattern); *patterns > maxPatterns {
		return nil, &expressionError{0, fmt.Sprintf("patterns of %d instructions in the query, expected at most %d", *patterns,
			maxPatterns)}
	}
	steps, _ := measure(tree.Node)
	if simple := simplify(tree.Node, condition); simple != nil {
		return &expression{simple: simple, steps: steps}, nil
	}
	options := []expr.Option{expr.Env(point{}), expr.DisableAllBuiltins(), expr.MaxNodes(maxExpressionNodes)}
	for _, f := range functions {
		options = append(options, expr.EnableBuiltin(f))
	}
	if condition {
		options = append(options, expr.AsBool())
	} else {
		options = append(options, expr.AsFloat64())
	}
	program, err := expr.Compile(text, options...)
	if err != nil {
		return nil, expressionErrorOf(text, err)
	}
	return &expression{program: program, steps: steps}, nil
}

// expressionErrorOf converts an error of expr-lang/expr, without its drawing of the position.
func expressionErrorOf(text string, err error) error {
	e, ok := err.(*file.Error)
	if !ok {
		return &expressionError{0, err.Error()}
	}
	message := strings.TrimSuffix(e.Message, "\n")
	if strings.HasPrefix(message, "invalid operation: % ") {
		message += ": % takes whole numbers, as in int(value) % 2"
	}
	return &expressionError{byteOf(text, e.From), message}
}

// byteOf returns the byte offset of a character of a text.
func byteOf(text string, character int) int {
	at := 0
	for range character {
		if at >= len(text) {
			break
		}
		_, n := utf8.DecodeRuneInString(text[at:])
		at += n
	}
	return at
}

// checker rejects nodes that an expression must not contain.
type checker struct {
	text    string
	pattern int64 // instructions of the patterns so far
	err     error
}

func (c *checker) refuse(n ast.Node, format string, args ...any) {
	if c.err == nil {
		c.err = &expressionError{byteOf(c.text, n.Location().From), fmt.Sprintf(format, args...)}
	}
}

// check walks an expression from its root.
func (c *checker) check(n ast.Node) {
	switch n := n.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ConstantNode:
	case *ast.IdentifierNode:
		c.identifier(n)
	case *ast.UnaryNode:
		c.check(n.Node)
	case *ast.BinaryNode:
		c.binary(n)
	case *ast.ChainNode:
		c.check(n.Node)
	case *ast.MemberNode:
		c.check(n.Node)
		c.check(n.Property)
	case *ast.ConditionalNode:
		c.all(n.Cond, n.Exp1, n.Exp2)
	case *ast.BuiltinNode:
		c.call(n, n.Name, n.Arguments)
	case *ast.CallNode:
		c.call(n, n.Callee.String(), n.Arguments)
	default:
		c.refuse(n, "found %s, expected arithmetic, comparison, &&, ||, !, in, matches or a function of %s", describe(n),
			strings.Join(functions, ", "))
	}
}

func (c *checker) all(nodes ...ast.Node) {
	for _, n := range nodes {
		c.check(n)
	}
}

// describe names a kind of node, such as "array" for ArrayNode.
func describe(n ast.Node) string {
	if _, ok := n.(*ast.VariableDeclaratorNode); ok {
		return "let"
	}
	return strings.ToLower(strings.TrimSuffix(reflect.TypeOf(n).Elem().Name(), "Node"))
}

func (c *checker) identifier(n *ast.IdentifierNode) {
	known := []string{"value", "timestamp", "tags", "field"}
	if !slices.Contains(known, n.Value) {
		c.refuse(n, "unknown name %q, expected value, timestamp, tags or field%s", n.Value, suggest(n.Value, known))
	}
}

func (c *checker) binary(n *ast.BinaryNode) {
	c.check(n.Left)
	switch n.Operator {
	case "..":
		c.refuse(n, "found a range, expected a list like [1, 2]")
	case "matches":
		text, constant := n.Right.(*ast.StringNode)
		if !constant {
			c.refuse(n, "the pattern of matches must be a string")
			return
		}
		if c.pattern = sum(c.pattern, patternSize(text.Value)); c.pattern > maxPattern {
			c.refuse(n, "patterns of %d instructions, expected no more than %d", c.pattern, maxPattern)
		}
	case "in", "not in":
		if list, ok := n.Right.(*ast.ArrayNode); ok {
			c.all(list.Nodes...)
			return
		}
	}
	c.check(n.Right)
}

func (c *checker) call(n ast.Node, function string, args []ast.Node) {
	if !slices.Contains(functions, function) {
		c.refuse(n, "unknown function %q, expected %s%s", function, strings.Join(functions, ", "), suggest(function, functions))
	}
	c.all(args...)
}

// simple is `value OP number`, or `number OP value`, which needs no virtual machine.
type simple struct {
	op      string
	number  float64
	flipped bool
}

func simplify(n ast.Node, condition bool) *simple {
	b, ok := n.(*ast.BinaryNode)
	ops := "+-*/"
	if condition {
		ops = "<=>=!=="
	}
	if !ok || !strings.Contains(ops, b.Operator) {
		return nil
	}
	if number, ok := constant(b.Right); ok && isValue(b.Left) {
		return &simple{op: b.Operator, number: number}
	}
	if number, ok := constant(b.Left); ok && isValue(b.Right) {
		return &simple{op: b.Operator, number: number, flipped: true}
	}
	return nil
}

func isValue(n ast.Node) bool {
	id, ok := n.(*ast.IdentifierNode)
	return ok && id.Value == "value"
}

func constant(n ast.Node) (float64, bool) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		return float64(n.Value), true
	case *ast.FloatNode:
		return n.Value, true
	case *ast.UnaryNode:
		if v, ok := constant(n.Node); ok && n.Operator == "-" {
			return -v, true
		}
	}
	return 0, false
}

// holds reports whether the comparison is true for a value.
func (s *simple) holds(v float64) bool {
	a, b := v, s.number
	if s.flipped {
		a, b = b, a
	}
	switch s.op {
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "==":
		return a == b
	}
	return a != b
}

// compute returns the result of the operation.
func (s *simple) compute(v float64) float64 {
	a, b := v, s.number
	if s.flipped {
		a, b = b, a
	}
	switch s.op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	}
	return a / b
}

// expression returns the expression of a stage if it needs the virtual machine, else nil.
func (s *stage) expression() *expression {
	if len(s.args) == 0 || s.args[0].expr == nil || s.args[0].expr.simple != nil {
		return nil
	}
	return s.args[0].expr
}

// evaluator runs an expression for the points of one series.
type evaluator struct {
	program *vm.Program
	vm      vm.VM
	point   point
}

// newEvaluator returns an evaluator of an expression for a series.
func newEvaluator(e *expression, s *Series) *evaluator {
	tags := make(map[string]string, len(s.Tags))
	for _, t := range s.Tags {
		tags[t.Key] = t.Value
	}
	return &evaluator{program: e.program, point: point{Tags: tags, Field: s.Field}}
}

func (e *evaluator) run(time int64, value float64) (any, error) {
	e.point.Value, e.point.Timestamp = value, int(time)
	v, err := e.vm.Run(e.program, &e.point)
	if f, ok := err.(*file.Error); ok {
		return nil, fmt.Errorf("%s at the point of %s ms", strings.TrimPrefix(f.Message, "runtime error: "), strconv.FormatInt(time, 10))
	}
	return v, err
}
