package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// scripted is a machine with commands defined by the test: a command's body names the step.
type scripted struct {
	engine.Machine // for methods that the tests do not use
	id             engine.MachineID
	steps          map[string]func(tx *engine.Tx) error
	log            *[]string
	memory         *engine.Memory[string, string, string]
	reverted       []string // the undo calls of the memory
	leave          func(tx *engine.Tx) (found bool)
	observed       []engine.Change
	verify         func(a *engine.Audit) error
	wake           func(w engine.Waker)
	tallies        map[uint64]int64
}

// question is a query of the scripted machine MachineTest that calls a function of the test.
type question struct {
	engine.Query // for methods that the tests do not use
	ask          func(v *engine.View) error
}

func (*question) Machine() engine.MachineID { return engine.MachineTest }
func (*question) Kind() uint8               { return 1 }

func (m *scripted) Restore(*engine.View) error { return nil }
func (m *scripted) Memories() []engine.Remembered {
	m.memory = engine.NewMemory[string](100, func(v, c string) { m.reverted = append(m.reverted, v+" "+c) })
	return []engine.Remembered{m.memory}
}
func (m *scripted) OnTimer(tx *engine.Tx, token []byte) {
	if err := m.steps[string(token)](tx); err != nil {
		panic(err)
	}
}

// Conclude runs the step "conclude", with the result so far in the log.
func (m *scripted) Conclude(tx *engine.Tx, cmd engine.Command, result []byte) ([]byte, error) {
	*m.log = append(*m.log, fmt.Sprintf("conclude %s: %s", cmd.Body, result))
	if err := m.steps["conclude"](tx); err != nil {
		return nil, err
	}
	return []byte("concluded"), nil
}

func (m *scripted) Verify(a *engine.Audit) error {
	if m.verify == nil {
		return nil
	}
	return m.verify(a)
}

func (m *scripted) Leave(tx *engine.Tx) bool { return m.leave != nil && m.leave(tx) }

func (m *scripted) Tallies(f func(of uint64, n int64)) {
	for of, n := range m.tallies {
		f(of, n)
	}
}

func (m *scripted) AddTally(of uint64, n int64) { m.tallies[of] += n }

func (m *scripted) Committed(changes []engine.Change, w engine.Waker) {
	if m.wake != nil {
		m.wake(w)
	}
	for _, c := range changes {
		c.Key = slices.Clone(c.Key)
		m.observed = append(m.observed, c)
	}
}

const (
	countSteps engine.Counter = iota
	countMore
)

// primitive returns the table of the machine, which has one kind of command.
func (m *scripted) primitive() engine.Primitive {
	p := engine.Primitive{
		ID: m.id, Name: fmt.Sprint("scripted ", m.id), New: func() engine.Machine { return m },
		Commands: []engine.CommandType{
			{Kind: 1, Name: "step", From: engine.FromUsers | engine.FromShards | engine.FromMachines,
				Admit: func(engine.Command, int) error { return nil }},
			{Kind: 2, Name: "leader's", From: engine.FromLeaders},
			{Kind: 3, Name: "at home", From: engine.FromShards, AtHome: true},
		},
		Counters: []engine.CounterType{{Counter: countSteps, Name: "steps", Field: func(c *engine.Counts) *int64 { return &c.Workflows }},
			{Counter: countMore, Name: "more", Field: func(c *engine.Counts) *int64 { return &c.Points }}},
	}
	if m.id == engine.MachineTest {
		p.Queries = []engine.QueryType{engine.QueryRow(1, "ask", func(_ *scripted, v *engine.View, q *question) error { return q.ask(v) })}
		p.Caches = func(k []byte) bool { return k[0] == 'c' && len(k) >= 5 }
		p.Reads = func(c *engine.Counts) *int64 { return &c.KeyReads }
	} else {
		p.Counters[0].Field = func(c *engine.Counts) *int64 { return &c.Jobs }
	}
	return p
}

// newScripted returns a machine and its log.
func newScripted(id engine.MachineID) *scripted {
	return &scripted{id: id, steps: make(map[string]func(*engine.Tx) error), log: new([]string)}
}

func (m *scripted) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	*m.log = append(*m.log, string(cmd.Body))
	if f := m.steps[string(cmd.Body)]; f != nil {
		if err := f(tx); err != nil {
			return nil, err
		}
	}
	return []byte("did " + string(cmd.Body)), nil
}

