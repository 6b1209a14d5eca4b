package peer

import (
	"bufio"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// outbox gathers the frames of one direction of a stream. One goroutine writes what has gathered at a time, so the more there is to say
// the fewer are the writes, and nobody waits to say something.
type outbox struct {
	limit int           // bytes that may wait
	all   *atomic.Int64 // bytes that wait in this one and others, until they have been written; nil: nobody counts

	mu     sync.Mutex // guards what follows; no I/O under it
	buf    []byte
	spare  []byte
	err    error         // after it nothing is sent
	closed bool          // what has gathered is written, then the stream ends
	wake   chan struct{} // capacity 1
}

func newOutbox(limit int) *outbox { return &outbox{limit: limit, wake: make(chan struct{}, 1)} }

// keepBuffer is the largest buffer that is kept for the next time.
const keepBuffer = 1 << 20

// errEnded is returned by an outbox that has been closed.
var errEnded = errors.New("the stream has ended")

// send puts a frame in. Errors: ErrBusy if too much waits already; what made the stream end.
func (o *outbox) send(payload func([]byte) []byte) error { return o.put(payload, o.limit) }

// sendSmall is send for one of few and small frames that may not be missing: it is never ErrBusy.
func (o *outbox) sendSmall(payload func([]byte) []byte) error { return o.put(payload, math.MaxInt) }

func (o *outbox) put(payload func([]byte) []byte, limit int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
		return o.err
	case o.closed:
		return errEnded
	case len(o.buf) > limit:
		return engine.Errorf(engine.ErrBusy, "%d bytes wait to be sent, the limit is %d", len(o.buf), limit)
	}
	before := len(o.buf)
	o.buf = appendFrame(o.buf, payload)
	o.count(len(o.buf) - before)
	o.poke()
	return nil
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

// end makes run return when it has written what there is, and nothing more is taken. With an error run returns at once.
func (o *outbox) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.closed = true
	o.poke()
}

// A stream whose other end takes less than a part in this time is given up: its connection may be well, so that nothing else ends it.
const (
	writePart    = 256 << 10
	writeTimeout = 10 * time.Second
)

// run writes until the stream ends, and returns why.
func (o *outbox) run(s *wire) error {
	stuck := time.AfterFunc(writeTimeout, s.abort)
	defer stuck.Stop()
	stuck.Stop()
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

// discard gives up what will not be written any more: nothing is taken behind it.
func (o *outbox) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count(-len(o.buf))
	o.buf = nil
}

func (o *outbox) take() (b []byte, closed bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b = o.buf
	o.buf, o.spare = o.spare[:0], nil
	return b, o.closed, o.err
}

func (o *outbox) giveBack(b []byte) {
	if cap(b) > keepBuffer {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spare = b[:0]
}

// readBuffer is how much is read of a stream at a time.
const readBuffer = 64 << 10

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, readBuffer) }
