package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

func newRig(t testing.TB, shards int) *machinetest.Rig {
	return machinetest.New(t, shards, engine.TableOf[action.Store](), engine.TableOf[stream.Store](), engine.TableOf[workflow.Store]())
}

func flowsOf(r *machinetest.Rig, namespace string) *workflow.Store {
	return engine.StoreOf[workflow.Store](r.Router(), namespace, 1<<20)
}

func actionsOf(r *machinetest.Rig, namespace string) *action.Store {
	return engine.StoreOf[action.Store](r.Router(), namespace, 1<<20)
}

// TestScripts runs the scripts in testdata. Each line of a "run" is answered by one or more lines;
// after each line all rows are verified. Time is set by "at", which fires no timer: "fire" does.
// Runs are named r1, r2 and so on in the order of their appearance, tasks t1, t2.
//
//	at 10s   fire   restart   timers
//	create file                                  a definition in testdata/definitions
//	enable w   disable w   delete w force=yes    workflow w   list
//	register a retries=0 timeout=30s             an action
//	start w input key=k id=i version=v
//	take a ...                                   the tasks that a worker takes, or "nothing"
//	done t1 output outcome=o                     fail t1 message code=c retry=yes
//	signal r1 type payload   cancel r1 reason    retry r1 from=step input={}
//	run r1   steps r1   history r1   runs        the state of runs
//	pass 30s                                     time passes: timers fire, and leaders do their duties
//	schedule w   pause w   resume w              the schedule of a workflow
//	invalidate w plan
//	counts                                       the counters of the namespace
//	drop r1                                      cancel the action's run of a task, as a user
func TestScripts(t *testing.T) {
	machinetest.RunScripts(t, "testdata/scripts", func(t *testing.T) *machinetest.Script {
		r := newRig(t, 1)
		t.Cleanup(func() { // a crash at every position of the log has no effect
			tables := []engine.Primitive{engine.TableOf[action.Store](), engine.TableOf[stream.Store](), engine.TableOf[workflow.Store]()}
			machinetest.EqualReplicas(t, r.Log(0), tables, machinetest.Replica{},
				machinetest.Replica{Name: "crashes behind each entry", Commit: 1, Restart: 1})
		})
		s := &script{
			Script: &machinetest.Script{Rig: r, Limit: 1 << 20, Verify: r.Verify}, flows: flowsOf(r, "n"), actions: actionsOf(r, "n"), t: t,
			short: make(map[string]string), long: make(map[string]string), seen: make(map[string]int),
		}
		s.Operation, s.Condition, s.Result, s.Other = s.operation, noCondition, s.result, s.other
		return s.Script
	})
}

type script struct {
	*machinetest.Script
	t       *testing.T
	flows   *workflow.Store
	actions *action.Store
	short   map[string]string // by id
	long    map[string]string
	seen    map[string]int
}

func noCondition(string, machinetest.Args) (c engine.Condition, ok bool) { return c, false }

var ids = regexp.MustCompile(`(wfr|run)-[0-9a-v]+`)

// name replaces ids by names that a script can use.
func (s *script) name(text string) string {
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		if s.short[id] == "" {
			kind := map[string]string{"wfr": "r", "run": "t"}[id[:3]]
			s.seen[kind]++
			name := fmt.Sprintf("%s%d", kind, s.seen[kind])
			s.short[id], s.long[name] = name, id
		}
		return s.short[id]
	})
}

// id returns the id of a name.
func (s *script) id(name string) string {
	if id := s.long[name]; id != "" {
		return id
	}
	return name
}

