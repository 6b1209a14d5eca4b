package workers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/workers"
)

func TestWorkerIsListedAsItIs(t *testing.T) {
	g := newGround(t, 1, false)
	w := named("w")
	w.Labels, w.Metadata = map[string]string{"zone": "b"}, []byte(` {"version": 3}`)
	g.mustPropose(workers.JoinOp(7, w))
	g.Pass(5000)
	g.Advance(0)
	if unknown := g.report(workers.Reported{"w", 7, 3, ran(5, 2, machinetest.Epoch+4000)}, workers.Reported{ID: "x", Life: 7},
		workers.Reported{ID: "w", Life: 8}); !reflect.DeepEqual(unknown, []int{1, 2}) {
		t.Errorf("unknown are %v, want the second, which never joined, and the third, of another life", unknown)
	}
	want := workers.Info{
		Worker: w, Status: workers.Active, Load: 3, Completed: 3, Failed: 2, LastSeen: time.UnixMilli(machinetest.Epoch + 5000),
		RegisteredAt: time.UnixMilli(machinetest.Epoch),
		Processes:    ran(5, 2, machinetest.Epoch+4000),
	}
	if got := g.find("w"); !reflect.DeepEqual(got, want) {
		t.Errorf("the worker is %+v, want %+v", got, want)
	}
	g.mustPropose(workers.LeaveOp(7, true, "w"))
	if got := g.find("w").Status; got != workers.Draining {
		t.Errorf("it drains, and is %v", got)
	}
	g.mustPropose(workers.LeaveOp(7, false, "w"))
	if _, err := workers.Find(t.Context(), &g.scope, "w"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("it has left, and is found with %v", err)
	}
	if unknown := g.report(workers.Reported{ID: "w", Life: 7}); len(unknown) != 1 {
		t.Errorf("unknown are %v, want it", unknown)
	}
}

// TestIdleWorkersWriteNothing: reports and scans of the duty write nothing until a count changes.
func TestIdleWorkersWriteNothing(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("w")))
	g.Advance(0)
	before := g.entries()
	for range 100 {
		g.report(workers.Reported{ID: "w", Life: 7})
		g.Advance(workers.ReportMillis)
	}
	if n := g.entries() - before; n != 0 {
		t.Errorf("an idle worker has made %d entries", n)
	}
	g.report(workers.Reported{"w", 7, 0, ran(1, 0, machinetest.Epoch)})
	g.Advance(workers.ReportMillis)
	g.Advance(workers.ReportMillis)
	if n := g.entries() - before; n != 1 {
		t.Errorf("a worker that has run once has made %d entries, want 1", n)
	}
}

// TestSilence: a worker is unhealthy after 90 s of silence, until it reports, and removed after 24
// h.
func TestSilence(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("w")))
	g.Advance(0)
	g.Advance(workers.SilentMillis - 1)
	if got := g.find("w").Status; got != workers.Active {
		t.Errorf("89 s after its last heartbeat it is %v", got)
	}
	g.Advance(1)
	if got := g.find("w").Status; got != workers.Unhealthy {
		t.Errorf("90 s after its last heartbeat it is %v", got)
	}
	g.report(workers.Reported{ID: "w", Life: 7})
	if got := g.find("w").Status; got != workers.Active {
		t.Errorf("it has reported, and is %v", got)
	}
	g.Advance(workers.SilentMillis)
	seen := g.find("w").LastSeen
	g.Advance(workers.GoneMillis - workers.SilentMillis - 1)
	if got := g.find("w"); got.Status != workers.Unhealthy || got.LastSeen != seen {
		t.Errorf("before 24 h it is %v, last seen %v, want unhealthy, %v", got.Status, got.LastSeen, seen)
	}
	g.Advance(1)
	if _, err := workers.Find(t.Context(), &g.scope, "w"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("after 24 h it is found with %v", err)
	}
}

