package action

import (
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// RegisterOption says something of an action that is registered.
type RegisterOption interface{ applyRegister(*registerOptions) }

type registerOption func(*registerOptions)

func (f registerOption) applyRegister(o *registerOptions) { f(o) }

// AttemptOption is an option of Register, for all runs of the action, and of Invoke, for one of
// them.
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

// Owner says whose action it is, in up to 1,024 bytes.
func Owner(owner string) RegisterOption {
	return registerOption(func(o *registerOptions) { o.spec.owner = owner })
}

// Description says what the action does, in up to 1,024 bytes.
func Description(text string) RegisterOption {
	return registerOption(func(o *registerOptions) { o.spec.description = text })
}

// Timeout bounds an attempt; the default is 30 s, and for a run what its action says. A handler
// that needs longer at times can ask for it, see Task.Extend. The time goes on while no node can be
// reached: a result that can not be handed over before it has passed does not count.
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

// Backoff sets how long a run waits for its second attempt; each further wait is twice as long, up
// to the longest, less up to a quarter by chance. The default is 1 s to 5 min. With a shortest wait
// of 0 there is none, however long the longest may be.
func Backoff(shortest, longest time.Duration) RegisterOption {
	return registerOption(func(o *registerOptions) {
		if shortest < 0 || longest < shortest {
			o.fail(engine.Errorf(ErrInvalid, "action: back-off of %v to %v", shortest, longest))
		}
		o.spec.backoffMin, o.spec.backoffMax = millis(shortest), millis(longest)
	})
}

// Retain sets how long ended runs are kept, and how many of them: when there are more the oldest
// go, some at a time, so that there may be one in a hundred too many, 64 at most. The default is 7
// days and 10,000; of an action in a spread namespace, in each shard.
func Retain(d time.Duration, runs int) RegisterOption {
	return registerOption(func(o *registerOptions) {
		if d <= 0 {
			o.fail(engine.Errorf(ErrInvalid, "action: retention %v is not positive", d))
		}
		o.spec.retainFor, o.spec.retainRuns = millis(d), int64(runs)
	})
}

// MaxRunning bounds how many runs of the action are under way at a time, over all workers; 0 is no
// bound. A run that was cancelled counts until its handler has returned. In a spread namespace all
// runs that a limit is about are in one shard, that of the action's name; those that were invoked
// before it was set, in others, do not count.
func MaxRunning(n int) RegisterOption {
	return registerOption(func(o *registerOptions) { o.spec.maxRunning = int64(n) })
}

// MaxRunningPerKey bounds how many runs with one ConcurrencyKey are under way at a time; 0 is no
// bound. Runs of other keys do not wait for them.
func MaxRunningPerKey(n int) RegisterOption {
	return registerOption(func(o *registerOptions) { o.spec.maxPerKey = int64(n) })
}

// RateLimit bounds how many runs of the action are begun, attempts after the first one included. It
// is kept in steps of 10 ms: what the rate allows in such a time may begin at once, beside the
// Burst. Limit and Burst are at most 1,000,000, and Per is at most 366 days.
func RateLimit(r Rate) RegisterOption {
	return registerOption(func(o *registerOptions) {
		if r.Burst == 0 {
			r.Burst = r.Limit
		}
		if r.Per < 0 || r.Limit > 0 && r.Per == 0 {
			o.fail(engine.Errorf(ErrInvalid, "action: a rate of %d runs in %v", r.Limit, r.Per))
		}
		o.spec.rate = rate{int64(r.Limit), millis(r.Per), int64(r.Burst)}
	})
}

// DeleteOption changes what Delete does.
type DeleteOption interface{ applyDelete(force *bool) }

type forceOption struct{}

func (forceOption) applyDelete(force *bool) { *force = true }

// Force deletes an action also if it has runs that have not ended: they are cancelled.
func Force() DeleteOption { return forceOption{} }

// InvokeOption changes what Invoke does.
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

// ScheduleOption says something of all runs that a schedule begins, see Schedules.Set.
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

// Delay has the run begin d from now at the earliest, in years if need be. It is counted in
// milliseconds, rounded up.
func Delay(d time.Duration) InvokeOption {
	return invokeOption(func(o *invokeOptions) {
		if d < 0 {
			o.fail(engine.Errorf(ErrInvalid, "action: delay %v is negative", d))
		}
		o.Delay = millis(d)
	})
}

// Expire has the run fail, with the code expired, if no worker has begun it d after its invocation,
// a Delay included. It is counted in milliseconds, rounded up. Attempts after the first one are not
// bound by it. A run that is given back, as its worker drains, is bound as before, unless its time
// has passed meanwhile.
func Expire(d time.Duration) InvokeOption {
	return invokeOption(func(o *invokeOptions) {
		if d <= 0 {
			o.fail(engine.Errorf(ErrInvalid, "action: expiry %v is not positive", d))
		}
		o.Expires = millis(d)
	})
}

// IdempotencyKey makes a run only if none was made with the same key, of 1 to 255 bytes, while that
// run had not ended, or in the 24 h since it was made: a repeat returns that one, and Duplicate.
// With another input it is ErrConflict: inputs are compared byte by byte, so different whitespace
// makes a different input, and so does null instead of nil. Setting or removing limits of the
// action changes nothing of that.
func IdempotencyKey(key string) InvokeOption {
	return invokeOption(func(o *invokeOptions) {
		if key == "" {
			o.fail(engine.Errorf(ErrInvalid, "action: the idempotency key is empty"))
		}
		o.IdempotencyKey = key
	})
}

// ConcurrencyKey says, in 1 to 255 bytes, whose run it is, such as a customer: MaxRunningPerKey
// holds for each key, and runs are begun in turn for all of them, whoever has invoked how many.
func ConcurrencyKey(key string) RunSetting {
	return RunSetting{func(o *invokeOptions) {
		if key == "" {
			o.fail(engine.Errorf(ErrInvalid, "action: the concurrency key is empty"))
		}
		o.ConcurrencyKey = key
	}}
}

// LabelsOption is the option of Labels.
type LabelsOption struct{ labels map[string]string }

// Labels has the run wait for a worker that has all these labels: names of 1-255 bytes of UTF-8
// without control characters, any values, 1,024 bytes together. The runs of one action that are
// kept may ask for up to 64 different sets of labels, none at all included; in a spread namespace,
// those in each shard.
func Labels(labels map[string]string) LabelsOption { return LabelsOption{labels} }

func (l LabelsOption) applyInvoke(o *invokeOptions) {
	if err := engine.CheckLabels("action", l.labels); err != nil {
		o.fail(err)
	}
	o.Labels = engine.AppendHeaders(nil, l.labels)
}

func (l LabelsOption) applySchedule(o *invokeOptions) { l.applyInvoke(o) }
