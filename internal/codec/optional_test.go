package codec_test

import (
	"bytes"
	"testing"

	"github.com/floedb/floe/internal/codec"
)

// TestOptionalBytes: nil and empty bytes differ, in binary as Coder.Bytes writes them, and in JSON.
func TestOptionalBytes(t *testing.T) {
	code := func(b *[]byte, f *codec.Fields) { f.OptionalBytes("b", b, codec.Range{Max: 2}) }
	for _, c := range []struct {
		b    []byte
		json string
	}{{nil, `{}`}, {[]byte{}, `{"b":""}`}, {[]byte("a"), `{"b":"a"}`}} {
		binary := codec.EncodeFields(nil, &c.b, code)
		if want := codec.Encode(nil, &c.b, func(b *[]byte, c *codec.Coder) { c.Bytes(b) }); !bytes.Equal(binary, want) {
			t.Errorf("%q is encoded as %x, want %x", c.b, binary, want)
		}
		var back []byte
		if err := codec.DecodeFields(binary, &back, code); err != nil || !bytes.Equal(back, c.b) || (back == nil) != (c.b == nil) {
			t.Errorf("%q comes back as %q, %v", c.b, back, err)
		}
		shown, _ := codec.AppendJSON(nil, false, func(f *codec.Fields) { code(&c.b, f) })
		if string(shown) != c.json {
			t.Errorf("%q is %s in JSON, want %s", c.b, shown, c.json)
		}
		back = nil
		if err := codec.ReadJSON(shown, false, func(f *codec.Fields) { code(&back, f) }); err != nil || !bytes.Equal(back, c.b) || (back == nil) != (c.b == nil) {
			t.Errorf("%s is read as %q, %v", shown, back, err)
		}
	}
	long := []byte("abc")
	if err := codec.CheckFields(&long, false, code); err == nil || err.Error() != "b of 3 bytes exceeds 2" {
		t.Errorf("three bytes: %v", err)
	}
}

// TestUint16: numbers beyond two bytes are refused, in binary and in JSON.
func TestUint16(t *testing.T) {
	code := func(n *uint16, f *codec.Fields) { f.Uint16("max_n", n) }
	most := uint16(1<<16 - 1)
	shown, _ := codec.AppendJSON(nil, false, func(f *codec.Fields) { code(&most, f) })
	binary := codec.EncodeFields(nil, &most, code)
	var a, b uint16
	if err := codec.ReadJSON(shown, false, func(f *codec.Fields) { code(&a, f) }); err != nil || a != most || string(shown) != `{"max_n":65535}` {
		t.Errorf("%s is read as %d, %v", shown, a, err)
	}
	if err := codec.DecodeFields(binary, &b, code); err != nil || b != most || codec.CheckFields(&b, true, code) != nil {
		t.Errorf("%x is read as %d, %v", binary, b, err)
	}
	if err := codec.ReadJSON([]byte(`{"max_n":65536}`), false, func(f *codec.Fields) { code(&a, f) }); err == nil || err.Error() != "max n 65536 is not in 0-65535" {
		t.Errorf("65536: %v", err)
	}
	if err := codec.DecodeFields(codec.AppendUvarint(nil, 65536), &b, code); err == nil {
		t.Error("65536 is read")
	}
}
