package kv

import "github.com/floedb/floe/internal/engine"

type (
	hiddenOp        = engine.HiddenOp
	txnResult       = engine.Result
	hiddenCondition = engine.HiddenCondition
)

// Op is an operation of a transaction, made by PutOp, DeleteOp and similar functions; see floe.Txn.
// It can be used in any number of transactions. The zero Op is refused with ErrInvalid.
type Op struct{ hiddenOp }

// OpOf is an Op with a result of type T. It can be used in any number of transactions; Result reads
// the value from the result of one of them.
type OpOf[T any] struct{ Op }

func opOf[T any](op engine.Op) OpOf[T] { return OpOf[T]{Op{engine.Hide(op)}} }

// Result returns the operation's result in the transaction that res belongs to.
//
// Errors: ErrInvalid if res is nil because Commit failed, if the operation is not part of the
// transaction, or if it is part of it more than once: make an operation for each result.
func (op OpOf[T]) Result(res TxnResult) (T, error) { return engine.ResultOf[T](op.hiddenOp, res) }

// TxnResult is the result of a transaction: a *floe.TxnResult.
type TxnResult interface{ txnResult }

// Condition is a condition of a transaction, made by RevisionIs, Absent, Present and Lock.Held; see
// floe.Txn. It can be used in any number of transactions. The zero Condition is refused with
// ErrInvalid.
type Condition struct{ hiddenCondition }
