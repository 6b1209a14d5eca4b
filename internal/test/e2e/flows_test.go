package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/workflow"
)

// flowWorkerEnv makes the test binary carry out the actions of workflows, until its standard input
// ends; then it drains.
const flowWorkerEnv = "FLOE_EXERCISE_FLOW_WORKER"

var (
	flowRunsFlag = flag.Int("flow-runs", 60,
		"how many runs of TestFlows are under way at once, in a plain namespace and a spread one together")
	flowKillsFlag = flag.Int("flow-kills", 3, "how many processes TestFlows kills, of workers and of nodes")
)

// flowPlaces are the namespaces of the runs.
var flowPlaces = []string{"flows", "flowswide"}

// journey has all kinds of steps. The outcome of a run follows from its input, whatever happens to
// its workers.
const journey = `
name: journey
start:
  run: "@actions/do"
  compensate: "@actions/undo"
  transitions: { success: pay }
steps:
  pay:
    run: "@plan/payment"
    compensate: "@actions/undo"
    transitions: { success: approve }
  approve:
    waitForSignal: { type: approve, timeoutMs: 36000000, onTimeout: late }
    transitions: { success: fan, rejected: turned-down, late: flo.TimedOut }
  fan:
    parallel: { each: "$.input.legs", run: "@workflow/leg", input: { leg: "$.item" }, max_concurrency: 2 }
    compensate: "@actions/undo"
    transitions: { success: nap }
  nap:
    sleep: { ms: 30 }
    transitions: { success: last }
  last:
    run: "@actions/last"
    compensate: "@actions/undo"
    transitions: { success: flo.Completed }
terminals: { turned-down: { status: failed } }
plans:
  payment:
    executors:
      - name: first
        run: "@actions/first"
        priority: 100
        breaker: { failure_threshold: 3, cooldown_ms: 50, half_open_max_calls: 1 }
      - name: second
        run: "@actions/second"
        retry: { max_attempts: 1000, backoff: fixed, initial_delay_ms: 10 }
`

const leg = `
name: leg
start: { run: "@actions/leg", transitions: { success: flo.Completed } }
`

// errand is the input of a journey.
type errand struct {
	Fate fate  `json:"fate"`
	Legs []int `json:"legs"` // a negative one fails
}

// fate is the intended outcome of a journey.
type fate int

const (
	arrives  fate = iota
	refused       // its last step fails
	declined      // the signal declines
	dropped       // cancelled while it waits for the signal
	broken        // one of its legs fails; the step is compensated for legs that may have had effects by then
	fateCount
)

// implied is the expected result of each fate: how the run ends, which calls are carried out, and
// what is compensated, in this order.
var implied = [fateCount]struct {
	status workflow.Status
	done   []string
	undone []string
}{
	arrives:  {workflow.Completed, []string{"_start#1", "pay#2", "last#6"}, nil},
	refused:  {workflow.Failed, []string{"_start#1", "pay#2", "last#6"}, []string{"fan#4", "pay#2", "_start#1"}},
	declined: {workflow.Failed, []string{"_start#1", "pay#2"}, []string{"pay#2", "_start#1"}},
	dropped:  {workflow.Cancelled, []string{"_start#1", "pay#2"}, []string{"pay#2", "_start#1"}},
	broken:   {workflow.Failed, []string{"_start#1", "pay#2"}, []string{"pay#2", "_start#1"}},
}

// flowWork is the work of the worker processes. Each call is recorded under its idempotency key.
var flowWork = map[string]func(in errand, leg int) error{
	"do":     func(errand, int) error { return nil },
	"undo":   func(errand, int) error { return nil },
	"first":  func(in errand, _ int) error { return failIf(len(in.Legs)%2 == 0) },
	"second": func(errand, int) error { return nil },
	"leg":    func(_ errand, leg int) error { return failIf(leg < 0) },
	"last":   func(in errand, _ int) error { return failIf(in.Fate == refused) },
}

func failIf(bad bool) error {
	if bad {
		return action.Permanent(errors.New("as it is meant"))
	}
	return nil
}

