package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// heart is heartbeats with a worker whose row is known.
type heart struct {
	heartbeats
	t   *testing.T
	row row
}

var heard = workerRef{1, "w"}

// expect compares the worker's row under its heartbeat, and the age of that.
func (h *heart) expect(when string, now moment, seen int64, load int, silent bool, age int64) {
	h.t.Helper()
	at := h.row
	if got := h.overlay(heard, &at, now); at.seen != seen || at.load != load || at.silent != silent || got != age {
		h.t.Errorf("%s: seen at %d with load %d, silent %t, age %d; want %d, %d, %t, %d", when, at.seen, at.load, at.silent, got, seen,
			load, silent, age)
	}
}

func said(life uint64, load int) *report { return &report{id: "w", life: life, load: load} }

// TestHeartbeatsOfATerm: what a leader records and applies, before, in and after its term.
func TestHeartbeatsOfATerm(t *testing.T) {
	h := heart{t: t, row: row{life: 7, seen: 100, load: 1}}
	if h.update(heard, said(7, 2), moment{200, 1200}) {
		t.Error("a worker without a heartbeat has one to update")
	}
	h.expect("without a heartbeat", moment{300, 1300}, 100, 1, false, 0)
	h.begin(heard, said(7, 2), moment{200, 1200})
	h.expect("before the term", moment{300, 1300}, 200, 2, false, 0)
	if !h.update(heard, said(7, 3), moment{210, 1210}) || h.update(heard, said(8, 9), moment{220, 1220}) {
		t.Error("an early heartbeat is updated by its life alone")
	}
	h.lead(5, moment{400, 1400})
	h.expect("in the term", moment{500, 1500}, 210, 3, false, 290)
	h.lead(5, moment{450, 1450})
	if h.since != (moment{400, 1400}) {
		t.Errorf("the term begins at %v", h.since)
	}
	if !h.update(heard, said(7, 4), moment{205, 1600}) { // the shard's clock may lag
		t.Error("it is not updated")
	}
	h.expect("updated", moment{500, 1700}, 210, 4, false, 100)
	h.row.seen = 211
	h.expect("older than the row", moment{500, 1700}, 400, 1, false, 300)
	h.row.seen, h.row.life = 100, 8
	h.expect("of another life", moment{500, 1700}, 400, 1, false, 300)
	h.row.life, h.row.silent = 7, true
	h.expect("after silence", moment{500, 1700}, 210, 4, false, 100)
	h.row.seen = 210
	h.expect("still silent", moment{500, 1700}, 210, 4, true, 290)
	h.row.seen, h.row.life = 150, 8
	h.expect("silent without a heartbeat", moment{500, 1700}, 150, 1, true, 350)
	h.row = row{life: 7, seen: 100, load: 1}
	for _, at := range []int64{settleMillis - 1, settleMillis} {
		if h.settled(moment{0, 1400 + at}) != (at == settleMillis) {
			t.Errorf("the term is settled %d ms after its beginning: %t", at, at < settleMillis)
		}
	}
	h.stepDown()
	if h.update(heard, said(7, 5), moment{600, 1600}) {
		t.Error("it is updated without a leader")
	}
	h.expect("after the term", moment{700, 1700}, 210, 4, false, 0)
	h.lead(6, moment{800, 1800})
	h.expect("in the next term", moment{900, 1900}, 800, 1, false, 100)
	h.row.seen = 850
	h.expect("written since", moment{900, 1900}, 850, 1, false, 100)
}

// TestEarlyHeartbeats: a new term keeps heartbeats that arrived less than 90 s before it.
func TestEarlyHeartbeats(t *testing.T) {
	for before, kept := range map[int64]bool{0: true, silentMillis - 1: true, silentMillis: false} {
		h := heart{t: t, row: row{life: 7, seen: 1, load: 1}}
		h.begin(heard, said(7, 2), moment{5, 1000})
		now := moment{200_000, 1000 + before}
		if h.lead(5, now); kept {
			h.expect(fmt.Sprint(before), now, 5, 2, false, before)
		} else {
			h.expect(fmt.Sprint(before), now, 200_000, 1, false, 0)
		}
		h.stepDown()
		h.lead(6, now)
		h.expect("in the term after that", now, 200_000, 1, false, 0)
	}
	h := heart{t: t, row: row{seen: 1, load: 1}}
	h.last = map[workerRef]*heartbeat{heard: {moment: moment{5, unmeasured}, early: true, bare: true}}
	h.lead(5, moment{100, 1000})
	h.expect("not measured yet", moment{100, 1070}, 5, 1, false, 0)
	h.expect("measured", moment{100, 1080}, 5, 1, false, 10)
}

