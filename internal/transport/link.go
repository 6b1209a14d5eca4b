package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Times of connections.
const (
	dialTimeout = 3 * time.Second
	pingAfter   = time.Second // without a frame: then a ping makes the other end respond
	pongTimeout = 30 * time.Second
	minPause    = 20 * time.Millisecond
	maxPause    = time.Second
)

// A connection is closed when nothing arrives for two times pingAfter (at the end that opened it)
// or four times (at the other end); see guest. Any byte counts, because the answer to a ping may be
// queued behind other data on a slow connection. If that answer takes longer than pongTimeout, the
// connection is closed even if bytes arrive. The end that accepted a connection pings only after
// the other end would have closed it, because an earlier ping would be a sign of life on a
// connection that works in only one direction.

// dataFrame is the largest frame of HTTP/2, for which a ping may have to wait.
const dataFrame = 64 << 10

// newClient returns an HTTP client with its own single connection to each address.
func newClient(conf *tls.Config, dial dialFunc, conns *crowd) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP2(conf != nil)
	protocols.SetUnencryptedHTTP2(conf == nil)
	e := &explainer{}
	e.Transport = &http.Transport{
		DialContext:     dialer(conf != nil, dial, conns, e.note),
		TLSClientConfig: modern(conf),
		Protocols:       &protocols,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: dataFrame, SendPingTimeout: pingAfter, PingTimeout: pongTimeout,
			MaxReceiveBufferPerConnection: 16 << 20, MaxReceiveBufferPerStream: 4 << 20,
		},
	}
	return &http.Client{Transport: e}
}

func (p *Peer) url(addr string) string {
	if p.cfg.TLS != nil {
		return "https://" + addr
	}
	return "http://" + addr
}

// pacer determines when a failed attempt may be repeated.
type pacer struct {
	pause time.Duration
	until time.Time
	err   error // of the last attempt
}

func (c *pacer) failed(err error) {
	c.pause = min(max(2*c.pause, minPause), maxPause)
	c.until, c.err = time.Now().Add(c.pause), err
}

// link connects to the door of one address: a session, opened on demand.
type link struct {
	peer   *Peer
	client *http.Client
	addr   string
	role   uint8
	node   uint64 // expected there, 0: any

	mu      sync.Mutex // guards what follows; no I/O under it
	session *session
	pacer   pacer
	lostAt  time.Time     // when a session was lost with calls in flight
	opening chan struct{} // closed when the current attempt has ended
}

// get returns a session. It waits until by; if that is zero, it waits until the session is open.
// Errors: *notSentError; ctx's error.
func (l *link) get(ctx context.Context, by time.Time) (*session, error) {
	for {
		l.mu.Lock()
		if l.session != nil && l.session.alive() {
			defer l.mu.Unlock()
			return l.session, nil
		}
		if l.opening == nil && time.Now().Before(l.pacer.until) {
			defer l.mu.Unlock()
			return nil, &notSentError{reason: l.pacer.err}
		}
		opening := l.opening
		if opening == nil {
			opening = make(chan struct{})
			if !l.peer.spawn(l.open) {
				defer l.mu.Unlock()
				return nil, &notSentError{reason: l.peer.closedError()}
			}
			l.opening = opening
		}
		l.mu.Unlock()
		if err := awaitOpening(ctx, opening, by); err != nil {
			return nil, l.overdue(ctx, err)
		}
		l.mu.Lock()
		s, err := l.session, l.pacer.err
		l.mu.Unlock()
		if s == nil || !s.alive() {
			return nil, &notSentError{reason: err}
		}
	}
}

// overdue returns why there is no session at a call's deadline, because the reason for the last
// failed attempt is more useful than the deadline.
func (l *link) overdue(ctx context.Context, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		return &notSentError{reason: cmp.Or(l.pacer.err, err)}
	}
	return ended(ctx, &notSentError{reason: cmp.Or(l.pacer.err, errSilent)})
}

func awaitOpening(ctx context.Context, opening <-chan struct{}, by time.Time) error {
	var late <-chan time.Time
	if !by.IsZero() {
		t := time.NewTimer(time.Until(by))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-opening:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
		return errSilent
	}
}

// errSilent is the reason for having no session with an address that accepts connections but sends
// nothing.
var errSilent = errors.New("it does not answer")

// shunned is how long an unreachable address is avoided if there are alternatives.
const shunned = 5 * time.Second

// isDown reports whether the address was recently unreachable, or has become silent and has not
// been reached since.
func (l *link) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil && l.session.alive() {
		return false
	}
	return l.session == nil && l.pacer.pause > 0 && time.Since(l.pacer.until) < shunned || time.Since(l.lostAt) < shunned
}

// noteLost records that a session was lost with a call in flight. It takes seconds to find out
// whether the next session answers.
func (l *link) noteLost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lostAt = time.Now()
}

// open makes one attempt. It does not depend on the first caller, because others may also wait for
// it.
func (l *link) open() {
	ctx, cancel := context.WithTimeout(l.peer.ctx, dialTimeout)
	defer cancel()
	s, err := l.peer.newSession(ctx, l.client, l.peer.url(l.addr), l.role, l.node)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session = s; err != nil {
		if errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "http2: client connection lost") {
			err = errSilent // the deadline is not the caller's; pings that get no answer end in the other one, which has no type
		}
		if errors.Is(err, context.Canceled) {
			err = errEnded // nor has the ctx of a call ended
		}
		l.session = nil
		l.pacer.failed(plain(err))
	} else {
		l.pacer, l.lostAt = pacer{err: errEnded}, time.Time{}
	}
	close(l.opening)
	l.opening = nil
}

// call makes a call. Errors: *notSentError, including refusals by the other node because of its own
// state; *lostError; ctx's error; the other node's refusal.
func (l *link) call(ctx context.Context, q request) ([]byte, error) {
	var by time.Time
	if q.trip != nil {
		by = q.trip.by
	}
	s, err := l.get(ctx, by)
	if err != nil {
		return nil, err
	}
	result, err := s.call(ctx, q)
	var lost *lostError
	switch {
	case err != nil && unfit(err):
		return nil, &notSentError{reason: err, answered: true}
	case errors.As(err, &lost):
		l.noteLost()
	}
	return result, err
}

// unfit reports whether a node has refused a call because it is stopping or has failed. Another
// node may accept the call.
func unfit(err error) bool {
	var notLeader *engine.NotLeaderError
	var lost *lostError
	var notSent *notSentError
	switch {
	case errors.As(err, &notLeader), errors.As(err, &lost), errors.As(err, &notSent), errors.Is(err, engine.ErrUnknownOutcome),
		errors.Is(err, engine.ErrReadOnly):
		return false
	}
	return errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrClosed)
}