// TestManyFallSilent: a command notes at most MaxBatch workers, and the next one the rest.
func TestManyFallSilent(t *testing.T) {
	for n, commands := range map[int]uint64{workers.MaxBatch: 1, workers.MaxBatch + 1: 2} {
		g := newGround(t, 1, false)
		for i := range n {
			g.mustPropose(workers.JoinOp(7, named(fmt.Sprint("w", i))))
		}
		g.Advance(0)
		before := g.entries()
		g.Advance(workers.SilentMillis)
		if got := g.entries() - before; got != commands {
			t.Errorf("%d workers are noted as silent by %d commands, want %d", n, got, commands)
		}
	}
}

// TestSilentAndGone: workers that fall silent and those to be removed share the limit of a command.
func TestSilentAndGone(t *testing.T) {
	for n, commands := range map[int]uint64{workers.MaxBatch / 2: 1, workers.MaxBatch/2 + 1: 2} {
		g := newGround(t, 1, false)
		join := func(name string) {
			for i := range n {
				g.mustPropose(workers.JoinOp(7, named(fmt.Sprint(name, i))))
			}
			g.Advance(0)
		}
		join("a")
		g.Advance(workers.SilentMillis)
		g.Pass(workers.GoneMillis - 2*workers.SilentMillis)
		join("b")
		before := g.entries()
		g.Advance(workers.SilentMillis)
		if got := g.entries() - before; got != commands || g.rows(0)["x"] != n+1 {
			t.Errorf("%d workers that fall silent, and as many that go, are %d commands, want %d; rows %v", n, got, commands, g.rows(0))
		}
	}
}

// TestFailover: a new leader has no heartbeats, and changes no worker's health.
func TestFailover(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("idle"), named("silent")))
	g.Advance(0)
	for range 100 {
		g.Pass(workers.ReportMillis)
		g.report(workers.Reported{ID: "idle", Life: 7, Processes: ran(9, 1, machinetest.Epoch)})
		g.Advance(0)
	}
	g.failOver(2)
	if got := g.find("idle"); got.Status != workers.Active || got.Completed != 8 || got.LastSeen.UnixMilli() != g.Now() {
		t.Errorf("the idle one is %v, last seen %v, with %d completed; want active, now, and 8", got.Status, got.LastSeen, got.Completed)
	}
	if got := g.find("silent"); got.Status != workers.Unhealthy || got.LastSeen.UnixMilli() != machinetest.Epoch {
		t.Errorf("the silent one is %v, last seen %v; want unhealthy, %v", got.Status, got.LastSeen, time.UnixMilli(machinetest.Epoch))
	}
	g.Advance(workers.SilentMillis - 1)
	if got := g.find("idle").Status; got != workers.Active {
		t.Errorf("89 s after the failover it is %v", got)
	}
	g.Advance(1)
	if got := g.find("idle").Status; got != workers.Unhealthy {
		t.Errorf("90 s after the failover it is %v", got)
	}
}

// TestNewLeaderRemovesNoWorkerAtOnce: a new leader gives silent workers time to find it before it
// removes them.
func TestNewLeaderRemovesNoWorkerAtOnce(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("w")))
	g.Advance(0)
	g.Advance(workers.SilentMillis)
	g.Pass(workers.GoneMillis)
	g.failOver(2)
	g.Advance(workers.SettleMillis - 1)
	g.find("w")
	g.report(workers.Reported{ID: "w", Life: 7})
	g.Advance(workers.SettleMillis)
	if got := g.find("w").Status; got != workers.Unhealthy {
		t.Errorf("it is %v", got)
	}
}

// TestNotesOfTheOvertaken: updates and removals of rows that changed since the scan are skipped.
func TestNotesOfTheOvertaken(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("a"), named("b"), named("c")))
	g.Advance(0)
	before := g.find("a").LastSeen
	note := workers.NoteOp(7, g.Now()-1, []string{"a"}, []string{"b"})
	g.note(note)
	if got := g.find("a"); got.LastSeen != before || got.Status != workers.Active {
		t.Errorf("it was noted as %v, seen %v, although it was seen since", got.Status, got.LastSeen)
	}
	g.find("b")
	g.note(workers.NoteOp(8, g.Now(), []string{"a"}, []string{"c"}))
	if got := g.find("a"); got.Status != workers.Active {
		t.Errorf("another life was noted: %v", got.Status)
	}
	g.find("c") // it is not silent
}

