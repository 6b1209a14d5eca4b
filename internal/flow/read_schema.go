package flow

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	maxSchemaDepth = 64   // of schemas in schemas
	maxListed      = 1000 // names that are required, or values of an enum
)

// schema reads a schema.
func (r *reader) schema(v **Schema) func(*node, string) {
	return func(n *node, at string) { *v = r.schemaOf(n, at, maxSchemaDepth) }
}

// schemaOf reads a schema that may have so many more below each other.
func (r *reader) schemaOf(n *node, at string, left int) *Schema {
	s := &Schema{}
	if left == 0 {
		r.fail(n.line, "too-deep", "%s is nested deeper than %d schemas", at, maxSchemaDepth)
		return s
	}
	before := len(r.problems)
	r.table(n, at,
		field{names: "type", read: r.schemaTypes(&s.types), null: true},
		field{names: "required", read: r.each(maxListed, func(n *node, at string) {
			name := ""
			if r.text(&name)(n, at); slices.Contains(s.required, name) {
				r.fail(n.line, "duplicate-name", "%s is %s, which stands in the list already", at, quote(name))
				return
			}
			s.required = append(s.required, name)
		})},
		field{names: "properties", read: r.properties(s, left)},
		field{names: "additional_properties", read: func(n *node, at string) {
			open := true
			r.boolean(&open)(n, at)
			s.closed = !open
		}},
		field{names: "items", read: func(n *node, at string) { s.items = r.schemaOf(n, at, left-1) }},
		field{names: "enum", read: r.each(maxListed, func(n *node, at string) { s.enum = append(s.enum, r.plainJSON(n, at)) })},
		field{names: "const", read: func(n *node, at string) { s.enum = append(s.enum, r.plainJSON(n, at)) }, null: true},
		field{names: "minimum", read: r.float(&s.min)},
		field{names: "maximum", read: r.float(&s.max)},
		field{names: "min_length", read: r.size(s, sizeText, false)},
		field{names: "max_length", read: r.size(s, sizeText, true)},
		field{names: "min_items", read: r.size(s, sizeItems, false)},
		field{names: "max_items", read: r.size(s, sizeItems, true)},
		field{names: "title", read: r.text(new(string))},
		field{names: "description", read: r.text(new(string))},
	)
	if len(r.problems) == before {
		r.satisfiable(s, n, at)
	}
	return s
}

// satisfiable looks for limits that contradict each other.
func (r *reader) satisfiable(s *Schema, n *node, at string) {
	if s.min != nil && s.max != nil && *s.min > *s.max {
		r.fail(n.line, "bad-value", "%s has minimum %s above maximum %s", at, decimal(*s.min), decimal(*s.max))
	}
	for what, limit := range s.size {
		if limit != nil && limit.max >= 0 && limit.min > limit.max {
			r.fail(n.line, "bad-value", "%s needs at least %d %s, and has at most %d", at, limit.min, sizeNames[what], limit.max)
		}
	}
	if enum := n.get("enum"); enum != nil && n.get("const") != nil {
		r.fail(enum.line, "duplicate-key", "enum and const in %s say the same", at)
	} else if enum != nil && len(enum.items) == 0 {
		r.fail(enum.line, "bad-value", "%s.enum is empty: no value is allowed", at)
	}
}

func (r *reader) schemaTypes(v *uint8) func(*node, string) {
	one := func(n *node, at string) {
		i := -1
		if n.kind == nodeText {
			i = slices.Index(schemaTypes, n.text)
		} else if n.kind == nodeNull && n.text != "" {
			i = 0 // null without quotes
		}
		if i < 0 {
			r.fail(n.line, "bad-value", "%s is %s, expected %s", at, n.describe(), oneOf(schemaTypes))
			return
		}
		*v |= 1 << i
	}
	return func(n *node, at string) {
		if n.kind != nodeList {
			one(n, at)
			return
		}
		if r.each(len(schemaTypes), one)(n, at); len(n.items) == 0 {
			r.fail(n.line, "bad-value", "%s is empty, expected %s", at, oneOf(schemaTypes))
		}
	}
}

func (r *reader) properties(s *Schema, left int) func(*node, string) {
	return func(n *node, at string) {
		if n.kind != nodeTable {
			r.fail(n.line, "wrong-type", "%s is %s, expected a table", at, n.describe())
			return
		}
		for _, p := range n.pairs {
			m := schemaMember{p.key, &Schema{}}
			if p.value.kind != nodeNull {
				m.schema = r.schemaOf(p.value, under(at, p.key), left-1)
			}
			s.members = append(s.members, m)
		}
		slices.SortFunc(s.members, func(a, b schemaMember) int { return strings.Compare(a.name, b.name) })
	}
}

// plainJSON returns a value as JSON, in which text is text.
func (r *reader) plainJSON(n *node, at string) []byte {
	var b builder
	r.render(&b, n, at, nil)
	return b.literal
}

func (r *reader) float(v **float64) func(*node, string) {
	return func(n *node, at string) {
		f, err := strconv.ParseFloat(n.text, 64)
		if n.kind != nodeNumber || err != nil {
			r.fail(n.line, "bad-number", "%s is %s, expected a number", at, n.describe())
			return
		}
		*v = &f
	}
}

func (r *reader) size(s *Schema, what int, most bool) func(*node, string) {
	return func(n *node, at string) {
		if s.size[what] == nil {
			s.size[what] = &sizeLimit{max: -1}
		}
		limit := &s.size[what].min
		if most {
			limit = &s.size[what].max
		}
		r.count(limit, 0, math.MaxInt32)(n, at)
	}
}
