package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
)

// TestUndoWaitsForHandler: the effect of a cancelled handler is compensated once the handler has
// returned, or its time has passed.
func TestUndoWaitsForHandler(t *testing.T) {
	const definition = "start:\n  run: \"@actions/do\"\n  compensate: \"@actions/undo\"\n  transitions: { success: flo.Completed }\n"
	taken := func(u *undoing) int {
		tasks, err := u.actions.Await(u.t.Context(), "w2", []string{"undo"})
		if err != nil {
			u.t.Fatal(err)
		}
		return len(tasks)
	}
	for name, over := range map[string]func(u *undoing, task action.Task){
		"returned": func(u *undoing, task action.Task) {
			_ = u.actions.Complete(u.t.Context(), task.Run, "w", nil)
		},
		"had its time": func(u *undoing, task action.Task) { u.pass(60_000) },
	} {
		t.Run(name, func(t *testing.T) {
			u := startUndoing(t, plain, definition)
			task := u.take("do")
			u.cancel()
			if u.r.Verify(); taken(u) != 0 {
				t.Error("the step is compensated while its handler is at work")
			}
			if run, err := u.flows.Runs().Get(t.Context(), u.run); err != nil || run.Status != workflow.Running ||
				run.Waits != "the handler or child of a call that was ended" {
				t.Errorf("the run is %s and waits for %q, %v", run.Status, run.Waits, err)
			}
			over(u, task)
			if u.r.Verify(); taken(u) != 1 {
				t.Error("the step is not compensated when its handler is through")
			}
		})
	}
	t.Run("the action's time is over", func(t *testing.T) {
		for name, over := range map[string]func(u *undoing, task action.Task){
			"returned":     func(u *undoing, task action.Task) { _ = u.actions.Fail(u.t.Context(), task.Run, "w", "late") },
			"had its time": func(u *undoing, task action.Task) { u.pass(60_000) },
		} {
			for _, at := range spaces {
				t.Run(name+"/"+at.name, func(t *testing.T) {
					u := startUndoing(t, at, "start: { sleep: 1s, transitions: { success: do } }\nsteps:\n  "+
						strings.ReplaceAll(strings.Replace(definition, "start", "do", 1), "\n", "\n  "))
					if _, err := u.actions.Register(t.Context(), "do",
						append(slices.Clone(at.opts), action.MaxAttempts(1), action.Timeout(5*time.Second))...); err != nil {
						t.Fatal(err)
					}
					u.pass(1000)
					task := u.take("do")
					u.pass(5000)
					if u.r.Verify(); taken(u) != 0 {
						t.Error("the step is compensated while its handler is at work")
					}
					over(u, task)
					if u.r.Verify(); taken(u) != 1 {
						t.Error("the step is not compensated when its handler is through")
					}
				})
			}
		}
	})
	timed := strings.Replace(definition, "  compensate", "  timeout_ms: 5000\n  compensate", 1)
	for name, c := range map[string]struct {
		definition string
		end        func(u *undoing)
	}{
		"the step times out":   {timed, func(u *undoing) { u.pass(5000) }},
		"the run is cancelled": {definition, func(u *undoing) { u.pass(4000); u.cancel() }},
	} {
		for _, at := range spaces { // another attempt would follow the end of the call
			t.Run("an attempt before the one that is cancelled, "+name+"/"+at.name, func(t *testing.T) {
				u := startUndoing(t, at, "start: { sleep: 1s, transitions: { success: do } }\nsteps:\n  "+
					strings.ReplaceAll(strings.Replace(c.definition, "start", "do", 1), "\n", "\n  "))
				if _, err := u.actions.Register(t.Context(), "do",
					append(slices.Clone(at.opts), action.MaxAttempts(3), action.Backoff(time.Second, time.Second),
						action.Timeout(4*time.Second))...); err != nil {
					t.Fatal(err)
				}
				u.pass(1000)
				task := u.take("do")
				c.end(u)
				if u.r.Verify(); taken(u) != 0 {
					t.Error("the step is compensated while the handler of an attempt is at work")
				}
				_ = u.actions.Complete(t.Context(), task.Run, "w", nil)
				if u.r.Verify(); taken(u) != 1 {
					t.Error("the step is not compensated when its handler has returned")
				}
			})
		}
	}
	t.Run("cancelled before its time is over", func(t *testing.T) {
		u := startUndoing(t, plain, timed)
		task := u.take("do")
		u.pass(1000)
		u.cancel()
		u.pass(4500)
		if u.r.Verify(); taken(u) != 0 {
			t.Error("the step is compensated because the time of its handler is over, which has not returned")
		}
		_ = u.actions.Complete(t.Context(), task.Run, "w", nil)
		if u.r.Verify(); taken(u) != 1 {
			t.Error("the step is not compensated when its handler has returned late")
		}
	})
	for name, cancel := range map[string]func(u *undoing, task action.Task){
		"the run is cancelled": func(u *undoing, _ action.Task) { u.cancel() },
		"the action's run is cancelled": func(u *undoing, task action.Task) {
			if err := u.actions.Cancel(u.t.Context(), task.Run, "by chance"); err != nil {
				u.t.Fatal(err)
			}
		},
		"the step times out": func(u *undoing, _ action.Task) { u.pass(500) },
	} {
		t.Run("taken late, "+name, func(t *testing.T) {
			u := startUndoing(t, plain, timed)
			u.pass(4500)
			cancel(u, u.take("do"))
			u.pass(59_999)
			if u.r.Verify(); taken(u) != 0 {
				t.Error("the step is compensated while its handler may be at work: the time of the step is none of a handler that " +
					"ignores it")
			}
			u.pass(1)
			if u.r.Verify(); taken(u) != 1 {
				t.Error("the step is not compensated when its handler has had its time")
			}
		})
	}
}

