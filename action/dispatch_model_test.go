package action

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/quota"
)

// TestDispatchModel applies random commands to the machine and to a model. The model has no index,
// queue or mark. It searches all runs to find those that each take gets, in which order and as
// which attempt.
//
//	go test -run TestDispatchModel -seed 7 -for 1m ./action
func TestDispatchModel(t *testing.T) {
	seed, runs := machinetest.Seed(t), 12
	taken := 0
	for q := quota.New(t, runs); q.More(); {
		one := seed + uint64(q.Rounds()) - 1
		if !t.Run(fmt.Sprint(one), func(t *testing.T) {
			m := newDispatchModel(t, rand.New(rand.NewPCG(one, 2)))
			for n := 0; n < 300 && !t.Failed(); n++ {
				m.step()
			}
			m.compare()
			taken += m.taken
		}) {
			t.Fatalf("repeat it with -seed %d", one)
		}
	}
	t.Logf("%d runs were taken", taken)
}

type dispatchModel struct {
	*world
	actions map[string]*modelAction
	groups  []group
	runs    []*modelRun // all existing runs
	clock   int         // counts turns
	taken   int
	last    string // the last command
}

// modelAction is an action with its lanes, in order of creation.
type modelAction struct {
	spec
	name    string
	served  int   // when a run of it was last taken
	allowed int64 // µs: see record.allowed
	sets    []string
	lanes   []*modelLane
}

// modelLane holds the runs that wait with a concurrency key, or without one. The turn of a lane
// with a key counts from when it could begin, at the priority of its first run. The turn of one
// without a key counts from when a run of it was last taken.
type modelLane struct {
	set      int
	key      string
	since    int
	gone     bool // it is empty
	ready    bool
	priority uint8
}

// modelRun is a run that has not ended, or one that ended and still takes up a slot.
type modelRun struct {
	of        *modelAction
	lane      *modelLane
	ref       protocol.Ref
	priority  uint8
	place     int
	waits     bool  // in its lane
	due       int64 // if it waits for a time; else 0
	attempt   int64
	max       int64
	session   uint64 // its owner; 0: none
	cancelled bool
}

func newDispatchModel(t *testing.T, rng *rand.Rand) *dispatchModel {
	m := &dispatchModel{world: newWorld(t, rng), actions: make(map[string]*modelAction)}
	m.groups = []group{
		{labels(map[string]string{"gpu": "a"}), []string{"a", "b"}}, {"", []string{"c", "b", "a"}},
		{labels(map[string]string{"gpu": "b", "disk": "c"}), []string{"c", "a"}},
	}
	for _, name := range []string{"a", "b", "c"} {
		m.actions[name] = &modelAction{name: name, sets: []string{""}}
		m.limit(name)
	}
	for range 2 {
		m.open(m.groups...)
	}
	return m
}

func (m *dispatchModel) step() {
	switch n := m.rng.IntN(100); {
	case n < 3:
		m.limit(m.name())
	case n < 45:
		m.invokeOne()
	case n < 80:
		m.workOne()
	case n < 85:
		m.cancelOne()
	default:
		m.last = "time"
		m.r.Pass(m.rng.Int64N(600))
		if m.rng.IntN(2) == 0 {
			m.r.Fire()
		}
	}
}

// limit registers an action with other limits. The machine's timer updates its lanes; the model
// does so at once.
func (m *dispatchModel) limit(name string) {
	a, s := m.actions[name], defaultSpec
	s.maxRetries, s.timeout, s.retainRuns = 2, maxMillis, MaxRetainedRuns
	if m.rng.IntN(2) == 0 {
		s.maxRunning = m.rng.Int64N(5)
	}
	if m.rng.IntN(2) == 0 {
		s.maxPerKey = m.rng.Int64N(3)
	}
	if m.rng.IntN(3) == 0 {
		s.rate = rate{1 + m.rng.Int64N(9), 1000, 1 + m.rng.Int64N(3)}
	}
	m.last = fmt.Sprintf("limits of %s: %d, %d, %v", name, s.maxRunning, s.maxPerKey, s.rate)
	m.register(name, s)
	m.r.Fire()
	m.passTime()
	if s.rate != a.rate {
		a.allowed = 0
	}
	a.spec = s
	lanes := slices.Clone(a.lanes)
	slices.SortFunc(lanes, func(x, y *modelLane) int { return cmp.Or(cmp.Compare(x.set, y.set), cmp.Compare(x.key, y.key)) })
	for _, l := range lanes {
		m.settleOne(a, l)
	}
}

