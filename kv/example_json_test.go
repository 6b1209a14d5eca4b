package kv_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
)

func ExampleStore_JSONSet() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.KV("default")

	for _, set := range []struct{ path, raw string }{
		{"name", `"Ada"`},
		{"tags", `["x"]`},
		{"tags.-1", `"y"`}, // after the last element
		{"$.address.city", `"London"`},
	} {
		if _, err := store.JSONSet(ctx, "user:1", set.path, []byte(set.raw)); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := store.JSONDelete(ctx, "user:1", "tags.0"); err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{"", "address.city", "tags.#"} {
		raw, err := store.JSONGet(ctx, "user:1", path)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", raw)
	}
	// Output:
	// {"name":"Ada","tags":["y"],"address":{"city":"London"}}
	// "London"
	// 1
}
