package stream_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// A view reads and writes records as Go values, encoded as JSON.
func ExampleJSON() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	type visit struct {
		City string
		Days int
	}
	ctx, visits := context.Background(), stream.JSON[visit](node.Stream("default"))

	visits.Append(ctx, "visits", "ada", visit{"Berlin", 3})
	visits.Append(ctx, "visits", "grace", visit{"Lima", 5})
	records, err := visits.Read(ctx, "visits")
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range records {
		fmt.Printf("%s was in %s for %d days\n", r.Key, r.Value.City, r.Value.Days)
	}
	// Output:
	// ada was in Berlin for 3 days
	// grace was in Lima for 5 days
}

// ConsumeMany hands over as many records at once as are available, for work that is cheaper in
// batches.
func ExampleStore_ConsumeMany() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, stop := context.WithCancel(context.Background())
	store := node.Stream("default")

	var lines []stream.Message
	for i := range 250 {
		lines = append(lines, stream.Message{Payload: fmt.Append(nil, i)})
	}
	store.AppendMany(ctx, "lines", lines)
	n := 0
	err = store.ConsumeMany(ctx, "lines", "archive", 100, func(ctx context.Context, ds []stream.Delivery) error {
		if n += len(ds); n == len(lines) {
			stop()
		}
		return nil // all records of the batch are acknowledged
	})
	fmt.Println("archived:", n, err)
	// Output: archived: 250 <nil>
}
