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

// A transaction spans the primitives: an order is stored, counted, mailed about and told to whoever follows the stream of orders, once.
func ExampleTxn() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	place := func(id, body string) (*floe.TxnResult, error) {
		return node.Txn("shop").
			If(kv.Absent("order:"+id)).
			Do(
				kv.PutOp("order:"+id, []byte(body)),
				kv.IncrOp("orders", 1),
				queue.EnqueueOp("mail", []byte("thank you for "+body)),
				stream.AppendOp("orders", stream.Message{Key: id, Payload: []byte(body)}),
			).
			Commit(context.Background())
	}

	res, err := place("42", "three socks")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("orders:", res.Values[1].(int64), "mail:", res.Values[2].(queue.Enqueued).Seq)

	_, err = place("42", "three socks")
	var refused *floe.TxnError
	if errors.As(err, &refused) && refused.Condition {
		fmt.Println("condition", refused.Index, "does not hold:", refused.Err)
	}
	// Output:
	// orders: 1 mail: 1
	// condition 0 does not hold: kv: key "order:42" is at revision 2, want absent
}
