package kv_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// All reads everything. Page reads a part and returns a cursor for the next page, which remains
// usable much later.
func ExampleStore_Page() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.KV("default")
	for i := range 5 {
		if _, err := store.Put(ctx, fmt.Sprintf("user:%d", i), []byte("some value")); err != nil {
			log.Fatal(err)
		}
	}

	for item, err := range store.All(ctx, kv.Prefix("user:"), kv.NoValues()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Key, item.Size)
	}
	cursor := ""
	for {
		page, err := store.Page(ctx, kv.Prefix("user:"), kv.Limit(2), kv.Cursor(cursor))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a page of", len(page.Items))
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	// Output:
	// user:0 10
	// user:1 10
	// user:2 10
	// user:3 10
	// user:4 10
	// a page of 2
	// a page of 2
	// a page of 1
}
