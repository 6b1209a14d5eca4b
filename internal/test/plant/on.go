//go:build plant

package plant

import "sync/atomic"

var on atomic.Value

// On reports whether the bug is switched on.
func On(b Bug) bool { return on.Load() == b }

// Set switches a bug on, and all others off; "" none.
func Set(b Bug) { on.Store(b) }

// BuildFlags returns the flags of go build for a program that a test runs, so that the program has
// the bugs as well and packages are compiled once.
func BuildFlags() []string {
	if overlay == "" {
		return []string{"-tags", "plant"}
	}
	return []string{"-tags", "plant", "-overlay", overlay}
}
