package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// Consume processes the records of a group: it runs handle for them, for up to Concurrency of them
// at once, until ctx ends. A record whose handler returns
//
//   - nil is acknowledged;
//   - an error is refused (Nack) with it as the Reason: it is redelivered after the group's
//     back-off, or becomes a dead letter if that was the last attempt;
//   - a Permanent error becomes a dead letter at once;
//   - ErrSettled is not settled again: the handler has acknowledged or refused it.
//
// A panic counts as an error, with its stack. While a handler runs, Consume extends the Deadline of
// its record by the group's ack timeout. The record can still be lost if no node can be reached for
// that long, or the group is moved or deleted. Then the handler's ctx is cancelled with ErrConflict
// as its cause (context.Cause). The record is redelivered, and after that the handler's result has
// no effect.
//
// In a KeyShared group the records of a key (and partition) are handled one at a time and in order,
// regardless of the Concurrency. When one fails, later records of the key wait until it has been
// redelivered or is a dead letter. With NoAck nothing is acknowledged, and each delivered record is
// handled at most once.
//
// An outage does not end Consume: it continues when a node can be reached again. It also waits for
// a stream that does not exist yet. It creates the group at most once. If the group is deleted
// later, alone or with its stream, Consume returns ErrNotFound, or continues with a group of that
// name created since.
//
// When ctx ends, Consume reads no more records. Handlers have the Grace to finish. Only then is
// their ctx, which has the values of Consume's, cancelled with the same cause. Handlers that have
// not returned 5 s later are abandoned. Finally the consumer leaves the group: unhandled records
// are delivered to other consumers, and their delivery to this one does not count as an attempt.
//
// Consume returns nil when ctx has ended and the consumer has left. Options: Concurrency (1),
// Consumer (a unique name), Grace (10 s), NoAck, OnError, and those of Groups.Create, which apply
// if Consume creates the group. Errors: ErrInvalid for names or options outside their limits;
// ErrNotFound as above; ErrClosed, ErrUnauthorized. Other errors report how many handlers have not
// returned, and how many results could not be sent (ErrUnknownOutcome).
func (s *Store) Consume(ctx context.Context, stream, group string, handle func(ctx context.Context, d Delivery) error,
	opts ...ConsumeOption) error {
	c := &consumer{s: s, stream: stream, group: group, o: consumeOptionsOf(opts)}
	c.o.read.limit = MaxReadLimit
	if handle == nil {
		return noHandler(stream)
	}
	return c.run(ctx, func(ctx context.Context, ds []Delivery) error { return handle(ctx, ds[0]) })
}

// ConsumeMany is Consume with a handler for several records at once: up to most, which is 1 to
// 1000. It does not wait for more records. They are acknowledged or refused together. In a
// KeyShared group no two concurrent calls have records of the same key, unless a record is lost.
// Concurrency is the number of concurrent calls.
func (s *Store) ConsumeMany(
	ctx context.Context, stream, group string, most int, handle func(ctx context.Context, ds []Delivery) error, opts ...ConsumeOption,
) error {
	c := &consumer{s: s, stream: stream, group: group, many: true, o: consumeOptionsOf(opts)}
	Limit(most).applyGroupRead(&c.o.read)
	c.o.err = firstError(c.o.err, c.o.read.err)
	if handle == nil {
		return noHandler(stream)
	}
	// the handler may modify its slice
	return c.run(ctx, func(ctx context.Context, ds []Delivery) error { return handle(ctx, slices.Clone(ds)) })
}

func noHandler(stream string) error {
	return engine.Errorf(ErrInvalid, "stream: consume %q: no handler", stream)
}

// newConsumer returns a unique consumer name that contains host and process id.
func newConsumer() string {
	host, err := os.Hostname()
	if err != nil || engine.CheckName("host", host) != nil {
		host = "consumer"
	}
	return host[:min(len(host), 100)] + "-" + strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:8]
}

// consumer is a member of a group as the source of a worker.
type consumer struct {
	s             *Store
	stream, group string
	many          bool // a piece is the result of one ReadGroup
	o             consumeOptions
	mode          Mode
	ackTimeout    atomic.Int64 // ns
}

