package engine

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// rowCache holds rows as the committed state has them, for queries and for Apply.
//
// Commit, the one writer, takes the rows it changes out before it writes to the database and puts the new ones in afterwards;
// in between queries find them in the database, before or after the change, and never the old row once somebody has seen the
// new one. What a query has read meanwhile may be the old row, so nothing is added while seq is odd, or has moved on since
// before the read.
//
// A row that is read comes in when it is asked for the second time in a while, so that a scan over everything displaces nothing. A
// bucket has two generations: when the young one is full it becomes the old one, whose rows return when they are used.
type rowCache struct {
	seq     atomic.Uint64 // odd while Commit writes
	rows    atomic.Int64
	buckets []rowBucket // none: nothing is kept
	share   int         // bytes of a generation of a bucket
}

const (
	rowBuckets   = 128 // of a shard
	rowOverhead  = 80  // bytes of memory that a row takes beside its key and value
	rowsPerProbe = 256 // bytes of the cache for each place in seen
	seenWays     = 4   // rows that share a set of places; fewer, and two that are read in turns would keep each other out
)

type rowBucket struct {
	mu         sync.Mutex
	young, old map[uint64]cachedRow // by hash; of two rows with the same one the later stays
	bytes      int                  // of young
	seen       [][seenWays]uint32   // what was asked for and not there: by its hash, the rest of the hash, the latest first

	// Reads answered here, gathered for one namespace at a time: a counter shared by all processors would cost more than the
	// lookup.
	hits  int64
	reads int64
	of    *namespace

	_ [32]byte // buckets do not share cache lines
}

// cachedRow is a row's key and value, one behind the other.
type cachedRow struct {
	b   []byte
	key int // length of the key
}

func (r *cachedRow) value() []byte { return r.b[r.key:len(r.b):len(r.b)] }

func (r *cachedRow) is(k []byte) bool { return string(r.b[:r.key]) == string(k) }

// isNamed reports whether the row's key is that of the name.
func (r *cachedRow) isNamed(m MachineID, kind byte, ns uint32, name string) bool {
	return r.key == namedPrefix+len(name) && r.b[2] == byte(m) && r.b[rowPrefix] == kind &&
		binary.BigEndian.Uint32(r.b[rowPrefix+1:]) == ns && string(r.b[namedPrefix:r.key]) == name
}

// namedPrefix is how many bytes of a row's key stand before the name: machine, kind and namespace.
const namedPrefix = rowPrefix + 5

// newRowCache returns a cache of about so many bytes.
func newRowCache(size int64) *rowCache {
	c := &rowCache{share: int(size / rowBuckets / 2)}
	if c.share < 4<<10 {
		return c
	}
	c.buckets = make([]rowBucket, rowBuckets)
	return c
}

// hashRow returns the hash of a row's key. All but the name weighs little in it, so a caller that has hashed the name is quick.
func hashRow(k []byte) uint64 {
	if len(k) < namedPrefix {
		return xxhash.Sum64(k)
	}
	return hashNamed(xxhash.Sum64(k[namedPrefix:]), k[rowPrefix], binary.BigEndian.Uint32(k[rowPrefix+1:]))
}

func hashNamed(name uint64, kind byte, ns uint32) uint64 {
	return name ^ (uint64(ns)<<8|uint64(kind))*0x9e3779b97f4a7c15
}

func (c *rowCache) bucket(h uint64) *rowBucket { return &c.buckets[h%rowBuckets] }

