package workflow_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/workflow"
	"github.com/floedb/floe/workflow/workflowtest"
)

// TestWideJoin: a step with 10,000 branches, the maximum, and one with more.
func TestWideJoin(t *testing.T) {
	w := workflowtest.New(t)
	w.Create(
		startsWith("wide", does(workflow.Each{Array: "$.input", Call: calling("@workflow/one")}, "success", "flo.Completed")),
		workflow.Definition{
			Name: "one", Output: "$.input", Retention: workflow.Retention{For: time.Hour,
				Runs: 10}, Start: does(workflow.Sleep{For: time.Second}, "success", "flo.Completed"),
		}.YAML(),
	)
	array := func(n int) string { return "[" + strings.Repeat("7,", n-1) + "8]" }
	if run := w.Run("wide", array(10_000)); run.Status != workflow.Completed || string(run.Output) != array(10_000) {
		t.Errorf("10,000 branches: %s, %s", run.Status, run.Error)
	}
	if run := w.Run("wide", array(10_001)); run.Status != workflow.Failed || !strings.Contains(run.Error, "more than 10000 elements") {
		t.Errorf("10,001 branches: %s, %s", run.Status, run.Error)
	}
	if run := w.Run("wide", "[]"); run.Status != workflow.Completed || string(run.Output) != "[]" {
		t.Errorf("no branch: %s, %s", run.Status, run.Error)
	}
}

// TestEndlessLoop: steps that wait for nothing are stopped; those that wait may continue
// indefinitely, and their history has pages.
func TestEndlessLoop(t *testing.T) {
	w := workflowtest.New(t)
	spin := does(calling("@actions/x"), "success", "_start")
	spin.When = "false"
	again := named("again", does(calling("@actions/x"), "success", "_start", "failure", "flo.Completed", "skipped", "flo.Completed"))
	again.When = "flo.timestamp < 1000000001500"
	w.Create(startsWith("spin", spin), startsWith("turn", does(workflow.Sleep{For: time.Millisecond}, "success", "again"), again))
	w.Return("x", nil, nil)
	run := w.Run("turn", "1")
	if run.Status != workflow.Completed || run.Events < 10_000 {
		t.Errorf("a loop of 3,000 steps: %s, %s, %d events", run.Status, run.Error, run.Events)
	}
	n := int64(0)
	for _, err := range w.Workflows().History(run.ID).All(t.Context(), workflow.Limit(1000)) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != run.Events {
		t.Errorf("%d events are listed, there are %d", n, run.Events)
	}
	run = w.Run("spin", "1")
	if run.Status != workflow.Failed || run.Code != "too_many_steps" || !strings.Contains(run.Error, "10000") {
		t.Errorf("a loop without end: %s, %s, %s", run.Status, run.Code, run.Error)
	}
}

// TestLoopAfterCall: a call that begins starts the count of steps in a row anew.
func TestLoopAfterCall(t *testing.T) {
	w := workflowtest.New(t)
	spin := named("spin", does(calling("@actions/x"), "success", "spin"))
	spin.When = "false"
	w.Create(startsWith("after", does(calling("@actions/x"), "success", "spin"), spin))
	w.Return("x", nil, nil)
	run, n := w.Run("after", "1"), 0
	for e, err := range w.Workflows().History(run.ID).All(t.Context(), workflow.Limit(1000)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == workflow.StepSkipped {
			n++
		}
	}
	if run.Code != "too_many_steps" || n != 10_000 {
		t.Errorf("stopped by %q, %s, after %d steps, want 10,000", run.Code, run.Error, n)
	}
}

