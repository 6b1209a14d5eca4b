package flow

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/expression"
)

// Expr is a condition. It depends on nothing but the values that its paths lead to.
type Expr struct {
	condition expression.Expr
	paths     []*Path // as the condition counts them
}

// Eval says whether the condition holds. Errors name the operator and the types that it can not be
// about.
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
