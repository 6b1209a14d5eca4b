package action

import (
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// RegisterOption is an option of Register.
type RegisterOption interface{ applyRegister(*registerOptions) }

type registerOption func(*registerOptions)

func (f registerOption) applyRegister(o *registerOptions) { f(o) }

// AttemptOption is an option of Register, for all runs of the action, and of Invoke, for one run.
type AttemptOption struct {
	register func(*registerOptions)
	invoke   func(*invokeOptions)
}

func (a AttemptOption) applyRegister(o *registerOptions) {
	if a.register == nil {
		o.fail(engine.Errorf(ErrInvalid, "action: an option that no function of the package made"))
		return
	}
	a.register(o)
}

func (a AttemptOption) applyInvoke(o *invokeOptions) {
	if a.invoke == nil {
		o.fail(engine.Errorf(ErrInvalid, "action: an option that no function of the package made"))
		return
	}
	a.invoke(o)
}

type registerOptions struct {
	spec spec
	err  error
}

func (o *registerOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// Owner sets the owner of the action, in up to 1,024 bytes.
func Owner(owner string) RegisterOption {
	return registerOption(func(o *registerOptions) { o.spec.owner = owner })
}

// Description sets the description of the action, in up to 1,024 bytes.
func Description(text string) RegisterOption {
	return registerOption(func(o *registerOptions) { o.spec.description = text })
}

// Timeout limits the duration of an attempt. The default is 30 s, or, for a run, the timeout of its
// action. A handler that needs longer can call Task.Extend. The time also passes while no node is
// reachable, so a result that cannot be delivered in time does not count.
func Timeout(d time.Duration) AttemptOption {
	fail := func(fail func(error)) {
		if d <= 0 {
			fail(engine.Errorf(ErrInvalid, "action: timeout %v is not positive", d))
		}
	}
	return AttemptOption{
		func(o *registerOptions) { fail(o.fail); o.spec.timeout = millis(d) },
		func(o *invokeOptions) { fail(o.fail); o.Timeout = millis(d) },
	}
}

// MaxAttempts sets how many attempts a run has in all, 1 to 1,000,001. The default is 4; a run's
// default is its action's setting.
func MaxAttempts(n int) AttemptOption {
	check := func(fail func(error)) {
		if n < 1 || n > MaxAttemptsLimit {
			fail(engine.Errorf(ErrInvalid, "action: max attempts of %d is not in 1-%d", n, MaxAttemptsLimit))
		}
	}
	return AttemptOption{
		func(o *registerOptions) { check(o.fail); o.spec.maxRetries = int64(n) - 1 },
		func(o *invokeOptions) { check(o.fail); o.MaxAttempts = int64(n) },
	}
}

// Backoff sets the delay before the second attempt of a run. Each further delay is twice as long,
// up to the longest, minus a random part of up to a quarter. The default is 1 s to 5 min. If
// shortest is 0 there is no delay, regardless of longest.
func Backoff(shortest, longest time.Duration) RegisterOption {
	return registerOption(func(o *registerOptions) {
		if shortest < 0 || longest < shortest {
			o.fail(engine.Errorf(ErrInvalid, "action: invalid back-off of %v to %v", shortest, longest))
		}
		o.spec.backoffMin, o.spec.backoffMax = millis(shortest), millis(longest)
	})
}

// Retain sets how long ended runs are kept, and how many of them. Beyond that the oldest are
// removed in batches, so up to 1 % more, but at most 64, may be kept. The default is 7 days and
// 10,000 runs. In a spread namespace the number applies to each shard.
func Retain(d time.Duration, runs int) RegisterOption {
	return registerOption(func(o *registerOptions) {
		if d <= 0 {
			o.fail(engine.Errorf(ErrInvalid, "action: retention %v is not positive", d))
		}
		o.spec.retainFor, o.spec.retainRuns = millis(d), int64(runs)
	})
}

// MaxRunning limits the concurrent runs of the action, over all workers; 0 means no limit. A
// cancelled run counts until its handler has returned. In a spread namespace all runs under a limit
// are in one shard, that of the action's name. Runs invoked in other shards before the limit was
// set do not count.
func MaxRunning(n int) RegisterOption {
	return registerOption(func(o *registerOptions) { o.spec.maxRunning = int64(n) })
}

// MaxRunningPerKey limits the concurrent runs with one ConcurrencyKey; 0 means no limit. Runs with
// other keys are not delayed.
func MaxRunningPerKey(n int) RegisterOption {
	return registerOption(func(o *registerOptions) { o.spec.maxPerKey = int64(n) })
}

// RateLimit limits how many runs of the action start, including attempts after the first one. It
// works in steps of 10 ms: the runs allowed in one step may start at once, in addition to the
// Burst. Limit and Burst are at most 1,000,000, and Per is at most 366 days.
func RateLimit(r Rate) RegisterOption {
	return registerOption(func(o *registerOptions) {
		if r.Burst == 0 {
			r.Burst = r.Limit
		}
		if r.Per < 0 || r.Limit > 0 && r.Per == 0 {
			o.fail(engine.Errorf(ErrInvalid, "action: invalid rate limit of %d runs per %v", r.Limit, r.Per))
		}
		o.spec.rate = rate{int64(r.Limit), millis(r.Per), int64(r.Burst)}
	})
}

// DeleteOption is an option of Delete.
type DeleteOption interface{ applyDelete(force *bool) }

type forceOption struct{}

func (forceOption) applyDelete(force *bool) { *force = true }

// Force deletes an action even if it has active runs, which are cancelled.
func Force() DeleteOption { return forceOption{} }

// InvokeOption is an option of Invoke.
type InvokeOption interface{ applyInvoke(*invokeOptions) }

type invokeOptions struct {
	protocol.Invoke
	err error
}

func (o *invokeOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

type invokeOption func(*invokeOptions)

func (f invokeOption) applyInvoke(o *invokeOptions) { f(o) }

// ScheduleOption is an option for all runs that a schedule starts, see Schedules.Set.
type ScheduleOption interface{ applySchedule(*invokeOptions) }

// RunSetting is an option of Invoke and of Schedules.Set.
type RunSetting struct{ set func(*invokeOptions) }

func (r RunSetting) applyInvoke(o *invokeOptions)   { r.set(o) }
func (r RunSetting) applySchedule(o *invokeOptions) { r.set(o) }

// Priority sets the priority of the run, 0 to 255: lower is more urgent. The default is 100.
func Priority(p int) RunSetting {
	return RunSetting{func(o *invokeOptions) {
		if p < 0 || p > MaxPriority {
			o.fail(engine.Errorf(ErrInvalid, "action: priority %d is not in 0-%d", p, MaxPriority))
		}
		o.Priority = uint8(p)
	}}
}

// DelayOption is the type of Delay; Invoke and Fail accept it.
type DelayOption struct{ d time.Duration }

// Delay sets the earliest start of the run, d from now; it may be years. It is rounded up to
// milliseconds. For Fail with Retry it replaces the back-off, even if it is 0.
func Delay(d time.Duration) DelayOption { return DelayOption{d} }

func (o DelayOption) check() error {
	if o.d < 0 {
		return engine.Errorf(ErrInvalid, "action: delay %v is negative", o.d)
	}
	return nil
}

func (o DelayOption) applyInvoke(i *invokeOptions) {
	if err := o.check(); err != nil {
		i.fail(err)
	}
	i.Delay = millis(o.d)
}

func (o DelayOption) applyEnd(e *endOptions) {
	e.err = o.check()
	e.delay, e.delayed = millis(o.d), true
}

// Expire makes the run fail with the code expired if no worker has started it d after its
// invocation, including a Delay. d is rounded up to milliseconds. It does not apply to attempts
// after the first one. It applies again to a run released by a draining worker, unless the time has
// already passed.
func Expire(d time.Duration) InvokeOption {
	return invokeOption(func(o *invokeOptions) {
		if d <= 0 {
			o.fail(engine.Errorf(ErrInvalid, "action: expiry %v is not positive", d))
		}
		o.Expires = millis(d)
	})
}

// IdempotencyKey prevents duplicate runs with a key of 1 to 255 bytes. A repeat returns the
// existing run, and Duplicate, while that run has not ended or for 24 h after its invocation. A
// different input causes ErrConflict. Inputs are compared byte by byte, so whitespace matters, and
// null differs from nil. Setting or removing limits of the action does not change this.
func IdempotencyKey(key string) InvokeOption {
	return invokeOption(func(o *invokeOptions) {
		if key == "" {
			o.fail(engine.Errorf(ErrInvalid, "action: the idempotency key is empty"))
		}
		o.IdempotencyKey = key
	})
}

// ConcurrencyKey sets the key of the run, in 1 to 255 bytes, such as a customer. MaxRunningPerKey
// applies to each key, and keys take turns to start runs, regardless of the number of their runs.
func ConcurrencyKey(key string) RunSetting {
	return RunSetting{func(o *invokeOptions) {
		if key == "" {
			o.fail(engine.Errorf(ErrInvalid, "action: the concurrency key is empty"))
		}
		o.ConcurrencyKey = key
	}}
}

// LabelsOption is the type of the option Labels.
type LabelsOption struct{ labels map[string]string }

// Labels restricts the run to workers that have all these labels: names of 1-255 bytes of UTF-8
// without control characters, any values, 1,024 bytes in total. The retained runs of one action may
// require up to 64 different sets of labels, including the empty set; in a spread namespace this
// limit applies to each shard.
func Labels(labels map[string]string) LabelsOption { return LabelsOption{labels} }

func (l LabelsOption) applyInvoke(o *invokeOptions) {
	if err := engine.CheckLabels("action", l.labels); err != nil {
		o.fail(err)
	}
	o.Labels = engine.AppendHeaders(nil, l.labels)
}

func (l LabelsOption) applySchedule(o *invokeOptions) { l.applyInvoke(o) }
