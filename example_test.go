package floe_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// A node keeps its data in a directory and reads it back when it is opened again.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "floe")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	node, err := floe.Open(floe.Config{DataDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	first, err := node.KV("default").Put(ctx, "greeting", []byte("hello"))
	if err != nil {
		log.Fatal(err)
	}
	if err := node.Close(); err != nil {
		log.Fatal(err)
	}

	if node, err = floe.Open(floe.Config{DataDir: dir}); err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	entry, err := node.KV("default").Get(ctx, "greeting")
	fmt.Printf("%s %v\n", entry.Value, err)

	_, err = node.KV("default").Put(ctx, "greeting", []byte("hello again"), kv.IfRevision(first.Revision+1))
	fmt.Println(errors.Is(err, floe.ErrConflict))
	// Output:
	// hello <nil>
	// true
}
