package workflow_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/workflow"
	"github.com/floedb/floe/workflow/workflowtest"
)

// TestSignalAtDeadline: a signal in the last millisecond is in time. One stamped at the deadline or
// later is too late even if the timer has not fired yet: the step has timed out, and the signal is
// kept for the next step that waits for it.
func TestSignalAtDeadline(t *testing.T) {
	wait := workflow.WaitFor{Signal: "go", Timeout: 10 * time.Second}
	definition := startsWith("w", does(wait, "success", "flo.Completed", "timeout", "pause"),
		named("pause", does(workflow.Sleep{For: time.Second}, "success", "again")), named("again", does(wait, "success", "flo.Completed")))
	for _, at := range []struct {
		ms   int64
		path []string
	}{
		{9_999, []string{"_start: success"}},
		{10_000, []string{"_start: timeout", "pause: success", "again: success"}},
		{10_999, []string{"_start: timeout", "pause: success", "again: success"}},
	} {
		r := newRig(t, 1)
		flows := flowsOf(r, "n")
		if _, err := flows.Create(t.Context(), definition); err != nil {
			t.Fatal(err)
		}
		s, err := flows.Start(t.Context(), "w", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Pass(at.ms) // and no timer fires
		if _, err := flows.Signal(t.Context(), s.Run, "go", []byte(`7`)); err != nil {
			t.Fatal(err)
		}
		r.Verify()
		for range 20 {
			r.Pass(1000)
			r.Fire()
		}
		run, err := flows.Runs().Get(t.Context(), s.Run)
		if err != nil || run.Status != workflow.Completed || string(run.Output) != "7" {
			t.Errorf("a signal at %d ms: the run is %s with %s: %s, %v", at.ms, run.Status, run.Output, run.Error, err)
		}
		if path := pathOf(t, flows, s.Run); !slices.Equal(path, at.path) {
			t.Errorf("a signal at %d ms: the run has gone %v, want %v", at.ms, path, at.path)
		}
	}
}

// pathOf returns the steps that a run has taken with their outcomes, and the compensations.
func pathOf(t *testing.T, flows *workflow.Store, id workflow.RunID) (path []string) {
	t.Helper()
	for e, err := range flows.History(id).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case workflow.StepCompleted:
			path = append(path, e.Step+": "+e.Outcome)
		case workflow.CompensationCompleted:
			path = append(path, "compensate "+e.Step)
		}
	}
	return path
}

