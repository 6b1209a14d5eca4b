// Package stress runs load tests against nodes and measures them. It is shared by floe bench and
// cmd/internal/bench.
package stress
