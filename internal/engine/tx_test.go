package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/floedb/floe/internal/engine"
)

// spreadStage is a stage of several shards with the spread namespace s.
func spreadStage(t *testing.T, shards int) *stage {
	t.Helper()
	s := &stage{one: newScripted(engine.MachineTest), two: newScripted(engine.MachineTest2)}
	s.one.log, s.two.log = &s.log, &s.log
	s.rig = newRigOf(t, shards, s.one.primitive(), s.two.primitive())
	for shard := range engine.ShardID(shards) {
		s.apply(shard, engine.CreateNamespace("s", true))
	}
	return s
}

// in runs a step of machine one in a shard and namespace.
func (s *stage) in(shard engine.ShardID, namespace string, f func(tx *engine.Tx)) {
	s.t.Helper()
	s.one.steps["in"] = func(tx *engine.Tx) error { f(tx); return nil }
	cmd := s.cmd(s.one, "in")
	cmd.Namespace, cmd.Spread = namespace, namespace == "s"
	expect(s.t, "step", s.apply(shard, cmd)[0].Err, "<nil>")
	s.log = nil
}

func TestSendToShards(t *testing.T) {
	s := spreadStage(t, 3)
	one := func(step string) engine.Command { cmd := s.cmd(s.two, step); cmd.Namespace = ""; return cmd }
	plain := homeOf(t, 1, 3)
	s.in(1, plain, func(tx *engine.Tx) { tx.SendOthers(one("nobody")) })
	expect(t, "targets in a plain namespace", s.execs[1].PendingTargets(), "[]")
	s.in(1, "s", func(tx *engine.Tx) {
		tx.SendOthers(one("others"))
		tx.SendTo(2, one("token"), []byte("t"))
		tx.SendTo(2, one("silent"), nil)
		tx.SendTo(1, one("self"), []byte{})
	})
	expect(t, "targets", s.execs[1].PendingTargets(), "[0 1 2]")
	left := func(tx *engine.Tx) error { expect(t, "follow-ups left", tx.FollowUpsLeft(), 1000); return nil }
	s.two.steps["others"], s.two.steps["silent"], s.one.steps["on t"] = left, left, left
	for _, c := range []struct {
		to   engine.ShardID
		want string
	}{{0, "others"}, {1, "self, : did self <nil>"}, {2, "others, token, silent, t: did token <nil>"}} {
		s.log = nil
		s.deliver(1, c.to)
		expect(t, fmt.Sprint("shard ", c.to), strings.Join(s.log, ", "), c.want)
	}
}

func TestNamesLiveInShards(t *testing.T) {
	s := spreadStage(t, 3)
	plain := homeOf(t, 1, 3)
	s.in(1, plain, func(tx *engine.Tx) {
		expect(t, "plain", fmt.Sprint(tx.ShardOf("a"), tx.ShardOf("b"), tx.Here("a"), tx.Spread()), "1 1 true false")
		expect(t, "shard", fmt.Sprint(tx.Shard(), tx.Shards()), "1 3")
	})
	s.in(1, "s", func(tx *engine.Tx) {
		for shard := range engine.ShardID(3) {
			name := engine.RouteTo("s", shard, 3)
			expect(t, "spread", fmt.Sprint(tx.ShardOf(name), tx.Here(name)), fmt.Sprint(shard, shard == 1))
		}
	})
}

