package queue

import (
	"time"

	"github.com/floedb/floe/internal/engine"
)

type (
	hiddenOp        = engine.HiddenOp
	txnResult       = engine.Result
	hiddenCondition = engine.HiddenCondition
)

// Op is an operation of a transaction, made by EnqueueOp, AckOp and similar functions; see
// floe.Txn. It can be used in any number of transactions. The zero Op is refused with ErrInvalid.
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

// Condition is a condition of a transaction, made by Held; see floe.Txn. It can be used in any
// number of transactions. The zero Condition is refused with ErrInvalid.
type Condition struct{ hiddenCondition }

// EnqueueOp is Enqueue as an operation of a transaction.
func EnqueueOp(name string, payload []byte, opts ...EnqueueOption) OpOf[Enqueued] {
	return opOf[Enqueued](enqueueOne(name, payload, opts))
}

// EnqueueManyOp is EnqueueMany as an operation of a transaction.
func EnqueueManyOp(name string, messages []NewMessage) OpOf[[]Enqueued] {
	return opOf[[]Enqueued](enqueueMany(name, messages))
}

// DequeueOp is Dequeue as an operation of a transaction. It cannot Wait.
func DequeueOp(name string, opts ...DequeueOption) OpOf[[]Message] {
	op, wait := dequeueOp(name, opts)
	if wait != 0 && op.Err == nil {
		op.Err = engine.Errorf(ErrInvalid, "queue: a transaction cannot wait %v for messages", wait)
	}
	return opOf[[]Message](op)
}

// AckOp is Ack as an operation of a transaction.
func AckOp(name string, receipts ...Receipt) Op { return receiptsOp(ack, name, receipts) }

// NackOp is Nack as an operation of a transaction.
func NackOp(name string, receipts []Receipt, opts ...NackOption) Op {
	return Op{engine.Hide(nackOp(name, receipts, opts))}
}

// ExtendOp is Extend as an operation of a transaction.
func ExtendOp(name string, receipt Receipt, lease time.Duration) OpOf[time.Time] {
	return opOf[time.Time](extendOp(name, receipt, lease))
}

// ReleaseOp is Release as an operation of a transaction.
func ReleaseOp(name string, receipts ...Receipt) OpOf[int64] {
	return OpOf[int64]{receiptsOp(release, name, receipts)}
}

// ConfigureOp is Configure as an operation of a transaction.
func ConfigureOp(name string, settings Settings) Op {
	return Op{engine.Hide(configureOp(name, settings))}
}

// PauseOp is Pause as an operation of a transaction.
func PauseOp(name string) Op { return Op{engine.Hide(pause.Op(name, pauseBody{true}, nil))} }

// ResumeOp is Resume as an operation of a transaction.
func ResumeOp(name string) Op { return Op{engine.Hide(pause.Op(name, pauseBody{false}, nil))} }

// PurgeOp is Purge as an operation of a transaction.
func PurgeOp(name string) OpOf[int64] { return opOf[int64](purge.Op(name, engine.Nothing{}, nil)) }

// DeleteOp is Delete as an operation of a transaction.
func DeleteOp(name string) Op { return Op{engine.Hide(remove.Op(name, engine.Nothing{}, nil))} }

// RequeueOp is DeadLetters.Requeue as an operation of a transaction.
func RequeueOp(name string, seq uint64) Op {
	return Op{engine.Hide(requeue.Op(name, seqBody{seq}, nil))}
}

// DeleteDeadOp is DeadLetters.Delete as an operation of a transaction.
func DeleteDeadOp(name string, seq uint64) Op {
	return Op{engine.Hide(discard.Op(name, seqBody{seq}, nil))}
}

// DeleteMessageOp is Messages.Delete as an operation of a transaction.
func DeleteMessageOp(name string, seq uint64) Op {
	return Op{engine.Hide(removeMessage.Op(name, seqBody{seq}, nil))}
}

// Held holds while the receipt's lease has not ended.
func Held(name string, receipt Receipt) Condition {
	parsed, err := receipt.parse()
	return Condition{engine.HideCondition(check.Op(name, parsed, err))}
}

func receiptsOp[R any](row *engine.CommandRow[*session, receiptsBody, R], name string, receipts []Receipt) Op {
	return Op{engine.Hide(row.Make(name, func(b *receiptsBody) error { return b.parse(receipts) }))}
}
