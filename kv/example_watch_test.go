package kv_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// A watch begins with the current entries and continues with changes. It can be resumed after any
// revision.
func ExampleStore_Watch() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.KV("default")
	put := func(key, value string) {
		if _, err := store.Put(ctx, key, []byte(value)); err != nil {
			log.Fatal(err)
		}
	}
	put("config/colour", "red")
	put("config/size", "small")

	var last uint64
	for e, err := range store.Watch(ctx, "config/") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v %s = %s\n", e.Type, e.Key, e.Value)
		if e.Key == "config/size" {
			put("config/colour", "blue")
		}
		if string(e.Value) == "blue" {
			last = e.Revision
			break
		}
	}

	put("config/colour", "green")
	if _, err := store.Delete(ctx, "config/size"); err != nil {
		log.Fatal(err)
	}
	for e, err := range store.Watch(ctx, "config/", kv.FromRevision(last)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v %s\n", e.Type, e.Key)
		if e.Type == kv.EventDelete {
			break
		}
	}
	// Output:
	// put config/colour = red
	// put config/size = small
	// put config/colour = blue
	// put config/colour
	// delete config/size
}