// TestCallsAsHeartbeats: calls of a polling worker are heartbeats without a load, which do not
// replace those of a process.
func TestCallsAsHeartbeats(t *testing.T) {
	h := heart{t: t, row: row{seen: 100, load: 1}}
	h.calls(heard, 200)
	h.expect("without a leader", moment{300, 1300}, 100, 1, false, 0)
	h.lead(5, moment{100, 1000})
	h.calls(heard, 200)
	h.expect("the first", moment{300, 1300}, 200, 1, false, 0)
	h.calls(heard, 190)
	h.expect("an earlier one", moment{300, 1400}, 200, 1, false, 0)
	h.calls(heard, 210)
	h.expect("a later one", moment{300, 1500}, 210, 1, false, 0)
	h.expect("later", moment{300, 1600}, 210, 1, false, 100)
	if h.update(heard, said(0, 3), moment{300, 1700}) {
		t.Error("a heartbeat without a load is updated")
	}
	h.begin(heard, said(7, 3), moment{300, 1700})
	h.calls(heard, 900)
	h.row.life = 7
	h.expect("of a process", moment{800, 1800}, 300, 3, false, 100)
}

// TestRounds: the calls that a reporter makes for members in each state.
func TestRounds(t *testing.T) {
	for name, c := range map[string]struct {
		joined, changed, drained, draining, leaving bool
		some, full                                  string // the calls of a round, and of a full one
	}{
		"new":                 {some: "join", full: "join"},
		"new, draining":       {draining: true, some: "join", full: "join"},
		"joined":              {joined: true, some: "", full: "report"},
		"changed":             {joined: true, changed: true, some: "report", full: "report"},
		"begins to drain":     {joined: true, changed: true, draining: true, some: "drain report", full: "drain report"},
		"drains":              {joined: true, changed: true, draining: true, drained: true, some: "report", full: "report"},
		"drains, unchanged":   {joined: true, draining: true, drained: true, some: "", full: "report"},
		"drained by others":   {joined: true, changed: true, drained: true, some: "report", full: "report"},
		"leaves":              {joined: true, changed: true, draining: true, leaving: true, some: "leave", full: "leave"},
		"leaves without join": {leaving: true, some: "leave", full: "leave"},
	} {
		for _, full := range []bool{false, true} {
			m := &Member{joined: c.joined, drained: c.drained, leaving: c.leaving,
				status: func() workloop.Status { return workloop.Status{Draining: c.draining} }}
			m.changed.Store(c.changed)
			r := (&reporter{registrar: new(Registrar), members: map[*Member]struct{}{m: {}}}).round(full)
			var got []string
			for call, list := range map[string][]*Member{"join": r.join, "drain": r.drain, "report": r.report, "leave": r.leave} {
				if len(list) > 0 {
					got = append(got, call)
				}
			}
			slices.Sort(got)
			want := c.some
			if full {
				want = c.full
			}
			if s := strings.Join(got, " "); s != want || r.full != full || !c.leaving && want != "" && m.changed.Load() {
				t.Errorf("%s, full=%t: %q, want %q; still changed: %t", name, full, s, want, m.changed.Load())
			}
		}
	}
	c := &reporter{registrar: new(Registrar), members: make(map[*Member]struct{})}
	for _, id := range []string{"c", "a", "b"} {
		c.members[&Member{worker: Worker{ID: id}}] = struct{}{}
	}
	if r := c.round(false); len(r.join) != 3 || r.join[0].worker.ID != "a" || r.join[2].worker.ID != "c" {
		t.Errorf("%d join, not in order", len(r.join))
	}
}

// TestInvalidMembers: invalid workers are not registered, nor those of a scope without a registrar.
func TestInvalidMembers(t *testing.T) {
	scope := engine.NewRouter(nil).Scope("n", 1)
	if m, err := Join(&scope, Worker{ID: "w"}, nil); m != nil || !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a worker without a type: %v, %v", m, err)
	}
	if m, err := Join(&scope, Worker{ID: "w", Type: "action", Handles: []string{"b", "a", "b"}}, nil); m != nil || err != nil {
		t.Errorf("without a registrar: %v, %v", m, err)
	}
	var none *Member
	none.Changed()
	none.Leave()
	all := NewRegistrar(nil)
	leave := all.Join(func() workloop.Status { return workloop.Status{Kind: "queue", Name: "a\nb", Worker: "c"} })
	if leave(); len(all.reporters) > 0 {
		t.Error("a loop with an invalid name is registered")
	}
}

