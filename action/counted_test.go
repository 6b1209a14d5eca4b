package action

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// countedWorld is a world with the action a, and its store.
type countedWorld struct {
	*world
	*Store
}

func newCounted(t *testing.T, s spec) countedWorld {
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	w.register("a", s)
	w.r.Advance(0) // the leader's duties have begun
	return countedWorld{w, engine.StoreOf[Store](w.r.Router(), "n", 1<<20)}
}

// get creates a run and has a worker take it.
func (w countedWorld) get(worker string) Task {
	w.t.Helper()
	w.mustInvoke(protocol.Invoke{Name: "a"})
	return w.await(worker)
}

func (w countedWorld) await(worker string) Task {
	w.t.Helper()
	all, err := w.Await(context.Background(), worker, []string{"a"})
	if err != nil || len(all) != 1 {
		w.t.Fatalf("Await = %+v, %v", all, err)
	}
	return all[0]
}

func (w countedWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// is checks the listing of worker w.
func (w countedWorld) is(what string, status WorkerStatus, load int, completed, failed int64) {
	w.t.Helper()
	got, err := w.Workers().Get(context.Background(), "w")
	if err != nil || got.Status != status || got.Load != load || got.Completed != completed || got.Failed != failed {
		w.t.Errorf("%s it is %+v, %v; want %v with %d runs, %d completed, %d failed", what, got, err, status, load, completed, failed)
	}
}

// seen checks how many ms ago worker w was last seen.
func (w countedWorld) seen(what string, before int64) {
	w.t.Helper()
	got, err := w.Workers().Get(context.Background(), "w")
	if is := w.r.Now() - got.LastSeen.UnixMilli(); err != nil || is != before {
		w.t.Errorf("%s it was seen %d ms ago, %v, want %d", what, is, err, before)
	}
}

// TestRunsAreCountedWhereTheyEnd: runs are counted where they end, for a worker that only calls
// Await, Complete and Fail.
func TestRunsAreCountedWhereTheyEnd(t *testing.T) {
	ctx := t.Context()
	s := defaultSpec
	s.maxRetries, s.backoffMin, s.backoffMax, s.timeout = 1, 0, 0, 5000
	w := newCounted(t, s)
	if all, err := w.Await(ctx, "w", []string{"a"}); err != nil || len(all) != 0 {
		t.Fatalf("Await = %+v, %v", all, err)
	}
	if _, err := w.Workers().Get(ctx, "w"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it has got nothing, and is found with %v", err)
	}
	task := w.get("w")
	w.is("with a run", Active, 1, 0, 0)
	w.must(w.Complete(ctx, task.Run, "w", nil))
	w.is("when it is completed", Active, 0, 1, 0)
	if err := w.Complete(ctx, task.Run, "w", nil); !errors.Is(err, ErrConflict) {
		t.Errorf("a second Complete = %v", err)
	}
	w.must(w.Fail(ctx, w.get("w").Run, "w", "no", Retry()))
	w.is("when an attempt has failed", Active, 0, 1, 1)
	w.must(w.Fail(ctx, w.await("w").Run, "w", "no"))
	w.is("when the other one has", Active, 0, 1, 2)
	w.get("w")
	w.r.Advance(4999)
	w.is("before the time limit", Active, 1, 1, 2)
	w.r.Advance(1)
	w.is("at the time limit", Active, 0, 1, 3)
	late := w.await("w")
	w.must(w.Cancel(ctx, late.Run, ""))
	if err := w.Complete(ctx, late.Run, "w", nil); !errors.Is(err, ErrConflict) {
		t.Errorf("Complete of a cancelled run = %v", err)
	}
	w.is("with a cancelled run", Active, 0, 1, 3)
	for i, how := range []how{released, snoozed} {
		task := w.get("w")
		p, err := task.Run.parse()
		w.must(err)
		if got, err := w.work(workBody{self: "w", ends: []end{{ref: p.Ref, how: how, delay: 1}}}); err != nil ||
			got.verdicts[0] != accepted {
			t.Fatalf("%v: %+v, %v", how, got, err)
		}
		w.is("which does not count", Active, 0, 1+int64(i), 3)
		w.r.Advance(1)
		w.must(w.Complete(ctx, w.await("w").Run, "w", nil))

	}
	w.r.Restart()
	w.r.SetTerm(2)
	w.r.Advance(0)
	w.is("under another leader", Active, 0, 3, 3)
	machinetest.EqualReplicas(t, w.r.Log(0), []engine.Primitive{table()}, machinetest.Replica{Name: "at once"},
		machinetest.Replica{Name: "one by one", Commit: 1, Restart: 3})
}

// TestEndsOfTransactions: ends in transactions are counted too.
func TestEndsOfTransactions(t *testing.T) {
	ctx := t.Context()
	w := newCounted(t, defaultSpec)
	for _, fails := range []bool{false, true} {
		task := w.get("w")
		op := CompleteOp(&task, nil)
		if fails {
			op = FailOp(&task, "no")
		}
		w.r.Pass(1000)
		_, err := w.r.Txn("n").If(Held(&task)).Do(op).Commit(ctx)
		w.must(err)
		w.seen("when it has ended a run", 0)
		if _, err := w.r.Txn("n").If(Held(&task)).Do(op).Commit(ctx); !errors.Is(err, ErrConflict) {
			t.Errorf("once more = %v", err)
		}
	}
	w.is("then", Active, 0, 1, 1)
}

// TestCallerIsAlive: a worker is active while it calls, or has a run whose time is not over,
// registered or not.
func TestCallerIsAlive(t *testing.T) {
	for _, registered := range []bool{false, true} {
		t.Run(fmt.Sprint("registered=", registered), func(t *testing.T) { callerIsAlive(t, registered) })
	}
}

func callerIsAlive(t *testing.T, registered bool) {
	ctx := t.Context()
	const silent = 90_000
	s := defaultSpec
	s.timeout, s.maxRetries = 10*silent, 0
	w := newCounted(t, s)
	if registered {
		w.must(w.RegisterWorker(ctx, NewWorker{ID: "w", MaxConcurrent: 2}))
		w.must(w.Heartbeat(ctx, "w", 0))
		w.r.Advance(1000)
	}
	task := w.get("w")
	w.seen("at the take", 0)
	for range 2 {
		w.r.Advance(5 * silent)
		w.seen("while it has a run", 5*silent)
		w.is("while it has a run", Active, 1, 0, 0)
		until, err := w.Extend(ctx, task.Run, "w", 10*silent*time.Millisecond)
		w.must(err)
		w.seen("which it touches", 0)
		if left := until.UnixMilli() - w.r.Now(); left != 10*silent {
			t.Errorf("touched for %d ms", left)
		}
	}
	w.r.Advance(10*silent - 1)
	w.is("before its time is over", Active, 1, 0, 0)
	w.r.Advance(1)
	w.is("when that is over", Unhealthy, 0, 0, 1)
	if all, err := w.Await(ctx, "w", []string{"a"}); err != nil || len(all) != 0 {
		t.Fatalf("Await = %+v, %v", all, err)
	}
	w.seen("when it asks for runs", 0)
	w.is("when it asks for runs", Active, 0, 0, 1)
	w.r.Advance(silent - 1)
	w.is("89 s later", Active, 0, 0, 1)
	w.r.Advance(1)
	w.is("90 s later", Unhealthy, 0, 0, 1)
	task = w.get("w")
	w.is("with a run", Active, 1, 0, 1)
	w.r.Advance(silent)
	w.must(w.Fail(ctx, task.Run, "w", "no"))
	w.seen("when it fails", 0)
	w.is("when it fails", Active, 0, 0, 2)
	w.r.Advance(silent)
	w.is("90 s after that", Unhealthy, 0, 0, 2)
	if err := w.Heartbeat(ctx, "w", 0); registered != (err == nil) || !registered && !errors.Is(err, ErrNotFound) {
		t.Errorf("Heartbeat = %v", err)
	}
}

// TestWaitingCallersLookAgain: a listed worker that waits checks again before it would count as
// silent. Each check renews the time it was last seen.
func TestWaitingCallersLookAgain(t *testing.T) {
	w := newCounted(t, defaultSpec)
	w.must(w.Complete(t.Context(), w.get("w").Run, "w", nil))
	for worker, again := range map[string]int64{"w": 60_000, "other": engine.NoTimer} {
		c := workBody{self: worker, group: group{names: []string{"a"}}, wants: []want{{0, worker, 1}}, listed: true}
		cmd := engine.Command{Machine: engine.MachineAction, Kind: kindWork, Namespace: "n", Body: body(takeRuns, "", c)}
		k := engine.NewTaking(t.Context(), engine.Take{Command: cmd, Wait: time.Hour}, w.r.Now)
		w.r.Pass(1000)
		if _, waits, err := w.r.Executor(0).Enter(k); err != nil || !waits {
			t.Fatalf("waits=%t, %v", waits, err)
		}
		if got := w.r.Executor(0).WakeAt(k); got != min(again, engine.NoTimer-w.r.Now())+w.r.Now() {
			t.Errorf("%s looks again at %d, want in %d ms", worker, got, again)
		}
		if worker == "w" {
			w.seen("while it waits", 0)
		}
	}
}

// TestDeregisterOfCallers: a worker that never registered is forgotten, and its runs are given
// back.
func TestDeregisterOfCallers(t *testing.T) {
	ctx := t.Context()
	w := newCounted(t, defaultSpec)
	for _, holds := range []bool{true, false} {
		task := w.get("w")
		if !holds {
			w.must(w.Complete(ctx, task.Run, "w", nil))
		}
		w.must(w.Deregister(ctx, "w"))
		if _, err := w.Workers().Get(ctx, "w"); !errors.Is(err, ErrNotFound) {
			t.Errorf("it has left, and is found with %v", err)
		}
		if err := w.Deregister(ctx, "w"); !errors.Is(err, ErrNotFound) {
			t.Errorf("once more = %v, want ErrNotFound", err)
		}
		if holds {
			w.must(w.Cancel(ctx, task.Run, ""))
		}
	}
	if rows := w.r.Rows(0); slices.ContainsFunc(rows, func(r machinetest.Row) bool {
		return r.Machine == engine.MachineAction && (r.Key[0] == rowStats || r.Key[0] == rowWorker)
	}) {
		t.Error("rows of it are left")
	}
}

// TestDeletedNamespaceForgetsCallers: deleting a namespace forgets its workers, except those that
// registered.
func TestDeletedNamespaceForgetsCallers(t *testing.T) {
	ctx := t.Context()
	w := newCounted(t, defaultSpec)
	for i := range 70 {
		id := fmt.Sprint("w", i)
		if i%7 == 0 {
			w.must(w.RegisterWorker(ctx, NewWorker{ID: id}))
		}
		w.must(w.Complete(ctx, w.get(id).Run, id, nil))
	}
	w.must(w.Delete(ctx, "a", Force()))
	w.must(engine.NewNamespaces(w.r.Router()).Delete(ctx, "n"))
	kinds := make(map[byte]int)
	for _, row := range w.r.Rows(0) {
		if row.Machine == engine.MachineAction {
			kinds[row.Key[0]]++
		}
	}
	if kinds[rowStats] != 0 || kinds[rowWorker] != 10+1 {
		t.Errorf("the namespace is deleted, and the rows of workers are %v", kinds)
	}
}

// TestTakesOfEarlierBuilds: takes of earlier builds list no worker. Replayed, they leave the same
// rows as before.
func TestTakesOfEarlierBuilds(t *testing.T) {
	w := newCounted(t, defaultSpec)
	ref := w.mustInvoke(protocol.Invoke{Name: "a"})
	c := workBody{self: "w", group: group{names: []string{"a"}}, wants: []want{{0, "w", 1}}}
	if got, err := w.work(c); err != nil || len(got.taken) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := w.work(workBody{self: "w", ends: []end{{ref: ref, how: completed}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Workers().Get(t.Context(), "w"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is found with %v", err)
	}
	for _, ends := range [][]end{nil, {{ref: ref, how: completed}}, {{ref: ref, how: completed, begun: 3}}} {
		for _, listed := range []bool{false, true} {
			c.ends, c.listed = ends, listed
			if got, err := read(takeRuns, body(takeRuns, "", c)); err != nil || got.listed != listed ||
				!slices.EqualFunc(got.ends, ends, func(a, b end) bool { return a.begun == b.begun }) {
				t.Errorf("%+v is decoded as %+v, %v", c, got, err)
			}
		}
	}
}

// TestBytesOfCounts: a take and an end of a worker that calls on its own write few bytes, whatever
// the number of actions it has had runs of.
func TestBytesOfCounts(t *testing.T) {
	const runs = 32
	written := func(others int, listed bool) int {
		w := newCounted(t, defaultSpec)
		c := workBody{self: "w", group: group{names: []string{"a"}}, wants: []want{{0, "w", 1}}, listed: listed}
		for i := range others {
			name := fmt.Sprint("other", i)
			w.register(name, defaultSpec)
			_, err := w.world.invoke(protocol.Invoke{Name: name})
			w.must(err)
			c.group.names = []string{name}
			got, err := w.work(c)
			w.must(err)
			_, err = w.work(workBody{self: "w", ends: []end{{ref: got.taken[0].ref, how: completed}}})
			w.must(err)
		}
		c.group.names = []string{"a"}
		bytes := func() (n int) {
			for _, e := range w.r.Efforts() {
				if e.Command != "entry" && e.Command != "commit" {
					n += e.Sum.Bytes
				}
			}
			return n
		}
		before := 0
		for i := range runs + 1 { // the first run creates the action's row
			if i == 1 {
				before = bytes()
			}
			w.mustInvoke(protocol.Invoke{Name: "a"})
			got, err := w.work(c)
			w.must(err)
			_, err = w.work(workBody{self: "w", ends: []end{{ref: got.taken[0].ref, how: completed}}})
			w.must(err)
		}
		return (bytes() - before) / runs
	}
	uncounted, alone, beside := written(0, false), written(0, true), written(200, true)
	t.Logf("a run writes %d bytes uncounted, %d counted, %d beside 200 other actions", uncounted, alone, beside)
	if alone > uncounted+40 || beside > alone+20 {
		t.Errorf("a run writes %d bytes uncounted, %d counted, %d beside 200 other actions", uncounted, alone, beside)
	}
}
