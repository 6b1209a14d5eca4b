package main

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/cmd/internal/stress"
	"github.com/floedb/floe/kv"
)

// subject is what a load is put on: floe, or its limit.
type subject struct {
	call  func(w *worker) error
	ops   int          // operations that a call carries out
	bytes int          // of keys and values that a call writes
	warm  func() error // nil: it is warm already
	close func() error

	run func() (figures, error) // nil, or the load: of what is measured in a program of its own
}

// worker is one caller: it makes its next call when the last one has returned.
type worker struct {
	id    int
	keys  keys // new ones, distinct from those of all other workers
	rng   *rand.Rand
	picks []string // keys that exist, in random order
	at    int
	buf   []byte        // for values that are read
	page  kv.PageBuffer // for scans

	latency stress.Histogram
	calls   int64
	err     error
}

// pick returns a key that exists.
func (w *worker) pick() string {
	if w.at++; w.at >= len(w.picks) {
		w.at = 0
	}
	return w.picks[w.at]
}

// load says how a subject is called.
type load struct {
	callers  int
	last     time.Duration
	calls    int64 // ends the load earlier; 0: never
	sample   int   // the latency of one in so many calls is measured: reading the clock costs as much as a fast call
	existing int   // how many keys exist
}

// figures are what a load has measured.
type figures struct {
	rate     float64 // operations per second
	p50, p99 time.Duration
	allocs   float64       // per operation, of the whole process
	written  float64       // bytes per byte of keys and values, by the disk for all processes
	bytes    int64         // of keys and values
	used     time.Duration // processor time per operation, of the whole process
}

// maxPicks bounds the keys that are formatted before reads begin, over all workers: far more than
// processor caches hold.
const maxPicks = 1 << 20

func (l load) workers(seed uint64) []*worker {
	ws := make([]*worker, l.callers)
	for i := range ws {
		w := &worker{id: i, rng: rand.New(rand.NewPCG(seed, uint64(i))), buf: make([]byte, 0, 2*valueBytes),
			keys: keys{next: uint64(l.existing + i), step: uint64(l.callers)}}
		if l.existing > 0 {
			w.picks = make([]string, min(maxPicks, 8*l.existing)/l.callers+1)
			for j := range w.picks {
				w.picks[j] = keyOf(w.rng.Uint64N(uint64(l.existing)))
			}
		}
		ws[i] = w
	}
	return ws
}

// run puts the load on a subject. It ends when every call has returned, so that all are counted.
func (l load) run(s *subject, ws []*worker) (figures, error) {
	if s.run != nil {
		return s.run()
	}
	left := l.calls
	if left == 0 {
		left = 1 << 62
	}
	var budget atomic.Int64
	budget.Store(left)
	var over atomic.Bool
	var done sync.WaitGroup
	runtime.GC()
	allocs := mallocs()
	start, used := time.Now(), processorTime()
	timer := time.AfterFunc(l.last, func() { over.Store(true) })
	defer timer.Stop()
	for _, w := range ws {
		done.Go(func() {
			if l.calls > 0 {
				w.work(s, l.sample, func() bool { return over.Load() || budget.Add(-1) < 0 })
			} else {
				// One call at least: a round without any has no figures, however short it is and
				// busy the machine.
				w.work(s, l.sample, func() bool { return w.calls > 0 && over.Load() })
			}
			if w.err != nil {
				over.Store(true)
			}
		})
	}
	done.Wait()
	took := time.Since(start)
	return sum(s, ws, took, processorTime()-used, mallocs()-allocs)
}

func (w *worker) work(s *subject, sample int, over func() bool) {
	for !over() && w.err == nil {
		if w.calls%int64(sample) != 0 {
			w.err = s.call(w)
		} else {
			start := time.Now()
			w.err = s.call(w)
			w.latency.Add(time.Since(start))
		}
		w.calls++
	}
}

func sum(s *subject, ws []*worker, took, used time.Duration, allocs uint64) (figures, error) {
	all, calls := new(stress.Histogram), int64(0)
	var errs []error
	for _, w := range ws {
		all.Merge(&w.latency)
		calls += w.calls
		errs = append(errs, w.err)
	}
	ops := float64(max(calls, 1) * int64(s.ops))
	return figures{
		rate: ops / took.Seconds(), p50: all.Quantile(0.5), p99: all.Quantile(0.99),
		allocs: float64(allocs) / ops, bytes: calls * int64(s.bytes), used: time.Duration(float64(used) / ops),
	}, errors.Join(errs...)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// median returns the middle value, of an even number the upper of the two; 0 of none.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
