package workflowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

// TB is what New needs of a test; *testing.T, *testing.B and *testing.F have it.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Test is a store of workflows and actions with a time of its own, which begins at 2001-09-09
// 01:46:40 UTC. It is for one goroutine.
type Test struct {
	t        TB
	door     *door
	flows    *workflow.Store
	actions  *action.Store
	handlers map[string]action.Handler
	names    []string
}

const (
	namespace  = "test"
	worker     = "workflowtest"
	maxPayload = 16 << 20 // the greatest max_value_size
	maxRounds  = 100_000  // after which a test does not end by itself
	maxTicks   = 1000     // after which a run is not waited for that has no time of its own to wait for
)

// New returns an empty Test.
func New(t TB) *Test {
	t.Helper()
	d := open(t)
	return &Test{t: t, door: d, flows: d.flows(), actions: d.actions(), handlers: make(map[string]action.Handler)}
}

// Workflows returns the store of the workflows, for what a Test has no method for. Its Wait does
// not return before the run has ended: use Finish.
func (w *Test) Workflows() *workflow.Store { return w.flows }

// Actions returns the store of the actions.
func (w *Test) Actions() *action.Store { return w.actions }

// Streams returns the store of the streams whose records start runs: what is appended there is
// handed out as time passes, see Pass.
func (w *Test) Streams() *stream.Store { return w.door.streams() }

// Now returns the time.
func (w *Test) Now() time.Time { return time.UnixMilli(w.door.Now()) }

// Create creates workflows from their definitions, see workflow.Store.Create. What is wrong with
// one ends the test, and so does one that is for a namespace, or has a trigger that reads a stream
// of one: the namespace of a Test is called "test", and is the only one.
func (w *Test) Create(definitions ...[]byte) {
	w.t.Helper()
	ctx := context.Background()
	for _, d := range definitions {
		made, err := w.flows.Create(ctx, d)
		if err != nil {
			w.t.Fatalf("workflowtest: %v", err)
		}
		info, err := w.flows.Get(ctx, made.Name)
		if err != nil {
			w.t.Fatalf("workflowtest: %v", err)
		}
		if t := info.Trigger; t != nil && t.Namespace != namespace {
			w.t.Fatalf("workflowtest: the trigger of workflow %q reads a stream of namespace %q, which a Test does not have: leave "+
				"its namespace out", made.Name, t.Namespace)
		}
	}
}

// Handle has an action carried out by f, which the test calls when a run of it is due; it may be
// called again with another one. The action is registered with its defaults unless it was
// registered before, see Actions.
func (w *Test) Handle(name string, f action.Handler) {
	w.t.Helper()
	ctx := context.Background()
	if _, err := w.actions.Get(ctx, name); errors.Is(err, action.ErrNotFound) {
		_, err = w.actions.Register(ctx, name)
		if err != nil {
			w.t.Fatalf("workflowtest: register %q: %v", name, err)
		}
	}
	if w.handlers[name] == nil {
		w.names = append(w.names, name)
	}
	w.handlers[name] = f
}

// Return is Handle with an action that always returns the same.
func (w *Test) Return(name string, result any, err error) {
	w.t.Helper()
	w.Handle(name, func(context.Context, *action.Task) (any, error) { return result, err })
}

// Start starts a run with an input, which is JSON, and does all that can be done without time
// passing.
func (w *Test) Start(name, input string, opts ...workflow.StartOption) workflow.RunID {
	w.t.Helper()
	s, err := w.flows.Start(context.Background(), name, []byte(input), opts...)
	if err != nil {
		w.t.Fatalf("workflowtest: start %q: %v", name, err)
	}
	w.settle()
	return s.Run
}

// Run is Start and Finish.
func (w *Test) Run(name, input string, opts ...workflow.StartOption) workflow.Run {
	w.t.Helper()
	return w.Finish(w.Start(name, input, opts...))
}

// Signal sends a signal to a run, with a payload that is JSON, and does all that can be done
// without time passing.
func (w *Test) Signal(id workflow.RunID, signal, payload string) {
	w.t.Helper()
	if _, err := w.flows.Signal(context.Background(), id, signal, []byte(payload)); err != nil {
		w.t.Fatalf("workflowtest: signal %q: %v", signal, err)
	}
	w.settle()
}

