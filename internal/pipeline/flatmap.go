package pipeline

import (
	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
)

// flatMap makes a record from each element of an array.
type flatMap struct {
	array *expression.Path
	key   *expression.Path // path in the element
}

func readFlatMap(r *reader, o *Operator, n *document.Node, at string) {
	var f flatMap
	r.fields(o, n, at,
		document.Field{Names: "array_field array", Read: r.path(&f.array)},
		document.Field{Names: "element_key", Read: r.path(&f.key)},
	)
	if r.needs(n, at, "array_field array"); f.array != nil {
		o.private.spec = &f
	}
}

// perItem is the memory of a record besides its value, in bytes.
const perItem = 256

func (f *flatMap) apply(w *worker, i int, it *item) error {
	list := it.at(f.array)
	if !list.IsArray() {
		w.counts[i].Dropped++
		return nil
	}
	var failed error
	list.ForEach(func(_, element gjson.Result) bool {
		one := *it
		one.set(bytesOf(element.Raw))
		if f.key != nil {
			if key, ok := textOf(f.key.Of(element.Raw)); ok {
				one.Key = bytesOf(key)
			}
		}
		if failed = w.grow(perItem); failed == nil {
			w.next(i, &one)
			failed = w.over
		}
		return failed == nil
	})
	return failed
}
