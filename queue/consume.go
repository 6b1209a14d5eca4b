package queue

import (
	"context"
	"errors"
	"strings"
	"sync"
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

// ConsumeOption is an option of Consume.
type ConsumeOption interface{ applyConsume(*consumeOptions) }

type consumeOptions struct {
	concurrency int
	lease       time.Duration
	grace       time.Duration
	onError     func(*Message, error)
	err         error
}

func (o *consumeOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

type consumeOption func(*consumeOptions)

func (f consumeOption) applyConsume(o *consumeOptions) { f(o) }

// Concurrency sets the maximum number of messages handled at once, 1 to 10,000; the default is 1.
func Concurrency(n int) ConsumeOption {
	return consumeOption(func(o *consumeOptions) {
		if n < 1 || n > MaxConcurrency {
			o.fail(engine.Errorf(ErrInvalid, "queue: concurrency %d is not in 1-%d", n, MaxConcurrency))
		}
		o.concurrency = n
	})
}

// Grace sets how long handlers may continue after Consume ends; the default is 10 s. With 0 they
// are cancelled at once.
func Grace(d time.Duration) ConsumeOption {
	return consumeOption(func(o *consumeOptions) {
		if d < 0 {
			o.fail(engine.Errorf(ErrInvalid, "queue: grace %v is negative", d))
		}
		o.grace = d
	})
}

// OnError sets a function that is called with errors while Consume continues, by several goroutines
// at once. Errors of handlers and failures to settle a message come with the message. Failures to
// query the queue or renew leases come with a nil message. By default errors are not reported.
func OnError(f func(m *Message, err error)) ConsumeOption {
	return consumeOption(func(o *consumeOptions) { o.onError = f })
}

func (l LeaseOption) applyConsume(o *consumeOptions) {
	if _, err := leaseMillis(l.d); err != nil {
		o.fail(err)
	}
	o.lease = l.d
}

// ErrSettled is returned by a handler that has acked, nacked or released its message itself, for
// example with an AckOp in its transaction. It is the same value as stream.ErrSettled.
var ErrSettled = workloop.ErrSettled

// Permanent marks a handler's error as one that a retry cannot fix: the message becomes a dead
// letter at once. Permanent(nil) is nil. Permanent of stream and action is the same.
func Permanent(err error) error { return workloop.Permanent(err) }

// Consume processes a queue: it runs handle for its messages, up to Concurrency of them at once,
// until ctx ends. A message whose handler returns
//
//   - nil is acked;
//   - an error is nacked with it as the Reason: it is delivered again after the queue's back-off,
//     or becomes a dead letter if that was its last attempt;
//   - a Permanent error becomes a dead letter at once;
//   - ErrSettled is not settled again: the handler has settled it.
//
// A panic counts as an error, with its stack. While a handler runs, its message stays leased. The
// lease can still be lost, if no node was reachable for its whole length or the queue was purged.
// The ctx of the handler is then cancelled, and its cause (context.Cause) is ErrConflict. The
// message is delivered again, and after that the handler's result has no effect.
//
// An outage does not end Consume: it resumes once a node answers. When ctx ends, Consume takes no
// more messages, and releases those that still arrive within 5 s. Handlers have the Grace to
// finish. Only then is their ctx, which has the values of Consume's, cancelled with the same cause.
// Messages that fail because of that are released: the delivery does not count as an attempt.
// Handlers that have not returned 5 s later are abandoned, and their messages released.
//
// Consume returns nil when ctx has ended and all messages are settled or released. Options:
// Concurrency (1), Lease (30 s), Grace (10 s), OnError. Errors: ErrInvalid for a malformed name or
// options out of range; ErrClosed, ErrUnauthorized. Other errors report how many handlers have not
// returned, and how many results could not be sent (ErrUnknownOutcome).
func (s *Store) Consume(ctx context.Context, name string, handle func(ctx context.Context, m Message) error, opts ...ConsumeOption) error {
	o := consumeOptions{concurrency: DefaultConcurrency, lease: DefaultLease, grace: DefaultGrace}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyConsume(&o)
	}
	if err := checkName(name); err != nil {
		return err
	}
	if o.err != nil {
		return o.err
	}
	if handle == nil {
		return engine.Errorf(ErrInvalid, "queue: consume %q: no handler", name)
	}
	source := &consumer{store: s, name: name, lease: o.lease, onError: o.onError}
	c := workloop.Config[*consumed]{
		Source: source, Concurrency: o.concurrency, Grace: o.grace,
		Status: workloop.Status{Kind: "queue", Namespace: s.Namespace(), Name: name},
		Handle: func(ctx context.Context, c *consumed) error { return c.handled(handle(ctx, c.Message)) },
	}
	c.Observer, _ = s.scope.Attached().(workloop.Observer)
	if o.onError != nil {
		c.OnError = func(c **consumed, err error) {
			if c == nil {
				o.onError(nil, err)
				return
			}
			m := (*c).Message
			o.onError(&m, err)
		}
	}
	err := workloop.New(c).Run(ctx)
	source.takes.Wait()
	return err
}

// consumed is a message held by Consume.
type consumed struct {
	Message
	// The outcome of its handler. It is computed in the handler's goroutine, because methods of the
	// error may panic.
	settled   bool
	permanent bool
	reason    string
}

// handled records the handler's result.
func (c *consumed) handled(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrSettled) {
		c.settled = true
		return nil
	}
	text := err.Error()
	c.permanent, c.reason = workloop.IsPermanent(err), text[:min(len(text), MaxReasonBytes)]
	return err
}

