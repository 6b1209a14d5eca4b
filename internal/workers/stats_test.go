package workers_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/workers"
)

// runs returns the process of an action's runs.
func runs(action string, all, failures int64, last time.Time) workers.Process {
	return workers.Process{Name: action, Kind: workers.KindOfRuns, Runs: all, Failures: failures, LastRun: last}
}

// TestPollerIsListed: a polling worker that took runs is listed, with counts of how they ended.
func TestPollerIsListed(t *testing.T) {
	g := newGround(t, 1, false)
	g.call(0, "called w")
	g.call(0, "completed w a")
	if _, err := workers.Find(t.Context(), &g.scope, "w"); !errors.Is(err, engine.ErrNotFound) || len(g.rows(0)) != 0 {
		t.Fatalf("it has got nothing, and is found with %v; rows %v", err, g.rows(0))
	}
	g.call(0, "took w b a b")
	g.Advance(0)
	began := time.UnixMilli(machinetest.Epoch)
	want := workers.Info{
		Worker: workers.Worker{ID: "w", Type: "action", Handles: []string{"a", "b"}}, Status: workers.Active, LastSeen: began,
		RegisteredAt: began,
		Processes:    []workers.Process{runs("a", 0, 0, time.Time{}.Local()), runs("b", 0, 0, time.Time{}.Local())},
	}
	look := func(what string) {
		t.Helper()
		got := g.find("w")
		for i := range got.Processes {
			if p := &got.Processes[i]; p.LastRun.IsZero() {
				p.LastRun = time.Time{}.Local()
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s the worker is %+v, want %+v", what, got, want)
		}
	}
	look("with two runs")
	g.Pass(1000)
	g.call(0, "completed w a")
	g.Pass(1000)
	g.call(0, "failed w a a")
	g.Pass(1000)
	g.call(0, "called w")
	want.Completed, want.Failed, want.LastSeen = 1, 2, time.UnixMilli(machinetest.Epoch+3000)
	want.Processes[0] = runs("a", 3, 2, time.UnixMilli(machinetest.Epoch+2000))
	look("when they have ended")
	g.failOver(2)
	want.LastSeen = time.UnixMilli(g.Now())
	look("under another leader")
	if counts, err := workers.Handlers(t.Context(), &g.scope, "action", "a", "a"); err != nil ||
		!maps.Equal(counts, map[string]int{"a": 1}) {
		t.Errorf("handlers are %v, %v", counts, err)
	}
	for f, n := range map[workers.Filter]int{{Type: "action"}: 1, {Type: "queue"}: 0, {Handles: "b"}: 1, {Handles: "c"}: 0} {
		if page, err := workers.Page(t.Context(), &g.scope, engine.Listing{Limit: 9}, f); err != nil || len(page.Items) != n {
			t.Errorf("%+v lists %+v, %v", f, page.Items, err)
		}
	}
}

// TestSilenceOfPollers: each call of a polling worker is a heartbeat; after 24 h of silence no row
// is left.
func TestSilenceOfPollers(t *testing.T) {
	g := newGround(t, 1, false)
	is := func(want workers.Status) {
		t.Helper()
		if got := g.find("w").Status; got != want {
			t.Errorf("at %d it is %v, want %v", g.Now()-machinetest.Epoch, got, want)
		}
	}
	for _, call := range []string{"took w a", "called w", "took w b"} {
		g.call(0, call)
		g.Advance(0)
		g.find("w")
		g.Advance(workers.SilentMillis - 1)
		is(workers.Active)
		g.Advance(1)
		is(workers.Unhealthy)
	}
	g.call(0, "took new a") // its heartbeat is this call, not the beginning of the term
	g.Advance(workers.SilentMillis - 1)
	if got := g.find("new").Status; got != workers.Active {
		t.Errorf("89 s after its first run a worker is %v", got)
	}
	g.call(0, "forget new")
	g.call(0, "took w a")
	is(workers.Active)
	before := g.entries()
	for range 30 {
		g.Advance(workers.ReportMillis)
		g.call(0, "called w")
	}
	if n := g.entries() - before; n != 30 { // those of the calls themselves
		t.Errorf("30 calls of a worker that is alive have made %d entries", n)
	}
	g.Advance(0)
	g.find("w")
	g.Advance(workers.SilentMillis)
	g.Advance(workers.GoneMillis - workers.SilentMillis - 1)
	is(workers.Unhealthy)
	g.Advance(1)
	if n := g.rows(0); len(n) != 0 {
		t.Errorf("after 24 h the rows are %v", n)
	}
}

// TestSilentPollerUnderAnotherLeader: a silent polling worker that takes a run is active, also
// after a failover.
func TestSilentPollerUnderAnotherLeader(t *testing.T) {
	g := newGround(t, 1, false)
	g.call(0, "took w a")
	g.Advance(0)
	g.Advance(workers.SilentMillis)
	g.Advance(workers.ReportMillis)
	g.call(0, "took w a")
	g.failOver(2)
	if got := g.find("w").Status; got != workers.Active {
		t.Errorf("it has got a run, and is %v", got)
	}
}

// TestLimitOfActions: beyond maxProcesses actions, runs are counted in the totals only.
func TestLimitOfActions(t *testing.T) {
	for _, n := range []int{workers.MaxProcesses - 1, workers.MaxProcesses, workers.MaxProcesses + 1} {
		g := newGround(t, 1, false)
		for i := range n {
			g.call(0, fmt.Sprintf("took w a%04d", i))
			g.call(0, fmt.Sprintf("failed w a%04d", i))
		}
		g.call(0, "completed w a0000")
		w, rows := g.find("w"), g.rows(0)["t"]
		if w.Completed != 1 || w.Failed != int64(n) || len(w.Processes) != min(n, workers.MaxProcesses) ||
			rows != min(n, workers.MaxProcesses)+1 {
			t.Errorf("%d actions: %d completed, %d failed, %d processes in %d rows", n, w.Completed, w.Failed, len(w.Processes), rows)
		}
	}
}

// TestLimitOfWorkers: polling workers beyond MaxWorkers get runs, but are not listed.
func TestLimitOfWorkers(t *testing.T) {
	for _, n := range []uint64{workers.MaxWorkers - 1, workers.MaxWorkers} {
		g := newGround(t, 1, false)
		g.call(0, "took w a")
		g.Distrust()
		for _, row := range g.Rows(0) {
			if row.Machine == engine.MachineAction && len(row.Key) == 5 {
				row.Value = codec.AppendUvarint(nil, n)
				g.Tamper(0, row)
			}
		}
		g.call(0, "took x a")
		g.call(0, "failed x a")
		_, err := workers.Find(t.Context(), &g.scope, "x")
		if listed := n < workers.MaxWorkers; listed != (err == nil) || g.rows(0)["t"] != 2 && !listed {
			t.Errorf("beside %d others it is found with %v; rows %v", n, err, g.rows(0))
		}
		g.call(0, "failed w a")
		if w := g.find("w"); w.Failed != 1 {
			t.Errorf("one that is listed has failed %d times", w.Failed)
		}
	}
}

// TestPollerRegisters: a polling worker's counts continue when it registers, and when a process
// joins with its ID, until it leaves. Reported runs of actions are not counted twice.
func TestPollerRegisters(t *testing.T) {
	ctx := t.Context()
	g := newGround(t, 1, false)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	counts := func(what string, completed, failed int64) {
		t.Helper()
		if w := g.find("w"); w.Completed != completed || w.Failed != failed {
			t.Errorf("%s it is %+v, want %d and %d", what, w, completed, failed)
		}
	}
	g.call(0, "took w a")
	g.call(0, "completed w a")
	g.Advance(0)
	for range 2 {
		if err := workers.Heartbeat(ctx, &g.scope, "w", 1, nil); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("it has not registered, and its heartbeat = %v, want ErrNotFound", err)
		}
		g.failOver(2)
		g.call(0, "called w")
	}
	if err := workers.Leave(ctx, &g.scope, "w", true); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("it has not registered, and drains with %v, want ErrNotFound", err)
	}
	must(workers.Register(ctx, &g.scope, named("w")))
	if n := g.rows(0)["t"]; n != 2 {
		t.Errorf("it has registered, and there are %d rows of its counts, want 2", n)
	}
	must(workers.Heartbeat(ctx, &g.scope, "w", 1, append(ran(5, 2, g.Now()), runs("a", 7, 3, time.Time{}))))
	counts("with a heartbeat", 4, 2)
	g.call(0, "took w a")
	g.call(0, "failed w a")
	counts("with another run", 4, 3)
	if w := g.find("w"); w.Load != 1 || w.Machine != "host" || !slices.Equal(w.Handles, []string{"a", "b"}) || len(w.Processes) != 2 ||
		w.RegisteredAt.UnixMilli() != machinetest.Epoch {
		t.Errorf("it is %+v", w)
	}
	g.Advance(workers.ReportMillis) // stores the heartbeat
	must(workers.Register(ctx, &g.scope, named("w")))
	counts("registered again", 4, 3)
	g.mustPropose(workers.JoinOp(7, named("w")))
	counts("of a process", 4, 3)
	if n := g.rows(0); n["t"] != 0 {
		t.Errorf("the rows are %v", n)
	}
	g.call(0, "took w a")
	g.call(0, "failed w a")
	g.report(workers.Reported{"w", 7, 0, []workers.Process{runs("a", 1, 0, time.Time{})}})
	counts("which counts itself", 5, 3)
	if got := g.call(0, "forget w"); got != "false" {
		t.Errorf("the shard forgets one that has joined: %s", got)
	}
	g.Advance(workers.ReportMillis)
	g.Advance(workers.ReportMillis)
	must(workers.Register(ctx, &g.scope, named("w")))
	g.call(0, "took w a")
	g.call(0, "completed w a")
	counts("polling again", 6, 3)
	must(workers.Leave(ctx, &g.scope, "w", false))
	if n := g.rows(0); len(n) != 0 {
		t.Errorf("it has left; the rows are %v", n)
	}
	g.call(0, "took w a")
	counts("anew", 0, 0)
	if got := g.call(0, "forget w"); got != "true" || len(g.rows(0)) != 0 {
		t.Errorf("forget = %s; the rows are %v", got, g.rows(0))
	}
	if got := g.call(0, "forget w"); got != "false" {
		t.Errorf("forget = %s, want false for an unknown worker", got)
	}
}

