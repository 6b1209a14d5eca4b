package kv_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
)

func Example() {
	node, err := floe.Open(floe.Config{}) // in memory; with a DataDir it would be on disk
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.KV("default")

	written, err := store.Put(ctx, "greeting", []byte("hello"))
	if err != nil {
		log.Fatal(err)
	}
	entry, err := store.Get(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, version %d\n", entry.Value, entry.Version)
	fmt.Println("the revision is that of the put:", entry.Revision == written.Revision)

	if _, err := store.Delete(ctx, "greeting"); err != nil {
		log.Fatal(err)
	}
	_, err = store.Get(ctx, "greeting")
	fmt.Println(err)
	// Output:
	// hello, version 1
	// the revision is that of the put: true
	// kv: key "greeting" not found
}
