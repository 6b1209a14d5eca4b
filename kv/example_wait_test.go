package kv_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// One side waits, for a limited time, for an answer that the other side stores under an agreed key.
func ExampleStore_Wait() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.KV("default")

	go store.Put(ctx, "answer:7", []byte("42"), kv.TTL(50*time.Millisecond))
	e, err := store.Wait(ctx, "answer:7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, expires: %v\n", e.Value, !e.ExpiresAt.IsZero())

	change, err := store.WaitChange(ctx, "answer:7", e.Revision)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("then:", change.Type)
	// Output:
	// 42, expires: true
	// then: expire
}