// TestPollerOfSeveralShards: a polling worker with rows in several shards is listed once, with the
// sums.
func TestPollerOfSeveralShards(t *testing.T) {
	for _, registered := range []bool{false, true} {
		ctx := t.Context()
		g := newGround(t, 3, true)
		g.Advance(0)
		for shard := range engine.ShardID(3) {
			for i := range 20 {
				id := fmt.Sprintf("w%02d", i)
				g.call(shard, "took "+id+" a "+fmt.Sprint("only", shard))
				g.call(shard, "completed "+id+" a a")
				g.call(shard, "failed "+id+" "+fmt.Sprint("only", shard))
			}
			g.Pass(1000)
		}
		typ := "action"
		if registered {
			typ = "other"
			for i := range 20 {
				w := named(fmt.Sprintf("w%02d", i))
				w.Type, w.Handles = typ, []string{"a", "c"}
				g.mustPropose(workers.JoinOp(0, w))
			}
		}
		g.mustPropose(workers.JoinOp(7, named("process")))
		g.Advance(0)
		seen := 0
		for l := (engine.Listing{Limit: 7}); ; {
			page, err := workers.Page(ctx, &g.scope, l, workers.Filter{Type: typ, Handles: "a"})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range page.Items {
				if w.ID == "process" {
					continue
				}
				if seen++; w.Completed != 6 || w.Failed != 3 || w.Status != workers.Active || len(w.Processes) != 4 ||
					w.Processes[0].Runs != 6 || w.Type != typ || w.LastSeen.UnixMilli() < machinetest.Epoch+2000 {
					t.Errorf("registered=%t: it is %+v", registered, w)
				}
				if want := []string{"a", "only0", "only1", "only2"}; !registered &&
					(!slices.Equal(w.Handles, want) || w.RegisteredAt.UnixMilli() != machinetest.Epoch) {
					t.Errorf("it handles %v, since %v", w.Handles, w.RegisteredAt)
				}
				if alone := g.find(w.ID); !reflect.DeepEqual(alone, w) {
					t.Errorf("found it is %+v, listed %+v", alone, w)
				}
			}
			if l.Cursor = page.Cursor; l.Cursor == "" {
				break
			}
		}
		if seen != 20 {
			t.Errorf("registered=%t: %d are listed, want 20", registered, seen)
		}
		want := map[string]int{"a": 21, "b": 1, "only0": 20, "only1": 20}
		if registered {
			want = map[string]int{"a": 1, "b": 1} // others are of another type
		}
		if counts, err := workers.Handlers(ctx, &g.scope, "action", "a", "only1"); err != nil || !maps.Equal(counts, want) {
			t.Errorf("registered=%t: handlers are %v, %v, want %v", registered, counts, err, want)
		}
		if counts, err := workers.Handlers(ctx, &g.scope, "other", "a", "b"); err != nil ||
			registered != maps.Equal(counts, map[string]int{"a": 20}) {
			t.Errorf("registered=%t: handlers of another type are %v, %v", registered, counts, err)
		}
		for name, f := range map[string]workers.Filter{"type": {Type: "none"}, "handles": {Handles: "none"}} {
			if page, err := workers.Page(ctx, &g.scope, engine.Listing{Limit: 100}, f); err != nil || len(page.Items) != 0 {
				t.Errorf("of no %s are listed %+v, %v", name, page.Items, err)
			}
		}
		home := g.scope.SpreadShard("w00")
		g.call((home+1)%3, "called w00")
		g.find("w00")
		g.Advance(workers.SilentMillis - 1)
		if got := g.find("w00").Status; got != workers.Active {
			t.Errorf("after a heartbeat in one shard it is %v", got)
		}
	}
}

