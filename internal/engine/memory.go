package engine

import (
	"iter"
)

// Memory is a cache of a machine's decoded rows for Apply and OnTimer only. It maps keys to values,
// such as a queue with its leases and index bounds, a stream with its partitions, or a series with
// the block that takes its points. It is the only way to keep such data between commands. A machine
// declares its memories to the engine (see Rememberer), which does the rest.
//
// A value always matches the rows, including those of the batch being applied. The least recently
// used values are evicted when the weights exceed the bound, and all values at a restart or when a
// snapshot is installed. They are read from the rows again when needed, so no answer and no row may
// depend on whether a value is cached. Replicas cache different values, and in tests one replica
// evicts everything at once (see Config.Forgetful).
//
// If a command is rolled back, entirely or to a savepoint, the cached values are rolled back too.
// For that purpose, changes are recorded with their LSN until the batch is committed:
//
//	st, ok := m.streams.Get(k)        // valid until Apply or OnTimer returns
//	if !ok {
//		st = m.read(tx, k)            // from the rows
//		m.streams.Load(k, st, 1+len(st.parts))
//	}
//	m.streams.Change(tx, k, st, c)    // and now change st, and its rows
//
// There are two ways to undo a change. A memory with an undo function calls it for each change that
// is rolled back, in reverse order, with the changed value. That is for values that take long to
// read. A memory without undo evicts the value, which is read again. Then C is struct{}, and a
// command need call Change only once for a value, before its first change.
type Memory[K comparable, V, C any] struct {
	bound   int
	undo    func(v V, c C)
	items   map[K]*memoryItem[K, V]
	ring    memoryItem[K, V] // ring.next is the most recently used item, ring.prev the one that is forgotten first
	weight  int
	batch   uint64 // number of the one being applied
	changes []memoryChange[K, V, C]
}

type memoryItem[K comparable, V any] struct {
	key        K
	value      V
	weight     int
	batch      uint64 // of the last change
	prev, next *memoryItem[K, V]
}

// memoryChange holds what is needed to undo a change.
type memoryChange[K comparable, V, C any] struct {
	lsn      LSN
	key      K
	value    V
	change   C
	replaced bool // another one stands in the place of value, or none; if before is nil there was none
	before   *memoryItem[K, V]
}

// NewMemory returns an empty memory. It keeps values with a total weight up to bound, in any unit,
// and more during a command or a batch that changes more. undo reverts a change of a value; nil:
// the value is evicted instead.
func NewMemory[K comparable, V, C any](bound int, undo func(v V, c C)) *Memory[K, V, C] {
	m := &Memory[K, V, C]{bound: bound, undo: undo}
	m.forget()
	return m
}

// Get returns the value of a key if it is remembered.
func (m *Memory[K, V, C]) Get(k K) (v V, ok bool) {
	it := m.items[k]
	if it == nil {
		return v, false
	}
	m.use(it)
	return it.value, true
}

// Load remembers the value read from the rows of a key.
func (m *Memory[K, V, C]) Load(k K, v V, weight int) {
	m.drop(k)
	m.insert(&memoryItem[K, V]{key: k, value: v, weight: weight})
}

// Weigh updates the weight of a key's value, if it is remembered.
func (m *Memory[K, V, C]) Weigh(k K, weight int) {
	if it := m.items[k]; it != nil {
		m.weight += weight - it.weight
		it.weight = weight
	}
}

// Change records a change that the command makes to v, the value of k.
func (m *Memory[K, V, C]) Change(tx *Tx, k K, v V, c C) {
	m.touch(k)
	if n := len(m.changes); m.undo == nil && n > 0 && m.changes[n-1].lsn == tx.LSN() && m.changes[n-1].key == k {
		return
	}
	m.changes = append(m.changes, memoryChange[K, V, C]{lsn: tx.LSN(), key: k, value: v, change: c})
}

// Replace caches a new value that the command has made for a key, whether or not the key had one.
func (m *Memory[K, V, C]) Replace(tx *Tx, k K, v V, weight int) {
	m.noteReplaced(tx, k)
	m.Load(k, v, weight)
	m.touch(k)
}

// Remove forgets the value of a key whose rows the command has removed.
func (m *Memory[K, V, C]) Remove(tx *Tx, k K) {
	m.noteReplaced(tx, k)
	m.drop(k)
}

