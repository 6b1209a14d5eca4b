package action

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// The rows of schedules. They are in the home shard of their action, and end with it; action is the
// name of one, as key.AppendString.
//
//	'c' | ns u32 | action | name             what a schedule runs (see plan)
//	'y' | ns u32 | action | name             when, and what has become of it (see scheduleRow)
//	'p' | due | ns u32 | action | name       when the duty has to look at it (ms, as key.AppendInt64; 0: at once) -> nothing
//
// A schedule that is paused, or has no tick to come, has no row 'p'.
const (
	rowPlan     = 'c'
	rowDue      = 'p'
	rowSchedule = 'y'
)

// plan is the value of a row 'c'.
type plan struct {
	priority uint8
	labels   []byte
	key      string
	input    []byte
}

func (p *plan) code(c *codec.Coder) {
	version(c, "plan")
	c.Byte(&p.priority)
	c.Bytes(&p.labels)
	c.String(&p.key)
	c.Bytes(&p.input)
}

// times is a ScheduleSpec as it is kept, but for what is run. Times are ms.
type times struct {
	cron    string
	zone    string
	every   int64
	anchor  int64
	overlap Overlap
	catchUp CatchUp
	limit   int64 // of CatchUpAll
}

func (t *times) code(c *codec.Coder) {
	c.String(&t.cron)
	c.String(&t.zone)
	c.Varint(&t.every)
	c.Varint(&t.anchor)
	c.Byte((*byte)(&t.overlap))
	c.Byte((*byte)(&t.catchUp))
	c.Varint(&t.limit)
	if t.overlap > OverlapReplace || t.catchUp > CatchUpAll {
		c.Fail(fmt.Sprintf("overlap %d, catch-up %d", t.overlap, t.catchUp))
	}
}

// sameTicks reports whether two come due at the same times.
func (t *times) sameTicks(o *times) bool {
	return t.cron == o.cron && t.zone == o.zone && t.every == o.every && t.anchor == o.anchor
}

// parse returns the times. It reads time zones: it is for callers and for the duty, not for Apply.
func (t *times) parse() (*cron.Schedule, error) {
	s, err := cron.Parse(t.spec())
	if err != nil {
		return nil, engine.Errorf(ErrInvalid, "action: schedule: %v", err)
	}
	return s, nil
}

func (t *times) spec() cron.Spec {
	return cron.Spec{Cron: t.cron, Every: duration(t.every), Anchor: anchorTime(t.anchor), Zone: t.zone}
}

// scheduleRow is the value of a row 'y'.
//
// Of all its ticks, those until last are decided: each has run, or is counted as one that has not.
// The next one is at next, which is behind last. A tick is decided by a command that says until
// when those before it had been, so none is decided twice, and none is left out.
type scheduleRow struct {
	times
	id        uint64 // of the action
	revision  uint64 // the LSN of its last change by a user
	paused    bool
	note      string // why floe has paused it
	createdAt int64
	updatedAt int64
	last      int64
	next      int64 // 0: the duty has not planned yet; never: there is none
	run       protocol.Ref
	begun     bool  // there is a run
	size      int64 // bytes of the plan
	buffered  int64 // the tick that waits for the end of run; 0: none
	released  bool  // that has ended: the duty is to have the tick run

	ran, skipped, missed, refused int64
	ticks                         []tick // the last ones, in the order in which they were decided
}

// maxTicks is how many decided ticks a schedule remembers.
const maxTicks = 16

// tick is a Tick as it is kept.
type tick struct {
	at      int64 // 0: of missed ones, which have no single time
	decided int64
	result  TickResult
	count   int64 // of missed ones
	run     protocol.Ref
	message string
}

func (t *tick) code(c *codec.Coder) {
	for _, v := range [...]*int64{&t.at, &t.decided, &t.count} {
		c.Varint(v)
	}
	c.Byte((*byte)(&t.result))
	t.run.Code(c)
	c.String(&t.message)
	if t.result < TickRan || t.result > TickMissed {
		c.Fail(fmt.Sprintf("result %d of a tick", t.result))
	}
}

func (r *scheduleRow) code(c *codec.Coder) {
	version(c, "schedule")
	r.times.code(c)
	c.Uvarint(&r.id)
	c.Uvarint(&r.revision)
	c.Bool(&r.paused)
	c.String(&r.note)
	c.Varint(&r.createdAt)
	c.Varint(&r.updatedAt)
	c.Varint(&r.last)
	c.Deadline(&r.next)
	r.run.Code(c)
	c.Bool(&r.begun)
	for _, v := range [...]*int64{&r.size, &r.buffered, &r.ran, &r.skipped, &r.missed, &r.refused} {
		c.Varint(v)
	}
	c.Bool(&r.released)
	codec.List(c, &r.ticks, func(c *codec.Coder, t *tick) { t.code(c) })
}

// remember keeps a decided tick, in place of the oldest one.
func (r *scheduleRow) remember(t tick) {
	if len(r.ticks) >= maxTicks {
		r.ticks = slices.Delete(r.ticks, 0, len(r.ticks)-maxTicks+1)
	}
	r.ticks = append(r.ticks, t)
}

// due returns when the duty has to look at it, or never.
func (r *scheduleRow) due() int64 {
	switch {
	case r.paused:
		return never
	case r.released:
		return 0
	}
	return r.next
}

func scheduleKey(dst []byte, kind byte, ns uint32, action, name string) []byte {
	return append(schedulesKey(dst, kind, ns, action), name...)
}

// schedulesKey is what the keys of all schedules of an action begin with, or of all of the
// namespace.
func schedulesKey(dst []byte, kind byte, ns uint32, action string) []byte {
	dst = key.AppendUint32(append(dst, kind), ns)
	if action == "" {
		return dst
	}
	return key.AppendString(dst, []byte(action))
}

func dueKey(dst []byte, due int64, ns uint32, action, name string) []byte {
	dst = key.AppendUint32(key.AppendInt64(append(dst, rowDue), due), ns)
	return append(key.AppendString(dst, []byte(action)), name...)
}

// scheduleAt reads what stands behind the kind in the key of a row 'c' or 'y', and behind the time
// in that of a row 'p'.
func scheduleAt(k []byte) (ns uint32, action, name string, ok bool) {
	if len(k) < 4 {
		return 0, "", "", false
	}
	a, n, ok := key.CutString(k[4:])
	return binary.BigEndian.Uint32(k), string(a), string(n), ok
}

// tickLayout is how the idempotency key of a run says which tick it is.
const tickLayout = "2006-01-02T15:04:05.999Z07:00"

const dueBehind = 9 // where the namespace begins in the key of a row 'p'