// TestVerifyNoticesStats: Verify reports run counts without a worker or a header, and wrong numbers
// of them.
func TestVerifyNoticesStats(t *testing.T) {
	key := func(id, action string) []byte { return append([]byte{'t', 0, 0, 0, 1}, id+"\x00"+action...) }
	for name, change := range map[string]func(k, value []byte) (newKey, newValue []byte){
		"damaged":     func(k, _ []byte) ([]byte, []byte) { return k, []byte{1, 2} },
		"version":     func(k, v []byte) ([]byte, []byte) { return k, append([]byte{2}, v[1:]...) },
		"too many":    func(_, v []byte) ([]byte, []byte) { return key("w", "b"), v },
		"no worker's": func(_, v []byte) ([]byte, []byte) { return key("x", ""), v },
		"without a":   func(_, v []byte) ([]byte, []byte) { return key("v", "a"), v },
		"no worker":   func(_, v []byte) ([]byte, []byte) { return key("", "a"), v },
		"short":       func(_, v []byte) ([]byte, []byte) { return []byte{'t', 0, 0}, v },
		"in the future": func(k, _ []byte) ([]byte, []byte) {
			return k, append(codec.AppendVarint([]byte{1, 0, 0}, machinetest.Epoch*2), 0)
		},
	} {
		g := newGround(t, 1, false)
		g.call(0, "took w a")
		if len(g.Problems(0)) != 0 {
			t.Fatal(g.Problems(0))
		}
		for _, row := range g.Rows(0) {
			if row.Machine == engine.MachineAction && row.Key[0] == 't' && row.Key[len(row.Key)-1] == 'a' {
				row.Key, row.Value = change(row.Key, row.Value)
				g.Tamper(0, row)
			}
		}
		if len(g.Problems(0)) == 0 {
			t.Errorf("%s: nothing is noticed", name)
		}
	}
}

