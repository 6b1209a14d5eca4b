package kv

import (
	"bytes"
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// Bounds of recentChanges: together about 1.5 MiB per shard. It starts with 1/256 of them and
// doubles when full, because most shards have few changes. All bounds are powers of two.
const (
	maxRecent      = 16384
	maxRecentBytes = 1 << 20
	minRecent      = maxRecent / 256
	minRecentBytes = maxRecentBytes / 256
)

// recentChanges records a shard's latest changes: keys and LSNs. A watcher that keeps up finds new
// changes here without reading other keys; one that has fallen behind must scan. It consists of two
// rings, so once they have grown, recording a change allocates nothing. It is not an engine.Memory,
// because it holds committed changes, is read by queries, and does not reflect the current rows.
type recentChanges struct {
	mu      sync.Mutex // guards everything below; no I/O under it
	ring    []recentChange
	first   uint64 // number of the oldest change in the ring
	next    uint64 // number of the next change
	keys    []byte
	written uint64     // bytes ever written to keys
	floor   engine.LSN // every change after floor ...
	covered engine.LSN // ... up to covered is in the ring
	told    engine.LSN // all changes up to here have woken their waiting queries, except those ...
	origin  engine.LSN // ... up to origin, which came with a snapshot
}

type recentChange struct {
	lsn    engine.LSN
	ns     uint32
	length uint32
	offset uint64 // of the key, counted in bytes ever written
}

func (r *recentChanges) reset(lsn engine.LSN) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first, r.next, r.written, r.floor, r.covered = 0, 0, 0, lsn, lsn
	r.told, r.origin = lsn, lsn
}

func (r *recentChanges) tell(lsn engine.LSN) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = lsn
}

// toldUpTo returns the last change for which all waiting queries have been woken.
func (r *recentChanges) toldUpTo() engine.LSN {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

// woken reports whether all changes after an LSN have woken their waiting queries. Changes from a
// snapshot wake none.
func (r *recentChanges) woken(after engine.LSN) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return after >= r.origin
}

func (r *recentChanges) add(changes []engine.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		r.makeRoom(uint64(len(c.Key)))
		*r.at(r.next) = recentChange{c.LSN, c.Namespace, uint32(len(c.Key)), r.written}
		r.next++
		r.written = copyRing(r.keys, r.written, c.Key)
		r.covered = c.LSN
	}
}

// makeRoom makes room for one more change with a key of n bytes. The rings grow up to their bounds;
// then the oldest changes are dropped.
func (r *recentChanges) makeRoom(n uint64) {
	for r.next-r.first == uint64(len(r.ring)) {
		if len(r.ring) == maxRecent {
			r.dropFirst()
		} else {
			r.growRing()
		}
	}
	for r.held()+n > uint64(len(r.keys)) {
		if len(r.keys) == maxRecentBytes {
			r.dropFirst()
		} else {
			r.growKeys()
		}
	}
}

// held returns the bytes of the keys in the ring.
func (r *recentChanges) held() uint64 {
	if r.first == r.next {
		return 0
	}
	return r.written - r.at(r.first).offset
}

func (r *recentChanges) growRing() {
	ring := make([]recentChange, max(2*len(r.ring), minRecent))
	for n := r.first; n < r.next; n++ {
		ring[n%uint64(len(ring))] = *r.at(n)
	}
	r.ring = ring
}

func (r *recentChanges) growKeys() {
	keys := make([]byte, max(2*len(r.keys), minRecentBytes))
	for n := r.first; n < r.next; n++ {
		c := r.at(n)
		copyRing(keys, c.offset, r.copyKey(c))
	}
	r.keys = keys
}

// copyRing copies k to an offset, counted in bytes ever written, and returns the offset after it.
func copyRing(ring []byte, offset uint64, k []byte) uint64 {
	for len(k) > 0 {
		n := copy(ring[offset%uint64(len(ring)):], k)
		offset += uint64(n)
		k = k[n:]
	}
	return offset
}

func (r *recentChanges) at(number uint64) *recentChange { return &r.ring[number%uint64(len(r.ring))] }

func (r *recentChanges) dropFirst() {
	r.floor = r.at(r.first).lsn
	r.first++
}

// recentKey is a changed key and its new revision.
type recentKey struct {
	revision uint64
	key      []byte
}

// since returns up to limit changes of keys with the prefix after an LSN, oldest first, and the LSN
// up to which it searched. ok is false if the ring does not reach back that far.
func (r *recentChanges) since(after engine.LSN, ns uint32, prefix []byte, limit int) (changes []recentKey, upTo engine.LSN, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if after < r.floor {
		return nil, 0, false
	}
	upTo = max(after, r.covered)
	for n := r.search(after); n < r.next; n++ {
		c := r.at(n)
		if c.ns != ns || !r.hasPrefix(c, prefix) {
			continue
		}
		if len(changes) == limit {
			return changes, engine.LSN(changes[limit-1].revision), true
		}
		changes = append(changes, recentKey{uint64(c.lsn), r.copyKey(c)})
	}
	return changes, upTo, true
}

// search returns the number of the first change after an LSN.
func (r *recentChanges) search(after engine.LSN) uint64 {
	lo, hi := r.first, r.next
	for lo < hi {
		mid := lo + (hi-lo)/2
		if r.at(mid).lsn > after {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

func (r *recentChanges) hasPrefix(c *recentChange, prefix []byte) bool {
	if int(c.length) < len(prefix) {
		return false
	}
	start := c.offset % uint64(len(r.keys))
	if end := start + uint64(len(prefix)); end <= uint64(len(r.keys)) {
		return bytes.Equal(r.keys[start:end], prefix)
	}
	return bytes.HasPrefix(r.copyKey(c), prefix)
}

func (r *recentChanges) copyKey(c *recentChange) []byte {
	k := make([]byte, 0, c.length)
	start := c.offset % uint64(len(r.keys))
	head := r.keys[start:min(start+uint64(c.length), uint64(len(r.keys)))]
	k = append(k, head...)
	return append(k, r.keys[:int(c.length)-len(head)]...)
}
