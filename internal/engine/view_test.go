package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/engine"
)

// newViewed returns a rig with two scripted machines whose views the test looks at.
func newViewed(t *testing.T, shards int) (r *rig, one, two *scripted) {
	t.Helper()
	one, two = newScripted(engine.MachineTest), newScripted(engine.MachineTest2)
	return newRigOf(t, shards, one.primitive(), two.primitive()), one, two
}

// answer answers a question that calls f with a view.
func (r *rig) answer(replica engine.Replica, f func(v *engine.View) error) error {
	if replica.Now == nil {
		replica.Now = func() int64 { return r.now }
	}
	return r.execs[0].Query(context.Background(), &question{ask: f}, replica)
}

// see is answer with a plain replica, and fails the test if the query fails.
func (r *rig) see(f func(v *engine.View)) {
	r.t.Helper()
	if err := r.answer(engine.Replica{}, func(v *engine.View) error { f(v); return nil }); err != nil {
		r.t.Error(err)
	}
}

// run applies a step of a machine in a namespace.
func (r *rig) run(m *scripted, namespace string, f func(tx *engine.Tx)) {
	r.t.Helper()
	m.steps["step"] = func(tx *engine.Tx) error { f(tx); return nil }
	cmd := (&stage{}).cmd(m, "step")
	cmd.Namespace = namespace
	if o := r.apply(0, cmd)[0]; o.Err != nil {
		r.t.Error(o.Err)
	}
}

func TestViewHasClocks(t *testing.T) {
	r, _, _ := newViewed(t, 1)
	r.apply(0, engine.CreateNamespace("n", false))
	r.now = 1500
	mono := func() int64 { return 7 }
	r.see(func(v *engine.View) { expect(t, "times", fmt.Sprint(v.Now(), v.Stamp(), v.Mono()), "1500 1000 1500") })
	err := r.answer(engine.Replica{Mono: mono, Stale: true}, func(v *engine.View) error {
		expect(t, "times", fmt.Sprint(v.Now(), v.Stamp(), v.Mono()), "1500 1000 7")
		expect(t, "stale", v.Stale(), true)
		return nil
	})
	expect(t, "error", err, "<nil>")
	expect(t, "stamp", r.execs[0].Stamp(), 1000)
	expect(t, "visible", fmt.Sprint(r.execs[0].Visible(), r.execs[0].VisibleTerm()), "1 1")
}

// TestPassed: whether a time has passed is decided by the time of the log, and by the clock of the
// moment when the query came.
func TestPassed(t *testing.T) {
	r, _, _ := newViewed(t, 1)
	r.apply(0, engine.CreateNamespace("n", false)) // the log is at 1000
	for _, c := range []struct {
		clock   int64
		at      []int64
		want    string // of each time
		settled int64
	}{
		{1000, []int64{999, 1000}, "true true", 0},
		{1000, []int64{1001}, "false", 0},
		{1005, []int64{1004, 1005, 1003}, "true true true", 1005},
		{1005, []int64{1006, 1007}, "false false", 0},
		{1005, []int64{1002, 1006}, "true false", 1002},
	} {
		runs, settled := 0, int64(0)
		clock := c.clock
		replica := engine.Replica{
			Now: func() int64 { clock++; return clock - 1 },
			Settle: func(_ context.Context, at int64) error {
				settled = at
				r.now = at
				r.apply(0, engine.Fire())
				return nil
			},
		}
		err := r.answer(replica, func(v *engine.View) error {
			if runs++; runs == 1 {
				var got []string
				for _, at := range c.at {
					got = append(got, fmt.Sprint(v.Passed(at)))
				}
				expect(t, fmt.Sprint("at ", c.clock, " of ", c.at), strings.Join(got, " "), c.want)
			}
			return nil
		})
		want := 1
		if c.settled != 0 {
			want = 2
		}
		expect(t, fmt.Sprint("at ", c.clock, " of ", c.at), fmt.Sprint(runs, settled, err), fmt.Sprint(want, c.settled, " <nil>"))
		r, _, _ = newViewed(t, 1)
		r.apply(0, engine.CreateNamespace("n", false))
	}
	passed := func(v *engine.View) error { v.Passed(1000 + 5); return nil }
	r.now = 1005
	expect(t, "without Settle", r.answer(engine.Replica{}, passed), "<nil>")
	expect(t, "not settled", r.answer(engine.Replica{Settle: func(context.Context, int64) error { return errDown }}, passed), "down")
}

