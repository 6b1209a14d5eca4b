package workflow_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/workflow"
)

// undoing is a run whose compensations a test checks.
type undoing struct {
	t       *testing.T
	r       *machinetest.Rig
	flows   *workflow.Store
	actions *action.Store
	run     workflow.RunID
}

// where is a kind of namespace in which runs are compensated.
type where struct {
	name   string
	shards int
	opts   []action.RegisterOption
}

// plain and the other namespaces: in a spread one, the calls of a run are in its own shard, or in
// another one if the action has a limit.
var (
	plain  = where{"plain", 1, nil}
	spaces = []where{plain, {"spread", 4, nil}, {"spread, in another shard", 4, []action.RegisterOption{action.MaxRunning(100)}}}
)

// Children besides the compensating one: bare does not compensate, brief does not either and has
// little time, mid calls bare, and over calls the compensating child.
const (
	bareKid = `{ "name": "bare", "start": { "run": "@actions/other", "transitions": { "success": "wait", "failure": "flo.Cancelled" } },
		"steps": { "wait": { "wait_for_signal": "go", "transitions": { "success": "flo.Completed" } } } }`
	briefKid = `{ "name": "brief", "timeout_ms": 4000, "start": { "run": "@actions/other", "transitions": { "success": "wait" } },
		"steps": { "wait": { "wait_for_signal": "go", "transitions": { "success": "flo.Completed" } } } }`
	midKid  = `{ "name": "mid", "start": { "run": "@workflow/bare", "transitions": { "success": "flo.Completed" } } }`
	overKid = `{ "name": "over", "start": { "run": "@workflow/child", "compensate": { "run": "@actions/undo", "input": "over" }, "transitions": { "success": "flo.Completed" } } }`
)

// startUndoing starts a run of a definition that calls the actions do and other, and compensates
// with undo.
func startUndoing(t *testing.T, at where, definition string, opts ...workflow.StartOption) *undoing {
	t.Helper()
	r := newRig(t, at.shards)
	if at.shards > 1 {
		if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "n", true); err != nil {
			t.Fatal(err)
		}
	}
	u := &undoing{t: t, r: r, flows: flowsOf(r, "n"), actions: actionsOf(r, "n")}
	for _, name := range []string{"do", "other", "undo"} {
		if _, err := u.actions.Register(t.Context(), name, append(at.opts, action.MaxAttempts(1))...); err != nil {
			t.Fatal(err)
		}
	}
	start := does(calling("@actions/other"), "success", "wait", "failure", "flo.Failed")
	start.Compensate = &workflow.Call{Target: "@actions/undo", Input: "$.flo.run_id"}
	kid := startsWith("child", start, named("wait", does(workflow.WaitFor{Signal: "go"}, "success", "flo.Completed", "fail", "flo.Failed")))
	for _, d := range [][]byte{kid, []byte(bareKid), []byte(briefKid), []byte(midKid), []byte(overKid), []byte("name: w\n" + definition)} {
		if _, err := u.flows.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	s, err := u.flows.Start(t.Context(), "w", []byte(`{"n":[1,2]}`), opts...)
	if err != nil {
		t.Fatal(err)
	}
	u.run = s.Run
	return u
}

// take returns the only task of an action.
func (u *undoing) take(name string) action.Task {
	u.t.Helper()
	tasks, err := u.actions.Await(u.t.Context(), "w", []string{name})
	if err != nil || len(tasks) != 1 {
		u.t.Fatalf("%d tasks of %q, %v", len(tasks), name, err)
	}
	return tasks[0]
}

// waits returns the number of an action's tasks that wait for a worker, without taking any.
func (u *undoing) waits(name string) int64 {
	u.t.Helper()
	i, err := u.actions.Get(u.t.Context(), name)
	if err != nil {
		u.t.Fatal(err)
	}
	return i.Runs.Pending
}

func (u *undoing) done(name, output string, opts ...action.EndOption) {
	u.t.Helper()
	if err := u.actions.Complete(u.t.Context(), u.take(name).Run, "w", []byte(output), opts...); err != nil {
		u.t.Fatal(err)
	}
}

func (u *undoing) fail(name string, opts ...action.EndOption) {
	u.t.Helper()
	if err := u.actions.Fail(u.t.Context(), u.take(name).Run, "w", "no", opts...); err != nil {
		u.t.Fatal(err)
	}
}