// TestClear: Clear removes the polling workers and the counts of registered ones.
func TestClear(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, workers.Worker{ID: "joined", Type: "action"}))
	g.call(0, "took joined a")
	g.call(0, "took w a b")
	g.call(0, "took x a")
	if err := workers.Register(t.Context(), &g.scope, named("registered")); err != nil {
		t.Fatal(err)
	}
	g.call(0, "took registered a")
	if got := g.call(0, "clear -"); got != "true" {
		t.Errorf("Clear = %s", got)
	}
	if rows := g.rows(0); !maps.Equal(rows, map[string]int{"x": 3}) { // those that have joined or registered, and the count
		t.Errorf("rows %v are left", rows)
	}
	if got := g.call(0, "clear -"); got != "false" {
		t.Errorf("Clear without counts = %s", got)
	}
}

// TestLimitOfJoins: a namespace has at most MaxWorkers in a shard; those that are listed may join
// again.
func TestLimitOfJoins(t *testing.T) {
	for _, n := range []uint64{workers.MaxWorkers - 1, workers.MaxWorkers} {
		g := newGround(t, 1, false)
		g.mustPropose(workers.JoinOp(7, named("w")))
		g.Distrust()
		for _, row := range g.Rows(0) {
			if row.Machine == engine.MachineAction && len(row.Key) == 5 {
				row.Value = codec.AppendUvarint(nil, n)
				g.Tamper(0, row)
			}
		}
		g.mustPropose(workers.JoinOp(8, named("w")))
		if err := g.propose(workers.JoinOp(7, named("x"))); n < workers.MaxWorkers && err != nil ||
			n == workers.MaxWorkers && !errors.Is(err, engine.ErrBusy) {
			t.Errorf("beside %d others: %v", n, err)
		}
	}
}