// TestLoopOverRefusals: a loop of steps that return at once is stopped, whatever they are; steps
// that start work count too. Meanwhile the shard serves others.
func TestLoopOverRefusals(t *testing.T) {
	for name, do := range map[string]workflow.Work{
		"a missing action":           calling("@actions/none"),
		"a disabled action":          calling("@actions/off"),
		"a missing workflow":         calling("@workflow/none"),
		"a child that ends at once":  calling("@workflow/blink"),
		"a branch that cannot begin": workflow.Parallel{Branches: []workflow.Branch{{"a", calling("@actions/none")}}},
		"a branch that ends at once": workflow.Parallel{Branches: []workflow.Branch{{"a", calling("@workflow/blink")}}},
		"a branch and too few of them": workflow.Parallel{Branches: []workflow.Branch{{"a", calling("@actions/none")},
			{"b", calling("@actions/off")}}, Any: 1},
		"no branch":            workflow.Each{Array: "$.input", Call: calling("@actions/none")},
		"a sleep that is over": workflow.Sleep{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := workflowtest.New(t)
			blink := workflow.Definition{Name: "blink", Retention: workflow.Retention{For: time.Hour, Runs: 1},
				Start: does(workflow.Sleep{}, "success", "flo.Completed")}
			w.Create(blink.YAML(), startsWith("loop", does(do, "success", "_start", "failure", "_start")))
			w.Return("off", nil, nil)
			if err := w.Actions().Disable(t.Context(), "off"); err != nil {
				t.Fatal(err)
			}
			w.Pass(time.Second)
			id := w.Start("loop", "[]")
			w.Pass(time.Second)
			if run := w.Get(id); run.Status.Final() {
				t.Errorf("the run has taken its shard for itself: %d events in a second", run.Events)
			}
			w.Pass(5 * time.Minute)
			if run := w.Get(id); run.Status != workflow.Failed || run.Code != "too_many_steps" ||
				!strings.Contains(run.Error, "without waiting") {
				t.Errorf("the run is %s, %s, at %d events", run.Status, run.Error, run.Events)
			}
		})
	}
}

// TestMaxSteps: a run takes at most max_steps steps in total, even if it waits in between, and as
// many again after a retry.
func TestMaxSteps(t *testing.T) {
	w := workflowtest.New(t)
	w.Create([]byte("name: w\nmax_steps: 300\nstart: { sleep: { ms: 10 }, transitions: { success: _start } }\n"))
	id := w.Start("w", "1")
	w.Pass(time.Minute)
	for range 2 {
		run := w.Get(id)
		n := 0
		for e, err := range w.Workflows().History(id).All(t.Context(), workflow.Limit(1000)) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == workflow.WorkflowRetried {
				n = 0
			}
			if e.Type == workflow.StepCompleted {
				n++
			}
		}
		if run.Status != workflow.Failed || run.Code != "too_many_steps" || n != 300 {
			t.Errorf("the run is %s, %s, after %d steps", run.Status, run.Error, n)
		}
		if _, err := w.Workflows().Retry(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.Pass(time.Minute)
	}
}

// TestMaxEvents: a run with the maximum number of events starts no further step, whatever remains
// to be done.
func TestMaxEvents(t *testing.T) {
	const before = 5 // events when the third step is about to begin
	for limit, want := range map[int64]string{before - 1: "too_many_events", before: "too_many_events", before + 1: ""} {
		r := machinetest.New(t, 1, engine.TableOf[action.Store](), workflow.TableLimitedTo(limit))
		flows := flowsOf(r, "n")
		step := func(name, to string) workflow.Step { return named(name, does(workflow.Sleep{}, "success", to)) }
		create(t, flows, startsWith("w", step("", "second"), step("second", "third"), step("third", "flo.Completed")))
		s, err := flows.Start(t.Context(), "w", nil)
		if err != nil {
			t.Fatal(err)
		}
		run, err := flows.Runs().Get(t.Context(), s.Run)
		if err != nil || run.Code != want || want != "" && !strings.Contains(run.Error, fmt.Sprint(limit)) {
			t.Errorf("%d events are allowed: %s, %s (%s), want %q, %v", limit, run.Status, run.Error, run.Code, want, err)
		}
		r.Verify()
	}
}

