package stream

import (
	"cmp"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Mode is how the consumers of a group share the records.
type Mode uint8

// The modes of groups.
const (
	Shared    Mode = iota // any consumer gets any record
	Exclusive             // one consumer gets all records; when it leaves or is silent for the ack timeout, another takes over
	KeyShared             // records of a key go to one consumer at a time, in order; a key that is slow or fails does not block others
	numModes
)

var modeNames = [...]string{Shared: "shared", Exclusive: "exclusive", KeyShared: "key_shared"}

// String returns the mode's name.
func (m Mode) String() string {
	if m < numModes {
		return modeNames[m]
	}
	return "unknown"
}

// ParseMode parses a mode's name. Errors: ErrInvalid.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "stream: group mode %q is not shared, exclusive or key_shared", name)
}

// Defaults and limits of a group.
const (
	DefaultAckTimeout  = 30 * time.Second
	DefaultMaxAttempts = 5
	DefaultBackoffMin  = time.Second
	DefaultBackoffMax  = 5 * time.Minute
	MaxAttemptsLimit   = 1_000_000 // maximum of MaxAttempts
)

// groupConfig is the settings of a group.
type groupConfig struct {
	mode        Mode
	start       start
	ackTimeout  int64 // ms
	maxAttempts uint64
	backoffMin  int64 // ms, 0: no pause
	backoffMax  int64
}

// GroupOption is an option of Groups.Create, and of ReadGroup and Consume when they create the
// group.
type GroupOption interface{ applyGroup(*groupOptions) }

type groupOptions struct {
	groupConfig
	set settings // those set by options
	err error
}

type groupOption func(*groupOptions)

func (f groupOption) applyGroup(o *groupOptions)         { f(o) }
func (f groupOption) applyGroupRead(o *groupReadOptions) { f(&o.group) }

// ConfigOption is a GroupOption that ReadGroup and Consume accept too.
type ConfigOption interface {
	GroupOption
	GroupReadOption
	ConsumeOption
}

// SettingOption is a ConfigOption that Groups.Configure accepts too: a setting of a group that can
// be changed later.
type SettingOption interface {
	ConfigOption
	applySetting(*groupOptions)
}

type settingOption struct{ groupOption }

func (s settingOption) applySetting(o *groupOptions) { s.groupOption(o) }

// setting returns the option for one of the settings.
func setting(which settings, f func(*groupOptions)) SettingOption {
	return settingOption{func(o *groupOptions) {
		o.set |= which
		f(o)
	}}
}

// InMode sets the mode of the group; the default is Shared.
func InMode(m Mode) ConfigOption {
	return groupOption(func(o *groupOptions) { o.mode = m })
}

// AckTimeout sets the time after which an unacknowledged record is redelivered. The default is 30
// s, the minimum 1 ms, the maximum 30 days.
func AckTimeout(d time.Duration) SettingOption {
	return setting(setAckTimeout, func(o *groupOptions) {
		o.ackTimeout = millis(d)
		if d < time.Millisecond || o.ackTimeout > maxGroupMillis {
			o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: ack timeout %v is not in 1ms-%v", d, maxGroupTime))
		}
	})
}

// MaxAttempts sends a record to the dead-letter stream after n failed deliveries. The default is 5,
// the maximum 1,000,000; 0 means no limit. A delivery that ended because the consumer left (Leave)
// does not count. In a KeyShared group, neither does one that was taken back because an earlier
// record of the key failed.
func MaxAttempts(n int) SettingOption {
	return setting(setMaxAttempts, func(o *groupOptions) { o.maxAttempts = uint64(n) })
}

// Backoff sets the pause before a record is redelivered: minimum after the first attempt, doubled
// after each further one, up to maximum. The default is 1 s to 5 min, the maximum 30 days; 0 means
// no pause.
func Backoff(minimum, maximum time.Duration) SettingOption {
	return setting(setBackoff, func(o *groupOptions) {
		o.backoffMin, o.backoffMax = millis(minimum), millis(maximum)
		switch {
		case minimum < 0 || o.backoffMin > maxGroupMillis:
			o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: min back-off %v is not in 0s-%v", minimum, maxGroupTime))
		case maximum < 0 || o.backoffMax > maxGroupMillis:
			o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: max back-off %v is not in 0s-%v", maximum, maxGroupTime))
		case minimum > maximum:
			o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: min back-off %v exceeds max back-off %v", minimum, maximum))
		}
	})
}

func (s StartOption) applyGroup(o *groupOptions)         { o.start = s.start }
func (s StartOption) applyGroupRead(o *groupReadOptions) { o.group.start = s.start }
func (NewOption) applyGroup(o *groupOptions)             { o.start = start{kind: startEnd} }
func (NewOption) applyGroupRead(o *groupReadOptions)     { o.group.start = start{kind: startEnd} }

