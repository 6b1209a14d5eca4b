package stream

import "github.com/floedb/floe/internal/engine"

type (
	hiddenOp        = engine.HiddenOp
	txnResult       = engine.Result
	hiddenCondition = engine.HiddenCondition
)

// Op is an operation of a transaction, made by AppendOp, AckOp and their siblings; see floe.Txn. It
// can be used in any number of transactions. The zero Op is rejected with ErrInvalid.
type Op struct{ hiddenOp }

// OpOf is an Op whose result is a T. It can be used in any number of transactions; Result reads the
// value from the result of one of them.
type OpOf[T any] struct{ Op }

func opOf[T any](op engine.Op) OpOf[T] { return OpOf[T]{Op{engine.Hide(op)}} }

// Result returns the operation's result in the transaction with the result res.
//
// Errors: ErrInvalid if res is nil because Commit failed, or if the operation is not part of the
// transaction or occurs in it more than once. Make an operation for each result.
func (op OpOf[T]) Result(res TxnResult) (T, error) { return engine.ResultOf[T](op.hiddenOp, res) }

// TxnResult is the result of a transaction: a *floe.TxnResult.
type TxnResult interface{ txnResult }

// Condition is a condition of a transaction, made by LastIDIs; see floe.Txn. It can be used in any
// number of transactions. The zero Condition is rejected with ErrInvalid.
type Condition struct{ hiddenCondition }
