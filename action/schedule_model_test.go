package action

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestScheduleModel changes schedules, ends runs and advances time at random, on nodes that restart
// and crash. Leaders do their duty, none of it, half of it, or do it late. Every tick is decided
// once, as in a plain Go model.
//
//	go test -run TestScheduleModel -seed 7 -runs 400 ./action
func TestScheduleModel(t *testing.T) {
	machinetest.Models{
		Primitives: []engine.Primitive{engine.TableOf[Store]()}, CacheBytes: 4 << 20,
		Runs: 12, Steps: 150, ShortRuns: 3, ShortSteps: 100, MaxShards: 3,
		Begin: func(t *testing.T, rng *rand.Rand, g machinetest.Ground, spread bool) machinetest.Model {
			m := &scheduleModel{
				t: t, rng: rng, ground: g, actions: newActions(t, g, "n"), schedules: make(map[string]*modelSchedule),
				active: make(map[RunID]bool),
			}
			m.register("job")
			return m
		},
	}.Run(t)
}

type scheduleModel struct {
	t      *testing.T
	rng    *rand.Rand
	ground machinetest.Ground
	*actions
	schedules map[string]*modelSchedule
	active    map[RunID]bool // runs, and whether they are still active
	begun     []string       // idempotency keys of runs, in order
	late      []late
	last      string
}

// late is a command of the duty that is proposed later.
type late struct {
	shard engine.ShardID
	cmd   engine.Command
}

type modelSchedule struct {
	spec                          ScheduleSpec
	paused                        bool
	last                          time.Time
	buffered                      time.Time
	run                           RunID
	ran, skipped, missed, refused int64
}

func (m *scheduleModel) now() time.Time { return time.UnixMilli(m.ground.Now()).UTC() }

func (m *scheduleModel) of() Schedules { return m.store.Schedules("job") }

func (m *scheduleModel) check(err, want error) bool {
	m.t.Helper()
	if !errors.Is(err, want) {
		m.t.Errorf("%s: %v, want %v", m.last, err, want)
	}
	return err == nil
}

func (m *scheduleModel) Step() {
	name := string(rune('a' + m.rng.IntN(4)))
	s := m.schedules[name]
	missing := error(nil)
	if s == nil {
		missing = ErrNotFound
	}
	switch n := m.rng.IntN(100); {
	case n < 15:
		m.set(name)
	case n < 20:
		m.last = "pause " + name
		if m.check(m.of().Pause(m.t.Context(), name), missing) && !s.paused {
			s.paused = true
			s.drop()
		}
	case n < 27:
		m.last = "resume " + name
		if m.check(m.of().Resume(m.t.Context(), name), missing) && s.paused {
			s.paused, s.last = false, m.now()
		}
	case n < 29:
		m.last = "delete " + name
		m.check(m.of().Delete(m.t.Context(), name), missing)
		delete(m.schedules, name)
	case n < 34:
		m.trigger(name)
	case n < 50:
		m.end(name)
	case n < 54:
		m.last = "restart"
		m.ground.Restart()
	case n < 58:
		m.stale()
	default:
		m.let()
	}
	m.Compare()
}

var modelSpecs = []ScheduleSpec{
	{Every: time.Minute}, {Every: 7 * time.Minute}, {Every: time.Hour, Anchor: time.UnixMilli(machinetest.Epoch + 1234)},
	{Cron: "*/5 * * * *", Zone: "Europe/Berlin"}, {Cron: "0,30 3 * * *", Zone: "Australia/Lord_Howe"}, {Cron: "@hourly"},
}

