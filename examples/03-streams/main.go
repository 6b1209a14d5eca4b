// Command 03-streams appends orders to a partitioned stream, reads them in several ways, and
// limits what the stream keeps.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

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
	for _, part := range []func(context.Context, *stream.Store, io.Writer) error{produce, partitions, position, follow, trim} {
		if err := part(ctx, s, out); err != nil {
			return err
		}
	}
	return nil
}

// produce appends three orders of each customer, and repeats an append whose response was lost.
func produce(ctx context.Context, s *stream.Store, out io.Writer) error {
	if err := s.Create(ctx, "orders", stream.Partitions(3), stream.MaxLen(1_000_000)); err != nil {
		return err
	}
	for n := range 3 {
		for _, customer := range []string{"ann", "bob", "cyn", "dan"} {
			order := stream.Message{Key: customer, Payload: fmt.Appendf(nil, "%s/%d", customer, n+1)}
			if _, err := s.Append(ctx, "orders", order, stream.Dedup("till-"+customer, uint64(n))); err != nil {
				return err
			}
		}
	}
	again, err := s.Append(ctx, "orders", stream.Message{Key: "ann", Payload: []byte("ann/3")}, stream.Dedup("till-ann", 2))
	fmt.Fprintf(out, "repeated append: duplicate %t, offset %d\n", again.Duplicate, again.Offset)
	return err
}

// partitions reads each partition. All records of a key are in one of them, in order.
func partitions(ctx context.Context, s *stream.Store, out io.Writer) error {
	for p := range 3 {
		records, err := s.Read(ctx, "orders", stream.Partition(p))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "partition %d: %s\n", p, payloads(records))
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

// position reads a page, and the next one after the ID of its last record.
func position(ctx context.Context, s *stream.Store, out io.Writer) error {
	first, err := s.Read(ctx, "orders", stream.Limit(4))
	if err != nil {
		return err
	}
	next, err := s.Read(ctx, "orders", stream.After(first[3].ID), stream.Limit(2))
	fmt.Fprintf(out, "first page: %s\nnext page: %s\n", payloads(first), payloads(next))
	return err
}

// follow reads to the end of the stream, and on as it grows.
func follow(ctx context.Context, s *stream.Store, out io.Writer) error {
	last, err := s.Read(ctx, "orders", stream.Tail(), stream.Limit(1))
	if err != nil {
		return err
	}
	for record, err := range s.Follow(ctx, "orders", stream.From(last[0].ID)) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "follow: %s\n", record.Payload)
		if string(record.Payload) == "eve/1" {
			break
		}
		if _, err := s.Append(ctx, "orders", stream.Message{Key: "eve", Payload: []byte("eve/1")}); err != nil {
			return err
		}
	}
	return nil
}

// trim keeps the newest two records of each partition.
func trim(ctx context.Context, s *stream.Store, out io.Writer) error {
	removed, err := s.Trim(ctx, "orders", stream.MaxLen(2))
	fmt.Fprintf(out, "trim removed %d records\n", removed)
	return err
}
