package ts

import "github.com/floedb/floe/internal/engine"

// lately remembers what was used lately, up to a bound: when as many things are young, the old ones are forgotten and the young ones are old.
type lately[K comparable, V any] struct {
	young, old map[K]V
	bound      int

	touched []touch[K]
	lost    engine.LSN // what was touched up to it is not in touched any more
}

type touch[K comparable] struct {
	lsn engine.LSN
	key K
}

func newLately[K comparable, V any](bound int) lately[K, V] {
	return lately[K, V]{young: make(map[K]V), bound: bound}
}

func (l *lately[K, V]) get(k K) (v V, ok bool) {
	if v, ok = l.young[k]; ok {
		return v, true
	}
	if v, ok = l.old[k]; ok {
		l.put(k, v)
	}
	return v, ok
}

func (l *lately[K, V]) put(k K, v V) {
	if len(l.young) >= l.bound {
		l.old, l.young = l.young, make(map[K]V)
	}
	l.young[k] = v
}

func (l *lately[K, V]) forget(k K) {
	delete(l.young, k)
	delete(l.old, k)
}

// maxTouched bounds touched. What does not fit any more is hardly ever taken back.
const maxTouched = 4096

// touch notes that something is changed by an LSN, which may be taken back.
func (l *lately[K, V]) touch(lsn engine.LSN, k K) {
	if n := len(l.touched); n > 0 && l.touched[n-1] == (touch[K]{lsn, k}) {
		return
	}
	if len(l.touched) == maxTouched {
		l.lost = l.touched[maxTouched/2-1].lsn
		l.touched = l.touched[:copy(l.touched, l.touched[maxTouched/2:])]
	}
	l.touched = append(l.touched, touch[K]{lsn, k})
}

// revert forgets what was changed after an LSN.
func (l *lately[K, V]) revert(to engine.LSN) {
	if to < l.lost {
		*l = newLately[K, V](l.bound)
		return
	}
	for n := len(l.touched); n > 0 && l.touched[n-1].lsn > to; n-- {
		l.forget(l.touched[n-1].key)
		l.touched = l.touched[:n-1]
	}
}
