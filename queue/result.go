package queue

import (
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// anyOf makes a decoder of results one for transactions.
func anyOf[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(result []byte) (any, error) { return decode(result) }
}

func decodeNothing(b []byte) (struct{}, error) {
	r := codec.NewReader(b)
	return struct{}{}, r.Done()
}

func anyNothing(b []byte) (any, error) {
	_, err := decodeNothing(b)
	return nil, err
}

func decodeCount(b []byte) (int64, error) {
	r := codec.NewReader(b)
	n := int64(r.Uvarint())
	return n, r.Done()
}

func decodeTime(b []byte) (time.Time, error) {
	r := codec.NewReader(b)
	t := time.UnixMilli(r.Varint())
	return t, r.Done()
}

// renewed is the result of a renewal: which of the leases have not ended, and when they do.
type renewed struct {
	until time.Time
	held  []bool
}

func decodeRenewed(b []byte) (renewed, error) {
	r := codec.NewReader(b)
	all := renewed{until: time.UnixMilli(r.Varint())}
	for r.Len() > 0 {
		all.held = append(all.held, r.Bool())
	}
	return all, r.Done()
}

func decodeEnqueued(b []byte) (Enqueued, error) {
	r := codec.NewReader(b)
	e := Enqueued{LSN: r.Uvarint(), Duplicate: r.Bool(), Seq: r.Uvarint()}
	return e, r.Done()
}

func decodeEnqueuedMany(b []byte) ([]Enqueued, error) {
	r := codec.NewReader(b)
	lsn := r.Uvarint()
	all := make([]Enqueued, 0, r.Len()/2)
	for r.Len() > 0 {
		all = append(all, Enqueued{LSN: lsn, Duplicate: r.Bool(), Seq: r.Uvarint()})
	}
	return all, r.Done()
}

// delivery is a message as the result of a dequeue has it:
//
//	priority u8 | seq | attempts | max attempts (uvarints) | enqueued at varint (ms) | last error, headers, payload (each uvarint length, bytes)
type delivery struct {
	at          place
	again       bool // it was delivered before
	indexed     bool // see flagIndexed
	attempts    int64
	maxAttempts int64
	enqueuedAt  int64
	lastError   []byte
	headers     []byte
	payload     []byte
}

// size is at most how much append appends.
func (d *delivery) size() int { return 52 + len(d.lastError) + len(d.headers) + len(d.payload) }

// bytes returns what counts of the message: its payload and its headers.
func (d *delivery) bytes() int64 { return int64(len(d.headers) + len(d.payload)) }

func (d *delivery) append(dst []byte) []byte {
	dst = codec.AppendUvarint(append(dst, d.at.priority), d.at.seq)
	dst = codec.AppendUvarint(dst, uint64(d.attempts))
	dst = codec.AppendUvarint(dst, uint64(d.maxAttempts))
	dst = codec.AppendVarint(dst, d.enqueuedAt)
	dst = codec.AppendBytes(dst, d.lastError)
	dst = codec.AppendBytes(dst, d.headers)
	return codec.AppendBytes(dst, d.payload)
}

// decodeDeliveries reads the result of a dequeue, which the payloads alias.
func decodeDeliveries(name string, b []byte) ([]Message, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := codec.NewReader(b)
	lsn, until := r.Uvarint(), time.UnixMilli(r.Varint())
	var messages []Message
	for r.Len() > 0 {
		m := Message{
			Queue: name, Priority: int(r.Byte()), Seq: r.Uvarint(), State: Leased, Attempts: int(r.Uvarint()), MaxAttempts: int(r.Uvarint()),
			EnqueuedAt: time.UnixMilli(r.Varint()), LeaseUntil: until, LastError: r.String(),
		}
		headers := r.Bytes()
		m.Payload = r.Bytes()
		if r.Err() != nil {
			break
		}
		var err error
		if m.Headers, err = engine.DecodeHeaders(headers); err != nil {
			return nil, err
		}
		m.Size, m.Receipt = len(m.Payload), receipt{m.Seq, lsn}.public()
		messages = append(messages, m)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return messages, nil
}

// redriven is the result of a redrive.
type redriven struct {
	requeued    int64
	seen, until uint64
	more        bool
}

func (d *redriven) encode() []byte {
	b := codec.AppendUvarint(nil, uint64(d.requeued))
	b = codec.AppendUvarint(codec.AppendUvarint(b, d.seen), d.until)
	return codec.AppendBool(b, d.more)
}

func decodeRedriven(b []byte) (redriven, error) {
	r := codec.NewReader(b)
	d := redriven{requeued: int64(r.Uvarint()), seen: r.Uvarint(), until: r.Uvarint(), more: r.Bool()}
	return d, r.Done()
}
