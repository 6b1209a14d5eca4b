package floe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
)

// The first write creates a namespace. A namespace that is spread over all shards is created
// explicitly.
func ExampleNamespaces() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	ctx := context.Background()
	if err := node.Namespaces().Create(ctx, "measurements", floe.Spread()); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"shop", "shop", "measurements"} {
		if _, err := node.KV(name).Incr(ctx, "n", 1); err != nil {
			log.Fatal(err)
		}
	}
	for ns, err := range node.Namespaces().All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ns.Name, ns.Spread, ns.Counts.Keys)
	}
	// Output:
	// default false 0
	// measurements true 1
	// shop false 1
}
