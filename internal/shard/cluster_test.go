package shard

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// noLeaks fails the test if it leaks goroutines. Tests with failing disks cannot use it: Pebble's
// goroutines are then parked forever.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

var (
	seedFlag = flag.Uint64("seed", 0, "seed of randomised tests; 0 chooses one")
	longFlag = flag.Bool("long", false, "run exhaustive tests in their long forms")
)

// seed returns the seed of a randomised test and prints how to repeat it.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("repeat with: go test ./internal/shard -run '^%s$' -seed %d", t.Name(), s)
	return s
}

// cluster is three hosts in one process, each with an in-memory file system.
type cluster struct {
	t      *testing.T
	net    *Network
	fs     map[uint64]*vfs.MemFS
	config func(*Config)

	mu    sync.Mutex // guards hosts
	hosts map[uint64]*Host
}

func (c *cluster) host(id uint64) *Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts[id]
}

func (c *cluster) setHost(id uint64, h *Host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts[id] = h
}

func newCluster(t *testing.T, seed uint64, config func(*Config)) *cluster {
	c := &cluster{t: t, net: NewNetwork(seed), hosts: map[uint64]*Host{}, fs: map[uint64]*vfs.MemFS{}, config: config}
	t.Cleanup(func() {
		for id := uint64(1); id <= 3; id++ {
			c.stop(id)
		}
		c.net.Close()
	})
	for id := uint64(1); id <= 3; id++ {
		c.fs[id] = vfs.NewMem()
		c.start(id)
	}
	return c
}

func (c *cluster) start(id uint64) {
	cfg := Config{
		Dir: "node", Shards: 2, FS: c.fs[id], NodeID: id, Voters: []uint64{1, 2, 3}, Transport: c.net.Transport(id), Door: c,
		TickInterval: 10 * time.Millisecond, Primitives: []engine.Primitive{toy.Primitive()},
	}
	if c.config != nil {
		c.config(&cfg)
	}
	h, err := Open(cfg)
	if err != nil {
		c.t.Fatalf("open node %d: %v", id, err)
	}
	c.setHost(id, h)
	c.net.Join(id, h)
}

func (c *cluster) stop(id uint64) {
	h := c.host(id)
	if h == nil {
		return
	}
	c.net.Join(id, nil)
	c.setHost(id, nil)
	if err := h.Close(); err != nil {
		c.t.Errorf("close node %d: %v", id, err)
	}
}

// Shards and the other methods make the cluster a Door that follows the leaders.
func (c *cluster) Shards() int { return 2 }

func (c *cluster) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	var result []byte
	err := c.onLeader(ctx, shard, func(h *Host) (err error) {
		result, err = h.Propose(ctx, shard, cmd)
		return err
	})
	return result, err
}

func (c *cluster) Take(ctx context.Context, shard engine.ShardID, t engine.Take) (result []byte, err error) {
	err = c.onLeader(ctx, shard, func(h *Host) error {
		result, err = h.Take(ctx, shard, t)
		return err
	})
	return result, err
}

func (c *cluster) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	return c.onLeader(ctx, shard, func(h *Host) error { return h.Query(ctx, shard, q) })
}

// onLeader tries the nodes until one leads, or ctx is done. It returns an unknown outcome to the
// caller.
func (c *cluster) onLeader(ctx context.Context, shard engine.ShardID, do func(*Host) error) error {
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for {
		for id := uint64(1); id <= 3; id++ {
			h := c.host(id)
			if h == nil || !h.Leads(shard) {
				continue
			}
			err := do(h)
			if !errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrUnknownOutcome) {
				return err
			}
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("no leader of shard %d: %w", shard, ctx.Err())
		}
	}
}

// settle waits until all replicas have applied the same entries, and compares them byte for byte.
func (c *cluster) settle(ctx context.Context) {
	c.t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for shard := range engine.ShardID(c.Shards()) {
		for !c.equal(ctx, shard) {
			select {
			case <-poll.C:
			case <-ctx.Done():
				c.t.Fatalf("shard %d: replicas did not come level: %d %d %d", shard,
					c.host(1).Applied(shard), c.host(2).Applied(shard), c.host(3).Applied(shard))
			}
		}
	}
}

