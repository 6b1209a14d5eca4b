package queue

import (
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Internals for the tests, which otherwise are users of the package.

// NumKinds is the highest command kind.
var NumKinds = uint8(len(table().Commands))

// Constants of the machine.
const (
	KindEnqueue = kindEnqueue
	KindDequeue = kindDequeue
	KindAck     = kindAck
	MaxDue      = maxDue
)

// NewForgetful returns a machine with a tiny cache, which must often read the state.
func NewForgetful() engine.Machine {
	return newMachineOf(limits{items: 3, bytes: 1000, row: 300, queues: 2000})
}

// NewCramped returns a machine whose shard allows up to 5 leases.
func NewCramped() engine.Machine {
	m := newMachine().(*machine)
	m.maxInflight = 5
	return m
}

// DecodeBody decodes a command's body and returns the error, if any.
func DecodeBody(kind uint8, b []byte) error {
	_, err := commands.NewCalls().Read(engine.Command{Kind: kind, Body: b})
	return err
}

// RenewOp renews leases. Its result is a []bool that reports which of them have not ended.
func RenewOp(name string, lease time.Duration, receipts ...Receipt) engine.Op {
	op := renewOp(name, lease, receipts)
	op.Decode = func(b []byte) (any, error) {
		r, err := renew.Decode(b)
		return r.held, err
	}
	return op
}

// RedriveOp is one step of RequeueAll.
func RedriveOp(name string, after, until uint64, text string) engine.Op {
	return redrive.Op(name, redriveBody{after, until, []byte(text)}, nil)
}

// Recode decodes a row and encodes it again; ok is false if it does not decode.
func Recode(kind byte, b []byte) (again []byte, ok bool) {
	switch kind {
	case 'q':
		r, err := decodeRecord(b)
		return r.encode(nil), err == nil
	case 'm':
		w, err := decodeMessage(b)
		return w.encode(nil), err == nil
	case 'l':
		w, err := decodeLease(b)
		return w.encode(nil), err == nil
	case 'x':
		w, err := decodeDead(b)
		return w.encode(nil), err == nil
	case 'k':
		seq, until, err := decodeDedup(b)
		return encodeDedup(nil, seq, until), err == nil
	}
	return nil, false
}

// Remembered returns the number of queues that a machine caches, and their approximate size in
// bytes.
func Remembered(m engine.Machine) (queues, bytes int) {
	s := m.(*machine).queues
	return s.Len(), s.Weight()
}

// MaxRemembered is the approximate limit in bytes on a machine's cached queues.
var MaxRemembered = standardLimits.queues
