package action

import (
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/plant"
)

// Kinds of commands of schedules.
const (
	kindSchedule uint8 = iota + kindNote + 1
	kindUnschedule
	kindPause
	kindTrigger
	kindTick
	kindScheduledEnd
)

const kindSettle = kindScheduledEnd + 1 // see settleCommand

// scheduleCommand is the body of kindSchedule.
type scheduleCommand struct {
	action, name string
	times        times
	plan         plan
	paused       bool
}

func (s *scheduleCommand) code(c *codec.Coder) {
	c.String(&s.action)
	c.String(&s.name)
	s.times.code(c)
	s.plan.code(c)
	c.Bool(&s.paused)
}

// scheduleName is the body of kindPause, with whether to, and of kindUnschedule and kindTrigger.
//
//	result of kindTrigger: as that of kindInvoke
type scheduleName struct {
	action, name string
	flag         bool
}

func (s *scheduleName) code(c *codec.Coder) {
	c.String(&s.action)
	c.String(&s.name)
	c.Bool(&s.flag)
}

// tickCommand is the body of kindTick: what the duty has found due.
//
//	result: how many of them are done, uvarint: the others were overtaken
type tickCommand struct{ due []dueTicks }

func (t *tickCommand) code(c *codec.Coder) {
	codec.List(c, &t.due, func(c *codec.Coder, d *dueTicks) { d.code(c) })
}

// dueTicks are ticks of a schedule. They rest on its revision, and on until when its ticks had been decided.
type dueTicks struct {
	action, name string
	revision     uint64
	after        int64   // ms, as all times
	run          []int64 // ascending
	missed       int64
	last         int64 // until when ticks are decided with these
	next         int64 // or never
	release      bool  // the tick that waits for a run to end can run
	problem      string
}

func (d *dueTicks) code(c *codec.Coder) {
	c.String(&d.action)
	c.String(&d.name)
	c.Uvarint(&d.revision)
	c.Varint(&d.after)
	codec.List(c, &d.run, (*codec.Coder).Varint)
	c.Varint(&d.missed)
	c.Varint(&d.last)
	codeTime(c, &d.next)
	c.Bool(&d.release)
	c.String(&d.problem)
}

// follows reports whether what a duty has found still holds: it starts where the schedule stands, and goes on from there.
func (d *dueTicks) follows(r *scheduleRow) bool {
	if plant.On(plant.TickTwice) {
		return !r.paused
	}
	if d.revision != r.revision || d.after != r.last || r.paused {
		return false
	}
	at := d.after
	for _, t := range d.run {
		if t <= at {
			return false
		}
		at = t
	}
	return d.last >= at && d.next > d.last && d.missed >= 0 && d.release == r.released
}

// admitSchedule checks a command of schedules of a user in another process.
func admitSchedule(cmd engine.Command, maxPayload int) error {
	if cmd.Kind != kindSchedule {
		n, err := decodeBody(cmd.Body, (*scheduleName).code)
		if err != nil {
			return err
		}
		return checkSchedule(n.action, n.name)
	}
	s, err := decodeBody(cmd.Body, (*scheduleCommand).code)
	if err != nil {
		return err
	}
	if err := engine.CheckPayload(len(s.plan.input), maxPayload); err != nil {
		return err
	}
	return s.read()
}

// read is check with what Apply leaves to others: the times, and the input.
func (s *scheduleCommand) read() error {
	if err := s.check(); err != nil {
		return err
	}
	if err := checkInput(s.plan.input); err != nil {
		return err
	}
	_, err := s.times.parse()
	return err
}

// check says what is wrong with a schedule.
func (s *scheduleCommand) check() error {
	if err := checkSchedule(s.action, s.name); err != nil {
		return err
	}
	t := &s.times
	switch {
	case t.overlap > OverlapReplace || t.catchUp > CatchUpAll:
		return engine.Errorf(ErrInvalid, "action: schedule: overlap %d and catch-up %d: one of them is not known", t.overlap, t.catchUp)
	case len(t.cron) > maxTimesBytes || len(t.zone) > maxTimesBytes:
		return engine.Errorf(ErrInvalid, "action: schedule: %d bytes are more than %d", max(len(t.cron), len(t.zone)), maxTimesBytes)
	case t.limit < 1 || t.limit > MaxCatchUp:
		return engine.Errorf(ErrInvalid, "action: schedule: catch-up limit of %d is not in 1-%d", t.limit, MaxCatchUp)
	case t.every < 0 || t.every > maxMillis:
		return engine.Errorf(ErrInvalid, "action: schedule: interval of %d ms is not in 1000-%d", t.every, maxMillis)
	case len(s.plan.key) > MaxKeyBytes:
		return engine.Errorf(ErrInvalid, "action: concurrency key of %d bytes exceeds %d", len(s.plan.key), MaxKeyBytes)
	}
	return checkLabels(s.plan.labels)
}

func checkSchedule(action, name string) error {
	if err := checkAction(action); err != nil {
		return err
	}
	if len(name) > MaxScheduleName {
		return engine.Errorf(ErrInvalid, "action: schedule name of %d bytes exceeds %d", len(name), MaxScheduleName)
	}
	return engine.CheckName("schedule", name)
}

func noSchedule(action, name string) error {
	return engine.Errorf(ErrNotFound, "schedule %q of action %q not found", name, action)
}

// anchorTime returns an anchor; the default one is the zero time.
func anchorTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
