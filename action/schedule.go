package action

import (
	"strings"
	"time"

	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
)

// Limits of schedules.
const (
	MaxSchedules       = 1000 // of an action
	MaxScheduleName    = 200  // bytes
	MaxCatchUp         = cron.MaxAll
	DefaultCatchUp     = 100
	maxScheduleMessage = 256 // of a refusal that is kept with a tick
	maxTimesBytes      = 256 // of a cron expression, and of a zone
	sourceSchedule     = "schedule:"
)

// Overlap is the policy for a tick whose predecessor's run is still pending or running.
type Overlap uint8

// The overlap policies.
const (
	OverlapSkip    Overlap = iota // skip the tick and count it as skipped
	OverlapBuffer                 // run after the previous run ends; at most one tick waits, further ones are skipped
	OverlapAllow                  // run in parallel
	OverlapReplace                // cancel the previous run and run
)

var overlapNames = [...]string{OverlapSkip: "skip", OverlapBuffer: "buffer", OverlapAllow: "allow", OverlapReplace: "replace"}

// String returns the name of the policy: skip, buffer, allow or replace.
func (o Overlap) String() string {
	if o > OverlapReplace {
		return "unknown"
	}
	return overlapNames[o]
}

// ParseOverlap returns the policy with the given name. Errors: ErrInvalid.
func ParseOverlap(name string) (Overlap, error) {
	for o, n := range overlapNames {
		if n == name {
			return Overlap(o), nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "action: unknown overlap policy %q, expected one of %s", name, strings.Join(overlapNames[:], ", "))
}

// CatchUp selects which ticks run after an outage, among those that came due while the node was
// down or its shard had no leader. The others are counted as missed. A paused schedule misses no
// ticks: after Resume it continues with the next one.
type CatchUp uint8

// The catch-up rules. They are those of internal/cron, in the same order.
const (
	CatchUpOne  CatchUp = iota // the last one, however late
	CatchUpNone                // the last one, if it is at most a minute late
	CatchUpAll                 // each of the last CatchUpLimit ones, oldest first; Overlap applies to them too
)

var catchUpNames = [...]string{CatchUpOne: "one", CatchUpNone: "none", CatchUpAll: "all"}

// String returns the name of the rule: one, none or all.
func (c CatchUp) String() string {
	if c > CatchUpAll {
		return "unknown"
	}
	return catchUpNames[c]
}

// ParseCatchUp returns the rule with the given name. Errors: ErrInvalid.
func ParseCatchUp(name string) (CatchUp, error) {
	for c, n := range catchUpNames {
		if n == name {
			return CatchUp(c), nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "action: unknown catch-up rule %q, expected one of %s", name, strings.Join(catchUpNames[:], ", "))
}

// ScheduleSpec defines when a schedule runs its action, and with which input and policies. Exactly
// one of Cron and Every is required.
type ScheduleSpec struct {
	// Cron is an expression of five fields (minute, hour, day of month, month, day of week), or six
	// with seconds first, or one of @yearly, @monthly, @weekly, @daily, @hourly and "@every 90s". A
	// field is a list of *, n and n-m, each optionally with /step. Months and weekdays have names,
	// ranges may wrap (FRI-MON), and Sunday is 0 and 7. An expression has up to 256 bytes. L is the
	// last day of a month, and L-n the day n days before it. MON#2 is the second Monday, and MON#L
	// the last one. If day of month and day of week are both restricted, one match is enough, as in
	// crontab(5).
	//
	// An expression for every hour follows elapsed time: "*/15 * * * *" runs every quarter of an
	// hour, even when clocks change. Other expressions name times of day. A time that the clocks
	// skip runs at the first instant after it, and a time that occurs twice runs the first time.
	Cron string
	// Every is an interval of at least a second, in whole milliseconds.
	Every time.Duration
	// Anchor is the time from which the intervals are counted, forward and backward; default
	// 1970-01-01 00:00 UTC. It is valid with Every only.
	Anchor time.Time
	// Zone is the time zone of Cron by its IANA name, such as "Europe/Berlin"; default UTC.
	Zone string

	Overlap      Overlap // default OverlapSkip
	CatchUp      CatchUp // default CatchUpOne
	CatchUpLimit int     // of CatchUpAll, 1 to MaxCatchUp; 0 means DefaultCatchUp

	// Input is the JSON input of each run; nil means none. The time of the tick is in the run's
	// idempotency key, "schedule:<name>:<time>".
	Input []byte
	// Paused creates the schedule paused. It has no effect on an existing schedule: see
	// Schedules.Pause.
	Paused bool
}

// Schedule is a schedule with its state and the results of its ticks. The caller may keep its
// bytes.
type Schedule struct {
	Name           string
	Action         string
	Spec           ScheduleSpec
	Priority       int // of the runs, as are the next two
	Labels         map[string]string
	ConcurrencyKey string

	Paused    bool
	Note      string // why floe paused it: its times could no longer be parsed; else ""
	CreatedAt time.Time
	UpdatedAt time.Time // when it was last set, paused or resumed
	Next      time.Time // the next tick; zero if none exists, or it is paused
	Last      time.Time // ticks up to this time are decided
	Buffered  time.Time // tick waiting for the previous run to end, see OverlapBuffer; zero if none
	LastRun   RunID     // "" if none has started

	Ran     int64  // runs started
	Skipped int64  // ticks skipped because of Overlap
	Missed  int64  // ticks missed, see CatchUp
	Refused int64  // ticks whose run the action rejected, for instance because it was disabled
	Ticks   []Tick // the last 16, newest first
}

// Tick is a decided tick of a schedule.
type Tick struct {
	At        time.Time // zero for TickMissed
	DecidedAt time.Time
	Result    TickResult
	Run       RunID  // of TickRan and TickTriggered
	Error     string // of TickRefused
	Count     int64  // of TickMissed: number of ticks
}

// TickResult is the result of a tick.
type TickResult uint8

// The results of ticks.
const (
	TickRan       TickResult = iota + 1 // its run was started
	TickTriggered                       // not a tick but Schedules.Trigger
	TickBuffered                        // waiting for the previous run to end
	TickSkipped                         // the previous run was still active
	TickRefused                         // the action rejected the run
	TickMissed                          // it could not run in time, see CatchUp
)

var tickNames = [...]string{
	TickRan: "ran", TickTriggered: "triggered", TickBuffered: "buffered", TickSkipped: "skipped", TickRefused: "refused",
	TickMissed: "missed",
}

// String returns the name of the result: ran, triggered, buffered, skipped, refused or missed.
func (r TickResult) String() string {
	if r < TickRan || r > TickMissed {
		return "unknown"
	}
	return tickNames[r]
}
