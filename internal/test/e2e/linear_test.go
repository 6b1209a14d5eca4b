package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

var (
	operationsFlag = flag.Int("operations", 8_000, "how many operations the clients of TestLinear do at least")
	faultsFlag     = flag.Int("faults", 16, "how many faults they live through at least")
)

// Sizes of TestLinear.
const (
	linearClients = 10
	linearShards  = 2
	linearSlots   = 8                       // keys in use at a time
	keyOperations = check.MaxOperations - 2 // of one key, before the next one takes its slot; the rest is for the read at the end
	callTime      = 500 * time.Millisecond  // after which a client gives up
	healTime      = 30 * time.Second        // in which a cluster that is well does what it is asked for
	linearSpace   = "linear"
)

// TestLinear lets clients read and write few keys of three nodes, through lost, repeated, delayed
// and reordered messages, cuts, pauses, restarts and changes of leader. All that they were told
// must be what one node that does one thing after the other could have said; transfers keep their
// sum; watches show each change once and in order; in the end the replicas are equal.
func TestLinear(t *testing.T) {
	operations, faults := *operationsFlag, *faultsFlag
	if testing.Short() {
		operations, faults = 5000, 12
	}
	s, start := machinetest.Seed(t), time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tooLong := time.AfterFunc(healTime, cancel)
	defer tooLong.Stop()
	c := newCluster(t, s, linearShards)
	l := &linear{t: t, history: check.NewHistory(), start: start, stop: make(chan struct{})}
	l.store = func(client int) *kv.Store {
		return engine.StoreOf[kv.Store](engine.NewRouter(&door{cluster: c, first: client % len(nodes)}), linearSpace, 0)
	}
	l.history.Dir = t.ArtifactDir()
	bank, gallery, nemesis := newBank(c), newGallery(c), newNemesis(c, s)
	spaces := engine.NewNamespaces(engine.NewRouter(&door{cluster: c}))
	if err := errors.Join(spaces.Create(ctx, linearSpace, true), bank.open(ctx)); err != nil {
		t.Fatal(err)
	}
	tooLong.Stop()
	failed := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	var clients sync.WaitGroup
	l.run(ctx, s, &clients)
	bank.run(ctx, s, l.stop, &clients, failed)
	gallery.run(ctx, s, l.stop, &clients, failed)
	for i := 0; (i < faults || l.history.Operations() < operations) && !t.Failed(); i++ {
		nemesis.strike(i)
	}
	close(l.stop)
	tooLong.Reset(healTime)
	clients.Wait()
	l.readAll(ctx)
	failed(gallery.Check())
	took := time.Since(start)
	c.agree(ctx)
	checking := time.Now()
	failed(l.history.Check())
	t.Logf("%d operations on %d keys in %v, %d writes in doubt; checked in %v; %v", l.history.Operations(), l.keys(),
		took.Round(time.Millisecond), l.doubts.Load(), time.Since(checking).Round(time.Millisecond), nemesis)
	t.Logf("%d transfers, %d audits; %d watched changes, %d events, %d times resumed, %d times begun anew, %d times compacted",
		bank.transfers.Load(),
		bank.audits.Load(), gallery.changes.Load(), gallery.events.Load(), gallery.resumed.Load(), gallery.restarted.Load(),
		gallery.compacted.Load())
	if testing.Short() {
		return // too short for luck to even out
	}
	if l.doubts.Load() == 0 || bank.transfers.Load() < 100 || bank.audits.Load() < 100 || gallery.changes.Load() < 100 ||
		gallery.resumed.Load() == 0 {
		t.Error("nothing was ever in doubt, or hardly anything happened: the test has not tested what it should")
	}
}