// TestTag: the tag differs for another time and for another term.
func TestTag(t *testing.T) {
	s := newStage(t)
	var tags []uint16
	s.one.steps["tag"] = func(tx *engine.Tx) error {
		expect(t, "term", tx.Term(), len(tags)/2+1)
		tags = append(tags, tx.Tag(), tx.Tag())
		return nil
	}
	x := s.execs[0]
	apply := func(term uint64) {
		e := engine.Entry{Stamp: s.now, Commands: [][]byte{s.cmd(s.one, "tag").AppendTo(nil)}}
		x.Apply(term, x.Applied().Index+1, e.AppendTo(nil), nil)
		s.commit(0)
	}
	apply(1)
	apply(2)
	s.now++
	apply(3)
	if tags[0] != tags[1] || tags[0] == tags[2] || tags[2] == tags[4] || tags[0] == tags[4] {
		t.Errorf("tags %x, want three different ones, twice each", tags)
	}
	tags = tags[:0]
	apply(1)
	s.now++
	s.one.steps["tag"] = func(tx *engine.Tx) error { tags = append(tags, tx.Tag()); return nil }
	apply(1)
	if tags[1] == tags[2] {
		t.Errorf("tags %x of two times are equal", tags[1:])
	}
}

// TestConclude: a command continues after its follow-ups, as a change of its own in its machine.
func TestConclude(t *testing.T) {
	s := newStage(t)
	var lsn []engine.LSN
	s.one.steps["a"] = func(tx *engine.Tx) error {
		lsn = append(lsn, tx.LSN())
		tx.Conclude()
		tx.Then(s.cmd(s.two, "b"))
		return nil
	}
	s.two.steps["b"] = func(tx *engine.Tx) error { lsn = append(lsn, tx.LSN()); set(tx, "b"); return nil }
	s.one.steps["conclude"] = func(tx *engine.Tx) error {
		lsn = append(lsn, tx.LSN())
		set(tx, "own")
		tx.Then(s.cmd(s.two, "c"))
		return nil
	}
	o, log := s.do(s.one, "a")
	expect(t, "outcome", fmt.Sprintf("%s %v", o.Result, o.Err), "concluded <nil>")
	s.wantLog(log, "a, b, conclude a: did a, c")
	if len(lsn) != 3 || lsn[1] != lsn[0]+1 || lsn[2] != lsn[1]+1 {
		t.Errorf("the changes are %d, want three numbers in a row", lsn)
	}
	if dump := s.dump(0); !strings.Contains(dump, fmt.Sprintf("00000f%x = 76\n", "own")) {
		t.Errorf("the machine's own row is not there:\n%s", dump)
	}
	// A command that does not ask for it does not continue, also after one that does.
	s.one.steps["plain"] = func(tx *engine.Tx) error { tx.Then(s.cmd(s.two, "b")); return nil }
	_, log = s.do(s.one, "plain")
	s.wantLog(log, "plain, b")
	before := rows(s.dump(0))
	s.one.steps["conclude"] = func(tx *engine.Tx) error { set(tx, "more"); return errNo }
	o, _ = s.do(s.one, "a")
	expect(t, "refused", o.Err, errNo)
	s.one.steps["conclude"] = func(tx *engine.Tx) error { set(tx, "more"); tx.Then(s.cmd(s.two, "no")); return nil }
	s.two.steps["no"] = func(*engine.Tx) error { return errNo }
	o, log = s.do(s.one, "a")
	expect(t, "refused by a follow-up", o.Err, errNo)
	s.wantLog(log, "a, b, conclude a: did a, no")
	expect(t, "rows", rows(s.dump(0)), before)
}

