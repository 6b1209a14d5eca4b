package engine

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// RowCache holds committed rows of all shards of a node, for queries and for Apply. The shards
// share its memory, because a namespace usually lives in one shard and the load may be uneven.
//
// Commit, the only writer of a shard, removes the rows it changes before it writes to the database
// and adds the new ones afterwards. In between, queries find them in the database, before or after
// the change, and never the old row once a reader has seen the new one. A query may have read the
// old row in the meantime, so its rows are not added while seq of the shard is odd or has changed
// since before the read.
//
// Written rows are added as long as there is room, because they are often written again, and then
// read first. A row that is read is added at the second request within a short time, so that a full
// scan displaces nothing. In a full bucket a hand moves over the rows. It evicts those not used
// since its last visit, and gives the others another round (the clock algorithm).
type RowCache struct {
	buckets []rowBucket // none: nothing is cached
	share   int         // bytes of a bucket
}

// shardRows is one shard's view of a RowCache.
type shardRows struct {
	*RowCache
	shard ShardID
	seq   atomic.Uint64 // odd while Commit writes
	rows  atomic.Int64  // minimum number of the shard's rows in the cache
}

const (
	maxRowBuckets = 256
	minRowShare   = 64 << 10 // bytes of a bucket; a row takes at most an eighth of one
	rowOverhead   = 80       // bytes of memory per row besides its key and value
	// bytes of the cache for each place in seen: three for each row of 256 bytes, or too many sets
	// hold more rows than ways
	rowsPerProbe = 128
	seenWays     = 4 // rows that share a set of places; with fewer, two rows read in turns would keep each other out
)

type rowBucket struct {
	mu    sync.Mutex
	index map[uint64]int32 // by hash: the row's index in slots; of two rows with the same hash the later stays
	slots []cachedRow
	free  []int32            // slots without a row
	hand  int                // slot to check next when room is needed
	bytes int                // total of the rows
	seen  [][seenWays]uint32 // rows requested but not present: by its hash, the rest of the hash, the latest first

	// Reads answered from the cache, collected for one namespace at a time. A counter shared by all
	// processors would cost more than the lookup.
	hits  int64
	reads int64
	of    *namespace
}

// cachedRow is a row's key followed by its value.
type cachedRow struct {
	b    []byte // nil: Commit has removed it and will add its successor
	of   *shardRows
	hash uint64
	key  int32 // length of the key
	used bool  // since the hand's last visit
}

func (r *cachedRow) value() []byte { return r.b[r.key:len(r.b):len(r.b)] }

func (r *cachedRow) is(k []byte) bool { return string(r.b[:r.key]) == string(k) }

// isNamed reports whether the row's key is that of the name in a shard.
func (r *cachedRow) isNamed(of *shardRows, m MachineID, kind byte, ns uint32, name string) bool {
	return r.of == of && int(r.key) == namedPrefix+len(name) && r.b[2] == byte(m) && r.b[rowPrefix] == kind &&
		binary.BigEndian.Uint32(r.b[rowPrefix+1:]) == ns && string(r.b[namedPrefix:r.key]) == name
}

// namedPrefix is the number of bytes of a row's key before the name: shard, machine, kind and
// namespace.
const namedPrefix = rowPrefix + 5

// NewRowCache returns a cache of about this many bytes, or an empty one for less than 64 KiB.
func NewRowCache(size int64) *RowCache {
	n := min(size/minRowShare, maxRowBuckets)
	if n <= 0 {
		return &RowCache{}
	}
	return &RowCache{buckets: make([]rowBucket, n), share: int(size / n)}
}

// of returns a shard's view of the cache, which only one executor may use.
func (c *RowCache) of(shard ShardID) *shardRows {
	if c == nil {
		c = new(RowCache)
	}
	return &shardRows{RowCache: c, shard: shard}
}

// hashRow returns the hash of a row's key. Everything but the name is mixed in at once, so it is
// fast for a caller that has already hashed the name.
func hashRow(k []byte) uint64 {
	if len(k) < namedPrefix {
		return xxhash.Sum64(k)
	}
	shard, ns := ShardID(binary.BigEndian.Uint16(k)), binary.BigEndian.Uint32(k[rowPrefix+1:])
	return hashNamed(xxhash.Sum64(k[namedPrefix:]), shard, k[rowPrefix], ns)
}

func hashNamed(name uint64, shard ShardID, kind byte, ns uint32) uint64 {
	return name ^ (uint64(ns)<<24|uint64(shard)<<8|uint64(kind))*0x9e3779b97f4a7c15
}