func (m *scheduleModel) set(name string) {
	spec := modelSpecs[m.rng.IntN(len(modelSpecs))]
	spec.Overlap, spec.CatchUp, spec.CatchUpLimit = Overlap(m.rng.IntN(4)), CatchUp(m.rng.IntN(3)), 1+m.rng.IntN(20)
	old := m.schedules[name]
	if old != nil && m.rng.IntN(2) == 0 {
		spec.Cron, spec.Every, spec.Anchor, spec.Zone = old.spec.Cron, old.spec.Every, old.spec.Anchor, old.spec.Zone
	}
	m.last = fmt.Sprintf("set %s %+v", name, spec)
	if !m.check(m.of().Set(m.t.Context(), name, spec), nil) {
		return
	}
	if old == nil {
		old = &modelSchedule{}
		m.schedules[name] = old
	}
	if was := old.spec; was.Cron != spec.Cron || was.Every != spec.Every || was.Zone != spec.Zone || !was.Anchor.Equal(spec.Anchor) {
		old.last = m.now()
	}
	if old.spec = spec; spec.Overlap != OverlapBuffer {
		old.drop()
	}
}

func (s *modelSchedule) drop() {
	if !s.buffered.IsZero() {
		s.skipped, s.buffered = s.skipped+1, time.Time{}
	}
}

func (m *scheduleModel) trigger(name string) {
	m.last = "trigger " + name
	s, want := m.schedules[name], error(nil)
	switch {
	case s == nil:
		want = ErrNotFound
	case m.active[s.run] && (s.spec.Overlap == OverlapSkip || s.spec.Overlap == OverlapBuffer):
		want = ErrConflict
	}
	i, err := m.of().Trigger(m.t.Context(), name)
	if !m.check(err, want) {
		return
	}
	m.replace(s)
	m.begun, s.run, s.ran = append(m.begun, ""), i.Run, s.ran+1
	m.active[i.Run] = true
}

func (m *scheduleModel) replace(s *modelSchedule) {
	if s.spec.Overlap == OverlapReplace && s.run != "" {
		m.active[s.run] = false
	}
}

// end ends the last run of a schedule.
func (m *scheduleModel) end(name string) {
	s := m.schedules[name]
	if s == nil || !m.active[s.run] {
		return
	}
	m.last = "end " + name
	m.cancel(s.run)
	m.active[s.run] = false
	if at := s.buffered; !at.IsZero() {
		s.buffered = time.Time{}
		m.begin(name, s, at)
	}
}

// begin starts the run of a tick, and reads its ID from the store.
func (m *scheduleModel) begin(name string, s *modelSchedule, at time.Time) {
	m.replace(s)
	key := "schedule:" + name + ":" + at.UTC().Format("2006-01-02T15:04:05.999Z07:00")
	m.begun, s.ran = append(m.begun, key), s.ran+1
	for _, r := range m.runsOf("job") {
		if r.IdempotencyKey == key && r.Source == "schedule:"+name {
			s.run = r.ID
		}
	}
	m.active[s.run] = true
}

// let advances time; the leader does its duty, none of it, or a part of it.
func (m *scheduleModel) let() {
	m.ground.Pass(m.rng.Int64N(20 * 60 * 1000))
	if m.rng.IntN(10) == 0 {
		m.ground.Pass(hours(m.rng.Int64N(4)))
	}
	m.ground.Fire()
	steps := 1 << 30
	if m.rng.IntN(4) == 0 {
		steps = m.rng.IntN(3)
	}
	m.last = fmt.Sprintf("duty at %v, %d steps", m.now(), steps)
	for shard := range engine.ShardID(m.ground.Shards()) {
		d := &duty{ground: m.ground, shard: shard, steps: steps}
		d.do(m.t, 1)
		for _, cmd := range d.caught {
			m.late = append(m.late, late{shard, cmd})
		}
		if len(d.caught) > 0 {
			m.settle()
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.schedules)) {
		m.ticks(name, m.schedules[name], m.now())
	}
}

// settle applies to the model what an interrupted duty has done. That is everything due for each
// schedule it reached, because one command has room for a whole schedule.
func (m *scheduleModel) settle() {
	for _, name := range slices.Sorted(maps.Keys(m.schedules)) {
		s := m.schedules[name]
		got, err := m.of().Get(m.t.Context(), name)
		if m.check(err, nil) && !got.Last.Equal(s.last) {
			m.ticks(name, s, m.now())
		}
	}
}