// TestLives: the counts of a worker's lives add up.
func TestLives(t *testing.T) {
	g := newGround(t, 1, false)
	first := g.Now()
	for life := uint64(1); life <= 3; life++ {
		g.mustPropose(workers.JoinOp(life, named("w")))
		g.Advance(0)
		g.report(workers.Reported{"w", life, 1, ran(10, 1, g.Now())})
		g.Advance(workers.ReportMillis)
	}
	got := g.find("w")
	if got.Completed != 27 || got.Failed != 3 || len(got.Processes) != 1 || got.Processes[0].Runs != 30 ||
		got.RegisteredAt.UnixMilli() != first {
		t.Errorf("the worker is %+v", got)
	}
	// A worker that joins again in its life, since a shard has forgotten it, keeps its counts.
	g.failOver(9)
	g.mustPropose(workers.JoinOp(3, named("w")))
	if again := g.find("w"); again.Completed != 27 {
		t.Errorf("it has joined again, and has completed %d, want 27", again.Completed)
	}
}

// TestPages: pages over all shards are ordered by ID, with filters.
func TestPages(t *testing.T) {
	for _, spread := range []bool{false, true} {
		g := newGround(t, 3, spread)
		want := []string{}
		for i := range 50 {
			w := named(fmt.Sprintf("w%02d", i))
			if i%3 == 0 {
				w.Type, w.Handles = "stream", []string{"s"}
			} else {
				want = append(want, w.ID)
			}
			g.mustPropose(workers.JoinOp(7, w))
		}
		for _, f := range []workers.Filter{{Type: "action"}, {Handles: "b"}, {Type: "action", Handles: "a"}} {
			var got []string
			for l := (engine.Listing{Limit: 7}); ; {
				page, err := workers.Page(t.Context(), &g.scope, l, f)
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range page.Items {
					got = append(got, i.ID)
				}
				if l.Cursor = page.Cursor; l.Cursor == "" {
					break
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("spread=%v: %+v lists %v, want %v", spread, f, got, want)
			}
		}
		counts, err := workers.Handlers(t.Context(), &g.scope, "action", "b", "c")
		if want := map[string]int{"b": len(want)}; err != nil || !maps.Equal(counts, want) {
			t.Errorf("spread=%v: handlers are %v, %v; want %v", spread, counts, err, want)
		}
		for typ, n := range map[string]int{"action": 0, "stream": 50 - len(want)} {
			if counts, err := workers.Handlers(t.Context(), &g.scope, typ, "s", "s"); err != nil || counts["s"] != n {
				t.Errorf("spread=%v: handlers of type %s are %v, %v; want %d", spread, typ, counts, err, n)
			}
		}
	}
}

// TestMisplaced: a shard refuses workers of other shards.
func TestMisplaced(t *testing.T) {
	g := newGround(t, 3, true)
	var all []workers.Worker
	for i := range 10 {
		all = append(all, named(fmt.Sprint("w", i)))
	}
	if err := g.propose(workers.JoinOp(7, all...)); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("joining all in one shard = %v, want ErrConflict", err)
	}
}

