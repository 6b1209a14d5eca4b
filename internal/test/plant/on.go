//go:build plant

package plant

import "sync/atomic"

var on atomic.Value

// On reports whether the bug is enabled.
func On(b Bug) bool { return on.Load() == b }

// Set enables a bug and disables all others; "" disables all.
func Set(b Bug) { on.Store(b) }

// BuildFlags returns the flags of go build for a program that a test runs, so that the program has
// the same bugs and packages are compiled once.
func BuildFlags() []string {
	if overlay == "" {
		return []string{"-tags", "plant"}
	}
	return []string{"-tags", "plant", "-overlay", overlay}
}
