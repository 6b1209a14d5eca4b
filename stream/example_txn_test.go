package stream_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream"
)

// An event is appended together with the change that it describes, or neither happens.
func ExampleAppendOp() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx := context.Background()

	for range 2 {
		_, err := node.Txn("default").
			If(kv.Absent("order:42")).
			Do(kv.PutOp("order:42", []byte("paid")), stream.AppendOp("orders", stream.Message{Key: "42", Payload: []byte("paid")})).
			Commit(ctx)
		fmt.Println("committed:", err == nil)
	}
	records, err := node.Stream("default").Read(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("events:", len(records))
	// Output:
	// committed: true
	// committed: false
	// events: 1
}
