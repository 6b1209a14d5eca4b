package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// outbox gathers the frames of one direction of a stream. One goroutine at a time writes the
// gathered frames, so more frames share a write under load, and senders do not wait.
type outbox struct {
	limit int           // bytes that may wait
	all   *atomic.Int64 // unwritten bytes in this and other outboxes; nil: not counted

	mu     sync.Mutex // guards what follows; no I/O under it
	buf    []byte
	spare  []byte
	large  [][]byte      // the rest of each large message, preceded by its length
	queued int           // bytes of large
	first  bool          // the next part is the first of its message
	window window        // parts of large in flight
	late   *time.Timer   // aborts the stream if parts are not confirmed; nil: run has not begun
	err    error         // nothing is sent after an error
	closed bool          // the gathered frames are written, then the stream ends
	wake   chan struct{} // capacity 1
}

func newOutbox(limit int) *outbox {
	return &outbox{limit: limit, first: true, window: window{size: firstWindow}, wake: make(chan struct{}, 1)}
}

// keepBuffer is the largest buffer kept for reuse.
const keepBuffer = 1 << 20

// errEnded is returned by an outbox that has been closed.
var errEnded = errors.New("the stream has ended")

// send queues a frame. Errors: ErrBusy if too many bytes are already queued; the error that ended
// the stream.
func (o *outbox) send(payload func([]byte) []byte) error { return o.put(payload, o.limit) }

// sendSmall is send for rare small frames that must not be dropped: it never returns ErrBusy.
func (o *outbox) sendSmall(payload func([]byte) []byte) error { return o.put(payload, math.MaxInt) }

func (o *outbox) put(payload func([]byte) []byte, limit int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.refusalLocked(limit); err != nil {
		return err
	}
	o.appendLocked(wholeFrame, payload)
	o.poke()
	return nil
}

// sendLarge queues a message to be sent in parts, after all earlier ones. Errors: those of send.
func (o *outbox) sendLarge(size int, payload func([]byte) []byte) error {
	return o.putLarge(size, payload, o.limit)
}

// putLarge holds the message, of about size bytes, until its parts have been sent.
func (o *outbox) putLarge(size int, payload func([]byte) []byte, limit int) error {
	b := payload(make([]byte, sizeBytes, sizeBytes+size))
	binary.LittleEndian.PutUint32(b, uint32(len(b)-sizeBytes))
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.refusalLocked(limit); err != nil {
		return err
	}
	o.large = append(o.large, b)
	o.queued += len(b)
	o.count(len(b))
	o.poke()
	return nil
}

// sendConfirmation confirms that a part has arrived.
func (o *outbox) sendConfirmation() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.closed {
		return // the stream ends
	}
	o.appendLocked(gotFrame, func(dst []byte) []byte { return dst })
	o.poke()
}

// confirmed records that the first part in flight has arrived. It reports whether there was one.
func (o *outbox) confirmed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.window.confirmed(time.Now()) {
		return false
	}
	if o.late != nil {
		o.late.Stop()
		if len(o.window.sent) > 0 {
			o.late.Reset(writeTimeout)
		}
	}
	o.poke()
	return true
}

func (o *outbox) refusalLocked(limit int) error {
	switch waiting := len(o.buf) + o.queued; {
	case o.err != nil:
		return o.err
	case o.closed:
		return errEnded
	case waiting > limit:
		return engine.Errorf(engine.ErrBusy, "%d bytes wait to be sent, the limit is %d", waiting, limit)
	}
	return nil
}

func (o *outbox) appendLocked(kind byte, payload func([]byte) []byte) {
	before := len(o.buf)
	o.buf = appendFrame(o.buf, kind, payload)
	o.count(len(o.buf) - before)
}

func (o *outbox) count(n int) {
	if o.all != nil {
		o.all.Add(int64(n))
	}
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// end makes run return once it has written all queued frames. No more are accepted. With an error,
// run returns at once.
func (o *outbox) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.closed = true
	o.poke()
}

// A stream whose other end reads less than a part in this time is aborted. Its connection may be
// healthy, so nothing else would end it.
const (
	writePart    = 64 << 10
	writeTimeout = 10 * time.Second
)

// run writes until the stream ends, and returns the reason.
func (o *outbox) run(s *wire) error {
	stuck := time.AfterFunc(writeTimeout, s.abort)
	defer stuck.Stop()
	stuck.Stop()
	o.begin(s.abort)
	defer o.discard()
	for range o.wake {
		b, closed, err := o.take()
		for part := range slices.Chunk(b, writePart) {
			if err != nil {
				break
			}
			stuck.Reset(writeTimeout)
			if _, err = s.w.Write(part); err == nil {
				err = s.flush()
			}
			stuck.Stop()
		}
		o.count(-len(b))
		if err != nil {
			o.end(err)
			return err
		}
		if closed {
			return nil
		}
		o.giveBack(b)
	}
	return nil
}

// begin makes the stream end if parts in flight are not confirmed.
func (o *outbox) begin(abort func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.late = time.AfterFunc(writeTimeout, abort)
	o.late.Stop()
}

// discard drops the frames that will not be written. No more are accepted.
func (o *outbox) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.late.Stop()
	o.count(-len(o.buf) - o.queued)
	o.buf, o.large, o.queued = nil, nil, 0
}

// take returns the bytes to write next: the small frames, and a part. closed reports that they are
// the last.
func (o *outbox) take() (b []byte, closed bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// Confirmations are no longer read once the stream is closed.
	if len(o.large) > 0 && (o.closed || !o.window.full()) {
		o.partLocked()
	}
	b = o.buf
	o.buf, o.spare = o.spare[:0], nil
	return b, o.closed && len(o.large) == 0, o.err
}

// partLocked makes a frame of the next part of a large message.
func (o *outbox) partLocked() {
	m := o.large[0]
	most := smallFrame
	if o.first {
		most += sizeBytes
	}
	part := m[:min(most, len(m))]
	o.appendLocked(partFrame, func(dst []byte) []byte { return append(dst, part...) })
	o.queued -= len(part)
	o.count(-len(part))
	o.large[0] = m[len(part):]
	if o.first = len(part) == len(m); o.first {
		o.large = slices.Delete(o.large, 0, 1)
	}
	if len(o.window.sent) == 0 {
		o.late.Reset(writeTimeout)
	}
	o.window.sent = append(o.window.sent, time.Now())
	o.poke() // for the next
}

func (o *outbox) giveBack(b []byte) {
	if cap(b) > keepBuffer {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spare = b[:0]
}

// readBuffer is the number of bytes read from a stream at a time.
const readBuffer = 64 << 10

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, readBuffer) }

// greetBuffer is readBuffer for an opener not welcomed yet.
const greetBuffer = 2 << 10