// answering is a door that answers all commands with an error.
type answering struct {
	engine.Door
	err error
}

func (answering) Shards() int { return 1 }
func (a answering) Propose(context.Context, engine.ShardID, engine.Command) ([]byte, error) {
	return nil, a.err
}
func (a answering) Query(context.Context, engine.ShardID, engine.Query) error { return nil }

// TestOutcomesOfCalls: what a reporter takes as done after each outcome.
func TestOutcomesOfCalls(t *testing.T) {
	for _, c := range []struct {
		err             error
		joined, drained bool
		left            error
	}{
		{nil, true, true, nil},
		{engine.ErrNotFound, false, true, nil},
		{engine.ErrUnknownOutcome, true, false, engine.ErrUnknownOutcome},
		{context.DeadlineExceeded, true, false, context.DeadlineExceeded},
		{engine.ErrBusy, false, false, engine.ErrBusy},
	} {
		scope := engine.NewRouter(answering{err: c.err}).Scope("n", 1<<20)
		r := &reporter{registrar: new(Registrar), scope: scope}
		draining := false
		m := &Member{worker: Worker{ID: "w", Type: "t"}, status: func() workloop.Status { return workloop.Status{Draining: draining} }}
		for _, draining = range []bool{false, true} {
			if err := r.join([]*Member{m}); !errors.Is(err, c.err) || m.joined != c.joined || m.drained != draining {
				t.Errorf("%v: a join returns %v, and it has joined %t, drained %t", c.err, err, m.joined, m.drained)
			}
		}
		for _, before := range []bool{false, true} {
			for _, drain := range []bool{false, true} {
				m.drained = before
				if err := r.leave([]*Member{m}, drain); !errors.Is(err, c.left) || m.drained != (before || drain && c.drained) {
					t.Errorf("%v: leave with drain=%t returns %v, and it is drained: %t, before %t", c.err, drain, err, m.drained, before)
				}
			}
		}
	}
}

// timing is a door that notes when calls are made, in seconds, and fails if told to.
type timing struct {
	answering
	mu              sync.Mutex
	began           time.Time
	joins, reports  []int
	drains, removes []int
	away            bool
}

func (d *timing) note(list *[]int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	*list = append(*list, int(time.Since(d.began)/time.Second))
	if d.away {
		return errors.New("away")
	}
	return nil
}

func (d *timing) Propose(_ context.Context, _ engine.ShardID, cmd engine.Command) ([]byte, error) {
	if cmd.Kind == KindJoin {
		return nil, d.note(&d.joins)
	}
	if drain := cmd.Body[0] == 1; drain {
		return nil, d.note(&d.drains)
	}
	return nil, d.note(&d.removes)
}

func (d *timing) Query(_ context.Context, _ engine.ShardID, q engine.Query) error {
	if _, ok := q.(*reportQuery); ok {
		return d.note(&d.reports)
	}
	return nil
}

// TestTimesOfReports: a member is reported every 10 s and 1 s after a change, and drains once.
// After a failure the next round follows a pause, which grows.
func TestTimesOfReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &timing{began: time.Now()}
		all := NewRegistrar(engine.NewRouter(d))
		var draining atomic.Bool
		m := all.join("n", Worker{ID: "w", Type: "t"}, func() workloop.Status { return workloop.Status{Draining: draining.Load()} })
		pass := func(seconds int) {
			t.Helper()
			<-time.After(time.Until(d.began.Add(time.Duration(seconds) * time.Second)))
		}
		pass(35)
		m.Changed()
		m.Changed()
		pass(42)
		draining.Store(true)
		m.Changed()
		pass(45)
		m.Changed()
		pass(58)
		d.mu.Lock()
		d.away = true
		d.mu.Unlock()
		pass(61)
		other := all.join("n", Worker{ID: "v", Type: "t"}, func() workloop.Status { return workloop.Status{} })
		pass(95)
		d.mu.Lock()
		d.away = false
		d.mu.Unlock()
		pass(125)
		m.Leave()
		pass(127)
		other.Leave()
		synctest.Wait()
		// The pauses after failures, the first at 60 s, are 2, 4, 8, 10, 10 and 10 s.
		if got := fmt.Sprint(d.joins, d.reports, d.drains, d.removes); got !=
			"[0 62 66 74 84 94 104] [10 20 30 36 40 43 46 50 60 74 84 94 104 114 124] [43] [125 127]" {
			t.Errorf("joins, reports, drains and removals are at %s", got)
		}
		if len(all.reporters) != 0 {
			t.Error("a reporter is left")
		}
	})
}

