package floe

import (
	"reflect"

	"github.com/floedb/floe/internal/engine"
)

// ResultOf returns what operation i of a transaction, counted from 0 in the order of Do, has returned: its value, which is of type T.
//
//	res, err := node.Txn("shop").Do(kv.IncrOp("orders", 1), queue.EnqueueOp("mail", body)).Commit(ctx)
//	n, err := floe.ResultOf[int64](res, 0)
//	job, err := floe.ResultOf[queue.Enqueued](res, 1)
//
// Errors: ErrInvalid if there is no such operation, as in the nil result of a Commit that failed, or its value is of another type, which the error names.
func ResultOf[T any](r *TxnResult, i int) (none T, err error) {
	var values []any
	if r != nil { // Commit has not failed
		values = r.Values
	}
	if i < 0 || i >= len(values) {
		return none, engine.Errorf(ErrInvalid, "transaction: no operation %d of %d", i, len(values))
	}
	v, ok := values[i].(T)
	if !ok {
		return none, engine.Errorf(ErrInvalid, "transaction: the value of operation %d is a %T, not a %v", i, values[i], reflect.TypeFor[T]())
	}
	return v, nil
}
