// Package yaml hides the library that reads and writes YAML. The current one is archived and can be
// replaced here. Definitions are read through internal/document, which bounds the effects of
// hostile ones.
package yaml
