package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// Settings of audited queues and groups for deliveries that are not settled: short, so that a test
// sees many redeliveries.
const (
	auditLease    = 400 * time.Millisecond
	auditBackoff  = 20 * time.Millisecond
	auditAttempts = 4
	auditClocks   = 10 * time.Millisecond // maximum difference between the clocks of nodes and of the test
)

// audited is a queue, or a group of a stream, as used by producers and consumers.
type audited interface {
	// open creates it.
	open(ctx context.Context) error
	// send sends bodies in one call. If once is not empty, the call may be repeated until it is
	// acknowledged.
	send(ctx context.Context, once string, items []check.Item) ([]check.Item, error)
	// gives reports whether items can be read for good, without an acknowledgement.
	gives() bool
	read(ctx context.Context, consumer string, limit int, forGood bool) ([]check.Delivery, error)
	// ack returns how many of the deliveries it settled. A queue settles all or none.
	ack(ctx context.Context, of []check.Delivery) (int, error)
	nack(ctx context.Context, of check.Delivery) (int, error)
	// bury makes it a dead letter. Groups do not support that.
	bury(ctx context.Context, of check.Delivery) (int, error)
	extend(ctx context.Context, of check.Delivery) (int, error)
	leave(ctx context.Context, consumer string) error
	totals(ctx context.Context) (check.Totals, error)
	dead(ctx context.Context) ([]check.Dead, error)
}

const auditName = "audited"

// auditedQueue is a queue. The length of a message's body determines its priority and delay.
type auditedQueue struct {
	*queue.Store
	start time.Time
}

const urgent = 10

func isUrgent(body string) bool  { return len(body)%4 < 2 }
func isDelayed(body string) bool { return len(body)%4 == 0 }

// laneOf returns the order of the queue's messages: their priority, unless they are delayed.
func laneOf(body string, seq uint64) int {
	switch {
	case isDelayed(body):
		return 1000 + int(seq)
	case isUrgent(body):
		return urgent
	}
	return queue.DefaultPriority
}

func (q *auditedQueue) open(ctx context.Context) error {
	return q.Configure(ctx, auditName, queue.Settings{MaxAttempts: auditAttempts, BackoffMin: auditBackoff, BackoffMax: 2 * auditBackoff})
}

func (q *auditedQueue) send(ctx context.Context, once string, items []check.Item) ([]check.Item, error) {
	messages := make([]queue.NewMessage, len(items))
	for i, item := range items {
		messages[i].Payload = []byte(item.Body)
		if isUrgent(item.Body) {
			messages[i].Options = append(messages[i].Options, queue.Priority(urgent))
		}
		if isDelayed(item.Body) {
			messages[i].Options = append(messages[i].Options, queue.Delay(auditBackoff))
		}
		if once != "" {
			messages[i].Options = append(messages[i].Options, queue.DedupKey(once+item.Body))
		}
	}
	sent, err := q.EnqueueMany(ctx, auditName, messages)
	for i, e := range sent {
		items[i].At, items[i].Place, items[i].Lane = strconv.FormatUint(e.Seq, 10), e.Seq, laneOf(items[i].Body, e.Seq)
	}
	return items, err
}

func (q *auditedQueue) gives() bool { return false }

func (q *auditedQueue) read(ctx context.Context, _ string, limit int, _ bool) ([]check.Delivery, error) {
	got, err := q.Dequeue(ctx, auditName, queue.Max(limit), queue.Lease(auditLease), queue.Wait(auditLease))
	list := make([]check.Delivery, len(got))
	for i, m := range got {
		_, lsn, _ := strings.Cut(string(m.Receipt), "-")
		list[i] = check.Delivery{
			Body: string(m.Payload), At: strconv.FormatUint(m.Seq, 10), Place: m.Seq, Lane: laneOf(string(m.Payload),
				m.Seq), Attempt: m.Attempts,
			Until: int64(m.LeaseUntil.Sub(q.start) - auditClocks),
		}
		if list[i].LSN, err = strconv.ParseUint(lsn, 10, 64); err != nil {
			return nil, err
		}
	}
	return list, err
}

func receiptOf(d check.Delivery) queue.Receipt {
	return queue.Receipt(fmt.Sprintf("%s-%d", d.At, d.LSN))
}

func (q *auditedQueue) ack(ctx context.Context, of []check.Delivery) (int, error) {
	var receipts []queue.Receipt
	for _, d := range of {
		receipts = append(receipts, receiptOf(d))
	}
	return q.Ack(ctx, auditName, receipts...)
}

func (q *auditedQueue) nack(ctx context.Context, of check.Delivery) (int, error) {
	return q.Nack(ctx, auditName, []queue.Receipt{receiptOf(of)}, queue.Reason("nacked"))
}

func (q *auditedQueue) bury(ctx context.Context, of check.Delivery) (int, error) {
	return q.Nack(ctx, auditName, []queue.Receipt{receiptOf(of)}, queue.ToDLQ())
}

func (q *auditedQueue) extend(ctx context.Context, of check.Delivery) (int, error) {
	_, err := q.Extend(ctx, auditName, receiptOf(of), auditLease)
	return 1, err
}

func (q *auditedQueue) leave(context.Context, string) error { return nil }

