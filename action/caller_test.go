package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// caller is a machine that has actions carried out, as workflows do. A user command invokes an
// action, and each run's end invokes the next one in the same entry, for a number of steps.
type caller struct {
	machine engine.MachineID // its own
	timeout int64
}

const (
	callerStart uint8 = iota + 1 // body: token | number of steps
	callerTold
)

func callerTable(timeout int64) engine.Primitive { return callerTableOf(engine.MachineTest, timeout) }

func callerTableOf(id engine.MachineID, timeout int64) engine.Primitive {
	return engine.Primitive{
		ID: id, Name: "caller", New: func() engine.Machine { return caller{id, timeout} },
		Commands: []engine.CommandType{
			{Kind: callerStart, Name: "start", From: engine.FromUsers, Admit: func(engine.Command, int) error { return nil }},
			{Kind: callerTold, Name: "told", From: engine.FromMachines},
		},
	}
}

func (caller) Restore(*engine.View) error { return nil }
func (caller) OnTimer(*engine.Tx, []byte) { panic("caller: a timer") }

func startCause(namespace string) engine.Topic {
	return engine.TopicOf(engine.MachineTest, namespace, []byte("start"))
}

func (caller) Makes(cmd engine.Command, made func(engine.Made)) {
	if cmd.Kind == callerStart {
		made(engine.Made{Topic: protocol.Takers(cmd.Namespace), N: 1, Cause: startCause(cmd.Namespace)})
	}
}

func (c caller) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if cmd.Kind == callerStart {
		tx.Cause(startCause(tx.NamespaceName()))
		c.invokeNext(tx, cmd.Body)
		return nil, nil
	}
	end, err := decode(cmd.Body, (*protocol.End).Encode)
	if err != nil {
		return nil, err
	}
	told := fmt.Appendf(nil, "%s %s %s %s, attempt %d", Status(end.Status), end.Outcome, end.Code, end.Output, end.Attempt)
	if end.Refused {
		told = append(told, ", refused"...)
	}
	tx.Set(append([]byte{'e'}, end.Token...), told)
	k := append([]byte{'h'}, end.Token...) // of each end whether a handler may still be running
	held, _ := tx.Get(k)
	tx.Set(k, fmt.Appendf(held, "%t ", end.Held))
	if left := end.Token[0]; left > 1 {
		c.invokeNext(tx, []byte{left - 1})
	}
	return nil, nil
}

func (c caller) invokeNext(tx *engine.Tx, token []byte) {
	v := protocol.Invoke{
		Name: "step", Input: []byte("1"), Priority: 100, Source: "caller", MaxAttempts: 2, Timeout: c.timeout,
		Notify: protocol.Notify{Machine: c.machine, Command: callerTold, Token: token},
	}
	tx.Then(engine.Command{Machine: engine.MachineAction, Kind: kindInvoke, Body: encode(nil, &v, (*protocol.Invoke).Code)})
}

// TestCaller: the caller of a run is notified of its end after the command that ends it, in the
// same entry: completed, failed, cancelled, timed out, lost.
func TestCaller(t *testing.T) {
	w := &world{t: t, r: machinetest.New(t, 1, table(), callerTable(1000)), of: make(map[protocol.Ref]uint64)}
	w.register("step", defaultSpec)
	s := w.open(group{"", []string{"step"}})
	start := func(steps byte) {
		cmd := engine.Command{Machine: engine.MachineTest, Kind: callerStart, Namespace: "n", Body: []byte{steps}}
		if _, err := w.r.Propose(context.Background(), 0, cmd); err != nil {
			t.Fatal(err)
		}
	}
	one := []want{{0, "w", 1}}
	take := func(ends ...end) taken {
		t.Helper()
		res, err := w.work(workBody{session: s, wants: one, ends: ends})
		if err != nil || len(res.taken) != 1 {
			t.Fatalf("work = %+v, %v", res, err)
		}
		return res.taken[0]
	}
	told := func(token byte) string {
		for _, row := range w.r.Rows(0) {
			if row.Machine == engine.MachineTest && string(row.Key) == string([]byte{'e', token}) {
				return string(row.Value)
			}
		}
		return ""
	}
	expect := func(token byte, want string) {
		t.Helper()
		if got := told(token); got != want {
			t.Errorf("caller %d is told %q, want %q", token, got, want)
		}
	}

	// A step's result and the next step take one command.
	start(3)
	for range 2 {
		step := take()
		entries := len(w.r.Log(0))
		if _, err := w.work(workBody{session: s,
			ends: []end{{ref: step.ref, attempt: 1, how: completed, output: []byte("7")}}}); err != nil {
			t.Fatal(err)
		}
		if n := len(w.r.Log(0)) - entries; n != 1 {
			t.Errorf("a step took %d entries", n)
		}
	}
	expect(3, "completed success  7, attempt 1")
	expect(2, "completed success  7, attempt 1")
	take()

	// Both attempts run out of time.
	w.r.Pass(1000)
	w.r.Fire()
	expect(1, "")
	w.r.Pass(5000)
	w.r.Fire()
	take()
	w.r.Pass(1000)
	w.r.Fire()
	expect(1, "timed_out timeout timeout , attempt 2")

	start(1)
	step := take()
	if _, err := w.do(kindCancel, encode(nil, &protocol.Cancel{Ref: step.ref}, (*protocol.Cancel).Code)); err != nil {
		t.Fatal(err)
	}
	expect(1, "cancelled cancelled  , attempt 1")
	if res, err := w.work(workBody{session: s, ends: []end{{ref: step.ref, attempt: 1, how: completed}}}); err != nil ||
		!slices.Equal(res.verdicts, []verdict{abandoned}) {
		t.Errorf("a late result: %+v, %v", res, err)
	}

	start(1)
	step = take()
	if _, err := w.work(workBody{session: s, ends: []end{{ref: step.ref, how: refused, code: "no_card"}}}); err != nil {
		t.Fatal(err)
	}
	expect(1, "failed failure no_card , attempt 1, refused")

	// The same for an action that keeps no runs.
	gone := defaultSpec
	gone.retainRuns = 0
	w.register("step", gone)
	start(1)
	step = take()
	if _, err := w.work(workBody{session: s, ends: []end{{ref: step.ref, how: completed, output: []byte("8")}}}); err != nil {
		t.Fatal(err)
	}
	expect(1, "completed success  8, attempt 1")

	// A missing action fails the whole command.
	if _, err := w.do(kindDelete, body(remove, "step", true)); err != nil {
		t.Fatal(err)
	}
	cmd := engine.Command{Machine: engine.MachineTest, Kind: callerStart, Namespace: "n", Body: []byte{1}}
	if _, err := w.r.Propose(context.Background(), 0, cmd); !errors.Is(err, ErrNotFound) {
		t.Errorf("start without the action: %v", err)
	}
}

