package stream

import (
	"container/list"

	"github.com/floedb/floe/internal/engine"
)

// recently remembers things that were used lately, up to a bound of their weights.
type recently[K comparable, V any] struct {
	items  map[K]*list.Element
	order  list.List // the latest used first
	weight int
	bound  int
}

type recentItem[K comparable, V any] struct {
	key    K
	value  V
	weight int
}

func newRecently[K comparable, V any](bound int) recently[K, V] {
	return recently[K, V]{items: make(map[K]*list.Element), bound: bound}
}

func (r *recently[K, V]) get(k K) (v V, ok bool) {
	e, ok := r.items[k]
	if !ok {
		return v, false
	}
	r.order.MoveToFront(e)
	return e.Value.(*recentItem[K, V]).value, true
}

func (r *recently[K, V]) put(k K, v V, weight int) {
	r.forget(k)
	r.items[k] = r.order.PushFront(&recentItem[K, V]{k, v, weight})
	r.weight += weight
}

func (r *recently[K, V]) forget(k K) {
	if e, ok := r.items[k]; ok {
		r.weight -= e.Value.(*recentItem[K, V]).weight
		r.order.Remove(e)
		delete(r.items, k)
	}
}

// trim forgets what was not used for longest until the bound is kept. What was got before may not be used any more.
func (r *recently[K, V]) trim() {
	for r.weight > r.bound && r.order.Len() > 1 {
		r.forget(r.order.Back().Value.(*recentItem[K, V]).key)
	}
}

// touches says what was changed by which LSN, for as long as that may be taken back: by a transaction, which has engine.MaxTxnOps parts.
type touches[K comparable] struct{ list []touch[K] }

type touch[K comparable] struct {
	lsn engine.LSN
	key K
}

const maxTouches = 4 * engine.MaxTxnOps

func (t *touches[K]) add(lsn engine.LSN, k K) {
	if n := len(t.list); n > 0 && t.list[n-1] == (touch[K]{lsn, k}) {
		return
	}
	if len(t.list) == maxTouches {
		t.list = t.list[:copy(t.list, t.list[maxTouches/2:])]
	}
	t.list = append(t.list, touch[K]{lsn, k})
}

// after calls f for what was changed after an LSN, and forgets that it was.
func (t *touches[K]) after(lsn engine.LSN, f func(k K)) {
	for n := len(t.list); n > 0 && t.list[n-1].lsn > lsn; n-- {
		f(t.list[n-1].key)
		t.list = t.list[:n-1]
	}
}
