package workflow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/workflow"
)

// calls records the calls that the actions of a random test received, by idempotency key:
// "<run>/<step>#<visit>", followed by the index for a branch.
type calls struct {
	sent   map[string][]byte           // input of the latest call of the handler
	came   map[string][]byte           // result, if the run has accepted it as the end of the call
	work   map[string]map[string]int64 // runs of handlers that have not returned -> their start
	undone map[string]bool
}

func newCalls() *calls {
	return &calls{make(map[string][]byte), make(map[string][]byte), make(map[string]map[string]int64), make(map[string]bool)}
}

// undoOf is the suffix of the keys of compensating calls.
const undoOf = "/compensate"

// took records the start of a handler, and fails the test if it compensates a visit that must not
// be compensated, or not yet.
func (c *calls) took(t *testing.T, task *action.Task, now int64, strict bool) {
	visit, undo := strings.CutSuffix(task.IdempotencyKey, undoOf)
	if !undo {
		c.sent[visit] = task.Input
		if c.work[visit] == nil {
			c.work[visit] = make(map[string]int64)
		}
		c.work[visit][string(task.Run)] = now
		return
	}
	if c.undone[visit] {
		t.Errorf("%s is compensated again", visit)
	}
	var in struct{ Input, Output json.RawMessage }
	if json.Unmarshal(task.Input, &in) == nil && in.Input != nil {
		c.checkData(t, visit, in.Input, in.Output, strict)
	}
	for _, key := range c.of(visit) {
		for run, since := range c.work[key] {
			if strict && now < since+3000 { // no attempt is shorter
				t.Errorf("%s is compensated while %s carries out %s", visit, run, key)
			}
		}
	}
}

// checkData compares the input of a visit's compensation with the visit's input and output.
func (c *calls) checkData(t *testing.T, visit string, input, output []byte, strict bool) {
	if sent, ok := c.sent[visit]; ok && !bytes.Equal(sent, input) {
		t.Errorf("%s is compensated with the input %s, and was called with %s", visit, input, sent)
	}
	if came, ok := c.came[visit]; ok && strict && !bytes.Equal(came, output) {
		t.Errorf("%s is compensated with the output %s, and has come to %s", visit, output, came)
	}
	var list []json.RawMessage
	if json.Unmarshal(output, &list) != nil {
		return
	}
	for i, got := range list {
		if came, ok := c.came[fmt.Sprintf("%s[%d]", visit, i)]; ok && strict && !bytes.Equal(came, got) {
			t.Errorf("%s is compensated with the output %s of branch %d, which has come to %s", visit, got, i, came)
		}
	}
}

// of returns the keys of the calls of a visit.
func (c *calls) of(visit string) (keys []string) {
	for key := range c.work {
		if key == visit || strings.HasPrefix(key, visit+"[") {
			keys = append(keys, key)
		}
	}
	return keys
}

// returned records the return of a handler. came is the result that the run has accepted as the end
// of the call, nil if it has not.
func (c *calls) returned(task *action.Task, came []byte) {
	visit, undo := strings.CutSuffix(task.IdempotencyKey, undoOf)
	if undo {
		c.undone[visit] = c.undone[visit] || came != nil
		return
	}
	delete(c.work[visit], string(task.Run))
	if came != nil {
		c.came[visit] = came
	}
}

// trail folds the history of a run into the visits that may have had effects, and must therefore be
// compensated.
type trail struct {
	def     *flow.Definition
	undo    []string        // steps to compensate, the last one last
	open    string          // the step in progress
	called  map[string]bool // its calls that have not ended, by their step or branch
	asked   map[string]bool // its children that may have been refused: the history records refusals only of missing ones
	suspect string          // the last step, if it may need compensation
	marked  bool            // it may have had an effect
	ended   workflow.Status
}

// auditHistory folds a history and returns its inconsistencies, with itself or with the run.
func auditHistory(d *flow.Definition, run *workflow.RunInfo, events []workflow.Event) string {
	if len(events) == 0 || events[0].Type != workflow.WorkflowStarted {
		return "its history does not begin with a start"
	}
	f := trail{def: d, called: make(map[string]bool), asked: make(map[string]bool)}
	for i := range events {
		if problem := f.take(&events[i]); problem != "" {
			return problem
		}
	}
	if f.ended != run.Status {
		return fmt.Sprintf("its history says %s", f.ended)
	}
	return ""
}