func TestRefusals(t *testing.T) {
	g := newGround(t, 1, false)
	change := func(f func(w *workers.Worker)) workers.Worker {
		w := named("w")
		f(&w)
		return w
	}
	for name, w := range map[string]workers.Worker{
		"no id":    {Type: "action"},
		"no type":  {ID: "w"},
		"metadata": change(func(w *workers.Worker) { w.Metadata = []byte("[1]") }),
		"no JSON":  change(func(w *workers.Worker) { w.Metadata = []byte("{") }),
		"much": change(func(w *workers.Worker) {
			w.Metadata = append([]byte(`{"a":"`), append(bytes.Repeat([]byte("x"), 5000), `"}`...)...)
		}),
		"max":         change(func(w *workers.Worker) { w.Max = -1 }),
		"twice":       change(func(w *workers.Worker) { w.Handles = []string{"a", "a"} }),
		"bad label":   change(func(w *workers.Worker) { w.Labels = map[string]string{"": "x"} }),
		"bad machine": change(func(w *workers.Worker) { w.Machine = "a\nb" }),
	} {
		if err := w.Check(); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: Check = %v, want ErrInvalid", name, err)
		}
		cmd, err := workers.JoinOp(7, w).Limit(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		p := primitive()
		if err := p.Admit(cmd, 1<<20); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: Admit = %v, want ErrInvalid", name, err)
		}
	}
	if err := g.propose(workers.LeaveOp(0, false, "w")); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("an unknown worker leaves with %v, want ErrNotFound", err)
	}
	many := make([]workers.Worker, workers.MaxBatch+1)
	for i := range many {
		many[i] = named(fmt.Sprintf("w%04d", i))
	}
	if err := g.propose(workers.JoinOp(7, many...)); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("%d workers join with %v, want ErrInvalid", len(many), err)
	}
}

// TestReplicas: replicas have equal rows and state.
func TestReplicas(t *testing.T) {
	g := newGround(t, 1, false)
	for i := range 20 {
		g.mustPropose(workers.JoinOp(uint64(1+i/15), named(fmt.Sprint("w", i%15)), named(fmt.Sprintf("v%d", i))))
		g.Advance(workers.ReportMillis)
		g.report(workers.Reported{fmt.Sprint("w", i%15), uint64(1 + i/15), i, ran(int64(i), 0, g.Now())})
	}
	g.mustPropose(workers.LeaveOp(0, false, "v1", "missing", "v2"))
	g.mustPropose(workers.LeaveOp(1, true, "v3", "v4"))
	g.Advance(workers.GoneMillis)
	g.Advance(workers.GoneMillis)
	g.Replay(func() int { return 3 }, func() bool { return true })
	machinetest.EqualReplicas(t, g.Log(0), []engine.Primitive{primitive()}, machinetest.Replica{Name: "at once"},
		machinetest.Replica{Name: "one by one", Commit: 1, Restart: 7})
}

// TestVerifyNotices: Verify reports damaged rows.
func TestVerifyNotices(t *testing.T) {
	for name, tamper := range map[string]func(rows []machinetest.Row) machinetest.Row{
		"count": func(rows []machinetest.Row) machinetest.Row {
			return machinetest.Row{Machine: rows[0].Machine, Key: rows[0].Key, Value: []byte{9}}
		},
		"missing": func(rows []machinetest.Row) machinetest.Row {
			return machinetest.Row{Machine: rows[1].Machine, Key: rows[1].Key}
		},
		"damaged": func(rows []machinetest.Row) machinetest.Row {
			return machinetest.Row{Machine: rows[1].Machine, Key: rows[1].Key, Value: []byte{1, 2}}
		},
		"no namespace": func(rows []machinetest.Row) machinetest.Row {
			return machinetest.Row{Machine: rows[1].Machine, Key: append([]byte{'x', 0, 0, 9, 9}, "w"...), Value: rows[1].Value}
		},
	} {
		g := newGround(t, 1, false)
		g.mustPropose(workers.JoinOp(7, named("w")))
		var rows []machinetest.Row
		for _, row := range g.Rows(0) {
			if row.Machine == engine.MachineAction {
				rows = append(rows, row)
			}
		}
		g.Tamper(0, tamper(rows))
		if len(g.Problems(0)) == 0 {
			t.Errorf("%s: nothing is noticed", name)
		}
	}
}