// TestPassedAfterWaiting: a query that has waited asks the clock again.
func TestPassedAfterWaiting(t *testing.T) {
	r, one, _ := newViewed(t, 1)
	r.apply(0, engine.CreateNamespace("n", false))
	for _, again := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var got []bool
			var clock atomic.Int64 // r.now, for the query
			clock.Store(r.now)
			go func() {
				err := r.answer(engine.Replica{Now: clock.Load}, func(v *engine.View) error {
					got = append(got, v.Passed(5000))
					if len(got) == 4 {
						return nil
					}
					if again {
						v.LookAgainAt(clock.Load() + 10)
					}
					return errors.Join(v.WaitOn(goods("x")), engine.ErrWait)
				})
				expect(t, "error", err, "<nil>")
			}()
			for _, now := range []int64{4999, 5000} {
				synctest.Wait()
				r.now = now
				clock.Store(now)
				if again {
					<-time.After(10 * time.Millisecond)
				} else {
					r.run(one, "n", func(tx *engine.Tx) { tx.Notify(goods("x"), 1) })
				}
			}
			synctest.Wait()
			expect(t, "passed", got, "[false false false true]")
			r.now = 1000
		})
		r, one, _ = newViewed(t, 1)
		r.apply(0, engine.CreateNamespace("n", false))
	}
}

func TestLookAgain(t *testing.T) {
	r, _, _ := newViewed(t, 1)
	synctest.Test(t, func(t *testing.T) {
		for in, want := range map[int64]time.Duration{5: 5 * time.Millisecond, 0: time.Millisecond, -5: time.Millisecond} {
			start, runs := time.Now(), 0
			err := r.answer(engine.Replica{}, func(v *engine.View) error {
				if runs++; runs > 2 {
					return nil
				}
				v.LookAgainAt(r.now + in)
				return errors.Join(v.WaitOn(goods("x")), engine.ErrWait)
			})
			expect(t, fmt.Sprint("in ", in, " ms"), fmt.Sprint(time.Since(start), " ", err), fmt.Sprint(want, " <nil>"))
		}
	})
}

// TestQueryEnds: a waiting query ends with its context, the replica, and when the replica may not
// answer any more.
func TestQueryEnds(t *testing.T) {
	r, _, _ := newViewed(t, 1)
	waits := func(v *engine.View) error { return errors.Join(v.WaitOn(goods("x")), engine.ErrWait) }
	expect(t, "may not", r.answer(engine.Replica{May: func() error { return errDown }}, waits), "down")
	expect(t, "no wait", r.answer(engine.Replica{NoWait: true}, waits), context.Canceled)
	stop := make(chan struct{})
	close(stop)
	expect(t, "stopped", r.answer(engine.Replica{Stop: stop}, waits), "shard 0: closed while a query waited")
	synctest.Test(t, func(t *testing.T) {
		done := make(chan error, 1)
		var may error
		go func() { done <- r.answer(engine.Replica{May: func() error { return may }}, waits) }()
		synctest.Wait()
		expect(t, "waiting", r.execs[0].Waiting(), 1)
		may = errDown
		r.execs[0].WakeAll()
		expect(t, "may not any more", <-done, "down")
	})
	expect(t, "waiting", r.execs[0].Waiting(), 0)
	err := r.execs[0].Query(t.Context(), &engine.NamespaceQuery{}, engine.Replica{May: func() error { return nil }})
	expect(t, "may", err, "<nil>")
}

