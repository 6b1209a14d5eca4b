package queue

import (
	"time"

	"github.com/floedb/floe/internal/engine"
)

// What the tests, which are users of the package, need to see of its inside.

// NumKinds is the highest kind of a command.
var NumKinds = uint8(len(table().Commands))

// Numbers of the machine.
const (
	KindEnqueue = kindEnqueue
	KindDequeue = kindDequeue
	KindAck     = kindAck
	MaxDue      = maxDue
)

// NewForgetful returns a machine that remembers next to nothing, so that it has to look into the
// state often.
func NewForgetful() engine.Machine {
	return newMachineOf(limits{items: 3, bytes: 1000, row: 300, queues: 2000})
}

// NewCramped returns a machine whose shard takes up to 5 leases.
func NewCramped() engine.Machine {
	m := newMachine().(*machine)
	m.maxInflight = 5
	return m
}

// DecodeBody decodes a command's body and says whether that worked.
func DecodeBody(kind uint8, b []byte) error {
	_, err := commands.NewCalls().Read(engine.Command{Kind: kind, Body: b})
	return err
}

// RenewOp renews leases; the value of its result is a []bool, which of them have not ended.
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

// Recode decodes a row and encodes it again; ok is false if it is none.
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

// Remembered returns how many queues a machine remembers, and about how many bytes they take.
func Remembered(m engine.Machine) (queues, bytes int) {
	s := m.(*machine).queues
	return s.Len(), s.Weight()
}

// MaxRemembered is about how many bytes a machine's queues take at most.
var MaxRemembered = standardLimits.queues
