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
	return Op{engine.Hide(enqueueCommand(name, payload, opts))}
}

// EnqueueManyOp is EnqueueMany as an operation of a transaction; its value in the result is a []Enqueued.
func EnqueueManyOp(name string, messages []NewMessage) Op {
	return Op{engine.Hide(enqueueManyCommand(name, messages))}
}

// DequeueOp is Dequeue as an operation of a transaction, which can not Wait; its value in the result is a []Message, which may be empty.
func DequeueOp(name string, opts ...DequeueOption) Op {
	o := newDequeueOptions(opts)
	if o.wait != 0 {
		o.fail(engine.Errorf(ErrInvalid, "queue: a transaction can not wait %v for messages", o.wait))
	}
	return Op{engine.Hide(dequeueCommand(name, o))}
}

// AckOp is Ack as an operation of a transaction.
func AckOp(name string, receipts ...Receipt) Op { return Op{engine.Hide(ackCommand(name, receipts))} }

// NackOp is Nack as an operation of a transaction.
func NackOp(name string, receipt Receipt, opts ...NackOption) Op {
	return Op{engine.Hide(nackCommand(name, receipt, opts))}
}

// ExtendOp is Extend as an operation of a transaction; its value in the result is a time.Time.
func ExtendOp(name string, receipt Receipt, lease time.Duration) Op {
	return Op{engine.Hide(extendCommand(name, receipt, lease))}
}

// ReleaseOp is Release as an operation of a transaction; its value in the result is an int64.
func ReleaseOp(name string, receipts ...Receipt) Op {
	return Op{engine.Hide(releaseCommand(name, receipts))}
}

// ConfigureOp is Configure as an operation of a transaction.
func ConfigureOp(name string, settings Settings) Op {
	return Op{engine.Hide(configureCommand(name, settings))}
}

// PauseOp is Pause as an operation of a transaction.
func PauseOp(name string) Op { return Op{engine.Hide(pauseCommand(name, true))} }

// ResumeOp is Resume as an operation of a transaction.
func ResumeOp(name string) Op { return Op{engine.Hide(pauseCommand(name, false))} }

// PurgeOp is Purge as an operation of a transaction; its value in the result is an int64.
func PurgeOp(name string) Op { return Op{engine.Hide(purgeCommand(name))} }

// DeleteOp is Delete as an operation of a transaction.
func DeleteOp(name string) Op { return Op{engine.Hide(deleteCommand(name))} }

// RequeueOp is Requeue as an operation of a transaction.
func RequeueOp(name string, seq uint64) Op {
	return Op{engine.Hide(seqCommand(kindRequeue, name, seq))}
}

// DeleteDeadOp is DeleteDead as an operation of a transaction.
func DeleteDeadOp(name string, seq uint64) Op {
	return Op{engine.Hide(seqCommand(kindDiscard, name, seq))}
}

// DeleteMessageOp is DeleteMessage as an operation of a transaction.
func DeleteMessageOp(name string, seq uint64) Op {
	return Op{engine.Hide(seqCommand(kindRemove, name, seq))}
}

// Held holds while the receipt's lease has not ended.
func Held(name string, receipt Receipt) Condition {
	return Condition{engine.HideCondition(receiptCommand(kindCheck, name, receipt, nil))}
}
