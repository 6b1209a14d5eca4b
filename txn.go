package floe

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/engine"
)

type (
	operation    = engine.Operation
	condition    = engine.Condition
	hiddenResult = engine.HiddenResult
)

// Op is an operation of a transaction: a kv.Op, stream.Op, queue.Op, ts.Op, action.Op or
// workflow.Op, made by kv.PutOp, workflow.StartOp and similar functions. An operation with a result
// is a kv.OpOf, queue.OpOf and so on, whose Result reads it. An Op can be used in any number of
// transactions.
type Op interface{ operation }

// Condition is a condition of a transaction: a kv.Condition, queue.Condition, stream.Condition or
// action.Condition, made by kv.RevisionIs, queue.Held, stream.LastIDIs, action.Held and similar
// functions. It can be used in any number of transactions.
type Condition interface{ condition }

// Txn collects the parts of a transaction over the primitives of one namespace: up to 1,000 parts
// and 4 MiB.
//
//	incr := kv.IncrOp("orders", 1)
//	res, err := node.Txn("shop").
//		If(kv.RevisionIs("order:42", rev)).
//		Do(kv.PutOp("order:42", v), queue.EnqueueOp("mail", body), incr).
//		Commit(ctx)
//	...
//	orders, err := incr.Result(res) // a kv.Counted
//
// Either all conditions hold and all operations succeed, in order and in one log entry, or the
// transaction has no effect. In a spread namespace all parts must be in one shard, that is, their
// names must have a common {tag}. A Txn is not safe for concurrent use.
type Txn struct{ txn engine.Txn }

// If adds conditions and returns t. They are checked before the first operation, regardless of the
// order of If and Do.
func (t *Txn) If(conditions ...Condition) *Txn {
	for _, c := range conditions {
		t.txn.If(c)
	}
	return t
}

// Do adds operations and returns t. Each operation sees the effects of those before it.
func (t *Txn) Do(ops ...Op) *Txn {
	for _, op := range ops {
		t.txn.Do(op)
	}
	return t
}

// Commit commits the transaction. When it returns nil, all of it is committed (see
// Config.Durability) and visible. After a ctx error or ErrUnknownOutcome it may or may not have
// happened, as a whole. A second Commit applies it again.
//
// Errors: *TxnError naming the condition or operation that was refused, which unwraps to its reason
// (ErrConflict, ErrNotFound, ...); ErrInvalid if it is empty, exceeds 1,000 parts or 4 MiB, or has
// names of several shards.
func (t *Txn) Commit(ctx context.Context) (*TxnResult, error) {
	res, err := engine.CommitHidden(ctx, &t.txn)
	if refused := (*engine.TxnError)(nil); errors.As(err, &refused) {
		return nil, (*TxnError)(refused)
	}
	if err != nil {
		return nil, err
	}
	return &TxnResult{res}, nil
}

// TxnResult holds the results of the operations of a committed transaction. The Result method of an
// operation reads it: kv.OpOf.Result and similar methods.
type TxnResult struct{ hiddenResult }

// TxnError names the part of a transaction that was refused, and the reason. The transaction had no
// effect.
type TxnError struct {
	Index     int   // position among the conditions or among the operations, from 0
	Condition bool  // true: a condition of If, false: an operation of Do
	Err       error // such as a *kv.ConflictError
}

func (e *TxnError) Error() string {
	part := "operation"
	if e.Condition {
		part = "condition"
	}
	return fmt.Sprintf("transaction: %s %d: %v", part, e.Index, e.Err)
}

// Unwrap returns the reason.
func (e *TxnError) Unwrap() error { return e.Err }
