package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

var crashesFlag = flag.Int("crashes", 1, "how many nodes TestAudit kills, of a cluster and of a node alone each")

// Sizes of an audit.
const (
	auditProducers = 2
	auditConsumers = 3
	auditBacklog   = 200 // maximum items that producers are ahead
	auditBatch     = 5
	auditKeys      = 12
)

// TestAudit kills processes while producers send and consumers take; some consumers die holding
// items, release them, or take too long. No item may be lost, delivered after its ack, or delivered
// more often than permitted. Where order is promised, it must hold.
func TestAudit(t *testing.T) {
	t.Parallel()
	crashes := *crashesFlag
	for name, start := range map[string]func(*testing.T) *processes{"cluster": newProcesses, "alone": newProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			auditCrashes(t, start(t), crashes)
		})
	}
}

func auditCrashes(t *testing.T, c *processes, crashes int) {
	all := openAudits(t, c)
	all.flow()
	for n := range crashes {
		i, another := 0, -1
		if len(c.members) > 1 {
			i = leader(t, all.client, n%3)
		}
		c.kill(i)
		switch {
		case len(c.members) == 1:
		case n%4 == 3:
			another = (i + 1) % 3
			c.kill(another)
		default:
			all.flow()
		}
		c.start(i)
		if another >= 0 {
			c.start(another)
		}
		all.flow()
	}
	all.finish()
}

// audits are the audits of a node or cluster, one of each kind.
type audits struct {
	t      *testing.T
	client *floe.Client
	list   []*audit
}

func openAudits(t *testing.T, c *processes) *audits {
	s, start := machinetest.Seed(t), time.Now()
	a := &audits{t: t, client: c.client()}
	add := func(name string, of func(namespace string) audited, d *check.Deliveries) {
		d.Max = auditAttempts
		one := &audit{
			t: t, name: name, of: of("audit " + name), d: d, start: start, seed: s + uint64(len(a.list)), stopped: make(chan struct{}),
		}
		if err := one.of.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.list = append(a.list, one)
	}
	d := check.NewDeliveries()
	d.Rising = true
	add("queue", func(ns string) audited { return &auditedQueue{a.client.Queue(ns), start} }, d)
	for _, mode := range []stream.Mode{stream.Shared, stream.Exclusive, stream.KeyShared} {
		d := check.NewDeliveries()
		d.Rising = mode != stream.KeyShared
		d.Ordered, d.Excuses = mode == stream.KeyShared, mode == stream.KeyShared // later items of a key with a failed one are excused
		add(mode.String(), func(ns string) audited { return &auditedGroup{a.client.Stream(ns), mode} }, d)
	}
	for _, one := range a.list {
		one.run()
	}
	return a
}

// flow waits until every audit has made progress.
func (a *audits) flow() {
	a.t.Helper()
	for _, one := range a.list {
		before := one.acked.Load()
		await(a.t, "acks of "+one.name, func() bool { return a.t.Failed() || one.acked.Load() > before+50 })
	}
}

// finish lets consumers take the remaining items, and gives the verdicts.
func (a *audits) finish() {
	for _, one := range a.list {
		one.closing.Store(true)
	}
	dead := 0
	for _, one := range a.list {
		dead += one.finish().Dead
	}
	if dead == 0 {
		a.t.Error("nothing was delivered as often as it may be")
	}
}

// audit is one queue or group with its producers and consumers.
type audit struct {
	t     *testing.T
	name  string
	of    audited
	d     *check.Deliveries
	start time.Time
	seed  uint64

	sent, acked atomic.Int64
	closing     atomic.Bool   // no more items are sent, and consumers only acknowledge
	stopped     chan struct{} // closed: no items are left
	running     sync.WaitGroup
}

func (a *audit) now() int64 { return int64(time.Since(a.start)) }

func (a *audit) run() {
	for n := range auditProducers {
		a.running.Go(func() { a.produce(n, rand.New(rand.NewPCG(a.seed, uint64(n)))) })
	}
	for n := range auditConsumers {
		a.running.Go(func() {
			(&auditor{audit: a, n: n, rng: rand.New(rand.NewPCG(a.seed, uint64(n+100)))}).run()
		})
	}
}

// produce sends batches until the audit closes. One of the producers repeats sends of unknown
// outcome.
func (a *audit) produce(n int, rng *rand.Rand) {
	once := ""
	if n == 0 {
		once = "producer"
	}
	for number := 1; !a.closing.Load(); {
		if a.sent.Load() > a.acked.Load()+auditBacklog {
			a.pause()
			continue
		}
		var items []check.Item
		for range 1 + rng.IntN(auditBatch) {
			items = append(items, check.Item{Body: fmt.Sprintf("%s/%d/%d", strings.Repeat("x", rng.IntN(4)), n, number),
				Key: fmt.Sprint(rng.IntN(auditKeys))})
			number++
		}
		if !a.send(once, items) {
			return
		}
	}
}

// pause waits briefly.
func (a *audit) pause() {
	select {
	case <-time.After(time.Millisecond):
	case <-a.stopped:
	}
}

func (a *audit) send(once string, items []check.Item) bool {
	for _, i := range items {
		a.d.MaybeSent(i.Body)
	}
	for doubt := false; ; {
		placed, err := a.of.send(a.t.Context(), once, items)
		switch {
		case err == nil:
			for _, i := range placed {
				a.d.Sent(i)
			}
			a.sent.Add(int64(len(items)))
			return true
		case errors.Is(err, floe.ErrUnknownOutcome):
			if once == "" {
				return true
			}
			doubt = true
		case errors.Is(err, floe.ErrUnavailable):
			if !doubt && once == "" {
				for _, i := range items {
					a.d.NotSent(i.Body)
				}
				return true
			}
		default:
			a.t.Errorf("%s: send: %v", a.name, err)
			return false
		}
	}
}

