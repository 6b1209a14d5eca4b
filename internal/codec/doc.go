// Package codec reads and writes the small binary records of floe: commands, results and state
// rows.
//
// Integers are varints (encoding/binary), byte strings are a length and the bytes. Append functions
// write records. A Reader keeps its first error, so a decoder can read all fields and check for an
// error once at the end.
package codec
