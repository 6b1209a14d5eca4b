package transport

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// At a door two lanes share each direction: small frames, and one large message after another, in
// parts of smallFrame bytes (the last has the rest):
//
//	length of the message u32 | message
//
// A small frame passes between two parts, so it never waits for a large message. Messages of a lane
// stay in order. The receiver confirms each part with a gotFrame. The sender keeps only as many
// parts in flight as the connection can carry without long queues. More would fill the buffers of
// the operating system and of routers, where small frames would queue behind them.
const (
	minWindow   = 2 // parts
	firstWindow = 4
	maxWindow   = 128
	// queueTime is the maximum delay that parts in flight may cause each other.
	queueTime = 250 * time.Millisecond
)

// window tracks the parts in flight. Its size grows while the connection carries them without
// delay, and shrinks when they begin to queue.
type window struct {
	size int
	sent []time.Time   // unconfirmed parts, in order
	base time.Duration // the least time from sending a part to its confirmation; 0: none was confirmed yet
}

func (w *window) full() bool { return len(w.sent) >= w.size }

// confirmed records that the first part in flight has arrived. It reports whether there was one.
func (w *window) confirmed(now time.Time) bool {
	if len(w.sent) == 0 {
		return false
	}
	took, full := now.Sub(w.sent[0]), w.full()
	w.sent = slices.Delete(w.sent, 0, 1)
	if w.base == 0 || took < w.base {
		w.base = took
	}
	switch {
	case took > w.base+queueTime:
		w.size = max(minWindow, w.size*3/4)
	case full:
		w.size = min(maxWindow, w.size+1)
	}
	return true
}

// isLarge reports whether a request or answer with a body of the given size is sent in parts.
func isLarge(body int) bool { return body+maxHead > smallFrame }

// sizeBytes is the size of the length before a large message.
const sizeBytes = 4

// inbox reads one direction of a door.
type inbox struct {
	wire  *wire
	out   *outbox // the other direction
	limit int     // bytes of a message
	// admit waits for the memory of a large message, which release returns; nil: no limit.
	admit func(n int) (release func(), err error)

	part    []byte // buffer
	large   []byte // received bytes of a large message
	size    int    // total size of that message; 0: none
	release func()
}

// next returns the next message, which the caller owns, and for a large one the function that
// returns its memory.
func (i *inbox) next() (b []byte, large bool, release func(), err error) {
	for {
		var buf []byte
		if head, err := i.wire.r.Peek(1); err == nil && head[0] == partFrame {
			buf = i.part // it is copied
		}
		kind, b, err := i.wire.readFrame(buf, smallFrame+sizeBytes)
		switch {
		case err != nil:
			return nil, false, nil, err
		case kind == wholeFrame:
			return b, false, func() {}, nil
		case kind == gotFrame && len(b) == 0 && i.out.confirmed():
			continue
		case kind != partFrame:
			return nil, false, nil, fmt.Errorf("%w: of kind %d, %d bytes", errFrame, kind, len(b))
		}
		i.part = b
		if b, err = i.begin(b); err != nil {
			return nil, false, nil, err
		}
		if want := min(i.size-len(i.large), smallFrame); len(b) != want {
			return nil, false, nil, fmt.Errorf("%w: part of %d bytes, want %d", errFrame, len(b), want)
		}
		at := len(i.large)
		i.large = grow(i.large, len(b), i.size)
		copy(i.large[at:], b)
		i.out.sendConfirmation()
		if len(i.large) == i.size {
			b, release = i.large, i.release
			i.large, i.size, i.release = nil, 0, nil
			return b, true, release, nil
		}
	}
}

// begin removes the length from the first part of a message.
func (i *inbox) begin(part []byte) ([]byte, error) {
	if i.size > 0 {
		return part, nil
	}
	if len(part) < sizeBytes {
		return nil, fmt.Errorf("%w: large message without a length", errFrame)
	}
	n := int(binary.LittleEndian.Uint32(part))
	if n < 1 || n > i.limit {
		return nil, fmt.Errorf("%w: large message of %d bytes, the limit is %d", errFrame, n, i.limit)
	}
	i.release = func() {}
	if i.admit != nil {
		release, err := i.admit(n)
		if err != nil {
			return nil, err
		}
		i.release = release
	}
	i.size = n
	return part[sizeBytes:], nil
}

// end returns the memory of an incomplete message.
func (i *inbox) end() {
	if i.release != nil {
		i.release()
	}
}