// consumed is the unit of work of one handler call.
type consumed struct {
	ds []Delivery
	// The result of the handler. It is read in the handler's goroutine, because methods of the
	// error may panic.
	settled   bool
	permanent bool
	reason    string
}

func (c *consumer) run(ctx context.Context, handle func(ctx context.Context, ds []Delivery) error) error {
	err := readGroupOp(groupAddressOf(c.stream, c.group), c.o.consumer, &c.o.read, 0).Err
	if err = firstError(c.o.err, err); err != nil {
		return err
	}
	if err := workloop.Retry(ctx, c.reportOutage, c.open); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	config := workloop.Config[*consumed]{
		Source: c, Concurrency: c.o.concurrency, Grace: c.o.grace, OnError: c.report,
		Status: workloop.Status{Kind: "stream", Namespace: c.s.Namespace(), Name: c.stream + "/" + c.group, Worker: c.o.consumer},
		Handle: func(ctx context.Context, p *consumed) error { return p.handled(handle(ctx, p.ds)) },
	}
	if !c.o.read.noAck {
		config.Source = &acking{c}
	}
	config.Observer, _ = c.s.scope.Attached().(workloop.Observer)
	err = workloop.New(config).Run(ctx)
	c.leave(ctx)
	return err
}

// handled stores the handler's result.
func (p *consumed) handled(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrSettled) {
		p.settled = true
		return nil
	}
	text := err.Error()
	p.permanent, p.reason = workloop.IsPermanent(err), text[:min(len(text), maxReasonBytes)]
	return err
}

func (c *consumer) report(p **consumed, err error) {
	switch {
	case c.o.onError == nil:
	case p == nil:
		c.o.onError(nil, err)
	default:
		d := (*p).ds[0]
		c.o.onError(&d, err)
	}
}

func (c *consumer) reportOutage(err error) { workloop.Callback(func() { c.report(nil, err) }) }

// open reads the group's settings. It creates the group if needed, once the stream exists.
func (c *consumer) open(ctx context.Context) error {
	for {
		info, err := c.s.Groups(c.stream).Get(ctx, c.group)
		if err == nil {
			c.mode = info.Mode
			c.ackTimeout.Store(int64(info.AckTimeout))
			return nil
		}
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		r := &groupReader{s: c.s, stream: c.stream, group: c.group, consumer: c.o.consumer, o: &c.o.read}
		if err := r.create(ctx); err != nil {
			if !errors.Is(err, ErrNotFound) {
				return err
			}
			if err := c.s.awaitStream(ctx, c.stream); err != nil {
				return err
			}
			c.o.read.group.start = c.o.read.group.start.ofNew()
		}
	}
}

// awaitStream waits until the stream exists.
func (s *Store) awaitStream(ctx context.Context, name string) error {
	ctx = engine.Lasting(ctx)
	if err := s.scope.Await(ctx); err != nil {
		return err
	}
	return s.scope.Query(ctx, name, &specQuery{namespace: s.scope.Namespace(), stream: name, wait: true})
}

// leaveTime is how long a consumer tries to leave its group.
const leaveTime = 5 * time.Second

// leave returns the remaining records. If that fails, they are redelivered after their deadline.
func (c *consumer) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := c.s.Leave(ctx, c.stream, c.group, c.o.consumer); err != nil && !errors.Is(err, ErrNotFound) {
		c.reportOutage(err)
	}
}

// consumeWait is the wait of one ReadGroup of Consume.
const consumeWait = time.Hour

func (c *consumer) Take(ctx context.Context, n int) ([]*consumed, error) {
	limit := c.o.read.limit
	if !c.many {
		limit = min(limit, n)
	}
	o := c.o.read
	o.limit, o.wait = limit, consumeWait
	r := &groupReader{s: c.s, stream: c.stream, group: c.group, consumer: c.o.consumer, o: &o, found: true}
	ds, err := r.read(ctx)
	if r.ackTimeout > 0 {
		c.mode = r.mode
		c.ackTimeout.Store(int64(r.ackTimeout))
	}
	if errors.Is(err, ErrNotFound) {
		err = workloop.Final(err)
	}
	if c.many && len(ds) > 0 {
		return []*consumed{{ds: ds}}, err
	}
	pieces := make([]*consumed, len(ds))
	for i := range ds {
		pieces[i] = &consumed{ds: ds[i : i+1]}
	}
	return pieces, err
}

