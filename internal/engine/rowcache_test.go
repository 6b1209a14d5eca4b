package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cespare/xxhash/v2"
)

func cacheKey(name string) []byte {
	return append([]byte{0, 0, byte(MachineTest), 'c', 0, 0, 0, 7}, name...)
}

func ops(rows ...string) (ops []overlayOp) {
	for i := 0; i < len(rows); i += 2 {
		ops = append(ops, overlayOp{key: cacheKey(rows[i]), value: []byte(rows[i+1]), deleted: rows[i+1] == ""})
	}
	return ops
}

// changed returns the rows of a batch, all of which are cached ones.
func changed(ops []overlayOp) (rows []changedRow) {
	for i := range ops {
		rows = append(rows, changedRow{hash: hashRow(ops[i].key), op: int32(i), slot: noSlot})
	}
	return rows
}

// fill caches a row by offering it twice, as two reads would.
func fill(c *shardRows, name, value string) {
	c.offer(c.seq.Load(), cacheKey(name), []byte(value))
	c.offer(c.seq.Load(), cacheKey(name), []byte(value))
}

func want(t *testing.T, c *shardRows, name, value string) {
	t.Helper()
	got, ok := c.get(cacheKey(name))
	if ok != (value != "") || string(got) != value {
		t.Errorf("%s = %q, %v, want %q", name, got, ok, value)
	}
}

func TestRowCacheAdmitsOnSecondRead(t *testing.T) {
	c := NewRowCache(4 << 20).of(0)
	c.offer(0, cacheKey("a"), []byte("1"))
	want(t, c, "a", "")
	c.offer(0, cacheKey("a"), []byte("1"))
	want(t, c, "a", "1")
}

// TestRowCacheAdmitsInTurns: with one slot per hash, two rows that share a hash used to keep each
// other out when they were read in turn.
func TestRowCacheAdmitsInTurns(t *testing.T) {
	c := NewRowCache(64 << 20).of(0)
	const rows = 10_000
	for range 2 {
		for i := range rows {
			c.offer(c.seq.Load(), cacheKey(fmt.Sprint(i)), []byte("1"))
		}
	}
	if n := c.rows.Load(); n < rows-2 {
		t.Errorf("%d of %d rows that were read twice are in memory, want all but very few", n, rows)
	}
}

func TestRowCacheFollowsCommits(t *testing.T) {
	c := NewRowCache(4 << 20).of(0)
	fill(c, "a", "1")
	fill(c, "b", "1")
	batch := ops("a", "2", "b", "", "new", "3")
	was := changed(batch)
	c.begin(batch, was)
	want(t, c, "a", "") // while the database changes, only the database has the value
	want(t, c, "b", "")
	c.end(batch, was)
	want(t, c, "a", "2")
	want(t, c, "b", "")
	want(t, c, "new", "3")
	if n := c.rows.Load(); n != 2 {
		t.Errorf("%d rows are counted, want 2", n)
	}
}

// TestRowCacheWrittenRows: written rows are cached while there is room, and evict nothing.
func TestRowCacheWrittenRows(t *testing.T) {
	const size = 2 << 20
	c := NewRowCache(size).of(0)
	value := strings.Repeat("x", 500)
	write := func(name string) {
		batch := ops(name, value)
		was := changed(batch)
		c.begin(batch, was)
		c.end(batch, was)
	}
	const many = 2 * size / 500
	for i := range many {
		write(fmt.Sprint(i))
	}
	first := 0
	for i := range many {
		if _, ok := c.get(cacheKey(fmt.Sprint(i))); ok {
			first++
		}
	}
	if n := c.rows.Load(); int64(first) != n || n < size/2/500 {
		t.Fatalf("%d rows are counted and %d found", n, first)
	}
	want(t, c, "0", value)
	for range 3 { // without a read in between
		write("0")
		write("new")
	}
	want(t, c, "0", value)
	want(t, c, "new", "")
}

