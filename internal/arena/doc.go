// Package arena copies many small byte slices into few pieces of memory: allocating each takes
// longer than most of what is done with it.
package arena
