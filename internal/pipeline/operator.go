package pipeline

import (
	"slices"
	"strings"

	"github.com/floedb/floe/internal/document"
)

// operator is the private part of an Operator.
type operator struct {
	line int
	at   string
	spec any // stateless or stateful, and timed
}

// stateless is an operator that depends only on the current record, so several goroutines may run
// it. It passes results to next. If it returns an error, the record becomes a Failure. It must not
// change the bytes of the record.
type stateless interface {
	apply(w *worker, i int, it *item) error
}

// stateful is an operator that processes the records of a tick in order.
type stateful interface {
	// add appends the results of the records to out. Errors are those of state and lookup.
	add(t *Tick, s *instance, in, out []item) ([]item, error)
}

// timed is a stateful operator that acts when the watermark passes a time.
type timed interface {
	// fire does the work that is due up to a watermark. It starts at the position where an earlier
	// tick stopped, and returns the position where it stops. nil is both the beginning and the end.
	fire(t *Tick, s *instance, to int64, at []byte) (next []byte, err error)
	// due returns the earliest watermark for which fire has work, if there is any.
	due(state State, s *instance) (at int64, there bool, err error)
}

// operatorSpec describes an operator type.
type operatorSpec struct {
	name string
	// read reads the keys of the operator other than name and type. It sets private.spec, and Shape
	// and Keyed if the operator has state.
	read func(r *reader, o *Operator, n *document.Node, at string)
}

// named reports whether name is the name of the type, in either spelling.
func (k *operatorSpec) named(name string) bool {
	name = document.Snake(name)
	return name == k.name || strings.ReplaceAll(name, "_", "") == k.name
}

// operatorKinds lists all types; each has its own file.
func operatorKinds() []operatorSpec {
	return []operatorSpec{
		{"filter", readFilter}, {"map", readMap}, {"set", readSet}, {"flatmap", readFlatMap}, {"keyby", readKeyBy}, {"aggregate",
			readAggregate}, {"kv_lookup", readLookup},
		{"classify", readClassify}, {"dedup", readDedup}, {"join", readJoin}, {"func", readFunc}, {"passthrough", readPassthrough},
	}
}

// operator reads an operator: {type: filter, condition: ...}, or {filter: {condition: ...}}.
func (r *reader) operator(n *document.Node, at string) {
	if n.Kind != document.Table {
		r.Fail(n.Line, "wrong-type", "%s is %s, expected a table", at, n.Describe())
		return
	}
	o := Operator{}
	o.private.line, o.private.at = n.Line, at
	typ := n.Get("type")
	if typ == nil {
		if n, at, typ = r.nested(n, at); typ == nil {
			return
		}
	}
	if r.Text(&o.Type)(typ, at+".type"); typ.Kind != document.Text {
		return
	}
	all := operatorKinds()
	i := slices.IndexFunc(all, func(k operatorSpec) bool { return k.named(o.Type) })
	switch {
	case o.Type == "wasm":
		r.Fail(typ.Line, "not-supported", "%s.type is wasm: %s", at, noWASM)
	case i < 0:
		r.Fail(typ.Line, "bad-value", "%s.type is %s, expected %s%s", at, document.Quote(o.Type), document.OneOf(kindNames()),
			r.Nearest(o.Type, kindNames))
	default:
		o.Type = all[i].name
		all[i].read(r, &o, n, at)
		o.Named = o.Name != ""
		called(r, n, at, o.Name, r.job.Operators, func(o *Operator) string { return o.Name })
		if o.Shape != "" && !o.Named {
			r.Warn(n.Line, "unnamed", "%s has state but no name: a changed definition cannot find its state again", at)
		}
	}
	if o.private.spec == nil {
		o.private.spec = passthrough{}
	}
	r.job.Operators = append(r.job.Operators, o)
}

func kindNames() (names []string) {
	for _, k := range operatorKinds() {
		names = append(names, k.name)
	}
	return names
}

// nested reads an operator whose type is its only key besides the name.
func (r *reader) nested(n *document.Node, at string) (*document.Node, string, *document.Node) {
	var found *document.Pair
	for i := range n.Pairs {
		if p := &n.Pairs[i]; p.Key != "name" &&
			(slices.ContainsFunc(operatorKinds(), func(k operatorSpec) bool { return k.named(p.Key) }) || p.Key == "wasm") {
			found = p
		}
	}
	rest := len(n.Pairs)
	if n.Get("name") != nil {
		rest--
	}
	if found == nil || rest != 1 {
		r.Fail(n.Line, "missing", "%s has no type", at)
		return nil, "", nil
	}
	typ := &document.Node{Kind: document.Text, Line: found.Line, Text: found.Key}
	inside := &document.Node{Kind: document.Table, Line: n.Line}
	if found.Value.Kind == document.Table {
		inside.Pairs = slices.Clone(found.Value.Pairs)
	} else if found.Value.Kind != document.Null {
		r.Fail(found.Value.Line, "wrong-type", "%s is %s, expected a table", document.Under(at, found.Key), found.Value.Describe())
	}
	if name := n.Get("name"); name != nil {
		inside.Pairs = append(inside.Pairs, document.Pair{Key: "name", Line: name.Line, Value: name})
	}
	return inside, document.Under(at, found.Key), typ
}

// fields reads the keys of an operator and those common to all.
func (r *reader) fields(o *Operator, n *document.Node, at string, fields ...document.Field) {
	r.Table(n, at, append(fields, r.common(o)...)...)
}

func (r *reader) common(o *Operator) []document.Field {
	return []document.Field{
		{Names: "name", Read: r.Name(&o.Name)},
		{Names: "type", Read: func(*document.Node, string) {}},
		{Names: "description", Read: r.Text(new(string))},
		r.refused("wasm", noWASM),
		r.refused("triggers trigger", "windows fire when the watermark passes their end: there are no triggers"),
	}
}

// others returns the keys other than the known ones: the members of an object to create. They
// include a description, unless the object has its own key.
func (r *reader) others(o *Operator, n *document.Node, at, known string) (rest []document.Pair) {
	own := &document.Node{Kind: document.Table, Line: n.Line}
	for _, p := range n.Pairs {
		switch {
		case p.Key == "name" || p.Key == "type" || p.Key == known || p.Key == "description" && n.Get(known) != nil:
			own.Pairs = append(own.Pairs, p)
		default:
			rest = append(rest, p)
		}
	}
	r.fields(o, own, at, document.Field{Names: known, Read: func(n *document.Node, at string) {
		if n.Kind != document.Table {
			r.Fail(n.Line, "wrong-type", "%s is %s, expected a table", at, n.Describe())
			return
		}
		rest = append(rest, n.Pairs...)
	}})
	return rest
}
