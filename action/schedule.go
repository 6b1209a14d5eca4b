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
	maxScheduleMessage = 256 // of a refusal that is remembered with a tick
	maxTimesBytes      = 256 // of a cron expression, and of a zone
	sourceSchedule     = "schedule:"
)

// Overlap says what a tick does while the run of the tick before is still pending or running.
type Overlap uint8

// The policies of overlap.
const (
	OverlapSkip    Overlap = iota // it is left out, and counted as skipped
	OverlapBuffer                 // it runs when that has ended; one waits at most, further ones are skipped
	OverlapAllow                  // it runs beside it
	OverlapReplace                // that is cancelled, and it runs
)

var overlapNames = [...]string{OverlapSkip: "skip", OverlapBuffer: "buffer", OverlapAllow: "allow", OverlapReplace: "replace"}

// String returns the name of the policy: skip, buffer, allow or replace.
func (o Overlap) String() string {
	if o > OverlapReplace {
		return "unknown"
	}
	return overlapNames[o]
}

// ParseOverlap returns the policy with a name. Errors: ErrInvalid.
func ParseOverlap(name string) (Overlap, error) {
	for o, n := range overlapNames {
		if n == name {
			return Overlap(o), nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "action: %q is no policy of overlap: %s", name, strings.Join(overlapNames[:], ", "))
}

// CatchUp says which ticks run of those that have come due while nobody could run them, because the
// node was down or its shard had no leader. What does not run is counted as missed. Pausing a
// schedule misses nothing: when it is resumed it goes on with the next tick.
type CatchUp uint8

// The rules of catching up. They are those of internal/cron, in its order.
const (
	CatchUpOne  CatchUp = iota // the last one, however late
	CatchUpNone                // the last one, if it is not more than a minute late
	CatchUpAll                 // each of the last CatchUpLimit ones, oldest first; what Overlap says goes for them too
)

var catchUpNames = [...]string{CatchUpOne: "one", CatchUpNone: "none", CatchUpAll: "all"}

// String returns the name of the rule: one, none or all.
func (c CatchUp) String() string {
	if c > CatchUpAll {
		return "unknown"
	}
	return catchUpNames[c]
}

// ParseCatchUp returns the rule with a name. Errors: ErrInvalid.
func ParseCatchUp(name string) (CatchUp, error) {
	for c, n := range catchUpNames {
		if n == name {
			return CatchUp(c), nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "action: %q is no rule of catching up: %s", name, strings.Join(catchUpNames[:], ", "))
}

// ScheduleSpec says when a schedule runs its action, and what with. Exactly one of Cron and Every
// is needed.
type ScheduleSpec struct {
	// Cron is an expression of five fields (minute, hour, day of month, month, day of week), or six
	// with seconds in front, or one of @yearly, @monthly, @weekly, @daily, @hourly and "@every
	// 90s". A field is a list of *, n and n-m, with /step; months and weekdays have names, ranges
	// may wrap (FRI-MON), Sunday is 0 and 7. It has up to 256 bytes. The last day of a month is L,
	// n days before it L-n; the second Monday is MON#2, the last MON#L. If day of month and day of
	// week are both restricted, one of them is enough, as in crontab(5).
	//
	// An expression for every hour follows real time: "*/15 * * * *" runs each quarter of an hour
	// also when clocks change. Any other one names times of a day: one that clocks skip runs at the
	// first instant after, one that they show twice runs the first time.
	Cron string
	// Every is an interval of at least a second, in whole milliseconds.
	Every time.Duration
	// Anchor is a time from which the intervals are counted, forth and back; default 1970-01-01
	// 00:00 UTC. It goes with Every only.
	Anchor time.Time
	// Zone is the time zone of Cron by its name in the IANA database, such as "Europe/Berlin";
	// default UTC.
	Zone string

	Overlap      Overlap // default OverlapSkip
	CatchUp      CatchUp // default CatchUpOne
	CatchUpLimit int     // of CatchUpAll, 1 to MaxCatchUp; 0 means DefaultCatchUp

	// Input is the JSON that each run gets; nil is none. The time of the tick is in the run's
	// idempotency key, "schedule:<name>:<time>".
	Input []byte
	// Paused makes a schedule that is paused. One that is there already stays as it is: see
	// Schedules.Pause.
	Paused bool
}

// Schedule is a schedule with what has become of its ticks. Its bytes are the caller's to keep.
type Schedule struct {
	Name           string
	Action         string
	Spec           ScheduleSpec
	Priority       int // of the runs, as the following
	Labels         map[string]string
	ConcurrencyKey string

	Paused    bool
	Note      string // why floe itself has paused it: its times could not be read any more; else ""
	CreatedAt time.Time
	UpdatedAt time.Time // when it was last set, paused or resumed
	Next      time.Time // the next tick; zero if there is none, or it is paused
	Last      time.Time // until when ticks are decided
	Buffered  time.Time // the tick that waits for the end of the run before, see OverlapBuffer; zero if none
	LastRun   RunID     // "" if none has begun

	Ran     int64  // runs begun
	Skipped int64  // ticks left out because of Overlap
	Missed  int64  // ticks left out because of CatchUp
	Refused int64  // ticks whose run the action has refused, because it was disabled for instance
	Ticks   []Tick // the last 16, newest first
}

// Tick is what has become of a tick of a schedule.
type Tick struct {
	At        time.Time // zero for TickMissed
	DecidedAt time.Time
	Result    TickResult
	Run       RunID  // of TickRan and TickTriggered
	Error     string // of TickRefused
	Count     int64  // of TickMissed: how many
}

// TickResult is what became of a tick.
type TickResult uint8

// The results of ticks.
const (
	TickRan       TickResult = iota + 1 // its run was begun
	TickTriggered                       // it was no tick, but Schedules.Trigger
	TickBuffered                        // it waits for the end of the run before
	TickSkipped                         // that was still active
	TickRefused                         // the action has refused the run
	TickMissed                          // nobody could run it, see CatchUp
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