func TestViewOfNamespaces(t *testing.T) {
	r, one, _ := newViewed(t, 2)
	plain := homeOf(t, 0, 2)
	r.apply(0, engine.CreateNamespace(plain, false), engine.CreateNamespace("s", true))
	here, there := engine.RouteTo("s", 0, 2), engine.RouteTo("s", 1, 2)
	r.run(one, plain, func(tx *engine.Tx) { set(tx, "k"); tx.Count(countSteps, 5) })
	look := func(v *engine.View) {
		t.Helper()
		for name, want := range map[string]string{plain: "0 true", "s": "1 true", "x": "0 false"} {
			id, ok := v.Namespace(name)
			expect(t, "number of "+name, fmt.Sprint(id, " ", ok), want)
			expect(t, "spread "+name, v.Spread(name), name == "s")
		}
		for id, want := range []string{plain + " true", "s true", " false", " false"} {
			name, ok := v.NamespaceName(uint32(id))
			expect(t, fmt.Sprint("name of ", id), name+" "+fmt.Sprint(ok), want)
		}
		for _, c := range []struct {
			ns, name string
			want     bool
		}{{"s", here, true}, {"s", there, false}, {plain, here, true}, {plain, there, true}, {"x", there, true}} {
			expect(t, "here: "+c.ns+" "+c.name, v.Here(c.ns, c.name), c.want)
		}
		for name, want := range map[string]string{plain: "5 <nil>", "s": "0 <nil>", "x": "0 <nil>"} {
			n, err := v.Counted(name, countSteps)
			expect(t, "counted in "+name, fmt.Sprint(n, " ", err), want)
		}
		expect(t, "shard", fmt.Sprint(v.Shard(), v.Shards()), "0 2")
	}
	r.see(look)
	// What is applied and not committed is not visible.
	one.steps["more"] = func(tx *engine.Tx) error { set(tx, "k"); tx.Count(countSteps, 1); return nil }
	more := (&stage{}).cmd(one, "more")
	more.Namespace = plain
	r.applyOnly(0, more, engine.CreateNamespace(homeOf(t, 0, 2)+"x", true), engine.CreateNamespace("z", true))
	r.see(look)
	r.commit(0)

	r.tampered = true
	row := own + "n\x00\x00\x00\x00"
	r.set(row, []byte{9})
	counted := func() string {
		var got string
		r.see(func(v *engine.View) { n, err := v.Counted(plain, countSteps); got = fmt.Sprint(n, " ", err) })
		return got
	}
	expect(t, "counted in a row that cannot be read", counted(), "0 namespace row: malformed record: version 9")
	if err := r.db.Delete([]byte(row), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	expect(t, "counted without a row", counted(), "0 <nil>")
}

// TestCounterOfAMachine: machines have counters of their own.
func TestCounterOfAMachine(t *testing.T) {
	r, one, two := newViewed(t, 1)
	r.run(one, "n", func(tx *engine.Tx) { set(tx, "k"); tx.Count(countSteps, 5); tx.Count(countMore, 6) })
	r.run(two, "n", func(tx *engine.Tx) {
		tx.Count(countSteps, 7)
		tx.Count(countMore, 8)
		expect(t, "counted", tx.Counted(countSteps), 7)
	})
	r.see(func(v *engine.View) {
		n, err := v.Counted("n", countSteps)
		beside, _ := v.Beside(engine.MachineTest2)
		m, besideErr := beside.Counted("n", countSteps)
		expect(t, "counted", fmt.Sprint(n, m, err, besideErr), "5 7 <nil> <nil>")
		n, err = v.Counted("n", countMore)
		m, besideErr = beside.Counted("n", countMore)
		expect(t, "more", fmt.Sprint(n, m, err, besideErr), "6 8 <nil> <nil>")
	})
}

// TestBeside: a view beside another sees the same state, and rows of the other machine.
func TestBeside(t *testing.T) {
	r, one, two := newViewed(t, 1)
	write := func(m *scripted, value string) {
		r.run(m, "n", func(tx *engine.Tx) { tx.Set([]byte("k"), []byte(value)) })
	}
	write(one, "one")
	write(two, "two")
	get := func(v *engine.View, k string) string {
		value, ok, err := v.Get([]byte(k))
		return fmt.Sprintf("%s %t %v", value, ok, err)
	}
	r.see(func(v *engine.View) {
		beside, m := v.Beside(engine.MachineTest2)
		if m != engine.Machine(two) {
			t.Errorf("the machine is %v", m)
		}
		write(one, "later")
		write(two, "later")
		expect(t, "row", get(v, "k"), "one true <nil>")
		expect(t, "row beside", get(beside, "k"), "two true <nil>")
		expect(t, "row that is missing", get(beside, "x"), " false <nil>")
		it, err := beside.Iter([]byte("a"), []byte("z"))
		if err != nil || !it.First() || string(it.Value()) != "two" || it.Next() || it.Close() != nil {
			t.Errorf("the rows beside: %v", err)
		}
		defer func() {
			expect(t, "panic", recover(), "shard 0: machine 14 may not read rows of machine 15")
		}()
		beside.Beside(engine.MachineTest)
	})
	r.see(func(v *engine.View) {
		before, err := v.LSN()
		write(one, "last")
		after, _ := v.LSN()
		expect(t, "LSN", fmt.Sprint(before, err), fmt.Sprint(after, " <nil>"))
		expect(t, "frozen", get(v, "k"), "later true <nil>")
		if now := r.execs[0].Applied().LSN; now <= before {
			t.Errorf("LSN %d now, in the view %d", now, before)
		}
	})
	r.see(func(v *engine.View) { expect(t, "last", get(v, "k"), "last true <nil>") })
}

// TestReadsAreCounted: a read counts if its query succeeds.
func TestReadsAreCounted(t *testing.T) {
	r, _, _ := newViewed(t, 1)
	r.apply(0, engine.CreateNamespace("n", false))
	read := func(ns string, err error) {
		got := r.answer(engine.Replica{}, func(v *engine.View) error { v.CountRead(ns); return err })
		expect(t, "read", got, err)
	}
	read("n", nil)
	read("n", errNo)
	read("x", nil)
	read("", nil)
	read("n", nil)
	expect(t, "tallies", r.execs[0].Tallies(), "[{0 0 2}]")
	r.restart()
	expect(t, "tallies after a restart", r.execs[0].Tallies(), "[{0 0 2}]")
}

// TestOffersAreRepeated: if the caller that an item was offered to does not take it, Remind wakes
// the next one, once for each offer.
func TestOffersAreRepeated(t *testing.T) {
	r, one, _ := newViewed(t, 1)
	r.apply(0, engine.CreateNamespace("n", false))
	synctest.Test(t, func(t *testing.T) {
		looks := make([]int, 3)
		for i := range 3 {
			go func() {
				err := r.answer(engine.Replica{}, func(v *engine.View) error {
					if looks[i]++; looks[i] > 2 {
						v.Claim(goods("x"))
						return nil
					}
					return errors.Join(v.WaitOn(goods("x")), engine.ErrWait)
				})
				expect(t, "error", err, "<nil>")
			}()
			synctest.Wait()
		}
		want := func(what, want string) { t.Helper(); synctest.Wait(); expect(t, what, looks, want) }
		want("waiting", "[2 2 2]")
		r.run(one, "n", func(tx *engine.Tx) { tx.Notify(goods("x"), 1) })
		want("notified", "[3 2 2]")
		r.execs[0].Remind()
		want("reminded", "[3 3 2]")
		r.run(one, "n", func(tx *engine.Tx) { tx.Notify(goods("other"), 1) })
		want("other topic", "[3 3 2]")
		// The engine's own query does the same.
		scope := engine.NewRouter(&askedSerial{askedDoor{r, r.Query}}).Scope("n", 1)
		scope.PassOn(t.Context(), []engine.ShardID{0})
		want("passed on", "[3 3 3]")
	})
}

// TestPassingOnWakesOne: for two offers, passing on wakes one waiter, because the other offer may
// be taken still.
func TestPassingOnWakesOne(t *testing.T) {
	r, _, _ := newViewed(t, 1)
	for range 2 {
		r.see(func(v *engine.View) { v.Claim(goods("x")) })
	}
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		for range 3 {
			go func() {
				runs := 0
				_ = r.answer(engine.Replica{}, func(v *engine.View) error {
					if runs++; runs == 3 {
						woken++
						return nil
					}
					return errors.Join(v.WaitOn(goods("x")), engine.ErrWait)
				})
			}()
			synctest.Wait()
		}
		scope := engine.NewRouter(&askedSerial{askedDoor{r, r.Query}}).Scope("n", 1)
		for want := 1; want <= 3; want++ {
			if want < 3 {
				scope.PassOn(t.Context(), []engine.ShardID{0})
			} else {
				r.execs[0].WakeAll()
			}
			synctest.Wait()
			expect(t, "woken", woken, want)
		}
	})
}

