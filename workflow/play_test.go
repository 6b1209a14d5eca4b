package workflow_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/quota"
	"github.com/floedb/floe/workflow"
)

// play is a scenario executed by the machine.
type play struct {
	*scenario
	t       *testing.T
	r       *machinetest.Rig
	flows   *workflow.Store
	actions *action.Store
	called  map[string]int
	undone  map[workflow.RunID][]string
	due     []dueGen
	work    map[workflow.RunID]int  // handlers of a run that will return
	silent  map[workflow.RunID]bool // a run's handlers that never return
}

// dueGen is an event that happens at a given time.
type dueGen struct {
	at int64
	do func() error
}

// startPlay creates what a scenario needs.
func (s *scenario) startPlay(t *testing.T, r *machinetest.Rig, namespace string, opts ...action.RegisterOption) *play {
	p := &play{
		scenario: s, t: t, r: r, flows: flowsOf(r, namespace), actions: actionsOf(r, namespace), called: make(map[string]int),
		undone: make(map[workflow.RunID][]string),
		work:   make(map[workflow.RunID]int), silent: make(map[workflow.RunID]bool),
	}
	for _, name := range []string{"a", "b", "off", "undo"} {
		opts := append(slices.Clone(opts), action.MaxAttempts(1+ownRetries["@actions/"+name]), action.Timeout(ownTimeout*time.Millisecond),
			action.Backoff(0, 0))
		if _, err := p.actions.Register(t.Context(), name, opts...); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.actions.Disable(t.Context(), "off"); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.defs {
		if _, err := p.flows.Create(t.Context(), f.source()); err != nil {
			t.Fatalf("%s\n%v", f.source(), err)
		}
	}
	return p
}

// play executes the scenario and returns the results of all runs.
func (p *play) play() (runs []string) {
	ctx := p.t.Context()
	began := p.r.Now()
	s, err := p.flows.Start(ctx, "main", []byte(p.input))
	if err != nil {
		p.t.Fatal(err)
	}
	if p.cancel > 0 {
		p.at(began+p.cancel, func() error { _, err := p.flows.Cancel(ctx, s.Run, "by chance"); return err })
	}
	for _, g := range p.signals {
		p.at(began+g.at, func() error { _, err := p.flows.Signal(ctx, s.Run, g.kind, []byte(g.payload)); return err })
	}
	for n := 0; ; n++ {
		p.take()
		active := false
		for _, err := range p.flows.Runs().All(ctx, workflow.Active()) {
			if active = true; err != nil {
				p.t.Fatal(err)
			}
		}
		if !active {
			break
		}
		next := p.r.NextDue()
		for _, d := range p.due {
			next = min(next, d.at)
		}
		if next == engine.NoTimer || n > 3000 {
			p.t.Fatal("there are active runs that nothing happens to")
		}
		p.r.Pass(max(next-p.r.Now(), 0))
		p.r.Fire()
		for i := 0; i < len(p.due); i++ {
			if d := p.due[i]; d.at <= p.r.Now() {
				p.due = slices.Delete(p.due, i, i+1)
				i--
				if err := d.do(); err != nil && !errors.Is(err, action.ErrConflict) && !errors.Is(err, workflow.ErrConflict) {
					p.t.Fatal(err)
				}
			}
		}
	}
	for run, err := range p.flows.Runs().All(ctx) {
		if err != nil {
			p.t.Fatal(err)
		}
		runs = append(runs, p.text(run.ID))
	}
	return runs
}

func (p *play) at(at int64, do func() error) { p.due = append(p.due, dueGen{at, do}) }

// take starts all tasks that wait for a worker.
func (p *play) take() {
	ctx := p.t.Context()
	for {
		tasks, err := p.actions.Await(ctx, "w", []string{"a", "b", "off", "undo"}, action.Max(100))
		if err != nil {
			p.t.Fatal(err)
		}
		if len(tasks) == 0 {
			return
		}
		for i := range tasks {
			p.begin(&tasks[i])
		}
	}
}

func (p *play) begin(task *action.Task) {
	ctx, now := p.t.Context(), p.r.Now()
	id, key, _ := strings.Cut(task.IdempotencyKey, "/")
	run := workflow.RunID(id)
	p.called[task.IdempotencyKey]++
	n := p.called[task.IdempotencyKey]
	f := p.fate(key, n)
	done := func(outcome, output string) func() error {
		return func() error {
			return p.actions.Complete(ctx, task.Run, "w", []byte(output), action.OutcomeName(outcome))
		}
	}
	if visit, ok := strings.CutSuffix(key, undoOf); ok {
		p.undone[run] = append(p.undone[run], fmt.Sprintf("undo %s with %s", visit, plainly(string(task.Input))))
		p.undoes(run, visit)
	}
	var do func() error
	switch f.kind {
	case "succeed":
		do = done("success", outputGen(key, n))
	case "odd", "pending", "failure":
		do = done(f.kind, outputGen(key, n))
	case "refuse":
		do = func() error { return p.actions.Fail(ctx, task.Run, "w", "no", action.ErrorCode("bad")) }
	case "fail":
		do = func() error {
			return p.actions.Fail(ctx, task.Run, "w", "no", action.ErrorCode("busy"), action.Retry())
		}
	case "silent":
		p.silent[run] = true
		return
	case "cancel":
		p.at(now+f.after, func() error { return p.actions.Cancel(ctx, task.Run, "by chance") })
		f.after, do = 2*f.after, done("success", "1")
	}
	if f.after == 0 {
		if err := do(); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	p.work[run]++
	p.at(now+f.after, func() error { p.work[run]--; return do() })
}

// undoes fails the test if a visit is compensated while its children are still running. Children
// with handlers that never return have a minute, which has then passed for their parent too.
func (p *play) undoes(run workflow.RunID, visit string) {
	at, visits := 0, 0
	_, number, _ := strings.Cut(visit, "#")
	if _, err := fmt.Sscan(number, &at); err != nil {
		p.t.Fatal(err)
	}
	for e, err := range p.flows.History(run).All(p.t.Context()) {
		if err != nil {
			p.t.Fatal(err)
		}
		switch e.Type {
		case workflow.StepStarted, workflow.StepSkipped:
			visits++
		case workflow.ChildStarted:
			if visits != at {
				continue
			}
			kid, err := p.flows.Runs().Get(p.t.Context(), workflow.RunID(e.Detail))
			if err != nil {
				p.t.Fatal(err)
			}
			if p.work[kid.ID] > 0 || !kid.Status.Final() && !p.silent[kid.ID] {
				p.t.Errorf("scenario %d: %s of %s is compensated, and its child %s is %s with %d handlers at work", p.seed, visit, run,
					kid.ID, kid.Status, p.work[kid.ID])
			}
		}
	}
}

// text describes the result of a run, as the model does.
func (p *play) text(id workflow.RunID) string {
	run, err := p.flows.Runs().Get(p.t.Context(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	var path []string
	for e, err := range p.flows.History(id).All(p.t.Context()) {
		if err != nil {
			p.t.Fatal(err)
		}
		switch e.Type {
		case workflow.StepCompleted:
			path = append(path, e.Step+": "+e.Outcome)
		case workflow.StepSkipped:
			path = append(path, e.Step+": skipped")
		}
	}
	text := []string{ranText(run.Workflow, string(run.Input), run.Status.String(), path)}
	if run.Status == workflow.Completed {
		text = append(text, "output "+plainly(cmp.Or(string(run.Output), "null")))
	}
	return strings.Join(append(text, p.undone[id]...), "; ")
}

// TestDefinitions plays random scenarios in plain and in spread namespaces. The results of their
// runs, the steps taken and the compensations must match the documentation.
func TestDefinitions(t *testing.T) {
	seed := machinetest.Seed(t)
	told := 0
	q := quota.New(t, 60)
	for q.More() {
		s := newScenario(seed + uint64(q.Rounds()))
		m := &model{scenario: s}
		cancel := everGen
		if s.cancel > 0 {
			cancel = s.cancel
		}
		if m.all(m.run(s.main, s.input, 0, cancel)); m.ties {
			continue
		}
		told++
		slices.Sort(m.runs)
		for _, at := range spaces {
			r := newRig(t, at.shards)
			if at.shards > 1 {
				if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "n", true); err != nil {
					t.Fatal(err)
				}
			}
			got := s.startPlay(t, r, "n", at.opts...).play()
			slices.Sort(got)
			if !slices.Equal(got, m.runs) {
				t.Errorf("%s, scenario %d:\n%s\n%s\n%s\nsignals %v, cancel %d\ngot\n\t%s\nwant\n\t%s", at.name, s.seed, s.main.source(),
					s.defs["kid"].source(), s.defs["plain"].source(), s.signals, s.cancel,
					strings.Join(got, "\n\t"), strings.Join(m.runs, "\n\t"))
				break
			}
		}
	}
	if told < q.Rounds()/2 {
		t.Errorf("the model could tell what becomes of %d of %d scenarios", told, q.Rounds())
	}
}
