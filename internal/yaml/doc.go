// Package yaml is the one place that knows which library reads and writes YAML: the present one is
// archived, and can be replaced here. Definitions are read through internal/document, which bounds
// what a hostile one can do.
package yaml
