// Package plant holds switches for bugs that are planted on purpose: a checker that has never failed proves nothing. Without
// the build tag "plant" every switch is the constant false, and what it would turn on is not in the program.
//
//	go test -tags plant ./internal/sim -run '^TestPlanted$'
package plant

// Bug names a planted bug, by what the code does wrong.
type Bug string