// SeekOption is the position to which Seek moves a group: From, After, FromTime, FromBeginning,
// FromEnd.
type SeekOption interface {
	GroupOption
	seeks()
}

func (StartOption) seeks() {}
func (NewOption) seeks()   {}

// SeekPartOption limits Seek to part of a stream: Partition.
type SeekPartOption interface{ applySeek(*seekOptions) }

type seekOptions struct {
	partition int // partition plus 1; 0: all
	err       error
}

func (p PartitionOption) applySeek(o *seekOptions) {
	o.partition, o.err = p.partition+1, firstError(o.err, p.check())
}

func seekOptionsOf(opts []SeekPartOption) (o seekOptions) {
	given, err := engine.Given(opts)
	for _, opt := range given {
		opt.applySeek(&o)
	}
	o.err = cmp.Or(err, o.err)
	return o
}

// Limits of a group's settings.
const (
	maxGroupTime   = 30 * 24 * time.Hour
	maxGroupMillis = int64(maxGroupTime / time.Millisecond)
)

// millis returns a duration in ms, rounded up.
func millis(d time.Duration) int64 {
	n := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		n++ // adding first would overflow for the longest durations
	}
	return n
}

func defaultGroup() groupOptions {
	return groupOptions{groupConfig: groupConfig{
		ackTimeout: millis(DefaultAckTimeout), maxAttempts: DefaultMaxAttempts,
		backoffMin: millis(DefaultBackoffMin), backoffMax: millis(DefaultBackoffMax),
	}}
}

func groupOptionsOf(opts []GroupOption) groupOptions {
	o := defaultGroup()
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyGroup(&o)
	}
	return o
}

// GroupReadOption is an option of ReadGroup.
type GroupReadOption interface{ applyGroupRead(*groupReadOptions) }

type groupReadOptions struct {
	group groupOptions
	limit int
	wait  time.Duration
	noAck bool
	err   error

	existing bool // do not create the group
}

// NoAckOption is the option of NoAck; ReadGroup and Consume accept it.
type NoAckOption struct{}

// NoAck acknowledges records on delivery: each is delivered at most once.
func NoAck() NoAckOption { return NoAckOption{} }

func (NoAckOption) applyGroupRead(o *groupReadOptions) { o.noAck = true }

func (l LimitOption) applyGroupRead(o *groupReadOptions) { o.limit = engine.LimitIn(l.limitOption) }

func (w WaitOption) applyGroupRead(o *groupReadOptions) {
	o.wait, o.err = w.d, firstError(o.err, w.check())
}

func groupReadOptionsOf(opts []GroupReadOption) groupReadOptions {
	o := groupReadOptions{group: defaultGroup(), limit: defaultReadLimit}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyGroupRead(&o)
	}
	o.err = firstError(o.err, o.group.err)
	return o
}

// NackOption is an option of Nack.
type NackOption interface{ applyNack(*nackOptions) }

type nackOptions struct {
	delay  int64 // ms, or one of the following
	reason string
	err    error
}

// Values of delay for records without a Delay.
const (
	byBackoff = -1 // redelivered after the group's back-off
	toDLQ     = -2 // sent to the dead letters
)

type nackOption func(*nackOptions)

func (f nackOption) applyNack(o *nackOptions) { f(o) }

// Delay sets the pause before the records are redelivered, at most 30 days, instead of the group's
// back-off. 0 means at once.
func Delay(d time.Duration) NackOption {
	return nackOption(func(o *nackOptions) {
		if o.delay == toDLQ {
			o.err = firstError(o.err, errDelayAndDLQ)
		}
		if o.delay = millis(d); d < 0 || o.delay > maxGroupMillis {
			o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: delay %v is not in 0s-%v", d, maxGroupTime))
		}
	})
}

// ToDLQ sends the records to the dead-letter stream, as if this had been their last attempt. It
// cannot be combined with Delay. Records that do not fit into one command are redelivered after the
// back-off.
func ToDLQ() NackOption {
	return nackOption(func(o *nackOptions) {
		if o.delay >= 0 {
			o.err = firstError(o.err, errDelayAndDLQ)
		}
		o.delay = toDLQ
	})
}

// Reason gives the reason that dead letters show: up to 1,024 bytes of text are kept.
func Reason(text string) NackOption {
	return nackOption(func(o *nackOptions) { o.reason = text[:min(len(text), maxReasonBytes)] })
}

var errDelayAndDLQ = engine.Errorf(ErrInvalid, "stream: delay and dead letter are mutually exclusive")

const maxReasonBytes = 1024

func nackOptionsOf(opts []NackOption) nackOptions {
	o := nackOptions{delay: byBackoff}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyNack(&o)
	}
	return o
}
