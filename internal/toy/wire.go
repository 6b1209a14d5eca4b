package toy

import (
	"github.com/floedb/floe/internal/codec"
)

const (
	queryCounter uint8 = iota + 1
	querySum
)

// Kind tells the query from the other one.
func (*Counter) Kind() uint8 { return queryCounter }

// Arguments codes what the query asks for.
func (q *Counter) Arguments(c *codec.Coder) {
	c.String(&q.Namespace)
	c.String(&q.Name)
	c.Varint(&q.Min)
}

// Results codes the answer.
func (q *Counter) Results(c *codec.Coder) { c.Varint(&q.Value) }

// Kind tells the query from the other one.
func (*Sum) Kind() uint8 { return querySum }

// Arguments codes what the query asks for.
func (q *Sum) Arguments(c *codec.Coder) { c.String(&q.Namespace) }

// Results codes the answer.
func (q *Sum) Results(c *codec.Coder) {
	c.Varint(&q.Sum)
	c.Varint(&q.Count)
}
