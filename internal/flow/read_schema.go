package flow

// maxSchemaDepth is how deep schemas are nested.
const maxSchemaDepth = 64

// schema reads a schema.
func (r *reader) schema(v **Schema) func(*node, string) {
	return func(n *node, at string) {
		*v = r.schemaOf(n, at, maxSchemaDepth)
	}
}

func (r *reader) schemaOf(n *node, at string, left int) *Schema { return &Schema{} }
