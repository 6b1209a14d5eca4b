package queue

import (
	"time"

	"github.com/floedb/floe/internal/engine"
)

type (
	hiddenOp        = engine.HiddenOp
	hiddenCondition = engine.HiddenCondition
)

// Op is an operation of a transaction, made by EnqueueOp, AckOp and their siblings; see floe.Txn. It is good for any number of transactions. The zero Op is
// refused with ErrInvalid.
type Op struct{ hiddenOp }

// Condition is a condition of a transaction, made by Held; see floe.Txn. It is good for any number of transactions. The zero Condition is
// refused with ErrInvalid.
type Condition struct{ hiddenCondition }

// EnqueueOp is Enqueue as an operation of a transaction; its value in the result is an Enqueued.
func EnqueueOp(name string, payload []byte, opts ...EnqueueOption) Op {
	return Op{engine.Hide(enqueueOne(name, payload, opts))}
}

// EnqueueManyOp is EnqueueMany as an operation of a transaction; its value in the result is a []Enqueued.
func EnqueueManyOp(name string, messages []NewMessage) Op {
	return Op{engine.Hide(enqueueMany(name, messages))}
}

// DequeueOp is Dequeue as an operation of a transaction, which can not Wait; its value in the result is a []Message, which may be empty.
func DequeueOp(name string, opts ...DequeueOption) Op {
	op, wait := dequeueOp(name, opts)
	if wait != 0 && op.Err == nil {
		op.Err = engine.Errorf(ErrInvalid, "queue: a transaction can not wait %v for messages", wait)
	}
	return Op{engine.Hide(op)}
}

// AckOp is Ack as an operation of a transaction.
func AckOp(name string, receipts ...Receipt) Op { return receiptsOp(ack, name, receipts) }

// NackOp is Nack as an operation of a transaction.
func NackOp(name string, receipts []Receipt, opts ...NackOption) Op {
	return Op{engine.Hide(nackOp(name, receipts, opts))}
}

// ExtendOp is Extend as an operation of a transaction; its value in the result is a time.Time.
func ExtendOp(name string, receipt Receipt, lease time.Duration) Op {
	return Op{engine.Hide(extendOp(name, receipt, lease))}
}

// ReleaseOp is Release as an operation of a transaction; its value in the result is an int64.
func ReleaseOp(name string, receipts ...Receipt) Op {
	return receiptsOp(release, name, receipts)
}

// ConfigureOp is Configure as an operation of a transaction.
func ConfigureOp(name string, settings Settings) Op {
	return Op{engine.Hide(configureOp(name, settings))}
}

// PauseOp is Pause as an operation of a transaction.
func PauseOp(name string) Op { return Op{engine.Hide(pause.Op(name, pauseBody{true}, nil))} }

// ResumeOp is Resume as an operation of a transaction.
func ResumeOp(name string) Op { return Op{engine.Hide(pause.Op(name, pauseBody{false}, nil))} }

// PurgeOp is Purge as an operation of a transaction; its value in the result is an int64.
func PurgeOp(name string) Op { return Op{engine.Hide(purge.Op(name, engine.Nothing{}, nil))} }

// DeleteOp is Delete as an operation of a transaction.
func DeleteOp(name string) Op { return Op{engine.Hide(remove.Op(name, engine.Nothing{}, nil))} }

// RequeueOp is Requeue as an operation of a transaction.
func RequeueOp(name string, seq uint64) Op {
	return Op{engine.Hide(requeue.Op(name, seqBody{seq}, nil))}
}

// DeleteDeadOp is DeleteDead as an operation of a transaction.
func DeleteDeadOp(name string, seq uint64) Op {
	return Op{engine.Hide(discard.Op(name, seqBody{seq}, nil))}
}

// DeleteMessageOp is DeleteMessage as an operation of a transaction.
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
