package queue

import (
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// enqueued is the result of an enqueue.
type enqueued struct {
	lsn      uint64
	messages []Enqueued
}

func (e *enqueued) code(f *codec.Fields) {
	f.Uvarint("lsn", &e.lsn)
	codec.RestOf(f, "messages", &e.messages, func(m *Enqueued, f *codec.Fields) {
		f.Bool("duplicate", &m.Duplicate)
		f.Uvarint("seq", &m.Seq)
		m.LSN = e.lsn
	})
}

// decodeEnqueued decodes the result of an enqueue of one message.
func decodeEnqueued(b []byte) (Enqueued, error) {
	r := codec.NewReader(b)
	e := Enqueued{LSN: r.Uvarint(), Duplicate: r.Bool(), Seq: r.Uvarint()}
	return e, r.Done()
}

func decodeEnqueuedMany(b []byte) ([]Enqueued, error) {
	e, err := enqueue.Decode(b)
	return e.messages, err
}

// delivery is a message in the result of a dequeue:
//
//	priority u8 | seq | attempts | max attempts (uvarints) | enqueued at varint (ms) | last error, headers, payload (each uvarint length, bytes)
type delivery struct {
	at          position
	again       bool // it was delivered before
	indexed     bool // see flagIndexed
	attempts    int64
	maxAttempts int64
	enqueuedAt  int64
	lastError   []byte
	headers     []byte
	payload     []byte
}

// size is an upper bound of what append appends.
func (d *delivery) size() int { return 52 + len(d.lastError) + len(d.headers) + len(d.payload) }

// bytes returns the size of payload and headers, which limits count.
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

// deliveries is the result of a dequeue. Without messages its binary form is empty.
type deliveries struct {
	lsn      uint64
	until    time.Time
	messages []Message
}

func (d *deliveries) code(f *codec.Fields) {
	if c := f.Binary(); c != nil && c.Reading() && c.Left() == 0 {
		return
	}
	f.Uvarint("lsn", &d.lsn)
	codeUntil(&d.until, f)
	codec.RestOf(f, "messages", &d.messages, (*Message).codeDelivered)
}

// codeDelivered codes a message as delivery.append does.
func (m *Message) codeDelivered(f *codec.Fields) {
	priority, attempts, maxAttempts := byte(m.Priority), int64(m.Attempts), int64(m.MaxAttempts)
	f.Byte("priority", &priority)
	f.Uvarint("seq", &m.Seq)
	f.Count("attempts", &attempts)
	f.Count("max_attempts", &maxAttempts)
	f.Moment("enqueued_at_ms", &m.EnqueuedAt)
	f.Text("last_error", &m.LastError)
	headers := engine.AppendHeaders(nil, m.Headers)
	engine.CodeHeaders(f, &headers)
	f.Bytes("payload", &m.Payload)
	c := f.Binary()
	if c == nil {
		f.Text("receipt", (*string)(&m.Receipt))
	} else if c.Reading() {
		var err error
		if m.Headers, err = engine.DecodeHeaders(headers); err != nil {
			c.Fail(err.Error())
		}
		m.Priority, m.Attempts, m.MaxAttempts = int(priority), int(attempts), int(maxAttempts)
		m.State, m.Size = Leased, len(m.Payload)
	}
}

// decodeDeliveries decodes the result of a dequeue. The payloads alias it.
func decodeDeliveries(name string, b []byte) ([]Message, error) {
	d, err := dequeue.Decode(b)
	if err != nil {
		return nil, err
	}
	for i := range d.messages {
		m := &d.messages[i]
		m.Queue, m.Receipt, m.LeaseUntil = name, receipt{m.Seq, d.lsn}.public(), d.until
	}
	return d.messages, nil
}