// TestAdvance: an object has one timer, which only moves forward in time until it is halted.
func TestAdvance(t *testing.T) {
	s := newStage(t)
	due := int64(engine.NoTimer)
	token := engine.NumberToken('k', 7)
	expect(t, "token", fmt.Sprintf("%x", token), "6b0000000000000007")
	fired := 0
	s.one.steps[string(token)] = func(tx *engine.Tx) error {
		expect(t, "follow-ups left", tx.FollowUpsLeft(), 1000)
		fired++
		due = engine.NoTimer
		return nil
	}
	advance := func(at int64, want bool) {
		t.Helper()
		s.one.steps["go"] = func(tx *engine.Tx) error {
			expect(t, fmt.Sprint("moved to ", at), tx.Advance(&due, at, 'k', 7), want)
			return nil
		}
		s.do(s.one, "go")
	}
	state := func(wantDue int64, timers int) {
		t.Helper()
		expect(t, "due", due, wantDue)
		expect(t, "timers", strings.Count("\n"+s.dump(0), "\n00000074"), timers)
	}
	state(engine.NoTimer, 0)
	advance(2000, true)
	state(2000, 1)
	expect(t, "next", s.execs[0].NextDue(), 2000)
	advance(2000, false)
	advance(2001, false)
	state(2000, 1)
	advance(1999, true)
	state(1999, 1)
	expect(t, "next", s.execs[0].NextDue(), 1999)
	halt := func() {
		s.one.steps["go"] = func(tx *engine.Tx) error { tx.Halt(&due, 'k', 7); return nil }
		s.do(s.one, "go")
	}
	halt()
	state(engine.NoTimer, 0)
	halt()
	state(engine.NoTimer, 0)
	advance(1500, true)
	s.now = 1499
	s.apply(0, engine.Fire())
	expect(t, "fired too early", fired, 0)
	s.now = 1500
	s.apply(0, engine.Fire())
	expect(t, "fired", fired, 1)
	state(engine.NoTimer, 0)
}

// TestObservers: a machine receives its changes once they are visible, in order.
func TestObservers(t *testing.T) {
	s := newStage(t)
	change := func(keys ...string) func(*engine.Tx) error {
		return func(tx *engine.Tx) error {
			for _, k := range keys {
				set(tx, k)
				tx.Changed([]byte(k))
			}
			return nil
		}
	}
	s.two.steps["b"] = change("b1", "b2")
	s.one.steps["a"] = func(tx *engine.Tx) error { tx.Then(s.cmd(s.two, "b")); return change("a1")(tx) }
	s.one.steps["c"] = change("c1")
	s.one.steps["refused"] = func(tx *engine.Tx) error { return errors.Join(change("x")(tx), errNo) }
	observed := func(m *scripted) string {
		var all []string
		for _, c := range m.observed {
			all = append(all, fmt.Sprintf("%s of %s %d, LSN %d", c.Key, c.Name, c.Namespace, c.LSN))
		}
		m.observed = nil
		return strings.Join(all, "; ")
	}
	hooks := 0
	s.one.steps["hook"] = func(tx *engine.Tx) error { tx.OnCommit(func() { hooks++ }); return nil }
	s.apply(0, engine.CreateNamespace("other", false))
	s.applyOnly(0, s.cmd(s.one, "a"), s.cmd(s.one, "refused"), s.cmd(s.one, "c"), s.cmd(s.one, "hook"))
	expect(t, "before the commit", observed(s.one)+observed(s.two)+fmt.Sprint(hooks), "0")
	s.commit(0)
	expect(t, "one", observed(s.one), "a1 of n 1, LSN 1; c1 of n 1, LSN 3")
	expect(t, "two", observed(s.two), "b1 of n 1, LSN 2; b2 of n 1, LSN 2")
	expect(t, "hooks", hooks, 1)
	s.applyOnly(0, engine.Fire())
	s.commit(0)
	expect(t, "afterwards", observed(s.one)+observed(s.two)+fmt.Sprint(hooks), "1")
}

// TestObserversWake: an observer sees whether queries wait, and wakes them.
func TestObserversWake(t *testing.T) {
	r, one, _ := newViewed(t, 1)
	synctest.Test(t, func(t *testing.T) {
		var waiting []bool
		one.wake = func(w engine.Waker) { waiting = append(waiting, w.Waiting()); w.Notify(goods("x"), 1) }
		change := func(tx *engine.Tx) { set(tx, "k"); tx.Changed([]byte("k")) }
		r.run(one, "n", change)
		looks := make([]int, 2)
		for i := range looks {
			go func() {
				err := r.answer(engine.Replica{}, func(v *engine.View) error {
					if looks[i]++; looks[i] == 3 {
						return nil
					}
					return errors.Join(v.WaitOn(goods("x")), engine.ErrWait)
				})
				expect(t, "error", err, "<nil>")
			}()
			synctest.Wait()
		}
		for _, want := range []string{"[3 2]", "[3 3]"} {
			r.run(one, "n", change)
			synctest.Wait()
			expect(t, "looks", looks, want)
		}
		expect(t, "waiting", waiting, "[false true true]")
	})
}