// TestSecondReport: a workflow is notified again when the handler of a cancelled or timed-out run
// has returned, or never will. Other machines are not.
func TestSecondReport(t *testing.T) {
	type ground struct {
		*world
		session uint64 // 0: the worker polls
		step    taken
	}
	cancel := func(g *ground) {
		if _, err := g.do(kindCancel, encode(nil, &protocol.Cancel{Ref: g.step.ref}, (*protocol.Cancel).Code)); err != nil {
			g.t.Fatal(err)
		}
	}
	returns := func(g *ground, attempt int64) (worked, error) {
		c := workBody{session: g.session, ends: []end{{ref: g.step.ref, attempt: attempt, how: completed}}}
		if g.session == 0 {
			c.self = "w"
		}
		return g.work(c)
	}
	expire := func(g *ground) {
		cmd := engine.Command{Machine: engine.MachineAction, Kind: kindExpire, Namespace: "n",
			Body: codec.EncodeFields(nil, &sessionBody{session: g.session}, (*sessionBody).code)}
		if out := g.r.Entry(0, engine.Fenced(1, cmd))[0]; out.Err != nil {
			g.t.Fatal(out.Err)
		}
	}
	timeOut := func(g *ground) { g.r.Advance(1000) }
	both := func(f, then func(g *ground)) func(g *ground) { return func(g *ground) { f(g); then(g) } }
	for name, c := range map[string]struct {
		machine engine.MachineID
		polls   bool
		do      func(g *ground)
		verdict verdict // of the result that comes then
		err     error
		held    string
	}{
		"returned":                   {engine.MachineWorkflow, false, cancel, abandoned, nil, "true false "},
		"polls and returned":         {engine.MachineWorkflow, true, cancel, abandoned, nil, "true false "},
		"another machine":            {engine.MachineTest, false, cancel, abandoned, nil, "true "},
		"worker lost":                {engine.MachineWorkflow, false, both(cancel, expire), 0, ErrConflict, "true false "},
		"out of time":                {engine.MachineWorkflow, true, timeOut, overtaken, nil, "true false "},
		"another's, out of time":     {engine.MachineTest, true, timeOut, 0, ErrConflict, "true "},
		"cancelled, and out of time": {engine.MachineWorkflow, true, both(cancel, timeOut), overtaken, nil, "true false "},
	} {
		t.Run(name, func(t *testing.T) {
			r := machinetest.New(t, 1, table(), callerTableOf(c.machine, 1000))
			g := &ground{world: &world{t: t, r: r, of: make(map[protocol.Ref]uint64)}}
			spec := defaultSpec
			spec.backoffMin, spec.backoffMax = 0, 0
			g.register("step", spec)
			take := workBody{self: "w", group: group{names: []string{"step"}}, wants: []want{{0, "w", 1}}}
			if !c.polls {
				g.session = g.open(take.group)
				take.session, take.self, take.group = g.session, "", group{}
			}
			cmd := engine.Command{Machine: c.machine, Kind: callerStart, Namespace: "n", Body: []byte{1}}
			if _, err := g.r.Propose(context.Background(), 0, cmd); err != nil {
				t.Fatal(err)
			}
			for g.step.attempt < 2 { // the last attempt
				if g.step.attempt > 0 {
					g.r.Advance(1000)
				}
				res, err := g.work(take)
				if err != nil || len(res.taken) != 1 {
					t.Fatalf("work = %+v, %v", res, err)
				}
				g.step = res.taken[0]
			}
			c.do(g)
			_, _ = returns(g, 1) // an earlier attempt changes nothing
			res, err := returns(g, 2)
			if !errors.Is(err, c.err) || c.err == nil && !slices.Equal(res.verdicts, []verdict{c.verdict}) {
				t.Errorf("the return: %+v, %v, want %v, %v", res, err, c.verdict, c.err)
			}
			for _, row := range g.r.Rows(0) {
				if row.Machine == c.machine && row.Key[0] == 'h' && string(row.Value) != c.held {
					t.Errorf("of its ends, handlers were running: %s, want %s", row.Value, c.held)
				}
			}
		})
	}
}
