package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/workflow"
)

// The actions called by the workflows.
const (
	stepping = "stepping"
	undoing  = "undoing"
)

// trip has all kinds of steps. Steps that call are compensated if a run does not complete.
func trip() []byte {
	call := workflow.Call{Target: "@actions/" + stepping, Retry: &workflow.RetryPolicy{MaxAttempts: 3, Initial: 20 * time.Millisecond}}
	undo := &workflow.Call{Target: "@actions/" + undoing, Retry: &workflow.RetryPolicy{MaxAttempts: 100, Initial: 20 * time.Millisecond}}
	return workflow.Definition{
		Name: "trip", Retention: keepsRuns,
		Start: workflow.Step{Do: call, Compensate: undo, Transitions: onSuccess("wait")},
		Steps: []workflow.Step{
			{
				Name: "wait", Do: workflow.WaitFor{Signal: "go", Timeout: 2 * time.Second},
				Transitions: append(onSuccess("fan"), workflow.Transition{On: "timeout", To: "rest"}),
			},
			{Name: "fan", Do: workflow.Each{Array: "$.input", Call: call, MaxConcurrency: 2}, Compensate: undo,
				Transitions: onSuccess("rest")},
			{Name: "rest", Do: workflow.Sleep{For: 30 * time.Millisecond}, Transitions: onSuccess("child")},
			{Name: "child", Do: workflow.Call{Target: "@workflow/leg"}, Transitions: onSuccess("flo.Completed")},
		},
	}.YAML()
}

func leg() []byte {
	return workflow.Definition{
		Name: "leg", Retention: keepsRuns,
		Start: workflow.Step{Do: workflow.Call{Target: "@actions/" + stepping}, Transitions: onSuccess("flo.Completed")},
	}.YAML()
}

// keepsRuns keeps all ended runs, because they are counted at the end.
var keepsRuns = workflow.Retention{For: 1000 * time.Hour, Runs: 1_000_000}

func onSuccess(to string) []workflow.Transition {
	return []workflow.Transition{{On: "success", To: to}}
}

// flowJob runs workflows in both namespaces, with workers for their actions.
type flowJob struct {
	mu    sync.Mutex // guards what follows
	known [2]map[workflow.RunID]workflow.Status
	done  map[string]bool // idempotency keys of calls that a worker has certainly completed
}

func newFlowJob() Job {
	j := &flowJob{done: make(map[string]bool)}
	for i := range j.known {
		j.known[i] = make(map[workflow.RunID]workflow.Status)
	}
	return j
}

// flowClient starts, signals and cancels runs, and works for them.
type flowClient struct {
	World
	*flowJob
	flows   [2]*workflow.Store
	actions [2]*action.Store
	mine    [2][]workflow.RunID
	made    int
}

func (j *flowJob) client(w World) *flowClient {
	c := &flowClient{World: w, flowJob: j}
	for i, ns := range []string{Plain, Spread} {
		c.flows[i] = engine.StoreOf[workflow.Store](w.Router(), ns, MaxValue)
		c.actions[i] = engine.StoreOf[action.Store](w.Router(), ns, MaxValue)
	}
	return c
}

func (j *flowJob) Open(w World) bool {
	c := j.client(w)
	for i := range c.flows {
		for _, call := range []func() error{
			func() error { return register(c.actions[i], stepping) },
			func() error { return register(c.actions[i], undoing) },
			func() error { return c.create(i, leg()) },
			func() error { return c.create(i, trip()) },
		} {
			if !insist(w, call) {
				return false
			}
		}
	}
	return true
}

func (c *flowClient) create(which int, definition []byte) error {
	_, err := c.flows[which].Create(context.Background(), definition)
	return err
}

func (j *flowJob) Do(w World) {
	c := j.client(w)
	for w.Working() {
		w.Note(c.act(w.Rand().IntN(2)))
	}
}

func (c *flowClient) act(which int) error {
	ctx := context.Background()
	switch n := c.Rand().IntN(16); {
	case n < 4 || len(c.mine[which]) == 0:
		return c.start(which)
	case n < 11:
		return c.work(which, false)
	case n < 13:
		_, err := c.flows[which].Signal(ctx, c.one(which), "go", []byte(`1`))
		return err
	case n < 14:
		_, err := c.flows[which].Cancel(ctx, c.one(which), "by chance")
		return err
	}
	return c.look(which, c.one(which))
}

