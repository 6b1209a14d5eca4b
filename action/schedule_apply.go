package action

import (
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

func (w *work) deleteSchedule(c *scheduleName) error {
	s, err := w.findSchedule(c)
	if err == nil {
		s.delete()
	}
	return err
}

func (w *work) pauseSchedule(c *scheduleName) error {
	s, err := w.findSchedule(c)
	if err == nil {
		s.pause(c.flag, "")
	}
	return err
}

func (w *work) triggerSchedule(c *scheduleName) ([]byte, error) {
	s, err := w.findSchedule(c)
	if err != nil {
		return nil, err
	}
	return s.trigger()
}

func (w *work) findSchedule(c *scheduleName) (*scheduled, error) {
	s := w.schedule(w.name, c.name)
	if s == nil {
		return nil, noSchedule(w.name, c.name)
	}
	return s, nil
}

// scheduled is a schedule while a command changes it.
type scheduled struct {
	scheduleRow
	*work
	action, name string
	was          int64 // when the duty had to check it before the command
}

// schedule returns a schedule, nil if it does not exist.
func (w *work) schedule(action, name string) *scheduled {
	w.buf = scheduleKey(w.buf[:0], rowSchedule, w.tx.Namespace(), action, name)
	b, ok := w.tx.Get(w.buf)
	if !ok {
		return nil
	}
	r := must(decode(b, (*scheduleRow).code))
	return &scheduled{r, w, action, name, r.due()}
}

func (s *scheduled) key(kind byte) []byte {
	return scheduleKey(nil, kind, s.tx.Namespace(), s.action, s.name)
}

// save writes the schedule's row and updates its entry in the index of due schedules.
func (s *scheduled) save() {
	s.row = encode(s.row[:0], &s.scheduleRow, (*scheduleRow).code)
	s.tx.Set(s.key(rowSchedule), s.row)
	due := s.due()
	if due == s.was {
		return
	}
	s.unplan()
	if s.was = due; due == never {
		return
	}
	s.tx.Set(dueKey(nil, due, s.tx.Namespace(), s.action, s.name), nil)
	s.tx.Notify(dueTopic(), -1)
}

// unplan removes the schedule from the index of due schedules.
func (s *scheduled) unplan() {
	if s.was != never {
		s.tx.Delete(dueKey(nil, s.was, s.tx.Namespace(), s.action, s.name))
	}
}

// setSchedule creates or changes a schedule. An unchanged schedule has no effect, so programs may
// set it at every start.
func (w *work) setSchedule(c *scheduleBody) error {
	action := w.name
	a := w.action(action)
	if a == nil {
		return notFound(action)
	}
	plan := encode(nil, &c.plan, (*plan).code)
	now := w.tx.Now()
	s := w.schedule(action, c.name)
	if s == nil {
		if len(w.schedulesOf(action)) >= MaxSchedules {
			return engine.Errorf(ErrInvalid, "action %q has %d schedules already, the limit is %d", action, MaxSchedules, MaxSchedules)
		}
		s = &scheduled{scheduleRow{id: a.id, createdAt: now, paused: c.paused, last: now}, w, action, c.name, never}
	} else if old, _ := w.tx.Get(s.key(rowPlan)); s.times == c.times && string(old) == string(plan) {
		return nil
	}
	if !s.sameTicks(&c.times) {
		s.last, s.next = now, 0
	}
	if c.times.overlap != OverlapBuffer {
		s.dropBuffered()
	}
	s.times, s.size, s.revision, s.updatedAt = c.times, int64(len(plan)), uint64(w.tx.LSN()), now
	w.tx.Set(s.key(rowPlan), plan)
	s.save()
	return nil
}

// schedulesOf returns the names of an action's schedules, which are few.
func (w *work) schedulesOf(action string) (names []string) {
	prefix := schedulesKey(nil, rowSchedule, w.tx.Namespace(), action)
	it := w.tx.Iter(prefix, key.PrefixEnd(prefix))
	defer mustClose(it)
	for ok := it.First(); ok; ok = it.Next() {
		names = append(names, string(it.Key()[len(prefix):]))
	}
	return names
}

// dropSchedules deletes the schedules of an action that is being deleted.
func (w *work) dropSchedules(action string) {
	for _, name := range w.schedulesOf(action) {
		w.schedule(action, name).delete()
	}
}

// delete removes the schedule. Its runs continue.
func (s *scheduled) delete() {
	s.unplan()
	s.tx.Delete(s.key(rowPlan))
	s.tx.Delete(s.key(rowSchedule))
}

// pause pauses or resumes the schedule; resuming does not catch up. A tick waiting for a run to end
// is dropped.
func (s *scheduled) pause(paused bool, note string) {
	if s.paused == paused {
		return
	}
	s.paused, s.note = paused, note
	s.revision, s.updatedAt = uint64(s.tx.LSN()), s.tx.Now()
	if s.next = 0; !paused {
		s.last = s.tx.Now()
	}
	s.dropBuffered()
	s.save()
}

// dropBuffered skips the tick that waits for the previous run, if any.
func (s *scheduled) dropBuffered() {
	if s.buffered != 0 {
		s.decide(tick{at: s.buffered, result: TickSkipped})
		s.buffered, s.released = 0, false
	}
}

// tick decides ticks that the duty found due. It skips stale ticks, and returns an error if all are
// stale.
func (w *work) tick(due *[]dueTicks) ([]byte, error) {
	done := uint64(0)
	for i := range *due {
		d := &(*due)[i]
		s := w.schedule(d.action, d.name)
		if s == nil || !d.follows(&s.scheduleRow) {
			continue // the schedule was changed, or the tick is decided
		}
		done++
		if d.Problem != "" {
			s.pause(true, d.Problem)
			continue
		}
		s.comeAll(d)
		s.save()
	}
	if done == 0 {
		return nil, engine.Errorf(ErrConflict, "overtaken: the schedules have been changed, or their ticks decided")
	}
	return codec.AppendUvarint(nil, done), nil
}

// comeAll processes all due ticks of a schedule.
func (s *scheduled) comeAll(d *dueTicks) {
	if s.released {
		s.beginBuffered()
	}
	if d.Missed > 0 {
		s.decide(tick{result: TickMissed, count: d.Missed})
	}
	for _, at := range d.Run {
		s.come(at)
	}
	s.last, s.next = d.Last, d.Next
}

// come processes a tick: it starts a run, or applies the overlap policy if the previous run is
// active.
func (s *scheduled) come(at int64) {
	active := s.busy()
	switch {
	case active && (s.overlap == OverlapSkip || s.overlap == OverlapBuffer && s.buffered != 0):
		s.decide(tick{at: at, result: TickSkipped})
	case active && s.overlap == OverlapBuffer:
		s.buffered = at
		s.decide(tick{at: at, result: TickBuffered})
	default:
		before := s.run
		if s.begin(at) && active && s.overlap == OverlapReplace {
			s.cancelBefore(before, "replaced by the next tick of schedule "+s.name)
		}
	}
}

// begin starts the run of a tick, and reports whether the action accepted it.
func (s *scheduled) begin(at int64) (begun bool) {
	i, err := s.invoke(sourceSchedule + s.name + ":" + time.UnixMilli(at).UTC().Format(tickLayout))
	if err != nil {
		s.decide(tick{at: at, result: TickRefused, message: engine.Cut(err.Error(), maxScheduleMessage)})
		return false
	}
	s.run, s.begun = i.Ref, true
	s.decide(tick{at: at, result: TickRan, run: i.Ref})
	return true
}

// beginBuffered starts the buffered tick.
func (s *scheduled) beginBuffered() {
	at := s.buffered
	s.buffered, s.released = 0, false
	s.begin(at)
}

// invoke starts a run whose end is reported to the schedule. Errors are those of the action.
func (s *scheduled) invoke(idempotencyKey string) (invoked, error) {
	b, _ := s.tx.Get(s.key(rowPlan))
	p := must(decode(b, (*plan).code))
	s.tx.Step() // a command may start many runs, each identified by its LSN
	return s.work.begin(&protocol.Invoke{
		Name: s.action, Input: p.input, Priority: p.priority, Labels: p.labels, ConcurrencyKey: p.key, IdempotencyKey: idempotencyKey,
		Source: sourceSchedule + s.name,
		Notify: protocol.Notify{Machine: engine.MachineAction, Command: kindScheduledEnd, Token: s.token()},
	})
}

// token identifies the schedule in the End command of its run.
func (s *scheduled) token() []byte {
	t := codec.AppendString(codec.AppendString(nil, s.action), s.name)
	return codec.AppendBool(t, false) // unused
}

// decide counts a tick and stores it.
func (s *scheduled) decide(t tick) {
	t.decided = s.tx.Now()
	switch t.result {
	case TickRan, TickTriggered:
		s.ran++
	case TickSkipped:
		s.skipped++
	case TickRefused:
		s.refused++
	case TickMissed:
		s.missed += t.count
	}
	s.remember(t)
}

// busy reports whether the schedule's last run has not ended.
func (s *scheduled) busy() bool { return s.begun && s.active(s.run) }

// cancelBefore cancels the run before the one just started.
func (s *scheduled) cancelBefore(before protocol.Ref, reason string) {
	a := s.byID(before.Action)
	a.cancelRun(before, a.stateOf(before), reason)
}

// trigger starts a run now, regardless of the time and of a pause.
func (s *scheduled) trigger() ([]byte, error) {
	busy := s.busy()
	if busy && (s.overlap == OverlapSkip || s.overlap == OverlapBuffer) {
		return nil, engine.Errorf(ErrConflict, "schedule %q of action %q: run %s has not ended", s.name, s.action,
			runLocation{s.tx.Shard(), s.run}.id())
	}
	i, err := s.invoke("")
	if err != nil {
		return nil, err
	}
	if busy && s.overlap == OverlapReplace {
		s.cancelBefore(s.run, "replaced by a run of schedule "+s.name+" that was triggered")
	}
	s.run, s.begun = i.Ref, true
	s.decide(tick{at: s.tx.Now(), result: TickTriggered, run: i.Ref})
	s.save()
	return encode(nil, &i, (*invoked).code), nil
}

// scheduledEnd starts the tick that waited for the ended run. Many runs may end in one command. If
// the command has already written much, the duty starts the tick later.
func (w *work) scheduledEnd(end *protocol.End) ([]byte, error) {
	r := codec.NewReader(end.Token)
	action, name, _ := r.String(), r.String(), r.Bool()
	name = must(name, r.Done())
	s := w.schedule(action, name)
	if s == nil || s.run != end.Ref || s.buffered == 0 || s.released {
		return nil, nil
	}
	if s.released = w.tx.Full(); !s.released {
		s.beginBuffered()
	}
	s.save()
	return nil, nil
}
