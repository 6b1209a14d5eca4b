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
func (q *Counter) Arguments(f *codec.Fields) {
	f.Namespace(&q.Namespace)
	f.Text("name", &q.Name)
	f.Varint("min", &q.Min)
}

// Results codes the answer.
func (q *Counter) Results(f *codec.Fields) { f.Varint("value", &q.Value) }

// Kind tells the query from the other one.
func (*Sum) Kind() uint8 { return querySum }

// Arguments codes what the query asks for.
func (q *Sum) Arguments(f *codec.Fields) { f.Namespace(&q.Namespace) }

// Results codes the answer.
func (q *Sum) Results(f *codec.Fields) {
	f.Varint("sum", &q.Sum)
	f.Varint("count", &q.Count)
}