func (c *flowClient) one(which int) workflow.RunID {
	return c.mine[which][c.Rand().IntN(len(c.mine[which]))]
}

// start starts a run, repeating the call with its idempotency key until the outcome is known.
func (c *flowClient) start(which int) error {
	c.made++
	key := fmt.Sprintf("%d.%d", c.Client(), c.made)
	input := []byte(`[1,2,3]`)
	for {
		s, err := c.flows[which].Start(context.Background(), "trip", input, workflow.IdempotencyKey(key))
		switch {
		case err == nil:
			c.mine[which] = append(c.mine[which], s.Run)
			c.note(which, s.Run, s.Status)
			return nil
		case errors.Is(err, engine.ErrUnknownOutcome) && !c.Async() && c.Sleep(10*time.Millisecond):
			continue
		}
		return err
	}
}

// note records the state of a run. The state of an ended run must not change.
func (c *flowClient) note(which int, id workflow.RunID, status workflow.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.known[which][id]; was.Final() && was != status && !c.Lossy() {
		c.Failf("workflows: run %s was %s, and is %s", id, was, status)
	}
	c.known[which][id] = status
}

// look reads a run.
func (c *flowClient) look(which int, id workflow.RunID) error {
	c.mu.Lock()
	before := c.known[which][id]
	c.mu.Unlock()
	run, err := c.flows[which].Runs().Get(context.Background(), id)
	switch {
	case err == nil && (run.Status.Final() || !before.Final()):
		if run.Status.Final() {
			c.note(which, id, run.Status)
		}
	case err == nil || errors.Is(err, engine.ErrNotFound):
		if !c.Lossy() {
			c.Failf("workflows: run %s was %s, and is %s: %w", id, before, run.Status, errors.Join(err))
		}
	}
	return err
}

// work carries out some of the calls of runs, or lets them time out. If well is set, during the
// audit, all succeed.
func (c *flowClient) work(which int, well bool) error {
	ctx, rng, worker := context.Background(), c.Rand(), fmt.Sprintf("worker %d", c.Client())
	tasks, err := c.actions[which].Await(ctx, worker, []string{stepping, undoing}, action.Max(1+rng.IntN(4)))
	if err != nil {
		return err
	}
	for i := range tasks {
		t := &tasks[i]
		var end error
		switch n := rng.IntN(10); {
		case well || n < 6:
			if end = c.actions[which].Complete(ctx, t.Run, worker, []byte(`{"n":1}`), action.OfDelivery(t.Delivery)); end == nil {
				c.completed(t)
			}
		case n < 8:
			end = c.actions[which].Fail(ctx, t.Run, worker, "by chance", action.OfDelivery(t.Delivery), action.Retry())
		case n < 9:
			end = c.actions[which].Fail(ctx, t.Run, worker, "for good", action.OfDelivery(t.Delivery))
		}
		if end != nil && !errors.Is(end, engine.ErrConflict) {
			err = end
		}
	}
	return err
}

// completed notes that a call was certainly completed, which must happen only once.
func (c *flowClient) completed(t *action.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done[t.IdempotencyKey] && !c.Lossy() {
		c.Failf("workflows: %s was completed twice", t.IdempotencyKey)
	}
	c.done[t.IdempotencyKey] = true
}

// Audit does the remaining work. All runs must end, and those that did not complete must have
// compensated their steps.
func (j *flowJob) Audit(w World) {
	c := j.client(w)
	for which := range c.flows {
		left := c.runs(which)
		for len(left) > 0 {
			w.Note(c.work(which, true))
			left = slices.DeleteFunc(left, func(id workflow.RunID) bool { return c.rests(which, id) })
			if len(left) > 0 && !w.Sleep(20*time.Millisecond) {
				return
			}
		}
		if which == 0 && !c.count() {
			return
		}
	}
}

