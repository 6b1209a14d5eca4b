package key

import (
	"bytes"
	"encoding/binary"
)

// AppendString appends s so that further components can follow: 00 is written as 00 FF, the end as
// 00 01.
func AppendString(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, 0)
		if i < 0 {
			dst = append(dst, s...)
			return append(dst, 0, 1)
		}
		dst = append(dst, s[:i]...)
		dst = append(dst, 0, 0xff)
		s = s[i+1:]
	}
}

// CutString reads a component written by AppendString from the front of b. It returns the
// component, which is a copy only if it contains zero bytes, and the rest. It returns false if b
// has no such encoding.
func CutString(b []byte) (s, rest []byte, ok bool) {
	var unescaped []byte
	for start := 0; ; {
		i := bytes.IndexByte(b[start:], 0)
		if i < 0 || start+i+1 >= len(b) {
			return nil, nil, false
		}
		i += start
		switch b[i+1] {
		case 1:
			rest = b[i+2:]
			if unescaped == nil {
				return b[:i], rest, true
			}
			return append(unescaped, b[start:i]...), rest, true
		case 0xff:
			unescaped = append(unescaped, b[start:i+1]...)
			start = i + 2
		default:
			return nil, nil, false
		}
	}
}

// AppendUint64 appends v in big-endian order, so numbers sort by value.
func AppendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// AppendUint32 appends v in big-endian order.
func AppendUint32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

// AppendInt64 appends v so that negative numbers sort before positive ones.
func AppendInt64(dst []byte, v int64) []byte { return AppendUint64(dst, uint64(v)^(1<<63)) }

// Int64 reads a number written by AppendInt64; b must hold at least eight bytes.
func Int64(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)) }

// Behind returns the range lower <= key < upper of the keys that begin with prefix and come after
// another key. It returns false if no such key is possible.
func Behind(prefix, after []byte) (lower, upper []byte, ok bool) {
	lower, upper = prefix, PrefixEnd(prefix)
	if bytes.Compare(after, prefix) >= 0 {
		lower = append(bytes.Clone(after), 0)
	}
	return lower, upper, upper == nil || bytes.Compare(lower, upper) < 0
}

// PrefixEnd returns the smallest key greater than every key with the prefix, or nil if there is
// none (prefix is empty or all FF).
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := bytes.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}
