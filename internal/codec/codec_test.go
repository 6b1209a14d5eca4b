package codec

import (
	"bytes"
	"errors"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	rec := AppendUvarint(nil, 300)
	rec = AppendVarint(rec, -7)
	rec = AppendBytes(rec, []byte("ab"))
	rec = AppendString(rec, "")
	rec = AppendBool(rec, true)
	rec = append(rec, 9, 8)

	r := NewReader(rec)
	if v := r.Uvarint(); v != 300 {
		t.Errorf("Uvarint() = %d, want 300", v)
	}
	if v := r.Varint(); v != -7 {
		t.Errorf("Varint() = %d, want -7", v)
	}
	if v := r.Bytes(); string(v) != "ab" {
		t.Errorf("Bytes() = %q, want ab", v)
	}
	if v := r.String(); v != "" {
		t.Errorf("String() = %q, want empty", v)
	}
	if !r.Bool() {
		t.Error("Bool() = false, want true")
	}
	if v := r.Byte(); v != 9 {
		t.Errorf("Byte() = %d, want 9", v)
	}
	if err := r.Done(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Done() with a byte left = %v, want ErrCorrupt", err)
	}
}

func TestFirstErrorSticks(t *testing.T) {
	r := NewReader([]byte{5, 'a'})
	r.Bytes()
	first := r.Err()
	r.Byte()
	r.Uvarint()
	if first == nil || r.Done() != first {
		t.Errorf("Done() = %v, want the first error %v", r.Done(), first)
	}
}

func TestOverlongVarintRefused(t *testing.T) {
	r := NewReader([]byte{0x81, 0x00})
	if v := r.Uvarint(); r.Err() == nil {
		t.Errorf("Uvarint() of an overlong 1 = %d, want an error", v)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{1, 'a', 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		u, v, s := r.Uvarint(), r.Varint(), r.Bytes()
		rest := r.Rest()
		if r.Err() != nil {
			return
		}
		back := append(AppendBytes(AppendVarint(AppendUvarint(nil, u), v), s), rest...)
		if !bytes.Equal(back, b) {
			t.Errorf("read %x, wrote back %x", b, back)
		}
	})
}
