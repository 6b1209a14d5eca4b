package processing

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// lanes is the number of tasks of a shard that propose concurrently. Each job is in one lane.
const lanes = 4

// laneNames are the names of the lanes in messages.
var laneNames = [lanes]string{"tasks 0", "tasks 1", "tasks 2", "tasks 3"}

// Duties returns the duties of the leader: it runs the tasks of jobs, makes savepoints and restores
// them.
func (m *machine) Duties() []engine.Duty {
	all := []engine.Duty{{Name: "savepoints", Run: m.keepSavepoints}}
	for i := range lanes {
		all = append(all, engine.Duty{Name: laneNames[i],
			Run: func(ctx context.Context, lead *engine.Lead) error { return m.runLane(ctx, lead, i) }})
	}
	return all
}

// lane runs the tasks of some jobs, one step at a time. Each step is computed from a view, and
// proposed with the revision and position of that view.
type lane struct {
	m     *machine
	lead  *engine.Lead
	tasks map[ref]*task
	last  ref // the job that had the last turn
	crowd crowd
}

// led is when this replica became leader of the shard.
type led struct {
	mu   sync.Mutex // guards both below
	term uint64
	at   int64 // ms, of the monotonic clock
}

// since returns when the first duty of a term began, by the monotonic clock.
func (l *led) since(lead *engine.Lead) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term != lead.Term() {
		l.term, l.at = lead.Term(), lead.Mono()
	}
	return l.at
}

// crowd detects frequent user writes to the shard. Ticks must then be small, because a write waits
// until the tick before it is applied.
type crowd struct {
	calls, at int64 // of the last look
	is        bool
}

// A shard is crowded after crowdMillis with more than crowdRate user writes per second.
const (
	crowdMillis = 100
	crowdRate   = 50
)

func (c *crowd) look(calls, now int64) {
	took := now - c.at
	if took < crowdMillis {
		return
	}
	c.is = c.at > 0 && (calls-c.calls)*1000 > crowdRate*took
	c.calls, c.at = calls, now
}

// lookMillis is the interval at which a waiting task checks its input again, which shows that it is
// alive.
const lookMillis = 30_000

func (m *machine) runLane(ctx context.Context, lead *engine.Lead, number int) error {
	l := &lane{m: m, lead: lead, tasks: make(map[ref]*task)}
	defer l.leave()
	for {
		var s *step
		l.crowd.look(lead.Calls(), lead.Now())
		err := lead.View(ctx, func(v *engine.View) (err error) {
			if err := v.WaitOn(jobsTopic()); err != nil {
				return err
			}
			if err := l.refresh(ctx, v, number); err != nil {
				return err
			}
			if s, err = l.next(ctx, v); err == nil && s == nil {
				v.WakeAt(v.Now() + lookMillis)
				err = engine.ErrWait
			}
			return err
		})
		if err != nil {
			return err
		}
		if _, err = lead.Propose(ctx, s.command); ends(ctx, err) {
			return err
		}
		s.task.proposed(s, err, lead.Now())
	}
}

// ends reports whether an error ends a duty. Any other error concerns one job: that job is held,
// and the others continue.
func ends(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, engine.ErrClosed))
}

// leave drops the tasks of this replica.
func (l *lane) leave() {
	for r := range l.tasks {
		l.drop(r)
	}
}

// refresh updates the lane's tasks to the existing jobs.
func (l *lane) refresh(ctx context.Context, v *engine.View, number int) error {
	it, err := v.Iter([]byte{rowActive}, []byte{rowActive + 1})
	if err != nil {
		return err
	}
	seen, now := make(map[ref]uint64, len(l.tasks)), v.Now()
	var stale []ref
	for ok := it.First(); ok; ok = it.Next() {
		r := refOf(it.Key()[1:])
		if int(r.number%lanes) != number {
			continue
		}
		seen[r] = binary.BigEndian.Uint64(it.Value())
		if t := l.tasks[r]; t == nil || t.job.revision != seen[r] || t.broken && t.hold.until <= now {
			stale = append(stale, r)
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	for r := range l.tasks {
		if _, ok := seen[r]; !ok {
			l.drop(r)
		}
	}
	for _, r := range stale {
		t, err := l.m.open(v, r)
		if ends(ctx, err) {
			return err
		}
		if err == nil && (t == nil || t.job.status != Running) {
			l.drop(r)
			continue
		}
		if err != nil {
			t = &task{ref: r, job: jobRow{revision: seen[r]}, cache: newCache(l.m.memory)}
		}
		t.crowd, t.began, t.watch = &l.crowd, l.m.led.since(l.lead), l.lead.Elapsed
		if old := l.tasks[r]; old != nil {
			old.cache.close()
			t.live, t.hold = old.live, old.hold
		} else {
			t.live = &live{}
		}
		l.tasks[r] = t
		l.m.live.Store(r, t.live)
		if err != nil {
			t.breaks(now, err)
		}
	}
	return nil
}

func (l *lane) drop(r ref) {
	if t := l.tasks[r]; t != nil {
		t.cache.close()
		delete(l.tasks, r)
		l.m.live.Delete(r)
	}
}

// next returns the next step of one of the tasks. It returns nil if none has anything to do now;
// then each has registered what it waits for.
func (l *lane) next(ctx context.Context, v *engine.View) (*step, error) {
	for _, r := range l.turns() {
		t := l.tasks[r]
		s, err := t.next(ctx, v)
		if ends(ctx, err) {
			return nil, err
		}
		if err != nil {
			t.breaks(v.Now(), err)
			v.WakeAt(t.hold.until)
			continue
		}
		if s != nil {
			l.last = r
			return s, nil
		}
	}
	return nil, nil
}

// turns returns the jobs of the lane, beginning after the one that had the last turn.
func (l *lane) turns() []ref {
	all := make([]ref, 0, len(l.tasks))
	for r := range l.tasks {
		all = append(all, r)
	}
	sortRefs(all)
	for i, r := range all {
		if l.last.before(r) {
			return append(all[i:len(all):len(all)], all[:i]...)
		}
	}
	return all
}
