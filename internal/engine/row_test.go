package engine

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// FuzzRows decodes arbitrary bytes as each of the engine's own rows. The result is an error or a
// value that encodes to the same bytes, never a panic.
func FuzzRows(f *testing.F) {
	tab := newTable([]Primitive{
		{ID: MachineKV, Name: "a", New: func() Machine { return nil }, Counters: countersOf(5)},
		{ID: MachineQueue, Name: "b", New: func() Machine { return nil }, Counters: countersOf(1)},
	})
	f.Add(tab.encodeNamespace(nil, &namespace{name: "shop", spread: true, createdAt: 7, counts: make([]int64, 6)}))
	f.Add(tab.encodeNamespace(nil, &namespace{name: "shop", spread: true, createdAt: 7, counts: []int64{0, 300, -1, 0, 0, 1}}))
	f.Add(Applied{Index: 9, Term: 2, LSN: 300, Stamp: -1, Hash: 5}.encode(nil))
	f.Add([]byte("t\x80\x00\x00\x00\x00\x00\x00\x01\x0f\x00\x00\x00\x00token"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ns, err := tab.decodeNamespace(b); err == nil {
			again, err := tab.decodeNamespace(tab.encodeNamespace(nil, ns))
			if err != nil || again.name != ns.name || !slices.Equal(again.counts, ns.counts) || again.spread != ns.spread ||
				again.createdAt != ns.createdAt {
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

func countersOf(n int) (all []CounterType) {
	for i := range n {
		all = append(all, CounterType{Counter(i), fmt.Sprint(i), func(c *Counts) *int64 { return c.fields()[i].v }})
	}
	return all
}