// get returns the row. It is shared and must not be changed.
func (c *rowCache) get(k []byte) (value []byte, ok bool) {
	if c.rows.Load() == 0 {
		return nil, false
	}
	h := hashRow(k)
	b := c.bucket(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := c.find(b, h)
	if !ok || !r.is(k) {
		return nil, false
	}
	return r.value(), true
}

// getNamed is get for a query that has the name and its hash; the read is counted for ns.
func (c *rowCache) getNamed(m MachineID, kind byte, ns *namespace, name string, nameHash uint64) (value []byte, ok bool) {
	if c.rows.Load() == 0 {
		return nil, false
	}
	h := hashNamed(nameHash, kind, ns.id)
	b := c.bucket(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := c.find(b, h)
	if !ok || !r.isNamed(m, kind, ns.id, name) {
		return nil, false
	}
	b.countRead(ns)
	return r.value(), true
}

// find returns the row with a hash, and makes it young.
func (c *rowCache) find(b *rowBucket, h uint64) (cachedRow, bool) {
	r, ok := b.young[h]
	if ok {
		return r, true
	}
	if r, ok = b.old[h]; ok {
		delete(b.old, h)
		c.rows.Add(-1)
		c.put(b, h, r)
	}
	return r, ok
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

// flushReads brings the namespaces' counts of reads up to date.
func (c *rowCache) flushReads() {
	for i := range c.buckets {
		b := &c.buckets[i]
		b.mu.Lock()
		b.flushReads()
		b.mu.Unlock()
	}
}

// hits returns how many reads were answered from the cache.
func (c *rowCache) hits() int64 {
	n := int64(0)
	for i := range c.buckets {
		b := &c.buckets[i]
		b.mu.Lock()
		n += b.hits
		b.mu.Unlock()
	}
	return n
}

// offer adds a row that a query has read from the database, where seq was as given before the read. The row is copied.
func (c *rowCache) offer(seq uint64, k, value []byte) {
	if !c.takes(k, value) || seq%2 != 0 {
		return
	}
	h := hashRow(k)
	b := c.bucket(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seenBefore(h/rowBuckets, c.share) && c.seq.Load() == seq {
		c.put(b, h, newCachedRow(k, value))
	}
}

func (c *rowCache) takes(k, value []byte) bool {
	return len(c.buckets) > 0 && len(k)+len(value) <= c.share/4
}

func newCachedRow(k, value []byte) cachedRow {
	b := make([]byte, 0, len(k)+len(value))
	return cachedRow{append(append(b, k...), value...), len(k)}
}

// seenBefore reports whether the row with a hash was asked for not long ago, and remembers that it was now.
func (b *rowBucket) seenBefore(h uint64, share int) bool {
	if b.seen == nil {
		b.seen = make([][seenWays]uint32, max(2*share/rowsPerProbe/seenWays, 1))
	}
	set, rest := &b.seen[h%uint64(len(b.seen))], uint32(h>>32)|1
	if slices.Contains(set[:], rest) {
		return true
	}
	copy(set[1:], set[:])
	set[0] = rest
	return false
}

// add adds a row that Apply has read from the database: it will be written again, and nobody else writes. The row is copied.
func (c *rowCache) add(k, value []byte) {
	if !c.takes(k, value) {
		return
	}
	h := hashRow(k)
	b := c.bucket(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	c.put(b, h, newCachedRow(k, value))
}

// put makes the row the one of its hash; b is locked.
func (c *rowCache) put(b *rowBucket, h uint64, r cachedRow) {
	if b.young == nil {
		b.young, b.old = make(map[uint64]cachedRow), make(map[uint64]cachedRow)
	}
	if b.bytes > c.share {
		c.rows.Add(-int64(len(b.old)))
		clear(b.old)
		b.young, b.old, b.bytes = b.old, b.young, 0
	}
	c.drop(b, h)
	b.young[h] = r
	b.bytes += len(r.b) + rowOverhead
	c.rows.Add(1)
}

// drop takes the row with a hash out.
func (c *rowCache) drop(b *rowBucket, h uint64) {
	if r, ok := b.young[h]; ok {
		b.bytes -= len(r.b) + rowOverhead
		delete(b.young, h)
		c.rows.Add(-1)
	}
	if _, ok := b.old[h]; ok {
		delete(b.old, h)
		c.rows.Add(-1)
	}
}

// remove takes a row out and reports whether it was there.
func (c *rowCache) remove(k []byte) bool {
	h := hashRow(k)
	b := c.bucket(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.young[h]
	if !ok {
		if r, ok = b.old[h]; !ok {
			return false
		}
	}
	if !r.is(k) {
		return false
	}
	c.drop(b, h)
	return true
}

// begin takes the rows of ops out of the cache and returns those that were there; nothing comes in until end.
func (c *rowCache) begin(ops []overlayOp, cached func(row []byte) bool, was []int32) []int32 {
	c.seq.Add(1)
	if c.rows.Load() == 0 {
		return was
	}
	for i := range ops {
		if cached(ops[i].key) && c.remove(ops[i].key) {
			was = append(was, int32(i))
		}
	}
	return was
}

// end puts the new rows of those that were there into the cache.
func (c *rowCache) end(ops []overlayOp, was []int32) {
	for _, i := range was {
		if op := &ops[i]; !op.deleted {
			c.add(op.key, op.value)
		}
	}
	c.seq.Add(1)
}

// suspend forgets everything and takes nothing more until resume, because the state is about to be replaced.
func (c *rowCache) suspend() {
	c.seq.Store(c.seq.Load() | 1)
	for i := range c.buckets {
		b := &c.buckets[i]
		b.mu.Lock()
		b.flushReads()
		b.of = nil
		c.rows.Add(-int64(len(b.young) + len(b.old)))
		clear(b.young)
		clear(b.old)
		b.bytes = 0
		b.mu.Unlock()
	}
}

func (c *rowCache) resume() { c.seq.Store((c.seq.Load() + 1) &^ 1) }
