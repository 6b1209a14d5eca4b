package processing

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// cacheBytes is the default size of a node's cache of keyed state, for all its jobs together.
const cacheBytes = 64 << 20

// memory is the cache of keyed state of all tasks of a node. It evicts the least recently used
// entry of any task.
type memory struct {
	mu    sync.Mutex // guards all below, and the entries of all caches
	bound int
	bytes int
	ring  cached // ring.next was used most recently
}

// cache has keyed state of one task: the values of its rows as of the last applied tick. It is
// write-through, not write-back, and lasts as long as the task runs on this leader.
type cache struct {
	memory  *memory
	entries map[string]*cached
}

type cached struct {
	of         *cache
	key        string
	value      []byte // nil: the row does not exist
	prev, next *cached
}

// cachedOverhead is the approximate size of an entry besides its bytes.
const cachedOverhead = 120

func newMemory(bound int) *memory {
	m := &memory{bound: bound}
	m.ring.prev, m.ring.next = &m.ring, &m.ring
	return m
}

// SetLimit sets the maximum size of the cache.
func (m *memory) SetLimit(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bound = int(bytes)
}

// Used returns the size of the cache and its limit.
func (m *memory) Used() (bytes, limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(m.bytes), int64(m.bound)
}

func newCache(m *memory) *cache {
	return &cache{memory: m, entries: make(map[string]*cached)}
}

func (e *cached) size() int { return len(e.key) + len(e.value) + cachedOverhead }

func (c *cache) get(k []byte) (value []byte, ok bool) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e := c.entries[string(k)]
	if e == nil {
		return nil, false
	}
	e.unlink()
	c.memory.link(e)
	return e.value, true
}

func (c *cache) set(k string, value []byte) {
	m := c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		e = &cached{of: c, key: k}
		c.entries[k] = e
	} else {
		m.bytes -= e.size()
		e.unlink()
	}
	e.value = value
	m.bytes += e.size()
	m.link(e)
	for m.bytes > m.bound && m.ring.prev != &m.ring {
		m.dropLocked(m.ring.prev)
	}
}

// dropRange removes lower <= key < upper.
func (c *cache) dropRange(lower, upper string) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	for k, e := range c.entries {
		if k >= lower && k < upper {
			c.memory.dropLocked(e)
		}
	}
}

// close removes all entries: the task has ended.
func (c *cache) close() {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	for _, e := range c.entries {
		c.memory.dropLocked(e)
	}
}

func (m *memory) dropLocked(e *cached) {
	e.unlink()
	m.bytes -= e.size()
	delete(e.of.entries, e.key)
}

func (m *memory) link(e *cached) {
	e.prev, e.next = &m.ring, m.ring.next
	e.prev.next, e.next.prev = e, e
}

func (e *cached) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// overlay is the keyed state of a job as a tick sees it: the tick's changes on top of the cache, on
// top of rows that do not change. It is a pipeline.State.
type overlay struct {
	below   scene
	cache   *cache
	job     ref
	gen     uint32
	changes map[string]*change
	keys    []*change  // the same, see order
	sorted  int        // number of keys already sorted
	room    []change   // for the next changes
	ranges  []keyRange // deleted; later changes within them are valid
	buf     []byte
}

// change is a changed row.
type change struct {
	key   string
	value []byte // nil: deleted
}

// perRoom is the number of changes allocated at a time.
const perRoom = 32

type keyRange struct{ lower, upper string }

// newOverlay returns an overlay for a tick with about the given number of changes.
func newOverlay(at scene, t *task, about int) *overlay {
	return &overlay{below: at, cache: t.cache, job: t.ref, gen: t.row.generation, changes: make(map[string]*change, about),
		keys: make([]*change, 0, about)}
}

// Get returns a value, nil if the key does not exist.
func (o *overlay) Get(k []byte) ([]byte, error) {
	if c := o.changes[string(k)]; c != nil {
		return c.value, nil
	}
	if o.removed(k) {
		return nil, nil
	}
	if v, ok := o.cache.get(k); ok {
		return v, nil
	}
	o.buf = stateKey(o.buf[:0], o.job, o.gen, k)
	v, ok, err := o.below.Get(o.buf)
	if err != nil {
		return nil, err
	}
	if ok && v == nil {
		v = []byte{}
	}
	o.cache.set(string(k), v)
	return v, nil
}

func (o *overlay) removed(k []byte) bool {
	for i := range o.ranges {
		if r := &o.ranges[i]; string(k) >= r.lower && string(k) < r.upper {
			return true
		}
	}
	return false
}