// TestUndoWaitsForChild: if the run or a timeout, of the run or the step, ends a child, the visit
// is compensated once the child is over. This includes its compensations, those of its children,
// and the handlers of all their calls, except those that take longer than a minute.
func TestUndoWaitsForChild(t *testing.T) {
	const rest = ", compensate: \"@actions/undo\", transitions: { success: flo.Completed, failure: flo.Failed } }\n"
	step := func(of, timeout string) string { return "start: { run: \"@workflow/" + of + "\"" + timeout + rest }
	branch := func(of, timeout string) string {
		return "start: { parallel: { branches: { a: { run: \"@workflow/" + of + "\"" + timeout + " } } }" + rest
	}
	plan := func(of, timeout string) string {
		return "start: { run: \"@plan/p\"" + timeout + rest + "plans: { p: { executors: [{ name: a, run: \"@workflow/" + of + "\" }] } }\n"
	}
	for _, way := range []struct {
		name, top, timeout string
		end                func(u *undoing)
	}{
		{"cancel", "", "", (*undoing).cancel},
		{"the run's timeout", "timeout_ms: 3000\n", "", func(u *undoing) { u.pass(3000) }},
		{"the step's timeout", "", ", timeout_ms: 3000", func(u *undoing) { u.pass(3000) }},
	} {
		for kind, make := range map[string]func(of, timeout string) string{"step": step, "branch": branch, "plan": plan} {
			for _, at := range spaces {
				start := func(t *testing.T, of string) *undoing { return startUndoing(t, at, way.top+make(of, way.timeout)) }
				name := fmt.Sprintf("%s of a %s/%s", way.name, kind, at.name)
				for _, of := range []string{"bare", "mid"} {
					t.Run(name+"/handler of "+of, func(t *testing.T) {
						u := start(t, of)
						task := u.take("other")
						way.end(u)
						for range 2 {
							if u.r.Verify(); u.waits("undo") != 0 {
								t.Error("the step is compensated while the handler of its child is at work")
							}
							u.pass(20_000)
						}
						if err := u.actions.Complete(t.Context(), task.Run, "w", nil); !errors.Is(err, action.ErrConflict) {
							t.Fatal(err)
						}
						if got := u.undone(); len(got) != 1 {
							t.Errorf("compensated with %s when the handler has returned, want one", got)
						}
					})
					t.Run(name+"/silent handler of "+of, func(t *testing.T) {
						u := start(t, of)
						u.take("other")
						way.end(u)
						if u.pass(59_999); u.waits("undo") != 0 {
							t.Error("the step is compensated while the handler of its child may be at work")
						}
						u.pass(1)
						if got := u.undone(); len(got) != 1 {
							t.Errorf("compensated with %s when the handler has had its time, want one", got)
						}
					})
				}
				for of, want := range map[string][]string{"child": {"the child"}, "over": {"the child", `"over"`}} {
					t.Run(name+"/compensations of "+of, func(t *testing.T) {
						u := start(t, of)
						u.done("other", "1")
						way.end(u)
						for _, input := range append(want, "") {
							if n := u.waits("undo"); n != 1 {
								t.Fatalf("%d compensations at the same time", n)
							}
							task := u.take("undo")
							got := string(task.Input)
							if strings.HasPrefix(got, `"wfr-`) {
								got = "the child"
							}
							if input != "" && got != input {
								t.Errorf("compensated with %s, want %s", got, input)
							}
							if err := u.actions.Complete(t.Context(), task.Run, "w", nil); err != nil {
								t.Fatal(err)
							}
						}
						if got := u.undone(); len(got) > 0 {
							t.Errorf("compensated with %s too", got)
						}
					})
				}
			}
		}
	}
}