// TestTallies: counts of namespaces and machines are returned, and added again after a restart.
func TestTallies(t *testing.T) {
	r, one, two := newViewed(t, 1)
	r.apply(0, engine.CreateNamespace("n", false), engine.CreateNamespace("m", false))
	one.tallies, two.tallies = map[uint64]int64{3: 4}, map[uint64]int64{}
	r.execs[0].AddTallies([]engine.Tally{
		{Machine: 0, Of: 0, N: 5}, {Machine: 0, Of: 1, N: 6}, {Machine: 0, Of: 2, N: 7}, {Machine: 0, Of: 1 << 32, N: 8},
		{Machine: 15, Of: 3, N: 1}, {Machine: 14, Of: 9, N: 2}, {Machine: 3, Of: 1, N: 1}, {Machine: 200, Of: 1, N: 1},
	})
	all := r.execs[0].Tallies()
	slices.SortFunc(all, func(a, b engine.Tally) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	expect(t, "tallies", all, "[{0 0 5} {0 1 6} {14 9 2} {15 3 5}]")
}

// TestForeignNamespaces: messages to other namespaces are refused permanently if they can never be
// applied there.
func TestForeignNamespaces(t *testing.T) {
	s := spreadStage(t, 3)
	home := engine.HomeShard("s", 3)
	from := (home + 1) % 3
	own := homeOf(t, from, 3)
	send := func(kind uint8, namespace, body string) string {
		cmd := engine.Command{Machine: engine.MachineTest2, Kind: kind, Namespace: namespace, Body: []byte(body)}
		s.in(from, own, func(tx *engine.Tx) { tx.Send(engine.Message{Command: cmd, Token: []byte("t"), Reply: kind == 1}) })
		for _, target := range s.execs[from].PendingTargets() {
			s.deliver(from, target)
		}
		return strings.Join(s.log, ", ")
	}
	expect(t, "system", send(1, "_x", "a"), `t:  namespace "_x" is a system namespace and cannot be written`)
	expect(t, "spread", send(1, "s", "a"), `t:  namespace "s" is spread over all shards, the message is for one in a single shard`)
	expect(t, "at home", send(3, "s", "b"), "b")
	expect(t, "at home of a new one", send(3, "new", "c"), "c")
	for size, want := range map[int]string{1 << 20: " <nil>", 1<<20 + 1: "t:  the result has 1048577 bytes, a reply 1048576 at most"} {
		got := send(1, own, strings.Repeat("x", size-len("did ")))
		if !strings.HasSuffix(got, want) {
			t.Errorf("a reply of %d bytes: %.20s...%s", size, got, got[max(0, len(got)-80):])
		}
	}
	expect(t, "refused", s.execs[home].Refused()+s.execs[from].Refused()+s.execs[(home+2)%3].Refused(), 3)
}

// TestHeldLaneIsFreed: a lane whose messages another leader has delivered is not held any more.
func TestHeldLaneIsFreed(t *testing.T) {
	s := newStage(t)
	s.two.steps["b1"] = func(*engine.Tx) error { return engine.Errorf(engine.ErrBusy, "full") }
	lanes(s, false, "b1")
	d := s.execs[0].NewDispatch(0)
	s.dispatch(d, nil)
	expect(t, "refused for now", s.execs[0].PendingTargets(), "[0]")
	delete(s.two.steps, "b1")
	s.deliver(0, 0) // by another leader
	expect(t, "delivered", s.execs[0].PendingTargets(), "[]")
	_, until, ok, err := d.Next(s.now, 1<<40)
	expect(t, "nothing to deliver", fmt.Sprint(until, ok, err), fmt.Sprint(engine.NoTimer, false, " <nil>"))
	lanes(s, false, "b2", "b3")
	for range 2 {
		step, _, ok, err := d.Next(s.now, 1<<40)
		if !ok || err != nil {
			t.Fatalf("the lane is held: %v", err)
		}
		o := s.apply(step.Shard, step.Command)[0]
		d.Done(o.Result, o.Err, s.now)
	}
	s.dispatch(d, nil)
	s.wantLog(strings.Join(s.log, ", "), "b2, b3")
}

// TestGlobalCommands: commands that concern the whole node have no namespace and run in one shard.
func TestGlobalCommands(t *testing.T) {
	m := newScripted(engine.MachineTest2)
	p := m.primitive()
	p.Global = true
	r := newRigOf(t, 2, p)
	cmd := (&stage{}).cmd(m, "x")
	named := cmd
	cmd.Namespace = ""
	wire := engine.NewWire([]engine.Primitive{p})
	expect(t, "check", r.execs[0].Check(cmd), "<nil>")
	expect(t, "admit", wire.Admit(cmd, 1), "<nil>")
	expect(t, "outcome", r.outcome(0, cmd), fmt.Sprint([]byte("did x"), " <nil>"))
	expect(t, "elsewhere", r.outcome(1, cmd), `[] scripted 14: a command in namespace "" and shard 1, it takes none and shard 0`)
	expect(t, "in a namespace", r.outcome(0, named), `[] scripted 14: a command in namespace "n" and shard 0, it takes none and shard 0`)
	expect(t, "in a transaction", r.outcome(0, txnOf(cmd)), "[] transaction: operation 0: scripted 14: not allowed in a transaction")
	expect(t, "runs", *m.log, "[x]")
}

// TestSizeOfCommands is the encoded size, or one byte more.
func TestSizeOfCommands(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 255} {
		c := engine.Command{Machine: 1, Kind: 1, Namespace: strings.Repeat("n", n), Body: make([]byte, 2*n)}
		if size, encoded := c.Size(), len(c.AppendTo(nil)); size != 6+3*n || size < encoded || size > encoded+1 {
			t.Errorf("a command of %d bytes has the size %d", encoded, size)
		}
	}
}