// isDoubt reports whether a call failed because of the cluster's state: a write may have happened
// or not.
func isDoubt(err error) bool {
	return errors.Is(err, engine.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// every calls f again and again, with short rests, until stop.
func every(stop <-chan struct{}, f func()) {
	rest := time.NewTicker(time.Millisecond)
	defer rest.Stop()
	for {
		select {
		case <-rest.C:
			f()
		case <-stop:
			return
		}
	}
}

// linear is what the clients share.
type linear struct {
	t       *testing.T
	store   func(client int) *kv.Store // of linearSpace
	history *check.History
	start   time.Time
	stop    chan struct{}
	patient bool                      // clients give up late: what is in doubt makes a history hard to check
	doubts  atomic.Int64              // writes whose outcome nobody knows
	used    [linearSlots]atomic.Int64 // operations per slot
}

// run starts the clients.
func (l *linear) run(ctx context.Context, seed uint64, running *sync.WaitGroup) {
	for i := range linearClients {
		c := &client{
			linear: l, id: i, rng: rand.New(rand.NewPCG(seed, uint64(i))), revisions: make(map[string]uint64),
			store: l.store(i),
		}
		running.Go(func() { c.run(ctx) })
	}
}

func (l *linear) now() int64 { return int64(time.Since(l.start)) }

// key returns the key that an operation on a slot is for. Half of the slots hold numbers, the
// others values.
func (l *linear) key(slot int) string {
	generation := (l.used[slot].Add(1) - 1) / keyOperations
	return slotKey(slot, generation)
}

func slotKey(slot int, generation int64) string { return fmt.Sprintf("%d/%d", slot, generation) }

func (l *linear) keys() (n int64) {
	for slot := range l.used {
		n += (l.used[slot].Load() + keyOperations - 1) / keyOperations
	}
	return n
}

// readAll reads every key once more, when all is well again: what was acknowledged has not got lost
// since.
func (l *linear) readAll(ctx context.Context) {
	l.t.Helper()
	c := &client{linear: l, id: linearClients, store: l.store(0)}
	for slot := range l.used {
		for generation := range (l.used[slot].Load() + keyOperations - 1) / keyOperations {
			if err := c.get(ctx, slotKey(slot, generation)); err != nil {
				l.t.Fatalf("read at the end: %v", err)
			}
		}
	}
}

// client does one thing after the other.
type client struct {
	*linear
	id        int
	rng       *rand.Rand
	store     *kv.Store
	revisions map[string]uint64 // as last seen
	writes    int
}

func (c *client) run(ctx context.Context) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		limit := callTime
		if c.patient {
			limit = healTime
		}
		call, cancel := context.WithTimeout(ctx, limit)
		c.step(call)
		cancel()
	}
}

func (c *client) step(ctx context.Context) {
	slot, n := c.rng.IntN(linearSlots), c.rng.IntN(10)
	key := c.key(slot)
	switch {
	case n < 4:
		_ = c.get(ctx, key)
	case n == 4 && c.rng.IntN(3) == 0:
		c.do(check.Op{Kind: check.Delete, Key: key}, func() (check.Result, error) {
			w, err := c.store.Delete(ctx, key)
			return check.Result{Revision: w.Revision}, err
		})
	case slot%2 == 0:
		c.incr(ctx, key, c.rng.Int64N(100)+1)
	case n < 7:
		c.put(ctx, check.Op{Kind: check.CAS, Key: key, Revision: c.revisions[key]}, kv.IfRevision(c.revisions[key]))
	default:
		c.put(ctx, check.Op{Kind: check.Put, Key: key})
	}
}

func (c *client) get(ctx context.Context, key string) (err error) {
	c.do(check.Op{Kind: check.Get, Key: key}, func() (check.Result, error) {
		var e kv.Entry
		if e, err = c.store.Get(ctx, key); errors.Is(err, engine.ErrNotFound) {
			err = nil
			return check.Result{}, nil
		}
		return check.Result{Found: true, Value: string(e.Value), Revision: e.Revision}, err
	})
	return err
}

func (c *client) put(ctx context.Context, op check.Op, opts ...kv.PutOption) {
	c.writes++
	op.Value = fmt.Sprintf("%d.%d", c.id, c.writes)
	c.do(op, func() (check.Result, error) {
		w, err := c.store.Put(ctx, op.Key, []byte(op.Value), opts...)
		return check.Result{Revision: w.Revision}, err
	})
}

func (c *client) incr(ctx context.Context, key string, delta int64) {
	c.do(check.Op{Kind: check.Incr, Key: key, Delta: delta}, func() (check.Result, error) {
		n, err := c.store.Incr(ctx, key, delta)
		return check.Result{Number: n}, err
	})
}

// do records an operation. Only what the node says of the key is definite; a client that gives up
// knows nothing.
func (c *client) do(op check.Op, f func() (check.Result, error)) {
	op.Client = c.id
	p := c.history.Invoke(c.now(), op)
	r, err := f()
	now := c.now()
	var conflict *kv.ConflictError
	switch {
	case err == nil:
		p.Done(now, r)
	case errors.Is(err, engine.ErrConflict), errors.Is(err, engine.ErrNotFound):
		if errors.As(err, &conflict) {
			r.Revision = conflict.Revision
		}
		p.Refused(now, err)
	case isDoubt(err):
		if op.Kind != check.Get {
			c.doubts.Add(1)
		}
		p.Unknown(now)
	default:
		c.t.Errorf("%v: %v", op, err)
	}
	if c.revisions != nil && r.Revision != 0 {
		c.revisions[op.Key] = r.Revision
	}
}
