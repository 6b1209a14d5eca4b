package kv_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// Update reads, changes and writes a value, and starts over after a concurrent write.
func ExampleStore_Update() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.KV("default")

	store.Update(ctx, "greeting", func(e kv.Entry) ([]byte, error) {
		if e.Revision > 0 {
			return nil, kv.ErrUnchanged // the key exists
		}
		return []byte("hello"), nil
	})
	e, _ := store.Get(ctx, "greeting")
	fmt.Printf("%s\n", e.Value)
	// Output: hello
}

// A view stores values of a Go type.
func ExampleJSON() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	type account struct {
		Owner   string
		Balance int
	}
	ctx, accounts := context.Background(), kv.JSON[account](node.KV("default"))

	accounts.Put(ctx, "a/1", account{Owner: "ada", Balance: 10})
	accounts.Update(ctx, "a/1", func(e kv.EntryOf[account]) (account, error) {
		e.Value.Balance += 5
		return e.Value, nil
	})
	for e, err := range accounts.Scan(ctx, kv.Prefix("a/")) {
		fmt.Println(e.Key, e.Value.Owner, e.Value.Balance, err)
	}
	// Output: a/1 ada 15 <nil>
}

// WithLock holds a lock while a function runs. Writes that require the lock are made conditional on
// it.
func ExampleStore_WithLock() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	err = node.KV("default").WithLock(context.Background(), "nightly", 10*time.Second, func(ctx context.Context) error {
		lock := kv.LockOf(ctx)
		_, err := node.Txn("default").If(lock.Held()).Do(kv.PutOp("report", []byte("done"))).Commit(ctx)
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}
