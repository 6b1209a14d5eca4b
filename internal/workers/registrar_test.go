package workers_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/workers"
	"github.com/floedb/floe/internal/workloop"
)

// state is a worker's status that a test changes.
type state struct {
	mu sync.Mutex
	workloop.Status
}

func (s *state) get() workloop.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Status
}

func (s *state) set(f func(*workloop.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.Status)
}

// await waits until ok returns true for the listed workers.
func (g *ground) await(what string, ok func([]workers.Info) bool) {
	g.t.Helper()
	ctx, tick := within(g.t), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for {
		page, err := workers.Page(ctx, &g.scope, engine.Listing{Limit: 1000}, workers.Filter{})
		if err == nil && ok(page.Items) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			g.t.Fatalf("%s: it is not so: %+v, %v", what, page.Items, err)
		}
	}
}

// TestRegistrar: a process's workers are listed with their state, and join again after a shard lost
// them.
func TestRegistrar(t *testing.T) {
	for _, spread := range []bool{false, true} {
		t.Run(fmt.Sprint("spread=", spread), func(t *testing.T) {
			g := newSharedGround(t, 3, spread)
			s := &state{Status: workloop.Status{Kind: "action"}}
			var members []*workers.Member
			for i := range 300 {
				m, err := workers.Join(&g.scope, named(fmt.Sprintf("w%03d", i)), s.get)
				if err != nil {
					t.Fatal(err)
				}
				members = append(members, m)
				defer m.Leave()
			}
			g.await("all are listed", func(all []workers.Info) bool { return len(all) == 300 })
			g.Advance(0) // a leader is elected
			s.set(func(s *workloop.Status) {
				s.Load, s.Processes = 4, []workloop.Process{{Name: "a", Runs: 3, Failures: 1, LastRun: time.Now()}}
			})
			members[0].Changed()
			g.await("all have reported", func(all []workers.Info) bool {
				return !slices.ContainsFunc(all, func(i workers.Info) bool { return i.Load != 4 || i.Completed != 2 || i.Failed != 1 })
			})
			gone := []string{"w017"}
			g.mustPropose(workers.LeaveOp(0, false, gone...))
			g.await("one that was lost has joined again", func(all []workers.Info) bool { return len(all) == 300 })
			s.set(func(s *workloop.Status) { s.Draining = true })
			g.await("all drain", func(all []workers.Info) bool {
				return !slices.ContainsFunc(all, func(i workers.Info) bool { return i.Status != workers.Draining })
			})
			for _, m := range members[1:] {
				m.Leave()
			}
			g.await("one is left", func(all []workers.Info) bool { return len(all) == 1 && all[0].ID == "w000" })
			members[0].Leave()
			g.await("none is left", func(all []workers.Info) bool { return len(all) == 0 })
		})
	}
}

// TestObserver: a loop is listed while it runs.
func TestObserver(t *testing.T) {
	g := newSharedGround(t, 1, false)
	s := &state{Status: workloop.Status{Kind: "stream", Namespace: "n", Name: "orders/billing", Worker: "c", Max: 5}}
	leave := g.scope.Attached().(workloop.Observer).Join(s.get)
	g.await("it is listed", func(all []workers.Info) bool {
		return len(all) == 1 && all[0].ID == "orders/billing/c" && all[0].Type == "stream" && all[0].Max == 5
	})
	leave()
	g.await("it is not", func(all []workers.Info) bool { return len(all) == 0 })
}

