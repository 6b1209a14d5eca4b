package kv_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// A lock is a lease. Writes that require it are made conditional on it.
func ExampleStore_Lock() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.KV("default")

	lock, err := store.Lock(ctx, "leader", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	_, err = store.TryLock(ctx, "leader", 10*time.Second)
	fmt.Println("held by another:", errors.Is(err, floe.ErrConflict))

	write := func() error {
		_, err := node.Txn("default").If(lock.Held()).Do(kv.PutOp("state", []byte("mine"))).Commit(ctx)
		return err
	}
	fmt.Println("write while held:", write())
	if err := lock.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("write afterwards is refused:", errors.Is(write(), floe.ErrConflict))
	// Output:
	// held by another: true
	// write while held: <nil>
	// write afterwards is refused: true
}