func (s *script) operation(verb string, a machinetest.Args) (op engine.Operation, ok bool) {
	name, arg := a.Word(0), a.Word(1)
	run := workflow.RunID(s.id(name))
	switch verb {
	case "create":
		b, err := os.ReadFile(filepath.Join("testdata", "definitions", name))
		if err != nil {
			s.t.Fatal(err)
		}
		return workflow.CreateOp(b), true
	case "enable":
		return workflow.EnableOp(name), true
	case "disable":
		return workflow.DisableOp(name), true
	case "delete":
		if a.Has("force") {
			return workflow.DeleteOp(name, workflow.Force()), true
		}
		return workflow.DeleteOp(name), true
	case "register":
		var opts []action.RegisterOption
		if a.Has("retries") {
			opts = append(opts, action.MaxAttempts(1+int(machinetest.Number(a.Named["retries"]))))
		}
		if a.Has("timeout") {
			opts = append(opts, action.Timeout(machinetest.Duration(a.Named["timeout"])))
		}
		return action.RegisterOp(name, opts...), true
	case "unregister":
		return action.DeleteOp(name, action.Force()), true
	case "stop":
		return action.DisableOp(name), true
	case "start":
		return workflow.StartOp(name, []byte(arg), startOptions(a)...), true
	case "signal":
		return workflow.SignalOp(run, arg, []byte(a.Word(2))), true
	case "cancel":
		return workflow.CancelOp(run, arg), true
	case "drop":
		return action.CancelOp(action.RunID(s.id(name)), arg), true
	case "retry":
		var opts []workflow.RetryOption
		if a.Has("from") {
			opts = append(opts, workflow.FromStep(a.Named["from"]))
		}
		if a.Has("input") {
			opts = append(opts, workflow.ReplaceInput([]byte(a.Named["input"])))
		}
		return workflow.RetryOp(run, opts...), true
	}
	return op, false
}

func startOptions(a machinetest.Args) (opts []workflow.StartOption) {
	if a.Has("key") {
		opts = append(opts, workflow.IdempotencyKey(a.Named["key"]))
	}
	if a.Has("id") {
		opts = append(opts, workflow.UseID(workflow.RunID(a.Named["id"])))
	}
	if a.Has("version") {
		opts = append(opts, workflow.Version(a.Named["version"]))
	}
	return opts
}

func (s *script) result(v any) string {
	switch v := v.(type) {
	case workflow.Created:
		if v.Unchanged {
			return "unchanged"
		}
		return v.Name + " " + v.Version
	case workflow.Started:
		text := s.name(string(v.Run)) + " " + v.Status.String()
		if v.Duplicate {
			text += ", duplicate"
		}
		return text
	case nil:
		return "ok"
	}
	return s.name(fmt.Sprint(v))
}

func (s *script) other(ctx context.Context, line, verb string, a machinetest.Args) bool {
	background := context.Background()
	name := a.Word(0)
	run := workflow.RunID(s.id(name))
	switch verb {
	case "take":
		s.take(background, line, a)
	case "done", "fail":
		s.Answer(line, "ok", s.end(background, verb, a))
	case "run":
		r, err := s.flows.Runs().Get(background, run)
		s.Answer(line, s.describe(&r), s.plain(err))
	case "steps":
		r, err := s.flows.Runs().Get(background, run)
		s.Answer(line, "", s.plain(err))
		for _, step := range r.Steps {
			s.Printf("  %s", s.name(strings.TrimSpace(fmt.Sprintf("%s %s #%d %s %s", step.Step, step.Outcome, step.Attempts, step.Output,
				step.Error))))
		}
		for _, signal := range r.Signals {
			s.Printf("  signal %s %s", signal.Type, signal.Payload)
		}
	case "history":
		s.Answer(line, "", nil)
		for e, err := range s.flows.History(run).All(background, workflow.Limit(2)) {
			if err != nil {
				s.Answer(line, "", err)
				break
			}
			s.Printf("  %s", s.name(event(&e)))
		}
	case "runs":
		s.runs(background, line, a)
	case "workflow":
		i, err := s.flows.Get(background, name)
		s.Answer(line, fmt.Sprintf("%s enabled=%t %s", i.Version, i.Enabled, strings.Trim(fmt.Sprintf("%+v", i.Runs), "{}")), s.plain(err))
	case "pass":
		s.Rig.Advance(machinetest.Duration(name).Milliseconds())
		s.Printf("%s", line)
	case "pause":
		s.Answer(line, "ok", s.plain(s.flows.Schedule(name).Pause(background)))
	case "resume":
		s.Answer(line, "ok", s.plain(s.flows.Schedule(name).Resume(background)))
	case "schedule":
		i, err := s.flows.Get(background, name)
		if i.Schedule == nil {
			s.Answer(line, "none", s.plain(err))
			break
		}
		c := i.Schedule
		s.Answer(line, fmt.Sprintf("last %s next %s paused=%t active=%d started=%d skipped=%d missed=%d refused=%d %s",
			machinetest.Since(c.Last), sinceOrNone(c.Next),
			c.Paused, c.Active, c.Started, c.Skipped, c.Missed, c.Refused, c.Note), s.plain(err))
	case "invalidate":
		s.Answer(line, "ok", s.plain(s.flows.InvalidatePlan(background, name, a.Word(1))))
	case "counts":
		i, err := engine.NewNamespaces(s.Rig.Router()).Get(background, "n")
		c := &i.Counts
		s.Answer(line, fmt.Sprintf("workflows %d active %d started %d completed %d failed %d cancelled %d timed out %d "+
			"signals %d timers %d steps %d schedules %d compensations failed %d",
			c.Workflows, c.RunsActive, c.RunsStarted, c.RunsCompleted, c.RunsFailed, c.RunsCancelled, c.RunsTimedOut,
			c.Signals, c.Timers, c.Steps, c.Schedules, c.CompensationsFailed), err)
	case "list":
		for i, err := range s.flows.All(background) {
			s.Answer(line, i.Name+" "+i.Version, err)
		}
	default:
		return false
	}
	return true
}