func (m *dispatchModel) invokeOne() {
	a := m.actions[m.name()]
	v := protocol.Invoke{Name: a.name, Priority: uint8(m.rng.IntN(2))}
	if m.rng.IntN(4) == 0 {
		v.Delay = m.rng.Int64N(500)
	}
	if m.rng.IntN(3) > 0 {
		v.ConcurrencyKey = m.name()
	}
	if m.rng.IntN(4) == 0 {
		v.Labels = []byte(labels(map[string]string{"gpu": m.name()}))
	}
	m.last = fmt.Sprintf("invoke %+v", v)
	i, err := m.invoke(v)
	if err != nil {
		m.t.Fatal(err)
	}
	m.passTime()
	set := slices.Index(a.sets, string(v.Labels))
	if set < 0 {
		set = len(a.sets)
		a.sets = append(a.sets, string(v.Labels))
	}
	r := &modelRun{of: a, lane: a.lane(set, v.ConcurrencyKey), ref: i.Ref, priority: v.Priority, max: 1 + a.maxRetries}
	m.runs = append(m.runs, r)
	m.retry(r, v.Delay)
}

func (a *modelAction) lane(set int, key string) *modelLane {
	for _, l := range a.lanes {
		if l.set == set && l.key == key {
			return l
		}
	}
	l := &modelLane{set: set, key: key, gone: true}
	a.lanes = append(a.lanes, l)
	return l
}

// retry makes a run wait for a time, or for its turn behind all others.
func (m *dispatchModel) retry(r *modelRun, delay int64) {
	if delay > 0 {
		r.due = m.r.Now() + delay
		return
	}
	m.clock++
	r.place, r.waits, r.due = m.clock, true, 0
	m.settleLane(r.of, r.lane)
}

