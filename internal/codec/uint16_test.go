package codec_test

import (
	"testing"

	"github.com/floedb/floe/internal/codec"
)

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