func (m *Memory[K, V, C]) noteReplaced(tx *Tx, k K) {
	m.changes = append(m.changes, memoryChange[K, V, C]{lsn: tx.LSN(), key: k, replaced: true, before: m.items[k]})
}

// All iterates over the cached values in no particular order. No value may be added or evicted in
// the meantime. It is for checks.
func (m *Memory[K, V, C]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, it := range m.items {
			if !yield(k, it.value) {
				return
			}
		}
	}
}

// Len returns the number of remembered values.
func (m *Memory[K, V, C]) Len() int { return len(m.items) }

// Weight returns their total weight.
func (m *Memory[K, V, C]) Weight() int { return m.weight }

// touch keeps a value until the batch is committed, because undo may need it.
func (m *Memory[K, V, C]) touch(k K) {
	if it := m.items[k]; it != nil {
		it.batch = m.batch
	}
}

func (m *Memory[K, V, C]) insert(it *memoryItem[K, V]) {
	m.items[it.key] = it
	m.weight += it.weight
	m.link(it)
}

func (m *Memory[K, V, C]) drop(k K) {
	if it := m.items[k]; it != nil {
		m.weight -= it.weight
		m.unlink(it)
		delete(m.items, k)
	}
}

func (m *Memory[K, V, C]) use(it *memoryItem[K, V]) {
	if m.ring.next != it {
		m.unlink(it)
		m.link(it)
	}
}

func (m *Memory[K, V, C]) link(it *memoryItem[K, V]) {
	it.prev, it.next = &m.ring, m.ring.next
	it.prev.next, it.next.prev = it, it
}

func (m *Memory[K, V, C]) unlink(it *memoryItem[K, V]) { it.prev.next, it.next.prev = it.next, it.prev }

// Rememberer is a Machine with memories. They cache data from its rows for Apply and OnTimer, such
// as the front of a queue or lease holders. Its answers must not depend on the cached values.
type Rememberer interface {
	// Memories returns all memories of the machine, which do not change. The engine rolls them back
	// with the rows. It evicts values beyond their bounds, and all values before Restore. Memories
	// is called once.
	Memories() []Remembered
}

// Remembered is a Memory of any type.
type Remembered interface {
	// revert undoes the changes after an LSN.
	revert(to LSN)
	// settle is called when the batch is committed, after which its changes cannot be rolled back.
	settle()
	// trim enforces the bound. No value is in use.
	trim()
	// forget forgets everything.
	forget()
	// limit sets the bound.
	limit(weight int)
}

// memories are those of all machines.
type memories [maxMachines][]Remembered

func (all *memories) each(f func(Remembered)) {
	for _, own := range all {
		for _, m := range own {
			f(m)
		}
	}
}

func (m *Memory[K, V, C]) revert(to LSN) {
	n := len(m.changes)
	for ; n > 0 && m.changes[n-1].lsn > to; n-- {
		m.takeBack(&m.changes[n-1])
	}
	clear(m.changes[n:])
	m.changes = m.changes[:n]
}

func (m *Memory[K, V, C]) takeBack(c *memoryChange[K, V, C]) {
	switch {
	case m.undo == nil:
		m.drop(c.key)
	case !c.replaced:
		m.undo(c.value, c.change)
	default:
		m.drop(c.key)
		if c.before != nil {
			m.insert(c.before)
		}
	}
}

func (m *Memory[K, V, C]) settle() {
	m.batch++
	clear(m.changes)
	m.changes = m.changes[:0]
	m.trim()
}

func (m *Memory[K, V, C]) trim() {
	for m.weight > m.bound {
		last := m.ring.prev
		switch {
		case last == &m.ring || m.bound > 0 && last == m.ring.next:
			return // one is kept, whatever its weight: it may be the one in constant use
		case m.undo != nil && last.batch == m.batch:
			return // it is changed, and the values used later are too, or they can wait
		}
		m.drop(last.key)
	}
}

func (m *Memory[K, V, C]) forget() {
	clear(m.changes)
	m.items, m.weight, m.changes, m.batch = make(map[K]*memoryItem[K, V]), 0, m.changes[:0], 1
	m.ring.prev, m.ring.next = &m.ring, &m.ring
}

func (m *Memory[K, V, C]) limit(weight int) { m.bound = weight }