// FuzzRow decodes arbitrary rows. A valid row encodes to itself.
func FuzzRow(f *testing.F) {
	r := machinetest.New(f, 1, primitive())
	scope := r.Router().Scope("n", 1<<20)
	w := named("w")
	w.Labels, w.Metadata = map[string]string{"a": "b"}, []byte("{}")
	if err := workers.Register(f.Context(), &scope, w); err != nil {
		f.Fatal(err)
	}
	for _, row := range r.Rows(0) {
		if row.Machine == engine.MachineAction {
			f.Add(row.Value)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again, err := workers.Recode(b)
		if err != nil {
			return
		}
		if once, err := workers.Recode(again); err != nil || !bytes.Equal(once, again) {
			t.Errorf("%x is encoded as %x, and then as %x, %v", b, again, once, err)
		}
	})
}

// FuzzApplyCommand applies arbitrary bodies. Admitted bodies decode, apply without a panic and
// leave valid rows.
func FuzzApplyCommand(f *testing.F) {
	for _, op := range []engine.Op{
		workers.JoinOp(7, named("a"), named("c")), workers.LeaveOp(7, false, "a", "b"), workers.LeaveOp(0, true, "a"), workers.NoteOp(7,
			machinetest.Epoch, []string{"a"}, []string{"a"}),
	} {
		f.Add(op.Command.Kind, op.Command.Body)
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		r := machinetest.New(t, 1, primitive())
		cmd, _ := workers.JoinOp(7, named("a"), named("b")).Limit(1 << 20)
		cmd.Namespace = "n"
		if out := r.Entry(0, cmd)[0]; out.Err != nil {
			t.Fatal(out.Err)
		}
		if kind < workers.KindJoin || kind > workers.KindNote {
			return
		}
		p, cmd := primitive(), engine.Command{Machine: engine.MachineAction, Kind: kind, Namespace: "n", Body: body}
		admitted := p.Admit(cmd, 1<<20)
		if admitted == nil {
			machinetest.SameInJSON(t, p, cmd)
		}
		if _, stopped := r.Try(0, cmd); admitted == nil && (stopped || workers.DecodeBody(kind, body) != nil) {
			t.Error("admitted, and does not decode")
		}
	})
}

// TestClockLeap: setting the clock forward makes no worker silent.
func TestClockLeap(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("w")))
	g.Advance(0)
	for _, leap := range []int64{workers.SilentMillis, 400 * 24 * 3600_000} {
		g.Leap(leap)
		g.Advance(0)
		if got := g.find("w").Status; got != workers.Active {
			t.Errorf("the clock leapt %d ms: it is %v", leap, got)
		}
		g.Advance(workers.ReportMillis)
		g.report(workers.Reported{ID: "w", Life: 7})
	}
	g.Advance(workers.SilentMillis)
	if got := g.find("w").Status; got != workers.Unhealthy {
		t.Errorf("90 s after its last heartbeat it is %v", got)
	}
}

