package flow

const maxTerms = 1000

func (r *reader) condition(v **Expr) func(*node, string) {
	return func(n *node, at string) {}
}
