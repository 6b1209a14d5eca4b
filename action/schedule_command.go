package action

import (
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/schedule"
)

// scheduleBody sets a schedule of an action.
type scheduleBody struct {
	name   string
	times  times
	plan   plan
	paused bool
}

func (s *scheduleBody) code(f *codec.Fields) {
	f.Text("name", &s.name)
	if c := f.Binary(); c != nil {
		s.times.code(c)
		s.plan.code(c)
	} else {
		s.times.fields(f)
		s.plan.fields(f)
	}
	f.Bool("paused", &s.paused)
}

func (t *times) fields(f *codec.Fields) {
	if f.Parsing() {
		t.limit = DefaultCatchUp
	}
	codeBlob(f, "cron", &t.cron, codec.Range{Max: maxTimesBytes})
	codeBlob(f, "timezone", &t.zone, codec.Range{Max: maxTimesBytes})
	f.SignedMillis("interval_ms", &t.every, codec.Range{Max: maxMillis})
	f.Varint("anchor_ms", &t.anchor)
	codec.Enum(f, "overlap", &t.overlap, overlapNames[:])
	codec.Enum(f, "catch_up", &t.catchUp, catchUpNames[:])
	f.Varint("catch_up_limit", &t.limit, codec.Range{Min: 1, Max: MaxCatchUp})
}

func (p *plan) fields(f *codec.Fields) {
	if f.Parsing() {
		p.priority = DefaultPriority
	}
	f.OptionalBytes("input", &p.input)
	f.Byte("priority", &p.priority)
	codeLabels(f, &p.labels)
	codeBlob(f, "concurrency_key", &p.key, codec.Range{Max: MaxKeyBytes})
}

// scheduleName names a schedule of an action.
type scheduleName struct {
	name string
	flag bool // whether to pause it; otherwise unused
}

// codeScheduleName codes a schedule name and a flag. With an empty flag name JSON omits the flag.
func codeScheduleName(flag string) func(*scheduleName, *codec.Fields) {
	return func(s *scheduleName, f *codec.Fields) {
		if f.Text("name", &s.name); flag != "" || f.Binary() != nil {
			f.Bool(flag, &s.flag)
		}
	}
}

func (s *scheduleName) check() error { return checkScheduleName(s.name) }

func (s *scheduleName) limit() error {
	if s.flag {
		return engine.Errorf(ErrInvalid, "action: schedule %q: an unused flag is set", s.name)
	}
	return nil
}

// dueTicks are ticks of a schedule that the duty found due. The result of the command is the number
// of schedules processed. The others were stale.
type dueTicks struct {
	action, name string
	schedule.Due
}

func (d *dueTicks) code(c *codec.Coder) {
	c.String(&d.action)
	c.String(&d.name)
	d.Due.Code(c, true)
}

// follows reports whether the ticks are not stale: they continue the schedule.
func (d *dueTicks) follows(r *scheduleRow) bool {
	return !r.paused && d.Follows(r.revision, r.last) && d.Release == r.released
}

// read validates the times and the input, which Apply does not check.
func (s *scheduleBody) read() error {
	if err := checkInput(s.plan.input); err != nil {
		return err
	}
	_, err := s.times.parse()
	return err
}

func (s *scheduleBody) check() error { return checkScheduleName(s.name) }

func checkSchedule(action, name string) error {
	if err := checkAction(action); err != nil {
		return err
	}
	return checkScheduleName(name)
}

func checkScheduleName(name string) error {
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
