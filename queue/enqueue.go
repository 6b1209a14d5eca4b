package queue

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// enqueue adds messages.
func (s *session) enqueue(b *enqueueBody) ([]byte, error) {
	messages := b.messages
	s.changed = true
	result := codec.AppendUvarint(make([]byte, 0, 16+8*len(messages)), uint64(s.tx.LSN()))
	for i := range messages {
		seq, duplicate, err := s.add(&messages[i])
		if err != nil {
			return nil, err
		}
		result = codec.AppendUvarint(codec.AppendBool(result, duplicate), seq)
	}
	return result, nil
}

// add adds a message, or returns the seq of the one it duplicates. Its check is the last that can
// fail. A failure also undoes the messages that the command has already added.
func (s *session) add(n *newMessage) (seq uint64, duplicate bool, err error) {
	if len(n.dedup) > 0 {
		if seq, duplicate = s.known(n.dedup); duplicate {
			s.duplicates++
			return seq, true, nil
		}
	}
	if err := s.checkRoom(1, n.bytes()); err != nil {
		return 0, false, err
	}
	s.addLane(n.priority)
	s.seq++
	s.enqueued++
	s.bytes += n.bytes()
	if len(n.dedup) > 0 {
		s.remember(n.dedup)
	}
	w := messageRow{enqueuedAt: s.tx.Now(), maxAttempts: n.maxAttempts, headers: n.headers, payload: n.payload}
	if w.maxAttempts == 0 {
		w.maxAttempts = s.settings.maxAttempts
	}
	p := position{n.priority, s.seq}
	if n.delay > 0 {
		w.flags, w.availableAt = flagIndexed, s.tx.Now()+n.delay
		s.setMessage(p, &w)
		s.postpone(p, w.availableAt)
		return s.seq, false, nil
	}
	s.setMessage(p, &w)
	s.enter(p, s.m.row)
	return s.seq, false, nil
}

// setMessage writes a message's row and leaves it in m.row.
func (s *session) setMessage(p position, w *messageRow) {
	m := s.m
	m.buf, m.row = messageKey(m.buf[:0], kindOf(w.flags), s.gen, p), w.encode(m.row[:0])
	s.tx.Insert(m.buf, m.row)
}

// neverFits is the error for messages that even an empty queue would refuse, so waiting for room is
// useless.
type neverFits struct{ error }

// Lasts returns true, so the engine does not retry a message that fails with this error.
func (neverFits) Lasts() bool { return true }

func (e neverFits) Unwrap() error { return e.error }

// checkRoom returns an error if a bounded queue has no room for more.
func (s *session) checkRoom(n, bytes int64) error {
	more, moreBytes := s.held()-s.held0+n, s.bytes-s.bytes0+bytes // including what the command has already added
	if limit := s.settings.maxLen; limit > 0 && more > limit {
		return neverFits{engine.Errorf(ErrBusy, "queue %q never holds %d messages: its max length is %d", s.name, more, limit)}
	}
	if limit := s.settings.maxBytes; limit > 0 && moreBytes > limit {
		return neverFits{engine.Errorf(ErrBusy, "queue %q never holds %d bytes: its max bytes are %d", s.name, moreBytes, limit)}
	}
	if limit := s.settings.maxLen; limit > 0 && s.held()+n > limit {
		return engine.Errorf(ErrBusy, "queue %q is full: it holds %d messages, its max length is %d", s.name, s.held(), limit)
	}
	if limit := s.settings.maxBytes; limit > 0 && s.bytes+bytes > limit {
		return engine.Errorf(ErrBusy, "queue %q is full: with %d bytes more than its %d it would exceed max bytes (%d)", s.name, bytes,
			s.bytes, limit)
	}
	return nil
}

// postpone adds a message to the index of messages that are not ready before due.
func (s *session) postpone(p position, due int64) {
	s.delayed++
	s.nextDelayed = min(s.nextDelayed, due)
	s.m.buf = delayedKey(s.m.buf[:0], s.gen, due, p)
	s.tx.Insert(s.m.buf, nil)
	s.schedule(due)
}

// known returns the seq of the message with a dedup key, if it is within the window.
func (s *session) known(k []byte) (seq uint64, ok bool) {
	s.m.buf = dedupKey(s.m.buf[:0], s.id, k)
	b, ok := s.tx.Get(s.m.buf)
	if !ok {
		return 0, false
	}
	seq, until, err := decodeDedup(b)
	if err != nil {
		panic(err)
	}
	if until <= s.tx.Now() {
		s.forgetKey(until, k)
		return 0, false
	}
	return seq, true
}

// remember records a dedup key for the message being added.
func (s *session) remember(k []byte) {
	until := s.tx.Now() + s.settings.dedupWindow
	m := s.m
	m.buf, m.row = dedupKey(m.buf[:0], s.id, k), encodeDedup(m.row[:0], s.seq, until)
	s.tx.Insert(m.buf, m.row)
	m.buf = dedupEndKey(m.buf[:0], s.id, until, k)
	s.tx.Insert(m.buf, nil)
	s.nextDedup = min(s.nextDedup, until)
	s.schedule(until)
}

func (s *session) forgetKey(until int64, k []byte) {
	s.m.buf = dedupKey(s.m.buf[:0], s.id, k)
	s.tx.Delete(s.m.buf)
	s.m.buf = dedupEndKey(s.m.buf[:0], s.id, until, k)
	s.tx.Delete(s.m.buf)
}
