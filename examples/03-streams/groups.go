package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/stream"
)

// keyShared deals the keys out to the consumers: the orders of a customer go to one of them, in
// order.
func (s *shop) keyShared(ctx context.Context) error {
	mode := stream.InMode(stream.KeyShared)
	if err := s.consume(ctx, "stock", "left", mode, stream.Limit(1)); err != nil {
		return err
	}
	for range 2 {
		for _, consumer := range []string{"right", "left"} {
			if err := s.consume(ctx, "stock", consumer, mode, stream.Limit(4)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fail can not deal with one of the records: it is delivered twice, and then goes to the dead
// letters. Consume is the loop of a consumer: it acknowledges what its handler has done, and
// refuses what that returns an error for.
func (s *shop) fail(ctx context.Context) error {
	if err := s.Groups("orders").Create(ctx, "invoices", stream.MaxAttempts(2), stream.Backoff(0, 0)); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	consumed := make(chan error, 1)
	go func() {
		consumed <- s.Consume(ctx, "orders", "invoices", func(_ context.Context, d stream.Delivery) error {
			err := invoice(d.Record)
			if err != nil {
				fmt.Fprintf(s.out, "invoices: attempt %d of %s: %v\n", d.Attempt, d.Payload, err)
			}
			return err
		}, stream.Consumer("printer"))
	}()
	dead, err := s.Read(ctx, stream.DeadLetters("orders"), stream.Wait(time.Minute))
	stop()
	if err = errors.Join(err, <-consumed); err != nil {
		return err
	}
	for _, r := range dead {
		fmt.Fprintf(s.out, "orders.dlq: %s, after %s attempts of group %s: %s\n",
			r.Payload, r.Headers[stream.HeaderAttempts], r.Headers[stream.HeaderGroup], r.Headers[stream.HeaderError])
	}
	return nil
}

func invoice(order stream.Record) error {
	if string(order.Payload) == "bob/3" {
		return errors.New("has no address")
	}
	return nil
}

// replay goes back to an order that was consumed long ago.
func (s *shop) replay(ctx context.Context) error {
	last, err := s.Read(ctx, "orders", stream.Tail(), stream.Limit(2))
	if err != nil {
		return err
	}
	if err := s.consume(ctx, "mail", "mail-1"); err != nil {
		return err
	}
	if err := s.Seek(ctx, "orders", "mail", stream.From(last[0].ID)); err != nil {
		return err
	}
	return s.consume(ctx, "mail", "mail-1")
}
