package key

import (
	"bytes"
	"math"
	"testing"
)

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a", "\x00", "a\x00b", "\x00\x01", "\x00\xff", "\xff"} {
		f.Add([]byte(s), []byte("b"))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ea, eb := AppendString(nil, a), AppendString(nil, b)
		if got, want := bytes.Compare(ea, eb), bytes.Compare(a, b); got != want {
			t.Errorf("order of encoded %q and %q = %d, want %d", a, b, got, want)
		}
		got, rest, ok := CutString(append(ea, "tail"...))
		if !ok || !bytes.Equal(got, a) || string(rest) != "tail" {
			t.Errorf("CutString(encode(%q)+tail) = %q, %q, %v", a, got, rest, ok)
		}
		// Arbitrary bytes must never panic, and what is accepted must encode back to itself.
		if s, rest, ok := CutString(a); ok {
			if back := append(AppendString(nil, s), rest...); !bytes.Equal(back, a) {
				t.Errorf("CutString(%q) accepted, encodes back to %q", a, back)
			}
		}
	})
}

func TestInt64Order(t *testing.T) {
	values := []int64{math.MinInt64, -5, -1, 0, 1, 7, math.MaxInt64}
	for i, v := range values {
		enc := AppendInt64(nil, v)
		if got := Int64(enc); got != v {
			t.Errorf("Int64(AppendInt64(%d)) = %d", v, got)
		}
		if i > 0 && bytes.Compare(AppendInt64(nil, values[i-1]), enc) >= 0 {
			t.Errorf("encoding of %d does not sort before that of %d", values[i-1], v)
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{
		{"", ""}, {"a", "b"}, {"a\xff", "b"}, {"\xff\xff", ""}, {"ab", "ac"},
	} {
		if got := PrefixEnd([]byte(c.prefix)); string(got) != c.want {
			t.Errorf("PrefixEnd(%q) = %q, want %q", c.prefix, got, c.want)
		}
	}
}
