package queue

import (
	"time"

	"github.com/floedb/floe/internal/engine"
)

// EnqueueOp is Enqueue as an operation of a transaction; its value in the result is an Enqueued.
func EnqueueOp(name string, payload []byte, opts ...EnqueueOption) engine.Op {
	return enqueueCommand(name, payload, opts)
}

// EnqueueManyOp is EnqueueMany as an operation of a transaction; its value in the result is a []Enqueued.
func EnqueueManyOp(name string, messages []NewMessage) engine.Op {
	return enqueueManyCommand(name, messages)
}

// DequeueOp is Dequeue as an operation of a transaction, which can not Wait; its value in the result is a []Message, which may be empty.
func DequeueOp(name string, opts ...DequeueOption) engine.Op {
	o := newDequeueOptions(opts)
	if o.wait != 0 {
		o.fail(engine.Errorf(ErrInvalid, "queue: a transaction can not wait %v for messages", o.wait))
	}
	return dequeueCommand(name, o)
}

// AckOp is Ack as an operation of a transaction.
func AckOp(name string, receipts ...Receipt) engine.Op { return ackCommand(name, receipts) }

// NackOp is Nack as an operation of a transaction.
func NackOp(name string, receipt Receipt, opts ...NackOption) engine.Op {
	return nackCommand(name, receipt, opts)
}

// ExtendOp is Extend as an operation of a transaction; its value in the result is a time.Time.
func ExtendOp(name string, receipt Receipt, lease time.Duration) engine.Op {
	return extendCommand(name, receipt, lease)
}

// ConfigureOp is Configure as an operation of a transaction.
func ConfigureOp(name string, settings Settings) engine.Op { return configureCommand(name, settings) }

// PauseOp is Pause as an operation of a transaction.
func PauseOp(name string) engine.Op { return pauseCommand(name, true) }

// ResumeOp is Resume as an operation of a transaction.
func ResumeOp(name string) engine.Op { return pauseCommand(name, false) }

// PurgeOp is Purge as an operation of a transaction; its value in the result is an int64.
func PurgeOp(name string) engine.Op { return purgeCommand(name) }

// DeleteOp is Delete as an operation of a transaction.
func DeleteOp(name string) engine.Op { return deleteCommand(name) }

// RequeueOp is Requeue as an operation of a transaction.
func RequeueOp(name string, seq uint64) engine.Op { return seqCommand(kindRequeue, name, seq) }

// DeleteDeadOp is DeleteDead as an operation of a transaction.
func DeleteDeadOp(name string, seq uint64) engine.Op { return seqCommand(kindDiscard, name, seq) }

// Held holds while the receipt's lease has not ended.
func Held(name string, receipt Receipt) engine.Condition {
	return engine.Condition(receiptCommand(kindCheck, name, receipt, nil))
}
