package workloop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// job is a piece of work, in one delivery.
type job struct {
	id       int
	lane     string
	delivery int
}

// board is a source in memory: it leases jobs, redelivers them when leases end, and records
// violations.
type board struct {
	t       *testing.T
	period  time.Duration // of leases, 0: none
	mu      sync.Mutex
	ready   []job
	leases  map[int]lease // by id
	wake    chan struct{} // closed when something has become ready
	stretch bool          // a job of a lane that fails or is lost takes those of its lane back
	fail    error         // of all calls, nil: none

	takes, renewals, returned int
	asked                     []int // what each take asked for
	renewed                   []int // how many pieces each renewal had
	ends                      map[int][]workloop.Result
	latest                    int
}

type lease struct {
	job   job
	until time.Time
}

func newBoard(t *testing.T, period time.Duration, jobs ...job) *board {
	return &board{t: t, period: period, ready: jobs, leases: make(map[int]lease), wake: make(chan struct{}),
		ends: make(map[int][]workloop.Result)}
}

// jobs returns n jobs without lanes.
func jobs(n int) []job {
	all := make([]job, n)
	for i := range all {
		all[i].id = i
	}
	return all
}

func (b *board) add(jobs ...job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(jobs...)
}

func (b *board) addLocked(jobs ...job) {
	b.ready = append(b.ready, jobs...)
	slices.SortStableFunc(b.ready, func(x, y job) int { return x.id - y.id })
	close(b.wake)
	b.wake = make(chan struct{})
}

func (b *board) setFail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// expireLocked makes jobs ready whose leases have ended.
func (b *board) expireLocked() {
	for _, l := range b.leases {
		if b.period > 0 && !time.Now().Before(l.until) {
			b.loseLocked(l.job)
		}
	}
}

// loseLocked takes a job back.
func (b *board) loseLocked(j job) {
	back := []job{j}
	for _, l := range b.leases {
		if b.stretch && j.lane != "" && l.job.lane == j.lane && l.job.id > j.id {
			back = append(back, l.job)
		}
	}
	for _, j := range back {
		delete(b.leases, j.id)
	}
	b.addLocked(back...)
}

func (b *board) lose(id int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loseLocked(b.leases[id].job)
}

func (b *board) Take(ctx context.Context, n int) ([]job, error) {
	b.mu.Lock()
	b.takes++
	b.asked = append(b.asked, n)
	b.mu.Unlock()
	tick := time.NewTicker(time.Second) // leases end
	defer tick.Stop()
	for {
		b.mu.Lock()
		b.expireLocked()
		wake, fail, taken := b.wake, b.fail, b.takeLocked(n)
		b.mu.Unlock()
		if fail != nil || len(taken) > 0 {
			return taken, fail
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (b *board) takeLocked(n int) (taken []job) {
	if b.fail != nil {
		return nil
	}
	busy := make(map[string]bool)
	for _, l := range b.leases {
		busy[l.job.lane] = b.stretch && l.job.lane != ""
	}
	var rest []job
	for _, j := range b.ready {
		if len(taken) == n || busy[j.lane] {
			rest = append(rest, j)
			continue
		}
		b.latest++
		j.delivery = b.latest
		b.leases[j.id] = lease{j, time.Now().Add(b.period)}
		taken = append(taken, j)
	}
	b.ready = rest
	return taken
}

// heldLocked reports whether a delivery is the present one.
func (b *board) heldLocked(j job) bool {
	l, ok := b.leases[j.id]
	if ok && b.period > 0 && !time.Now().Before(l.until) {
		b.loseLocked(l.job)
		return false
	}
	return ok && l.job == j
}

func conflict(j job) error { return engine.Errorf(engine.ErrConflict, "job %d is not held", j.id) }

func (b *board) Settle(ctx context.Context, j job, r workloop.Result) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	if !b.heldLocked(j) {
		return conflict(j)
	}
	b.ends[j.id] = append(b.ends[j.id], r)
	if r.Err != nil {
		b.loseLocked(j)
	}
	delete(b.leases, j.id)
	return nil
}

func (b *board) Release(ctx context.Context, js []job) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range js {
		if b.heldLocked(j) {
			b.returned++
			b.loseLocked(j)
		}
	}
	return b.fail
}

func (b *board) Lease() time.Duration { return b.period }

func (b *board) Renew(ctx context.Context, js []job) ([]error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewals++
	b.renewed = append(b.renewed, len(js))
	if b.fail != nil {
		return nil, b.fail
	}
	lost := make([]error, len(js))
	for i, j := range js {
		if !b.heldLocked(j) {
			lost[i] = conflict(j)
			continue
		}
		b.leases[j.id] = lease{j, time.Now().Add(b.period)}
	}
	return lost, nil
}

func (b *board) Lane(j job) string { return j.lane }

// look reads fields of the board.
func (b *board) look(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// done returns how many jobs have ended well.
func (b *board) done() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ends := range b.ends {
		if ends[len(ends)-1].Err == nil {
			n++
		}
	}
	return n
}

// log collects what a loop reports and what handlers do.
type log struct {
	mu     sync.Mutex
	lines  []string
	errors []error
}

func (l *log) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) copy() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func (l *log) onError(_ *job, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, err)
}

// running is a loop that runs.
type running struct {
	*workloop.Loop[job]
	stop  context.CancelCauseFunc
	ended chan error
}

var errStop = errors.New("that is enough")

// start runs a loop in a bubble.
func start(t *testing.T, c workloop.Config[job]) *running {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &running{workloop.New(c), cancel, make(chan error, 1)}
	go func() { r.ended <- r.Run(ctx) }()
	return r
}

// end stops the loop, which has to end as it should.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop(errStop)
	if err := <-r.ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// pass lets time go by.
func pass(d time.Duration) { <-time.After(d) }