// TestWaitsApart: waits of floe itself do not count as waiters. A query has waited once it has
// subscribed.
func TestWaitsApart(t *testing.T) {
	r, one, _ := newViewed(t, 1)
	r.apply(0, engine.CreateNamespace("n", false))
	synctest.Test(t, func(t *testing.T) {
		done := make(chan error, 1)
		runs := 0
		go func() {
			done <- r.answer(engine.Replica{}, func(v *engine.View) error {
				expect(t, "waited", v.Waited(), runs > 0)
				if runs++; runs == 3 {
					return nil
				}
				err := errors.Join(v.WaitApart(goods("x")), v.WaitApart(goods("y")), engine.ErrWait)
				expect(t, "waited", v.Waited(), true)
				return err
			})
		}()
		synctest.Wait()
		expect(t, "waiting", r.execs[0].Waiting(), 0)
		r.run(one, "n", func(tx *engine.Tx) { tx.Notify(goods("y"), 1) })
		expect(t, "error", <-done, "<nil>")
	})
}

// TestOnlyIsForTakes: a query may call Only and WakeAt, which make no difference for it.
func TestOnlyIsForTakes(t *testing.T) {
	r, _, _ := newViewed(t, 1)
	r.see(func(v *engine.View) { v.Only(engine.NoSlots()); v.WakeAt(5) })
}