// runFlowWorker carries out the actions of workflows, through a client with the given addresses.
func runFlowWorker(text string) error { return workThrough(text, workOnFlows) }

func workOnFlows(ctx context.Context, db *floe.Client) error {
	said := make(chan error, len(flowPlaces))
	for _, place := range flowPlaces {
		w := db.Action(place).Worker(action.WorkerConfig{ID: fmt.Sprint("process ", os.Getpid()), Concurrency: 16})
		for name, f := range flowWork {
			w.Handle(name, func(ctx context.Context, t *action.Task) (any, error) { return doFlowWork(ctx, db.KV(place), t, f) })
		}
		go func() { said <- w.Run(ctx) }()
	}
	for range cap(said) {
		if err := <-said; err != nil {
			return err
		}
	}
	return nil
}

func doFlowWork(ctx context.Context, notes *kv.Store, t *action.Task, f func(errand, int) error) (any, error) {
	var in struct {
		errand
		Leg int `json:"leg"`
	}
	if err := json.Unmarshal(t.Input, &in); err != nil {
		return nil, action.Permanent(err)
	}
	if _, err := notes.Put(ctx, "noted/"+t.IdempotencyKey, []byte(t.Action)); err != nil {
		return nil, err
	}
	<-time.After(time.Duration(rand.IntN(int(40 * time.Millisecond))))
	return len(in.Legs), f(in.errand, in.Leg)
}

// TestFlows runs many workflows concurrently while worker processes and nodes are killed. Each run
// must have the outcome that its definition and input imply. Each necessary call must be carried
// out, and exactly the right steps compensated, once and in reverse order.
func TestFlows(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *processes{"three": newProcesses, "one": newProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &flows{t: t, nodes: start(t), rng: rand.New(rand.NewPCG(machinetest.Seed(t), 0)), runs: make(map[string][]workflow.RunID)}
			f.run()
		})
	}
}

type flows struct {
	t     *testing.T
	nodes *processes
	db    *floe.Client
	rng   *rand.Rand
	cmds  [3]*exec.Cmd
	stdin [3]io.Closer
	runs  map[string][]workflow.RunID // by namespace, in the order of their numbers
}

// count is the number of runs in each namespace.
func (f *flows) count() int { return *flowRunsFlag / len(flowPlaces) }

func (f *flows) fate(n int) fate { return fate(n) % fateCount }

func (f *flows) run() {
	f.db = f.nodes.client()
	f.define()
	for i := range f.cmds {
		f.start(i)
	}
	var killed sync.WaitGroup
	killed.Go(f.kill)
	f.each(func(place string, n int) { f.runs[place][n] = f.begin(place, n) })
	f.each(func(place string, n int) { f.await(place, n, workflow.Waiting) })
	killed.Wait()
	killed.Go(f.kill)
	f.each(f.decide)
	killed.Wait()
	f.each(f.audit)
	for _, place := range flowPlaces {
		f.recount(place)
	}
	for i := range f.cmds {
		_ = f.stdin[i].Close()
		if err := f.cmds[i].Wait(); err != nil {
			f.t.Errorf("worker process %d: %v", i, err)
		}
	}
}

func (f *flows) define() {
	ctx := f.t.Context()
	for _, place := range flowPlaces {
		f.runs[place] = make([]workflow.RunID, f.count())
		if strings.HasSuffix(place, "wide") {
			if err := f.db.Namespaces().Create(ctx, place, floe.Spread()); err != nil {
				f.t.Fatal(err)
			}
		}
		for name := range flowWork { // enough retries that kills make no run fail
			ok[int](f.t)(f.db.Action(place).Register(ctx, name, action.Timeout(time.Hour), action.MaxAttempts(1001), action.Backoff(0, 0)))
		}
		for _, source := range []string{leg, journey} {
			ok[workflow.Created](f.t)(f.db.Workflow(place).Create(ctx, []byte(source)))
		}
	}
}