func (u *undoing) pass(ms int64) {
	u.r.Pass(ms)
	u.r.Fire()
}

func (u *undoing) cancel() {
	u.t.Helper()
	if _, err := u.flows.Cancel(u.t.Context(), u.run, "by chance"); err != nil {
		u.t.Fatal(err)
	}
}

// drop cancels the runs of a workflow, as a user does.
func (u *undoing) drop(of string) {
	u.t.Helper()
	for run, err := range u.flows.Runs().All(u.t.Context(), workflow.Of(of)) {
		if err == nil {
			_, err = u.flows.Cancel(u.t.Context(), run.ID, "by a user")
		}
		if err != nil {
			u.t.Fatal(err)
		}
	}
}

// child sends a signal to the child of the run.
func (u *undoing) child(payload string) {
	u.t.Helper()
	u.signal("child", payload)
}

// signal sends a signal to the active runs of a workflow.
func (u *undoing) signal(of, payload string) {
	u.t.Helper()
	for run, err := range u.flows.Runs().All(u.t.Context(), workflow.Of(of), workflow.Active()) {
		if err == nil {
			_, err = u.flows.Signal(u.t.Context(), run.ID, "go", []byte(payload))
		}
		if err != nil {
			u.t.Fatal(err)
		}
	}
}

// undone completes all following compensations and returns their inputs.
func (u *undoing) undone() (inputs []string) {
	u.t.Helper()
	for {
		tasks, err := u.actions.Await(u.t.Context(), "w", []string{"undo"}, action.Max(10))
		if err != nil {
			u.t.Fatal(err)
		}
		if len(tasks) == 0 {
			break
		}
		for _, task := range tasks {
			inputs = append(inputs, string(task.Input))
			if err := u.actions.Complete(u.t.Context(), task.Run, "w", nil); err != nil {
				u.t.Fatal(err)
			}
		}
	}
	run, err := u.flows.Runs().Get(u.t.Context(), u.run)
	if err != nil || !run.Status.Final() {
		u.t.Errorf("the run is %s at %q, %v", run.Status, run.CurrentStep, err)
	}
	u.r.Verify()
	return inputs
}

