package e2e

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/workload"
	"github.com/floedb/floe/internal/transport"
)

var workKillsFlag = flag.Int("work-kills", 1, "how many processes TestWorks kills, of a cluster and of a node alone each")

// TestWorks lets clients do the works of all primitives concurrently, on processes that are killed:
// three of them, and a single one.
func TestWorks(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *processes{"three": newProcesses, "one": newProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doWorks(t, start(t), workload.Works, *workKillsFlag, actsBetweenKills)
		})
	}
}

// doWorks kills processes while clients work, after a number of acts each.
func doWorks(t *testing.T, c *processes, all []workload.Work, kills int, acts int64) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 0))
	config := transport.Config{Wire: engine.NewWire(primitive.All())}
	if slices.ContainsFunc(all, func(w workload.Work) bool { return w.Name == "keys" }) {
		config.Key = auth.Secret(c.firstKey())
	}
	door, err := transport.Dial(t.Context(), config, c.addrs())
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	w := &works{t: t, router: engine.NewRouter(door)}
	first := w.worker(0, rng.Uint64())
	if !workload.Open(first) {
		t.Fatal("the namespaces were not created")
	}
	var jobs []workload.Job
	var clients sync.WaitGroup
	for _, work := range all {
		job := work.New()
		if !job.Open(first) {
			t.Fatalf("the work %s could not begin", work.Name)
		}
		jobs = append(jobs, job)
		for range work.Clients {
			clients.Add(1)
			seed := rng.Uint64()
			n := w.clients.Add(1)
			go func() {
				defer clients.Done()
				job.Do(w.worker(int(n), seed))
			}()
		}
	}
	for range kills {
		w.await(acts)
		i := rng.IntN(len(c.cmds))
		c.kill(i)
		<-time.After(time.Duration(rng.IntN(500)) * time.Millisecond) // both shorter and longer than an election
		c.start(i)
	}
	w.await(acts)
	w.over.Store(true)
	clients.Wait()
	for _, job := range jobs {
		first.since = time.Now()
		job.Audit(first)
	}
	t.Logf("%d acts of %d clients, %d of them with unknown outcome", w.acts.Load(), w.clients.Load(), w.unknown.Load())
}

// firstKey creates the key store: from then on clients need a key.
func (c *processes) firstKey() string {
	client, err := floe.Dial(c.t.Context(), c.addrs())
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	_, secret, err := client.Keys().Bootstrap(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return secret
}

// actsBetweenKills is the number of acts before each kill, and after the last one.
const actsBetweenKills = 200

// works is a workload.World for each client.
type works struct {
	t       *testing.T
	router  *engine.Router
	over    atomic.Bool
	clients atomic.Int64
	acts    atomic.Int64
	unknown atomic.Int64
}

// await waits until a number of further acts are done.
func (w *works) await(acts int64) {
	w.t.Helper()
	for want := w.acts.Load() + acts; w.acts.Load() < want; <-time.After(10 * time.Millisecond) {
		if w.t.Failed() {
			w.t.FailNow()
		}
	}
}

type worker struct {
	*works
	client int
	rng    *rand.Rand
	since  time.Time
}

func (w *works) worker(client int, seed uint64) *worker {
	return &worker{w, client, rand.New(rand.NewPCG(seed, 0)), time.Now()}
}

func (w *worker) Router() *engine.Router { return w.router }
func (w *worker) Rand() *rand.Rand       { return w.rng }
func (w *worker) Client() int            { return w.client }
func (w *worker) Lossy() bool            { return false }
func (w *worker) Async() bool            { return false }

func (w *worker) Working() bool {
	w.acts.Add(1)
	w.since = time.Now()
	return w.Sleep(time.Duration(w.rng.IntN(int(5*time.Millisecond)))) && !w.over.Load()
}

// worksPatience is how long a client retries a call.
const worksPatience = 2 * time.Minute

func (w *worker) Sleep(d time.Duration) bool {
	<-time.After(d)
	if time.Since(w.since) > worksPatience {
		w.t.Errorf("client %d has tried the same for %v", w.client, worksPatience)
	}
	return !w.t.Failed()
}

func (w *worker) Note(err error) {
	if errors.Is(err, floe.ErrUnknownOutcome) {
		w.unknown.Add(1)
		return
	}
	for _, known := range []error{nil, floe.ErrUnavailable, floe.ErrBusy, floe.ErrConflict, floe.ErrNotFound, floe.ErrInvalid} {
		if errors.Is(err, known) {
			return
		}
	}
	w.t.Errorf("a client got the error %v", err)
}

func (w *worker) Failf(format string, args ...any) { w.t.Error(fmt.Errorf(format, args...)) }
