package engine

import (
	"bytes"
	"testing"
)

// FuzzRows reads arbitrary bytes as each of the engine's own rows: an error or a value that is written back as it was, no panic.
func FuzzRows(f *testing.F) {
	f.Add((&namespace{name: "shop", spread: true, createdAt: 7}).encode(nil))
	f.Add(Applied{Index: 9, Term: 2, LSN: 300, Stamp: -1, Hash: 5}.encode(nil))
	f.Add([]byte("t\x80\x00\x00\x00\x00\x00\x00\x01\x0f\x00\x00\x00\x00token"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// A row of another version may have more or fewer counters, and is written back with those of this one.
		if ns, err := decodeNamespace(b); err == nil {
			again, err := decodeNamespace(ns.encode(nil))
			if err != nil || again.name != ns.name || again.counts != ns.counts || again.spread != ns.spread || again.createdAt != ns.createdAt {
				t.Errorf("namespace row %x is read as %+v and, written back, as %+v, %v", b, ns, again, err)
			}
		}
		if a, err := decodeApplied(b); err == nil && !bytes.Equal(a.encode(nil), b) {
			t.Errorf("applied row %x is written back as %x", b, a.encode(nil))
		}
		if _, err := parseTimer(b); err == nil && len(b) < 14 {
			t.Errorf("timer row %x of %d bytes is accepted", b, len(b))
		}
	})
}