// each calls g for all runs, with many calls at a time.
func (f *flows) each(g func(place string, n int)) {
	f.t.Helper()
	const callers = 25
	var all sync.WaitGroup
	for _, place := range flowPlaces {
		for from := range callers {
			all.Go(func() {
				for n := from; n < f.count() && !f.t.Failed(); n += callers {
					g(place, n)
				}
			})
		}
	}
	all.Wait()
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// kill repeatedly kills and restarts a worker, or the node that leads a shard, until half of the
// kills are done.
func (f *flows) kill() {
	for n := range max(*flowKillsFlag/2, 1) {
		<-time.After(time.Duration(f.rng.IntN(500)) * time.Millisecond)
		if i := f.rng.IntN(2 * len(f.cmds)); i < len(f.cmds) {
			_ = f.cmds[i].Process.Kill()
			_ = f.cmds[i].Wait()
			f.start(i)
			continue
		}
		i := leader(f.t, f.db, n%3)
		f.nodes.kill(i)
		f.nodes.start(i)
	}
}

func (f *flows) start(i int) {
	text, err := json.Marshal(f.nodes.addrs())
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), flowWorkerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	if f.stdin[i], err = cmd.StdinPipe(); err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.cmds[i] = cmd
	f.t.Cleanup(func() { _ = cmd.Process.Kill() })
}

