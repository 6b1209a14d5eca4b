package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
	"github.com/floedb/floe/workflow/workflowtest"
)

func order() []byte {
	return workflow.Definition{
		Name: "order",
		Start: workflow.Step{
			Do:          workflow.Call{Target: "@actions/charge", Retry: &workflow.RetryPolicy{MaxAttempts: 3, Initial: time.Hour}},
			Compensate:  &workflow.Call{Target: "@actions/refund"},
			Transitions: []workflow.Transition{{On: "success", To: "approve"}, {On: "failure", To: "flo.Failed"}},
		},
		Steps: []workflow.Step{
			{
				Name: "approve", Do: workflow.WaitFor{Signal: "approval", Timeout: 24 * time.Hour},
				Transitions: []workflow.Transition{{On: "success", To: "ship"}, {On: "timeout", To: "flo.Failed"}},
			},
			{Name: "ship", Do: workflow.Call{Target: "@actions/ship"}, Transitions: done},
		},
	}.YAML()
}

var done = []workflow.Transition{{On: "success", To: "flo.Completed"}}

// TestOrder: a charge that works at the third attempt, two hours later, and an approval.
func TestOrder(t *testing.T) {
	w := workflowtest.New(t)
	w.Create(order())
	tries := 0
	w.Handle("charge", func(_ context.Context, task *action.Task) (any, error) {
		if tries++; tries < 3 {
			return nil, errors.New("try again")
		}
		return map[string]int{"try": tries}, nil
	})
	w.Return("ship", "shipped", nil)
	begin := w.Now()
	id := w.Start("order", `{"amount":12}`)
	w.Pass(2 * time.Hour)
	if run := w.Get(id); run.Status != workflow.Waiting || run.CurrentStep != "approve" || w.Now().Sub(begin) != 2*time.Hour {
		t.Fatalf("after two hours: %+v", run.RunInfo)
	}
	w.Signal(id, "approval", `{}`)
	run := w.Finish(id)
	if run.Status != workflow.Completed || string(run.Output) != `"shipped"` {
		t.Errorf("run %+v", run)
	}
	w.ExpectPath(id, "_start: success", "approve: success", "ship: success")
}

// TestNobodyApproves: time passes until the approval is too late, and the charge is given back.
func TestNobodyApproves(t *testing.T) {
	w := workflowtest.New(t)
	w.Create(order())
	w.Return("charge", nil, nil)
	w.Return("refund", nil, nil)
	run := w.Run("order", `{}`)
	if run.Status != workflow.Failed {
		t.Errorf("run %+v", run)
	}
	w.ExpectPath(run.ID, "_start: success", "approve: timeout", "compensate _start")
}

// failing notes how it was ended.
type failing struct {
	*testing.T
	said []string
}

func (f *failing) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (f *failing) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// TestStuck: a run that waits for a signal that nobody sends ends the test, and a path that was not
// gone fails it.
func TestStuck(t *testing.T) {
	f := &failing{T: t}
	w := workflowtest.New(f)
	w.Create(workflow.Definition{Name: "wait", Start: workflow.Step{Do: workflow.WaitFor{Signal: "go"}, Transitions: done}}.YAML())
	id := w.Start("wait", "1")
	if w.ExpectPath(id, "_start: success"); len(f.said) != 1 {
		t.Errorf("a wrong path: %q", f.said)
	}
	defer func() {
		if recover() == nil {
			t.Error("Finish of a run that waits for ever returned")
		}
	}()
	w.Finish(id)
}

// TestOtherNamespaces: what a Test could not do is said at once.
func TestOtherNamespaces(t *testing.T) {
	nap := workflow.Step{Do: workflow.Sleep{}, Transitions: done}
	for want, definition := range map[string][]byte{
		"namespace \"shop\"": workflow.Definition{Name: "w", Trigger: &workflow.Trigger{Stream: "orders", Namespace: "shop"},
			Start: nap}.YAML(),
		"namespace \"other\"": []byte("name: w\nnamespace: other\nstart: { sleep: 0, transitions: { success: flo.Completed } }\n"),
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, want) {
					t.Errorf("%s\n%q, want something about %s", definition, said, want)
				}
			}()
			workflowtest.New(&failing{T: t}).Create(definition)
		}()
	}
	workflowtest.New(t).Create(workflow.Definition{Name: "w", Trigger: &workflow.Trigger{Stream: "orders", Namespace: "test"},
		Start: nap}.YAML())
}

// TestStarters: schedules tick and triggers start runs as time passes.
func TestStarters(t *testing.T) {
	w := workflowtest.New(t)
	nap := workflow.Step{Do: workflow.Sleep{For: time.Second}, Transitions: done}
	w.Create(
		workflow.Definition{Name: "hourly", Schedule: &workflow.ScheduleSpec{Cron: "0 * * * *"}, Start: nap}.YAML(),
		workflow.Definition{Name: "order", Trigger: &workflow.Trigger{Stream: "orders", BatchSize: 2, BatchTimeout: time.Second},
			Start: nap}.YAML(),
	)
	w.Pass(3 * time.Hour)
	if _, err := w.Streams().AppendMany(t.Context(), "orders",
		[]stream.Message{{Payload: []byte("1")}, {Payload: []byte("2")}, {Payload: []byte("3")}}); err != nil {
		t.Fatal(err)
	}
	w.Pass(3 * time.Second)
	for name, want := range map[string]int64{"hourly": 3, "order": 2} {
		if i, err := w.Workflows().Get(t.Context(), name); err != nil || i.Runs.Completed != want {
			t.Errorf("%s: %+v, want %d runs, %v", name, i.Runs, want, err)
		}
	}
}
