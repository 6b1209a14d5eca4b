// Command 04-groups consumes a stream in consumer groups: shared among consumers, in order by key,
// with retries and dead letters, and once more from an earlier position.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	s := node.Stream("shop")
	for _, order := range []string{"ann/1", "dan/1", "ann/2", "dan/2", "ann/3", "dan/3"} {
		customer, _, _ := strings.Cut(order, "/")
		if _, err := s.Append(ctx, "orders", stream.Message{Key: customer, Payload: []byte(order)}); err != nil {
			return err
		}
	}
	for _, part := range []func(context.Context, *stream.Store, io.Writer) error{shared, keyShared, failing, replay} {
		if err := part(ctx, s, out); err != nil {
			return err
		}
	}
	return nil
}

// read delivers records to a consumer of a group. They stay pending until they are acknowledged.
func read(ctx context.Context, s *stream.Store, out io.Writer, group, consumer string, opts ...stream.GroupReadOption) (
	[]stream.Ref, error) {
	deliveries, err := s.ReadGroup(ctx, "orders", group, consumer, opts...)
	fmt.Fprintf(out, "%s: %s got", group, consumer)
	for _, d := range deliveries {
		fmt.Fprintf(out, " %s", d.Payload)
	}
	fmt.Fprintln(out)
	return stream.RefsOf(deliveries), err
}

// process reads and acknowledges.
func process(ctx context.Context, s *stream.Store, out io.Writer, group, consumer string, opts ...stream.GroupReadOption) error {
	refs, err := read(ctx, s, out, group, consumer, opts...)
	if err == nil {
		_, err = s.Ack(ctx, "orders", group, refs...)
	}
	return err
}

// shared has two consumers. The second one leaves without acknowledging its records.
func shared(ctx context.Context, s *stream.Store, out io.Writer) error {
	if err := process(ctx, s, out, "mail", "mail-1", stream.Limit(2)); err != nil {
		return err
	}
	if _, err := read(ctx, s, out, "mail", "mail-2"); err != nil {
		return err
	}
	if err := s.Leave(ctx, "orders", "mail", "mail-2"); err != nil {
		return err
	}
	return process(ctx, s, out, "mail", "mail-1")
}

// keyShared assigns each customer to one of two consumers, so orders stay in order.
func keyShared(ctx context.Context, s *stream.Store, out io.Writer) error {
	mode := stream.InMode(stream.KeyShared)
	if err := process(ctx, s, out, "stock", "stock-1", mode, stream.Limit(1)); err != nil {
		return err
	}
	return errors.Join(process(ctx, s, out, "stock", "stock-2", mode), process(ctx, s, out, "stock", "stock-1", mode))
}

// failing runs a handler that cannot process dan/2. After two attempts the record is a dead letter.
func failing(ctx context.Context, s *stream.Store, out io.Writer) error {
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	consumed := make(chan error, 1)
	go func() {
		consumed <- s.Consume(consuming, "orders", "invoices", func(_ context.Context, d stream.Delivery) error {
			if string(d.Payload) == "dan/2" {
				return errors.New("no address")
			}
			return nil
		}, stream.MaxAttempts(2), stream.Backoff(0, 0))
	}()
	dead, err := s.Read(ctx, stream.DeadLetters("orders"), stream.Wait(time.Minute))
	for _, r := range dead {
		fmt.Fprintf(out, "dead letter: %s, %s attempts: %s\n", r.Payload, r.Headers[stream.HeaderAttempts], r.Headers[stream.HeaderError])
	}
	stop()
	return errors.Join(err, <-consumed)
}

// replay moves the group mail back to the beginning.
func replay(ctx context.Context, s *stream.Store, out io.Writer) error {
	if err := s.Seek(ctx, "orders", "mail", stream.FromBeginning()); err != nil {
		return err
	}
	return process(ctx, s, out, "mail", "mail-1", stream.Limit(3))
}