// TestUndoWaitsForWhatAChildLeaves: handlers still running when a child ended normally are waited
// for as well.
func TestUndoWaitsForWhatAChildLeaves(t *testing.T) {
	again := `{ "name": "again", "start": { "run": "@actions/other", "timeout_ms": 500, "retry": { "max_attempts": 2, "initial_delay_ms": 1 },
		"transitions": { "success": "flo.Completed" } } }`
	late := `{ "name": "late", "start": { "run": "@actions/other", "compensate": { "run": "@actions/undo", "timeout_ms": 500 }, "transitions": { "success": "wait" } },
		"steps": { "wait": { "wait_for_signal": "go", "transitions": { "success": "flo.Completed" } } } }`
	for _, at := range spaces {
		for name, c := range map[string]struct {
			of   string
			left func(u *undoing) action.Task
		}{
			"an attempt before the one that succeeded": {"again", func(u *undoing) action.Task {
				task := u.take("other")
				u.pass(500)
				u.pass(1)
				u.done("other", "1")
				u.fail("do")
				return task
			}},
			"its own timeout":   {"brief", func(u *undoing) action.Task { task := u.take("other"); u.pass(4000); return task }},
			"a user cancels it": {"bare", func(u *undoing) action.Task { task := u.take("other"); u.drop("bare"); return task }},
			"a compensation of it that timed out": {"late", func(u *undoing) action.Task {
				u.done("other", "1")
				u.drop("late")
				task := u.take("undo")
				u.pass(500)
				return task
			}},
		} {
			t.Run(name+"/"+at.name, func(t *testing.T) {
				u := startUndoing(t, at, "start: { sleep: 1s, transitions: { success: kid } }\nsteps:\n"+
					"  kid: { run: \"@workflow/"+c.of+
					"\", compensate: \"@actions/undo\", transitions: { success: do, failure: flo.Failed } }\n"+
					"  do: { run: \"@actions/do\", transitions: { success: flo.Completed, failure: flo.Failed } }\n")
				for _, d := range []string{again, late} {
					if _, err := u.flows.Create(t.Context(), []byte(d)); err != nil {
						t.Fatal(err)
					}
				}
				u.pass(1000)
				task := c.left(u)
				if u.r.Verify(); u.waits("undo") != 0 {
					t.Error("the step is compensated while a handler of its child is at work")
				}
				if err := u.actions.Complete(t.Context(), task.Run, "w", nil); !errors.Is(err, action.ErrConflict) {
					t.Fatal(err)
				}
				if got := u.undone(); len(got) != 1 {
					t.Errorf("compensated with %s when the handler has returned, want one", got)
				}
			})
		}
	}
}

// TestFanWaitsForChild: a failed parallel step ends once the child of a branch has compensated, not
// as soon as its other branches have been cancelled.
func TestFanWaitsForChild(t *testing.T) {
	for _, at := range spaces {
		t.Run(at.name, func(t *testing.T) {
			u := startUndoing(t, at, `start:
  parallel: { branches: { a: { run: "@actions/do" }, b: { run: "@actions/do" }, c: { run: "@workflow/child" }, d: { run: "@actions/do" } } }
  transitions: { success: flo.Completed, failure: flo.Failed }
`)
			u.done("other", "1")
			u.fail("do")
			if run, err := u.flows.Runs().Get(t.Context(), u.run); err != nil || run.Status.Final() {
				t.Errorf("the run is %s before its child has ended, %v", run.Status, err)
			}
			if got := u.undone(); len(got) != 1 {
				t.Errorf("compensated with %s, want the step of the child", got)
			}
		})
	}
}

// TestUndoReportsLateHandler: compensation waits for a handler that outlives its timeout only until
// the handler returns, which the worker reports, and not the full 60 s.
func TestUndoReportsLateHandler(t *testing.T) {
	t.Run("its time is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { reportsLateHandler(t, 50, workflow.Failed) })
	})
	t.Run("it was cancelled before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { reportsLateHandler(t, 300, workflow.Cancelled) })
	})
}

