package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

var pausesFlag = flag.Int("pauses", 20, "how often TestPausedLeader pauses a leader")

// pauseClusters run concurrently: most of the time they wait.
const pauseClusters = 4

// TestPausedLeader stops a leader for twice the election timeout, with reads in flight that only it
// receives, while the others elect a new leader and write. When it continues, it must not answer
// reads that began after the write from its old state. It finds the others' messages in its
// mailbox, or was cut off and has to contact them.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	pauses := *pausesFlag / pauseClusters
	if testing.Short() {
		pauses = 2
	}
	s := machinetest.Seed(t)
	var total pausedReads
	start := time.Now()
	t.Run("clusters", func(t *testing.T) {
		for i := range uint64(pauseClusters) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				p := &pauser{t: t, rng: rand.New(rand.NewPCG(s, i)), cluster: newCluster(t, s+i, 1), reads: &total}
				for range pauses {
					p.pause()
				}
			})
		}
	})
	n := int64(pauses * pauseClusters)
	t.Logf("%d pauses in %v: the leaders were asked for %d reads and answered %d, %d were asked after the others had written: %d stale",
		n, time.Since(start).Round(time.Millisecond), total.asked.Load(), total.answered.Load(), total.late.Load(), total.stale.Load())
	if total.answered.Load() < n || total.late.Load() < n {
		t.Error("hardly any read was asked or answered: the test has not tested what it should")
	}
}

// pausedReads counts the reads sent to leaders just before, during and just after a pause.
type pausedReads struct{ asked, answered, late, stale atomic.Int64 }

// pauser pauses the leaders of a cluster and writes the numbers from 1 on to one key.
type pauser struct {
	t       *testing.T
	rng     *rand.Rand
	cluster *cluster
	reads   *pausedReads // of all clusters
	written atomic.Int64 // acknowledged
}

const numberKey = "number"

// write writes to the nodes other than except until a write is acknowledged.
func (p *pauser) write(ctx context.Context, except uint64) {
	p.t.Helper()
	store := engine.StoreOf[kv.Store](engine.NewRouter(&door{cluster: p.cluster, except: except}), engine.DefaultNamespace, 0)
	for n := p.written.Load() + 1; ; n++ {
		_, err := store.Put(ctx, numberKey, []byte(strconv.FormatInt(n, 10)))
		if err == nil {
			p.written.Store(n)
			return
		}
		if ctx.Err() != nil {
			p.t.Fatalf("no write succeeded: %v", err)
		}
	}
}

// pause executes one round.
func (p *pauser) pause() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 60*time.Second)
	defer cancel()
	p.write(ctx, 0)
	leader := p.cluster.awaitLeader(ctx, 0, 0)
	gate, old := p.cluster.gates[leader], p.written.Load()
	store := engine.StoreOf[kv.Store](engine.NewRouter(p.cluster.host(leader)), engine.DefaultNamespace, 0)
	_, _ = store.Get(ctx, numberKey) // so that the store caches the namespace
	answered := p.reads.answered.Load()
	var readers sync.WaitGroup
	ask := func() {
		for range 4 {
			readers.Go(func() { p.read(ctx, store, old) })
		}
	}
	// Reads are in flight when the leader stops. Others arrive before the rest of the nodes have
	// elected, after they have written, and when the leader continues. Whether it is isolated, and
	// for how long, decides what it receives from others and what it must find out.
	isolated, longer := p.rng.IntN(3) > 0, p.rng.IntN(2) == 0
	var paused atomic.Bool
	for range 4 {
		readers.Go(func() {
			for !paused.Load() {
				p.read(ctx, store, old)
			}
		})
	}
	if err := poll(ctx, func() bool { return p.reads.answered.Load() > answered+8 }); err != nil {
		p.t.Fatalf("the leader answers no reads: %v", err)
	}
	twice := time.NewTimer(2 * electionTimeout)
	defer twice.Stop()
	gate.pause()
	paused.Store(true)
	if isolated {
		p.cluster.net.Isolate(leader)
	}
	ask()
	p.write(ctx, leader)
	ask()
	<-twice.C
	p.write(ctx, leader)
	ask()
	if isolated && !longer {
		p.cluster.net.Heal()
	}
	gate.resume()
	ask()
	readers.Wait()
	p.cluster.net.Heal()
}

// read queries one node, which may return the last acknowledged number, a newer one, or an error.
func (p *pauser) read(ctx context.Context, store *kv.Store, old int64) {
	floor := p.written.Load()
	p.reads.asked.Add(1)
	if floor > old {
		p.reads.late.Add(1)
	}
	e, err := store.Get(ctx, numberKey)
	if err != nil {
		return
	}
	p.reads.answered.Add(1)
	if n, err := strconv.ParseInt(string(e.Value), 10, 64); err != nil || n < floor {
		p.reads.stale.Add(1)
		p.t.Errorf("a leader that had been paused answered %q, although %d had been acknowledged before it was asked", e.Value, floor)
	}
}
