package engine

import (
	"bytes"
	"fmt"
	"testing"
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

func all([]byte) bool { return true }

// fill makes a row known by offering it twice, as two reads would.
func fill(c *rowCache, name, value string) {
	c.offer(c.seq.Load(), cacheKey(name), []byte(value))
	c.offer(c.seq.Load(), cacheKey(name), []byte(value))
}

func want(t *testing.T, c *rowCache, name, value string) {
	t.Helper()
	got, ok := c.get(cacheKey(name))
	if ok != (value != "") || string(got) != value {
		t.Errorf("%s = %q, %v, want %q", name, got, ok, value)
	}
}

func TestRowCacheAdmitsOnSecondRead(t *testing.T) {
	c := newRowCache(4 << 20)
	c.offer(0, cacheKey("a"), []byte("1"))
	want(t, c, "a", "")
	c.offer(0, cacheKey("a"), []byte("1"))
	want(t, c, "a", "1")
}

// TestRowCacheAdmitsInTurns: with one place for each hash, two rows that share it kept each other out when they were read in turns.
func TestRowCacheAdmitsInTurns(t *testing.T) {
	c := newRowCache(64 << 20)
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
	c := newRowCache(4 << 20)
	fill(c, "a", "1")
	fill(c, "b", "1")
	batch := ops("a", "2", "b", "", "new", "3")
	was := c.begin(batch, all, nil)
	want(t, c, "a", "") // while the database changes, only it knows
	want(t, c, "b", "")
	c.end(batch, was)
	want(t, c, "a", "2")
	want(t, c, "b", "")
	want(t, c, "new", "") // writing alone brings nothing in
}

// TestRowCacheRefusesOldReads: what was read before or during a commit may be the old row by the time it is offered.
func TestRowCacheRefusesOldReads(t *testing.T) {
	c := newRowCache(4 << 20)
	c.offer(c.seq.Load(), cacheKey("a"), []byte("1"))
	before := c.seq.Load()
	batch := ops("a", "2")
	was := c.begin(batch, all, nil)
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

// TestRowCacheSuspended: between the arrival of a snapshot and the state being read anew the cache has nothing and takes nothing.
func TestRowCacheSuspended(t *testing.T) {
	c := newRowCache(4 << 20)
	fill(c, "a", "1")
	before := c.seq.Load()
	c.suspend()
	want(t, c, "a", "")
	fill(c, "a", "1")
	want(t, c, "a", "")
	c.suspend() // Restore does it once more
	c.resume()
	c.offer(before, cacheKey("a"), []byte("1"))
	want(t, c, "a", "")
	fill(c, "a", "2")
	want(t, c, "a", "2")
	if n := c.rows.Load(); n != 1 {
		t.Errorf("%d rows are counted, want 1", n)
	}
}

// TestRowCacheStaysInItsBounds reads far more rows than fit, with a hot one in between, which must stay.
func TestRowCacheStaysInItsBounds(t *testing.T) {
	const size = 2 << 20
	c := newRowCache(size)
	fill(c, "hot", "h")
	value := bytes.Repeat([]byte("x"), 500)
	for i := range 20_000 {
		fill(c, fmt.Sprint(i), string(value))
		want(t, c, "hot", "h")
	}
	total, rows := 0, 0
	for i := range c.buckets {
		for _, generation := range []map[uint64]cachedRow{c.buckets[i].young, c.buckets[i].old} {
			rows += len(generation)
			for _, r := range generation {
				total += len(r.b) + rowOverhead
			}
		}
	}
	if total > size*5/4 || total < size/3 {
		t.Errorf("the cache of %d bytes holds %d", size, total)
	}
	if int64(rows) != c.rows.Load() {
		t.Errorf("it holds %d rows and counts %d", rows, c.rows.Load())
	}
	c.add(cacheKey("large"), make([]byte, size/rowBuckets))
	want(t, c, "large", "")
}

// TestRowCacheSameHash: two rows with one hash are never taken for each other.
func TestRowCacheSameHash(t *testing.T) {
	c := newRowCache(4 << 20)
	b := c.bucket(hashRow(cacheKey("a")))
	c.put(b, hashRow(cacheKey("a")), newCachedRow(cacheKey("other"), []byte("o")))
	want(t, c, "a", "")
	if c.remove(cacheKey("a")) {
		t.Error("removed a row that is another one")
	}
	ns := &namespace{id: 7}
	if v, ok := c.getNamed(MachineTest, 'c', ns, "a", 0); ok {
		t.Errorf("found %q", v)
	}
}

func TestRowCacheWithoutMemory(t *testing.T) {
	c := newRowCache(0)
	fill(c, "a", "1")
	c.add(cacheKey("a"), []byte("1"))
	was := c.begin(ops("a", "2"), all, nil)
	c.end(ops("a", "2"), was)
	want(t, c, "a", "")
	c.suspend()
	c.resume()
}
