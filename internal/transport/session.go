package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// session is an open door: many calls share it, and their answers arrive in any order.
type session struct {
	peer    *Peer
	welcome *welcome
	out     *outbox
	cancel  context.CancelFunc
	room    *memory // for large commands in flight

	mu    sync.Mutex // guards what follows; nothing is called under it but out
	calls map[uint64]call
	next  uint64
	err   error         // why the session has ended
	ended chan struct{} // closed with err

	leaving bool // the other side accepts no more calls, or none can be sent
}

// call is a call waiting for its answer.
type call struct {
	answer chan answer
	large  bool // its request
}

// maxWaiting bounds the bytes waiting to be sent on a stream. Once half of it is in flight, large
// commands wait their turn before they are copied, because a refused command costs as much as an
// accepted one, and is retried.
const maxWaiting = 64 << 20

// open opens a stream of a path, does the handshake, and returns both directions. ctx bounds only
// the handshake; the stream ends with end.
func (p *Peer) open(ctx context.Context, client *http.Client, url string, role uint8, to uint64) (s *wire, w *welcome,
	end context.CancelFunc, err error) {
	life, cancel := context.WithCancel(p.ctx)
	stop := context.AfterFunc(ctx, cancel)
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			cancel()
			if ctx.Err() != nil {
				err = ctx.Err()
			}
		}
	}()
	in, out := io.Pipe()
	// The transport does not check the context while it waits for more to send.
	context.AfterFunc(life, func() { out.CloseWithError(errEnded) })
	req, err := http.NewRequestWithContext(life, http.MethodPost, url, in)
	if err != nil {
		return nil, nil, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, nil, err
	}
	hangUp := func() {
		out.CloseWithError(errEnded)
		cancel()
		resp.Body.Close()
	}
	defer func() {
		if err != nil {
			hangUp()
		}
	}()
	switch v := resp.Header.Get(versionHeader); {
	case v == webVersion, v == "" && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed ||
		resp.StatusCode == http.StatusMisdirectedRequest):
		return nil, nil, nil, ErrWebServer
	case v != "" && v != strconv.Itoa(Version):
		return nil, nil, nil, &versionError{theirs: v}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, nil, fmt.Errorf("no node answers there, status %s", resp.Status)
	}
	s = &wire{r: newReader(resp.Body), w: out, flush: func() error { return nil }, abort: hangUp}
	w, err = p.greet(s, role, to)
	return s, w, hangUp, err
}

// newSession opens a door.
func (p *Peer) newSession(ctx context.Context, client *http.Client, url string, role uint8, to uint64) (*session, error) {
	stream, w, end, err := p.open(ctx, client, url+pathDoor, role, to)
	if err != nil {
		return nil, err
	}
	s := &session{
		peer: p, welcome: w, out: newOutbox(maxWaiting), cancel: end, room: newMemory(maxWaiting/2,
			maxWaiting/2), calls: make(map[uint64]call), ended: make(chan struct{}),
	}
	if !p.spawn(func() { _ = s.out.run(stream); s.mute() }) || !p.spawn(func() { s.fail(s.receive(stream)) }) {
		err := p.closedError()
		s.fail(err)
		return nil, err
	}
	return s, nil
}

// receive delivers answers to the waiting calls.
func (s *session) receive(stream *wire) error {
	in := inbox{wire: stream, out: s.out, limit: maxAnswer}
	for {
		b, _, _, err := in.next()
		if err != nil {
			return err
		}
		a, err := decodeAnswer(b)
		if err != nil {
			return err
		}
		if a.id == 0 {
			if over, err := s.goodBye(a.body); over || err != nil {
				return cmp.Or(err, errStops)
			}
			continue
		}
		s.mu.Lock()
		c, waits := s.calls[a.id]
		delete(s.calls, a.id)
		over := s.leaving && len(s.calls) == 0
		s.mu.Unlock()
		if waits {
			c.answer <- a
		}
		if over {
			return errStops
		}
	}
}

// errStops is the error of calls not accepted by a node that sent a good-bye.
var errStops = errors.New("the node is stopping")

// goodBye records that no calls are accepted after the last ones of each lane. Answers to earlier
// calls still follow, unless the session is over.
func (s *session) goodBye(b []byte) (over bool, err error) {
	r := codec.NewReader(b)
	small, large := r.Uvarint(), r.Uvarint()
	if err := r.Done(); err != nil {
		return false, fmt.Errorf("%w: good-bye: %w", errFrame, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	for id, c := range s.calls {
		if !c.large && id > small || c.large && id > large {
			delete(s.calls, id)
			c.answer <- answer{untaken: true}
		}
	}
	return len(s.calls) == 0, nil
}

// mute records that no more calls can be sent. The remaining input is still read, such as a
// good-bye with the calls not accepted.
func (s *session) mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
}

// fail ends the session.
func (s *session) fail(err error) {
	if err == nil || isContextual(err) {
		err = errEnded // the ended ctx is not that of a call
	}
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = err
		close(s.ended)
	}
	s.mu.Unlock()
	if first {
		s.out.end(err)
		s.cancel()
	}
}

