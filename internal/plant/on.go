//go:build plant

package plant

import "sync/atomic"

// Built says whether bugs can be switched on in this program.
const Built = true

var on atomic.Value

// On reports whether the bug is switched on.
func On(b Bug) bool { return on.Load() == b }

// Set switches a bug on, and all others off; "" none.
func Set(b Bug) { on.Store(b) }