// Cancel cancels a run, and does all that can be done without time passing.
func (w *Test) Cancel(id workflow.RunID, reason string) {
	w.t.Helper()
	if _, err := w.flows.Cancel(context.Background(), id, reason); err != nil {
		w.t.Fatalf("workflowtest: cancel: %v", err)
	}
	w.settle()
}

// Get returns a run as it is now.
func (w *Test) Get(id workflow.RunID) workflow.Run {
	w.t.Helper()
	run, err := w.flows.Runs().Get(context.Background(), id)
	if err != nil {
		w.t.Fatalf("workflowtest: %v", err)
	}
	return run
}

// Finish lets time pass until a run has ended, and returns it. It ends the test if that would never
// be, as of a run that waits for a signal.
func (w *Test) Finish(id workflow.RunID) workflow.Run {
	w.t.Helper()
	w.settle()
	ticks := 0
	for range maxRounds {
		run := w.Get(id)
		if run.Status.Final() {
			return run
		}
		if w.door.x.NextDue() == never { // schedules tick for ever, which hardly ends a run
			ticks++
		}
		if ticks > maxTicks || !w.skip(never) {
			w.t.Fatalf("workflowtest: run %s of %q is %s at step %q and waits for %s, which does not come", id, run.Workflow, run.Status,
				run.CurrentStep, run.Waits)
			return run
		}
	}
	w.t.Fatalf("workflowtest: run %s does not end", id)
	return workflow.Run{}
}

// Pass lets a time pass, with all that is due meanwhile.
func (w *Test) Pass(d time.Duration) {
	w.t.Helper()
	w.settle() // which finds what the test has done meanwhile
	until := w.door.Now() + d.Milliseconds()
	for range maxRounds {
		if !w.skip(until) {
			break
		}
	}
	w.door.now = until
	w.door.fire()
	w.settle()
}

// skip goes to the next time at which something is due, up to a time, and does it. It reports
// whether there was something.
func (w *Test) skip(until int64) bool {
	due := w.door.nextDue()
	if due == never || due > until {
		return false
	}
	w.door.now = max(w.door.now, due)
	w.door.fire()
	w.settle()
	return true
}

// settle has actions carried out until nothing is left that is due.
func (w *Test) settle() {
	w.t.Helper()
	ctx := context.Background()
	for range maxRounds {
		w.door.duties()
		if len(w.names) == 0 {
			return
		}
		tasks, err := w.actions.Await(ctx, worker, w.names, action.Max(1))
		if err != nil {
			w.t.Fatalf("workflowtest: %v", err)
		}
		if len(tasks) == 0 {
			return
		}
		task := &tasks[0]
		result, failure := w.handlers[task.Action](ctx, task)
		if err := w.actions.Finish(ctx, worker, task, result, failure); err != nil && !errors.Is(err, action.ErrConflict) {
			w.t.Fatalf("workflowtest: action %q: %v", task.Action, err)
		}
	}
	w.t.Fatalf("workflowtest: actions do not come to an end")
}

// Path returns the steps that a run has taken, each with its outcome, such as "charge: failure",
// and what it has compensated, such as "compensate charge".
func (w *Test) Path(id workflow.RunID) (path []string) {
	w.t.Helper()
	for e, err := range w.flows.History(id).All(context.Background()) {
		if err != nil {
			w.t.Fatalf("workflowtest: %v", err)
		}
		switch e.Type {
		case workflow.StepCompleted:
			path = append(path, fmt.Sprintf("%s: %s", e.Step, e.Outcome))
		case workflow.StepSkipped:
			path = append(path, e.Step+": skipped")
		case workflow.CompensationCompleted, workflow.CompensationFailed:
			path = append(path, "compensate "+e.Step)
		}
	}
	return path
}

// ExpectPath fails the test unless a run has taken these steps with these outcomes, see Path.
func (w *Test) ExpectPath(id workflow.RunID, want ...string) {
	w.t.Helper()
	if got := w.Path(id); !slices.Equal(got, want) {
		w.t.Errorf("run %s has gone\n\t%s\nwant\n\t%s", id, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
