package stream_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// Consume processes the records of a group until its context ends. In a KeyShared group the records
// of a key are handled in order, however many records are handled concurrently.
func ExampleStore_Consume() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, stop := context.WithCancel(context.Background())
	store := node.Stream("default")

	for _, city := range []string{"Berlin", "Lima", "Oslo"} {
		store.Append(ctx, "visits", stream.Message{Key: "ada", Payload: []byte(city)})
	}
	err = store.Consume(ctx, "visits", "postcards", func(ctx context.Context, d stream.Delivery) error {
		fmt.Printf("%s was in %s\n", d.Key, d.Payload)
		if string(d.Payload) == "Oslo" {
			stop()
		}
		return nil // the record is acknowledged
	}, stream.Concurrency(8), stream.InMode(stream.KeyShared))
	fmt.Println("ended:", err)
	// Output:
	// ada was in Berlin
	// ada was in Lima
	// ada was in Oslo
	// ended: <nil>
}