// parse returns the times of a schedule.
func (m *scheduleModel) parse(s *modelSchedule) *cron.Schedule {
	p, err := cron.Parse(cron.Spec{Cron: s.spec.Cron, Every: s.spec.Every, Anchor: s.spec.Anchor, Zone: s.spec.Zone})
	if err != nil {
		m.t.Fatalf("%s: %v", m.last, err)
	}
	return p
}

// ticks decides the due ticks of a schedule.
func (m *scheduleModel) ticks(name string, s *modelSchedule, now time.Time) {
	if s.paused {
		return
	}
	p := m.parse(s)
	var due []time.Time
	for at := p.Next(s.last); !at.After(now); at = p.Next(at) {
		due = append(due, at)
	}
	if len(due) == 0 {
		return
	}
	n := 1
	if s.spec.CatchUp == CatchUpAll {
		n = min(s.spec.CatchUpLimit, len(due))
	} else if s.spec.CatchUp == CatchUpNone && now.Sub(due[len(due)-1]) > time.Minute {
		n = 0
	}
	s.missed += int64(len(due) - n)
	for _, at := range due[len(due)-n:] {
		switch active := s.run != "" && m.active[s.run]; {
		case active && (s.spec.Overlap == OverlapSkip || s.spec.Overlap == OverlapBuffer && !s.buffered.IsZero()):
			s.skipped++
		case active && s.spec.Overlap == OverlapBuffer:
			s.buffered = at
		default:
			m.begin(name, s, at)
		}
	}
	if s.last = now; n > 0 {
		s.last = due[len(due)-1]
	}
}

// stale proposes a command of the duty late. The machine skips what was decided or changed
// meanwhile. The model takes the rest from the store's state.
func (m *scheduleModel) stale() {
	if len(m.late) == 0 {
		return
	}
	m.last = "a command of the duty that comes late"
	l := m.late[0]
	m.late = m.late[1:]
	was := make(map[string]time.Time)
	for name := range m.schedules {
		got, err := m.of().Get(m.t.Context(), name)
		if m.check(err, nil) {
			was[name] = got.Last
		}
	}
	m.ground.Propose(m.t.Context(), l.shard, l.cmd)
	for _, name := range slices.Sorted(maps.Keys(m.schedules)) {
		got, err := m.of().Get(m.t.Context(), name)
		if m.check(err, nil) && !got.Last.Equal(was[name]) {
			m.ticks(name, m.schedules[name], got.Last) // the time it was computed, or that of its last tick
		}
	}
}

func (m *scheduleModel) Compare() {
	m.t.Helper()
	for name, s := range m.schedules {
		got, err := m.of().Get(m.t.Context(), name)
		if !m.check(err, nil) {
			continue
		}
		want := fmt.Sprintf("ran %d, skipped %d, missed %d, refused %d", s.ran, s.skipped, s.missed, s.refused)
		if got.counts() != want || !got.Buffered.Equal(s.buffered) || got.Paused != s.paused || !got.Last.Equal(s.last) ||
			got.LastRun != s.run {
			m.t.Errorf("%s: schedule %s %+v: %s, buffered %v, last %v of %s\nwant %s, %v, %v of %s", m.last, name, s.spec,
				got.counts(), got.Buffered, got.Last.UTC(), got.LastRun, want, s.buffered, s.last.UTC(), s.run)
		}
		next := time.Time{}
		if !s.paused {
			next = m.parse(s).Next(s.last)
		}
		if !got.Next.Equal(next) {
			m.t.Errorf("%s: schedule %s %+v: the next tick is %v, want %v", m.last, name, s.spec, got.Next.UTC(), next)
		}
	}
	var begun []string
	for _, r := range m.runsOf("job") {
		begun = append(begun, r.IdempotencyKey)
		if active := m.active[r.ID]; active == r.Status.Final() {
			m.t.Errorf("%s: run %s of %q is active: %v, its state is %v", m.last, r.ID, r.IdempotencyKey, active, r.Status)
		}
	}
	want := slices.Clone(m.begun)
	slices.Sort(want)
	slices.Sort(begun)
	if !slices.Equal(begun, want) {
		m.t.Errorf("%s: runs\n%q, want\n%q", m.last, begun, want)
	}
}
