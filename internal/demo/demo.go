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
	Main      = "shop"      // where most of it is
	Warehouse = "warehouse" // has a bit of everything, and moves too
	Analytics = "analytics" // is spread over all shards
	Empty     = "sandbox"   // has nothing in it
)

const (
	firstOrder = 4200 // the number of the first order
	loaded     = 16   // orders that Load makes
	tickTime   = 500 * time.Millisecond
)

// Shop is a shop in a node. Load comes first, once; then Run.
type Shop struct {
	db   floe.DB
	seed uint64
	next int       // the number of the next order; of Load and tick, which one goroutine calls
	now  time.Time // when Load began: where time series end, and those of Run go on
	pace int       // how many times faster than usual everybody works
}

// New returns the shop of a seed, which is not there yet.
func New(db floe.DB, seed uint64) *Shop {
	return &Shop{db: db, seed: seed, next: firstOrder, pace: 1}
}

// Load fills the node with the past of the shop. It takes a fraction of a second.
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

// Run lets the shop live until ctx is done; it then returns nil. What somebody has deleted, paused
// or disabled meanwhile is missing, and no reason to end.
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
		// What can not be done, as somebody plays with the shop, is not done.
		if err := s.tick(ctx, n); errors.Is(err, floe.ErrClosed) {
			return errors.Join(err, stop())
		}
	}
}

// staff has everybody work who works in the shop, until ctx is done. stop then waits for them, and
// returns what went wrong.
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

// tick is what customers and machines do in half a second: the n-th since Run began. It does all
// that it can, and returns what it could not.
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

// What random numbers are for: each has a sequence of its own, so that one more of this changes
// nothing of that.
const (
	keyStream = iota + 1
	orderStream
	importStream
	seriesStream
	queueStream
	tickStream
)

// random returns the random numbers for the n-th thing of a kind.
func (s *Shop) random(kind, n int) *rand.Rand {
	return rand.New(rand.NewPCG(s.seed<<8|uint64(kind), uint64(n)))
}

// pick returns one of some.
func pick[T any](r *rand.Rand, some ...T) T { return some[r.IntN(len(some))] }

// take takes a time, as work does.
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