func (m *scripted) OnReply(tx *engine.Tx, r engine.Reply) {
	*m.log = append(*m.log, fmt.Sprintf("%s: %s %v", r.Token, r.Result, r.Err))
	if f := m.steps["on "+string(r.Token)]; f != nil {
		if err := f(tx); err != nil {
			panic(err)
		}
	}
}

// stage is a rig of one shard with two scripted machines.
type stage struct {
	*rig
	one, two *scripted
	log      []string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	db, err := pebble.Open("state", &pebble.Options{FS: vfs.NewMem(), DisableWAL: true, Logger: quiet{t}})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{rig: &rig{t: t, db: db, now: 1000, index: make([]uint64, 1)}}
	s.one = &scripted{id: engine.MachineTest, steps: make(map[string]func(*engine.Tx) error), log: &s.log}
	s.two = &scripted{id: engine.MachineTest2, steps: make(map[string]func(*engine.Tx) error), log: &s.log}
	x := engine.NewExecutor(engine.Config{Shards: 1, DB: db, Primitives: []engine.Primitive{s.one.primitive(), s.two.primitive()}})
	s.execs = []*engine.Executor{x}
	t.Cleanup(func() {
		if err := errors.Join(x.Release(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	s.restart()
	return s
}

func (s *stage) cmd(m *scripted, step string) engine.Command {
	return engine.Command{Machine: m.id, Kind: 1, Namespace: "n", Body: []byte(step)}
}

// do applies one command as an entry, and returns the calls that the machines received.
func (s *stage) do(m *scripted, step string) (o engine.Outcome, log string) {
	s.t.Helper()
	s.log = nil
	o = s.apply(0, s.cmd(m, step))[0]
	return o, strings.Join(s.log, ", ")
}

func (s *stage) wantLog(got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("the machines were told: %s\nwant: %s", got, want)
	}
}

var errNo = engine.Errorf(engine.ErrConflict, "no")

func set(tx *engine.Tx, k string) { tx.Set([]byte(k), []byte("v")) }

func TestFollowUpsRunInTheOrderOfTheCallsAndNeverNested(t *testing.T) {
	s := newStage(t)
	then := func(m *scripted, steps ...string) func(*engine.Tx) error {
		return func(tx *engine.Tx) error {
			for _, step := range steps {
				tx.Then(s.cmd(m, step))
			}
			return nil
		}
	}
	s.one.steps["a"] = then(s.two, "b", "c")
	s.two.steps["b"] = then(s.one, "d")
	s.two.steps["c"] = then(s.one, "e")
	o, log := s.do(s.one, "a")
	if o.Err != nil || string(o.Result) != "did a" {
		t.Errorf("outcome %s, %v; want that of the command itself", o.Result, o.Err)
	}
	s.wantLog(log, "a, b, c, d, e")

	// In a transaction the next operation sees the follow-ups of the previous one.
	s.log = nil
	out := s.apply(0, txnOf(s.cmd(s.one, "a"), s.cmd(s.one, "z")))
	if out[0].Err != nil {
		t.Fatal(out[0].Err)
	}
	s.wantLog(strings.Join(s.log, ", "), "a, b, c, d, e, z")
}

func TestARefusedFollowUpRefusesAll(t *testing.T) {
	s := newStage(t)
	s.one.steps["a"] = func(tx *engine.Tx) error {
		set(tx, "a")
		tx.Count(countSteps, 1)
		tx.Then(s.cmd(s.two, "b"))
		tx.Then(s.cmd(s.two, "c"))
		return nil
	}
	s.two.steps["b"] = func(tx *engine.Tx) error { set(tx, "b"); return nil }
	s.two.steps["c"] = func(*engine.Tx) error { return errNo }
	before, at := s.dump(0), s.execs[0].Applied()
	if o, _ := s.do(s.one, "a"); !errors.Is(o.Err, engine.ErrConflict) || o.Err.Error() != "no" {
		t.Errorf("error %v, want the follow-up's own", o.Err)
	}
	if after := s.execs[0].Applied(); after.LSN != at.LSN {
		t.Errorf("LSN %d after a refused command, before it was %d", after.LSN, at.LSN)
	}
	if rows(before) != "" || strings.Count(s.dump(0), "\n") != 1 { // the row with the position
		t.Errorf("rows of a refused command:\n%s", s.dump(0))
	}
}

// rows leaves out the row that holds the position of the state.
func rows(dump string) string {
	lines := strings.Split(dump, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "00000061 ") }), "\n")
}