func reportsLateHandler(t *testing.T, timeout int, status workflow.Status) {
	node, err := floe.Open(floe.Config{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Second)
	defer stop()
	actions, flows := node.Action("n"), node.Workflow("n")
	for _, name := range []string{"do", "undo"} {
		if _, err := actions.Register(ctx, name, action.MaxAttempts(1)); err != nil {
			t.Fatal(err)
		}
	}
	var began, returned, undone atomic.Bool
	begun := make(chan bool, 1)
	w := actions.Worker(action.WorkerConfig{})
	w.Handle("do", func(ctx context.Context, _ *action.Task) (any, error) {
		began.Store(true)
		begun <- true
		<-ctx.Done()
		<-time.After(500 * time.Millisecond) // longer than the shard takes to end the attempt
		returned.Store(true)
		return nil, nil
	})
	w.Handle("undo", func(context.Context, *action.Task) (any, error) {
		if undone.Store(true); began.Load() && !returned.Load() {
			t.Error("the step is compensated while its handler is at work")
		}
		return nil, nil
	})
	var ended sync.WaitGroup
	ended.Go(func() { _ = w.Run(ctx) })
	defer ended.Wait()
	defer stop()
	if _, err := flows.Create(ctx, fmt.Appendf(nil,
		`{ "name": "w", "start": { "run": "@actions/do", "timeout_ms": %d, "compensate": "@actions/undo", "transitions": { "success": "flo.Completed" } } }`, timeout)); err != nil {
		t.Fatal(err)
	}
	s, err := flows.Start(ctx, "w", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status == workflow.Cancelled {
		over := make(chan bool)
		ended.Go(func() {
			_, _ = flows.Wait(ctx, s.Run)
			close(over)
		})
		select {
		case <-begun:
		case <-over: // it timed out before a worker took it
		}
		if _, err := flows.Cancel(ctx, s.Run, ""); errors.Is(err, workflow.ErrConflict) {
			status = workflow.Failed // the cancel was too late
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if run, err := flows.Wait(ctx, s.Run); err != nil || run.Status != status || !undone.Load() {
		t.Errorf("the run is %s, compensated %t, %v", run.Status, undone.Load(), err)
	}
}

// TestLeaves: a child that was cancelled may have left effects if it executed a step without a
// compensation, or if a compensation failed. Its parent compensates the step then.
func TestLeaves(t *testing.T) {
	const last = ` }, last: { wait_for_signal: go, transitions: { success: flo.Completed } } }`
	for name, c := range map[string]struct {
		kid   string // its start and its other steps
		do    func(u *undoing)
		leave bool
	}{
		"nothing but waits":       {`start: { sleep: 0s, transitions: { success: last } }`, nil, false},
		"a step that was skipped": {`start: { run: "@actions/other", when: "false", transitions: { skipped: last } }`, nil, false},
		"a step":                  {`start: { run: "@actions/other", transitions: { success: last } }`, func(u *undoing) { u.done("other", "1") }, true},
		"a step with an outcome of that name": {`start: { run: "@actions/other", transitions: { skipped: last } }`,
			func(u *undoing) { u.done("other", "1", action.OutcomeName("skipped")) }, true},
		"parallel steps": {`start: { parallel: { branches: { a: { run: "@actions/other" } } }, transitions: { success: last } }`,
			func(u *undoing) { u.done("other", "1") }, true},
		"a step that waits for a worker": {`start: { run: "@actions/other", transitions: { success: last } }`, nil, true},
		"a step that is compensated": {`start: { run: "@actions/other", compensate: "@actions/do", transitions: { success: last } }`,
			func(u *undoing) { u.done("other", "1") }, false},
		"a compensation that fails": {`start: { run: "@actions/other", compensate: "@actions/none", transitions: { success: last } }`,
			func(u *undoing) { u.done("other", "1") }, true},
		"a step that was not reached": {`start: { sleep: 0s, transitions: { success: last, failure: never } }`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := startUndoing(t, plain, `start: { sleep: 1s, transitions: { success: kid } }
steps: { kid: { run: "@workflow/kid", compensate: "@actions/undo", transitions: { success: flo.Completed, failure: flo.Failed } } }`)
			create(t, u.flows, []byte("name: kid\n"+c.kid+"\nsteps: { never: { run: \"@actions/other\", transitions: { success: last }"+last))
			u.pass(1000)
			if c.do != nil {
				c.do(u)
			}
			u.drop("kid")
			if u.waits("do") > 0 {
				u.done("do", "1")
			}
			want := int64(0)
			if c.leave {
				want = 1
			}
			if got := u.waits("undo"); got != want {
				t.Errorf("%d compensations of the parent, want %d", got, want)
			}
			u.r.Verify()
		})
	}
}

// TestOutputOfAChildThatWaited: a child whose last step ends a call that no worker has taken
// reports its output, although the end of that call follows at once.
func TestOutputOfAChildThatWaited(t *testing.T) {
	for _, at := range spaces {
		u := startUndoing(t, at, "start: { sleep: 1s, transitions: { success: kid } }\n"+
			"steps: { kid: { run: \"@workflow/kid\", transitions: { success: flo.Completed } } }")
		create(t, u.flows, []byte(`name: kid
start:
  parallel: { branches: { a: { run: "@actions/do" }, b: { run: "@actions/other" } }, any: 1 }
  transitions: { success: flo.Completed }
`))
		u.pass(1000)
		u.done("do", "7")
		if run, err := u.flows.Runs().Get(t.Context(), u.run); err != nil || string(run.Output) != `{"a":7,"b":null}` {
			t.Errorf("%s: the run is %s with %s, %v", at.name, run.Status, run.Output, err)
		}
		u.r.Verify()
	}
}
