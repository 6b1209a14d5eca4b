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

// subject is the target of a load: floe, or its limit.
type subject struct {
	call  func(w *worker) error
	ops   int          // operations per call
	bytes int          // of keys and values that a call writes
	warm  func() error // nil: nothing to warm up
	close func() error

	run func() (figures, error) // replaces the load if the subject runs in its own program; nil otherwise
}

// worker is one caller: it makes its next call when the last one has returned.
type worker struct {
	id    int
	keys  keys // new keys, distinct from those of all other workers
	rng   *rand.Rand
	picks []string // existing keys in random order
	at    int
	buf   []byte        // for values that are read
	page  kv.PageBuffer // for scans

	latency stress.Histogram
	calls   int64
	err     error
}

// pick returns an existing key.
func (w *worker) pick() string {
	if w.at++; w.at >= len(w.picks) {
		w.at = 0
	}
	return w.picks[w.at]
}

// load describes the calls to a subject.
type load struct {
	callers  int
	last     time.Duration
	calls    int64 // maximum number of calls; 0: no limit
	sample   int   // one in this many calls is timed: reading the clock costs as much as a fast call
	existing int   // number of existing keys
}

// figures are the measurements of a load.
type figures struct {
	rate     float64 // operations per second
	p50, p99 time.Duration
	allocs   float64       // per operation, of the whole process
	written  float64       // bytes per byte of keys and values, written by the disk for all processes
	bytes    int64         // of keys and values
	used     time.Duration // processor time per operation, of the whole process
}

// maxPicks limits the keys that are formatted before reads begin, over all workers: far more than
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

// run puts the load on a subject. It returns when all calls have returned, so that all are counted.
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
				// At least one call: a round without calls has no figures, even if it is short and
				// the machine is busy.
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

// median returns the middle value, the upper one of two, or 0 for no values.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
