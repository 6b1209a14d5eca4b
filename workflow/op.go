package workflow

import "github.com/floedb/floe/internal/engine"

type (
	hiddenOp  = engine.HiddenOp
	txnResult = engine.Result
)

// Op is an operation of a transaction, made by StartOp and its siblings; see floe.Txn. It may be
// used in any number of transactions. The zero Op is rejected with ErrInvalid.
type Op struct{ hiddenOp }

// OpOf is an Op whose result is a T. It can be used in any number of transactions; Result reads the
// value from the result of one of them.
type OpOf[T any] struct{ Op }

func opOf[T any](op engine.Op) OpOf[T] { return OpOf[T]{Op{engine.Hide(op)}} }

// Result returns the operation's result in a transaction, given the transaction's result res.
//
// Errors: ErrInvalid if res is nil because Commit failed, if the operation is not part of the
// transaction, or if it is part of it more than once: create an operation for each result.
func (op OpOf[T]) Result(res TxnResult) (T, error) { return engine.ResultOf[T](op.hiddenOp, res) }

// TxnResult is the result of a transaction: a *floe.TxnResult.
type TxnResult interface{ txnResult }

// StartOp is Start as an operation of a transaction. In a spread namespace it runs in the shard of
// the other parts. With an IdempotencyKey or UseID it needs their {tag} in the key, the id, or the
// workflow's name.
func StartOp(name string, input []byte, opts ...StartOption) OpOf[Started] {
	return opOf[Started](startOp(name, input, opts))
}

// SignalOp is Signal as an operation of a transaction.
func SignalOp(id RunID, signal string, payload []byte) OpOf[Status] {
	return opOf[Status](signalOp(id, signal, payload))
}

// CancelOp is Cancel as an operation of a transaction.
func CancelOp(id RunID, reason string) OpOf[Status] { return opOf[Status](cancelOp(id, reason)) }

// RetryOp is Retry as an operation of a transaction.
func RetryOp(id RunID, opts ...RetryOption) OpOf[Status] { return opOf[Status](retryOp(id, opts)) }

// CreateOp is Create as an operation of a transaction.
func CreateOp(definition []byte) OpOf[Created] {
	c, err := compile(definition)
	op := create.Op(c.name, c, err)
	op.Decode = func(b []byte) (any, error) {
		v, err := create.Decode(b)
		return v.of(&c), err
	}
	return opOf[Created](op)
}

// EnableOp is Enable as an operation of a transaction.
func EnableOp(name string) Op { return Op{engine.Hide(enable.Op(name, true, nil))} }

// DisableOp is Disable as an operation of a transaction.
func DisableOp(name string) Op { return Op{engine.Hide(enable.Op(name, false, nil))} }

// DeleteOp is Delete as an operation of a transaction.
func DeleteOp(name string, opts ...DeleteOption) Op {
	force, err := forced(opts)
	return Op{engine.Hide(remove.Op(name, force, err))}
}
