package flow

import "github.com/floedb/floe/internal/document"

// reader converts a document to a Definition.
type reader struct {
	document.Reader
	d      *Definition
	places map[string]Place // of steps and terminals, by name
	lines  []int            // of steps
	plans  map[string]int
	used   map[string]bool // plans that a call uses
	steps  []stepUse
	seen   func(at string, fields []document.Field) // for references; called with the keys of each table
}

// Table is document.Reader.Table.
func (r *reader) Table(n *document.Node, at string, fields ...document.Field) {
	if r.seen != nil && r.Tell == nil {
		r.seen(at, fields)
	}
	r.Reader.Table(n, at, fields...)
}

// stepUse is a reference to a step in a path.
type stepUse struct {
	name string
	at   string
	line int
}