// TestCallsRefused: the errors of a polling worker's calls.
func TestCallsRefused(t *testing.T) {
	g, ctx := newGround(t, 1, false), t.Context()
	g.mustPropose(workers.JoinOp(7, named("program")))
	if err := workers.Register(ctx, &g.scope, workers.Worker{ID: "w", Type: "action", Handles: []string{"b", "a"}}); err != nil {
		t.Fatal(err)
	}
	beat := func(id string, load int, p ...workers.Process) error {
		return workers.Heartbeat(ctx, &g.scope, id, load, p)
	}
	leave := func(id string, drain bool) error { return workers.Leave(ctx, &g.scope, id, drain) }
	find := func(id string) error { _, err := workers.Find(ctx, &g.scope, id); return err }
	page := func(limit int) error {
		_, err := workers.Page(ctx, &g.scope, engine.Listing{Limit: limit}, workers.Filter{})
		return err
	}
	for name, c := range map[string]struct {
		err  error
		is   error
		says string
	}{
		"beat of no id":  {beat("", 1), engine.ErrInvalid, ""},
		"beat of no one": {beat("x", 1), engine.ErrNotFound, `worker "x" is not registered`},
		"negative load":  {beat("w", -1), engine.ErrInvalid, `worker "w": negative load -1`},
		"no load":        {beat("w", 0), nil, ""},
		"negative figures": {beat("w", 1, workers.Process{Name: "p", Failures: 1}), engine.ErrInvalid,
			`worker "w": process "p": 1 failures of 0 runs`},
		"a process":       {beat("w", 1, workers.Process{Name: "p", Runs: 2, Failures: 1}), nil, ""},
		"leave of no id":  {leave("", false), engine.ErrInvalid, ""},
		"leave of no one": {leave("x", false), engine.ErrNotFound, `worker "x" not found`},
		"drain of no one": {leave("x", true), engine.ErrNotFound, `worker "x" is not registered`},
		"drain of a program": {leave("program", true), engine.ErrConflict,
			`worker "program" cannot be drained by a command: it drains when its program stops it`},
		"drain":            {leave("w", true), nil, ""},
		"drain again":      {leave("w", true), nil, ""},
		"find no id":       {find(""), engine.ErrInvalid, ""},
		"find no one":      {find("x"), engine.ErrNotFound, `worker "x" not found`},
		"find":             {find("w"), nil, ""},
		"a page of none":   {page(0), engine.ErrInvalid, ""},
		"a page of 1":      {page(1), nil, ""},
		"a page of 1000":   {page(1000), nil, ""},
		"a page of 1001":   {page(1001), engine.ErrInvalid, ""},
		"register no type": {workers.Register(ctx, &g.scope, workers.Worker{ID: "v"}), engine.ErrInvalid, ""},
	} {
		if !errors.Is(c.err, c.is) || c.says != "" && c.err.Error() != c.says {
			t.Errorf("%s: %v\nwant %v %s", name, c.err, c.is, c.says)
		}
	}
	if i := g.find("w"); i.Status != workers.Draining || i.Load != 1 || i.Completed != 1 || i.Failed != 1 ||
		fmt.Sprint(i.Handles) != "[a b]" {
		t.Errorf("it is listed as %+v", i)
	}
}

// TestJoinsAsHeartbeats: a join is a heartbeat. Within a life it keeps the load and the counts that
// were reported; a polling worker that registers again begins without them.
func TestJoinsAsHeartbeats(t *testing.T) {
	for _, life := range []uint64{7, 0} {
		g := newGround(t, 1, false)
		g.mustPropose(workers.JoinOp(life, named("w")))
		g.Advance(0)
		g.Pass(5000)
		g.report(workers.Reported{"w", life, 3, ran(5, 2, g.Now())})
		g.Pass(workers.SilentMillis - 5001)
		g.mustPropose(workers.JoinOp(life, named("w")))
		load, runs := 3, int64(3)
		if life == 0 {
			load, runs = 0, 0 // its counts were not stored yet
		}
		seen := g.Now()
		if w := g.find("w"); w.Load != load || w.Completed != runs || w.LastSeen.UnixMilli() != seen {
			t.Errorf("life %d: after another join it is %+v", life, w)
		}
		g.Advance(workers.SilentMillis - 1)
		if w := g.find("w"); w.Status != workers.Active || w.LastSeen.UnixMilli() != seen {
			t.Errorf("life %d: 89 s after another join it is %+v", life, w)
		}
		g.Advance(1)
		if w := g.find("w"); w.Status != workers.Unhealthy {
			t.Errorf("life %d: 90 s after another join it is %+v", life, w)
		}
		// Without the leader's duty, a row that has just been written is complete.
		g.Restart()
		g.SetTerm(2)
		g.report(workers.Reported{"w", life, 4, nil})
		next := uint64(8)
		if life == 0 {
			next = 0 // it registers again
		}
		g.mustPropose(workers.JoinOp(next, named("w")))
		if w := g.find("w"); w.Load != 0 {
			t.Errorf("life %d: in its next life it is %+v", life, w)
		}
	}
}