// equal compares the replicas of a shard if they have the same position; timers may still advance
// them.
func (c *cluster) equal(ctx context.Context, shard engine.ShardID) bool {
	c.t.Helper()
	if _, err := c.Propose(ctx, shard, engine.Skip(0)); err != nil && !errors.Is(err, engine.ErrUnknownOutcome) {
		c.t.Fatalf("settle: %v", err)
	}
	var at [4]uint64
	var rows [4][]string
	for id := uint64(1); id <= 3; id++ {
		at[id], rows[id] = dump(c.t, c.host(id).db, shard)
		if at[id] != at[1] {
			return false
		}
	}
	for id := 2; id <= 3; id++ {
		for i := range max(len(rows[1]), len(rows[id])) {
			if i >= len(rows[1]) || i >= len(rows[id]) || rows[1][i] != rows[id][i] {
				c.t.Fatalf("shard %d at index %d: node 1 has %d rows, node %d has %d, the first to differ is number %d: %.300s and %.300s",
					shard, at[1], len(rows[1]), id, len(rows[id]), i, rows[1][min(i, len(rows[1])-1)], rows[id][min(i, len(rows[id])-1)])
			}
		}
	}
	return true
}

// dump returns all rows of a shard, and their index.
func dump(t *testing.T, db *pebble.DB, shard engine.ShardID) (index uint64, rows []string) {
	t.Helper()
	state := db.NewSnapshot()
	applied, err := engine.ReadApplied(state, shard)
	must(t, err)
	lower, upper := engine.Bounds(shard)
	it, err := state.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	must(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		rows = append(rows, fmt.Sprintf("%x = %x", it.Key(), it.Value()))
	}
	must(t, it.Close())
	must(t, state.Close())
	return applied.Index, rows
}

// TestReplicasAreEqual runs all commands of the toy machine, namespaces, timers, transactions and
// the outbox on three nodes. Messages are lost, repeated, delayed and reordered, and there are
// partitions, restarts and a snapshot.
func TestReplicasAreEqual(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	rng := rand.New(rand.NewPCG(s, 1))
	// Tiny limits make flushes, truncation and so snapshots happen.
	c := newCluster(t, s, func(c *Config) { c.MemTableBytes, c.SegmentBytes, c.KeepEntries = 256<<10, 64<<10, 20 })
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c.net.SetFaults(Faults{Lose: 0.02, Repeat: 0.05, Delay: 0.1, MaxDelay: 20 * time.Millisecond})

	commands := 150
	if testing.Short() {
		commands = 40
	}
	w := workload{door: c, rng: rng}
	w.create(ctx, t)
	for round := range 6 {
		w.run(ctx, t, commands)
		victim := rng.Uint64N(3) + 1
		if round%2 == 0 {
			c.net.Isolate(victim)
			w.run(ctx, t, commands)
			c.net.Heal()
			continue
		}
		c.stop(victim)
		w.run(ctx, t, commands)
		if round == 3 {
			w.fill(ctx, t, 2<<20) // enough to truncate the log before the victim returns
			c.flushAll()
		}
		c.start(victim)
	}
	c.net.SetFaults(Faults{})
	w.drained(ctx, t)
	c.settle(ctx)
	w.check(ctx, t)
}

