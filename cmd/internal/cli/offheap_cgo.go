//go:build cgo

package cli

// offHeap says that Pebble takes the memory of its cache and memtables from C, where Go's collector
// does not see it.
const offHeap = true
