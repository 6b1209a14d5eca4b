package flow

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/expression"
)

// Expr is a condition. Its result depends only on the values of its paths.
type Expr struct {
	condition expression.Expr
	paths     []*Path // indexed by the numbers in the condition
}

// Eval reports whether the condition holds. An error names the operator and the types that it does
// not support.
func (e *Expr) Eval(s Source) (bool, error) {
	return e.condition.Holds(newResolver(s, e.paths).value)
}

func codeExpr(c *codec.Coder, e *Expr) {
	e.condition.Code(c, func(c *codec.Coder, at *int) {
		if c.Reading() {
			*at = len(e.paths)
			e.paths = append(e.paths, nil)
		}
		need(c, &e.paths[*at], codePath)
	})
}
