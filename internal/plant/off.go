//go:build !plant

package plant

// Built says whether bugs can be switched on in this program.
const Built = false

// On reports whether the bug is switched on.
func On(Bug) bool { return false }