// TestRollbackOfRanges: rows of a range whose deletion was rolled back remain.
func TestRollbackOfRanges(t *testing.T) {
	s := newStage(t)
	s.one.steps["write"] = func(tx *engine.Tx) error { set(tx, "a"); set(tx, "b"); return nil }
	s.do(s.one, "write")
	before := rows(s.dump(0))
	s.one.steps["undo"] = func(tx *engine.Tx) error {
		p := tx.Savepoint()
		tx.DeleteMany([]byte("a"), []byte("c"))
		if _, ok := tx.Get([]byte("a")); ok {
			t.Error("a deleted row is found")
		}
		tx.Rollback(p)
		_, ok := tx.Get([]byte("a"))
		expect(t, "found", ok, true)
		return nil
	}
	s.do(s.one, "undo")
	expect(t, "rows", rows(s.dump(0)), before)
}

// TestComparisons: the applied comparisons are returned once; hashes are known if there are
// replicas to compare with.
func TestComparisons(t *testing.T) {
	r := newRigWith(t, engine.Config{Shards: 1, Compared: true}, nil)
	x := r.execs[0]
	a, b := engine.Comparison{Node: 3, Index: 1, Hash: 1 << 60}, engine.Comparison{Node: 4, Index: 2}
	r.apply(0, engine.Compare(a), engine.Compare(b))
	if got := x.Compared(); !slices.Equal(got, []engine.Comparison{a, b}) {
		t.Errorf("compared: %+v", got)
	}
	expect(t, "compared again", x.Compared(), "[]")
	r.apply(0, engine.Compare(b))
	expect(t, "compared later", x.Compared(), []engine.Comparison{b})
	for index, want := range map[uint64]bool{1: true, 2: true, 3: false} {
		hash, lsn, ok := x.HashAt(index)
		if ok != want || ok && (lsn != 0 || hash == 0) || index == 2 && hash != x.Applied().Hash {
			t.Errorf("after entry %d: %x, LSN %d, %t", index, hash, lsn, ok)
		}
	}
	_, _, ok := newRig(t, 1).execs[0].HashAt(0)
	expect(t, "without replicas", ok, false)
}