// TestUndone is a table of the ways in which a visit to a step can end or be left: it is
// compensated once, with its own data, if it may have had an effect.
func TestUndone(t *testing.T) {
	const (
		ends  = "  transitions: { success: flo.Failed, failure: flo.Failed }\n"
		retry = "  retry: { max_attempts: 3, initial_delay_ms: 1000 }\n"
		poll  = "  poll: { initialDelayMs: 1000, maxAttempts: 5 }\n"
		call  = "start:\n  run: \"@actions/do\"\n  timeout_ms: 5000\n  compensate: \"@actions/undo\"\n" + ends
		fan   = "start:\n  parallel: { branches: { a: { run: \"@actions/do\" }, b: { run: \"@actions/other\" } } }\n  compensate: " +
			"\"@actions/undo\"\n" + ends
		each = "start:\n  parallel: { each: \"$.input.n\", run: \"@actions/do\", max_concurrency: 1 }\n  compensate: \"@actions/undo\"\n" +
			ends
		made = "start:\n  run: \"@actions/do\"\n  input: { n: \"$.input.n\", at: \"$.signals.go\" }\n  compensate: \"@actions/undo\"\n" +
			ends
		kid  = "start:\n  run: \"@workflow/child\"\n  compensate: \"@actions/undo\"\n" + ends
		plan = "start:\n  run: \"@plan/p\"\n  compensate: \"@actions/undo\"\n" + ends +
			"plans: { p: { executors: [{ name: a, run: \"@actions/do\", timeout_ms: 5000 }, { name: b, run: \"@actions/other\" }] } }\n"
		lost  = "start:\n  run: \"@workflow/none\"\n  compensate: \"@actions/undo\"\n" + ends
		bare  = "start:\n  run: \"@workflow/bare\"\n  compensate: \"@actions/undo\"\n" + ends
		brief = "start:\n  run: \"@workflow/brief\"\n  compensate: \"@actions/undo\"\n" + ends
		mid   = "start:\n  run: \"@workflow/mid\"\n  compensate: \"@actions/undo\"\n" + ends
		over  = "start:\n  run: \"@workflow/over\"\n  compensate: \"@actions/undo\"\n" + ends
		kids  = "start:\n  parallel: { branches: { a: { run: \"@actions/do\" }, b: { run: \"@workflow/brief\" } } }\n  compensate: " +
			"\"@actions/undo\"\n" + ends
		pick = "start:\n  run: \"@plan/p\"\n  compensate: \"@actions/undo\"\n" + ends +
			"plans: { p: { executors: [{ name: a, run: \"@workflow/brief\" }, { name: b, run: \"@actions/do\" }] } }\n"
		slow = `{"error":"step \"wait\": the run has taken longer than 4000 ms","code":"timeout"}`
	)
	data := func(output string) string { return `{"input":{"n":[1,2]},"output":` + output + `}` }
	for _, c := range []struct {
		name, definition string
		play             func(u *undoing)
		want             []string
	}{
		{"success", call, func(u *undoing) { u.done("do", `7`) }, []string{data("7")}},
		{"failure", call, func(u *undoing) { u.fail("do") }, nil},
		{"timeout", call, func(u *undoing) { u.take("do"); u.pass(5000); u.pass(60_000) },
			[]string{data(`{"error":"no result after 5000 ms","code":"timeout"}`)}},
		{"timeout, then failure", call + retry, func(u *undoing) {
			u.take("do")
			u.pass(5000)
			u.pass(1000)
			u.fail("do")
			u.pass(60_000)
		}, []string{data(`{"error":"no"}`)}},
		{"cancel in a pause after a timeout", call + retry, func(u *undoing) { u.take("do"); u.pass(5000); u.cancel(); u.pass(60_000) },
			[]string{data("null")}},
		{"cancel in a pause after a failure", call + retry, func(u *undoing) { u.fail("do", action.Retry()); u.cancel() }, nil},
		{"cancel before a worker has it", call, func(u *undoing) { u.cancel() }, []string{data("null")}},
		{"cancel between polls", call + poll, func(u *undoing) { u.done("do", "1", action.OutcomeName("pending")); u.cancel() },
			[]string{data("null")}},
		{"failure after a poll", call + poll,
			func(u *undoing) { u.done("do", "1", action.OutcomeName("pending")); u.pass(1000); u.fail("do") }, nil},
		{"the run's timeout between polls", "timeout_ms: 5500\n" + strings.Replace(call+poll, "initialDelayMs: 1000",
			"initialDelayMs: 9000", 1),
			func(u *undoing) { u.done("do", "1", action.OutcomeName("pending")); u.pass(6000) }, []string{data("null")}},
		{"a parallel step that fails", fan, func(u *undoing) { u.done("do", `{"id":1}`); u.fail("other") },
			[]string{data(`{"a":{"id":1},"b":null}`)}},
		{"a parallel step whose branches all fail", fan, func(u *undoing) { u.fail("other") }, []string{data(`{"a":null,"b":null}`)}},
		{"a parallel step of which one fails first", each, func(u *undoing) { u.fail("do") }, nil},
		{"a parallel step of which one fails second", each, func(u *undoing) { u.done("do", "1"); u.fail("do") },
			[]string{data("[1,null]")}},
		{"cancel of a parallel step", fan, func(u *undoing) { u.done("do", "1"); u.cancel() }, []string{data(`{"a":1,"b":null}`)}},
		{"cancel of a parallel step that has done nothing", each, func(u *undoing) { u.cancel() }, []string{data("[null,null]")}},
		{"an input of its own", made, func(u *undoing) {
			if _, err := u.flows.Signal(u.t.Context(), u.run, "go", []byte("1")); err != nil {
				u.t.Fatal(err)
			}
			u.done("do", "7")
		}, []string{`{"input":{"n":[1,2],"at":null},"output":7}`}},
		{"a child that is missing", lost, nil, nil},
		{"success after a failure", call + retry, func(u *undoing) { u.fail("do", action.Retry()); u.pass(1000); u.done("do", "8") },
			[]string{data("8")}},
		{"success after a poll", call + poll,
			func(u *undoing) { u.done("do", "1", action.OutcomeName("pending")); u.pass(1000); u.done("do", "2") }, []string{data("2")}},
		{"the last poll is pending", strings.Replace(call+poll, "maxAttempts: 5", "maxAttempts: 1", 1), func(u *undoing) {
			u.done("do", "1", action.OutcomeName("pending"))
			u.pass(1000)
			u.done("do", "2", action.OutcomeName("pending"))
		}, []string{data(`{"error":"pending after 1 polls","code":"poll_exhausted"}`)}},
		{"an outcome without a transition", call, func(u *undoing) { u.done("do", "3", action.OutcomeName("odd")) }, []string{data("3")}},
		{"cancelled by a user", call, func(u *undoing) {
			if err := u.actions.Cancel(u.t.Context(), u.take("do").Run, "by chance"); err != nil {
				u.t.Fatal(err)
			}
			u.pass(60_000)
		}, []string{data(`{"error":"the action's run was cancelled: by chance","code":"cancelled"}`)}},
		{"the run's timeout while a worker has it", "timeout_ms: 3000\n" + call,
			func(u *undoing) { u.take("do"); u.pass(3000); u.pass(60_000) }, []string{data("null")}},
		{"a child that completes", kid, func(u *undoing) { u.done("other", "1"); u.child(`{"n":4}`) }, []string{data(`{"n":4}`)}},
		{"a child that fails", kid, func(u *undoing) { u.fail("other") }, nil},
		{"a child that fails and has compensated", kid, func(u *undoing) { u.done("other", "1"); u.child(`{"outcome":"fail"}`) },
			[]string{"the child"}},
		{"cancel of a run with a child", kid, func(u *undoing) { u.done("other", "1"); u.cancel() }, []string{"the child", data("null")}},
		{"a child that a user cancels", bare, func(u *undoing) { u.done("other", "1"); u.drop("bare") },
			[]string{data(`{"error":"cancelled: by a user","code":"cancelled"}`)}},
		{"a child that a user cancels while a worker has its call", bare, func(u *undoing) {
			task := u.take("other")
			u.drop("bare")
			if err := u.actions.Complete(u.t.Context(), task.Run, "w", nil); !errors.Is(err, action.ErrConflict) {
				u.t.Fatal(err)
			}
		}, []string{data(`{"error":"cancelled: by a user","code":"cancelled"}`)}},
		{"a child that a user cancels and has compensated", kid, func(u *undoing) { u.done("other", "1"); u.drop("child") },
			[]string{"the child"}},
		{"a child that a user cancels and could not compensate", kid,
			func(u *undoing) { u.done("other", "1"); u.drop("child"); u.fail("undo") },
			[]string{data(`{"error":"cancelled: by a user","code":"cancelled"}`)}},
		{"a child whose child a user cancels", mid, func(u *undoing) { u.done("other", "1"); u.drop("bare") }, nil},
		{"a child that a user cancels, and its child with it", mid, func(u *undoing) { u.done("other", "1"); u.drop("mid") },
			[]string{data(`{"error":"cancelled: by a user","code":"cancelled"}`)}},
		{"a child that a user cancels and has compensated, as its child has", over,
			func(u *undoing) { u.done("other", "1"); u.drop("over") },
			[]string{"the child", `"over"`}},
		{"a child that its time ends", brief, func(u *undoing) { u.done("other", "1"); u.pass(4000) }, []string{data(slow)}},
		{"a child that its time ends, then success", brief + retry, func(u *undoing) {
			u.done("other", "1")
			u.pass(4000)
			u.pass(1000)
			u.done("other", "2")
			u.signal("brief", "8")
		}, []string{data("8")}},
		{"a child that its time ends, then failure", brief + strings.Replace(retry, "max_attempts: 3", "max_attempts: 2", 1),
			func(u *undoing) { u.done("other", "1"); u.pass(4000); u.pass(1000); u.fail("other") },
			[]string{data(`{"error":"step \"_start\": outcome \"failure\" at attempt 1: no"}`)}},
		{"a child that comes to flo.Cancelled by itself", bare, func(u *undoing) { u.fail("other") }, nil},
		{"the run's timeout in a child", "timeout_ms: 3000\n" + bare, func(u *undoing) { u.done("other", "1"); u.pass(3000) },
			[]string{data("null")}},
		{"the step's timeout in a child", strings.Replace(bare, "  compensate", "  timeout_ms: 3000\n  compensate", 1),
			func(u *undoing) { u.done("other", "1"); u.pass(3000) },
			[]string{data(`{"error":"no result after 3000 ms","code":"timeout"}`)}},
		{"a parallel step with a child that its time ends", kids,
			func(u *undoing) { u.done("other", "1"); u.done("do", "1"); u.pass(4000) }, []string{data(`{"a":1,"b":null}`)}},
		{"a parallel step with nothing but a child that its time ends", kids,
			func(u *undoing) { u.done("other", "1"); u.take("do"); u.pass(4000); u.pass(60_000) },
			[]string{data(`{"a":null,"b":null}`)}},
		{"a plan whose first executor is a child that its time ends", pick,
			func(u *undoing) { u.done("other", "1"); u.pass(4000); u.fail("do") },
			[]string{data(`{"error":"plan \"p\": 2 of 2 executors have failed, the last: executor \"b\": outcome \"failure\" at attempt 1: no"}`)}},
		{"a plan whose executor is a child that a user cancels", pick, func(u *undoing) { u.done("other", "1"); u.drop("brief") },
			[]string{data(`{"error":"plan \"p\": executor \"a\": outcome \"cancelled\" at attempt 1: cancelled: by a user","code":"cancelled"}`)}},
		{"a plan whose first executor fails", plan, func(u *undoing) { u.fail("do"); u.done("other", "5") }, []string{data("5")}},
		{"a plan all of whose executors fail", plan, func(u *undoing) { u.fail("do"); u.fail("other") }, nil},
		{"a plan whose first executor times out", plan, func(u *undoing) { u.take("do"); u.pass(5000); u.fail("other"); u.pass(60_000) },
			[]string{data(`{"error":"plan \"p\": 2 of 2 executors have failed, the last: executor \"b\": outcome \"failure\" at attempt 1: no"}`)}},
		{"a step before it",
			"start: { run: \"@actions/other\", compensate: { run: \"@actions/undo\", input: 1 }, transitions: { success: next } " +
				"}\nsteps:\n  next:\n" +
				"    run: \"@actions/do\"\n    compensate: { run: \"@actions/undo\", input: 2 }\n    transitions: { success: " +
				"flo.Cancelled }\n",
			func(u *undoing) {
				u.done("other", "1")
				u.done("do", "1")
			}, []string{"2", "1"}},
	} {
		for _, at := range spaces {
			t.Run(c.name+"/"+at.name, func(t *testing.T) {
				u := startUndoing(t, at, c.definition)
				if c.play != nil {
					c.play(u)
				}
				got := u.undone()
				for i := range got {
					if strings.HasPrefix(got[i], `"wfr-`) {
						got[i] = "the child"
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("compensated with %s, want %s", got, c.want)
				}
			})
		}
	}
}

// TestUndoneAfterOwnRetries: an attempt that the action itself has retried may have had an effect,
// whatever the result of the next one.
func TestUndoneAfterOwnRetries(t *testing.T) {
	const definition = `start: { sleep: 1s, transitions: { success: do } }
steps: { do: { run: "@actions/do", compensate: "@actions/undo", transitions: { success: flo.Failed, failure: flo.Failed } } }
`
	for _, c := range []struct {
		name string
		play func(u *undoing)
		want []string
	}{
		{"a timeout and a failure", func(u *undoing) { u.take("do"); u.pass(5000); u.pass(1000); u.fail("do") },
			[]string{`{"input":{"n":[1,2]},"output":{"error":"no"}}`}},
		{"a timeout, two failures", func(u *undoing) {
			u.take("do")
			u.pass(5000)
			u.pass(1000)
			u.fail("do", action.Retry())
			u.pass(1000)
			u.fail("do", action.Retry())
		}, []string{`{"input":{"n":[1,2]},"output":{"error":"no"}}`}},
		{"failures", func(u *undoing) { u.fail("do", action.Retry()); u.pass(1000); u.fail("do") }, nil},
		{"a timeout and a success", func(u *undoing) { u.take("do"); u.pass(5000); u.pass(1000); u.done("do", "7") },
			[]string{`{"input":{"n":[1,2]},"output":7}`}},
	} {
		for _, at := range spaces {
			t.Run(c.name+"/"+at.name, func(t *testing.T) {
				u := startUndoing(t, at, definition)
				opts := append(slices.Clone(at.opts), action.MaxAttempts(3), action.Timeout(5*time.Second),
					action.Backoff(time.Second, time.Second))
				if _, err := u.actions.Register(t.Context(), "do", opts...); err != nil {
					t.Fatal(err)
				}
				u.pass(1000)
				if c.play(u); t.Failed() {
					return
				}
				if got := u.undone(); !slices.Equal(got, c.want) {
					t.Errorf("compensated with %s, want %s", got, c.want)
				}
			})
		}
	}
}

// TestUndoneInALoop: each visit is compensated with its own data, not with the result of the last
// visit.
func TestUndoneInALoop(t *testing.T) {
	u := startUndoing(t, plain, `start:
  run: "@actions/do"
  input: { last: "$.steps._start.output.id" }
  compensate: { run: "@actions/undo", input: { id: "$.steps._start.output.id", as: "$.steps._start.outcome" } }
  transitions: { success: _start, odd: _start, failure: flo.Failed }
`)
	u.done("do", `{"id":1}`)
	u.done("do", `{"id":2}`, action.OutcomeName("odd"))
	u.done("do", `{"id":3}`)
	u.fail("do")
	want := []string{`{"id":3,"as":"success"}`, `{"id":2,"as":"odd"}`, `{"id":1,"as":"success"}`}
	if got := u.undone(); !slices.Equal(got, want) {
		t.Errorf("compensated with %s, want %s", got, want)
	}
	u = startUndoing(t, plain, `start:
  run: "@actions/do"
  input: { last: "$.steps._start.output.id" }
  compensate: "@actions/undo"
  transitions: { success: _start, failure: flo.Failed }
`)
	u.done("do", `{"id":1}`)
	u.done("do", `{"id":2}`)
	u.fail("do")
	want = []string{`{"input":{"last":1},"output":{"id":2}}`, `{"input":{"last":null},"output":{"id":1}}`}
	if got := u.undone(); !slices.Equal(got, want) {
		t.Errorf("compensated with %s, want %s", got, want)
	}
}

// TestUndoneWithWhatWasSent: each attempt and each poll of a call gets the same input, and so does
// its compensation.
func TestUndoneWithWhatWasSent(t *testing.T) {
	const more = "\n  compensate: \"@actions/undo\"\n  transitions: { success: flo.Failed, failure: flo.Failed }\n"
	for name, step := range map[string]string{
		"a call": "run: \"@actions/do\"\n  input: { at: \"$.flo.timestamp\" }\n  poll: { initial_delay_ms: 1000 }\n  retry: { " +
			"max_attempts: 3, initial_delay_ms: 1000 }" + more,
		"a plan": "run: \"@plan/p\"\n  input: { at: \"$.flo.timestamp\" }\n  poll: { initial_delay_ms: 1000 }" + more +
			"plans: { p: { executors: [{ name: a, run: \"@actions/do\", retry: { max_attempts: 2, initial_delay_ms: 1000 } }, { name: " +
			"b, run: \"@actions/do\" }] } }\n",
	} {
		for _, at := range spaces {
			t.Run(name+"/"+at.name, func(t *testing.T) {
				u := startUndoing(t, at, "start:\n  "+step)
				sent := ""
				for i := range 4 {
					task := u.take("do")
					if sent == "" {
						sent = string(task.Input)
					} else if string(task.Input) != sent {
						t.Errorf("call %d got %s, the first one %s", i, task.Input, sent)
					}
					var err error
					switch i {
					case 0, 2:
						err = u.actions.Fail(t.Context(), task.Run, "w", "no", action.Retry())
					case 1:
						err = u.actions.Complete(t.Context(), task.Run, "w", nil, action.OutcomeName("pending"))
					default:
						err = u.actions.Complete(t.Context(), task.Run, "w", []byte("7"))
					}
					if err != nil {
						t.Fatal(err)
					}
					u.pass(1000)
					u.pass(1000)
				}
				if got, want := u.undone(), []string{`{"input":` + sent + `,"output":7}`}; !slices.Equal(got, want) {
					t.Errorf("compensated with %s, want %s", got, want)
				}
			})
		}
	}
}

// TestUndoneAtTheEnd: a run whose output is too large has failed, and its effects are compensated.
// A failed compensation leaves the run failed and is shown.
func TestUndoneAtTheEnd(t *testing.T) {
	u := startUndoing(t, plain, `start:
  run: "@actions/do"
  compensate: { run: "@actions/undo", input: { n: "$.input.n" } }
  transitions: { success: flo.Completed }
output: { a: "$.steps._start.output", b: "$.steps._start.output" }
`)
	u.done("do", `"`+strings.Repeat("x", workflow.MaxOutput/2)+`"`)
	u.fail("undo")
	if got := u.undone(); len(got) != 0 {
		t.Errorf("compensated with %s, again", got)
	}
	run, err := u.flows.Runs().Get(t.Context(), u.run)
	if err != nil || run.Status != workflow.Failed || run.Code != workflow.OutcomeOutputTooLarge || run.CompensationsFailed != 1 {
		t.Errorf("the run is %s (%s), %d compensations have failed, %v", run.Status, run.Code, run.CompensationsFailed, err)
	}
	for run, err := range u.flows.Runs().All(t.Context()) {
		if err != nil || run.CompensationsFailed != 1 {
			t.Errorf("%d failed compensations are listed, %v", run.CompensationsFailed, err)
		}
	}
	if ns, err := engine.NewNamespaces(u.r.Router()).Get(t.Context(), "n"); err != nil || ns.Counts.CompensationsFailed != 1 {
		t.Errorf("%d failed compensations are counted, %v", ns.Counts.CompensationsFailed, err)
	}
}

// TestRetryOfFirstFailure: a failed run is retried from the step that failed, not from the later
// step that reported it.
func TestRetryOfFirstFailure(t *testing.T) {
	const definition = `start: { run: "@actions/do", transitions: { success: flo.Completed, failure: tell } }
steps:
  tell: { run: "@actions/other", transitions: { success: flo.Failed, failure: flo.Failed } }
`
	for _, told := range []bool{true, false} {
		u := startUndoing(t, plain, definition)
		if u.fail("do"); told {
			u.done("other", "1")
		} else {
			u.fail("other")
		}
		if _, err := u.flows.Retry(t.Context(), u.run); err != nil {
			t.Fatal(err)
		}
		u.done("do", "1")
		if run, err := u.flows.Runs().Get(t.Context(), u.run); err != nil || run.Status != workflow.Completed {
			t.Errorf("the run is %s at %q, %v", run.Status, run.CurrentStep, err)
		}
	}
}

// TestLongNames: ids, names and namespaces may have their maximum length: their calls are still
// made.
func TestLongNames(t *testing.T) {
	r := newRig(t, 1)
	step, id := strings.Repeat("s", 255), strings.Repeat("i", workflow.MaxRunID)
	for _, namespace := range []string{"n", strings.Repeat("n", 255)} {
		flows, actions := flowsOf(r, namespace), actionsOf(r, namespace)
		if _, err := actions.Register(t.Context(), "do"); err != nil {
			t.Fatal(err)
		}
		do := calling("@actions/do")
		fan := named(step, does(workflow.Each{Array: "$.input", Call: do}, "success", "flo.Failed"))
		fan.Compensate = &do
		create(t, flows, startsWith("w", does(do, "success", step), fan))
		for _, opts := range [][]workflow.StartOption{nil, {workflow.UseID(workflow.RunID(id))}} {
			s, err := flows.Start(t.Context(), "w", []byte("[1,2]"), opts...)
			if err != nil {
				t.Fatal(err)
			}
			keys := make(map[string]bool)
			for n := range 4 {
				tasks, err := actions.Await(t.Context(), "w", []string{"do"}, action.Max(1))
				if err != nil || len(tasks) != 1 {
					t.Fatalf("%d tasks, %v", len(tasks), err)
				}
				if keys[tasks[0].IdempotencyKey] {
					t.Errorf("call %d has a key of before: %s", n, tasks[0].IdempotencyKey)
				}
				keys[tasks[0].IdempotencyKey] = true
				if err := actions.Complete(t.Context(), tasks[0].Run, "w", fmt.Append(nil, n)); err != nil {
					t.Fatal(err)
				}
			}
			if run, err := flows.Runs().Get(t.Context(), s.Run); err != nil || run.Status != workflow.Failed ||
				run.CompensationsFailed > 0 {
				t.Errorf("the run is %s: %s, %v", run.Status, run.Error, err)
			}
		}
	}
}