func TestAskTellsWhatBecameOfACommand(t *testing.T) {
	s := newStage(t)
	s.one.steps["a"] = func(tx *engine.Tx) error {
		tx.Ask(s.cmd(s.two, "refused"), []byte("r"))
		tx.Ask(s.cmd(s.two, "deep"), []byte("d"))
		tx.Ask(s.cmd(s.two, "good"), []byte("g"))
		set(tx, "a")
		return nil
	}
	s.two.steps["refused"] = func(tx *engine.Tx) error { set(tx, "refused"); return errNo }
	// A follow-up of a request is part of it.
	s.two.steps["deep"] = func(tx *engine.Tx) error { set(tx, "deep"); tx.Then(s.cmd(s.one, "deeper")); return nil }
	s.one.steps["deeper"] = func(tx *engine.Tx) error { set(tx, "deeper"); return errNo }
	s.two.steps["good"] = func(tx *engine.Tx) error { set(tx, "good"); tx.Then(s.cmd(s.one, "better")); return nil }
	s.one.steps["better"] = func(tx *engine.Tx) error { set(tx, "better"); return nil }
	s.one.steps["on d"] = func(tx *engine.Tx) error { tx.Then(s.cmd(s.two, "last")); return nil }
	o, log := s.do(s.one, "a")
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	s.wantLog(log, "a, refused, r:  no, deep, deeper, d:  no, good, better, g: did good <nil>, last")
	for k, want := range map[string]bool{"a": true, "refused": false, "deep": false, "deeper": false, "good": true, "better": true} {
		if got := strings.Contains(s.dump(0), fmt.Sprintf("%x = ", k)); got != want {
			t.Errorf("row %q exists: %v, want %v", k, got, want)
		}
	}
}

func TestFollowUpsAreBounded(t *testing.T) {
	s := newStage(t)
	var left []int
	s.one.steps["loop"] = func(tx *engine.Tx) error {
		left = append(left, tx.FollowUpsLeft())
		tx.Then(s.cmd(s.one, "loop"))
		return nil
	}
	if o, _ := s.do(s.one, "loop"); !errors.Is(o.Err, engine.ErrInvalid) || !strings.Contains(o.Err.Error(), "more than 1000 follow-ups") {
		t.Errorf("error %v, want ErrInvalid that names the limit", o.Err)
	}
	if len(left) != 1001 || left[0] != 1000 || left[1000] != 0 {
		t.Errorf("%d commands ran, with %v left", len(left), left[len(left)-1])
	}
	left = nil
	s.one.steps["careful"] = func(tx *engine.Tx) error {
		if left = append(left, 0); tx.FollowUpsLeft() > 0 {
			tx.Then(s.cmd(s.one, "careful"))
		}
		return nil
	}
	if o, _ := s.do(s.one, "careful"); o.Err != nil || len(left) != 1001 {
		t.Errorf("%v after %d commands, want all 1001", o.Err, len(left))
	}
}

func TestWhoMayFollowAndPeek(t *testing.T) {
	s := newStage(t)
	s.two.steps["write"] = func(tx *engine.Tx) error { set(tx, "k"); return nil }
	s.one.steps["peek"] = func(tx *engine.Tx) error {
		if v, ok := tx.Peek(engine.MachineTest2, []byte("k")); !ok || string(v) != "v" {
			t.Errorf("Peek = %q, %v", v, ok)
		}
		if _, ok := tx.Get([]byte("k")); ok {
			t.Error("Get sees a row of another machine")
		}
		return nil
	}
	if o, _ := s.do(s.two, "write"); o.Err != nil {
		t.Fatal(o.Err)
	}
	if o, _ := s.do(s.one, "peek"); o.Err != nil {
		t.Fatal(o.Err)
	}
	s.one.steps["go"] = func(tx *engine.Tx) error {
		cmd := s.cmd(s.two, "x")
		cmd.Kind = 2
		defer func() {
			if r := fmt.Sprint(recover()); !strings.Contains(r, "(leader's) is not for other commands") {
				t.Errorf("panic %q of a command that runs one for leaders", r)
			}
		}()
		tx.Then(cmd)
		return nil
	}
	s.do(s.one, "go")
	for name, f := range map[string]func(tx *engine.Tx){
		"may not read rows":    func(tx *engine.Tx) { tx.Peek(engine.MachineTest, []byte("k")) },
		"may not run commands": func(tx *engine.Tx) { tx.Then(s.cmd(s.two, "x")) },
	} {
		s := newStage(t)
		s.two.steps["go"] = func(tx *engine.Tx) error { f(tx); return nil }
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.Contains(r, name) {
					t.Errorf("panic %q, want %q", r, name)
				}
			}()
			s.do(s.two, "go")
		}()
	}
}

