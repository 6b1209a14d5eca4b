// Package document reads YAML or JSON definitions into nodes with line numbers, and nodes into Go
// values. It is strict, accepts either spelling of keys, bounds the cost of hostile documents, and
// reports all problems at once.
package document
