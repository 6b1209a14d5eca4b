package workflow

import (
	"fmt"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/schedule"
)

// A workflow's schedule is that of its default version. It lives in the workflow's home shard,
// where its runs also start. A duty computes when ticks are due; see package schedule.

// scheduleRow is the value of a row 'j'. All times are ms.
type scheduleRow struct {
	times    times
	most     int64 // maximum number of active runs; 0: no limit
	input    []byte
	revision uint64 // LSN of the last change by a user
	paused   bool
	off      bool   // the workflow is disabled
	note     string // why floe paused it
	last     int64  // ticks up to this time are decided
	next     int64  // next tick, never, or 0: the duty has not planned yet
	active   int64  // active runs started by the schedule

	started, skipped, missed, refused int64
}

// times defines when a schedule ticks.
type times struct {
	cron    string
	zone    string
	every   int64
	catchUp uint8
	limit   int64
}

func (r *scheduleRow) code(c *codec.Coder) {
	version(c, "schedule")
	t := &r.times
	c.String(&t.cron)
	c.String(&t.zone)
	c.Varint(&t.every)
	c.Byte(&t.catchUp)
	c.Varint(&t.limit)
	c.Varint(&r.most)
	c.Bytes(&r.input)
	c.Uvarint(&r.revision)
	c.Bool(&r.paused)
	c.Bool(&r.off)
	c.String(&r.note)
	c.Varint(&r.last)
	c.Deadline(&r.next)
	for _, v := range [...]*int64{&r.active, &r.started, &r.skipped, &r.missed, &r.refused} {
		c.Varint(v)
	}
}

// due returns when the duty must check the schedule, or never.
func (r *scheduleRow) due() int64 {
	if !r.ticks() {
		return never
	}
	return r.next
}

func (r *scheduleRow) ticks() bool { return !r.paused && !r.off }

func (t *times) spec() cron.Spec {
	return cron.Spec{Cron: t.cron, Zone: t.zone, Every: time.Duration(t.every) * time.Millisecond}
}

// dueKey is the key of a row 'm'.
func dueKey(at int64, id uint64) []byte {
	return key.AppendUint64(key.AppendInt64([]byte{rowDue}, at), id)
}

// dueTopic is notified when a schedule must be checked earlier than planned.
func dueTopic() engine.Topic { return engine.TopicOf(engine.MachineWorkflow, "", []byte("schedules")) }

// calendar is a schedule while a command changes it.
type calendar struct {
	scheduleRow
	*openWorkflow
	was    int64 // when the duty had to check it before the command
	ticked bool  // likewise, whether it was counted
}

// calendar returns the schedule of the workflow, nil if it has none.
func (k *openWorkflow) calendar() *calendar {
	b, ok := k.tx.Get(numberKey(nil, rowSchedule, k.id))
	if !ok {
		return nil
	}
	r := must(decode(b, (*scheduleRow).code))
	return &calendar{r, k, r.due(), r.ticks()}
}

// save writes the schedule and updates its entry in the index of due schedules.
func (c *calendar) save() {
	c.tx.Set(numberKey(nil, rowSchedule, c.id), encode(nil, &c.scheduleRow, (*scheduleRow).code))
	c.keep(c.due(), c.ticks())
}

// keep updates the index and the counter from the schedule.
func (c *calendar) keep(due int64, ticks bool) {
	if ticks != c.ticked {
		n := int64(1)
		if !ticks {
			n = -1
		}
		c.tx.Count(countSchedules, n)
		c.ticked = ticks
	}
	if due == c.was {
		return
	}
	if c.was != never {
		c.tx.Delete(dueKey(c.was, c.id))
	}
	if c.was = due; due != never {
		c.tx.Set(dueKey(due, c.id), nil)
		c.tx.Notify(dueTopic(), -1)
	}
}

// reschedule sets the schedule of the new default version. An unchanged schedule continues without
// interruption.
func (k *openWorkflow) reschedule(s *flow.Schedule) {
	c := k.calendar()
	if s == nil {
		if c != nil {
			c.drop()
		}
		return
	}
	said := times{s.Cron, s.Zone, s.Every, s.CatchUp, s.CatchUpLimit}
	if c == nil {
		c = &calendar{scheduleRow{off: !k.enabled, paused: s.Paused}, k, never, false}
	}
	if c.times != said || c.revision == 0 {
		if c.paused && c.note != "" {
			c.paused = s.Paused // floe paused it because of the old times
		}
		c.times, c.note, c.last, c.next = said, "", k.tx.Now(), 0
	}
	c.most, c.input, c.revision = s.Most, s.Input, uint64(k.tx.LSN())
	c.save()
}