// Put sets a value.
func (o *overlay) Put(k, v []byte) { o.change(k, append(make([]byte, 0, len(v)), v...)) }

// Delete removes a key.
func (o *overlay) Delete(k []byte) { o.change(k, nil) }

func (o *overlay) change(k, v []byte) {
	if c := o.changes[string(k)]; c != nil {
		c.value = v
		return
	}
	if len(o.room) == 0 {
		o.room = make([]change, perRoom)
	}
	c := &o.room[0]
	o.room = o.room[1:]
	c.key, c.value = string(k), v
	o.changes[c.key] = c
	if n := len(o.keys); o.sorted == n && (n == 0 || o.keys[n-1].key < c.key) {
		o.sorted++
	}
	o.keys = append(o.keys, c)
}

// fewKeys is the number of keys up to which a new key is inserted in order.
const fewKeys = 8

// order sorts the keys of changes. It runs only when their order is needed, because most ticks make
// many changes first.
func (o *overlay) order() {
	more := o.keys[o.sorted:]
	switch {
	case len(more) == 0:
	case len(more) > fewKeys:
		slices.SortFunc(o.keys, func(a, b *change) int { return strings.Compare(a.key, b.key) })
	default:
		var few [fewKeys]*change
		n := copy(few[:], more)
		o.keys = o.keys[:o.sorted]
		for _, c := range few[:n] {
			o.keys = slices.Insert(o.keys, o.find(c.key), c)
		}
	}
	o.sorted = len(o.keys)
}

// find returns the index of the first change at or after a key. The changes must be sorted.
func (o *overlay) find(k string) int {
	at, _ := slices.BinarySearchFunc(o.keys, k, func(c *change, k string) int { return strings.Compare(c.key, k) })
	return at
}

// DeleteRange removes all keys with lower <= key < upper.
func (o *overlay) DeleteRange(lower, upper []byte) {
	if bytes.Compare(lower, upper) >= 0 {
		return
	}
	o.order()
	from, to := o.find(string(lower)), o.find(string(upper))
	for _, c := range o.keys[from:to] {
		delete(o.changes, c.key)
	}
	o.keys = slices.Delete(o.keys, from, to)
	o.sorted = len(o.keys)
	o.ranges = append(o.ranges, keyRange{string(lower), string(upper)})
}

// Scan calls f with keys and values, in order. f must not change the overlay. The changes are not
// copied, so the cost of reading the first row does not depend on their number.
func (o *overlay) Scan(lower, upper []byte, f func(k, v []byte) bool) error {
	o.order()
	over := o.keys[o.find(string(lower)):o.find(string(upper))]
	it, err := o.below.iter(stateKey(nil, o.job, o.gen, lower), stateKey(nil, o.job, o.gen, upper))
	if err != nil {
		return err
	}
	ok := it.First()
	for ok || len(over) > 0 {
		var k, v []byte
		switch {
		case !ok || len(over) > 0 && over[0].key <= string(it.Key()[generationAt:]):
			ok = ok && (over[0].key != string(it.Key()[generationAt:]) || it.Next())
			k, v = []byte(over[0].key), over[0].value
			if over = over[1:]; v == nil {
				continue
			}
		default:
			k, v = bytes.Clone(it.Key()[generationAt:]), bytes.Clone(it.Value())
			ok = it.Next()
			if o.removed(k) {
				continue
			}
		}
		if !f(k, v) {
			break
		}
	}
	return it.Close()
}

// rows returns the number of rows that the tick changes, and their approximate size in bytes.
func (o *overlay) rows() (rows, size int) {
	for _, c := range o.keys {
		size += len(c.key) + len(c.value) + 8
	}
	return len(o.keys) + len(o.ranges), size
}

// list returns all changes: ranges first, then by key. They alias the overlay.
func (o *overlay) list() []stateChange {
	o.order()
	all := make([]stateChange, 0, len(o.ranges)+len(o.keys))
	for _, r := range o.ranges {
		all = append(all, stateChange{stateRange, []byte(r.lower), []byte(r.upper)})
	}
	for _, c := range o.keys {
		if c.value != nil {
			all = append(all, stateChange{statePut, bytesOf(c.key), c.value})
		} else {
			all = append(all, stateChange{op: stateDelete, key: bytesOf(c.key)})
		}
	}
	return all
}

// bytesOf returns a view of a string. The caller must not change it.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// remember updates the cache after the tick has been applied.
func (o *overlay) remember() {
	for _, r := range o.ranges {
		o.cache.dropRange(r.lower, r.upper)
	}
	for _, c := range o.keys {
		o.cache.set(c.key, c.value)
	}
}