// TestCrashBetweenCompensations kills a node before, after and between the commands of each
// compensation, followed by another term: each compensation is executed once, the last one first.
func TestCrashBetweenCompensations(t *testing.T) {
	ctx := context.Background()
	source, err := os.ReadFile("testdata/definitions/saga.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 1)
	flows, actions := flowsOf(r, "n"), actionsOf(r, "n")
	names := []string{"one", "two", "three", "undo-one", "undo-two", "undo-three"}
	for _, name := range names {
		if _, err := actions.Register(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := flows.Create(ctx, source); err != nil {
		t.Fatal(err)
	}
	s, err := flows.Start(ctx, "saga", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	term := uint64(1)
	crash := func() {
		r.Restart()
		term++
		r.SetTerm(term)
		r.Fire()
		r.Verify()
	}
	var done []string
	for range 20 {
		crash()
		tasks, err := actions.Await(ctx, "w", names)
		if err != nil {
			t.Fatal(err)
		}
		crash()
		if len(tasks) == 0 {
			break
		}
		var failure error
		if done = append(done, tasks[0].Action); tasks[0].Action == "three" {
			failure = action.Permanent(errors.New("no luck"))
		}
		if err := actions.Finish(ctx, "w", &tasks[0], nil, failure); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"one", "two", "three", "undo-two", "undo-one"}; !slices.Equal(done, want) {
		t.Errorf("carried out were %v, want %v", done, want)
	}
	want := []string{"_start: success", "two: success", "three: failure", "compensate two", "compensate _start"}
	if path := pathOf(t, flows, s.Run); !slices.Equal(path, want) {
		t.Errorf("the run has gone %v, want %v", path, want)
	}
	if run, err := flows.Runs().Get(ctx, s.Run); err != nil || run.Status != workflow.Failed {
		t.Errorf("the run is %s, %v", run.Status, err)
	}
}

var runStepsFlag = flag.Int("run-steps", 1000, "how many steps the run of TestLongRun takes, 400 or more")

// TestLongRun: the last of a run's many steps costs as much as the first ones, in rows read and
// written. So does a page of its history.
func TestLongRun(t *testing.T) {
	steps := *runStepsFlag
	ctx := context.Background()
	r := newRig(t, 1)
	flows, actions := flowsOf(r, "n"), actionsOf(r, "n")
	if _, err := actions.Register(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := flows.Create(ctx, []byte(`
name: long
start: { run: "@actions/a", transitions: { success: wait } }
steps: { wait: { waitForSignal: { type: go }, transitions: { success: _start, end: flo.Completed } } }
`)); err != nil {
		t.Fatal(err)
	}
	s, err := flows.Start(ctx, "long", nil)
	if err != nil {
		t.Fatal(err)
	}
	walk := func(n int) engine.Cost {
		t.Helper()
		r.Executor(0).ForgetEfforts()
		for range n / 2 {
			tasks, err := actions.Await(ctx, "w", []string{"a"})
			if err != nil || len(tasks) != 1 {
				t.Fatalf("%d tasks, %v", len(tasks), err)
			}
			if err := actions.Complete(ctx, tasks[0].Run, "w", []byte(`{"n":1}`)); err != nil {
				t.Fatal(err)
			}
			if _, err := flows.Signal(ctx, s.Run, "go", nil); err != nil {
				t.Fatal(err)
			}
		}
		return effortOf(t, r, "entry")
	}
	walk(100)
	early := walk(100)
	walk(steps - 300)
	late := walk(100)
	if late.Looks > early.Looks || late.Rows > early.Rows || late.Bytes > early.Bytes+32 { // numbers have grown by a few digits
		t.Errorf("entries of the last of %d steps have taken %+v, of early ones %+v", steps, late, early)
	}
	if _, err := flows.Signal(ctx, s.Run, "go", nil); err != nil { // a signal that no step waits for yet
		t.Fatal(err)
	}
	page := func(h workflow.History, cursor string) (next string, looked int64) {
		t.Helper()
		before := r.Executor(0).Scanned()
		p, err := h.Page(ctx, workflow.Limit(50), workflow.Cursor(cursor))
		if err != nil || len(p.Items) == 0 {
			t.Fatalf("%d events, %v", len(p.Items), err)
		}
		return p.Cursor, r.Executor(0).Scanned() - before
	}
	cursor, first := page(flows.History(s.Run), "")
	pages, most := 1, first
	for cursor != "" {
		var looked int64
		cursor, looked = page(flows.History(s.Run), cursor)
		pages, most = pages+1, max(most, looked)
	}
	if run, err := flows.Runs().Get(ctx, s.Run); err != nil || pages < int(run.Events)/50 || most > first+2 {
		t.Errorf("%d pages of %d events; the first one took a look at %d rows, another one at %d, %v", pages, run.Events, first, most, err)
	}
}

// effortOf returns the maximum effort of commands of a kind.
func effortOf(t *testing.T, r *machinetest.Rig, command string) engine.Cost {
	t.Helper()
	for _, e := range r.Executor(0).Efforts() {
		if e.Command == command {
			return e.Cost
		}
	}
	t.Fatalf("no command %q", command)
	return engine.Cost{}
}

// TestLimitsOfTries: attempts, polls and the time within which another attempt may begin, each at
// its last allowed value and one beyond.
func TestLimitsOfTries(t *testing.T) {
	calls := func(call workflow.Call, result any, err error) (n int, run workflow.Run) {
		w := workflowtest.New(t)
		w.Handle("a", func(context.Context, *action.Task) (any, error) {
			n++
			return result, err
		})
		call.Target = "@actions/a"
		w.Create(startsWith("w", does(call, "success", "flo.Completed", "failure", "flo.Failed")))
		run = w.Run("w", "1")
		return n, run
	}
	down := errors.New("down")
	for _, c := range []struct {
		what   string
		call   workflow.Call
		result any
		err    error
		want   int
		code   string
	}{
		{"three attempts", workflow.Call{Retry: &workflow.RetryPolicy{}}, nil, down, 3, ""},
		{"within three pauses", workflow.Call{Retry: &workflow.RetryPolicy{MaxAttempts: 10, Backoff: "fixed", Within: 3 * time.Second}},
			nil, down, 4, ""},
		{"within a bit less", workflow.Call{Retry: &workflow.RetryPolicy{MaxAttempts: 10, Backoff: "fixed",
			Within: 2999 * time.Millisecond}}, nil, down, 3, ""},
		{"two polls", workflow.Call{Poll: &workflow.PollPolicy{MaxAttempts: 2, Max: time.Second}}, action.Outcome("pending", nil), nil, 3,
			"poll_exhausted"},
	} {
		n, run := calls(c.call, c.result, c.err)
		if run.Status != workflow.Failed || run.Steps[0].Attempts == 0 || c.code != "" && run.Code != c.code {
			t.Errorf("%s: the run is %s, %s, %s", c.what, run.Status, run.Code, run.Error)
		}
		if n != c.want {
			t.Errorf("%s: %d calls, want %d", c.what, n, c.want)
		}
	}
}

// TestPollsOfAttempts: each attempt has all its polls.
func TestPollsOfAttempts(t *testing.T) {
	w := workflowtest.New(t)
	n := 0
	w.Handle("a", func(context.Context, *action.Task) (any, error) {
		if n++; n%3 == 0 {
			return nil, errors.New("down")
		}
		return action.Outcome("pending", nil), nil
	})
	call := workflow.Call{Target: "@actions/a", Poll: &workflow.PollPolicy{MaxAttempts: 2, Max: time.Second},
		Retry: &workflow.RetryPolicy{}}
	w.Create(startsWith("w", does(call, "success", "flo.Completed", "failure", "flo.Failed")))
	if run := w.Run("w", "1"); n != 9 || run.Steps[0].Outcome != workflow.OutcomeFailure || run.Steps[0].Attempts != 3 {
		t.Errorf("%d calls in %d attempts, want 9 in 3: %s", n, run.Steps[0].Attempts, run.Error)
	}
}

// TestParallelLimits: at most the allowed number of branches runs at once. A failed branch makes
// room, and siblings are withdrawn once the step is decided.
func TestParallelLimits(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, 1)
	flows, actions := flowsOf(r, "n"), actionsOf(r, "n")
	for _, name := range []string{"a", "b"} {
		if _, err := actions.Register(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{`
name: some
start: { parallel: { each: "$.input", run: "@actions/a", max_concurrency: 2, any: 2 }, transitions: { success: flo.Completed, failure: flo.Failed } }
`, `
name: all
start: { parallel: { each: "$.input", run: "@actions/a", max_concurrency: 2 }, transitions: { success: flo.Completed, failure: flo.Failed } }
`} {
		if _, err := flows.Create(ctx, []byte(d)); err != nil {
			t.Fatal(err)
		}
	}
	start := func(name string) workflow.RunID {
		s, err := flows.Start(ctx, name, []byte("[1,2,3,4,5]"))
		if err != nil {
			t.Fatal(err)
		}
		return s.Run
	}
	take := func(want int) []action.Task {
		t.Helper()
		tasks, err := actions.Await(ctx, "w", []string{"a"}, action.Max(10))
		if err != nil || len(tasks) != want {
			t.Fatalf("%d branches begin, want %d, %v", len(tasks), want, err)
		}
		return tasks
	}
	end := func(task *action.Task, err error) {
		t.Helper()
		if err := actions.Finish(ctx, "w", task, 1, err); err != nil {
			t.Fatal(err)
		}
	}
	no := action.Permanent(errors.New("no"))
	id := start("some")
	two := take(2)
	end(&two[0], no)
	three := take(1)
	end(&three[0], nil)
	four := take(1)
	end(&two[1], no)
	five := take(1)
	end(&four[0], nil)
	if err := actions.Finish(ctx, "w", &five[0], 1, nil); !errors.Is(err, action.ErrConflict) {
		t.Errorf("a branch whose step is over ends: %v, want ErrConflict", err)
	}
	if run, err := flows.Runs().Get(ctx, id); err != nil || run.Status != workflow.Completed ||
		string(run.Output) != "[null,null,1,1,null]" {
		t.Errorf("two of five: the run is %s with %s, %v", run.Status, run.Output, err)
	}
	id = start("all")
	two = take(2)
	end(&two[0], no)
	if run, err := flows.Runs().Get(ctx, id); err != nil || run.Status != workflow.Failed || !strings.Contains(run.Error, "branch 0") {
		t.Errorf("one has failed: the run is %s: %s, %v", run.Status, run.Error, err)
	}
	if err := actions.Finish(ctx, "w", &two[1], 1, nil); !errors.Is(err, action.ErrConflict) {
		t.Errorf("a sibling of one that has failed ends: %v, want ErrConflict", err)
	}
	r.Verify()
}

// TestChildIsAwaited: a cancelled run compensates once its child, which compensates too, has ended,
// or after a minute at the latest.
func TestChildIsAwaited(t *testing.T) {
	ctx := context.Background()
	for _, ends := range []bool{true, false} {
		r := newRig(t, 1)
		flows, actions := flowsOf(r, "n"), actionsOf(r, "n")
		for _, name := range []string{"do", "undo", "undo-child"} {
			if _, err := actions.Register(ctx, name, action.Timeout(24*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		start := func(undo, to string) workflow.Step {
			s := does(calling("@actions/do"), "success", to)
			s.Compensate = &workflow.Call{Target: "@actions/" + undo}
			return s
		}
		create(t, flows, startsWith("child", start("undo-child", "wait"),
			named("wait", does(workflow.WaitFor{Signal: "go"}, "success", "flo.Completed"))))
		create(t, flows, startsWith("w", start("undo", "child"),
			named("child", does(calling("@workflow/child"), "success", "flo.Completed"))))
		s, err := flows.Start(ctx, "w", nil)
		if err != nil {
			t.Fatal(err)
		}
		work(t, actions, "do")
		if _, err := flows.Cancel(ctx, s.Run, "enough"); err != nil {
			t.Fatal(err)
		}
		if n := work(t, actions, "undo"); n != 0 {
			t.Error("a run has compensated while its child did")
		}
		if ends {
			if n := work(t, actions, "undo-child"); n != 1 {
				t.Errorf("the child has compensated %d steps, want 1", n)
			}
		} else {
			r.Pass(59_999)
			if r.Fire(); work(t, actions, "undo") != 0 {
				t.Error("a run has not waited for its child for a minute")
			}
			r.Pass(1)
			r.Fire()
		}
		if n := work(t, actions, "undo"); n != 1 {
			t.Errorf("ends %t: the run has compensated %d steps, want 1", ends, n)
		}
		if run, err := flows.Runs().Get(ctx, s.Run); err != nil || run.Status != workflow.Cancelled {
			t.Errorf("ends %t: the run is %s, %v", ends, run.Status, err)
		}
		work(t, actions, "undo-child")
		r.Verify()
	}
}

// TestScheduledRunRetried: a scheduled run that is retried and ends again is counted once among the
// active runs.
func TestScheduledRunRetried(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, 1)
	flows, actions := flowsOf(r, "n"), actionsOf(r, "n")
	if _, err := actions.Register(ctx, "a", action.MaxAttempts(1), action.Timeout(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	const source = "name: w\nschedule: { interval: 60000, max_concurrent: 1 }\nstart: { run: \"@actions/a\", transitions: { success: " +
		"flo.Completed, failure: flo.Failed } }\n"
	if _, err := flows.Create(ctx, []byte(source)); err != nil {
		t.Fatal(err)
	}
	end := func(err error) {
		t.Helper()
		tasks, bad := actions.Await(ctx, "w", []string{"a"})
		if bad != nil || len(tasks) != 1 {
			t.Fatalf("%d tasks, %v", len(tasks), bad)
		}
		if err := actions.Finish(ctx, "w", &tasks[0], nil, err); err != nil {
			t.Fatal(err)
		}
	}
	active := func(want int64) {
		t.Helper()
		if i, err := flows.Get(ctx, "w"); err != nil || i.Schedule.Active != want {
			t.Errorf("%d runs are active, want %d, %v", i.Schedule.Active, want, err)
		}
	}
	r.Advance(0) // the duty schedules
	r.Advance(60_000)
	active(1)
	end(errors.New("no"))
	active(0)
	var id workflow.RunID
	for run, err := range flows.Runs().All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		id = run.ID
	}
	if _, err := flows.Retry(ctx, id); err != nil {
		t.Fatal(err)
	}
	active(1)
	r.Advance(60_000)
	active(1) // the second tick is skipped
	end(errors.New("no"))
	active(0)
	// Runs of a schedule that was removed meanwhile are not counted.
	if _, err := flows.Retry(ctx, id); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"2", "3"} {
		if _, err := flows.Create(ctx, []byte(strings.Replace(source, "schedule",
			map[string]string{"2": "version: \"2\"\n#", "3": "version: \"3\"\nschedule"}[version], 1))); err != nil {
			t.Fatal(err)
		}
	}
	active(0)
	end(nil)
	active(0)
	r.Verify()
}

// TestChildRetried: a retried child runs on its own, because the step that called it has already
// ended.
func TestChildRetried(t *testing.T) {
	w := workflowtest.New(t)
	w.Return("a", nil, action.Permanent(errors.New("no")))
	parents := workflow.Definition{
		Name: "w", Schedule: &workflow.ScheduleSpec{Cron: "0 0 1 1 *"}, Start: does(calling("@workflow/child"), "success", "flo.Completed",
			"failure", "flo.Failed"),
	}
	w.Create(startsWith("child", does(calling("@actions/a"), "success", "flo.Completed", "failure", "flo.Failed")), parents.YAML())
	parent := w.Run("w", "1")
	w.Return("a", 1, nil)
	for run, err := range w.Workflows().Runs().All(t.Context(), workflow.Of("child")) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Workflows().Retry(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
		if child := w.Finish(run.ID); child.Status != workflow.Completed {
			t.Errorf("the child is %s: %s", child.Status, child.Error)
		}
	}
	if run := w.Get(parent.ID); run.Status != workflow.Failed {
		t.Errorf("the parent is %s", run.Status)
	}
}

// TestTimedOutStepIsWithdrawn: a step's calls that no worker has started when the step times out
// are not started any more.
func TestTimedOutStepIsWithdrawn(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, 1)
	flows, actions := flowsOf(r, "n"), actionsOf(r, "n")
	if _, err := actions.Register(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	start := does(workflow.Call{Target: "@actions/a", Timeout: 10 * time.Second}, "success", "flo.Completed", "timeout", "wait")
	create(t, flows, startsWith("w", start, named("wait", does(workflow.WaitFor{Signal: "go"}, "success", "flo.Completed"))))
	s, err := flows.Start(ctx, "w", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Pass(10_000)
	r.Fire()
	if n := work(t, actions, "a"); n != 0 {
		t.Errorf("%d calls are begun whose step has timed out", n)
	}
	if run, err := flows.Runs().Get(ctx, s.Run); err != nil || run.CurrentStep != "wait" {
		t.Errorf("the run is at %q, %v", run.CurrentStep, err)
	}
}

// TestCallOverBeforeItWasMade: a run is cancelled while its call, of an action or a child, is on
// its way to another shard. If it is created there all the same, it is cancelled.
func TestCallOverBeforeItWasMade(t *testing.T) {
	ctx := t.Context()
	r, flows, actions := spread(t)
	if _, err := actions.Register(ctx, "limited", action.MaxRunning(1)); err != nil {
		t.Fatal(err)
	}
	fan := workflow.Parallel{Branches: []workflow.Branch{{"a", calling("@actions/limited")}, {"b", calling("@workflow/child")}}}
	create(t, flows, startsWith("parent", does(fan, "success", "flo.Completed")))
	r.Hold(true)
	create(t, flows, startsWith("child", does(workflow.WaitFor{Signal: "go"}, "success", "flo.Completed")))
	var runs []workflow.RunID
	for range 8 {
		s, err := flows.Start(ctx, "parent", nil)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, s.Run)
	}
	for _, id := range runs {
		if _, err := flows.Cancel(ctx, id, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	r.Hold(false)
	r.Deliver()
	if n := work(t, actions, "limited"); n != 0 {
		t.Errorf("%d actions were carried out of runs that are cancelled", n)
	}
	for run, err := range flows.Runs().All(ctx, workflow.Active()) {
		t.Errorf("run %s of %s is active, %v", run.ID, run.Workflow, err)
	}
	r.Verify()
}

// fires fires timers of the first shard the given number of times, however many are due then.
func fires(r *machinetest.Rig, times int) {
	for range times {
		r.Entry(0, engine.Fire())
	}
}

// TestLoopIsStopped: exactly max_steps steps that wait for nothing are taken, even if that exceeds
// what one command takes.
func TestLoopIsStopped(t *testing.T) {
	r := newRig(t, 1)
	flows := flowsOf(r, "n")
	if _, err := flows.Create(t.Context(),
		[]byte("name: w\nmax_steps: 200\nstart: { run: \"@actions/none\", when: \"false\", transitions: { success: _start } }\n")); err != nil {
		t.Fatal(err)
	}
	s, err := flows.Start(t.Context(), "w", nil)
	if err != nil || s.Status.Final() {
		t.Fatalf("the run is %s: %v", s.Status, err)
	}
	for range 5 {
		r.Pass(10)
		r.Fire()
	}
	run, err := flows.Runs().Get(t.Context(), s.Run)
	if err != nil || run.Status != workflow.Failed || run.Code != "too_many_steps" {
		t.Fatalf("the run is %s, %s: %v", run.Status, run.Code, err)
	}
	skipped := 0
	for e, err := range flows.History(s.Run).All(t.Context(), workflow.Limit(1000)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == workflow.StepSkipped {
			skipped++
		}
	}
	if skipped != 200 {
		t.Errorf("%d steps were taken, want 200", skipped)
	}
}

// TestKeptRuns: the retention keeps the youngest runs up to its number and for its time, but all
// runs for 10 s.
func TestKeptRuns(t *testing.T) {
	for _, c := range []struct {
		retention string
		youngest  int   // number of runs kept when all ended 10 s ago
		until     int64 // when the last one is removed, in ms after its end
	}{
		{"{ runs: 2, ms: 20000 }", 2, 20_000}, {"{ runs: 2, ms: 1 }", 0, 10_000}, {"0", 0, 10_000}, {"{ runs: 0 }", 0,
			10_000}, {"{ runs: 1, ms: 10001 }", 1, 10_001},
	} {
		t.Run(c.retention, func(t *testing.T) {
			r := newRig(t, 1)
			flows := flowsOf(r, "n")
			definition := "name: w\nretention: " + c.retention + "\nstart: { sleep: { ms: 0 }, transitions: { success: flo.Completed } }\n"
			if _, err := flows.Create(t.Context(), []byte(definition)); err != nil {
				t.Fatal(err)
			}
			const runs = 5
			var last workflow.RunID
			for range runs {
				s, err := flows.Start(t.Context(), "w", nil)
				if err != nil {
					t.Fatal(err)
				}
				last = s.Run
				r.Pass(1)
			}
			since := int64(1) // the end of the last run
			expect := func(at int64, want int) {
				t.Helper()
				r.Pass(at - since)
				since = at
				fires(r, 3)
				var ids []workflow.RunID
				for run, err := range flows.Runs().All(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, run.ID)
				}
				if len(ids) != want || want > 0 && ids[0] != last {
					t.Errorf("%d ms behind the end of the last one %d runs are kept, want %d: %v", at, len(ids), want, ids)
				}
				r.Verify()
			}
			expect(1, runs)
			expect(10_000-runs, runs)
			expect(9_999, max(1, c.youngest))
			expect(10_000, c.youngest)
			if c.until > 10_000 {
				expect(c.until-1, 1)
				expect(c.until, 0)
			}
		})
	}
}

// TestStoppedBranches: children of a failed parallel step are cancelled, and the run continues when
// they have ended.
func TestStoppedBranches(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, 1)
	flows, actions := flowsOf(r, "n"), actionsOf(r, "n")
	if _, err := actions.Register(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	child := calling("@workflow/child")
	fan := workflow.Parallel{Branches: []workflow.Branch{{"a", calling("@actions/a")}, {"b", child}, {"c", child}}}
	create(t, flows, startsWith("child", does(workflow.WaitFor{Signal: "go"}, "success", "flo.Completed")))
	create(t, flows, startsWith("w", does(fan, "success", "flo.Completed", "failure", "flo.Failed")))
	s, err := flows.Start(ctx, "w", nil)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := actions.Await(ctx, "w", []string{"a"})
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	if err := actions.Fail(ctx, tasks[0].Run, "w", "no"); err != nil {
		t.Fatal(err)
	}
	if run, err := flows.Runs().Get(ctx, s.Run); err != nil || run.Status != workflow.Failed {
		t.Errorf("the run is %s and waits for %s, %v", run.Status, run.Waits, err)
	}
	if i, err := flows.Get(ctx, "child"); err != nil || i.Runs.Cancelled != 2 {
		t.Errorf("the children are %+v, %v", i.Runs, err)
	}
}
