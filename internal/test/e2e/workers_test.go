package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// workerEnv makes the test binary carry out actions, until its standard input ends; then it drains.
const workerEnv = "FLOE_EXERCISE_WORKER"

var workerKillsFlag = flag.Int("worker-kills", 3, "how many processes TestWorkers kills, of workers and of nodes")

// The work of TestWorkers, in a plain namespace and in a spread one.
const (
	workedRuns    = 150 // in each
	workedRetries = 50  // enough that kills make no run fail
	workedKeys    = 10  // each may have one active run
	askedWrong    = 7   // runs whose number is a multiple fail the first time

	stopTime = 4 * time.Second // longer than leases with shortened duty intervals
)

var workedPlaces = []string{"work", "workwide"}

// job is the input of a run.
type job struct{ N int }

// workName is the name of the action.
const workName = "job"

// runWorker carries out actions through a client with the given addresses, and records the attempts
// of each run.
func runWorker(text string) error { return workThrough(text, workOnRuns) }

func workOnRuns(ctx context.Context, db *floe.Client) error {
	said := make(chan error, len(workedPlaces))
	for _, place := range workedPlaces {
		w := db.Action(place).Worker(action.WorkerConfig{ID: fmt.Sprint("process ", os.Getpid()), Concurrency: 8})
		action.Handle(w, workName, func(ctx context.Context, in job) (int, error) { return carryOut(ctx, db.KV(place), in) })
		go func() { said <- w.Run(ctx) }()
	}
	for range cap(said) {
		if err := <-said; err != nil {
			return err
		}
	}
	return nil
}

// carryOut records an attempt with its run ID, and returns twice the number.
func carryOut(ctx context.Context, notes *kv.Store, in job) (int, error) {
	t := action.TaskOf(ctx)
	if _, err := notes.Put(ctx, fmt.Sprintf("attempts/%d/%d", in.N, t.Attempt), []byte(t.Run)); err != nil {
		return 0, err
	}
	<-time.After(time.Duration(rand.IntN(int(150 * time.Millisecond))))
	if in.N%askedWrong == 0 && t.Attempt == 1 {
		panic("the first attempt")
	}
	return 2 * in.N, nil
}

// TestWorkers has three processes carry out runs. Processes are killed, nodes now and then as well,
// and one process is stopped for longer than its lease. Each run must be completed once, by its
// last attempt, which a worker has had. Runs of a killed process must be retried by others after
// the lease, and late calls of the stopped one refused.
func TestWorkers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *processes{"three": newProcesses, "one": newProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &workers{t: t, nodes: start(t), rng: rand.New(rand.NewPCG(machinetest.Seed(t), 0)), runs: make(map[string][]action.RunID)}
			w.run()
		})
	}
}

type workers struct {
	t     *testing.T
	nodes *processes
	rng   *rand.Rand
	cmds  [3]*exec.Cmd
	stdin [3]io.Closer
	runs  map[string][]action.RunID // by namespace, in the order of their numbers
}

