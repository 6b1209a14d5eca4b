package workflow

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
)

// ScheduleInfo is the schedule of a workflow's default version, with its state.
type ScheduleInfo struct {
	Cron  string
	Zone  string
	Every time.Duration
	Most  int // maximum number of active runs; 0: no limit

	Paused bool      // by Schedule.Pause, or by its definition
	Note   string    // why floe paused it, or why the last refused tick was refused
	Last   time.Time // ticks up to this time are decided
	Next   time.Time // next tick; zero if none or paused
	Active int64     // active runs started by the schedule

	Started int64 // ticks that have started a run
	Skipped int64 // ticks skipped because Most runs were active
	Missed  int64 // ticks that could not run in time and are not caught up
	Refused int64 // ticks refused by the workflow's schema
}

func (s *ScheduleInfo) code(c *codec.Coder) {
	c.String(&s.Cron)
	c.String(&s.Zone)
	c.Varint((*int64)(&s.Every))
	c.Int(&s.Most)
	c.Bool(&s.Paused)
	c.String(&s.Note)
	c.Time(&s.Last)
	c.Time(&s.Next)
	for _, v := range [...]*int64{&s.Active, &s.Started, &s.Skipped, &s.Missed, &s.Refused} {
		c.Varint(v)
	}
}

// scheduleInfo reads the schedule of a workflow with its state, nil if it has none.
func scheduleInfo(v *engine.View, id uint64) (*ScheduleInfo, error) {
	b, ok, err := v.Get(numberKey(nil, rowSchedule, id))
	if err != nil || !ok {
		return nil, err
	}
	r, err := decode(b, (*scheduleRow).code)
	if err != nil {
		return nil, err
	}
	s := &ScheduleInfo{
		Cron: r.times.cron, Zone: r.times.zone, Every: time.Duration(r.times.every) * time.Millisecond, Most: int(r.most),
		Paused: r.paused, Note: r.note, Last: time.UnixMilli(r.last), Active: r.active,
		Started: r.started, Skipped: r.skipped, Missed: r.missed, Refused: r.refused,
	}
	switch due := r.due(); due {
	case never:
	case 0: // the duty has not planned yet
		if c, err := cron.Parse(r.times.spec()); err == nil {
			s.Next = c.Next(s.Last)
		}
	default:
		s.Next = time.UnixMilli(due)
	}
	return s, nil
}

// Schedule is the schedule of a workflow, defined in the workflow's definition. Info.Schedule shows
// its state.
type Schedule struct {
	store    *Store
	workflow string
}

// Schedule returns the schedule of a workflow, to pause and resume it.
func (s *Store) Schedule(workflow string) Schedule { return Schedule{s, workflow} }

// Pause pauses the schedule: no tick starts a run until Resume. Runs that it has started continue,
// and other starts are not affected.
//
// Errors: ErrNotFound if there is no such workflow, or it has no schedule.
func (o Schedule) Pause(ctx context.Context) error { return o.store.turn(ctx, o.workflow, true) }

// Resume continues the schedule with the first tick from now. Missed ticks are not caught up.
// Errors are those of Pause.
func (o Schedule) Resume(ctx context.Context) error { return o.store.turn(ctx, o.workflow, false) }

func (s *Store) turn(ctx context.Context, workflow string, paused bool) error {
	_, err := pauseSchedule.Do(ctx, &s.scope, workflow, paused, nil)
	return err
}
