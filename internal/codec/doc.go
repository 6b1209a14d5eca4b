// Package codec reads and writes the small binary records of floe: commands, results and state
// rows.
//
// Integers are varints (encoding/binary), byte strings are a length and the bytes. Writing is done
// with append functions; a Reader keeps its first error, so a decoder reads all fields and checks
// for an error once at the end.
package codec
