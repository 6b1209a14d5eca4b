//go:build unix

package cli

import "unsafe"

// erase overwrites an argument in the memory of the system: the strings of os.Args are not copies
// of it.
func erase(arg string) {
	bytes := unsafe.Slice(unsafe.StringData(arg), len(arg))
	for i := range bytes {
		bytes[i] = '*'
	}
}
