package action

import "github.com/floedb/floe/internal/engine"

type (
	hiddenOp  = engine.HiddenOp
	txnResult = engine.Result
)

// Op is an operation of a transaction, made by InvokeOp and its siblings; see floe.Txn. It may be
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

// InvokeOp is Invoke as an operation of a transaction.
//
// In a spread namespace the runs of an action whose name has a {tag} live in the shard of that tag,
// which must be the tag of the other parts. Without a tag, the run is created in the shard of the
// other parts. An IdempotencyKey then needs their {tag}. If a limit of the action requires another
// shard, the transaction is rejected with ErrConflict.
func InvokeOp(name string, input []byte, opts ...InvokeOption) OpOf[Invoked] {
	return opOf[Invoked](invokeOp(name, input, opts))
}

// CancelOp is Cancel as an operation of a transaction.
func CancelOp(id RunID, reason string) Op { return Op{engine.Hide(cancelOp(id, reason))} }

// RetryOp is Retry as an operation of a transaction.
func RetryOp(id RunID) Op { return Op{engine.Hide(refOp(retryRun, id))} }

// RunNowOp is RunNow as an operation of a transaction.
func RunNowOp(id RunID) Op { return Op{engine.Hide(refOp(hurryRun, id))} }

// RegisterOp is Register as an operation of a transaction.
func RegisterOp(name string, opts ...RegisterOption) OpOf[int] {
	return opOf[int](registerOp(name, opts))
}

// EnableOp is Enable as an operation of a transaction.
func EnableOp(name string) Op { return Op{engine.Hide(enable.Op(name, true, nil))} }

// DisableOp is Disable as an operation of a transaction.
func DisableOp(name string) Op { return Op{engine.Hide(enable.Op(name, false, nil))} }

// DeleteOp is Delete as an operation of a transaction. In a spread namespace it checks for active
// runs in the action's home shard only; those in other shards are cancelled.
func DeleteOp(name string, opts ...DeleteOption) Op {
	op, _ := deleteOp(name, opts)
	return Op{engine.Hide(op)}
}

// SetScheduleOp is Schedules.Set as an operation of a transaction.
func SetScheduleOp(action, name string, spec ScheduleSpec, opts ...ScheduleOption) Op {
	return Op{engine.Hide(setScheduleOp(action, name, spec, opts))}
}

// PauseScheduleOp is Schedules.Pause as an operation of a transaction.
func PauseScheduleOp(action, name string) Op {
	return Op{engine.Hide(pauseSchedule.Op(action, scheduleName{name, true}, nil))}
}

// ResumeScheduleOp is Schedules.Resume as an operation of a transaction.
func ResumeScheduleOp(action, name string) Op {
	return Op{engine.Hide(pauseSchedule.Op(action, scheduleName{name, false}, nil))}
}

// TriggerOp is Schedules.Trigger as an operation of a transaction.
func TriggerOp(action, name string) OpOf[Invoked] {
	return opOf[Invoked](triggerSchedule.Op(action, scheduleName{name: name}, nil))
}

// DeleteScheduleOp is Schedules.Delete as an operation of a transaction.
func DeleteScheduleOp(action, name string) Op {
	return Op{engine.Hide(deleteSchedule.Op(action, scheduleName{name: name}, nil))}
}