func TestAFollowUpOfATimerMayNotBeRefused(t *testing.T) {
	s := newStage(t)
	s.one.steps["arm"] = func(tx *engine.Tx) error { tx.Schedule(tx.Now(), []byte("ring")); return nil }
	s.one.steps["ring"] = func(tx *engine.Tx) error {
		tx.Ask(s.cmd(s.two, "no"), []byte("t"))
		tx.Then(s.cmd(s.two, "yes"))
		return nil
	}
	s.two.steps["no"] = func(*engine.Tx) error { return errNo }
	s.do(s.one, "arm")
	s.log = nil
	s.apply(0, engine.Fire())
	s.wantLog(strings.Join(s.log, ", "), "no, t:  no, yes")

	s.two.steps["yes"] = s.two.steps["no"]
	s.do(s.one, "arm")
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, "a follow-up of a timer was refused: no") {
			t.Errorf("panic %q", r)
		}
	}()
	s.apply(0, engine.Fire())
}

// TestSavepoints rolls back to nested savepoints: the state, including its hash, is as if the
// rolled-back changes had never happened.
func TestSavepoints(t *testing.T) {
	plain, undone := newStage(t), newStage(t)
	keep := func(tx *engine.Tx) {
		set(tx, "kept")
		tx.Count(countSteps, 2)
	}
	var hooks []string
	waste := func(tx *engine.Tx, name string) {
		undone.one.memory.Change(tx, "k", "value", name)
		set(tx, name)
		tx.Set([]byte("kept"), []byte(name))
		tx.DeleteRange([]byte("a"), []byte("z"))
		tx.Count(countSteps, 100)
		tx.Schedule(5, []byte(name))
		tx.OnCommit(func() { hooks = append(hooks, name) })
		tx.Notify(1, 1)
		tx.Changed([]byte(name))
		tx.Then(undone.cmd(undone.two, name))
	}
	plain.one.steps["go"] = func(tx *engine.Tx) error { keep(tx); set(tx, "end"); return nil }
	undone.one.steps["go"] = func(tx *engine.Tx) error {
		keep(tx)
		lsn := tx.LSN()
		outer := tx.Savepoint()
		if tx.LSN() == lsn {
			t.Error("what follows a savepoint has no LSN of its own")
		}
		waste(tx, "outer")
		inner := tx.Savepoint()
		waste(tx, "inner")
		tx.Rollback(inner)
		if v, ok := tx.Get([]byte("outer")); tx.Counted(countSteps) != 102 || ok {
			t.Errorf("after the inner rollback: %d counted, row %q", tx.Counted(countSteps), v)
		}
		set(tx, "again")
		tx.Rollback(outer)
		if tx.LSN() != lsn || tx.Counted(countSteps) != 2 {
			t.Errorf("after the outer rollback: LSN %d, want %d; %d counted", tx.LSN(), lsn, tx.Counted(countSteps))
		}
		set(tx, "end")
		return nil
	}
	for _, s := range []*stage{plain, undone} {
		if o, log := s.do(s.one, "go"); o.Err != nil || log != "go" {
			t.Fatalf("%v, told %s", o.Err, log)
		}
	}
	if a, b := plain.execs[0].Applied(), undone.execs[0].Applied(); a != b {
		t.Errorf("applied %+v with savepoints, %+v without", b, a)
	}
	if a, b := plain.dump(0), undone.dump(0); a != b {
		t.Errorf("rows with savepoints:\n%s\nwithout:\n%s", b, a)
	}
	if len(hooks) > 0 {
		t.Errorf("hooks of what was taken back ran: %v", hooks)
	}
	if got := undone.one.reverted; !slices.Equal(got, []string{"value inner", "value outer"}) {
		t.Errorf("the machine was told to take back %q", got)
	}
}

// txnOf returns a transaction without conditions, as Txn.Commit proposes it.
func txnOf(cmds ...engine.Command) engine.Command {
	body := codec.AppendUvarint(codec.AppendUvarint(nil, 0), uint64(len(cmds)))
	for _, c := range cmds {
		c.Namespace = ""
		body = codec.AppendBytes(body, c.AppendTo(nil))
	}
	return engine.Command{Machine: 0, Kind: 1, Namespace: "n", Body: body}
}