// TestRowCacheSlotTaken: while a row's slot is reserved for the value that a commit writes, a row
// of another shard may take it.
func TestRowCacheSlotTaken(t *testing.T) {
	for _, becomes := range []string{"2", ""} {
		cache := NewRowCache(minRowShare) // one bucket
		a, b := cache.of(0), cache.of(1)
		fill(a, "a", "1")
		batch := ops("a", becomes)
		was := changed(batch)
		a.begin(batch, was)
		value := bytes.Repeat([]byte("x"), 500)
		other := func(i int) []byte { return append([]byte{0, 1}, cacheKey(fmt.Sprint(i))[2:]...) }
		for i := range 1000 {
			b.add(other(i), value)
		}
		a.end(batch, was)
		want(t, a, "a", becomes)
		found := 0
		for i := range 1000 {
			if v, ok := b.get(other(i)); ok {
				found++
				if !bytes.Equal(v, value) {
					t.Fatalf("row %d is %q", i, v)
				}
			}
		}
		if int64(found) != b.rows.Load() || a.rows.Load() != int64(len(becomes)) {
			t.Errorf("%d and %d rows are counted, there are %d and %d", a.rows.Load(), b.rows.Load(), len(becomes), found)
		}
	}
}

// TestRowCacheRefusesOldReads: a value read before or during a commit may be outdated when it is
// offered.
func TestRowCacheRefusesOldReads(t *testing.T) {
	c := NewRowCache(4 << 20).of(0)
	c.offer(c.seq.Load(), cacheKey("a"), []byte("1"))
	before := c.seq.Load()
	batch := ops("a", "2")
	batch[0].deleted = true // which caches nothing
	was := changed(batch)
	c.begin(batch, was)
	during := c.seq.Load()
	c.offer(before, cacheKey("a"), []byte("1"))
	c.offer(during, cacheKey("a"), []byte("1"))
	want(t, c, "a", "")
	c.end(batch, was)
	c.offer(before, cacheKey("a"), []byte("1"))
	c.offer(during, cacheKey("a"), []byte("1"))
	want(t, c, "a", "")
	c.offer(c.seq.Load(), cacheKey("a"), []byte("2"))
	want(t, c, "a", "2")
}

// TestRowCacheSuspended: between the arrival of a snapshot and the reload of the state the cache is
// empty and accepts nothing.
func TestRowCacheSuspended(t *testing.T) {
	c := NewRowCache(4 << 20).of(0)
	fill(c, "a", "1")
	before := c.seq.Load()
	c.suspend()
	want(t, c, "a", "")
	fill(c, "a", "1")
	want(t, c, "a", "")
	c.suspend() // Restore suspends it again
	c.resume()
	c.offer(before, cacheKey("a"), []byte("1"))
	want(t, c, "a", "")
	fill(c, "a", "2")
	want(t, c, "a", "2")
	if n := c.rows.Load(); n != 1 {
		t.Errorf("%d rows are counted, want 1", n)
	}
}

// TestRowCacheStaysInItsBounds reads far more rows than fit, interleaved with a hot row, which must
// stay.
func TestRowCacheStaysInItsBounds(t *testing.T) {
	const size = 2 << 20
	c := NewRowCache(size).of(0)
	fill(c, "hot", "h")
	value := bytes.Repeat([]byte("x"), 500)
	for i := range 20_000 {
		fill(c, fmt.Sprint(i), string(value))
		want(t, c, "hot", "h")
	}
	total, rows := 0, 0
	for i := range c.buckets {
		for _, r := range c.buckets[i].rowsOf(c) {
			rows++
			total += r.bytes()
		}
	}
	if total > size || total < size*3/4 {
		t.Errorf("the cache of %d bytes holds %d", size, total)
	}
	if int64(rows) != c.rows.Load() {
		t.Errorf("it holds %d rows and counts %d", rows, c.rows.Load())
	}
	c.add(cacheKey("large"), make([]byte, minRowShare))
	want(t, c, "large", "")
}