// TestReportBeforeTheDuty: a leader keeps reports that arrive before its duty starts. They were
// lost once.
func TestReportBeforeTheDuty(t *testing.T) {
	g := newSharedGround(t, 1, false)
	ctx := t.Context()
	if err := workers.Register(ctx, &g.scope, named("w")); err != nil {
		t.Fatal(err)
	}
	look := func(when string, load int, completed int64) {
		t.Helper()
		if got := g.find("w"); got.Load != load || got.Completed != completed || got.Status != workers.Active {
			t.Errorf("%s the worker is %+v, want load %d and %d runs", when, got, load, completed)
		}
	}
	say := func(load int, runs int64) {
		t.Helper()
		if err := workers.Heartbeat(ctx, &g.scope, "w", load, ran(runs, 0, g.Now())); err != nil {
			t.Fatal(err)
		}
	}
	say(2, 3)
	look("before anybody leads", 2, 3)
	say(3, 4)
	look("and once more", 3, 4)
	g.Advance(0)
	look("when the duty has begun", 3, 4)
	g.Restart()
	g.SetTerm(2)
	say(5, 6)
	g.Advance(0)
	look("under another leader", 5, 6)
	g.Restart()
	g.SetTerm(3)
	say(7, 8)
	g.Pass(2 * workers.SilentMillis)
	g.Advance(0) // the report is too old to count, and the row has none
	if got := g.find("w"); got.Load == 7 {
		t.Errorf("what was said long before the term is %+v", got)
	}
}

// TestPoller: a polling worker registers, sends heartbeats, drains and leaves.
func TestPoller(t *testing.T) {
	g := newSharedGround(t, 1, false)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(workers.Register(ctx, &g.scope, named("w")))
	g.Advance(0)
	must(workers.Heartbeat(ctx, &g.scope, "w", 2, ran(3, 1, g.Now())))
	if got := g.find("w"); got.Load != 2 || got.Completed != 2 {
		t.Errorf("the worker is %+v", got)
	}
	g.Advance(workers.ReportMillis) // its counts are kept
	must(g.take("w"))
	must(g.take("missing"))
	must(workers.Leave(ctx, &g.scope, "w", true))
	if got := g.find("w").Status; got != workers.Draining {
		t.Errorf("it is %v", got)
	}
	if err := g.take("w"); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("it drains, and may take: %v", err)
	}
	must(workers.Register(ctx, &g.scope, named("w")))
	must(workers.Heartbeat(ctx, &g.scope, "w", 0, ran(10, 0, g.Now())))
	if got := g.find("w"); got.Status != workers.Active || got.Completed != 12 {
		t.Errorf("it has begun anew, and is %+v", got)
	}
	must(workers.Leave(ctx, &g.scope, "w", false))
	if err := workers.Heartbeat(ctx, &g.scope, "w", 0, nil); err == nil {
		t.Error("it is gone, and a heartbeat has succeeded")
	}
}

// TestLeaveDoesNotWait: a member that leaves ends the pause between reports, also when nothing was
// ever registered.
func TestLeaveDoesNotWait(t *testing.T) {
	r := machinetest.New(t, 1, primitive())
	router := r.Router()
	router.Attach(workers.NewSlowRegistrar(router, time.Hour))
	g := &ground{r, t, router.Scope("n", 1<<20)}
	s := &state{Status: workloop.Status{Kind: "action"}}
	for range 3 {
		m, err := workers.Join(&g.scope, named("w"), s.get)
		if err != nil {
			t.Fatal(err)
		}
		g.await("it is listed", func(all []workers.Info) bool { return len(all) == 1 })
		left := make(chan struct{})
		go func() { m.Leave(); m.Leave(); close(left) }()
		select {
		case <-left:
		case <-within(t).Done():
			t.Fatal("it does not leave")
		}
		g.await("it is not", func(all []workers.Info) bool { return len(all) == 0 })
	}
}

// TestChangeIsReported: a change is reported long before the next report of all members.
func TestChangeIsReported(t *testing.T) {
	r := machinetest.New(t, 1, primitive())
	router := r.Router()
	router.Attach(workers.NewSlowRegistrar(router, 2*time.Millisecond))
	g := &ground{r, t, router.Scope("n", 1<<20)}
	s := &state{Status: workloop.Status{Kind: "action"}}
	m, err := workers.Join(&g.scope, named("w"), s.get)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Leave()
	g.await("it is listed", func(all []workers.Info) bool { return len(all) == 1 })
	for load := 1; load <= 3; load++ {
		s.set(func(s *workloop.Status) { s.Load = load })
		m.Changed()
		g.await("its load is reported", func(all []workers.Info) bool { return len(all) == 1 && all[0].Load == load })
	}
}
