//go:build unix

package cli

import "unsafe"

// erase overwrites an argument where the system has it: the strings of os.Args are not copies of
// that.
func erase(arg string) {
	bytes := unsafe.Slice(unsafe.StringData(arg), len(arg))
	for i := range bytes {
		bytes[i] = '*'
	}
}