// TestRowCacheSameHash: two rows with the same hash are never confused.
func TestRowCacheSameHash(t *testing.T) {
	c := NewRowCache(4 << 20).of(0)
	h := hashRow(cacheKey("a"))
	c.bucket(h).put(newCachedRow(c, h, cacheKey("other"), []byte("o")), c.share)
	want(t, c, "a", "")
	if c.remove(h, cacheKey("a")) != noSlot {
		t.Error("removed a row that is another one")
	}
	ns := &namespace{id: 7}
	if v, ok := c.getNamed(MachineTest, 'c', ns, "a", 0); ok {
		t.Errorf("found %q", v)
	}
}

// TestRowCacheByName: a row is found by the name and all other parts of its key, and the read is
// counted.
func TestRowCacheByName(t *testing.T) {
	cache := NewRowCache(2 * minRowShare)
	c, other := cache.of(0), cache.of(0)
	five, seven := &namespace{id: 5}, &namespace{id: 7}
	if _, ok := c.getNamed(MachineTest, 'c', seven, "abc", xxhash.Sum64String("abc")); ok {
		t.Error("a row is found in an empty cache")
	}
	for _, name := range []string{"abc", ""} {
		k := cacheKey(name)
		h := hashRow(k)
		c.bucket(h).put(newCachedRow(c, h, k, []byte("value")), c.share)
		c.rows.Add(1)
		for _, q := range []struct {
			of   *shardRows
			m    MachineID
			kind byte
			ns   uint32
			name string
			want bool
		}{
			{c, MachineTest, 'c', 7, name, true},
			{other, MachineTest, 'c', 7, name, false},
			{c, MachineKV, 'c', 7, name, false},
			{c, MachineTest, 'd', 7, name, false},
			{c, MachineTest, 'c', 6, name, false},
			{c, MachineTest, 'c', 7, "abd", false},
			{c, MachineTest, 'c', 7, "ab", false},
			{c, MachineTest, 'c', 7, "abcd", false},
		} {
			r := c.bucket(h).find(h)
			if got := r.isNamed(q.of, q.m, q.kind, q.ns, q.name); got != q.want {
				t.Errorf("row %q: is %+v: %t", name, q, got)
			}
		}
	}
	get := func(ns *namespace, name string) string {
		b, ok := c.getNamed(MachineTest, 'c', ns, name, xxhash.Sum64String(name))
		return fmt.Sprintf("%s %t", b, ok)
	}
	for range 3 {
		if got := get(seven, "abc"); got != "value true" {
			t.Errorf("the row is %s", got)
		}
	}
	if got := get(five, "abc"); got != " false" {
		t.Errorf("the row of another namespace is %s", got)
	}
	if n := cache.Hits(); n != 3 || seven.reads.Load() != 0 {
		t.Errorf("%d reads are counted, %d are of the namespace already", n, seven.reads.Load())
	}
	cache.flushReads()
	cache.flushReads()
	// A row in the same bucket, so that its reads follow those of namespace 7.
	k := append(cacheKey("")[:4], 0, 0, 0, 5)
	for k = append(k, 'x'); cache.bucket(hashRow(k)) != cache.bucket(hashRow(cacheKey("abc"))); k = append(k, 'x') {
	}
	h := hashRow(k)
	c.bucket(h).put(newCachedRow(c, h, k, []byte("five")), c.share)
	get(seven, "abc")
	if got := get(five, string(k[namedPrefix:])); got != "five true" {
		t.Errorf("the row of namespace 5 is %s", got)
	}
	if seven.reads.Load() != 4 || five.reads.Load() != 0 {
		t.Errorf("%d and %d reads, want 4 and 0 that are not known yet", seven.reads.Load(), five.reads.Load())
	}
	cache.flushReads()
	if n := cache.Hits(); n != 5 || seven.reads.Load() != 4 || five.reads.Load() != 1 {
		t.Errorf("%d reads, of them %d and %d, want 5, 4 and 1", n, seven.reads.Load(), five.reads.Load())
	}
}