// lostError reports that the session ended while a call was in flight. It is unknown whether the
// call was executed.
type lostError struct{ reason error }

func (e *lostError) Error() string   { return fmt.Sprintf("no answer: %v", e.reason) }
func (e *lostError) Unwrap() []error { return []error{engine.ErrUnavailable, e.reason} }

// notSentError reports that a call was not sent, or was refused by a node because of the node's own
// state. The call was certainly not executed.
type notSentError struct {
	reason   error
	answered bool // a node has refused it
}

func (e *notSentError) Error() string   { return fmt.Sprintf("no connection: %v", e.reason) }
func (e *notSentError) Unwrap() []error { return []error{engine.ErrUnavailable, e.reason} }

// call sends a request and waits for its answer. Errors: *notSentError, *lostError; ctx's error,
// after which it may be executed; ErrBusy if too many bytes wait to be sent; the other side's
// refusal.
func (s *session) call(ctx context.Context, q request) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// The other side would end the stream, with all other calls on it.
	if limit := int(s.welcome.maxValue) + maxRequest - maxHead; len(q.body) > limit {
		return nil, engine.Errorf(engine.ErrInvalid, "a request of %d bytes exceeds %d", len(q.body), limit)
	}
	if engine.IsLasting(ctx) {
		q.flags |= flagLasting
	}
	lingers := q.kind == askTake && engine.Lingers(ctx)
	if lingers {
		q.flags |= flagLingers
	}
	c := call{make(chan answer, 1), isLarge(len(q.body))}
	if c.large && q.kind == askPropose {
		n := int64(len(q.body))
		if err := s.room.take(ctx, "", n); err != nil {
			return nil, err
		}
		defer s.room.giveBack("", n)
	}
	s.mu.Lock()
	if err := s.err; err != nil || s.leaving {
		s.mu.Unlock()
		return nil, &notSentError{reason: cmp.Or(err, errStops)}
	}
	s.next++
	q.id = s.next
	err := s.send(&q, c.large) // in the order of the ids
	if err == nil {
		s.calls[q.id] = c
	}
	s.mu.Unlock()
	switch {
	case errors.Is(err, engine.ErrBusy):
		return nil, err
	case err != nil:
		return nil, &notSentError{reason: err}
	}
	if q.trip != nil {
		q.trip.left = time.Now()
	}
	select {
	case a := <-c.answer:
		return s.open(a)
	case <-ctx.Done():
		if lingers {
			defer s.forget(q.id)
			s.sendCancel(q.id, c.large)
			return s.linger(ctx, c)
		}
		s.forget(q.id)
		s.sendCancel(q.id, c.large)
		return nil, ctx.Err()
	case <-s.ended:
	}
	select {
	case a := <-c.answer: // it arrived just before
		return s.open(a)
	default:
		return nil, &lostError{s.err}
	}
}

// linger waits for the answer to a cancelled take, which may already have taken an item.
func (s *session) linger(ctx context.Context, c call) ([]byte, error) {
	t := time.NewTimer(engine.LingerTime)
	defer t.Stop()
	select {
	case a := <-c.answer:
		if result, err := s.open(a); err == nil {
			return result, nil
		}
	case <-s.ended:
	case <-t.C:
	}
	return nil, ctx.Err()
}

func (s *session) send(q *request, large bool) error {
	if large {
		return s.out.sendLarge(len(q.body)+maxHead, q.appendTo)
	}
	return s.out.send(q.appendTo)
}

// sendCancel cancels a call. If the request is large, the cancellation uses the same lane, because
// it would have no effect before the request has arrived.
func (s *session) sendCancel(id uint64, large bool) {
	cancel := (&request{kind: askCancel, id: id}).appendTo
	// An error means that the stream has ended, and the call with it.
	if large {
		_ = s.out.putLarge(maxHead, cancel, math.MaxInt)
	} else {
		_ = s.out.sendSmall(cancel)
	}
}

func (s *session) open(a answer) ([]byte, error) {
	if a.untaken {
		return nil, &notSentError{reason: errStops}
	}
	if a.refused {
		err := s.peer.cfg.Wire.DecodeError(a.body)
		if isContextual(err) {
			err = &lostError{errInterrupted} // the other side's ctx: that of this call is not done
		}
		return nil, err
	}
	return a.body, nil
}

// errInterrupted is the error of a call interrupted by the other side, while its ctx here is not
// done.
var errInterrupted = errors.New("the node interrupted the call")

// isContextual reports whether an error is, or wraps, that of a ctx.
func isContextual(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (s *session) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, id)
}

func (s *session) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && !s.leaving
}
