// Package stress puts loads on nodes and says how they bear it: what floe bench and
// cmd/internal/bench share.
package stress