// insist repeats f until the outcome is known. A conflict may be due to an earlier call of unknown
// outcome.
func (f *flows) insist(what string, call func() error) {
	unknown := false
	for f.t.Context().Err() == nil {
		err := call()
		switch {
		case err == nil, unknown && errors.Is(err, floe.ErrConflict):
			return
		case errors.Is(err, floe.ErrUnknownOutcome):
			unknown = true
		case !errors.Is(err, floe.ErrUnavailable) && !errors.Is(err, floe.ErrBusy):
			f.t.Errorf("%s: %v", what, err)
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// begin starts a run; the idempotency key ensures that it starts once.
func (f *flows) begin(place string, n int) (id workflow.RunID) {
	in := errand{f.fate(n), slices.Repeat([]int{1}, n%4)}
	if in.Fate == broken {
		in.Legs = append(in.Legs, -1)
	}
	input, err := json.Marshal(in)
	if err != nil {
		f.t.Fatal(err)
	}
	f.insist(fmt.Sprintf("the start of %d in %s", n, place), func() error {
		s, err := f.db.Workflow(place).Start(f.t.Context(), "journey", input, workflow.IdempotencyKey(fmt.Sprint(n)))
		id = s.Run
		return err
	})
	return id
}

// await waits until a run waits for its signal, or has ended.
func (f *flows) await(place string, n int, want workflow.Status) {
	id := f.runs[place][n]
	for until := time.Now().Add(5 * time.Minute); f.t.Context().Err() == nil; <-time.After(20 * time.Millisecond) {
		run, err := f.db.Workflow(place).Runs().Get(f.t.Context(), id)
		if err == nil && run.Status == want && (want.Final() || run.CurrentStep == "approve") {
			return
		}
		if err != nil && !errors.Is(err, floe.ErrUnavailable) || run.Status.Final() || time.Now().After(until) {
			f.t.Errorf("run %d in %s (%s) is %s at %q and waits for %s, not %s: %s, %v", n, place, id, run.Status, run.CurrentStep,
				run.Waits, want, run.Error, err)
			return
		}
	}
}

// decide applies its fate to a waiting run.
func (f *flows) decide(place string, n int) {
	id, store, ctx := f.runs[place][n], f.db.Workflow(place), f.t.Context()
	f.insist(fmt.Sprintf("the fate of %d in %s", n, place), func() (err error) {
		switch f.fate(n) {
		case dropped:
			_, err = store.Cancel(ctx, id, "as it is meant")
		case declined:
			_, err = store.Signal(ctx, id, "approve", []byte(`{"outcome":"rejected"}`))
		default:
			_, err = store.Signal(ctx, id, "approve", nil)
		}
		return err
	})
}

// audit waits for the end of a run, and compares it, its history and its recorded calls with its
// fate.
func (f *flows) audit(place string, n int) {
	id, want := f.runs[place][n], implied[f.fate(n)]
	f.await(place, n, want.status)
	if f.t.Failed() {
		return
	}
	started, completed, undone, doubt, problem := f.fold(place, id)
	if f.fate(n) == broken && len(undone) > 0 && undone[0] == "fan" {
		want.undone = implied[refused].undone
	}
	if f.fate(n) == refused && doubt["last"] {
		want.undone = append([]string{"last#6"}, want.undone...) // a killed worker may have carried it out
	}
	var steps []string
	for _, at := range want.undone {
		step, _, _ := strings.Cut(at, "#")
		steps = append(steps, step)
	}
	if !slices.Equal(undone, steps) {
		problem = fmt.Sprintf("has compensated %v, want %v", undone, steps)
	}
	for step, times := range started {
		if times != 1 || completed[step] != 1 && !(f.fate(n) == dropped && step == "approve") {
			problem = fmt.Sprintf("step %s was begun %d times and ended %d times", step, times, completed[step])
		}
	}
	noted := make(map[string]bool)
	f.insist("the notes", func() error {
		clear(noted)
		for item, err := range f.db.KV(place).All(f.t.Context(), kv.Prefix("noted/"+string(id)+"/")) {
			if err != nil {
				return err
			}
			noted[strings.TrimPrefix(item.Key, "noted/"+string(id)+"/")] = true
		}
		return nil
	})
	all := make(map[string]bool)
	for _, at := range want.done {
		all[at] = true
	}
	for _, at := range want.undone {
		all[at+"/compensate"] = true
	}
	if !maps.Equal(noted, all) {
		problem = fmt.Sprintf("has had %v carried out, want %v", slices.Sorted(maps.Keys(noted)), slices.Sorted(maps.Keys(all)))
	}
	if problem != "" {
		f.t.Errorf("run %d in %s (%s, %s): %s", n, place, id, want.status, problem)
	}
}

// fold returns how often steps start and complete in a history, what was compensated, in order, and
// which steps lost an attempt before the last one.
func (f *flows) fold(place string, id workflow.RunID) (started, completed map[string]int, undone []string, doubt map[string]bool,
	problem string) {
	f.insist("the history", func() error {
		started, completed, undone, doubt, problem = make(map[string]int), make(map[string]int), nil, make(map[string]bool), ""
		last := workflow.EventType(0)
		for e, err := range f.db.Workflow(place).History(id).All(f.t.Context()) {
			if err != nil {
				return err
			}
			switch last = e.Type; e.Type {
			case workflow.StepStarted:
				started[e.Step]++
			case workflow.StepCompleted:
				completed[e.Step]++
			case workflow.ActionCompleted:
				doubt[e.Step] = doubt[e.Step] || strings.Contains(e.Detail, "an earlier attempt timed out or was lost")
			case workflow.CompensationCompleted:
				undone = append(undone, e.Step)
			case workflow.CompensationFailed:
				problem = "the compensation of " + e.Step + " has failed: " + e.Detail
			}
		}
		if !slices.Contains([]workflow.EventType{workflow.WorkflowCompleted, workflow.WorkflowFailed, workflow.WorkflowCancelled}, last) {
			problem = "its history ends with " + last.String()
		}
		return nil
	})
	return started, completed, undone, doubt, problem
}

// recount compares the counters of the namespace with the fates.
func (f *flows) recount(place string) {
	var want workflow.RunCounts
	for n := range f.count() {
		want.Total++
		switch implied[f.fate(n)].status {
		case workflow.Completed:
			want.Completed++
		case workflow.Failed:
			want.Failed++
		case workflow.Cancelled:
			want.Cancelled++
		}
	}
	info := ok[workflow.Info](f.t)(f.db.Workflow(place).Get(f.t.Context(), "journey"))
	if info.Runs != want {
		f.t.Errorf("%s counts %+v, want %+v", place, info.Runs, want)
	}
}