// finish waits until no items are left, and gives the verdict.
func (a *audit) finish() check.Report {
	a.t.Helper()
	await(a.t, "the end of "+a.name, func() bool {
		t, err := a.of.totals(a.t.Context())
		return a.t.Failed() || err == nil && t.Ready+t.Delayed+t.Leased == 0 && a.closing.Load()
	})
	close(a.stopped)
	a.running.Wait()
	totals, err := a.of.totals(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	dead, err := a.of.dead(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, one := range dead {
		if err := a.d.Dead(one); err != nil {
			a.t.Error(err)
		}
	}
	report, err := a.d.Check(totals)
	a.t.Logf("%s: %+v", a.name, report)
	if err != nil {
		a.t.Errorf("%s: %v", a.name, err)
	}
	if report.Repeated == 0 || report.Acks < 100 {
		a.t.Errorf("%s: hardly anything happened", a.name)
	}
	return report
}

// auditor is an unreliable consumer that records all of its calls and their results.
type auditor struct {
	*audit
	n     int
	lives int
	rng   *rand.Rand
}

// run consumes. A consumer that dies returns under another name, some time after it has left, or
// without leaving.
func (a *auditor) run() {
	for {
		select {
		case <-a.stopped:
			return
		default:
		}
		name := fmt.Sprintf("consumer %d.%d", a.n, a.lives)
		list, ok := a.read(name)
		if !ok {
			return
		}
		if !a.use(list) {
			a.lives++
			if a.rng.IntN(2) == 0 {
				a.leave(name)
			}
		}
	}
}

func (a *auditor) read(name string) ([]check.Delivery, bool) {
	r := a.d.Read(a.now(), name)
	limit, forGood := 1+a.rng.IntN(auditBatch), a.of.gives() && a.rng.IntN(16) == 0
	list, err := a.of.read(a.t.Context(), name, limit, forGood)
	switch {
	case err == nil && forGood:
		r.Taken(a.now(), list...)
		a.acked.Add(int64(len(list)))
		return nil, true
	case err == nil:
		r.Done(a.now(), list...)
	case errors.Is(err, floe.ErrUnavailable) && forGood:
		r.UnknownTaken(limit)
	case errors.Is(err, floe.ErrUnavailable):
		r.Unknown()
	default:
		a.t.Errorf("%s: read: %v", a.name, err)
		return nil, false
	}
	return list, true
}

func (a *auditor) leave(name string) {
	a.d.Left(name)
	if err := a.of.leave(a.t.Context(), name); err != nil && !errors.Is(err, floe.ErrUnavailable) {
		a.t.Errorf("%s: leave: %v", a.name, err)
	}
}

// use ends deliveries in one of several ways. It returns false if the consumer dies.
func (a *auditor) use(list []check.Delivery) bool {
	if a.closing.Load() || a.rng.IntN(3) == 0 && !slices.ContainsFunc(list, isPoison) {
		a.ack(list...)
		return true
	}
	for _, d := range list {
		switch n := a.rng.IntN(100); {
		case n < 2:
			return false
		case isPoison(d):
			a.settle(check.Nacked, a.of.nack, d)
		case n < 3:
			a.settle(check.Buried, a.of.bury, d)
		case n < 8:
			a.settle(check.Nacked, a.of.nack, d)
		case n < 10:
			// It drops this one, and its lease expires.
		case n < 12:
			a.late(d)
		case n < 20:
			_, _ = a.of.extend(a.t.Context(), d)
			fallthrough
		default:
			a.ack(d)
		}
	}
	return true
}

// isPoison reports whether processing the item always fails.
func isPoison(d check.Delivery) bool { return strings.HasSuffix(d.Body, "77") }

// late acknowledges a delivery too late, perhaps after another consumer received it.
func (a *auditor) late(d check.Delivery) {
	select {
	case <-time.After(auditLease + 2*auditBackoff):
	case <-a.stopped:
	}
	a.ack(d)
}

// ack acknowledges deliveries in one call.
func (a *auditor) ack(list ...check.Delivery) {
	a.settle(check.Acked, func(ctx context.Context, _ check.Delivery) (int, error) { return a.of.ack(ctx, list) }, list...)
}

func (a *auditor) settle(o check.Outcome, f func(context.Context, check.Delivery) (int, error), list ...check.Delivery) {
	if len(list) == 0 {
		return
	}
	var calls []*check.Settlement
	for _, d := range list {
		calls = append(calls, a.d.Settle(a.now(), d, o))
	}
	n, err := f(a.t.Context(), list[0])
	switch {
	case errors.Is(err, floe.ErrUnknownOutcome):
	case err == nil && n == len(list):
		for _, s := range calls {
			s.Done(a.now())
		}
		if o == check.Acked {
			a.acked.Add(int64(n))
		}
	case (err == nil && n == 0 || errors.Is(err, floe.ErrConflict)) && len(list) == 1:
		calls[0].Stale(a.now())
	case errors.Is(err, floe.ErrUnavailable), errors.Is(err, floe.ErrConflict):
		for _, s := range calls {
			s.Never()
		}
	case err != nil:
		a.t.Errorf("%s: %v: %v", a.name, o, err)
	}
}