// TestWaitingPoller: a take that waits is a heartbeat of a registered worker, repeated before it
// would count as silent.
func TestWaitingPoller(t *testing.T) {
	g := newGround(t, 1, false)
	if err := workers.Register(t.Context(), &g.scope, named("w")); err != nil {
		t.Fatal(err)
	}
	g.Advance(0)
	for range 3 {
		g.Pass(workers.SilentMillis - 1)
		if err := g.take("w"); err != nil {
			t.Fatal(err)
		}
		if w := g.find("w"); w.Status != workers.Active || w.LastSeen.UnixMilli() != g.Now() {
			t.Errorf("it waits, and is %+v", w)
		}
		g.Advance(0)
	}
	if n := g.rows(0); n["x"] != 2 {
		t.Errorf("the rows are %v", n)
	}
	if err := g.take("stranger"); err != nil || g.rows(0)["x"] != 2 {
		t.Errorf("a worker without a row waits with %v; rows %v", err, g.rows(0))
	}
}

// TestOthersRows: scans skip rows of other kinds.
func TestOthersRows(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("w")))
	g.Distrust()
	for _, k := range []string{"w\x00\x00\x00\x01w", "y\x00\x00\x00\x01w"} {
		g.Tamper(0, machinetest.Row{Machine: engine.MachineAction, Key: []byte(k), Value: []byte{9}})
	}
	g.Advance(0)
	g.Advance(workers.SilentMillis)
	if got := g.find("w").Status; got != workers.Unhealthy {
		t.Errorf("it is %v", got)
	}
}

// TestEachFailure: each operation returns the error of each of its calls.
func TestEachFailure(t *testing.T) {
	for _, spread := range []bool{false, true} {
		g, ctx := newGround(t, 2, spread), t.Context()
		g.mustPropose(workers.JoinOp(0, named("w")))
		on := func(f func(s *engine.Scope) error) func(engine.Door) error {
			return func(d engine.Door) error {
				s := engine.NewRouter(d).Scope("n", 1<<20)
				return f(&s)
			}
		}
		g.EachFailure(map[string]func(engine.Door) error{
			"Page": on(func(s *engine.Scope) error {
				_, err := workers.Page(ctx, s, engine.Listing{Limit: 5}, workers.Filter{})
				return err
			}),
			"Find":      on(func(s *engine.Scope) error { _, err := workers.Find(ctx, s, "w"); return err }),
			"Handlers":  on(func(s *engine.Scope) error { _, err := workers.Handlers(ctx, s, "action", "a", "z"); return err }),
			"Register":  on(func(s *engine.Scope) error { return workers.Register(ctx, s, named("w")) }),
			"Heartbeat": on(func(s *engine.Scope) error { return workers.Heartbeat(ctx, s, "w", 1, nil) }),
			"Leave": on(func(s *engine.Scope) error {
				if err := workers.Register(ctx, s, named("v")); err != nil {
					return err
				}
				return workers.Leave(ctx, s, "v", false)
			}),
		})
	}
}

// sleeping is the door of a duty that sleeps as a test tells it to.
type sleeping struct {
	leadDoor
	sleep func(wake <-chan struct{}, until int64) error
}

func (s *sleeping) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	return s.sleep(wake, until)
}

// TestSleepOfTheDuty: without workers the duty sleeps until one joins, then from scan to scan.
func TestSleepOfTheDuty(t *testing.T) {
	g, step, enough := newSharedGround(t, 1, false), 0, errors.New("enough")
	until := func(got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("sleep %d is until %d, want %d", step, got, want)
		}
	}
	next := int64(0)
	door := &sleeping{leadDoor{g}, func(wake <-chan struct{}, at int64) error {
		switch step++; step {
		case 1:
			until(at, engine.NoTimer)
			g.mustPropose(workers.JoinOp(7, named("w")))
			select {
			case <-wake:
			default:
				t.Error("a join does not wake the duty")
			}
			next = g.Now() + workers.ReportMillis
		case 2:
			until(at, next)
			g.Pass(workers.ReportMillis - 1)
		case 3: // woken early
			until(at, next)
			g.Pass(1)
			next += workers.ReportMillis
		case 4:
			until(at, next)
			return enough
		}
		return nil
	}}
	for _, d := range g.Executor(0).Duties(1, func() engine.LeadDoor { return door }) {
		if err := d.Run(t.Context(), d.Lead); !errors.Is(err, enough) || step != 4 {
			t.Errorf("the duty ends with %v after %d sleeps", err, step)
		}
	}
}

