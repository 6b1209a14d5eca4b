package kv_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// A transfer between accounts: both balances change, or neither does and the error says why.
func ExampleIncrOp() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.KV("bank")
	if _, err := store.Incr(ctx, "alice", 100); err != nil {
		log.Fatal(err)
	}

	transfer := func(id string, amount int64) error {
		_, err := node.Txn("bank").
			If(kv.Absent("transfer:"+id)). // a repeated transfer counts once
			Do(
				kv.PutOp("transfer:"+id, nil),
				kv.IncrOp("alice", -amount, kv.Min(0)),
				kv.IncrOp("bob", amount),
			).Commit(ctx)
		return err
	}
	fmt.Println("30:", transfer("1", 30))
	fmt.Println("30 again:", errors.Is(transfer("1", 30), floe.ErrConflict))
	fmt.Println("80:", transfer("2", 80))
	for _, name := range []string{"alice", "bob"} {
		e, err := store.Get(ctx, name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s has %s\n", name, e.Value)
	}
	// Output:
	// 30: <nil>
	// 30 again: true
	// 80: transaction: operation 1: kv: key "alice": 70 + -80 = -10 is not in [0, 9223372036854775807]
	// alice has 70
	// bob has 30
}
