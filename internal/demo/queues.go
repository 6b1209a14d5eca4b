package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/floedb/floe/queue"
)

// bounds are the settings of queues that Run fills. They are bounded because a user may pause their
// consumers.
var bounds = queue.Settings{MaxLen: 2000, MaxAttempts: 3, DeadRetention: 6 * time.Hour}

func (s *Shop) loadQueues(ctx context.Context) error {
	store := s.db.Queue(Main)
	var errs []error
	for _, name := range []string{"mail", "thumbnails", "review", "invoices", "newsletter"} {
		errs = append(errs, store.Configure(ctx, name, bounds))
	}
	return errors.Join(append(errs, store.Configure(ctx, "exports", queue.Settings{MaxLen: 1000}), s.loadNewsletter(ctx))...)
}

// loadNewsletter creates a queue that was paused halfway. It has messages in every state, which do
// not change.
func (s *Shop) loadNewsletter(ctx context.Context) error {
	store := s.db.Queue(Main)
	r := s.random(queueStream, 0)
	var errs []error
	add := func(payload string, opts ...queue.EnqueueOption) {
		_, err := store.Enqueue(ctx, "newsletter", []byte(payload), opts...)
		errs = append(errs, err)
	}
	for i := range 12 {
		add(fmt.Sprintf(`{"to":"user%d@gone.example","issue":31}`, i))
	}
	dead, err := store.Dequeue(ctx, "newsletter", queue.Max(12))
	errs = append(errs, err)
	for i, m := range dead {
		reason := "550 no such address"
		if i%4 == 3 {
			reason = "552 the mailbox is full"
		}
		_, err := store.Nack(ctx, "newsletter", []queue.Receipt{m.Receipt}, queue.ToDLQ(), queue.Reason(reason))
		errs = append(errs, err)
	}
	for i := range 60 {
		add(fmt.Sprintf(`{"to":"user%d@example.com","issue":32,"lang":%q}`, i, pick(r, "de", "fr", "en")),
			queue.Priority([]int{100, 100, 10, 200}[i%4]))
	}
	_, err = store.Dequeue(ctx, "newsletter", queue.Max(7), queue.Lease(12*time.Hour))
	errs = append(errs, err)
	for i := range 5 {
		add(fmt.Sprintf(`{"to":"later%d@example.com","issue":33}`, i), queue.Delay(time.Duration(i+1)*time.Hour))
	}
	return errors.Join(append(errs, store.Pause(ctx, "newsletter"))...)
}

// tickQueues enqueues work that does not come from orders.
func (s *Shop) tickQueues(ctx context.Context, r *rand.Rand, n int) error {
	store := s.db.Queue(Main)
	var errs []error
	if n%6 == 0 {
		_, err := store.Enqueue(ctx, "thumbnails", fmt.Appendf(nil, `{"picture":"p-%d.jpg","sizes":[64,256,1024]}`, r.IntN(10_000)))
		errs = append(errs, err)
	}
	if n%20 == 0 {
		_, err := store.Enqueue(ctx, "invoices",
			fmt.Appendf(nil, `{"customer":"c-%d","month":"2026-0%d"}`, 1000+r.IntN(customers), 1+r.IntN(9)),
			queue.Delay(time.Duration(1+r.IntN(5))*time.Minute), queue.Priority(200))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// address returns the mail address for an order. Some addresses do not exist, and some servers are
// down.
func address(o order) string {
	switch host := "example.com"; {
	case o.ID%29 == 0:
		return o.Customer + "@gone.example"
	case o.ID%11 == 0:
		return o.Customer + "@slow.example"
	default:
		return o.Customer + "@" + host
	}
}

// mailer sends mail, about as fast as it arrives.
func (s *Shop) mailer(ctx context.Context) error {
	return s.db.Queue(Main).Consume(ctx, "mail", func(ctx context.Context, m queue.Message) error {
		var mail struct {
			To    string `json:"to"`
			Order int    `json:"order"`
		}
		if err := json.Unmarshal(m.Payload, &mail); err != nil {
			return queue.Permanent(err)
		}
		if err := s.take(ctx, effort(mail.Order, 700*time.Millisecond)); err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(mail.To, "@gone.example"):
			return queue.Permanent(fmt.Errorf("550 no such address: %s", mail.To))
		case strings.HasSuffix(mail.To, "@slow.example") && m.Attempts < 2:
			return errors.New("421 try again later")
		}
		return nil
	}, queue.Concurrency(2), queue.Grace(time.Second))
}

// work consumes a queue; each message takes about the duration each.
func (s *Shop) work(ctx context.Context, namespace, name string, workers int, each time.Duration) error {
	return s.db.Queue(namespace).Consume(ctx, name, func(ctx context.Context, m queue.Message) error {
		return s.take(ctx, effort(int(m.Seq), each))
	}, queue.Concurrency(workers), queue.Grace(time.Second))
}

func (s *Shop) painter(ctx context.Context) error {
	return s.work(ctx, Main, "thumbnails", 1, 3*time.Second)
}
func (s *Shop) reviewer(ctx context.Context) error {
	return s.work(ctx, Main, "review", 2, time.Second)
}
func (s *Shop) invoicer(ctx context.Context) error {
	return s.work(ctx, Main, "invoices", 1, 200*time.Millisecond)
}
func (s *Shop) picker(ctx context.Context) error {
	return s.work(ctx, Warehouse, "picks", 1, 2*time.Second)
}
