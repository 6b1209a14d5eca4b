//go:build !cgo

package cli

const offHeap = false