// TestSkippedOutcome: an action whose outcome is named skipped was executed, and is compensated.
func TestSkippedOutcome(t *testing.T) {
	r := newRig(t, 1)
	flows, actions := flowsOf(r, "n"), actionsOf(r, "n")
	for _, name := range []string{"a", "undo"} {
		if _, err := actions.Register(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	start := does(calling("@actions/a"), "success", "flo.Failed")
	start.Compensate = &workflow.Call{Target: "@actions/undo"}
	create(t, flows, startsWith("w", start))
	s, err := flows.Start(t.Context(), "w", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "undo"} {
		tasks, err := actions.Await(t.Context(), "w", []string{name})
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%d tasks of %s, %v", len(tasks), name, err)
		}
		if err := actions.Complete(t.Context(), tasks[0].Run, "w", nil, action.OutcomeName("skipped")); err != nil {
			t.Fatal(err)
		}
		r.Verify()
	}
	if run, err := flows.Runs().Get(t.Context(), s.Run); err != nil || run.Status != workflow.Failed || run.CompensationsFailed > 0 {
		t.Errorf("%+v, %v", run, err)
	}
}

// TestSignalLimits: the last signal that is kept, and one more; signals that no step waits for are
// not lost.
func TestSignalLimits(t *testing.T) {
	w := workflowtest.New(t)
	w.Create(startsWith("wait", does(workflow.WaitFor{Signal: "end"}, "success", "flo.Completed")))
	ctx := t.Context()
	id := w.Start("wait", "1")
	for i := range workflow.MaxSignals {
		if _, err := w.Workflows().Signal(ctx, id, "other", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Workflows().Signal(ctx, id, "other", nil); !errors.Is(err, workflow.ErrBusy) {
		t.Errorf("signal %d: %v", workflow.MaxSignals+1, err)
	}
	if run := w.Get(id); len(run.Signals) != workflow.MaxSignals || string(run.Signals[999].Payload) != "999" {
		t.Errorf("%d signals are kept", len(run.Signals))
	}
	w.Signal(id, "end", "1") // a step waits for it
	if run := w.Get(id); run.Status != workflow.Completed {
		t.Errorf("run %s", run.Status)
	}

	id = w.Start("wait", "1")
	half := append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, workflow.MaxSignalBytes/2-2)...), '"')
	for i := range 3 {
		_, err := w.Workflows().Signal(ctx, id, "other", half)
		if (err != nil) != (i == 2) || i == 2 && !errors.Is(err, workflow.ErrBusy) {
			t.Errorf("signal %d of %d bytes: %v", i, len(half), err)
		}
	}
	if _, err := w.Workflows().Signal(ctx, id, "other", append(half, half...)); !errors.Is(err, workflow.ErrInvalid) {
		t.Errorf("a signal that is no JSON: %v", err)
	}
}

// TestSignalSchemas: a payload is validated against the schema of the step that waits for its type,
// wherever that step is.
func TestSignalSchemas(t *testing.T) {
	w := workflowtest.New(t)
	w.Create([]byte(`name: w
start: { sleep: 1h, transitions: { success: free } }
steps:
  free: { wait_for_signal: free, transitions: { success: number } }
  number: { wait_for_signal: { type: number, schema: { type: number } }, transitions: { success: text } }
  text: { wait_for_signal: { type: text, schema: { type: string } }, transitions: { success: flo.Completed } }
`))
	id := w.Start("w", "1")
	for _, c := range []struct {
		kind, payload string
		want          error
	}{
		{"free", `[]`, nil}, {"number", `"1"`, workflow.ErrInvalid}, {"number", `1`, nil}, {"text", `1`, workflow.ErrInvalid}, {"text",
			`"1"`, nil}, {"other", `{}`, nil},
	} {
		if _, err := w.Workflows().Signal(t.Context(), id, c.kind, []byte(c.payload)); !errors.Is(err, c.want) {
			t.Errorf("signal %s with %s: %v, want %v", c.kind, c.payload, err, c.want)
		}
	}
	if run := w.Finish(id); run.Status != workflow.Completed || string(run.Output) != `"1"` {
		t.Errorf("the run is %s with %s: %s", run.Status, run.Output, run.Error)
	}
}

