package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// With Dedup, an append whose outcome is unknown can be retried with the same number until the
// outcome is known. It happens once.
func ExampleDedup() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.Stream("default")

	for range 2 { // as if the first response had been lost
		a, err := store.Append(ctx, "payments", stream.Message{Payload: []byte("12.50")}, stream.Dedup("till 4", 1001))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("offset %d, duplicate %v\n", a.Offset, a.Duplicate)
	}
	// Output:
	// offset 1, duplicate false
	// offset 1, duplicate true
}

// With IfLastID one of several writers appends; the others get a conflict and read first.
func ExampleIfLastID() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.Stream("default")

	opened, err := store.Append(ctx, "account", stream.Message{Payload: []byte("opened")}, stream.IfLastID(stream.ID{}))
	if err != nil {
		log.Fatal(err)
	}
	for _, what := range []string{"deposit", "closed"} {
		_, err := store.Append(ctx, "account", stream.Message{Payload: []byte(what)}, stream.IfLastID(opened.ID))
		var conflict *stream.ConflictError
		fmt.Printf("%s: appended %v, conflict %v\n", what, err == nil, errors.As(err, &conflict))
	}
	// Output:
	// deposit: appended true, conflict false
	// closed: appended false, conflict true
}
