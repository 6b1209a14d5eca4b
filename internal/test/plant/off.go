//go:build !plant

package plant

// BuildFlags returns the flags of go build for a program that a test runs.
func BuildFlags() []string { return nil }