// TestSchemaOfTheWait: a step accepts only payloads valid for its own schema as well as for the
// type's. A mismatch is refused while the step waits. Signals kept earlier are left to the steps
// that accept them.
func TestSchemaOfTheWait(t *testing.T) {
	const two = `
start: { sleep: 1m, transitions: { success: a } }
steps:
  a: { wait_for_signal: { type: s, schema: { type: object, required: [a] } }, transitions: { success: b } }
  b: { wait_for_signal: { type: s, schema: { type: object, required: [b] } }, transitions: { success: flo.Completed } }
output: [ $.steps.a.output, $.steps.b.output ]
`
	const any = `
start: { sleep: 1m, transitions: { success: a } }
steps:
  a: { wait_for_signal: { type: s, schema: { type: object, required: [a] } }, transitions: { success: b } }
  b: { wait_for_signal: s, transitions: { success: flo.Completed } }
output: [ $.steps.a.output, $.steps.b.output ]
`
	type signal struct {
		payload string
		want    error
	}
	no := workflow.ErrInvalid
	for name, c := range map[string]struct {
		definition    string
		before, while []signal // sent before a step waits, and while one waits
		want          string   // expected output
	}{
		"while each waits": {two, nil, []signal{{`{"b":1}`, no}, {`{"a":1}`, nil}, {`{"a":1}`, no}, {`null`, no}, {`{"b":2}`, nil}},
			`[{"a":1},{"b":2}]`},
		"kept": {two, []signal{{`{}`, no}, {``, no}, {`{"b":1}`, nil}, {`{"b":2}`, nil}, {`{"a":1}`, nil}}, nil,
			`[{"a":1},{"b":1}]`},
		"kept for b":   {two, []signal{{`{"b":1}`, nil}}, []signal{{`{"b":2}`, no}, {`{"a":1}`, nil}}, `[{"a":1},{"b":1}]`},
		"kept for any": {any, []signal{{`1`, nil}}, []signal{{`2`, no}, {`{"a":1}`, nil}}, `[{"a":1},1]`},
		"declared without": {"signals: [ s ]" + two, []signal{{`{}`, no}},
			[]signal{{`{}`, no}, {`{"a":1}`, nil}, {`{}`, no}, {`{"b":1}`, nil}}, `[{"a":1},{"b":1}]`},
		"declared with": {"signals: { s: { schema: { required: [z] } } }" + two, []signal{{`{"a":1}`, no}, {`{"z":1}`, no}},
			[]signal{{`{"a":1}`, no}, {`{"z":1}`, no}, {`{"a":1,"z":1}`, nil}, {`{"b":1,"z":1}`, nil}}, `[{"a":1,"z":1},{"b":1,"z":1}]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.New(t)
			w.Create([]byte("name: w\n" + c.definition))
			id := w.Start("w", "1")
			send := func(signals []signal) {
				for _, s := range signals {
					if _, err := w.Workflows().Signal(t.Context(), id, "s", []byte(s.payload)); !errors.Is(err, s.want) {
						t.Errorf("signal with %s: %v, want %v", s.payload, err, s.want)
					}
				}
			}
			send(c.before)
			w.Pass(time.Minute)
			send(c.while)
			if run := w.Get(id); run.Status != workflow.Completed || string(run.Output) != c.want {
				t.Errorf("the run is %s and waits for %s, %d signals are kept, its output is %s, want %s", run.Status, run.Waits,
					len(run.Signals), run.Output, c.want)
			}
		})
	}
}

// TestDepth: children have children, up to a limit.
func TestDepth(t *testing.T) {
	w := workflowtest.New(t)
	w.Create(startsWith("deep", does(calling("@workflow/deep"), "success", "flo.Completed", "failure", "flo.Failed")))
	run := w.Run("deep", "1")
	info, err := w.Workflows().Get(t.Context(), "deep")
	if err != nil || run.Status != workflow.Failed || run.Code != "too_deep" || info.Runs.Failed != workflow.MaxDepth+1 {
		t.Errorf("the run is %s (%s) after %d runs: %s, %v", run.Status, run.Code, info.Runs.Failed, run.Error, err)
	}
}

// TestManyDue: 3,000 runs are due at the same time.
func TestManyDue(t *testing.T) {
	w := workflowtest.New(t)
	nap := workflow.Definition{
		Name: "nap", Retention: workflow.Retention{For: time.Hour, Runs: 1500}, Start: does(workflow.Sleep{For: time.Minute}, "success",
			"flo.Completed"),
	}
	w.Create(nap.YAML())
	for range 3000 {
		w.Start("nap", "1")
	}
	w.Pass(time.Minute)
	info, err := w.Workflows().Get(t.Context(), "nap")
	if want := (workflow.RunCounts{Total: 3000, Completed: 3000}); err != nil || info.Runs != want {
		t.Errorf("the workflow: %+v, %v", info.Runs, err)
	}
	kept := func() (n int) {
		for _, err := range w.Workflows().Runs().All(t.Context(), workflow.Limit(1000)) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	if w.Pass(10 * time.Second); kept() != 1500 {
		t.Errorf("%d runs are kept, want 1500", kept())
	}
	if w.Pass(time.Hour); kept() != 0 {
		t.Errorf("%d runs are kept for too long", kept())
	}
}

// TestTooLarge: an output over the limit is an outcome, also for a parallel step, a child and a
// run.
func TestTooLarge(t *testing.T) {
	w := workflowtest.New(t)
	large := strings.Repeat("x", workflow.MaxOutput/2)
	w.Return("half", large, nil)
	w.Return("all", large+large, nil)
	half, twice := calling("@actions/half"), []string{"$.steps._start.output", "$.steps._start.output"}
	w.Create(
		startsWith("step", does(calling("@actions/all"), "success", "flo.Completed", "output_too_large", "small"),
			named("small", does(workflow.Sleep{}, "success", "flo.Completed"))),
		startsWith("fan", does(workflow.Parallel{Branches: []workflow.Branch{{"a", half}, {"b", half}}}, "success", "flo.Completed")),
		workflow.Definition{Name: "run", Start: does(half, "success", "flo.Completed"), Output: twice}.YAML(),
		startsWith("input", does(half, "success", "twice"),
			named("twice", does(workflow.Call{Target: "@actions/half", Input: twice}, "success", "flo.Completed"))),
	)
	if run := w.Run("input", "1"); run.Status != workflow.Failed || run.Code != "input_too_large" ||
		!strings.Contains(run.Error, `step "twice"`) {
		t.Errorf("input: %s, %s, %s", run.Status, run.Code, run.Error)
	}
	w.ExpectPath(w.Run("step", "1").ID, "_start: output_too_large", "small: success")
	if run := w.Run("fan", "1"); run.Status != workflow.Failed || run.Code != workflow.OutcomeOutputTooLarge {
		t.Errorf("fan: %s, %s", run.Status, run.Error)
	}
	if run := w.Run("run", "1"); run.Status != workflow.Failed || run.Code != workflow.OutcomeOutputTooLarge {
		t.Errorf("run: %s, %s", run.Status, run.Error)
	}
}

// TestLimits tests the limits of calls and definitions and the values next to them. The limits on
// signals, events, versions and branches have their own tests.
func TestLimits(t *testing.T) {
	w := workflowtest.New(t)
	ctx, s := t.Context(), w.Workflows()
	w.Create([]byte(`{ "name": "w", "start": { "wait_for_signal": "end", "transitions": { "success": "flo.Completed" } } }`))
	text := func(n int64) string { return strings.Repeat("x", int(n)) }
	quoted := func(n int64) []byte { return []byte(`"` + text(n-2) + `"`) }
	start := func(opts ...workflow.StartOption) error { _, err := s.Start(ctx, "w", nil, opts...); return err }
	list := func(n int64, format string) string {
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return strings.Join(all, ", ")
	}
	create := func(name, rest string) error {
		_, err := s.Create(ctx, fmt.Appendf(nil, `{ "name": %q, "version": %q, %s }`, name, fmt.Sprint("1.", len(rest)), rest))
		return err
	}
	const none, started = math.MinInt64, `"start": { "sleep": "1h", "transitions": { "success": "flo.Completed" } }`
	limits := []machinetest.Limit{
		{Name: "bytes of a workflow's name", Least: 1, Most: 255, Try: func(n int64) error { return create(text(n), started) }},
		{Name: "bytes of a definition", Least: none, Most: workflow.MaxDefinition, Says: []string{"definition"}, Try: func(n int64) error {
			definition := `{ "name": "large", "version": "1", ` + started + `, "description": ""}`
			_, err := s.Create(ctx, []byte(strings.Replace(definition, `""`, `"`+text(n-int64(len(definition)))+`"`, 1)))
			if errors.Is(err, workflow.ErrExists) || errors.Is(err, workflow.ErrConflict) {
				return nil // it was valid
			}
			return err
		}},
		{Name: "steps of a definition beside the start", Least: none, Most: 999, Says: []string{"1000"}, Try: func(n int64) error {
			return create("steps", started+`, "steps": {`+list(n, `"s#": { "sleep": "1h", "transitions": { "success": "flo.Completed" } }`)+
				`}`)
		}},
		{Name: "terminals of a definition", Least: none, Most: 100, Says: []string{"100"}, Try: func(n int64) error {
			return create("terminals", started+`, "terminals": {`+list(n, `"t#": { "status": "completed" }`)+`}`)
		}},
		{Name: "bytes of a run's id", Least: none, Most: workflow.MaxRunID,
			Try: func(n int64) error { return start(workflow.UseID(workflow.RunID(text(n)))) }},
		{Name: "bytes of an idempotency key", Least: none, Most: workflow.MaxIdempotencyKey,
			Try: func(n int64) error { return start(workflow.IdempotencyKey(text(n))) }},
		{Name: "bytes of an input, with a max_value_size of 16 MiB", Least: none, Most: 16 << 20,
			Try: func(n int64) error { _, err := s.Start(ctx, "w", quoted(n)); return err }},
		{Name: "bytes of a signal's type", Least: 1, Most: workflow.MaxSignalType, Try: func(n int64) error {
			_, err := s.Signal(ctx, w.Start("w", ""), text(n), nil)
			return err
		}},
		{Name: "bytes of a signal's payload", Least: none, Most: workflow.MaxSignalBytes, Try: func(n int64) error {
			_, err := s.Signal(ctx, w.Start("w", ""), "end", quoted(n))
			return err
		}},
		{Name: "bytes of a cancellation's reason", Least: none, Most: workflow.MaxReason, Try: func(n int64) error {
			_, err := s.Cancel(ctx, w.Start("w", ""), text(n))
			return err
		}},
		{Name: "workflows of a page", Least: 1, Most: 1000,
			Try: func(n int64) error { _, err := s.Page(ctx, workflow.Limit(int(n))); return err }},
		{Name: "runs of a page", Least: 1, Most: 1000,
			Try: func(n int64) error { _, err := s.Runs().Page(ctx, workflow.Limit(int(n))); return err }},
		{Name: "events of a page", Least: 1, Most: 1000, Try: func(n int64) error {
			_, err := s.History(w.Start("w", "")).Page(ctx, workflow.Limit(int(n)))
			return err
		}},
	}
	machinetest.TryLimits(t, limits)
	machinetest.DocumentLimits(t, "package workflow", machinetest.Bounds(limits))
}