// hanging is a door that does not answer.
type hanging struct{ answering }

func (hanging) Propose(ctx context.Context, _ engine.ShardID, _ engine.Command) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (hanging) Query(ctx context.Context, _ engine.ShardID, _ engine.Query) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestTimesOfCalls: calls of a reporter end after 5 s, those that remove a worker after 2 s.
func TestTimesOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reporter{registrar: new(Registrar), scope: engine.NewRouter(hanging{}).Scope("n", 1<<20)}
		all := []*Member{{worker: Worker{ID: "w", Type: "t"}, status: func() workloop.Status { return workloop.Status{} }}}
		for name, c := range map[string]struct {
			call func() error
			want time.Duration
		}{
			"join":   {func() error { return r.join(all) }, 5 * time.Second},
			"drain":  {func() error { return r.leave(all, true) }, 5 * time.Second},
			"remove": {func() error { return r.leave(all, false) }, 2 * time.Second},
			"report": {func() error { _, err := r.report(0, all); return err }, 5 * time.Second},
			"spread": {func() error { _, err := r.spread(); return err }, 5 * time.Second},
		} {
			began := time.Now()
			if err := c.call(); err == nil || time.Since(began) != c.want {
				t.Errorf("%s: %v after %v, want an error after %v", name, err, time.Since(began), c.want)
			}
		}
	})
}

// TestNamesOfLoops: the ID of a loop's worker, which is hashed if it is too long.
func TestNamesOfLoops(t *testing.T) {
	for _, c := range []struct {
		name, worker string
		plain        bool
	}{
		{"orders/billing", "c", true}, {strings.Repeat("n", engine.MaxNameBytes-2), "c", true},
		{strings.Repeat("n", engine.MaxNameBytes-1), "c", false}, {"q", "", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			all := NewRegistrar(engine.NewRouter(answering{}))
			leave := all.Join(func() workloop.Status {
				return workloop.Status{Kind: "stream", Namespace: "n", Name: c.name, Worker: c.worker, Max: maxConcurrent + 1}
			})
			synctest.Wait()
			for m := range all.reporters["n"].members {
				id, want := m.worker.ID, c.name+"/"+c.worker
				if c.worker == "" {
					want += Machine() + "-"
				}
				if c.plain != strings.HasPrefix(id, want) || c.worker != "" && c.plain != (id == want) || len(id) > engine.MaxNameBytes ||
					!c.plain && len(id) != len("stream-")+16 || m.worker.Max != maxConcurrent || m.worker.Type != "stream" {
					t.Errorf("%d bytes of %s become %+v", len(c.name), c.worker, m.worker)
				}
			}
			if leave(); len(all.reporters) > 0 {
				t.Error("it has not left")
			}
		})
	}
}

// unknowing is a door that knows none of the workers of a report, and one more at either end.
type unknowing struct{ answering }

func (unknowing) Query(_ context.Context, _ engine.ShardID, q engine.Query) error {
	if q, ok := q.(*reportQuery); ok {
		for i := -1; i <= len(q.list); i++ {
			q.unknown = append(q.unknown, i)
		}
	}
	return nil
}

// TestUnknownMembers: members that a shard does not know join again; other indexes are ignored.
func TestUnknownMembers(t *testing.T) {
	r := &reporter{registrar: new(Registrar), scope: engine.NewRouter(unknowing{}).Scope("n", 1<<20)}
	var part []*Member
	for _, id := range []string{"a", "b"} {
		part = append(part, &Member{worker: Worker{ID: id}, joined: true, status: func() workloop.Status { return workloop.Status{} }})
	}
	unknown, err := r.report(0, part)
	if err != nil || !slices.Equal(unknown, part) || part[0].joined || part[1].joined {
		t.Errorf("unknown are %d of 2, %v", len(unknown), err)
	}
}
