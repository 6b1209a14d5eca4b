package action

import (
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

func codeVersion(v *int, f *codec.Fields) {
	n := uint64(*v)
	if f.Uvarint("version", &n); int(n) != *v {
		*v = int(n)
	}
}

// codeBlob codes a string that need not be UTF-8: in JSON it is bytes.
func codeBlob(f *codec.Fields, name string, s *string, r codec.Range) {
	if f.Binary() != nil || f.Checking() {
		f.Text(name, s, r)
		return
	}
	codec.OnCopy(f, s, func(s *string) {
		b := []byte(*s)
		f.Bytes(name, &b, r)
		*s = string(b)
	})
}

// codeLabels codes encoded labels.
func codeLabels(f *codec.Fields, b *[]byte) {
	if f.Checking() {
		f.Refuse(checkLabels(*b))
	} else if f.Given("labels", *b != nil) {
		codec.OnCopy(f, b, func(b *[]byte) {
			if engine.CodePairs(f, "labels", b); *b == nil {
				*b = []byte{}
			}
		})
	}
}

// codeRef codes a run reference. In JSON it is a string but not a RunID, because it omits the
// shard.
func codeRef(ref *protocol.Ref, f *codec.Fields) {
	if c := f.Binary(); c != nil {
		ref.Code(c)
		return
	}
	if f.Checking() {
		return
	}
	codec.OnCopy(f, ref, func(ref *protocol.Ref) {
		show := func() string { return fmt.Sprintf("%d-%d-%d", ref.Action, ref.Run, ref.Tag) }
		f.Token("run", show, func(text string) error {
			if _, err := fmt.Sscanf(text, "%d-%d-%d", &ref.Action, &ref.Run, &ref.Tag); err != nil || show() != text {
				return fmt.Errorf("invalid run reference %q", text)
			}
			return nil
		})
	})
}

// checkLabels returns ErrInvalid for malformed or oversized encoded labels.
func checkLabels(b []byte) error {
	n := len(b)
	if n <= 4*MaxLabelBytes { // the encoded lengths do not count
		labels, err := engine.DecodeHeaders(b)
		if err != nil {
			return err
		}
		n = engine.HeaderBytes(labels)
	}
	if n > MaxLabelBytes {
		return engine.Errorf(ErrInvalid, "action: labels of %d bytes exceed %d", n, MaxLabelBytes)
	}
	return nil
}