// TestNotifyWithinWakesQueries: a notification of a parent wakes the queries whose first topic is
// within it.
func TestNotifyWithinWakesQueries(t *testing.T) {
	r, one, _ := newViewed(t, 1)
	r.apply(0, engine.CreateNamespace("n", false))
	synctest.Test(t, func(t *testing.T) {
		looks := map[string]*atomic.Int32{"a": {}, "b": {}, "c": {}}
		for _, name := range []string{"a", "b", "c"} {
			go func() {
				_ = r.answer(engine.Replica{}, func(v *engine.View) error {
					if looks[name].Add(1) == 3 {
						return nil
					}
					parent := goods("shelf")
					if name == "c" {
						parent = goods("other")
					}
					return errors.Join(v.WaitTurnWithin(parent, goods(name), v.Now()), engine.ErrWait)
				})
			}()
			synctest.Wait()
		}
		r.run(one, "n", func(tx *engine.Tx) { tx.NotifyWithin(goods("shelf"), 1, engine.Slots{}) })
		synctest.Wait()
		expect(t, "looks", fmt.Sprint(looks["a"].Load(), looks["b"].Load(), looks["c"].Load()), "3 3 2")
		r.execs[0].WakeAll()
	})
}

// TestScanOfView: a scan ends at its bounds, when the function ends it, and with an error.
func TestScanOfView(t *testing.T) {
	r, one, _ := newViewed(t, 1)
	r.run(one, "n", func(tx *engine.Tx) {
		for _, k := range []string{"a", "b", "b1", "b2", "b3", "c"} {
			tx.Set([]byte(k), []byte("of "+k))
		}
	})
	r.see(func(v *engine.View) {
		scan := func(lower, upper string, limit int, fail error) string {
			var got []string
			err := v.Scan([]byte(lower), []byte(upper), func(k, value []byte) (bool, error) {
				got = append(got, fmt.Sprintf("%s %s", k, value))
				return len(got) < limit, fail
			})
			return fmt.Sprint(strings.Join(got, ", "), "; ", err)
		}
		expect(t, "all", scan("a", "c", 9, nil), "a of a, b of b, b1 of b1, b2 of b2, b3 of b3; <nil>")
		expect(t, "two", scan("b", "z", 2, nil), "b of b, b1 of b1; <nil>")
		expect(t, "error", scan("b", "z", 9, errNo), "b of b; no")
		expect(t, "none", scan("b", "b", 9, nil), "; <nil>")
		expect(t, "wrong order", scan("c", "b", 9, nil), "; <nil>")

		list := func(after string, limit int, fail error) string {
			items, more, err := engine.ListRows(v, []byte("b"), []byte(after), limit, func(k, value []byte) (string, bool, error) {
				return string(k), string(value) != "of b2", fail
			})
			return fmt.Sprint(items, " ", more, " ", err)
		}
		expect(t, "list", list("", 9, nil), "[b b1 b3] false <nil>")
		expect(t, "list of all", list("", 3, nil), "[b b1 b3] false <nil>")
		expect(t, "list of two", list("", 2, nil), "[b b1] true <nil>")
		expect(t, "list behind", list("b1", 1, nil), "[b3] false <nil>")
		expect(t, "list behind all", list("b3", 1, nil), "[] false <nil>")
		expect(t, "list behind the prefix", list("c", 1, nil), "[] false <nil>")
		expect(t, "list with an error", list("b", 1, errNo), "[b1] false no")
	})
	before := r.execs[0].Scanned()
	for range 2 { // one item, and the row that shows that there are more
		r.see(func(v *engine.View) {
			_, _, err := engine.ListRows(v, []byte("b"), nil, 1, func(k, _ []byte) (bool, bool, error) { return true, true, nil })
			expect(t, "error", err, "<nil>")
		})
	}
	expect(t, "rows looked at", r.execs[0].Scanned()-before, 4)
	reads := 0
	err := r.answer(engine.Replica{Fault: func() error {
		if reads++; reads > 3 {
			return errDown
		}
		return nil
	}}, func(v *engine.View) error {
		return v.Scan([]byte("a"), []byte("z"), func([]byte, []byte) (bool, error) { return true, nil })
	})
	expect(t, "scan with a fault", err, "read state: down")
	expect(t, "rows looked at, without those of faults", r.execs[0].Scanned()-before, 4)
}

