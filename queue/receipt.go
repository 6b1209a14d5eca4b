package queue

import (
	"strconv"
	"strings"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Receipt identifies one delivery of a message: its seq and the log sequence number of the Dequeue,
// as in "17-2041". It is invalid once the lease has ended.
type Receipt string

// receipt is a parsed Receipt.
type receipt struct{ seq, lsn uint64 }

func (r receipt) public() Receipt {
	b := strconv.AppendUint(make([]byte, 0, 24), r.seq, 10)
	return Receipt(strconv.AppendUint(append(b, '-'), r.lsn, 10))
}

func (r Receipt) parse() (receipt, error) {
	seq, lsn, ok := strings.Cut(string(r), "-")
	if ok {
		s, err1 := strconv.ParseUint(seq, 10, 64)
		l, err2 := strconv.ParseUint(lsn, 10, 64)
		if p := (receipt{s, l}); err1 == nil && err2 == nil && p.public() == r {
			return p, nil
		}
	}
	return receipt{}, engine.Errorf(ErrInvalid, "queue: %.64q is no receipt", string(r))
}

// ReceiptError is the ErrConflict for a receipt whose lease has ended.
type ReceiptError struct {
	Queue   string
	Receipt Receipt
	Reason  string // how the lease ended
}

func (e *ReceiptError) Error() string {
	return engine.Text("queue %q: receipt %s: %s", e.Queue, e.Receipt, e.Reason)
}

// Unwrap returns ErrConflict.
func (e *ReceiptError) Unwrap() error { return ErrConflict }

const errorReceipt uint8 = 1

func codeReceipt(c *codec.Coder, e *ReceiptError) {
	c.String(&e.Queue)
	c.String((*string)(&e.Receipt))
	c.String(&e.Reason)
}
