// Package arena copies many small byte slices into few allocations. Allocating each one would take
// longer than most of the work done with it.
package arena
