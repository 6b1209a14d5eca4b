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
	keyOperations = check.MaxOperations - 2 // per key, before the next one takes its slot; the rest is for the final read
	callTime      = 500 * time.Millisecond  // after which a client gives up
	healTime      = 30 * time.Second        // in which a healthy cluster completes calls
	linearSpace   = "linear"
)

// TestLinear lets clients read and write a few keys of three nodes, with lost, repeated, delayed
// and reordered messages, cuts, pauses, restarts and changes of leader. All answers must be
// linearizable. Transfers must keep their sum, and watches must show each change once and in order.
// In the end the replicas must be equal.
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
		return // too few rounds for reliable frequencies
	}
	if l.doubts.Load() == 0 || bank.transfers.Load() < 100 || bank.audits.Load() < 100 || gallery.changes.Load() < 100 ||
		gallery.resumed.Load() == 0 {
		t.Error("nothing was ever in doubt, or hardly anything happened: the test has not tested what it should")
	}
}

// isDoubt reports whether a call failed because of the cluster's state: a write may or may not have
// happened.
func isDoubt(err error) bool {
	return errors.Is(err, engine.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// every calls f repeatedly, with short pauses, until stop.
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

// linear is the state shared by the clients.
type linear struct {
	t       *testing.T
	store   func(client int) *kv.Store // of linearSpace
	history *check.History
	start   time.Time
	stop    chan struct{}
	patient bool                      // clients wait long: unknown outcomes make a history hard to check
	doubts  atomic.Int64              // writes of unknown outcome
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

// key returns the key of an operation on a slot. Half of the slots hold numbers, the others values.
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

// readAll reads every key once more when the cluster is healthy again: acknowledged writes must
// still be there.
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

// client makes one call after the other.
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
		return check.Result{Number: n.Value}, err
	})
}

// do records an operation. Only errors about the key are definite; after giving up, a client does
// not know the outcome.
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