// runs returns the known runs.
func (c *flowClient) runs(which int) (ids []workflow.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.known[which] {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// rests checks a run, and its history if it has ended.
func (c *flowClient) rests(which int, id workflow.RunID) bool {
	ctx := context.Background()
	run, err := c.flows[which].Runs().Get(ctx, id)
	if errors.Is(err, engine.ErrNotFound) {
		if !c.Lossy() {
			c.Failf("workflows: run %s is lost", id)
		}
		return true
	}
	if err != nil || !run.Status.Final() {
		c.Note(err)
		return false
	}
	c.note(which, id, run.Status)
	var events []workflow.Event
	for e, err := range c.flows[which].History(id).All(ctx, workflow.Limit(workflow.MaxPageItems)) {
		if err != nil {
			c.Note(err)
			return false
		}
		events = append(events, e)
	}
	if problem := foldTrip(&run, events); problem != "" {
		for _, e := range events {
			problem += fmt.Sprintf("\n%s %s #%d %s: %s", e.Type, e.Step, e.Attempt, e.Outcome, e.Detail)
		}
		c.Failf("workflows: run %s (%s): %s", id, run.Status, problem)
	}
	return true
}

// foldTrip returns an inconsistency in the history of a run, or between the history and the run.
func foldTrip(run *workflow.Run, events []workflow.Event) string {
	if int64(len(events)) != run.Events || len(events) == 0 || events[0].Type != workflow.WorkflowStarted {
		return fmt.Sprintf("its history has %d events, of %d", len(events), run.Events)
	}
	undo, open := []string(nil), ""
	failed := "" // the last failed step: effects of its calls, if any, must be compensated
	for _, e := range events {
		compensated := e.Step == "_start" || e.Step == "fan"
		switch e.Type {
		case workflow.StepStarted:
			open = e.Step
		case workflow.StepCompleted:
			if open != e.Step {
				return fmt.Sprintf("step %s ends, and %q is taken", e.Step, open)
			}
			if open, failed = "", ""; compensated && e.Outcome != workflow.OutcomeFailure {
				undo = append(undo, e.Step)
			} else if compensated {
				failed = e.Step
			}
		case workflow.CompensationStarted:
			if e.Step == open || e.Step == failed { // it was cancelled, or its effects are unknown
				undo = append(undo, e.Step)
			}
			if open, failed = "", ""; len(undo) == 0 || undo[len(undo)-1] != e.Step {
				return fmt.Sprintf("step %s is undone, and %v are to be", e.Step, undo)
			}
			undo = undo[:len(undo)-1]
		}
	}
	last := map[workflow.EventType]workflow.Status{
		workflow.WorkflowCompleted: workflow.Completed, workflow.WorkflowFailed: workflow.Failed,
		workflow.WorkflowCancelled: workflow.Cancelled,
	}[events[len(events)-1].Type]
	if last != run.Status || last != workflow.Completed && len(undo) > 0 {
		return fmt.Sprintf("its history says that it is %s, and that %v are not undone", last, undo)
	}
	return ""
}

// count compares the listings of the plain namespace with its counts.
func (c *flowClient) count() bool {
	ctx, store := context.Background(), c.flows[0]
	return insist(c, func() error {
		info, err := store.Get(ctx, "trip")
		if err = unlessAbsent(err); err != nil {
			return err
		}
		listed := int64(0)
		for run, err := range store.Runs().All(ctx, workflow.Of("trip"), workflow.Limit(workflow.MaxPageItems)) {
			if err != nil {
				return err
			}
			listed++
			if !run.Status.Final() {
				info.Runs.Active--
			}
		}
		if listed != info.Runs.Total || info.Runs.Active != 0 {
			c.Failf("workflows: %d runs are listed, %+v are counted", listed, info.Runs)
		}
		return nil
	})
}

// flowTally creates a workflow and starts it.
func flowTally(_ *rand.Rand, tag string, payload []byte) []engine.Operation {
	nap := workflow.Definition{Name: tag + "flow",
		Start: workflow.Step{Do: workflow.Sleep{For: time.Millisecond}, Transitions: onSuccess("flo.Completed")}}
	return []engine.Operation{workflow.CreateOp(nap.YAML()), workflow.StartOp(tag+"flow", fmt.Appendf(nil, `"%x"`, payload))}
}

func countFlow(ctx context.Context, r *engine.Router, namespace, tag string) (int64, error) {
	info, err := engine.StoreOf[workflow.Store](r, namespace, 0).Get(ctx, tag+"flow")
	return info.Runs.Total, unlessAbsent(err)
}
