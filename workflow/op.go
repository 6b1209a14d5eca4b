package workflow

import "github.com/floedb/floe/internal/engine"

type hiddenOp = engine.HiddenOp

// Op is an operation of a transaction, made by StartOp and its siblings; see floe.Txn. It is good for any number of transactions. The zero Op is
// refused with ErrInvalid.
type Op struct{ hiddenOp }

// StartOp is Start as an operation of a transaction; its value in the result is a Started. In a spread namespace it is in the shard of the other parts; one with
// an IdempotencyKey or UseID needs their {tag} in the key, the id, or the workflow's name.
func StartOp(name string, input []byte, opts ...StartOption) Op {
	return Op{engine.Hide(startOp(name, input, opts))}
}

// SignalOp is Signal as an operation of a transaction; its value in the result is a Status.
func SignalOp(id RunID, signal string, payload []byte) Op {
	return Op{engine.Hide(signalOp(id, signal, payload))}
}

// CancelOp is Cancel as an operation of a transaction; its value in the result is a Status.
func CancelOp(id RunID, reason string) Op { return Op{engine.Hide(cancelOp(id, reason))} }

// RetryOp is Retry as an operation of a transaction; its value in the result is a Status.
func RetryOp(id RunID, opts ...RetryOption) Op { return Op{engine.Hide(retryOp(id, opts))} }

// CreateOp is Create as an operation of a transaction; its value in the result is a Created.
func CreateOp(definition []byte) Op {
	c, err := compile(definition)
	op := create.Op(c.name, c, err)
	op.Decode = func(b []byte) (any, error) {
		v, err := create.Decode(b)
		return v.of(&c), err
	}
	return Op{engine.Hide(op)}
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
