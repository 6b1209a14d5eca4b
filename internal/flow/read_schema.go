package flow

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/floedb/floe/internal/document"
)

const (
	maxSchemaDepth = 64   // nesting depth of schemas
	maxListed      = 1000 // required names, or values of an enum
)

// schema reads a schema.
func (r *reader) schema(v **Schema) func(*document.Node, string) {
	return func(n *document.Node, at string) { *v = r.schemaOf(n, at, maxSchemaDepth) }
}

// schemaOf reads a schema with up to left nested levels.
func (r *reader) schemaOf(n *document.Node, at string, left int) *Schema {
	s := &Schema{}
	if left == 0 {
		r.Fail(n.Line, "too-deep", "%s is nested deeper than %d schemas", at, maxSchemaDepth)
		return s
	}
	before := len(r.Problems)
	r.Table(n, at,
		document.Field{Names: "type", Read: r.schemaTypes(&s.types), Null: true},
		document.Field{Names: "required", Read: r.Each(maxListed, func(n *document.Node, at string) {
			name := ""
			if r.Text(&name)(n, at); slices.Contains(s.required, name) {
				r.Fail(n.Line, "duplicate-name", "%s is %s, which is already in the list", at, document.Quote(name))
				return
			}
			s.required = append(s.required, name)
		})},
		document.Field{Names: "properties", Read: r.properties(s, left)},
		document.Field{Names: "additional_properties", Read: func(n *document.Node, at string) {
			open := true
			r.Boolean(&open)(n, at)
			s.closed = !open
		}},
		document.Field{Names: "items", Read: func(n *document.Node, at string) { s.items = r.schemaOf(n, at, left-1) }},
		document.Field{Names: "enum", Read: r.Each(maxListed,
			func(n *document.Node, at string) { s.enum = append(s.enum, r.plainJSON(n, at)) })},
		document.Field{Names: "const", Read: func(n *document.Node, at string) { s.enum = append(s.enum, r.plainJSON(n, at)) }, Null: true},
		document.Field{Names: "minimum", Read: r.float(&s.min)},
		document.Field{Names: "maximum", Read: r.float(&s.max)},
		document.Field{Names: "min_length", Read: r.size(s, sizeText, false)},
		document.Field{Names: "max_length", Read: r.size(s, sizeText, true)},
		document.Field{Names: "min_items", Read: r.size(s, sizeItems, false)},
		document.Field{Names: "max_items", Read: r.size(s, sizeItems, true)},
		document.Field{Names: "title", Read: r.Text(new(string))},
		document.Field{Names: "description", Read: r.Text(new(string))},
	)
	if len(r.Problems) == before {
		r.satisfiable(s, n, at)
	}
	return s
}

// satisfiable rejects limits that contradict each other.
func (r *reader) satisfiable(s *Schema, n *document.Node, at string) {
	if s.min != nil && s.max != nil && *s.min > *s.max {
		r.Fail(n.Line, "bad-value", "%s has minimum %s above maximum %s", at, decimal(*s.min), decimal(*s.max))
	}
	for what, limit := range s.size {
		if limit != nil && limit.max >= 0 && limit.min > limit.max {
			r.Fail(n.Line, "bad-value", "%s requires at least %d %s, but allows at most %d", at, limit.min, sizeNames[what], limit.max)
		}
	}
	if enum := n.Get("enum"); enum != nil && n.Get("const") != nil {
		r.Fail(enum.Line, "duplicate-key", "%s has both enum and const", at)
	} else if enum != nil && len(enum.Items) == 0 {
		r.Fail(enum.Line, "bad-value", "%s.enum is empty: no value is allowed", at)
	}
}

func (r *reader) schemaTypes(v *uint8) func(*document.Node, string) {
	one := func(n *document.Node, at string) {
		i := -1
		if n.Kind == document.Text {
			i = slices.Index(schemaTypes, n.Text)
		} else if n.Kind == document.Null && n.Text != "" {
			i = 0 // null without quotes
		}
		if i < 0 {
			r.Fail(n.Line, "bad-value", "%s is %s, expected %s", at, n.Describe(), document.OneOf(schemaTypes))
			return
		}
		*v |= 1 << i
	}
	return func(n *document.Node, at string) {
		if r.Told("%s, or a list of these", document.OneOf(schemaTypes)) {
			return
		}
		if n.Kind != document.List {
			one(n, at)
			return
		}
		if r.Each(len(schemaTypes), one)(n, at); len(n.Items) == 0 {
			r.Fail(n.Line, "bad-value", "%s is empty, expected %s", at, document.OneOf(schemaTypes))
		}
	}
}

func (r *reader) properties(s *Schema, left int) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if r.Told("table of schemas by name") {
			return
		}
		if n.Kind != document.Table {
			r.Fail(n.Line, "wrong-type", "%s is %s, expected a table", at, n.Describe())
			return
		}
		for _, p := range n.Pairs {
			m := schemaMember{p.Key, &Schema{}}
			if p.Value.Kind != document.Null {
				m.schema = r.schemaOf(p.Value, document.Under(at, p.Key), left-1)
			}
			s.members = append(s.members, m)
		}
		slices.SortFunc(s.members, func(a, b schemaMember) int { return strings.Compare(a.name, b.name) })
	}
}

// plainJSON returns a value as JSON; text becomes a JSON string.
func (r *reader) plainJSON(n *document.Node, at string) []byte {
	var b builder
	r.render(&b, n, at, nil)
	return b.literal
}

func (r *reader) float(v **float64) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if r.Told("number") {
			return
		}
		f, err := strconv.ParseFloat(n.Text, 64)
		if n.Kind != document.Number || err != nil {
			r.Fail(n.Line, "bad-number", "%s is %s, expected a number", at, n.Describe())
			return
		}
		*v = &f
	}
}

func (r *reader) size(s *Schema, what int, most bool) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if s.size[what] == nil {
			s.size[what] = &sizeLimit{max: -1}
		}
		limit := &s.size[what].min
		if most {
			limit = &s.size[what].max
		}
		r.Count(limit, 0, math.MaxInt32)(n, at)
	}
}
