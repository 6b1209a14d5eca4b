package shard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// leapClock is the machine's clock plus an offset that the test sets.
type leapClock struct {
	start time.Time
	ahead atomic.Int64 // ms
}

// Wall implements Clock.Source.
func (c *leapClock) Wall() int64 { return time.Now().UnixMilli() + c.ahead.Load() }

// Mono implements Clock.Source.
func (c *leapClock) Mono() time.Duration { return time.Since(c.start) }

// costNode is a node of one shard on a real disk, with default sizes, that measures the cost of its
// commands.
type costNode struct {
	t      *testing.T
	host   *Host
	clock  *leapClock
	router *engine.Router

	kv    *kv.Store
	queue *queue.Store
	logs  *stream.Store
}

func openCostNode(t *testing.T, maxValue int) *costNode {
	t.Helper()
	n := &costNode{t: t, clock: &leapClock{start: time.Now()}}
	n.host = open(t, Config{
		Dir: t.TempDir(), Shards: 1, Clock: Clock{n.clock}, Primitives: primitive.All(), MaxValue: maxValue, strict: true,
		watch: threadTime,
	})
	t.Cleanup(func() { closeHost(t, n.host) })
	n.router = engine.NewRouter(n.host)
	n.kv, n.queue, n.logs = n.in("default")
	return n
}

func (n *costNode) in(namespace string) (*kv.Store, *queue.Store, *stream.Store) {
	maxValue := cmp.Or(n.host.cfg.MaxValue, DefaultMaxValue)
	return engine.StoreOf[kv.Store](n.router, namespace, maxValue), engine.StoreOf[queue.Store](n.router, namespace, maxValue),
		engine.StoreOf[stream.Store](n.router, namespace, maxValue)
}

