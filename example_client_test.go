package floe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
)

// visit uses the methods that a node and a client have in common.
func visit(ctx context.Context, db floe.DB) (int64, error) {
	n, err := db.KV("default").Incr(ctx, "visits", 1)
	return n.Value, err
}

// A client has the stores of a node in another process. To keep the example short, the node here is
// in the same process.
func ExampleDial() {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	client, err := floe.Dial(ctx, []string{node.Addr().String()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	for _, db := range []floe.DB{client, node, client} {
		n, err := visit(ctx, db)
		fmt.Println(n, err)
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
}
