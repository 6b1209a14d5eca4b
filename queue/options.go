package queue

import (
	"math"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Limits and defaults of options.
const (
	MaxPriority      = 255
	DefaultPriority  = 100
	MaxDedupKeyBytes = 255
	MaxAttemptsLimit = 1_000_000
	MaxReasonBytes   = 1024
	MaxHeaderBytes   = 64 << 10 // names and values of a message together
	DefaultLease     = 30 * time.Second
	defaultAttempts  = 5
	// the range of time.Duration, rounded up; adding it to any present-day time does not overflow
	maxDurationMillis = math.MaxInt64/int64(time.Millisecond) + 1
)

var defaultSettings = settings{maxAttempts: defaultAttempts, backoffMin: 1000, backoffMax: 5 * 60 * 1000, dedupWindow: 60 * 60 * 1000}

// EnqueueOption is an option of Enqueue.
type EnqueueOption interface{ applyEnqueue(*newMessage) }

// DequeueOption is an option of Dequeue.
type DequeueOption interface{ applyDequeue(*dequeueOptions) }

// NackOption is an option of Nack.
type NackOption interface{ applyNack(*nackOptions) }

// newMessage is a message that is enqueued, with its options.
type newMessage struct {
	priority    uint8
	delay       int64 // ms
	maxAttempts int64 // 0: the queue's setting
	dedup       []byte
	headers     []byte // encoded, see engine.AppendHeaders
	payload     []byte
	err         error
}

func (m *newMessage) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

type enqueueOption func(*newMessage)

func (f enqueueOption) applyEnqueue(m *newMessage) { f(m) }

// Priority sets the priority of a message, 0 to 255: lower is more urgent. The default is 100.
func Priority(p int) EnqueueOption {
	return enqueueOption(func(m *newMessage) {
		if p < 0 || p > MaxPriority {
			m.fail(engine.Errorf(ErrInvalid, "queue: priority %d is not in 0-%d", p, MaxPriority))
		}
		m.priority = uint8(p)
	})
}

// DedupKey enqueues the message only if no message was enqueued with the same key within the
// queue's DedupWindow (1 h by default). A repeat sets Duplicate and returns the Seq of that
// message, regardless of its state. A key is 1 to 255 arbitrary bytes.
func DedupKey(key string) EnqueueOption {
	return enqueueOption(func(m *newMessage) {
		if key == "" || len(key) > MaxDedupKeyBytes {
			m.fail(engine.Errorf(ErrInvalid, "queue: dedup key of %d bytes is not in 1-%d", len(key), MaxDedupKeyBytes))
		}
		m.dedup = []byte(key)
	})
}

// Headers sets the message headers, for readers that must not parse the payload: names of 1-255
// bytes of UTF-8 without control characters, any values, 64 KiB together. They work like the
// headers of stream records, and stay with the message when it becomes a dead letter.
func Headers(h map[string]string) EnqueueOption {
	return enqueueOption(func(m *newMessage) {
		if err := engine.CheckHeaders("queue", h); err != nil {
			m.fail(err)
		}
		m.headers = engine.AppendHeaders(nil, h)
	})
}

// MaxAttempts sets the number of deliveries before the message becomes a dead letter, 1 to
// 1,000,000. It overrides the queue's setting.
func MaxAttempts(n int) EnqueueOption {
	return enqueueOption(func(m *newMessage) {
		if n < 1 || n > MaxAttemptsLimit {
			m.fail(engine.Errorf(ErrInvalid, "queue: max attempts %d is not in 1-%d", n, MaxAttemptsLimit))
		}
		m.maxAttempts = int64(n)
	})
}

// DelayOption is the type of Delay; Enqueue and Nack accept it.
type DelayOption struct{ d time.Duration }

// Delay makes a message ready d from now. Delays of years are allowed. d is rounded up to
// milliseconds. For Nack it replaces the back-off, even if it is 0.
func Delay(d time.Duration) DelayOption { return DelayOption{d} }

func (o DelayOption) millis() (int64, error) {
	if o.d < 0 {
		return 0, engine.Errorf(ErrInvalid, "queue: delay %v is negative", o.d)
	}
	return millis(o.d), nil
}

func (o DelayOption) applyEnqueue(m *newMessage) {
	var err error
	if m.delay, err = o.millis(); err != nil {
		m.fail(err)
	}
}

func (o DelayOption) applyNack(n *nackOptions) {
	var err error
	if n.body.delay, err = o.millis(); err != nil {
		n.fail(err)
	}
	n.body.flags |= nackDelayed
}

// millis converts a non-negative duration to ms, rounded up.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}

type dequeueOptions struct {
	body dequeueBody
	wait time.Duration
	err  error
}

func (o *dequeueOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

type dequeueOption func(*dequeueOptions)

func (f dequeueOption) applyDequeue(o *dequeueOptions) { f(o) }

// Max sets the maximum number of messages that Dequeue returns, 1 to 1000; the default is 1. It
// returns fewer if fewer are ready, or if they exceed 4 MiB.
func Max(n int) DequeueOption {
	return dequeueOption(func(o *dequeueOptions) { o.body.max = int64(n) })
}

// maxWait caps waits, because a node refuses longer ones from a Client.
const maxWait = 100 * 365 * 24 * time.Hour

// LeaseOption is the type of Lease; Dequeue and Consume accept it.
type LeaseOption struct{ d time.Duration }

// Lease sets the duration of the lease; the default is 30 s.
func Lease(d time.Duration) LeaseOption { return LeaseOption{d} }

func (l LeaseOption) applyDequeue(o *dequeueOptions) {
	ms, err := leaseMillis(l.d)
	if err != nil {
		o.fail(err)
	}
	o.body.lease = ms
}

func leaseMillis(d time.Duration) (int64, error) {
	if d <= 0 {
		return 0, engine.Errorf(ErrInvalid, "queue: lease %v is not positive", d)
	}
	return millis(d), nil
}

// Wait sets how long Dequeue waits for a message; the default is 0, no waiting.
func Wait(d time.Duration) DequeueOption {
	return dequeueOption(func(o *dequeueOptions) {
		if d < 0 {
			o.fail(engine.Errorf(ErrInvalid, "queue: wait %v is negative", d))
		}
		o.wait = min(d, maxWait)
	})
}

// dequeueOp returns a dequeue and its maximum wait.
func dequeueOp(name string, opts []DequeueOption) (op engine.Op, wait time.Duration) {
	o := dequeueOptions{body: dequeueBody{max: 1, lease: DefaultLease.Milliseconds()}}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyDequeue(&o)
	}
	op = dequeue.Op(name, o.body, o.err)
	op.Decode = func(result []byte) (any, error) { return decodeDeliveries(name, result) }
	return op, o.wait
}

type nackOptions struct {
	body nackBody
	err  error
}

func (o *nackOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

type nackOption func(*nackOptions)

func (f nackOption) applyNack(o *nackOptions) { f(o) }

// ToDLQ makes the message a dead letter at once. It cannot be combined with Delay.
func ToDLQ() NackOption { return nackOption(func(o *nackOptions) { o.body.flags |= nackBury }) }

// Reason sets the LastError of the message: why it could not be processed, in up to 1024 bytes.
func Reason(text string) NackOption {
	return nackOption(func(o *nackOptions) { o.body.reason = []byte(text) })
}

func newNackOptions(opts []NackOption) nackOptions {
	var o nackOptions
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyNack(&o)
	}
	return o
}

// millis checks the settings and returns them in stored form.
func (s Settings) millis() (settings, error) {
	for _, f := range []struct {
		name     string
		shown    any
		negative bool
	}{
		{"max length", s.MaxLen, s.MaxLen < 0}, {"max bytes", s.MaxBytes, s.MaxBytes < 0}, {"max attempts", s.MaxAttempts,
			s.MaxAttempts < 0},
		{"max back-off", s.BackoffMax, s.BackoffMax < 0}, {"dead letter retention", s.DeadRetention, s.DeadRetention < 0},
		{"dedup window", s.DedupWindow, s.DedupWindow < 0},
	} {
		if f.negative {
			return settings{}, engine.Errorf(ErrInvalid, "queue: %s %v is negative", f.name, f.shown)
		}
	}
	if s.MaxAttempts > MaxAttemptsLimit {
		return settings{}, engine.Errorf(ErrInvalid, "queue: max attempts %d is not in 1-%d", s.MaxAttempts, MaxAttemptsLimit)
	}
	m := defaultSettings
	m.maxLen, m.maxBytes, m.deadRetention = s.MaxLen, s.MaxBytes, millis(s.DeadRetention)
	if s.MaxAttempts > 0 {
		m.maxAttempts = int64(s.MaxAttempts)
	}
	if s.DedupWindow > 0 {
		m.dedupWindow = millis(s.DedupWindow)
	}
	if s.BackoffMin > 0 {
		m.backoffMin = millis(s.BackoffMin)
		m.backoffMax = max(m.backoffMax, m.backoffMin)
	}
	if s.BackoffMax > 0 {
		if m.backoffMax = millis(s.BackoffMax); s.BackoffMin == 0 {
			m.backoffMin = min(m.backoffMin, m.backoffMax)
		}
	}
	if s.BackoffMin < 0 {
		m.backoffMin, m.backoffMax = 0, 0
	}
	if m.backoffMin > m.backoffMax {
		return m, engine.Errorf(ErrInvalid, "queue: min back-off %v exceeds max back-off %v", s.BackoffMin, s.BackoffMax)
	}
	return m, nil
}

// check checks settings that come from another process.
func (s *settings) check() error {
	for _, v := range []int64{s.backoffMin, s.backoffMax, s.deadRetention, s.dedupWindow} {
		if v < 0 || v > maxDurationMillis {
			return engine.Errorf(ErrInvalid, "queue: settings: duration of %d ms is not in 0-%d", v, maxDurationMillis)
		}
	}
	switch {
	case s.maxLen < 0 || s.maxBytes < 0:
		return engine.Errorf(ErrInvalid, "queue: settings: bounds %d and %d are negative", s.maxLen, s.maxBytes)
	case s.maxAttempts < 1 || s.maxAttempts > MaxAttemptsLimit:
		return engine.Errorf(ErrInvalid, "queue: settings: max attempts %d is not in 1-%d", s.maxAttempts, MaxAttemptsLimit)
	case s.backoffMin > s.backoffMax || s.dedupWindow == 0:
		return engine.Errorf(ErrInvalid, "queue: settings: back-off %d-%d ms, dedup window %d ms", s.backoffMin, s.backoffMax,
			s.dedupWindow)
	}
	return nil
}

func (s *settings) public() Settings {
	ms := func(v int64) time.Duration {
		return time.Duration(min(v, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	p := Settings{
		MaxLen: s.maxLen, MaxBytes: s.maxBytes, MaxAttempts: int(s.maxAttempts), BackoffMin: ms(s.backoffMin), BackoffMax: ms(s.backoffMax),
		DeadRetention: ms(s.deadRetention), DedupWindow: ms(s.dedupWindow),
	}
	if s.backoffMin == 0 {
		p.BackoffMin = NoBackoff
	}
	return p
}

// backoff returns the delay of a message after the given number of deliveries.
func (s *settings) backoff(attempts int64) int64 {
	d := s.backoffMin
	for ; attempts > 1 && d < s.backoffMax; attempts-- {
		if d > s.backoffMax/2 {
			return s.backoffMax
		}
		d *= 2
	}
	return d
}
