package action

import (
	"time"

	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// scheduleQuery asks for a schedule.
type scheduleQuery struct {
	namespace    string
	action, name string

	found    bool
	schedule Schedule
}

// schedulesQuery asks for the schedules of an action, or of all if it is "", behind one of them.
type schedulesQuery struct {
	namespace              string
	action                 string
	afterAction, afterName string
	limit                  int

	items []Schedule
	more  bool
}

func (*scheduleQuery) Machine() engine.MachineID  { return engine.MachineAction }
func (*schedulesQuery) Machine() engine.MachineID { return engine.MachineAction }
func (*scheduleQuery) Kind() uint8                { return querySchedule }
func (*schedulesQuery) Kind() uint8               { return querySchedules }

func (q *scheduleQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.action)
	c.String(&q.name)
}

func (q *scheduleQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	if c.Bool(&q.found); q.found {
		codeSchedule(c, &q.schedule)
	}
}

func (q *schedulesQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	for _, s := range [...]*string{&q.namespace, &q.action, &q.afterAction, &q.afterName} {
		c.String(s)
	}
	codeLimit(c, &q.limit, engine.MaxPageItems)
}

func (q *schedulesQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	codec.List(c, &q.items, codeSchedule)
	c.Bool(&q.more)
}

func codeSchedule(c *codec.Coder, s *Schedule) {
	c.String(&s.Name)
	c.String(&s.Action)
	codeSpec(c, &s.Spec)
	c.Int(&s.Priority)
	labels := engine.AppendHeaders(nil, s.Labels)
	if c.Bytes(&labels); c.Reading() {
		var err error
		if s.Labels, err = engine.DecodeHeaders(labels); err != nil {
			c.Fail(err.Error())
		}
	}
	c.String(&s.ConcurrencyKey)
	c.Bool(&s.Paused)
	c.String(&s.Note)
	for _, t := range [...]*time.Time{&s.CreatedAt, &s.UpdatedAt, &s.Next, &s.Last, &s.Buffered} {
		c.Time(t)
	}
	c.String((*string)(&s.LastRun))
	for _, n := range [...]*int64{&s.Ran, &s.Skipped, &s.Missed, &s.Refused} {
		c.Varint(n)
	}
	codec.List(c, &s.Ticks, func(c *codec.Coder, t *Tick) {
		c.Time(&t.At)
		c.Time(&t.DecidedAt)
		c.Byte((*byte)(&t.Result))
		c.String((*string)(&t.Run))
		c.String(&t.Error)
		c.Varint(&t.Count)
	})
}

func codeSpec(c *codec.Coder, s *ScheduleSpec) {
	c.String(&s.Cron)
	c.Varint((*int64)(&s.Every))
	c.Time(&s.Anchor)
	c.String(&s.Zone)
	c.Byte((*byte)(&s.Overlap))
	c.Byte((*byte)(&s.CatchUp))
	c.Int(&s.CatchUpLimit)
	c.Bytes(&s.Input)
	c.Bool(&s.Paused)
}

func (m *machine) querySchedule(v *engine.View, q *scheduleQuery) error {
	v.Freeze()
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	b, ok, err := v.Get(scheduleKey(nil, rowSchedule, ns, q.action, q.name))
	if err != nil || !ok {
		return err
	}
	q.found = true
	q.schedule, err = readSchedule(v, ns, q.action, q.name, b)
	return err
}

func (m *machine) querySchedules(v *engine.View, q *schedulesQuery) error {
	v.Freeze()
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	var after []byte
	if q.afterAction != "" {
		after = scheduleKey(nil, rowSchedule, ns, q.afterAction, q.afterName)
	}
	lower, upper, ok := key.Behind(schedulesKey(nil, rowSchedule, ns, q.action), after)
	if !ok {
		return nil
	}
	it, err := v.Iter(lower, upper)
	if err != nil {
		return err
	}
	bytes := 0
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		if len(q.items) == q.limit || bytes > maxPageBytes || len(q.items) > 0 && v.Full() {
			q.more = true
			break
		}
		_, action, name, _ := scheduleAt(it.Key()[1:])
		var s Schedule
		if s, err = readSchedule(v, ns, action, name, it.Value()); err == nil {
			q.items = append(q.items, s)
			bytes += len(s.Spec.Input)
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}

// readSchedule returns a schedule, with what it runs, as its user sees it.
func readSchedule(v *engine.View, ns uint32, action, name string, row []byte) (s Schedule, err error) {
	r, err := decode(row, (*scheduleRow).code)
	if err != nil {
		return s, err
	}
	b, _, err := v.Get(scheduleKey(nil, rowPlan, ns, action, name))
	if err != nil {
		return s, err
	}
	p, err := decode(b, (*plan).code)
	if err != nil {
		return s, err
	}
	labels, err := engine.DecodeHeaders(p.labels)
	s = Schedule{
		Name: name, Action: action, Priority: int(p.priority), Labels: labels, ConcurrencyKey: p.key,
		Spec: ScheduleSpec{
			Cron: r.cron, Every: duration(r.every), Anchor: anchorTime(r.anchor), Zone: r.zone, Overlap: r.overlap, CatchUp: r.catchUp,
			CatchUpLimit: int(r.limit), Input: p.input, Paused: r.paused,
		},
		Paused: r.paused, Note: r.note, CreatedAt: time.UnixMilli(r.createdAt), UpdatedAt: time.UnixMilli(r.updatedAt), Last: time.UnixMilli(r.last),
		Next: timeUnless(r.next, 0, never), Buffered: timeUnless(r.buffered, 0),
		Ran: r.ran, Skipped: r.skipped, Missed: r.missed, Refused: r.refused,
	}
	if r.next == 0 && !r.paused { // the duty has not planned yet
		if c, err := cron.Parse(r.spec()); err == nil {
			s.Next = c.Next(s.Last)
		}
	}
	id := func(ref call.Ref) RunID { return place{v.Shard(), ref}.id() }
	if r.begun {
		s.LastRun = id(r.run)
	}
	for i := len(r.ticks) - 1; i >= 0; i-- {
		t := &r.ticks[i]
		tick := Tick{At: timeUnless(t.at, 0), DecidedAt: time.UnixMilli(t.decided), Result: t.result, Error: t.message, Count: t.count}
		if t.run != (call.Ref{}) {
			tick.Run = id(t.run)
		}
		s.Ticks = append(s.Ticks, tick)
	}
	return s, err
}

// timeUnless returns the time of ms, or the zero time for one that stands for something else.
func timeUnless(ms int64, none ...int64) time.Time {
	for _, n := range none {
		if ms == n {
			return time.Time{}
		}
	}
	return time.UnixMilli(ms)
}
