package kv_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// Compare and set: read, change, and write only if the key has not changed meanwhile.
func ExampleIfRevision() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.KV("default")
	if _, err := store.Put(ctx, "motd", []byte("hello")); err != nil {
		log.Fatal(err)
	}

	appendTo := func(suffix string) error {
		for {
			e, err := store.Get(ctx, "motd")
			if err != nil {
				return err
			}
			if suffix == " world" { // a concurrent write, once
				store.Put(ctx, "motd", []byte("good morning"), kv.IfRevision(e.Revision))
			}
			_, err = store.Put(ctx, "motd", append(e.Value, suffix...), kv.IfRevision(e.Revision))
			var conflict *kv.ConflictError
			if !errors.As(err, &conflict) {
				return err
			}
			fmt.Println("conflict, once more")
			suffix = " all"
		}
	}
	if err := appendTo(" world"); err != nil {
		log.Fatal(err)
	}
	e, err := store.Get(ctx, "motd")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", e.Value)
	// Output:
	// conflict, once more
	// good morning all
}