// TestDamagedRow: queries that need a damaged row fail.
func TestDamagedRow(t *testing.T) {
	g, ctx := newSharedGround(t, 1, false), t.Context()
	g.mustPropose(workers.JoinOp(0, named("w")))
	g.Distrust()
	for _, row := range g.Rows(0) {
		if row.Machine == engine.MachineAction && row.Key[len(row.Key)-1] == 'w' {
			row.Value = []byte{1, 2}
			g.Tamper(0, row)
		}
	}
	_, found := workers.Find(ctx, &g.scope, "w")
	_, listed := workers.Page(ctx, &g.scope, engine.Listing{Limit: 5}, workers.Filter{})
	_, handled := workers.Handlers(ctx, &g.scope, "action", "a", "z")
	for what, err := range map[string]error{"Find": found, "Page": listed, "Handlers": handled, "a take": g.take("w"),
		"Heartbeat": workers.Heartbeat(ctx, &g.scope, "w", 1, nil)} {
		if err == nil || errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s of a damaged row: %v", what, err)
		}
	}
}

// TestReturnIsStored: a worker that reports after silence is active under the next leader, too.
func TestReturnIsStored(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("w")))
	g.Advance(0)
	g.Advance(workers.SilentMillis)
	g.report(workers.Reported{ID: "w", Life: 7})
	before := g.entries()
	g.Advance(workers.ReportMillis)
	if n := g.entries() - before; n != 1 {
		t.Errorf("its return has made %d entries, want 1", n)
	}
	g.failOver(2)
	if got := g.find("w").Status; got != workers.Active {
		t.Errorf("it has reported, and is %v under another leader", got)
	}
}

// TestLargeRowsAreNoted: a command with large rows notes fewer workers.
func TestLargeRowsAreNoted(t *testing.T) {
	for n, commands := range map[int]uint64{50: 1, 80: 2} {
		g := newGround(t, 1, false)
		for i := range n {
			w := named(fmt.Sprint("w", i))
			w.Metadata = append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 4000)...), `"}`...)
			g.mustPropose(workers.JoinOp(7, w))
		}
		g.Advance(0)
		before := g.entries()
		g.Advance(workers.SilentMillis)
		if got := g.entries() - before; got != commands {
			t.Errorf("%d workers of 4 KB are noted by %d commands, want %d", n, got, commands)
		}
	}
}

// TestSilenceBetweenScans: a worker is unhealthy after exactly 90 s, even before the duty notes it.
func TestSilenceBetweenScans(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("w")))
	g.Advance(0)
	g.find("w") // measures its heartbeat
	for at, want := range []workers.Status{workers.Active, workers.Unhealthy} {
		if g.Pass(workers.SilentMillis - 1); at == 1 {
			g.Pass(2 - workers.SilentMillis)
		}
		if got := g.find("w").Status; got != want {
			t.Errorf("%d ms after its last heartbeat it is %v", workers.SilentMillis-1+at, got)
		}
	}
	if unknown := g.report(workers.Reported{ID: ""}); !reflect.DeepEqual(unknown, []int{0}) {
		t.Errorf("unknown are %v, want the one without an ID", unknown)
	}
}

// TestNotesInJSON: a leader's command reads the same in JSON.
func TestNotesInJSON(t *testing.T) {
	cmd := workers.NoteStatsOp(7, "w", ran(5, 2, 9)).Command
	cmd.Namespace = "n"
	machinetest.SameInJSON(t, primitive(), cmd)
}

// TestSilentWithoutALeader: the row decides about a silent worker before the duty has begun.
func TestSilentWithoutALeader(t *testing.T) {
	g := newGround(t, 1, false)
	g.mustPropose(workers.JoinOp(7, named("w")))
	g.Advance(0)
	g.Advance(workers.SilentMillis)
	g.Restart()
	if got := g.find("w").Status; got != workers.Unhealthy {
		t.Errorf("it is %v", got)
	}
}
