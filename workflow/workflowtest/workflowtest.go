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

// TB is the part of a test that New needs; *testing.T, *testing.B and *testing.F implement it.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Test is a store of workflows and actions with its own clock, which begins at 2001-09-09 01:46:40
// UTC. It is for one goroutine.
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
	maxPayload = 16 << 20 // the largest max_value_size
	maxRounds  = 100_000  // after which a test is considered endless
	maxTicks   = 1000     // after which Finish stops waiting for a run that has no timer of its own
)

// New returns an empty Test.
func New(t TB) *Test {
	t.Helper()
	d := open(t)
	return &Test{t: t, door: d, flows: d.flows(), actions: d.actions(), handlers: make(map[string]action.Handler)}
}

// Workflows returns the store of the workflows, for calls that Test has no method for. Its Wait
// blocks until the run has ended: use Finish instead.
func (w *Test) Workflows() *workflow.Store { return w.flows }

// Actions returns the store of the actions.
func (w *Test) Actions() *action.Store { return w.actions }

// Streams returns the store of the streams whose records start runs. Appended records are delivered
// as time passes, see Pass.
func (w *Test) Streams() *stream.Store { return w.door.streams() }

// Now returns the current time of the test.
func (w *Test) Now() time.Time { return time.UnixMilli(w.door.Now()) }

// Create creates workflows from their definitions, see workflow.Store.Create. A mistake in one ends
// the test. So does a definition for a namespace, or with a trigger that reads a stream of one: a
// Test has a single namespace, called "test".
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

// Handle sets f as the handler of an action; the test calls it when a run is due. A later call
// replaces the handler. If the action is not registered, Handle registers it with its defaults, see
// Actions.
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

// Return is Handle for an action that always returns the same values.
func (w *Test) Return(name string, result any, err error) {
	w.t.Helper()
	w.Handle(name, func(context.Context, *action.Task) (any, error) { return result, err })
}

// Start starts a run with a JSON input, and does all work that is due without advancing time.
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

// Signal sends a signal with a JSON payload to a run, and does all work that is due without
// advancing time.
func (w *Test) Signal(id workflow.RunID, signal, payload string) {
	w.t.Helper()
	if _, err := w.flows.Signal(context.Background(), id, signal, []byte(payload)); err != nil {
		w.t.Fatalf("workflowtest: signal %q: %v", signal, err)
	}
	w.settle()
}

// Cancel cancels a run, and does all work that is due without advancing time.
func (w *Test) Cancel(id workflow.RunID, reason string) {
	w.t.Helper()
	if _, err := w.flows.Cancel(context.Background(), id, reason); err != nil {
		w.t.Fatalf("workflowtest: cancel: %v", err)
	}
	w.settle()
}

// Get returns the current state of a run.
func (w *Test) Get(id workflow.RunID) workflow.Run {
	w.t.Helper()
	run, err := w.flows.Runs().Get(context.Background(), id)
	if err != nil {
		w.t.Fatalf("workflowtest: %v", err)
	}
	return run
}

// Finish advances time until a run has ended, and returns the run. It fails the test if the run
// would never end, such as one that waits for a signal.
func (w *Test) Finish(id workflow.RunID) workflow.Run {
	w.t.Helper()
	w.settle()
	ticks := 0
	for range maxRounds {
		run := w.Get(id)
		if run.Status.Final() {
			return run
		}
		if w.door.x.NextDue() == never { // schedules tick forever, which rarely ends a run
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

// Pass advances time by d and does all work that comes due.
func (w *Test) Pass(d time.Duration) {
	w.t.Helper()
	w.settle() // includes work that the test has caused meanwhile
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

// skip advances to the next due time, but not beyond until, and does the due work. It reports
// whether there was any.
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

// settle executes actions until no work is due.
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

// Path returns the executed steps of a run, each with its outcome, such as "charge: failure", and
// its compensations, such as "compensate charge".
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

// ExpectPath fails the test unless a run has executed these steps with these outcomes, see Path.
func (w *Test) ExpectPath(id workflow.RunID, want ...string) {
	w.t.Helper()
	if got := w.Path(id); !slices.Equal(got, want) {
		w.t.Errorf("run %s has gone\n\t%s\nwant\n\t%s", id, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