var ends = map[workflow.EventType]workflow.Status{
	workflow.WorkflowCompleted: workflow.Completed, workflow.WorkflowFailed: workflow.Failed,
	workflow.WorkflowCancelled: workflow.Cancelled, workflow.WorkflowTimedOut: workflow.TimedOut,
}

func (f *trail) take(e *workflow.Event) string {
	if f.ended != 0 && e.Type != workflow.WorkflowRetried {
		return "it goes on after its end: " + e.Type.String()
	}
	switch e.Type {
	case workflow.StepStarted:
		if f.open != "" {
			return "step " + e.Step + " begins while " + f.open + " is taken"
		}
		f.open, f.marked = e.Step, false
		clear(f.called)
		clear(f.asked)
	case workflow.AwaitingAction, workflow.ChildStarted:
		f.marked = f.marked || f.called[e.Step] // the previous call was given up
		f.called[e.Step] = true
		delete(f.asked, e.Step)
	case workflow.AwaitingChild:
		f.asked[e.Step] = true
	case workflow.ActionNotFound, workflow.ActionDisabled, workflow.ChildNotFound:
		delete(f.called, e.Step)
		delete(f.asked, e.Step)
	case workflow.ActionCompleted, workflow.ChildCompleted:
		pending := e.Outcome == workflow.OutcomePending
		f.marked = f.marked || !pending && effective(e)
		if f.called[e.Step] = pending; !pending {
			delete(f.called, e.Step)
		}
	case workflow.StepCompleted:
		if f.open != e.Step {
			return "step " + e.Step + " ends, and " + f.open + " is taken"
		}
		f.close(succeeded(e.Outcome))
	case workflow.CompensationStarted:
		if f.open != "" {
			f.close(f.open == e.Step && len(f.asked) > 0)
		} else if len(f.undo) == 0 || f.undo[len(f.undo)-1] != e.Step {
			if f.suspect == e.Step {
				f.suspect = ""
				return ""
			}
		}
		if len(f.undo) == 0 || f.undo[len(f.undo)-1] != e.Step {
			return fmt.Sprintf("step %s is compensated, and %v are to be", e.Step, f.undo)
		}
		f.undo = f.undo[:len(f.undo)-1]
	case workflow.WorkflowRetried:
		f.ended, f.open = 0, ""
	case workflow.WorkflowCompleted, workflow.WorkflowFailed, workflow.WorkflowCancelled, workflow.WorkflowTimedOut:
		if f.open != "" {
			f.close(false)
		}
		if f.ended = ends[e.Type]; f.ended == workflow.Completed {
			f.undo = nil
		}
		if len(f.undo) > 0 {
			return fmt.Sprintf("it has ended, and %v are not compensated", f.undo)
		}
	}
	return ""
}

// close ends the visit in progress. Calls that have not ended may still have any effect.
func (f *trail) close(well bool) {
	f.suspect = ""
	if compensated(f.def, f.open) && len(f.asked) > 0 {
		f.suspect = f.open
	}
	if compensated(f.def, f.open) && (well || f.marked || len(f.called) > 0) {
		f.undo = append(f.undo, f.open)
	}
	f.open = ""
}

// effective reports whether a call may have had an effect, judging by its end.
func effective(e *workflow.Event) bool {
	if e.Type == workflow.ChildCompleted {
		return e.Outcome == "completed"
	}
	return succeeded(e.Outcome) || e.Outcome == workflow.OutcomeTimeout || e.Outcome == workflow.OutcomeCancelled ||
		strings.Contains(e.Detail, "worker") ||
		strings.Contains(e.Detail, "an earlier attempt")
}

// succeeded reports whether an outcome is that of a successful step.
func succeeded(outcome string) bool {
	return !slices.Contains([]string{
		"failure", "failed", "timed_out", "cancelled", "timeout", "exhausted", "target_not_found", "target_disabled", "execution_failure",
	}, outcome)
}

func compensated(d *flow.Definition, name string) bool {
	i := slices.IndexFunc(d.Steps, func(s flow.Step) bool { return s.Name == name })
	return i >= 0 && d.Steps[i].Compensate != nil
}
