package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/quota"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

// world applies random operations to workflows, as users, actions and time do.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	r       *machinetest.Rig
	flows   *workflow.Store
	actions *action.Store
	defs    map[string]*flow.Definition
	runs    []workflow.RunID
	tasks   []action.Task
	calls   *calls
	strict  bool // all in one shard: a worker receives exactly the run's own state
}

var (
	actionNames = []string{"validate", "charge", "refund", "ship", "recall", "mail", "one", "two", "three", "undo-one", "undo-two",
		"undo-three", "last"}
	flowNames = []string{"mail", "order", "saga", "signals", "fan"}
)

func newWorld(t *testing.T, rng *rand.Rand, r *machinetest.Rig, namespace string) *world {
	w := &world{t: t, rng: rng, r: r, flows: flowsOf(r, namespace), actions: actionsOf(r, namespace),
		defs: make(map[string]*flow.Definition), calls: newCalls()}
	for _, name := range actionNames {
		if _, err := w.actions.Register(t.Context(), name, action.MaxAttempts(2), action.Backoff(time.Second, time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range flowNames {
		source, err := os.ReadFile("testdata/definitions/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.flows.Create(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		w.defs[name], _ = flow.Parse(source)
	}
	return w
}

// TestRandom runs random operations and repeatedly verifies all rows. Then all operations succeed
// for a while, and all runs must end. Their compensations must match their histories.
func TestRandom(t *testing.T) {
	seed := machinetest.Seed(t)
	for q := quota.New(t, 4); q.More(); {
		r := newRig(t, 1)
		w := newWorld(t, rand.New(rand.NewPCG(seed, uint64(q.Rounds()))), r, "n")
		w.strict = true
		for n := range 300 {
			w.step()
			if n%20 == 0 {
				r.Verify()
			}
		}
		w.heal()
		w.audit()
		tables := []engine.Primitive{engine.TableOf[action.Store](), engine.TableOf[stream.Store](), engine.TableOf[workflow.Store]()}
		machinetest.EqualReplicas(t, r.Log(0), tables, machinetest.Replica{}, machinetest.Replica{Name: "restarts", Commit: 3, Restart: 40})
	}
}

// TestRandomSpread: the same in a namespace that is spread over shards.
func TestRandomSpread(t *testing.T) {
	seed := machinetest.Seed(t)
	for q := quota.New(t, 2); q.More(); {
		r := newRig(t, 3)
		if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "s", true); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, rand.New(rand.NewPCG(seed, uint64(q.Rounds()))), r, "s")
		for n := range 300 {
			w.step()
			if n%20 == 0 {
				r.Verify()
			}
		}
		w.heal()
		w.audit()
	}
}

func (w *world) step() {
	ctx := context.Background()
	var err error
	switch n := w.rng.IntN(100); {
	case n < 15 || len(w.runs) == 0:
		err = w.start(ctx)
	case n < 40:
		err = w.take(ctx)
	case n < 70:
		err = w.end(ctx)
	case n < 78:
		kind := []string{"approval", "go", "end"}[w.rng.IntN(3)]
		payload := []string{`{"n":1}`, `{"outcome":"rejected"}`, `7`, ``}[w.rng.IntN(4)]
		_, err = w.flows.Signal(ctx, w.any(), kind, []byte(payload))
	case n < 82:
		_, err = w.flows.Cancel(ctx, w.any(), "by chance")
	case n < 86:
		var opts []workflow.RetryOption
		if w.rng.IntN(2) == 0 {
			opts = append(opts, workflow.FromStep([]string{"_start", "charge", "two", "any"}[w.rng.IntN(4)]))
		}
		if w.rng.IntN(3) == 0 {
			opts = append(opts, workflow.ReplaceInput([]byte(`{"edited":true}`)))
		}
		_, err = w.flows.Retry(ctx, w.any(), opts...)
	case n < 88:
		err = w.change(ctx)
	default:
		ms := int64(w.rng.IntN(3000))
		if w.rng.IntN(20) == 0 {
			ms = 4_000_000
		}
		w.r.Pass(ms)
		w.r.Fire()
	}
	w.definite(err)
}

// definite fails the test for an error that is not a definite refusal.
func (w *world) definite(err error) {
	for _, kind := range []error{nil, workflow.ErrNotFound, workflow.ErrConflict, workflow.ErrInvalid, workflow.ErrExists,
		workflow.ErrBusy} {
		if errors.Is(err, kind) {
			return
		}
	}
	w.t.Fatal(err)
}

func (w *world) any() workflow.RunID { return w.runs[w.rng.IntN(len(w.runs))] }

func (w *world) start(ctx context.Context) error {
	items := make([]string, w.rng.IntN(6))
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	if w.rng.IntN(20) == 0 {
		items = slices.Repeat([]string{"1"}, 130) // more than one command starts
	}
	input := fmt.Sprintf(`{"amount":%d,"customer":"c%d","items":[%s]}`, w.rng.IntN(3), w.rng.IntN(3), strings.Join(items, ","))
	var opts []workflow.StartOption
	if w.rng.IntN(5) == 0 {
		opts = append(opts, workflow.IdempotencyKey(fmt.Sprint(w.rng.IntN(5))))
	}
	if w.rng.IntN(5) == 0 {
		opts = append(opts[:0], workflow.UseID(workflow.RunID(fmt.Sprint("own-", w.rng.IntN(50)))))
	}
	s, err := w.flows.Start(ctx, flowNames[w.rng.IntN(len(flowNames))], []byte(input), opts...)
	if err == nil && !s.Duplicate {
		w.runs = append(w.runs, s.Run)
	}
	return err
}

func (w *world) take(ctx context.Context) error {
	tasks, err := w.actions.Await(ctx, "w", actionNames, action.Max(1+w.rng.IntN(5)))
	w.begin(tasks)
	w.tasks = append(w.tasks, tasks...)
	return err
}

func (w *world) begin(tasks []action.Task) {
	for i := range tasks {
		w.calls.took(w.t, &tasks[i], w.r.Now(), w.strict)
	}
}

// complete completes a task.
func (w *world) complete(ctx context.Context, task *action.Task, output []byte, opts ...action.EndOption) error {
	err := w.actions.Complete(ctx, task.Run, "w", output, opts...)
	came := output
	if err != nil || len(opts) > 0 || !json.Valid(output) {
		came = nil
	}
	w.calls.returned(task, came)
	return err
}

func (w *world) fail(ctx context.Context, task *action.Task, text string, opt action.EndOption) error {
	w.calls.returned(task, nil)
	return w.actions.Fail(ctx, task.Run, "w", text, opt)
}

// end ends a task in a random way, or leaves it alone until it times out.
func (w *world) end(ctx context.Context) error {
	if len(w.tasks) == 0 {
		return nil
	}
	i := w.rng.IntN(len(w.tasks))
	task := w.tasks[i]
	w.tasks = slices.Delete(w.tasks, i, i+1)
	switch w.rng.IntN(10) {
	case 0:
		return w.fail(ctx, &task, "by chance", action.Retry())
	case 1:
		return w.fail(ctx, &task, "for good", action.ErrorCode("bad"))
	case 2:
		return w.complete(ctx, &task, nil, action.OutcomeName([]string{"failure", "again", "declined", "pending", "odd"}[w.rng.IntN(5)]))
	case 3:
		return nil
	case 4:
		return w.actions.Cancel(ctx, task.Run, "by chance")
	case 5:
		return w.complete(ctx, &task, []byte("no JSON"))
	}
	return w.complete(ctx, &task, fmt.Appendf(nil, `{"id":%d}`, w.rng.IntN(1000)))
}

func (w *world) change(ctx context.Context) error {
	name := flowNames[w.rng.IntN(len(flowNames))]
	switch w.rng.IntN(4) {
	case 0:
		return w.flows.Disable(ctx, name)
	case 1:
		if err := w.flows.Delete(ctx, name, workflow.Force()); err != nil {
			return err
		}
		source, _ := os.ReadFile("testdata/definitions/" + name + ".yaml")
		_, err := w.flows.Create(ctx, source)
		return err
	}
	return w.flows.Enable(ctx, name)
}

// heal lets everything succeed, and expects all runs to end.
func (w *world) heal() {
	ctx := context.Background()
	for round := range 1000 {
		for {
			tasks, err := w.actions.Await(ctx, "w", actionNames, action.Max(100))
			if err != nil {
				w.t.Fatal(err)
			}
			if len(tasks) == 0 {
				break
			}
			w.begin(tasks)
			for _, task := range tasks {
				// An earlier task may have decided what this one is for.
				w.definite(w.complete(ctx, &task, fmt.Appendf(nil, `{"id":%d}`, w.rng.IntN(1000))))
			}
		}
		active := 0
		for run, err := range w.flows.Runs().All(ctx, workflow.Active()) {
			if err != nil {
				w.t.Fatal(err)
			}
			active++
			for _, kind := range []string{"approval", "go", "end"} {
				_, err := w.flows.Signal(ctx, run.ID, kind, []byte(`{"n":1}`))
				w.definite(err)
			}
		}
		if active == 0 {
			w.r.Verify()
			return
		}
		if round == 999 {
			w.t.Fatalf("%d runs do not end", active)
		}
		w.r.Pass(31_000) // also outlasts what is left with a worker
		w.r.Fire()
	}
}

// audit compares the compensations of runs with their histories.
func (w *world) audit() {
	ctx := context.Background()
	n := 0
	for run, err := range w.flows.Runs().All(ctx) {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
		var events []workflow.Event
		for e, err := range w.flows.History(run.ID).All(ctx) {
			if err != nil {
				w.t.Fatal(err)
			}
			events = append(events, e)
		}
		if problem := auditHistory(w.defs[run.Workflow], &run, events); problem != "" {
			w.t.Errorf("run %s of %s (%s): %s", run.ID, run.Workflow, run.Status, problem)
			for _, e := range events {
				w.t.Log(event(&e))
			}
		}
	}
	if n == 0 {
		w.t.Error("there are no runs")
	}
}