// TestCheckTakes: a command of a worker that drains is refused.
func TestCheckTakes(t *testing.T) {
	g := newGround(t, 1, false)
	check := func(id string, want string) {
		t.Helper()
		if got := g.call(0, "check "+id); got != want {
			t.Errorf("worker %s: %q, want %q", id, got, want)
		}
	}
	g.mustPropose(workers.JoinOp(0, named("w")))
	check("w", "")
	check("stranger", "")
	g.mustPropose(workers.LeaveOp(0, true, "w"))
	check("w", `worker "w" drains: it takes nothing new`)
}

// TestHeldRuns: a polling worker that holds runs is alive, and they are its load. If they cannot be
// counted, queries fail.
func TestHeldRuns(t *testing.T) {
	held, fails := 0, error(nil)
	p := primitive()
	p.New = func() engine.Machine {
		m := new(machine)
		m.Holds = func(*engine.View, uint32, string) (int, error) { return held, fails }
		return m
	}
	r := machinetest.New(t, 1, p)
	g, ctx := &ground{r, t, r.Router().Scope("n", 1<<20)}, t.Context()
	g.mustPropose(workers.JoinOp(0, named("w")))
	g.mustPropose(workers.JoinOp(7, named("process")))
	g.Advance(0)
	held = 2
	g.Advance(workers.SilentMillis)
	if w := g.find("w"); w.Status != workers.Active || w.Load != 2 {
		t.Errorf("with two runs it is %+v", w)
	}
	if w := g.find("process"); w.Status != workers.Unhealthy || w.Load != 0 {
		t.Errorf("a process is %+v", w)
	}
	counts, err := workers.Handlers(ctx, &g.scope, "action", "a", "a")
	if err != nil || !maps.Equal(counts, map[string]int{"a": 1}) {
		t.Errorf("handlers are %v, %v", counts, err)
	}
	fails = errors.New("not counted")
	_, found := workers.Find(ctx, &g.scope, "w")
	_, listed := workers.Page(ctx, &g.scope, engine.Listing{Limit: 5}, workers.Filter{})
	_, handled := workers.Handlers(ctx, &g.scope, "action", "a", "z")
	for what, err := range map[string]error{"Find": found, "Page": listed, "Handlers": handled} {
		if err == nil || err.Error() != fails.Error() {
			t.Errorf("%s: %v, want %v", what, err, fails)
		}
	}
	fails, held = nil, 0
	if w := g.find("w"); w.Status != workers.Unhealthy {
		t.Errorf("without runs it is %+v", w)
	}
}
