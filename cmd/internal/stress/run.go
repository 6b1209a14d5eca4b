package stress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe"
)

// Result is the result of a load.
type Result struct {
	Name    string
	Calls   uint64 // successful calls
	Busy    uint64 // calls rejected because of overload
	Failed  uint64 // calls failed for another reason
	First   error  // the first error of the failed calls; nil: none
	Took    time.Duration
	Latency Histogram // of the successful calls
	Slowest time.Duration
}

// Rate returns the number of successful calls per second.
func (r *Result) Rate() float64 { return float64(r.Calls) / max(r.Took.Seconds(), 1e-9) }

// Progress is the progress of a load.
type Progress struct {
	Name         string
	Calls, Wrong uint64
	Past, Whole  time.Duration
}

// tickEvery is the interval of progress reports.
const tickEvery = 200 * time.Millisecond

func newCaller(id int, t *Target) *caller {
	c := &caller{id: id, rng: rand.New(rand.NewPCG(uint64(id), 1)), value: make([]byte, max(t.ValueSize, 16))}
	for i := range c.value {
		c.value[i] = byte('a' + c.rng.IntN(26))
	}
	return c
}

// lastCalls is the time limit for the calls in progress at the end of a run. They are part of the
// run: cutting them short would lose its slowest calls.
const lastCalls = 10 * time.Second

// Run puts a load on a target for the duration last, or until ctx is done. It reports its progress
// to tell, which may be nil. The error means that the load could not begin or end.
func (w *Workload) Run(ctx context.Context, t Target, last time.Duration, tell func(Progress)) (Result, error) {
	r := Result{Name: w.Name}
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	call, end, err := w.begin(life, &t)
	if err != nil {
		return r, fmt.Errorf("%s: %w", w.Name, err)
	}
	within, stop := context.WithTimeout(life, last)
	defer stop()
	calls, cut := context.WithTimeout(life, last+lastCalls)
	defer cut()
	var done, wrong atomic.Uint64
	parts := make([]Result, t.Callers)
	var callers, told sync.WaitGroup
	start := time.Now()
	for i := range parts {
		callers.Go(func() { parts[i].run(within, calls, newCaller(i, &t), call, &done, &wrong) })
	}
	if tell != nil {
		told.Go(func() {
			tick := time.NewTicker(tickEvery)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					tell(Progress{w.Name, done.Load(), wrong.Load(), time.Since(start), last})
				case <-within.Done():
					return
				}
			}
		})
	}
	callers.Wait()
	r.Took = time.Since(start)
	stop()
	told.Wait()
	for i := range parts {
		r.add(&parts[i])
	}
	cancel()
	if end != nil {
		if err := end(); err != nil {
			return r, fmt.Errorf("%s: end: %w", w.Name, err)
		}
	}
	return r, nil
}

// run is one caller: it makes a call, and more until within is done, each with the context calls.
func (r *Result) run(within, calls context.Context, c *caller, call func(context.Context, *caller) error, done, wrong *atomic.Uint64) {
	refused := 0 // consecutive failures
	for first := true; first || within.Err() == nil; first = false {
		start := time.Now()
		err := call(calls, c)
		took := time.Since(start)
		switch {
		case err == nil:
			r.Calls++
			r.Latency.Add(took)
			r.Slowest = max(r.Slowest, took)
			done.Add(1)
			refused = 0
			continue
		case calls.Err() != nil: // cut short by the end of the run
			return
		case errors.Is(err, floe.ErrBusy):
			r.Busy++
		default:
			r.Failed++
			if r.First == nil {
				r.First = err
			}
		}
		wrong.Add(1)
		pause(within, refused)
		refused++
	}
}

// Pauses of a caller after consecutive failures.
const (
	firstPause = time.Millisecond
	mostPause  = 128 * time.Millisecond
)

// pause delays the next call of a caller after a failure. refused is the number of consecutive
// failures before it; each roughly doubles the pause.
func pause(ctx context.Context, refused int) {
	d := min(firstPause<<min(refused, 10), mostPause)
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (r *Result) add(part *Result) {
	r.Calls += part.Calls
	r.Busy += part.Busy
	r.Failed += part.Failed
	if r.First == nil {
		r.First = part.First
	}
	r.Latency.Merge(&part.Latency)
	r.Slowest = max(r.Slowest, part.Slowest)
}
