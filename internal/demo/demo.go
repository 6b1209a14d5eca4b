package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/floedb/floe"
)

// The namespaces of the shop.
const (
	Main      = "shop"      // most of the shop
	Warehouse = "warehouse" // some of everything, with live traffic
	Analytics = "analytics" // spread over all shards
	Empty     = "sandbox"   // empty
)

const (
	firstOrder = 4200 // number of the first order
	loaded     = 16   // number of orders created by Load
	tickTime   = 500 * time.Millisecond
)

// Shop is a shop in a node. Call Load once, then Run.
type Shop struct {
	db   floe.DB
	seed uint64
	next int       // number of the next order; Load and tick use it, in one goroutine
	now  time.Time // start of Load: time series of Load end here, and those of Run continue
	pace int       // how many times faster than usual the workers are
}

// New returns the shop for a seed. Load creates its data.
func New(db floe.DB, seed uint64) *Shop {
	return &Shop{db: db, seed: seed, next: firstOrder, pace: 1}
}

// Load fills the node with the history of the shop. It takes a fraction of a second.
func (s *Shop) Load(ctx context.Context) error {
	s.now = time.Now()
	for _, part := range []func(context.Context) error{
		s.loadNamespaces, s.loadKeys, s.loadStreams, s.loadQueues, s.loadSeries, s.loadActions, s.loadFlows, s.loadJobs, s.loadWarehouse,
		s.loadAnalytics, s.loadOrders,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Run generates live traffic until ctx is done; it then returns nil. It skips everything that a
// user has since deleted, paused or disabled.
func (s *Shop) Run(ctx context.Context) error {
	stop := s.staff(ctx)
	ticks := time.NewTicker(tickTime)
	defer ticks.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return stop()
		case <-ticks.C:
		}
		// A user may have changed the shop, so an operation that fails is skipped.
		if err := s.tick(ctx, n); errors.Is(err, floe.ErrClosed) {
			return errors.Join(err, stop())
		}
	}
}

// staff runs all workers of the shop until ctx is done. stop then waits for them and returns their
// errors.
func (s *Shop) staff(ctx context.Context) (stop func() error) {
	jobs := []func(context.Context) error{
		s.clerk, s.packer, s.stocker, s.biller, s.mailWriter, s.fraudHunter, s.mailer, s.painter, s.reviewer, s.invoicer, s.picker,
	}
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, job := range jobs {
		wg.Go(func() { errs[i] = job(ctx) })
	}
	return func() error {
		wg.Wait()
		return errors.Join(errs...)
	}
}

// tick generates the n-th half second of traffic from customers and machines since Run began. It
// continues after an error and returns all errors.
func (s *Shop) tick(ctx context.Context, n int) error {
	r := s.random(tickStream, n)
	errs := []error{s.tickOrders(ctx, r, n), s.tickClicks(ctx, r, n), s.tickQueues(ctx, r, n)}
	for _, o := range []struct {
		every int
		do    func(context.Context, *rand.Rand, int) error
	}{
		{4, s.tickApprovals}, {4, s.tickKeys}, {8, s.tickSearch}, {10, s.tickSeries}, {12, s.tickWarehouse}, {20, s.tickAnalytics}, {24,
			s.tickErrands}, {60, s.tickReturns},
	} {
		if n%o.every == 0 {
			errs = append(errs, o.do(ctx, r, n))
		}
	}
	return errors.Join(errs...)
}

// The uses of random numbers. Each has its own sequence, so that more numbers for one do not change
// those of another.
const (
	keyStream = iota + 1
	orderStream
	importStream
	seriesStream
	queueStream
	tickStream
)

// random returns the random numbers for the n-th item of a kind.
func (s *Shop) random(kind, n int) *rand.Rand {
	return rand.New(rand.NewPCG(s.seed<<8|uint64(kind), uint64(n)))
}

// pick returns a random element of some.
func pick[T any](r *rand.Rand, some ...T) T { return some[r.IntN(len(some))] }

// take waits for d, to simulate work.
func (s *Shop) take(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d / time.Duration(s.pace))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