// passTime queues the runs whose waiting time has passed.
func (m *dispatchModel) passTime() {
	var due []*modelRun
	for _, r := range m.runs {
		if r.due > 0 && r.due <= m.r.Now() {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(x, y *modelRun) int { return cmp.Or(cmp.Compare(x.due, y.due), cmp.Compare(x.ref.Run, y.ref.Run)) })
	for _, r := range due {
		m.retry(r, 0)
	}
}

// settleLane updates whether the lanes of a key can begin, and since when, in turn order.
func (m *dispatchModel) settleLane(a *modelAction, l *modelLane) {
	if l.key == "" {
		return
	}
	var all []*modelLane
	for _, other := range a.lanes {
		if other.key == l.key {
			all = append(all, other)
		}
	}
	slices.SortFunc(all, func(x, y *modelLane) int { return cmp.Compare(x.since, y.since) })
	for _, one := range all {
		m.settleOne(a, one)
	}
}

func (m *dispatchModel) settleOne(a *modelAction, l *modelLane) {
	if l.key == "" {
		return
	}
	first, running, used := m.first(a, l), int64(0), false
	for _, r := range m.runs {
		if r.of == a && r.lane.key == l.key && r.session != 0 {
			running++
			used = used || r.lane == l
		}
	}
	if first != nil && l.gone { // another lane from now on
		m.clock++
		l.since = m.clock
	}
	l.gone = first == nil && !used
	can := first != nil && (a.maxPerKey == 0 || running < a.maxPerKey)
	if can && (!l.ready || l.priority != first.priority) {
		m.clock++
		l.since, l.priority = m.clock, first.priority
	}
	l.ready = can
}

// first returns the next run of a lane, nil if none waits.
func (m *dispatchModel) first(a *modelAction, l *modelLane) (first *modelRun) {
	for _, r := range m.runs {
		if r.of == a && r.lane == l && r.waits &&
			(first == nil || r.priority < first.priority || r.priority == first.priority && r.place < first.place) {
			first = r
		}
	}
	return first
}

func (m *dispatchModel) cancelOne() {
	if len(m.runs) == 0 {
		return
	}
	r := m.runs[m.rng.IntN(len(m.runs))]
	m.last = fmt.Sprintf("cancel %v", r.ref)
	_, err := m.do(kindCancel, encode(nil, &protocol.Cancel{Ref: r.ref}, (*protocol.Cancel).Code))
	m.passTime()
	if (err != nil) != r.cancelled {
		m.t.Fatalf("%s: %v, cancelled before: %v", m.last, err, r.cancelled)
	}
	if r.session != 0 {
		r.cancelled = true // but still takes up its slot
		return
	}
	m.remove(r)
}

func (m *dispatchModel) remove(r *modelRun) {
	m.runs = slices.DeleteFunc(m.runs, func(other *modelRun) bool { return other == r })
	m.settleLane(r.of, r.lane)
}

// workOne has a session end some of its runs, and take others.
func (m *dispatchModel) workOne() {
	c := workBody{session: m.live[m.rng.IntN(len(m.live))], waiting: m.rng.IntN(3)}
	for _, r := range m.runs {
		if r.session == c.session && m.rng.IntN(3) == 0 && len(c.ends) < maxEnds {
			e := end{ref: r.ref, attempt: r.attempt, how: how(1 + m.rng.IntN(5))}
			if m.rng.IntN(2) == 0 && (e.how == failed || e.how == snoozed) {
				e.delay = m.rng.Int64N(300)
			}
			c.ends = append(c.ends, e)
		}
	}
	for range m.rng.IntN(3) {
		c.wants = append(c.wants, want{m.rng.IntN(len(m.groups)), "w", 1 + m.rng.IntN(4)})
	}
	if len(c.ends)+len(c.wants) == 0 {
		return
	}
	m.last = fmt.Sprintf("work %+v", c)
	got, err := m.work(c)
	if err != nil {
		m.t.Fatal(err)
	}
	m.passTime()
	var verdicts []verdict
	for i := range c.ends {
		verdicts = append(verdicts, m.settle(&c.ends[i]))
	}
	var have []string
	for _, t := range got.taken {
		have = append(have, fmt.Sprintf("%d: %d, attempt %d", t.want, t.ref.Run, t.attempt))
	}
	if want := m.take(&c); !slices.Equal(have, want) || !slices.Equal(got.verdicts, verdicts) {
		m.t.Fatalf("%s at %d: verdicts %v, taken\n\t%s\nwant %v,\n\t%s", m.last, m.r.Now()-machinetest.Epoch, got.verdicts,
			strings.Join(have, "\n\t"), verdicts, strings.Join(want, "\n\t"))
	}
}

// settle ends an attempt.
func (m *dispatchModel) settle(e *end) verdict {
	i := slices.IndexFunc(m.runs, func(r *modelRun) bool { return r.ref == e.ref })
	r := m.runs[i]
	r.session = 0
	if r.cancelled {
		m.remove(r)
		return abandoned
	}
	m.settleLane(r.of, r.lane)
	switch {
	case e.how == released:
		r.attempt--
		r.waits = true
		m.settleLane(r.of, r.lane)
	case e.how == snoozed:
		r.attempt--
		m.retry(r, e.delay)
	case e.how == failed && r.attempt < r.max:
		m.retry(r, e.delay)
	default:
		m.remove(r)
	}
	return accepted
}

// take returns the runs that are taken.
func (m *dispatchModel) take(c *workBody) (taken []string) {
	share := make(map[*modelAction]int)
	for i := range c.wants {
		for range c.wants[i].slots {
			l := m.choose(&m.groups[c.wants[i].group], share, c.waiting)
			if l == nil {
				break
			}
			taken = append(taken, fmt.Sprintf("%d: %d, attempt %d", i, l.ref.Run, l.attempt+1))
			m.begin(l, c.session)
			share[l.of]--
		}
	}
	m.taken += len(taken)
	return taken
}

// choose returns the next run for a group: the most urgent one. Between actions, the one not taken
// from for longest goes first; between lanes, the one whose turn came first.
func (m *dispatchModel) choose(g *group, share map[*modelAction]int, waiting int) (best *modelRun) {
	for _, name := range g.names {
		a := m.actions[name]
		ready, running := 0, int64(0)
		for _, r := range m.runs {
			if r.of == a && r.waits {
				ready++
			} else if r.of == a && r.session != 0 {
				running++
			}
		}
		if ready == 0 || a.maxRunning > 0 && running >= a.maxRunning || !a.allows(m.r.Now()) {
			continue
		}
		if _, known := share[a]; !known {
			share[a] = (ready + max(waiting, 1) - 1) / max(waiting, 1)
		}
		if share[a] <= 0 {
			continue
		}
		for _, l := range a.lanes {
			r := m.first(a, l)
			if r != nil && (l.ready || l.key == "") && hasLabels(g.labels, a.sets[l.set]) && r.before(best) {
				best = r
			}
		}
	}
	return best
}

func (r *modelRun) before(o *modelRun) bool {
	switch {
	case o == nil || r.priority != o.priority:
		return o == nil || r.priority < o.priority
	case r.of != o.of:
		return r.of.served < o.of.served
	case r.lane.since != o.lane.since:
		return r.lane.since < o.lane.since
	}
	return r.lane.set < o.lane.set // neither has had a turn
}

// allows reports whether the rate allows a run now.
func (a *modelAction) allows(now int64) bool {
	return a.rate.limit == 0 || a.allowed <= now*1000+(a.rate.burst-1)*a.perRun()
}

func (a *modelAction) perRun() int64 { return a.rate.per * 1000 / a.rate.limit }

func (m *dispatchModel) begin(r *modelRun, session uint64) {
	a := r.of
	r.waits, r.session = false, session
	r.attempt++
	m.clock++
	a.served = m.clock
	if a.rate.limit > 0 {
		a.allowed = max(a.allowed, (m.r.Now()-rateSlackMillis)*1000) + a.perRun()
	}
	r.lane.since, r.lane.ready = m.clock, false
	m.settleLane(a, r.lane)
}

// compare compares the counts.
func (m *dispatchModel) compare() {
	m.r.Fire()
	m.passTime()
	for _, name := range slices.Sorted(maps.Keys(m.actions)) {
		q := infoQuery{namespace: "n", name: name}
		if err := m.r.Query(m.t.Context(), 0, &q); err != nil {
			m.t.Fatal(err)
		}
		var pending, running int64
		for _, r := range m.runs {
			switch {
			case r.of.name != name || r.cancelled:
			case r.session != 0:
				running++
			default:
				pending++
			}
		}
		if got := q.info.Runs; got.Pending != pending || got.Running != running {
			m.t.Errorf("action %s counts %+v, want %d pending and %d running", name, got, pending, running)
		}
	}
	machinetest.EqualReplicas(m.t, m.r.Log(0), []engine.Primitive{table()}, machinetest.Replica{})
}

// TestKeysAndNoneInTurn: runs with one key, with another key and without a key take turns. Those
// without a key used to get no turn while there were two keys.
func TestKeysAndNoneInTurn(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	w.register("a", defaultSpec)
	session := w.open(group{"", []string{"a"}})
	for _, key := range []string{"one", "other", ""} {
		for range 10 {
			if _, err := w.invoke(protocol.Invoke{Name: "a", ConcurrencyKey: key}); err != nil {
				t.Fatal(err)
			}
		}
	}
	counts := make(map[string]int)
	for range 15 {
		got, err := w.work(workBody{session: session, wants: []want{{0, "w", 1}}})
		if err != nil || len(got.taken) != 1 {
			t.Fatal(len(got.taken), err)
		}
		counts[got.taken[0].key]++
	}
	if want := map[string]int{"one": 5, "other": 5, "": 5}; !maps.Equal(counts, want) {
		t.Errorf("of 15 runs the keys had %v, want %v", counts, want)
	}
}
