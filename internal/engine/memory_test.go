package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// remembering stands for a machine with two memories of the same rows: one undoes and the other
// forgets.
type remembering struct {
	tx      *Tx
	rows    map[int][]int // by key; the current state
	undoes  *Memory[int, *[]int, int]
	forgets *Memory[int, *[]int, struct{}]
}

func newRemembering(bound int) *remembering {
	r := &remembering{tx: new(Tx), rows: make(map[int][]int)}
	r.undoes = NewMemory[int](bound, func(v *[]int, added int) {
		if last := (*v)[len(*v)-1]; last != added {
			panic(fmt.Sprintf("undo of %d, the last change is %d", added, last))
		}
		*v = (*v)[:len(*v)-1]
	})
	r.forgets = NewMemory[int, *[]int, struct{}](bound, nil)
	return r
}

// load returns the value of a key in both memories.
func (r *remembering) load(k int) (a, b *[]int) {
	var ok bool
	if a, ok = r.undoes.Get(k); !ok {
		a = new(append([]int(nil), r.rows[k]...))
		r.undoes.Load(k, a, 1+len(*a))
	}
	if b, ok = r.forgets.Get(k); !ok {
		b = new(append([]int(nil), r.rows[k]...))
		r.forgets.Load(k, b, 1+len(*b))
	}
	return a, b
}

// do applies a random change to a key.
func (r *remembering) do(rng *rand.Rand, k, n int) {
	_, known := r.rows[k]
	switch what := rng.IntN(8); {
	case !known || what == 0:
		r.undoes.Replace(r.tx, k, &[]int{n}, 2)
		r.forgets.Replace(r.tx, k, &[]int{n}, 2)
		r.rows[k] = []int{n}
	case what == 1:
		r.load(k)
		r.undoes.Remove(r.tx, k)
		r.forgets.Remove(r.tx, k)
		delete(r.rows, k)
	case what == 2:
		r.load(k)
	default:
		a, b := r.load(k)
		r.undoes.Change(r.tx, k, a, n)
		r.forgets.Change(r.tx, k, b, struct{}{})
		*a, *b = append(*a, n), append(*b, n)
		r.rows[k] = append(r.rows[k][:len(r.rows[k]):len(r.rows[k])], n)
		r.undoes.Weigh(k, 1+len(*a))
		r.forgets.Weigh(k, 1+len(*b))
	}
}

// check compares the memories with the rows, and the weights with their sums.
func (r *remembering) check(t *testing.T, when string) {
	t.Helper()
	compare := func(name string, all map[int]*[]int) {
		t.Helper()
		for k, v := range all {
			if got, want := fmt.Sprint(*v), fmt.Sprint(r.rows[k]); got != want {
				t.Fatalf("%s: %s remembers %s of %d, its row is %s", when, name, got, k, want)
			}
		}
	}
	compare("the one that undoes", maps.Collect(r.undoes.All()))
	compare("the one that forgets", maps.Collect(r.forgets.All()))
	if a, b := weigh(r.undoes), weigh(r.forgets); a != r.undoes.Weight() || b != r.forgets.Weight() {
		t.Fatalf("%s: weights of %d and %d, want %d and %d", when, r.undoes.Weight(), r.forgets.Weight(), a, b)
	}
}

// weigh returns the total weight of the values.
func weigh[C any](m *Memory[int, *[]int, C]) (sum int) {
	for _, it := range m.items {
		sum += it.weight
	}
	return sum
}

func (r *remembering) each(f func(Remembered)) {
	f(r.undoes)
	f(r.forgets)
}

// TestMemory applies random commands to memories, rolls some back, also to nested savepoints, and
// commits now and then. The memories match the rows at all times and never exceed their bound by
// much.
func TestMemory(t *testing.T) {
	for _, bound := range []int{0, 30, 1 << 20} {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		r := newRemembering(bound)
		lsn, n := LSN(0), 0
		for step := range 3000 {
			when := fmt.Sprintf("bound %d, seed %d, step %d", bound, seed, step)
			type point struct {
				lsn  LSN
				rows map[int][]int
			}
			points := []point{{lsn, maps.Clone(r.rows)}}
			for range 1 + rng.IntN(6) {
				lsn++
				r.tx.lsn = lsn
				r.each(Remembered.trim)
				for range 1 + rng.IntN(3) {
					n++
					r.do(rng, rng.IntN(20), n)
				}
				r.check(t, when)
				points = append(points, point{lsn, maps.Clone(r.rows)})
			}
			if rng.IntN(2) == 0 {
				back := points[rng.IntN(len(points))]
				lsn, r.rows = back.lsn, maps.Clone(back.rows)
				r.each(func(m Remembered) { m.revert(lsn) })
				r.check(t, when+", taken back")
			}
			if rng.IntN(4) > 0 {
				continue
			}
			r.each(Remembered.settle)
			r.check(t, when+", committed")
			for _, m := range []interface {
				Len() int
				Weight() int
			}{r.undoes, r.forgets} {
				if m.Weight() > bound && (m.Len() > 1 || bound == 0) {
					t.Fatalf("%s: %d weigh %d", when, m.Len(), m.Weight())
				}
			}
			if rng.IntN(20) == 0 {
				r.each(Remembered.forget)
				r.check(t, when+", forgotten")
			}
		}
	}
}

// TestMemoryForgetsWhatWasNotUsedForLongest: a memory above its bound drops the least recently used
// values.
func TestMemoryForgetsWhatWasNotUsedForLongest(t *testing.T) {
	m := NewMemory[string, int, struct{}](10, nil)
	for i, k := range []string{"a", "b", "c"} {
		m.Load(k, i, 4)
	}
	if _, ok := m.Get("a"); !ok || m.Len() != 3 {
		t.Fatalf("%d are remembered before anything has to be forgotten", m.Len())
	}
	m.trim()
	if _, ok := m.Get("b"); ok || m.Len() != 2 || m.Weight() != 8 {
		t.Errorf("b is remembered: %v, of %d with a weight of %d; want a and c", ok, m.Len(), m.Weight())
	}
	m.Load("d", 3, 100)
	m.trim()
	if _, ok := m.Get("d"); !ok || m.Len() != 1 {
		t.Errorf("%d are remembered, the one that is too heavy: %v; want that one alone", m.Len(), ok)
	}
	for bound := range 3 { // one is kept unless nothing may be
		m.limit(bound)
		if m.trim(); m.Len() != min(bound, 1) {
			t.Errorf("%d are remembered with a bound of %d", m.Len(), bound)
		}
		m.Load("e", 4, 100)
	}
}