func sinceOrNone(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return machinetest.Since(t)
}

func (s *script) plain(err error) error {
	if err == nil {
		return nil
	}
	var e *engine.Error
	if errors.As(err, &e) {
		return engine.Errorf(e.Kind, "%s", s.name(e.Msg))
	}
	return err
}

func (s *script) take(ctx context.Context, line string, a machinetest.Args) {
	tasks, err := s.actions.Await(ctx, "worker", a.Words, action.Max(100))
	if err != nil || len(tasks) == 0 {
		s.Answer(line, "nothing", err)
		return
	}
	s.Answer(line, "", nil)
	for _, task := range tasks {
		s.Printf("  %s", s.name(fmt.Sprintf("%s %s %s key=%s", task.Run, task.Action, task.Input, task.IdempotencyKey)))
	}
}

func (s *script) end(ctx context.Context, verb string, a machinetest.Args) error {
	run := action.RunID(s.id(a.Word(0)))
	if verb == "done" {
		var opts []action.EndOption
		if a.Has("outcome") {
			opts = append(opts, action.OutcomeName(a.Named["outcome"]))
		}
		return s.plain(s.actions.Complete(ctx, run, "worker", []byte(a.Word(1)), opts...))
	}
	var opts []action.EndOption
	if a.Has("code") {
		opts = append(opts, action.ErrorCode(a.Named["code"]))
	}
	if a.Has("retry") {
		opts = append(opts, action.Retry())
	}
	return s.plain(s.actions.Fail(ctx, run, "worker", a.Word(1), opts...))
}

func (s *script) describe(r *workflow.Run) string {
	parts := []string{r.Status.String()}
	for _, p := range []struct{ name, value string }{
		{"at", r.CurrentStep}, {"waits for", r.Waits}, {"output", string(r.Output)}, {"error", r.Error}, {"code", r.Code},
	} {
		if p.value != "" {
			parts = append(parts, p.name+" "+p.value)
		}
	}
	if !r.Due.IsZero() {
		parts = append(parts, "until "+machinetest.Since(r.Due))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Attributes)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, r.Attributes[name]))
	}
	return s.name(strings.Join(parts, ", "))
}

func event(e *workflow.Event) string {
	text := machinetest.Since(e.At) + " " + e.Type.String()
	if e.Step != "" {
		text += " " + e.Step
	}
	if e.Attempt > 0 {
		text += fmt.Sprintf(" #%d", e.Attempt)
	}
	if e.Outcome != "" {
		text += " " + e.Outcome
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

func (s *script) runs(ctx context.Context, line string, a machinetest.Args) {
	opts := []workflow.RunOption{workflow.Limit(2)}
	if a.Has("of") {
		opts = append(opts, workflow.Of(a.Named["of"]))
	}
	if a.Has("state") {
		state, err := workflow.ParseStatus(a.Named["state"])
		if err != nil {
			s.t.Fatal(err)
		}
		opts = append(opts, workflow.InState(state))
	}
	if a.Has("with") {
		name, value, _ := strings.Cut(a.Named["with"], ":")
		opts = append(opts, workflow.Has(name, value))
	}
	var found []string
	for r, err := range s.flows.Runs().All(ctx, opts...) {
		if err != nil {
			s.Answer(line, "", err)
			return
		}
		found = append(found, s.name(string(r.ID))+" "+r.Workflow+" "+r.Status.String())
	}
	s.Answer(line, strings.Join(found, "; "), nil)
}