// TestListRowsEndsWhenFull: a page of rows ends when the view is full, but has at least one item.
func TestListRowsEndsWhenFull(t *testing.T) {
	r, one, _ := newViewed(t, 1)
	r.run(one, "n", func(tx *engine.Tx) {
		for _, k := range []string{"pa", "pb", "pc"} {
			tx.Set([]byte(k), make([]byte, 6<<20))
		}
	})
	r.see(func(v *engine.View) {
		list := func(limit int) string {
			items, more, err := engine.ListRows(v, []byte("p"), nil, limit,
				func(k, _ []byte) (string, bool, error) { return string(k), true, nil })
			return fmt.Sprint(items, " ", more, " ", err)
		}
		expect(t, "list", list(9), "[pa pb] true <nil>")
		expect(t, "list of a full view", list(9), "[pa] true <nil>")
	})
	r.run(one, "n", func(tx *engine.Tx) {
		tx.Set([]byte("a"), make([]byte, 8<<20))
		tx.Set([]byte("b"), make([]byte, 8<<20-1))
		tx.Set([]byte("c"), make([]byte, 1))
	})
	r.see(func(v *engine.View) {
		for _, k := range []string{"a", "b", "c"} {
			_, _, err := v.Get([]byte(k))
			expect(t, "full with "+k, fmt.Sprint(v.Full(), " ", err), fmt.Sprint(k == "c", " <nil>"))
		}
	})
}

// TestIterPrev goes back from the last row to the first.
func TestIterPrev(t *testing.T) {
	r, one, _ := newViewed(t, 1)
	r.run(one, "n", func(tx *engine.Tx) {
		for _, k := range []string{"a", "b", "c"} {
			set(tx, k)
		}
	})
	faults := 0
	err := r.answer(engine.Replica{Fault: func() error {
		if faults++; faults == 6 {
			return errDown
		}
		return nil
	}}, func(v *engine.View) error {
		it, err := v.Iter([]byte("a"), []byte("z"))
		if err != nil {
			return err
		}
		var got []string
		for ok := it.SeekLT([]byte("z")); ok; ok = it.Prev() {
			got = append(got, string(it.Key()))
		}
		expect(t, "rows", fmt.Sprint(got, it.Err()), "[c b a] <nil>")
		if !it.First() || it.Prev() {
			t.Error("there is no first row, or one before it")
		}
		// Reads have been: Iter, SeekLT, two of Prev, First.
		expect(t, "error", it.Err(), "<nil>")
		if it.First() {
			t.Error("a read that fails finds a row")
		}
		expect(t, "error", it.Err(), "read state: down")
		return it.Close()
	})
	expect(t, "error", err, "read state: down")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = r.execs[0].Query(ctx, &question{ask: func(v *engine.View) error {
		it, err := v.Iter([]byte("a"), []byte("z"))
		if err != nil {
			return err
		}
		expect(t, "rows", fmt.Sprint(it.First(), " ", it.Err()), "true <nil>")
		expect(t, "ended", v.Ended(), context.Canceled)
		expect(t, "rows", fmt.Sprint(it.Next(), " ", it.Err()), "false read state: context canceled")
		return it.Close()
	}}, engine.Replica{Now: epoch})
	expect(t, "error", err, context.Canceled)
}