// TestWorkIsCounted: work without writes counts as rows, up to the limit of a command.
func TestWorkIsCounted(t *testing.T) {
	s := newStage(t)
	s.one.steps["work"] = func(tx *engine.Tx) error {
		tx.Worked(1 << 12)
		expect(t, "full", tx.Full(), false)
		tx.Worked(1)
		expect(t, "full", tx.Full(), true)
		tx.Worked(engine.MaxCommandRows - 1<<12 - 1)
		return nil
	}
	s.apply(0, engine.CreateNamespace("n", false))
	o, _ := s.do(s.one, "work")
	expect(t, "at the limit", o.Err, "<nil>")
	for _, write := range []func(tx *engine.Tx, k, value []byte){(*engine.Tx).Insert, (*engine.Tx).Set} {
		s.one.steps["write"] = func(tx *engine.Tx) error {
			write(tx, fmt.Append(nil, tx.LSN()), make([]byte, 4<<20))
			expect(t, "full", tx.Full(), true)
			return nil
		}
		s.do(s.one, "write")
	}
	s.one.steps["work"] = func(tx *engine.Tx) error { tx.Worked(engine.MaxCommandRows + 1); t.Error("it goes on"); return nil }
	o, _ = s.do(s.one, "work")
	if !errors.Is(o.Err, engine.ErrInvalid) || !strings.Contains(o.Err.Error(), "in 262145 rows") {
		t.Errorf("beyond the limit: %v", o.Err)
	}
}

// large is more work than there is room for behind 30 rows.
const large = engine.MaxCommandRows - 20

// worked returns a step that writes a row, then works.
func worked(name string, n int) func(*engine.Tx) error {
	return func(tx *engine.Tx) error { set(tx, name); tx.Worked(n); return nil }
}

func (s *stage) has(row string) bool {
	return strings.Contains(s.dump(0), fmt.Sprintf("%x = 76\n", row))
}

// TestTimerWithoutRoom: a timer for which its entry has no room is rolled back and fires with the
// next Fire.
func TestTimerWithoutRoom(t *testing.T) {
	s := newStage(t)
	s.one.steps["arm"] = func(tx *engine.Tx) error {
		for _, token := range []string{"r1", "r2", "r3"} {
			tx.Schedule(tx.Now(), []byte(token))
		}
		return nil
	}
	s.one.steps["r1"], s.one.steps["r2"], s.one.steps["r3"] = worked("r1", 30), worked("r2", large), worked("r3", 1)
	s.do(s.one, "arm")
	fire := func() string {
		o := s.apply(0, engine.Fire())[0]
		return fmt.Sprint(o.Result, o.Err, s.has("r1"), s.has("r2"), s.has("r3"), s.execs[0].NextDue() <= s.now)
	}
	expect(t, "first", fire(), "[1] <nil> true false false true")
	expect(t, "second", fire(), "[1] <nil> true true false true")
	expect(t, "third", fire(), "[1] <nil> true true true false")

	s.one.steps["arm"] = func(tx *engine.Tx) error { tx.Schedule(tx.Now(), []byte("huge")); return nil }
	s.one.steps["huge"] = worked("huge", engine.MaxCommandRows)
	s.do(s.one, "arm")
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "a timer of machine 15: a command writes and answers at most") {
			t.Errorf("a timer that never has room: %s", p)
		}
	}()
	fire()
}

// nextSteps returns a function that applies the next step of the shard's dispatch, behind other
// commands in the same entry.
func (s *stage) nextSteps() func(before ...engine.Command) engine.Outcome {
	d := s.execs[0].NewDispatch(0)
	return func(before ...engine.Command) engine.Outcome {
		next, _, ok, err := d.Next(s.now, 1<<40)
		if !ok || err != nil {
			s.t.Fatalf("no step: %v", err)
		}
		out := s.apply(0, append(before, next.Command)...)
		o := out[len(out)-1]
		d.Done(o.Result, o.Err, s.now)
		return o
	}
}

