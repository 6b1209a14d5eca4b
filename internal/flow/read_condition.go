package flow

import (
	"fmt"
	"strings"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
)

// condition reads a boolean expression.
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
		for _, p := range e.paths {
			r.uses(p, n.Line, at)
		}
		*v = e
	}
}

// compileExpr compiles a condition in the syntax of expr-lang/expr.
func compileExpr(text string) (*Expr, error) {
	var e Expr
	c, err := expression.Variables(text, func(hops []expression.Hop) (int, error) {
		if len(e.paths) == maxPaths {
			return 0, fmt.Errorf("expected at most %d paths", maxPaths)
		}
		p, err := rootPath(hops, pathRules{item: true})
		e.paths = append(e.paths, &p)
		return len(e.paths) - 1, err
	})
	if err != nil {
		return nil, err
	}
	e.condition = *c
	return &e, nil
}