func (c *cluster) flushAll() {
	for id := uint64(1); id <= 3; id++ {
		h := c.host(id)
		if h == nil {
			continue
		}
		if err := h.db.Flush(); err != nil {
			c.t.Fatal(err)
		}
		if err := h.truncate(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestSnapshotBringsEmptyReplicaLevel checks that a node whose log and state are far behind
// receives a snapshot.
func TestSnapshotBringsEmptyReplicaLevel(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	c := newCluster(t, s, func(c *Config) { c.MemTableBytes, c.SegmentBytes, c.KeepEntries = 256<<10, 64<<10, 20 })
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	w := workload{door: c, rng: rand.New(rand.NewPCG(s, 2))}
	w.create(ctx, t)
	c.stop(3)
	w.run(ctx, t, 300)
	c.flushAll()
	for shard := range engine.ShardID(2) {
		if first := c.host(1).shards[shard].log.FirstIndex(); first < 10 {
			t.Fatalf("shard %d: log begins at %d, want it truncated", shard, first)
		}
	}
	c.start(3)
	w.run(ctx, t, 50)
	w.drained(ctx, t)
	c.settle(ctx)
	w.check(ctx, t)
	for shard := range engine.ShardID(2) {
		if first := c.host(3).shards[shard].log.FirstIndex(); first < 10 {
			t.Errorf("shard %d: node 3's log begins at %d: it was not given a snapshot", shard, first)
		}
	}
}

// workload moves credit between toy counters of a spread and a plain namespace and knows the
// expected sum.
type workload struct {
	door    engine.Door
	rng     *rand.Rand
	unknown int64 // credit of adds whose outcome is unknown
	added   int64
	large   int
}

const (
	toyCounters   = 20
	toyCredit     = 1000
	toySpread     = "spread"
	toyNamespaces = 2
)

func (w *workload) create(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := engine.NewNamespaces(engine.NewRouter(w.door)).Create(ctx, toySpread, true); err != nil && !errors.Is(err, engine.ErrExists) {
		t.Fatalf("create namespace: %v", err)
	}
	for i := range toyCounters {
		w.add(ctx, t, toy.Command{Kind: toy.Add, Name: name(i), Delta: toyCredit})
	}
}

func name(i int) string { return fmt.Sprintf("counter-%d", i) }

func (w *workload) do(ctx context.Context, ns string, c toy.Command) error {
	_, err := engine.NewRouter(w.door).Propose(ctx, c.Name, c.In(ns))
	return err
}

func (w *workload) add(ctx context.Context, t *testing.T, c toy.Command) {
	t.Helper()
	switch err := w.do(ctx, toySpread, c); {
	case err == nil:
		w.added += c.Delta
	case errors.Is(err, engine.ErrUnknownOutcome):
		w.unknown += c.Delta
	case errors.Is(err, engine.ErrConflict):
	default:
		t.Fatalf("%+v: %v", c, err)
	}
}

func (w *workload) run(ctx context.Context, t *testing.T, steps int) {
	t.Helper()
	for range steps {
		a, b := name(w.rng.IntN(toyCounters)), name(w.rng.IntN(toyCounters))
		amount := w.rng.Int64N(100)
		switch w.rng.IntN(5) {
		case 0:
			w.add(ctx, t, toy.Command{Kind: toy.Add, Name: a, Delta: amount})
		case 1:
			w.add(ctx, t, toy.Command{Kind: toy.Later, Name: a, Delta: amount, Delay: w.rng.Int64N(200)})
		case 2, 3:
			err := w.do(ctx, toySpread, toy.Command{Kind: toy.Send, Name: a, Target: b, Delta: amount})
			if err != nil && !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknownOutcome) {
				t.Fatalf("send: %v", err)
			}
		case 4:
			w.transfer(ctx, t, a, b, amount)
		}
	}
}

// transfer moves credit within a plain namespace by a transaction, often one that fails halfway.
func (w *workload) transfer(ctx context.Context, t *testing.T, a, b string, amount int64) {
	t.Helper()
	part := func(name string, delta int64) engine.Op {
		return toy.Command{Kind: toy.Add, Name: name, Delta: delta}.Op()
	}
	_, err := engine.NewTxn(engine.NewRouter(w.door), "plain", 1<<20).Do(part(b, amount), part(a, -amount)).Commit(ctx)
	if err != nil && !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknownOutcome) {
		t.Fatalf("transfer: %v", err)
	}
}

// fill writes incompressible names until the given number of bytes has gone through the log.
func (w *workload) fill(ctx context.Context, t *testing.T, bytes int) {
	t.Helper()
	for written := 0; written < bytes; {
		w.large++
		c := toy.Command{Kind: toy.Add, Name: fmt.Sprintf("large-%d-%s", w.large, strings.Repeat("x", 16<<10))}
		w.add(ctx, t, c)
		written += len(c.Name)
	}
}

// drained waits until all messages between shards have arrived and all timers have fired.
func (w *workload) drained(ctx context.Context, t *testing.T) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		if sum, _ := w.sum(ctx, t, toySpread); sum >= w.added && sum <= w.added+w.unknown {
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			sum, _ := w.sum(context.Background(), t, toySpread)
			t.Fatalf("sum of all counters = %d, want %d to %d: credit was lost or made", sum, w.added, w.added+w.unknown)
		}
	}
}

func (w *workload) sum(ctx context.Context, t *testing.T, ns string) (sum, count int64) {
	t.Helper()
	for shard := range w.door.Shards() {
		q := toy.Sum{Namespace: ns}
		if err := w.door.Query(ctx, engine.ShardID(shard), &q); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("sum: %v", err)
		}
		sum, count = sum+q.Sum, count+q.Count
	}
	return sum, count
}

// check compares the sums and counts with the expected ones.
func (w *workload) check(ctx context.Context, t *testing.T) {
	t.Helper()
	if sum, _ := w.sum(ctx, t, "plain"); sum != 0 {
		t.Errorf("sum of the counters moved by transactions = %d, want 0", sum)
	}
	namespaces := engine.NewNamespaces(engine.NewRouter(w.door))
	_, count := w.sum(ctx, t, toySpread)
	if info, err := namespaces.Get(ctx, toySpread); err != nil || info.Counts.Workflows != count {
		t.Errorf("namespace %q counts %d counters, %v; there are %d", toySpread, info.Counts.Workflows, err, count)
	}
}
