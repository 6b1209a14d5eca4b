package toy

import (
	"github.com/floedb/floe/internal/codec"
)

const (
	queryCounter uint8 = iota + 1
	querySum
)

// Kind distinguishes the query from the other one.
func (*Counter) Kind() uint8 { return queryCounter }

// Arguments codes the arguments of the query.
func (q *Counter) Arguments(f *codec.Fields) {
	f.Namespace(&q.Namespace)
	f.Text("name", &q.Name)
	f.Varint("min", &q.Min)
}

// Results codes the results.
func (q *Counter) Results(f *codec.Fields) { f.Varint("value", &q.Value) }

// Kind distinguishes the query from the other one.
func (*Sum) Kind() uint8 { return querySum }

// Arguments codes the arguments of the query.
func (q *Sum) Arguments(f *codec.Fields) { f.Namespace(&q.Namespace) }

// Results codes the results.
func (q *Sum) Results(f *codec.Fields) {
	f.Varint("sum", &q.Sum)
	f.Varint("count", &q.Count)
}