// consumer is the queue as a source of a worker.
type consumer struct {
	store   *Store
	name    string
	lease   time.Duration
	onError func(*Message, error)
	takes   sync.WaitGroup // until their messages are handled or released
}

// Times of Consume.
const (
	consumeWait = time.Hour       // maximum wait of one Dequeue
	releaseTime = 2 * time.Second // for releasing messages dequeued while Consume ended
)

// Take returns at once when ctx ends, so that handlers are cancelled in time. A Dequeue in flight
// may return messages a moment later: they are released here.
func (c *consumer) Take(ctx context.Context, n int) ([]*consumed, error) {
	type batch struct {
		messages []*consumed
		err      error
	}
	taken := make(chan batch)
	c.takes.Go(func() {
		messages, err := c.dequeue(engine.Lingering(ctx), n)
		select {
		case taken <- batch{messages, err}:
		case <-ctx.Done():
			c.giveBack(ctx, messages)
		}
	})
	select {
	case b := <-taken:
		return b.messages, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// giveBack releases messages that arrived too late. If that fails, they return to the queue when
// their leases end.
func (c *consumer) giveBack(ctx context.Context, messages []*consumed) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if err := c.Release(ctx, messages); err != nil && c.onError != nil {
		workloop.Callback(func() { c.onError(nil, err) })
	}
}

func (c *consumer) dequeue(ctx context.Context, n int) ([]*consumed, error) {
	messages, err := c.store.Dequeue(ctx, c.name, Max(min(n, MaxBatch)), Lease(c.lease), Wait(consumeWait))
	all := make([]*consumed, len(messages))
	for i, m := range messages {
		all[i] = &consumed{Message: m}
	}
	return all, err
}

func (c *consumer) Settle(ctx context.Context, m *consumed, r workloop.Result) error {
	nack := func(opts ...NackOption) error {
		_, err := c.store.Nack(ctx, c.name, []Receipt{m.Receipt}, opts...)
		return err
	}
	switch {
	case m.settled:
		return nil
	case r.Err == nil:
		_, err := c.store.Ack(ctx, c.name, m.Receipt)
		return err
	case r.Panic != nil:
		text := r.Panic.Error()
		return nack(reason(text[:min(len(text), MaxReasonBytes)]))
	case m.permanent:
		return nack(ToDLQ(), reason(m.reason))
	case r.GiveBack():
		return c.Release(ctx, []*consumed{m})
	}
	return nack(reason(m.reason))
}

// reason returns the option for a text that may have been cut within a UTF-8 character.
func reason(text string) NackOption { return Reason(strings.ToValidUTF8(text, "")) }

func (c *consumer) Lease() time.Duration { return c.lease }

func (c *consumer) Renew(ctx context.Context, messages []*consumed) ([]error, error) {
	lost := make([]error, len(messages))
	for i := 0; i < len(messages); i += MaxBatch {
		receipts := receiptsOf(messages[i:min(i+MaxBatch, len(messages))])
		r, err := engine.Propose(ctx, &c.store.scope, renewOp(c.name, c.lease, receipts), renew.Decode)
		if errors.Is(err, ErrNotFound) {
			r.held, err = make([]bool, len(receipts)), nil // the queue was deleted
		}
		if err != nil {
			return lost, err
		}
		for j, held := range r.held {
			if !held {
				lost[i+j] = &ReceiptError{Queue: c.name, Receipt: receipts[j], Reason: "its lease has ended"}
			}
		}
	}
	return lost, nil
}

func (c *consumer) Release(ctx context.Context, messages []*consumed) error {
	for len(messages) > 0 {
		n := min(len(messages), MaxBatch)
		if _, err := c.store.Release(ctx, c.name, receiptsOf(messages[:n])...); err != nil {
			return err
		}
		messages = messages[n:]
	}
	return nil
}

func receiptsOf(messages []*consumed) []Receipt {
	all := make([]Receipt, len(messages))
	for i, m := range messages {
		all[i] = m.Receipt
	}
	return all
}
