//go:build cgo

package cli

// offHeap reports whether Pebble allocates its cache and memtables in C, outside of Go's garbage
// collector.
const offHeap = true