// drop removes the schedule. Its runs continue.
func (c *calendar) drop() {
	c.keep(never, false)
	c.tx.Delete(numberKey(nil, rowSchedule, c.id))
	prefix := numberKey(nil, rowTicked, c.id)
	c.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
}

// turn pauses or resumes the schedule. Resuming does not catch up.
func (c *calendar) turn(paused, off bool, note string) {
	if c.paused == paused && c.off == off {
		return
	}
	c.paused, c.off, c.note, c.revision = paused, off, note, uint64(c.tx.LSN())
	if c.ticks() {
		c.next = 0
		c.last = c.tx.Now()
	}
	c.save()
}

// pauseSchedule pauses or resumes the schedule of a workflow.
func (w *work) pauseSchedule(paused *bool) error {
	k := w.workflow(w.subject)
	if k == nil {
		return notFound(w.subject)
	}
	c := k.calendar()
	if c == nil {
		return engine.Errorf(ErrNotFound, "workflow %q has no schedule", k.name)
	}
	c.turn(*paused, c.off, "")
	return nil
}

// dueTicks are ticks of a schedule that the duty found due.
type dueTicks struct {
	id uint64
	schedule.Due
}

func (d *dueTicks) code(c *codec.Coder) {
	c.Uvarint(&d.id)
	d.Due.Code(c, false)
}

// tick decides ticks that the duty found due. It skips stale ticks, and returns an error if all are
// stale.
func (w *work) tick(due *[]dueTicks) ([]byte, error) {
	done := false
	for i := range *due {
		d := &(*due)[i]
		k := w.byID(d.id)
		if k == nil || k.deleted {
			continue
		}
		c := k.calendar()
		if c == nil || !c.ticks() || !d.Follows(c.revision, c.last) {
			continue
		}
		done = true
		if d.Problem != "" {
			c.turn(true, c.off, d.Problem)
			continue
		}
		for _, at := range d.Run {
			c.come(at)
		}
		c.missed += d.Missed
		c.last, c.next = d.Last, d.Next
		c.save()
	}
	if !done {
		return nil, engine.Errorf(ErrConflict, "overtaken: the schedules have been changed, or their ticks decided")
	}
	return nil, nil
}

// come processes a tick: it starts a run, unless too many are active.
func (c *calendar) come(at int64) {
	if c.most > 0 && c.active >= c.most {
		c.skipped++
		return
	}
	lsn := c.tx.Step() // a command may start many runs, each identified by its LSN
	token := scheduledRun{c.id, uint64(lsn)}
	_, err := c.startRun(c.name, &startBody{
		source: sourceSchedule, key: time.UnixMilli(at).UTC().AppendFormat([]byte(sourceSchedule+":"), tickLayout), input: c.input,
		notify: protocol.Notify{Machine: engine.MachineWorkflow, Command: kindScheduledEnd,
			Token: encode(nil, &token, (*scheduledRun).code)},
	})
	if err != nil {
		c.refused++
		c.note = engine.Cut(err.Error(), maxDetail)
		return
	}
	c.started++
	c.active++
	c.tx.Insert(tickedKey(&token), nil)
}

const (
	sourceSchedule = "schedule"
	tickLayout     = "2006-01-02T15:04:05.999Z07:00"
)

// scheduledRun identifies a run that a schedule started.
type scheduledRun struct{ id, run uint64 }

func (r *scheduledRun) code(c *codec.Coder) {
	c.Uvarint(&r.id)
	c.Uvarint(&r.run)
}

func tickedKey(r *scheduledRun) []byte {
	return key.AppendUint64(numberKey(nil, rowTicked, r.id), r.run)
}

// scheduledEnd counts the end of a run. If its schedule has been removed, the end is not counted.
func (w *work) scheduledEnd(e *protocol.End) ([]byte, error) {
	run := must(decode(e.Token, (*scheduledRun).code))
	if _, ok := w.tx.Get(tickedKey(&run)); !ok {
		return nil, nil
	}
	k := w.byID(run.id)
	if k == nil || k.deleted {
		return nil, nil
	}
	c := k.calendar()
	if c == nil {
		panic(fmt.Sprintf("workflow %d: run %d is of a schedule, which has no row", run.id, run.run))
	}
	c.tx.Delete(tickedKey(&run))
	c.active--
	c.save()
	return nil, nil
}