func (n *costNode) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// each calls f for all numbers below count, with a few concurrent callers.
func (n *costNode) each(count int, f func(ctx context.Context, i int) error) {
	n.t.Helper()
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 3 { // this many values of any size fit into the queue of the log
		callers.Go(func() {
			for i := int(next.Add(1)) - 1; i < count && !n.t.Failed(); i = int(next.Add(1)) - 1 {
				if err := f(n.t.Context(), i); err != nil {
					n.t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	callers.Wait()
	if n.t.Failed() {
		n.t.FailNow()
	}
}

// measure returns the cost of commands from now until f has returned and nothing is due any more.
func (n *costNode) measure(what string, f func()) map[string]engine.Effort {
	n.t.Helper()
	s := n.host.shards[0]
	n.applying(func() { s.exec.ForgetEfforts() })
	start := time.Now()
	f()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for s.exec.NextDue() <= s.clock.now() {
		if err := n.host.Err(); err != nil {
			n.t.Fatal(err)
		}
		<-look.C
	}
	took := time.Since(start)
	all := make(map[string]engine.Effort)
	n.applying(func() {
		for _, e := range s.exec.Efforts() {
			all[e.Command] = e
		}
	})
	fire, entry, commit := all["engine fire"], all["entry"], all["commit"]
	n.t.Logf("%s: %v; %d Fires in %v, the longest %v (%d rows, %d bytes, %d looks, %d steps); the longest entry %v, commit %v", what,
		took.Round(time.Millisecond),
		fire.Count, fire.Sum.Time.Round(time.Millisecond), fire.Time.Round(time.Microsecond), fire.Rows, fire.Bytes, fire.Looks, fire.Steps,
		entry.Time.Round(time.Microsecond), commit.Time.Round(time.Microsecond))
	return all
}

// applying calls f while nothing is applied.
func (n *costNode) applying(f func()) {
	s := n.host.shards[0]
	s.applier.mu.Lock()
	defer s.applier.mu.Unlock()
	f()
}

// leap advances the time; due work then runs.
func (n *costNode) leap(by time.Duration) func() {
	return func() { n.clock.ahead.Add(by.Milliseconds()) }
}

// dueCase is a kind of items that are due together.
type dueCase struct {
	name  string
	each  int    // due items in each
	small [2]int // their number in the short form
	large []int  // and in the long form
	fill  func(n *costNode, count int)
	after time.Duration
	check func(n *costNode, count int)
}

const dueEach = 1000 // messages, records or keys of each

var dueCases = []dueCase{
	{
		name: "queues with leases", each: dueEach, small: [2]int{5, 20}, large: []int{25, 50, 100, 200, 1000}, after: 2 * time.Hour,
		fill: func(n *costNode, count int) {
			n.each(count, func(ctx context.Context, i int) error {
				name := fmt.Sprint("q", i)
				if err := n.queue.Configure(ctx, name, queue.Settings{BackoffMin: queue.NoBackoff}); err != nil {
					return err
				}
				if _, err := n.queue.EnqueueMany(ctx, name, make([]queue.NewMessage, dueEach)); err != nil {
					return err
				}
				got, err := n.queue.Dequeue(ctx, name, queue.Max(dueEach), queue.Lease(time.Hour))
				if err == nil && len(got) != dueEach {
					err = fmt.Errorf("%d messages", len(got))
				}
				return err
			})
		},
		check: func(n *costNode, count int) {
			n.each(count, func(ctx context.Context, i int) error {
				st, err := n.queue.Get(ctx, fmt.Sprint("q", i))
				if err == nil && (st.Ready != dueEach || st.Expired != dueEach) {
					err = fmt.Errorf("%+v", st)
				}
				return err
			})
		},
	},
	{
		name: "queues with delays", each: dueEach, small: [2]int{5, 20}, large: []int{25, 100, 1000}, after: 2 * time.Hour,
		fill: func(n *costNode, count int) {
			n.each(count, func(ctx context.Context, i int) error {
				messages := make([]queue.NewMessage, dueEach)
				for i := range messages {
					messages[i].Options = []queue.EnqueueOption{queue.Delay(time.Hour)}
				}
				_, err := n.queue.EnqueueMany(ctx, fmt.Sprint("q", i), messages)
				return err
			})
		},
		check: func(n *costNode, count int) {
			n.each(count, func(ctx context.Context, i int) error {
				st, err := n.queue.Get(ctx, fmt.Sprint("q", i))
				if err == nil && st.Ready != dueEach {
					err = fmt.Errorf("%+v", st)
				}
				return err
			})
		},
	},
	{
		name: "groups with deliveries", each: dueEach, small: [2]int{5, 20}, large: []int{25, 100, 1000}, after: 2 * time.Hour,
		fill: func(n *costNode, count int) {
			n.appendRecords("log", dueEach)
			n.each(count, func(ctx context.Context, i int) error {
				got, err := n.logs.ReadGroup(ctx, "log", fmt.Sprint("g", i), "c", stream.Limit(dueEach), stream.AckTimeout(time.Hour),
					stream.Backoff(0, 0))
				if err == nil && len(got) != dueEach {
					err = fmt.Errorf("%d records", len(got))
				}
				return err
			})
		},
		check: func(n *costNode, count int) {
			n.each(count, func(ctx context.Context, i int) error {
				st, err := n.logs.Groups("log").Get(ctx, fmt.Sprint("g", i))
				if err == nil && (st.Pending() != dueEach || st.Members[0].Pending != 0) {
					err = fmt.Errorf("%+v", st)
				}
				return err
			})
		},
	},
	{
		name: "namespaces with keys", each: dueEach, small: [2]int{5, 20}, large: []int{25, 100, 1000}, after: time.Hour,
		fill: func(n *costNode, count int) {
			n.each(count, func(ctx context.Context, i int) error {
				txn := engine.NewTxn(n.router, fmt.Sprint("n", i), DefaultMaxValue)
				for k := range dueEach {
					txn.Do(kv.PutOp(fmt.Sprint("key", k), []byte("value"), kv.TTL(time.Hour)))
				}
				_, err := txn.Commit(ctx)
				return err
			})
		},
		check: func(n *costNode, count int) {
			n.each(count, func(ctx context.Context, i int) error {
				q := engine.NamespaceQuery{Name: fmt.Sprint("n", i)}
				err := n.host.Query(ctx, 0, &q)
				if err == nil && (q.Info.Counts.Keys != 0 || q.Info.Counts.DeadKeys != dueEach) {
					err = fmt.Errorf("%+v", q.Info.Counts)
				}
				return err
			})
		},
	},
	{
		name: "keys of a megabyte", each: 1, small: [2]int{10, 40}, large: []int{75, 300, 1000}, after: time.Hour,
		fill: func(n *costNode, count int) {
			value := bytes.Repeat([]byte("v"), 1<<20-100)
			n.each(count, func(ctx context.Context, i int) error {
				_, err := n.kv.Put(ctx, fmt.Sprint("key", i), value, kv.TTL(time.Hour))
				return err
			})
		},
		check: func(n *costNode, count int) {
			n.each(count, func(ctx context.Context, i int) error {
				if _, err := n.kv.Get(ctx, fmt.Sprint("key", i)); !errors.Is(err, kv.ErrNotFound) {
					return fmt.Errorf("it is there: %w", err)
				}
				return nil
			})
		},
	},
}

// TestDueTogether: due items are processed by Fires of bounded size, at a cost proportional to
// their number: rows visited, iterators, rows stepped over and rows sorted. N queues with 1,000
// messages each used to take 0.15, 0.58, 1.8, 7.0 s for N = 25, 50, 100, 200. Except for the first,
// the times are processor times: they are reported, but not checked.
func TestDueTogether(t *testing.T) {
	for _, c := range dueCases {
		t.Run(c.name, func(t *testing.T) {
			sizes := c.small[:]
			if *longFlag {
				sizes = c.large
			}
			for _, count := range sizes {
				c.run(t, count)
			}
		})
	}
}

func (c *dueCase) run(t *testing.T, count int) {
	t.Run(fmt.Sprint(count), func(t *testing.T) {
		n := openCostNode(t, 0)
		c.fill(n, count)
		fire := n.measure(fmt.Sprint(count, " ", c.name), n.leap(c.after))["engine fire"]
		c.check(n, count)
		// A Fire is full with 4,096 rows or 4 MiB, plus one step of a machine.
		if fire.Rows > 1<<13 || fire.Bytes > 6<<20 || fire.Looks > 1<<14 {
			t.Errorf("too much at once: %v", fire)
		}
		checkCost(t, fire.Sum, count*c.each)
	})
}

// checkCost reports each cost that exceeds the number of due items by more than a small factor. Due
// items may have to be read into memory again one at a time; no cost grows faster than their
// number.
func checkCost(t *testing.T, sum engine.Cost, things int) {
	t.Helper()
	for _, measure := range []struct {
		name       string
		took, most int
	}{
		{"rows", sum.Rows, 8 * things}, {"looks", sum.Looks, 5 * things}, {"iterators", sum.Iters, things}, {"steps", sum.Steps,
			8 * things},
		{"moves", sum.Moves, 32 * things},
	} {
		if few := 2000; measure.took > measure.most+few {
			t.Errorf("%d %s for %d things that were due, want at most %d", measure.took, measure.name, things, measure.most+few)
		}
	}
}

// appendRecords appends count small records.
func (n *costNode) appendRecords(name string, count int) {
	n.t.Helper()
	for ; count > 0; count -= dueEach {
		messages := make([]stream.Message, min(count, dueEach))
		for i := range messages {
			messages[i].Payload = []byte("record")
		}
		_, err := n.logs.AppendMany(n.t.Context(), name, messages)
		n.must(err)
	}
}
