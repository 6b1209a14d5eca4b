package stream

import (
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// Limits and defaults of Consume.
const (
	DefaultConcurrency = workloop.DefaultConcurrency
	MaxConcurrency     = 10_000
	DefaultGrace       = workloop.DefaultGrace
)

// ConsumeOption is an option of Consume and ConsumeMany.
type ConsumeOption interface{ applyConsume(*consumeOptions) }

type consumeOptions struct {
	read        groupReadOptions
	consumer    string
	concurrency int
	grace       time.Duration
	onError     func(*Delivery, error)
	err         error
}

type consumeOption func(*consumeOptions)

func (f consumeOption) applyConsume(o *consumeOptions) { f(o) }

func (f groupOption) applyConsume(o *consumeOptions) { f(&o.read.group) }
func (s StartOption) applyConsume(o *consumeOptions) { s.applyGroupRead(&o.read) }
func (n NewOption) applyConsume(o *consumeOptions)   { n.applyGroupRead(&o.read) }
func (n NoAckOption) applyConsume(o *consumeOptions) { n.applyGroupRead(&o.read) }

// Concurrency sets the maximum number of concurrent handlers, 1 to 10,000; the default is 1.
func Concurrency(n int) ConsumeOption {
	return consumeOption(func(o *consumeOptions) {
		if o.concurrency = n; n < 1 || n > MaxConcurrency {
			o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: concurrency %d is not in 1-%d", n, MaxConcurrency))
		}
	})
}

// Consumer sets the consumer's name in its group, as Pending and Groups.Get show it. The default is
// a unique name. No other consumer of the group may use the name at the same time.
func Consumer(name string) ConsumeOption {
	return consumeOption(func(o *consumeOptions) {
		o.consumer, o.err = name, firstError(o.err, engine.CheckName("consumer", name))
	})
}

// Grace sets how long handlers may continue after Consume's ctx ends; the default is 10 s. With 0
// they are cancelled at once.
func Grace(d time.Duration) ConsumeOption {
	return consumeOption(func(o *consumeOptions) {
		if o.grace = d; d < 0 {
			o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: grace %v is negative", d))
		}
	})
}

// OnError sets a function that receives the errors that do not end Consume. It may be called by
// several goroutines at once. Errors of handlers and failed acknowledgements come with the record,
// the first one if there are several. If reading from the group or extending deadlines fails, the
// record is nil. By default these errors are discarded.
func OnError(f func(d *Delivery, err error)) ConsumeOption {
	return consumeOption(func(o *consumeOptions) { o.onError = f })
}

func consumeOptionsOf(opts []ConsumeOption) consumeOptions {
	o := consumeOptions{read: groupReadOptionsOf(nil), concurrency: DefaultConcurrency, grace: DefaultGrace}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyConsume(&o)
	}
	o.err = firstError(o.err, o.read.group.err)
	if o.consumer == "" {
		o.consumer = newConsumer()
	}
	return o
}

// ErrSettled is returned by a handler that has acked or nacked its records itself, for example with
// an AckOp in its transaction. It is the same value as queue.ErrSettled.
var ErrSettled = workloop.ErrSettled

// Permanent marks a handler's error as one that a retry cannot fix: the record becomes a dead
// letter at once. Permanent(nil) is nil. Permanent of queue and action is the same.
func Permanent(err error) error { return workloop.Permanent(err) }