func TestRowCacheWithoutMemory(t *testing.T) {
	c := NewRowCache(0).of(0)
	fill(c, "a", "1")
	c.add(cacheKey("a"), []byte("1"))
	was := changed(ops("a", "2"))
	c.begin(ops("a", "2"), was)
	c.end(ops("a", "2"), was)
	want(t, c, "a", "")
	c.suspend()
	c.resume()
}

// TestRowCacheIsShared: one shard may use all of the memory, the rows of shards are kept apart, and
// replacing the state of one shard keeps the others' rows.
func TestRowCacheIsShared(t *testing.T) {
	const size = 4 << 20
	cache := NewRowCache(size)
	a, b := cache.of(0), cache.of(1)
	value := make([]byte, 256)
	cost := namedPrefix + len("12345") + len(value) + rowOverhead
	rows := size / cost * 8 / 10
	key := func(of *shardRows, i int) []byte {
		k := cacheKey(fmt.Sprintf("%05d", i))
		binary.BigEndian.PutUint16(k, uint16(of.shard))
		return k
	}
	for i := range rows {
		a.add(key(a, i), value)
	}
	for range 10 * rows { // in any order, as they are used
		a.get(key(a, rand.IntN(rows)))
	}
	if n := a.rows.Load(); n != int64(rows) {
		t.Errorf("%d of %d rows of one shard are in memory, which fit", n, rows)
	}
	b.add(key(b, 7), []byte("b"))
	if v, ok := a.get(key(a, 7)); !ok || len(v) != len(value) {
		t.Errorf("the row of shard 0 is %q, %t after another shard has added one of the same name", v, ok)
	}
	a.suspend()
	if v, ok := b.get(key(b, 7)); !ok || string(v) != "b" {
		t.Errorf("the row of shard 1 is %q, %t after the state of shard 0 was replaced", v, ok)
	}
	if a.rows.Load() != 0 || b.rows.Load() != 1 {
		t.Errorf("%d and %d rows are counted, want 0 and 1", a.rows.Load(), b.rows.Load())
	}
	for i := range rows {
		b.add(key(b, i), value)
	}
	if n := b.rows.Load(); n != int64(rows) {
		t.Errorf("%d of %d rows of the other shard are in memory afterwards", n, rows)
	}
}

// TestRowCacheNeverGoesBack: readers offer values they have read while a single row is rewritten
// again and again. The cache never returns a value older than the database's value before the read.
// Commit used to check the row count before a row about to be added was counted, and then removed
// nothing.
func TestRowCacheNeverGoesBack(t *testing.T) {
	c := NewRowCache(1 << 20).of(0)
	k := cacheKey("k")
	var db atomic.Uint64
	value := func() []byte { return binary.BigEndian.AppendUint64(nil, db.Load()) }
	var readers sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		readers.Go(func() {
			for !done.Load() {
				runtime.Gosched()
				before := db.Load()
				seq := c.seq.Load()
				if v, ok := c.get(k); !ok {
					c.offer(seq, k, value())
				} else if got := binary.BigEndian.Uint64(v); got < before {
					t.Errorf("version %d is in memory, the database had %d before", got, before)
					return
				}
			}
		})
	}
	for i := range 5_000 {
		batch := []overlayOp{{key: k, value: binary.BigEndian.AppendUint64(nil, db.Load()+1)}}
		batch[0].deleted = i%2 == 0 // so that the cache is empty now and then
		was := changed(batch)
		c.begin(batch, was)
		db.Add(1)
		c.end(batch, was)
		runtime.Gosched()
	}
	done.Store(true)
	readers.Wait()
}
