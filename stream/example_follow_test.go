package stream_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// Follow yields the stored records and then new ones as they arrive. It can be resumed after any
// record.
func ExampleStore_Follow() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.Stream("default")
	say := func(text string) {
		if _, err := store.Append(ctx, "chat", stream.Message{Payload: []byte(text)}); err != nil {
			log.Fatal(err)
		}
	}
	say("hello")
	say("anybody there?")

	var last stream.ID
	for rec, err := range store.Follow(ctx, "chat") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", rec.Payload)
		if rec.Offset == 2 {
			say("yes")
		}
		if rec.Offset == 3 {
			last = rec.ID
			break
		}
	}

	say("goodbye")
	for rec, err := range store.Follow(ctx, "chat", stream.After(last)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("later: %s\n", rec.Payload)
		break
	}
	// Output:
	// hello
	// anybody there?
	// yes
	// later: goodbye
}
