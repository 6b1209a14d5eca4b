package floe_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// A transaction spans the primitives: it stores an order, counts it, queues its mail and appends it
// to the stream of orders. A repeated call changes nothing.
func ExampleTxn() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	place := func(id, body string) error {
		count := kv.IncrOp("orders", 1)
		mail := queue.EnqueueOp("mail", []byte("thank you for "+body))
		res, err := node.Txn("shop").
			If(kv.Absent("order:"+id)).
			Do(
				kv.PutOp("order:"+id, []byte(body)),
				count,
				mail,
				stream.AppendOp("orders", stream.Message{Key: id, Payload: []byte(body)}),
			).
			Commit(context.Background())
		if err != nil {
			return err
		}
		orders, err := count.Result(res)
		if err != nil {
			return err
		}
		enqueued, err := mail.Result(res)
		if err != nil {
			return err
		}
		fmt.Println("orders:", orders.Value, "mail:", enqueued.Seq)
		return nil
	}

	if err := place("42", "three socks"); err != nil {
		log.Fatal(err)
	}
	err = place("42", "three socks")
	var refused *floe.TxnError
	if errors.As(err, &refused) && refused.Condition {
		fmt.Println("condition", refused.Index, "does not hold:", refused.Err)
	}
	// Output:
	// orders: 1 mail: 1
	// condition 0 does not hold: kv: key "order:42" is at revision 2, want absent
}
