package kv

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/engine"
)

// TestRecentChangesGrow compares the memory of recent changes with a plain list, from its first
// entry up to its bounds and around the ring. Its answers are right, and it forgets nothing before
// it is full.
func TestRecentChangesGrow(t *testing.T) {
	for _, longest := range []int{8, 900} {
		rng := rand.New(rand.NewPCG(1, uint64(longest)))
		var r recentChanges
		r.reset(0)
		var all []recentKey
		size := 0
		for lsn := uint64(1); lsn <= 3*maxRecent/2; lsn++ {
			k := bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, 1+rng.IntN(longest))
			r.add([]engine.Change{{LSN: engine.LSN(lsn), Namespace: 1, Key: k}})
			all = append(all, recentKey{lsn, k})
			size += len(k)
			if lsn%97 != 0 {
				continue
			}
			floor := uint64(r.floor)
			if floor > 0 && lsn < maxRecent && size < maxRecentBytes {
				t.Fatalf("keys of up to %d bytes: changes up to %d of %d are forgotten, with room left", longest, floor, lsn)
			}
			after := floor + rng.Uint64N(lsn-floor)
			got, upTo, ok := r.since(engine.LSN(after), 1, nil, len(all))
			want := all[after:]
			if !ok || uint64(upTo) != lsn || !slices.EqualFunc(got, want, func(a, b recentKey) bool {
				return a.revision == b.revision &&
					bytes.Equal(a.key, b.key)
			}) {
				t.Fatalf("keys of up to %d bytes: since(%d) at %d = %d changes up to %d, %v; want %d", longest, after, lsn, len(got), upTo,
					ok, len(want))
			}
		}
		if r.floor == 0 || len(r.ring) > maxRecent || len(r.keys) > maxRecentBytes {
			t.Errorf("keys of up to %d bytes: forgotten up to %d, rings of %d and %d", longest, r.floor, len(r.ring), len(r.keys))
		}
	}
}
