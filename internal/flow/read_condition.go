package flow

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/floedb/floe/internal/document"
)

// maxTerms is how many terms an expression has at most.
const maxTerms = 1000

// condition reads an expression that is true or false.
func (r *reader) condition(v **Expr) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		text := n.Text
		switch {
		case r.Told("expression, at most %d bytes", MaxExpression):
			return
		case n.Kind == document.Bool:
			text = strings.ToLower(text)
		case n.Kind != document.Text:
			r.Fail(n.Line, "wrong-type", "%s is %s, expected an expression in quotes", at, n.Describe())
			return
		case len(text) > MaxExpression:
			r.Fail(n.Line, "too-large", "%s has %d bytes, at most %d are allowed", at, len(text), MaxExpression)
			return
		}
		e, err := compileExpr(text)
		if err != nil {
			r.Fail(n.Line, "bad-expression", "%s is %s: %v", at, document.Quote(text), err)
			return
		}
		e.top.paths(func(p *Path) { r.uses(p, n.Line, at) })
		*v = e
	}
}

// paths calls yield for all paths of a term.
func (t *term) paths(yield func(*Path)) {
	if t.path != nil {
		yield(t.path)
	}
	for i := range t.args {
		t.args[i].paths(yield)
	}
}

// compileExpr compiles an expression. Its syntax is that of expr-lang/expr, whose parser reads it; what it means is our own.
func compileExpr(text string) (*Expr, error) {
	tree, err := parser.Parse(text)
	if err != nil {
		var at *file.Error
		if errors.As(err, &at) {
			return nil, fmt.Errorf("column %d: %s", at.Column+1, strings.TrimSuffix(at.Message, "\n"))
		}
		return nil, err
	}
	var c compiler
	top, err := c.compile(tree.Node)
	if err != nil {
		return nil, err
	}
	if top.op.never(isBool) {
		return nil, fmt.Errorf("%s is never true or false", opNames[top.op].name)
	}
	return &Expr{top}, nil
}

// compiler makes terms of what the parser returns.
type compiler struct {
	terms, paths int
}

// refuse says what an expression must not have, and where.
func refuse(n ast.Node, format string, args ...any) error {
	return fmt.Errorf("column %d: %w", n.Location().From+1, fmt.Errorf(format, args...))
}

// allowed says what expressions are made of.
const allowed = "literals, paths, comparison, arithmetic, and, or, not, in, contains, startsWith, endsWith, ?:, ?? and len"

func (c *compiler) compile(n ast.Node) (term, error) {
	if c.terms++; c.terms > maxTerms {
		return term{}, fmt.Errorf("expected no more than %d terms", maxTerms)
	}
	switch n := n.(type) {
	case *ast.NilNode:
		return term{op: opNull}, nil
	case *ast.BoolNode:
		if n.Value {
			return term{op: opTrue}, nil
		}
		return term{op: opFalse}, nil
	case *ast.IntegerNode:
		return term{op: opInt, whole: int64(n.Value)}, nil
	case *ast.FloatNode:
		return term{op: opFloat, float: n.Value}, nil
	case *ast.StringNode:
		return term{op: opString, text: n.Value}, nil
	case *ast.ChainNode:
		return c.compile(n.Node)
	case *ast.IdentifierNode:
		if n.Value == "null" {
			return term{op: opNull}, nil
		}
		return c.path(n)
	case *ast.MemberNode:
		if _, static := hopsOf(n); static {
			return c.path(n)
		}
		return c.op(opMember, n.Node, n.Property)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.op(opIf, n.Cond, n.Exp1, n.Exp2)
	case *ast.ArrayNode:
		return c.op(opArray, n.Nodes...)
	case *ast.BuiltinNode:
		if n.Name == "len" && len(n.Arguments) == 1 {
			return c.op(opLen, n.Arguments...)
		}
		return term{}, refuse(n, "function %s, expected %s", n.Name, allowed)
	case *ast.CallNode:
		return term{}, refuse(n, "function %s, expected %s", document.Clip(n.Callee.String()), allowed)
	}
	what := strings.ToLower(strings.TrimSuffix(reflect.TypeOf(n).Elem().Name(), "Node"))
	return term{}, refuse(n, "%s, expected %s", what, allowed)
}

