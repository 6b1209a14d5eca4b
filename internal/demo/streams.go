package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

const (
	imported = 600 // records of the last import
	keptFor  = 6 * time.Hour
)

// wave is a sine between -1 and 1 with a period in ticks.
func wave(n, ticks int) float64 { return math.Sin(2 * math.Pi * float64(n) / float64(ticks)) }

func (s *Shop) loadStreams(ctx context.Context) error {
	store := s.db.Stream(Main)
	errs := []error{
		store.Create(ctx, "orders", stream.Partitions(4), stream.MaxAge(keptFor), stream.MaxLen(20_000)),
		store.Create(ctx, "clicks", stream.Partitions(2), stream.MaxLen(50_000)),
		store.Create(ctx, "imports", stream.Partitions(4)),
		store.Create(ctx, "returns", stream.MaxAge(keptFor)),
	}
	// Streams written by jobs and groups have the same retention as orders.
	for _, name := range []string{stream.DeadLetters("orders"), "huge-orders", "enriched-orders"} {
		errs = append(errs, store.Create(ctx, name, stream.MaxAge(keptFor), stream.MaxLen(20_000)))
	}
	for _, group := range []string{"billing", "mail", "search"} {
		errs = append(errs, store.Groups("orders").Create(ctx, group, stream.FromBeginning(), stream.AckTimeout(30*time.Second)))
	}
	errs = append(errs, store.Groups("orders").Create(ctx, "fraud", stream.FromBeginning(), stream.InMode(stream.KeyShared),
		stream.MaxAttempts(3), stream.Backoff(400*time.Millisecond, 2*time.Second)), s.loadImports(ctx))
	return errors.Join(errs...)
}

// loadImports creates a stream of a completed import. Its consumer, the catalogue, has stopped
// halfway and left some records unacknowledged.
func (s *Shop) loadImports(ctx context.Context) error {
	store := s.db.Stream(Main)
	r := s.random(importStream, 0)
	var messages []stream.Message
	var errs []error
	for i := range imported {
		body, err := json.Marshal(map[string]any{"sku": 70_000 + i, "item": pick(r, "cup", "lamp", "rope", "chair"),
			"supplier": fmt.Sprintf("s-%d", r.IntN(9)), "cents": 300 + r.IntN(20_000)})
		errs = append(errs, err)
		messages = append(messages, stream.Message{Key: fmt.Sprintf("s-%d", i%17), Payload: body,
			Headers: map[string]string{"type": "product", "file": "products.csv"}})
	}
	_, err := store.AppendMany(ctx, "imports", messages)
	errs = append(errs, err, store.Groups("imports").Create(ctx, "catalogue", stream.FromBeginning(), stream.AckTimeout(12*time.Hour)))
	for range 3 {
		got, err := store.ReadGroup(ctx, "imports", "catalogue", "catalogue-1", stream.Limit(100))
		errs = append(errs, err)
		for i, d := range got {
			if i%10 != 0 {
				_, err := store.Ack(ctx, "imports", "catalogue", d.Ref())
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// tickClicks generates clicks, whose number rises and falls over 300 ticks.
func (s *Shop) tickClicks(ctx context.Context, r *rand.Rand, n int) error {
	var messages []stream.Message
	for range 2 + r.IntN(4) + int(4*(1+wave(n, 300))) {
		page := pick(r, "/", "/cart", "/lamps", "/chairs", "/checkout", "/search?q=desk")
		messages = append(messages, stream.Message{
			Key: fmt.Sprintf("v-%d", r.IntN(500)), Payload: fmt.Appendf(nil, `{"page":%q,"ms":%d,"device":%q}`, page, 20+r.IntN(900),
				pick(r, "phone", "desk", "tablet")),
		})
	}
	_, err := s.db.Stream(Main).AppendMany(ctx, "clicks", messages)
	return err
}

// tickSearch lets the search index consume a few orders, fewer than arrive.
func (s *Shop) tickSearch(ctx context.Context, _ *rand.Rand, _ int) error {
	store := s.db.Stream(Main)
	got, err := store.ReadGroup(ctx, "orders", "search", "index-1", stream.Limit(3))
	if err != nil || len(got) == 0 {
		return err
	}
	_, err = store.Ack(ctx, "orders", "search", stream.RefsOf(got)...)
	return err
}

// biller keeps up with the orders.
func (s *Shop) biller(ctx context.Context) error {
	return s.db.Stream(Main).Consume(ctx, "orders", "billing", func(ctx context.Context, d stream.Delivery) error {
		return s.take(ctx, 20*time.Millisecond)
	}, stream.Consumer("billing-1"), stream.Concurrency(4), stream.Grace(time.Second))
}

// mailWriter enqueues a mail for each order.
func (s *Shop) mailWriter(ctx context.Context) error {
	return s.db.Stream(Main).Consume(ctx, "orders", "mail", func(ctx context.Context, d stream.Delivery) error {
		var o order
		if err := json.Unmarshal(d.Payload, &o); err != nil {
			return stream.Permanent(err)
		}
		priority := 100
		if o.Cents >= approvedFrom {
			priority = 10
		}
		_, err := s.db.Queue(Main).Enqueue(ctx, "mail", fmt.Appendf(nil, `{"to":%q,"template":"receipt","order":%d}`, address(o), o.ID),
			queue.Priority(priority))
		return err
	}, stream.Consumer("mail-1"), stream.Grace(time.Second))
}

// fraudHunter checks orders more slowly than they arrive, and cannot read those of one country.
func (s *Shop) fraudHunter(ctx context.Context) error {
	return s.db.Stream(Main).Consume(ctx, "orders", "fraud", func(ctx context.Context, d stream.Delivery) error {
		var o order
		if err := json.Unmarshal(d.Payload, &o); err != nil {
			return stream.Permanent(err)
		}
		if err := s.take(ctx, effort(o.ID, 400*time.Millisecond)); err != nil {
			return err
		}
		if o.Country == "AT" {
			return fmt.Errorf("no rules for the country %s", o.Country)
		}
		return nil
	}, stream.Consumer("fraud-1"), stream.Concurrency(2), stream.Grace(time.Second), stream.InMode(stream.KeyShared))
}