// bucket returns the bucket of a hash. The upper half of the hash differs even for equal names in
// different namespaces.
func (c *RowCache) bucket(h uint64) *rowBucket { return &c.buckets[h>>32*uint64(len(c.buckets))>>32] }

// get returns the row. It is shared and must not be changed.
func (c *shardRows) get(k []byte) (value []byte, ok bool) {
	if c.rows.Load() == 0 {
		return nil, false
	}
	h := hashRow(k)
	b := c.bucket(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.find(h)
	if r == nil || !r.is(k) {
		return nil, false
	}
	return r.value(), true
}

// getNamed is get for a query that has the name and its hash. The read is counted for ns.
func (c *shardRows) getNamed(m MachineID, kind byte, ns *namespace, name string, nameHash uint64) (value []byte, ok bool) {
	if c.rows.Load() == 0 {
		return nil, false
	}
	h := hashNamed(nameHash, c.shard, kind, ns.id)
	b := c.bucket(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.find(h)
	if r == nil || !r.isNamed(c, m, kind, ns.id, name) {
		return nil, false
	}
	b.countRead(ns)
	return r.value(), true
}

// find returns the row with a hash, or nil, and marks it as used.
func (b *rowBucket) find(h uint64) *cachedRow {
	i, ok := b.index[h]
	if !ok || b.slots[i].b == nil {
		return nil
	}
	r := &b.slots[i]
	r.used = true
	return r
}

func (b *rowBucket) countRead(ns *namespace) {
	if b.of != ns {
		b.flushReads()
		b.of = ns
	}
	b.hits++
	b.reads++
}

func (b *rowBucket) flushReads() {
	if b.of != nil {
		b.of.reads.Add(b.reads)
	}
	b.reads = 0
}

// flushReads updates the namespaces' read counts.
func (c *RowCache) flushReads() {
	for i := range c.buckets {
		b := &c.buckets[i]
		b.mu.Lock()
		b.flushReads()
		b.mu.Unlock()
	}
}

// Hits returns the number of reads in all shards that Executor.Cached has answered.
func (c *RowCache) Hits() int64 {
	n := int64(0)
	for i := range c.buckets {
		b := &c.buckets[i]
		b.mu.Lock()
		n += b.hits
		b.mu.Unlock()
	}
	return n
}

// offer adds a row that a query has read from the database, with seq as it was before the read. The
// row is copied.
func (c *shardRows) offer(seq uint64, k, value []byte) {
	if !c.takes(k, value) || seq%2 != 0 {
		return
	}
	h := hashRow(k)
	b := c.bucket(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.seenBefore(h, c.share) {
		return
	}
	// Count before checking seq, so that a Commit that starts after the check does not assume that
	// there are no rows.
	c.rows.Add(1)
	if c.seq.Load() == seq {
		b.put(newCachedRow(c, h, k, value), c.share)
	}
	c.rows.Add(-1)
}

func (c *RowCache) takes(k, value []byte) bool {
	return len(c.buckets) > 0 && len(k)+len(value) <= c.share/8
}

func newCachedRow(of *shardRows, h uint64, k, value []byte) cachedRow {
	b := make([]byte, 0, len(k)+len(value))
	return cachedRow{b: append(append(b, k...), value...), of: of, hash: h, key: int32(len(k))}
}

// seenBefore reports whether the row with a hash was requested recently, and records this request.
func (b *rowBucket) seenBefore(h uint64, share int) bool {
	if b.seen == nil {
		b.seen = make([][seenWays]uint32, max(share/rowsPerProbe/seenWays, 1))
	}
	set, rest := &b.seen[h%uint64(len(b.seen))], uint32(h>>32)|1
	if slices.Contains(set[:], rest) {
		return true
	}
	copy(set[1:], set[:])
	set[0] = rest
	return false
}

// add adds a row that Apply has read from the database, because it will be written again, and there
// is no other writer. The row is copied. add returns the copy, unless the cache does not hold such
// rows.
func (c *shardRows) add(k, value []byte) (kept []byte, ok bool) {
	if !c.takes(k, value) {
		return nil, false
	}
	r := newCachedRow(c, hashRow(k), k, value)
	b := c.bucket(r.hash)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(r, c.share)
	return r.value(), true
}

// put stores the row as the one of its hash; b is locked.
func (b *rowBucket) put(r cachedRow, share int) {
	if i, had := b.index[r.hash]; had {
		b.fill(i, r, share)
		return
	}
	if b.index == nil {
		b.index = make(map[uint64]int32)
	}
	r.of.rows.Add(1)
	b.makeRoom(r.bytes(), noSlot, share)
	i := b.place()
	b.index[r.hash] = i
	b.slots[i] = r
}

// fill puts a row into the slot of its hash; b is locked.
func (b *rowBucket) fill(i int32, r cachedRow, share int) {
	b.empty(i)
	r.used = true
	r.of.rows.Add(1)
	b.makeRoom(r.bytes(), i, share)
	b.slots[i] = r
}

// makeRoom counts the bytes of a new row and evicts others if there are too many. It does not evict
// the row in the slot keep.
func (b *rowBucket) makeRoom(n int, keep int32, share int) {
	b.bytes += n
	for b.bytes > share {
		b.turn(keep)
	}
}

func (r *cachedRow) bytes() int { return len(r.b) + rowOverhead }

// place returns a slot without a row.
func (b *rowBucket) place() int32 {
	if n := len(b.free); n > 0 {
		i := b.free[n-1]
		b.free = b.free[:n-1]
		return i
	}
	b.slots = append(b.slots, cachedRow{})
	return int32(len(b.slots) - 1)
}

// turn moves the hand by one slot. It evicts the row there unless it has been used or is in the
// slot to keep.
func (b *rowBucket) turn(keep int32) {
	if b.hand >= len(b.slots) {
		b.hand = 0
	}
	i := int32(b.hand)
	b.hand++
	r := &b.slots[i]
	switch {
	case r.of == nil || i == keep:
	case r.used:
		r.used = false
	default:
		b.drop(i)
	}
}

// empty removes the row in a slot that its successor will fill.
func (b *rowBucket) empty(i int32) {
	r := &b.slots[i]
	if r.b != nil {
		b.bytes -= r.bytes()
		r.of.rows.Add(-1)
		r.b = nil
	}
}

// drop frees a slot.
func (b *rowBucket) drop(i int32) {
	b.empty(i)
	delete(b.index, b.slots[i].hash)
	b.slots[i] = cachedRow{}
	b.free = append(b.free, i)
}

// remove removes a row and returns its slot, which stays reserved for the successor, or noSlot if
// the row was not there.
func (c *shardRows) remove(h uint64, k []byte) (slot int32) {
	b := c.bucket(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	i, ok := b.index[h]
	if !ok || b.slots[i].b == nil || !b.slots[i].is(k) {
		return noSlot
	}
	b.empty(i)
	return i
}

// changedRow is a row of the batch being committed that the cache may hold.
type changedRow struct {
	hash uint64
	op   int32
	slot int32 // its slot in the cache, or noSlot
}

const noSlot = -1

// begin removes changed rows from the cache. No rows are added until end.
func (c *shardRows) begin(ops []overlayOp, changed []changedRow) {
	c.seq.Add(1)
	if c.rows.Load() == 0 {
		return
	}
	for i := range changed {
		r := &changed[i]
		r.slot = c.remove(r.hash, ops[r.op].key)
	}
}

// end adds the new versions of the rows that were cached, and other rows while there is room.
func (c *shardRows) end(ops []overlayOp, changed []changedRow) {
	for i := range changed {
		c.replace(&ops[changed[i].op], &changed[i])
	}
	c.seq.Add(1)
}

// replace stores the row of an op in its former slot.
func (c *shardRows) replace(op *overlayOp, r *changedRow) {
	stays := !op.deleted && c.takes(op.key, op.value)
	if !stays && r.slot == noSlot {
		return
	}
	b := c.bucket(r.hash)
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := r.slot != noSlot && b.keeps(r.slot, c, r.hash) // otherwise the hand has passed since
	switch {
	case stays && kept:
		b.fill(r.slot, newCachedRow(c, r.hash, op.key, op.value), c.share)
	case stays && (r.slot != noSlot || b.bytes+len(op.key)+len(op.value)+rowOverhead <= c.share):
		b.put(newCachedRow(c, r.hash, op.key, op.value), c.share)
	case kept:
		b.drop(r.slot)
	}
}

// keeps reports whether a slot is still reserved for the removed row with a hash.
func (b *rowBucket) keeps(slot int32, of *shardRows, h uint64) bool {
	s := &b.slots[slot]
	return s.b == nil && s.of == of && s.hash == h
}

// suspend drops all rows of the shard and adds none until resume, because the state is about to be
// replaced.
func (c *shardRows) suspend() {
	c.seq.Store(c.seq.Load() | 1)
	for i := range c.buckets {
		b := &c.buckets[i]
		b.mu.Lock()
		b.flushReads()
		b.of = nil
		for i := range b.slots {
			if b.slots[i].of == c {
				b.drop(int32(i))
			}
		}
		b.mu.Unlock()
	}
}

func (c *shardRows) resume() { c.seq.Store((c.seq.Load() + 1) &^ 1) }
