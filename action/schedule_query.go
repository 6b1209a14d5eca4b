package action

import (
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// scheduleQuery queries a schedule.
type scheduleQuery struct {
	namespace    string
	action, name string

	found    bool
	schedule Schedule
}

// schedulesQuery lists the schedules of an action after a given one, or of all actions if the
// action is "".
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
	f.Namespace(&q.namespace)
	f.Text("action", &q.action)
	f.Text("name", &q.name)
}

func (q *scheduleQuery) Results(f *codec.Fields) {
	if f.Found(&q.found) {
		q.schedule.code(f)
	}
}

func (q *schedulesQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("action", &q.action)
	f.Text("after_action", &q.afterAction)
	f.Text("after", &q.afterName)
	f.Int("limit", &q.limit, engine.PageLimit)
}

func (q *schedulesQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "schedules", &q.items, (*Schedule).code)
	f.Bool("more", &q.more)
}

func (s *Schedule) code(f *codec.Fields) {
	f.Text("name", &s.Name)
	f.Text("action", &s.Action)
	s.Spec.code(f)
	f.Int("priority", &s.Priority)
	engine.CodePairMap(f, "labels", &s.Labels)
	codeBlob(f, "concurrency_key", &s.ConcurrencyKey, codec.Range{})
	f.Bool("paused", &s.Paused)
	codeBlob(f, "note", &s.Note, codec.Range{})
	f.Time("created_at_ms", &s.CreatedAt)
	f.Time("updated_at_ms", &s.UpdatedAt)
	f.Time("next_ms", &s.Next)
	f.Time("decided_to_ms", &s.Last)
	f.Time("buffered_ms", &s.Buffered)
	f.Text("last_run", (*string)(&s.LastRun))
	f.Varint("ran", &s.Ran)
	f.Varint("skipped", &s.Skipped)
	f.Varint("missed", &s.Missed)
	f.Varint("refused", &s.Refused)
	codec.ListOf(f, "ticks", &s.Ticks, (*Tick).code)
}

func (t *Tick) code(f *codec.Fields) {
	f.Time("at_ms", &t.At)
	f.Time("decided_at_ms", &t.DecidedAt)
	codec.Enum(f, "result", &t.Result, tickNames[:])
	f.Text("run", (*string)(&t.Run))
	codeBlob(f, "error", &t.Error, codec.Range{})
	f.Varint("count", &t.Count)
}

func (s *ScheduleSpec) code(f *codec.Fields) {
	codeBlob(f, "cron", &s.Cron, codec.Range{})
	f.Duration("interval_ms", &s.Every)
	f.Time("anchor_ms", &s.Anchor)
	codeBlob(f, "timezone", &s.Zone, codec.Range{})
	codec.Enum(f, "overlap", &s.Overlap, overlapNames[:])
	codec.Enum(f, "catch_up", &s.CatchUp, catchUpNames[:])
	f.Int("catch_up_limit", &s.CatchUpLimit)
	f.Blob("input", &s.Input)
	f.Bool("starts_paused", &s.Paused)
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

// readSchedule returns a schedule and its run settings in the form for users.
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
		Paused: r.paused, Note: r.note, CreatedAt: time.UnixMilli(r.createdAt), UpdatedAt: time.UnixMilli(r.updatedAt),
		Last: time.UnixMilli(r.last),
		Next: timeUnless(r.next, 0, never), Buffered: timeUnless(r.buffered, 0),
		Ran: r.ran, Skipped: r.skipped, Missed: r.missed, Refused: r.refused,
	}
	if r.next == 0 && !r.paused { // the duty has not planned yet
		if c, err := cron.Parse(r.spec()); err == nil {
			s.Next = c.Next(s.Last)
		}
	}
	id := func(ref protocol.Ref) RunID { return runLocation{v.Shard(), ref}.id() }
	if r.begun {
		s.LastRun = id(r.run)
	}
	for i := len(r.ticks) - 1; i >= 0; i-- {
		t := &r.ticks[i]
		tick := Tick{At: timeUnless(t.at, 0), DecidedAt: time.UnixMilli(t.decided), Result: t.result, Error: t.message, Count: t.count}
		if t.run != (protocol.Ref{}) {
			tick.Run = id(t.run)
		}
		s.Ticks = append(s.Ticks, tick)
	}
	return s, err
}

// timeUnless converts ms to a time, or returns the zero time if ms is one of the special values.
func timeUnless(ms int64, none ...int64) time.Time {
	for _, n := range none {
		if ms == n {
			return time.Time{}
		}
	}
	return time.UnixMilli(ms)
}