func (w *workers) run() {
	db := w.nodes.client()
	w.register(db)
	for i := range w.cmds {
		w.start(i)
	}
	var callers sync.WaitGroup
	for _, place := range workedPlaces {
		runs := make([]action.RunID, workedRuns)
		w.runs[place] = runs
		for from := range workedKeys {
			callers.Go(func() {
				for n := from; n < workedRuns; n += workedKeys {
					runs[n] = w.invoke(db, place, n)
				}
			})
		}
	}
	<-time.After(100 * time.Millisecond)
	late := w.cmds[0].Process
	if err := late.Signal(syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	defer time.AfterFunc(stopTime, func() { _ = late.Signal(syscall.SIGCONT) }).Stop()
	for range *workerKillsFlag {
		<-time.After(time.Duration(w.rng.IntN(500)) * time.Millisecond)
		if n := w.rng.IntN(len(w.cmds) + 1); n < len(w.cmds) {
			_ = w.cmds[n].Process.Kill()
			_ = w.cmds[n].Wait()
			w.start(n)
			continue
		}
		i := w.rng.IntN(len(w.nodes.cmds))
		w.nodes.kill(i)
		w.nodes.start(i)
	}
	callers.Wait()
	for _, place := range workedPlaces {
		w.audit(db, place)
	}
	for i := range w.cmds {
		_ = w.stdin[i].Close()
		if err := w.cmds[i].Wait(); err != nil {
			w.t.Errorf("worker process %d: %v", i, err)
		}
	}
}

func (w *workers) register(db *floe.Client) {
	ctx := w.t.Context()
	for _, place := range workedPlaces {
		if strings.HasSuffix(place, "wide") {
			if err := db.Namespaces().Create(ctx, place, floe.Spread()); err != nil {
				w.t.Fatal(err)
			}
		}
		ok[int](w.t)(db.Action(place).Register(ctx, workName,
			action.Timeout(time.Hour), action.MaxAttempts(1+workedRetries), action.Backoff(0, 0), action.MaxRunningPerKey(1)))
	}
}

func (w *workers) start(i int) {
	text, err := json.Marshal(w.nodes.addrs())
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	if w.stdin[i], err = cmd.StdinPipe(); err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.cmds[i] = cmd
	w.t.Cleanup(func() { _ = cmd.Process.Kill() })
}

// invoke invokes a run, repeating the call until the run exists for certain.
func (w *workers) invoke(db *floe.Client, place string, n int) action.RunID {
	input, opts := fmt.Appendf(nil, `{"N":%d}`, n), []action.InvokeOption{
		action.IdempotencyKey(fmt.Sprint(n)), action.ConcurrencyKey(fmt.Sprint(n % workedKeys)), action.Priority(n % 3),
	}
	for {
		i, err := db.Action(place).Invoke(w.t.Context(), workName, input, opts...)
		switch {
		case err == nil:
			return i.Run
		case !errors.Is(err, floe.ErrUnavailable) && !errors.Is(err, floe.ErrBusy):
			w.t.Errorf("Invoke of %d in %s = %v", n, place, err)
			return ""
		}
		<-time.After(10 * time.Millisecond)
	}
}

// audit waits for all runs, and compares each with the records of its handlers.
func (w *workers) audit(db *floe.Client, place string) {
	t, store, notes := w.t, db.Action(place), db.KV(place)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	seen, attempts := make(map[action.RunID]bool), 0
	for n, id := range w.runs[place] {
		run, err := store.Wait(ctx, id)
		for errors.Is(err, floe.ErrUnavailable) && ctx.Err() == nil {
			run, err = store.Wait(ctx, id)
		}
		if err != nil || seen[id] {
			t.Errorf("run %s of %s, of number %d: %v, known already: %v", id, place, n, err, seen[id])
			continue
		}
		seen[id] = true
		attempts += run.Attempt
		if run.Status != action.Completed || string(run.Output) != fmt.Sprint(2*n) || run.Attempt > run.MaxAttempts || n%askedWrong == 0 &&
			run.Attempt < 2 {
			t.Errorf("run %d of %s is %+v", n, place, run)
		}
		// The attempt that completed it was started, and it was the last one. An earlier attempt
		// may have been lost in transit.
		if e, err := notes.Get(ctx, fmt.Sprintf("attempts/%d/%d", n, run.Attempt)); err != nil || string(e.Value) != string(id) {
			t.Errorf("run %d of %s was completed by attempt %d, and its handler has noted %q, %v", n, place, run.Attempt, e.Value, err)
		}
		if there, err := notes.Exists(ctx, fmt.Sprintf("attempts/%d/%d", n, run.Attempt+1)); there || err != nil {
			t.Errorf("run %d of %s was completed by attempt %d, and has one more, %v", n, place, run.Attempt, err)
		}
	}
	info := ok[action.Info](t)(store.Get(ctx, workName))
	if want := (action.RunCounts{Total: workedRuns, Completed: workedRuns}); info.Runs != want {
		t.Errorf("%s counts %+v, want %+v", place, info.Runs, want)
	}
	t.Logf("%s: %d runs took %d attempts", place, len(seen), attempts)
}
