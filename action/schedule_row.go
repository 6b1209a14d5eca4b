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

// The rows of schedules. They are in the home shard of their action, and are deleted with it.
// action is its name, encoded by key.AppendString.
//
//	'c' | ns u32 | action | name             the run settings of a schedule (see plan)
//	'y' | ns u32 | action | name             its times and its state (see scheduleRow)
//	'p' | due | ns u32 | action | name       when the duty must check it (ms, as key.AppendInt64; 0: at once) -> nothing
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

// times is the stored form of a ScheduleSpec, without the run settings. Times are ms.
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

// sameTicks reports whether both have the same tick times.
func (t *times) sameTicks(o *times) bool {
	return t.cron == o.cron && t.zone == o.zone && t.every == o.every && t.anchor == o.anchor
}

// parse returns the parsed times. It reads time zones, so only callers and the duty may use it, and
// Apply must not.
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
// All ticks up to last are decided: each has run or is counted as not run. The next one is at next,
// which is after last. A command that decides a tick names the previous value of last, so no tick
// is decided twice or lost.
type scheduleRow struct {
	times
	id        uint64 // of the action
	revision  uint64 // LSN of the last change by a user
	paused    bool
	note      string // why floe paused it
	createdAt int64
	updatedAt int64
	last      int64
	next      int64 // 0: the duty has not planned yet; never: no further tick
	run       protocol.Ref
	begun     bool  // a run was started
	size      int64 // bytes of the plan
	buffered  int64 // tick waiting for the end of run; 0: none
	released  bool  // that run has ended: the duty must start the tick

	ran, skipped, missed, refused int64
	ticks                         []tick // last ticks, in the order of their decisions
}

// maxTicks is the number of decided ticks that a schedule keeps.
const maxTicks = 16

// tick is the stored form of Tick.
type tick struct {
	at      int64 // 0: of missed ticks, which have no single time
	decided int64
	result  TickResult
	count   int64 // number of missed ticks
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

// remember stores a decided tick, replacing the oldest one if necessary.
func (r *scheduleRow) remember(t tick) {
	if len(r.ticks) >= maxTicks {
		r.ticks = slices.Delete(r.ticks, 0, len(r.ticks)-maxTicks+1)
	}
	r.ticks = append(r.ticks, t)
}

// due returns when the duty must check the schedule, or never.
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

// schedulesKey is the key prefix of all schedules of an action, or of the whole namespace.
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

// scheduleAt decodes the part after the type of a key 'c' or 'y', or after the time of a key 'p'.
func scheduleAt(k []byte) (ns uint32, action, name string, ok bool) {
	if len(k) < 4 {
		return 0, "", "", false
	}
	a, n, ok := key.CutString(k[4:])
	return binary.BigEndian.Uint32(k), string(a), string(n), ok
}

// tickLayout is the format of the tick's time in the idempotency key of its run.
const tickLayout = "2006-01-02T15:04:05.999Z07:00"

const dueBehind = 9 // offset of the namespace in the key of a row 'p'