// Lane makes the records of a key in a KeyShared group run one at a time.
func (c *consumer) Lane(p *consumed) string {
	d := &p.ds[0]
	if c.mode != KeyShared || d.Key == "" || c.many {
		return ""
	}
	return strconv.Itoa(d.Partition) + "/" + d.Key
}

// Settle does nothing with NoAck.
func (c *consumer) Settle(context.Context, *consumed, workloop.Result) error { return nil }

// acking is a consumer that acknowledges.
type acking struct{ *consumer }

func (c *acking) Settle(ctx context.Context, p *consumed, r workloop.Result) error {
	refs := RefsOf(p.ds)
	var n int
	var err error
	switch {
	case p.settled:
		return nil
	case r.Err == nil:
		n, err = c.s.Ack(ctx, c.stream, c.group, refs...)
	case r.Panic != nil:
		text := r.Panic.Error()
		n, err = c.s.Nack(ctx, c.stream, c.group, refs, reason(text[:min(len(text), maxReasonBytes)]))
	case p.permanent:
		n, err = c.s.Nack(ctx, c.stream, c.group, refs, ToDLQ(), reason(p.reason))
	case r.GiveBack():
		return nil // it is returned when the consumer leaves
	default:
		n, err = c.s.Nack(ctx, c.stream, c.group, refs, reason(p.reason))
	}
	if err == nil && n < len(refs) {
		err = c.notPending(p)
	}
	return err
}

// reason returns the option for a text that may have been cut inside a character.
func reason(text string) NackOption { return Reason(strings.ToValidUTF8(text, "")) }

func (c *acking) notPending(p *consumed) error {
	d := &p.ds[0]
	text := fmt.Sprintf("record %d of partition %d is not pending in consumer group %q as attempt %d", d.Offset, d.Partition, c.group,
		d.Attempt)
	if n := len(p.ds); n > 1 {
		text = fmt.Sprintf("not all of %d records, beginning with %d of partition %d, are pending in consumer group %q", n, d.Offset,
			d.Partition, c.group)
	}
	return &ConflictError{Stream: c.stream, Partition: d.Partition, Reason: text}
}

// Lease is the group's ack timeout as of the last read or renewal.
func (c *acking) Lease() time.Duration { return time.Duration(c.ackTimeout.Load()) }

// Release does nothing: the remaining records are returned when the consumer leaves.
func (c *acking) Release(context.Context, []*consumed) error { return nil }

// Renew extends all deadlines at once. The result is only the number of records still held, so if
// some are lost, Renew tries each half. It also reads the ack timeout: a busy consumer reads no
// records, so it would not notice a change otherwise.
func (c *acking) Renew(ctx context.Context, pieces []*consumed) ([]error, error) {
	lost := make([]error, len(pieces))
	if err := c.renew(ctx, pieces, lost); err != nil {
		return lost, err
	}
	q := groupSpecQuery{namespace: c.s.Namespace(), stream: c.stream, group: c.group}
	if err := c.s.scope.Query(ctx, c.stream, &q); err == nil && q.found {
		c.ackTimeout.Store(int64(duration(q.config.config.ackTimeout)))
	}
	return lost, nil
}

func (c *acking) renew(ctx context.Context, pieces []*consumed, lost []error) error {
	var refs []Ref
	for _, p := range pieces {
		refs = append(refs, RefsOf(p.ds)...)
	}
	n := 0
	if len(refs) <= maxRefs || len(pieces) == 1 {
		e, err := c.s.ExtendMany(ctx, c.stream, c.group, refs, c.Lease())
		n = e.Records
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	switch half := len(pieces) / 2; {
	case n == len(refs):
		return nil
	case n > 0 && half > 0, len(refs) > maxRefs:
		err := c.renew(ctx, pieces[:half], lost[:half])
		return errors.Join(err, c.renew(ctx, pieces[half:], lost[half:]))
	}
	for i, p := range pieces {
		lost[i] = c.notPending(p)
	}
	return nil
}