// TestRepliesWithoutRoom: a reply for which its entry has no room is rolled back and settled later.
func TestRepliesWithoutRoom(t *testing.T) {
	s := newStage(t)
	lanes(s, true, "a1", "a2", "a3")
	s.one.steps["on a1"], s.one.steps["on a2"], s.one.steps["on a3"] = worked("r1", 30), worked("r2", large), worked("r3", 1)
	s.one.steps["much"] = worked("much", 30_000)
	next := s.nextSteps()
	step := func(before ...engine.Command) string {
		o := next(before...)
		return fmt.Sprint(o.Result, o.Err, s.has("r1"), s.has("r2"), s.has("r3"))
	}
	step() // asks for outcomes
	step() // settles none
	if got := step(); !strings.HasSuffix(got, "<nil> false false false") {
		t.Errorf("delivery: %s", got)
	}
	expect(t, "first", step(), "[0] <nil> true false false")
	s.verify(s.execs[0], func(p string) { t.Errorf("after the first: %s", p) })
	expect(t, "behind much work", step(s.cmd(s.one, "much")), "[] "+engine.ErrPutOff.Error()+" true false false")
	expect(t, "second", step(), "[0] <nil> true true false")
	expect(t, "third", step(), "[1] <nil> true true true")
	expect(t, "targets", s.execs[0].PendingTargets(), "[]")

	lanes(s, true, "a4")
	s.one.steps["on a4"] = worked("r4", engine.MaxCommandRows)
	step()
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "a reply to machine 15: a command writes and answers at most") {
			t.Errorf("a reply that never has room: %s", p)
		}
	}()
	step()
}

// TestMessagesWithoutRoom: a message for which its entry has no room is delivered again.
func TestMessagesWithoutRoom(t *testing.T) {
	s := newStage(t)
	lanes(s, false, "a1", "a2", "b1")
	s.two.steps["a1"], s.two.steps["a2"], s.two.steps["b1"] = worked("r1", 30), worked("r2", large), worked("r3", 1)
	s.one.steps["much"] = worked("much", 30_000)
	next := s.nextSteps()
	step := func(before ...engine.Command) string {
		o := next(before...)
		return fmt.Sprint(o.Err, s.has("r1"), s.has("r2"), s.has("r3"))
	}
	step() // asks for outcomes
	step() // settles none
	s.two.steps["a1"] = worked("r1", engine.MaxCommandRows-20_000)
	expect(t, "behind much work", step(s.cmd(s.one, "much")), engine.ErrPutOff.Error()+" false false false")
	s.two.steps["a1"] = worked("r1", 30)
	expect(t, "first", step(), "<nil> true false false")
	step() // settles
	expect(t, "second", step(), "<nil> true true false")
	step()
	expect(t, "third", step(), "<nil> true true true")
	step()
	expect(t, "targets", s.execs[0].PendingTargets(), "[]")
	expect(t, "refused", s.execs[0].Refused(), 0)
}

// TestForgetfulExecutor: a forgetful executor keeps nothing in the memories of machines beyond a
// batch.
func TestForgetfulExecutor(t *testing.T) {
	for forgetful, want := range map[bool]string{false: "1", true: "0"} {
		m := newScripted(engine.MachineTest)
		r := newRigWith(t, engine.Config{Shards: 1, Primitives: []engine.Primitive{m.primitive()}, Forgetful: forgetful}, nil)
		m.steps["load"] = func(*engine.Tx) error { m.memory.Load("k", "v", 1); return nil }
		r.apply(0, (&stage{}).cmd(m, "load"))
		expect(t, fmt.Sprint("forgetful ", forgetful), m.memory.Len(), want)
	}
}