func (q *auditedQueue) totals(ctx context.Context) (check.Totals, error) {
	s, err := q.Get(ctx, auditName)
	return check.Totals{Enqueued: s.Enqueued, Ready: s.Ready, Delayed: s.Delayed, Leased: s.Inflight, Dead: s.Dead, Acked: s.Acked}, err
}

func (q *auditedQueue) dead(ctx context.Context) (list []check.Dead, _ error) {
	for m, err := range q.DeadLetters(auditName).All(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, check.Dead{Body: string(m.Payload), Attempts: m.Attempts})
	}
	return list, nil
}

// auditedGroup is a consumer group of a stream with several partitions.
type auditedGroup struct {
	*stream.Store
	mode stream.Mode
}

const auditGroup = "group"

func (g *auditedGroup) open(ctx context.Context) error {
	if err := g.Create(ctx, auditName, stream.Partitions(3)); err != nil {
		return err
	}
	return g.Groups(auditName).Create(ctx, auditGroup,
		stream.InMode(g.mode), stream.AckTimeout(auditLease), stream.MaxAttempts(auditAttempts), stream.Backoff(auditBackoff,
			2*auditBackoff))
}

func (g *auditedGroup) send(ctx context.Context, once string, items []check.Item) ([]check.Item, error) {
	messages := make([]stream.Message, len(items))
	for i, item := range items {
		messages[i] = stream.Message{Key: item.Key, Payload: []byte(item.Body)}
	}
	var opts []stream.AppendOption
	if once != "" {
		number, err := strconv.ParseUint(items[0].Body[strings.LastIndexByte(items[0].Body, '/')+1:], 10, 64)
		if err != nil {
			return nil, err
		}
		opts = append(opts, stream.Dedup(once, number))
	}
	sent, err := g.AppendMany(ctx, auditName, messages, opts...)
	for i, a := range sent {
		items[i].At, items[i].Lane, items[i].Place = fmt.Sprint(a.Partition, "/", a.Offset), a.Partition, a.Offset
	}
	return items, err
}

func (g *auditedGroup) gives() bool { return true }

func (g *auditedGroup) read(ctx context.Context, consumer string, limit int, forGood bool) ([]check.Delivery, error) {
	opts := []stream.GroupReadOption{stream.Limit(limit), stream.Wait(auditLease)}
	if forGood {
		opts = append(opts, stream.NoAck())
	}
	got, err := g.ReadGroup(ctx, auditName, auditGroup, consumer, opts...)
	list := make([]check.Delivery, len(got))
	for i, d := range got {
		list[i] = check.Delivery{
			Body: string(d.Payload), Key: d.Key, At: fmt.Sprint(d.Partition, "/", d.Offset), Lane: d.Partition, Place: d.Offset,
			Attempt: d.Attempt,
		}
	}
	return list, err
}

func refsOf(of []check.Delivery) (refs []stream.Ref) {
	for _, d := range of {
		refs = append(refs, stream.Ref{Partition: d.Lane, Offset: d.Place, Attempt: d.Attempt})
	}
	return refs
}

func (g *auditedGroup) ack(ctx context.Context, of []check.Delivery) (int, error) {
	return g.Ack(ctx, auditName, auditGroup, refsOf(of)...)
}

func (g *auditedGroup) nack(ctx context.Context, of check.Delivery) (int, error) {
	opts := []stream.NackOption{stream.Reason("nacked")}
	if n := of.Place % 4; n > 0 {
		opts = append(opts, stream.Delay(time.Duration(n-1)*3*auditBackoff))
	}
	return g.Nack(ctx, auditName, auditGroup, refsOf([]check.Delivery{of}), opts...)
}

func (g *auditedGroup) bury(ctx context.Context, of check.Delivery) (int, error) {
	return g.nack(ctx, of)
}

func (g *auditedGroup) extend(ctx context.Context, of check.Delivery) (int, error) {
	e, err := g.ExtendMany(ctx, auditName, auditGroup, refsOf([]check.Delivery{of}), auditLease)
	return e.Records, err
}

func (g *auditedGroup) leave(ctx context.Context, consumer string) error {
	return g.Leave(ctx, auditName, auditGroup, consumer)
}

// totals computes Acked as what is neither pending nor dead, because a group counts no acks.
func (g *auditedGroup) totals(ctx context.Context) (t check.Totals, err error) {
	info, err := g.Get(ctx, auditName)
	if err != nil {
		return t, err
	}
	group, err := g.Groups(auditName).Get(ctx, auditGroup)
	if err != nil {
		return t, err
	}
	dead, err := g.dead(ctx)
	t = check.Totals{Enqueued: info.Appended, Ready: group.Lag(), Leased: int64(group.Pending()), Dead: int64(len(dead))}
	t.Acked = t.Enqueued - t.Ready - t.Leased - t.Dead
	return t, err
}

func (g *auditedGroup) dead(ctx context.Context) (list []check.Dead, _ error) {
	name := stream.DeadLetters(auditName)
	for after := (stream.ID{}); ; {
		page, err := g.Read(ctx, name, stream.After(after), stream.Limit(stream.MaxReadLimit))
		if errors.Is(err, floe.ErrNotFound) || err == nil && len(page) == 0 {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			attempts, err := strconv.Atoi(r.Headers[stream.HeaderAttempts])
			if err != nil {
				return nil, err
			}
			list = append(list, check.Dead{Body: string(r.Payload), Attempts: attempts})
			after = r.ID
		}
	}
}