// op compiles the terms of an operation.
func (c *compiler) op(o op, args ...ast.Node) (term, error) {
	t := term{op: o}
	for _, n := range args {
		arg, err := c.compile(n)
		if err != nil {
			return term{}, err
		}
		t.args = append(t.args, arg)
	}
	if logical := o == opAnd || o == opOr || o == opNot; logical || o == opIf {
		for i := range t.args {
			if (logical || i == 0) && t.args[i].op.never(isBool) {
				return term{}, refuse(args[i], "%s needs true or false, and this is never one", opNames[o].name)
			}
		}
	}
	return t, nil
}

// never says whether an operation never has a result of a type.
func (o op) never(k valueKind) bool {
	switch o {
	case opPath, opMember, opIf, opElse:
		return false
	case opTrue, opFalse, opNot, opAnd, opOr, opEqual, opDiffer, opLess, opLessEqual, opGreater, opGreaterEqual, opIn, opContains, opStartsWith, opEndsWith:
		return k != isBool
	}
	return k == isBool
}

func (c *compiler) unary(n *ast.UnaryNode) (term, error) {
	switch n.Operator {
	case "not", "!":
		return c.op(opNot, n.Node)
	case "+":
		return c.op(opPlus, n.Node)
	case "-":
		switch literal := n.Node.(type) {
		case *ast.IntegerNode:
			return term{op: opInt, whole: -int64(literal.Value)}, nil
		case *ast.FloatNode:
			return term{op: opFloat, float: -literal.Value}, nil
		}
		return c.op(opNegate, n.Node)
	}
	return term{}, refuse(n, "operator %s, expected %s", n.Operator, allowed)
}

// operators are those with two sides.
var operators = map[string]op{
	"and": opAnd, "&&": opAnd, "or": opOr, "||": opOr, "+": opAdd, "-": opSubtract, "*": opMultiply, "/": opDivide, "%": opModulo,
	"==": opEqual, "!=": opDiffer, "<": opLess, "<=": opLessEqual, ">": opGreater, ">=": opGreaterEqual,
	"in": opIn, "contains": opContains, "startsWith": opStartsWith, "endsWith": opEndsWith, "??": opElse,
}

func (c *compiler) binary(n *ast.BinaryNode) (term, error) {
	o, known := operators[n.Operator]
	if !known {
		return term{}, refuse(n, "operator %s, expected %s", n.Operator, allowed)
	}
	inside, isRange := n.Right.(*ast.BinaryNode)
	if o != opIn || !isRange || inside.Operator != ".." {
		return c.op(o, n.Left, n.Right)
	}
	left, err := c.compile(n.Left)
	if err != nil {
		return term{}, err
	}
	c.terms++
	bounds, err := c.op(opRange, inside.Left, inside.Right)
	return term{op: opIn, args: []term{left, bounds}}, err
}

// path compiles a path, with or without $ in front.
func (c *compiler) path(n ast.Node) (term, error) {
	if c.paths++; c.paths > maxPaths {
		return term{}, fmt.Errorf("expected no more than %d paths", maxPaths)
	}
	hops, _ := hopsOf(n)
	if hops[0].key == "$" {
		hops = hops[1:]
	}
	p, err := rootPath(hops, pathRules{item: true})
	if err != nil {
		return term{}, refuse(n, "%w", err)
	}
	return term{op: opPath, path: &p}, nil
}

// hopsOf returns a name and the members behind it, if none of them has to be computed.
func hopsOf(n ast.Node) ([]hop, bool) {
	var hops []hop
	for {
		switch at := n.(type) {
		case *ast.IdentifierNode:
			hops = append(hops, hop{key: at.Value})
			slices.Reverse(hops)
			return hops, true
		case *ast.ChainNode:
			n = at.Node
		case *ast.MemberNode:
			switch key := at.Property.(type) {
			case *ast.StringNode:
				hops = append(hops, hop{key: key.Value})
			case *ast.IntegerNode:
				hops = append(hops, hop{at: int64(key.Value), index: true})
			default:
				return nil, false
			}
			n = at.Node
		default:
			return nil, false
		}
	}
}
