// Command streams appends orders to a stream and consumes them in groups of all three modes: with
// failures, dead letters and a replay.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// shop is a store of streams and what the parts of the example print to. They end at the first
// error.
type shop struct {
	*stream.Store
	out io.Writer
}

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	s := &shop{node.Stream("shop"), out}
	for _, part := range []func(context.Context) error{s.produce, s.shared, s.exclusive, s.keyShared, s.fail, s.replay} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// produce appends four orders of each of three customers.
func (s *shop) produce(ctx context.Context) error {
	if err := s.Create(ctx, "orders", stream.Partitions(3), stream.MaxLen(1_000_000)); err != nil {
		return err
	}
	for n := range 4 {
		for _, customer := range []string{"ann", "bob", "cyn"} {
			order := stream.Message{Key: customer, Payload: fmt.Appendf(nil, "%s/%d", customer, n+1)}
			if _, err := s.Append(ctx, "orders", order, stream.Dedup("till-"+customer, uint64(n))); err != nil {
				return err
			}
		}
	}
	for p := range 3 {
		records, err := s.Read(ctx, "orders", stream.Partition(p))
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "partition %d: %s\n", p, payloads(records))
	}
	return nil
}

func payloads(records []stream.Record) string {
	var all []string
	for _, r := range records {
		all = append(all, string(r.Payload))
	}
	return strings.Join(all, " ")
}

// consume takes records for a consumer, prints them and says that they are done.
func (s *shop) consume(ctx context.Context, group, consumer string, opts ...stream.GroupReadOption) error {
	deliveries, err := s.ReadGroup(ctx, "orders", group, consumer, opts...)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: %s got %s\n", group, consumer, deliveryText(deliveries))
	if len(deliveries) == 0 {
		return nil
	}
	_, err = s.Ack(ctx, "orders", group, stream.RefsOf(deliveries)...)
	return err
}

func deliveryText(deliveries []stream.Delivery) string {
	var records []stream.Record
	for _, d := range deliveries {
		records = append(records, d.Record)
	}
	if len(records) == 0 {
		return "nothing"
	}
	return payloads(records)
}

// shared has several consumers who split the work: each record goes to one of them.
func (s *shop) shared(ctx context.Context) error {
	for _, consumer := range []string{"mail-1", "mail-2", "mail-1"} {
		if err := s.consume(ctx, "mail", consumer, stream.Limit(4)); err != nil {
			return err
		}
	}
	return nil
}

// exclusive has one consumer at a time. When it leaves, the next one takes over what it had not
// done.
func (s *shop) exclusive(ctx context.Context) error {
	mode := stream.InMode(stream.Exclusive)
	taken, err := s.ReadGroup(ctx, "orders", "ledger", "first", mode)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "ledger: first got %d records, and dies\n", len(taken))
	if err := s.consume(ctx, "ledger", "second", mode); err != nil {
		return err
	}
	if err := s.Leave(ctx, "orders", "ledger", "first"); err != nil {
		return err
	}
	return s.consume(ctx, "ledger", "second", mode)
}
