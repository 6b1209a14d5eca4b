package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/floedb/floe/internal/transport"
)

// The limits of an HTTP server. The drain (graceTime and cutTime) and closeTime together stay below
// stopTime.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 60 * time.Second
	transferTimeout   = 30 * time.Second // see deadlines
	restTimeout       = 5 * time.Second
	maxHeaderBytes    = 32 << 10

	// An HTTP/2 client may send bodies of this size before a handler reads them, whatever the
	// number of its streams: as much as the buffers of one connection. Streams are counted as
	// requests, see crowd.wrap.
	maxUnread   = 64 << 10
	maxStreams  = 100 // of a connection; the least that RFC 9113 recommends
	maxFrame    = 16 << 10
	pongTimeout = 15 * time.Second

	// noticeTime is how long a stopping server still answers 503, so that clients with an open
	// connection receive that instead of a reset.
	noticeTime = 250 * time.Millisecond
	mostNotice = 3 * time.Second
	// graceTime is the time limit for requests in flight. Then they are cancelled.
	graceTime = 3 * time.Second
	// cutTime is the time limit for the answers to cancelled requests. Then their connections are
	// closed.
	cutTime = 500 * time.Millisecond
)

// stopTime is the maximum time for a server to stop; supervisors kill the process after longer
// times. The help of server start promises this limit.
const stopTime = 10 * time.Second

// site is an HTTP server on one address. It answers as soon as it listens: with 503 until it is
// opened, and again while it drains.
type site struct {
	addr   net.Addr
	gate   *gate
	server *http.Server
	cancel context.CancelFunc // cancels all requests
	crowd  *crowd
	failed chan error    // capacity 1: why it no longer serves
	ended  chan struct{} // closed when its goroutine has ended
}

// protocol is the newest version of HTTP that a site accepts.
type protocol int

// The protocols of sites. HTTP/2 in clear text needs a client that knows it in advance.
const (
	http1 protocol = 1
	http2 protocol = 2
)

// versions returns the versions of HTTP, and their names in TLS.
func (p protocol) versions() (all *http.Protocols, names []string) {
	all, names = new(http.Protocols), []string{"http/1.1"}
	all.SetHTTP1(true)
	if p == http2 {
		all.SetHTTP2(true)
		all.SetUnencryptedHTTP2(true)
		names = []string{"h2", "http/1.1"}
	}
	return all, names
}

// listen starts a site. The caller must drain or close it.
func listen(addr string, p protocol, encryption *tls.Config, log *slog.Logger) (*site, error) {
	listener, err := transport.Listen(addr)
	if err != nil {
		return nil, err
	}
	address := listener.Addr()
	entrance := &entrance{Listener: listener}
	listener = entrance
	protocols, names := p.versions()
	if encryption != nil {
		encryption = encryption.Clone()
		encryption.NextProtos = names
		listener = tls.NewListener(listener, encryption)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &site{crowd: newCrowd(log), addr: address, gate: newGate(), cancel: cancel, failed: make(chan error, 1),
		ended: make(chan struct{})}
	limits := deadlines{body: transferTimeout, rest: restTimeout, write: transferTimeout}
	s.server = &http.Server{
		Handler:           limits.wrap(s.crowd.wrap(transport.Unspoken(s.gate))),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread,
			SendPingTimeout: idleTimeout, PingTimeout: pongTimeout, WriteByteTimeout: transferTimeout,
		},
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: withGuest,
	}
	entrance.crowd = s.crowd
	go s.serve(listener)
	return s, nil
}

func (s *site) serve(listener net.Listener) {
	defer close(s.ended)
	if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		s.failed <- fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
}

// broken returns a channel that reports why the site no longer serves. It is nil for a nil site.
func (s *site) broken() <-chan error {
	if s == nil {
		return nil
	}
	return s.failed
}

// drain stops the site. It rejects new requests, gives requests in flight graceTime, and then
// disconnects clients that have not read their answer within cutTime.
func (s *site) drain() {
	s.gate.stop()
	noticed := make(chan struct{})
	go func() {
		defer close(noticed)
		s.giveNotice()
	}()
	select {
	case <-s.gate.idle:
		<-noticed
	case <-time.After(graceTime):
	}
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), cutTime)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		s.close()
	}
	<-s.ended
}

// giveNotice returns once no request has arrived for noticeTime, or after mostNotice. Time in which
// the process was not scheduled does not count: unread requests may be waiting.
func (s *site) giveNotice() {
	const steps = 5
	step := time.NewTicker(noticeTime / steps)
	defer step.Stop()
	quiet := 0
	for began := time.Now(); quiet < steps && time.Since(began) < mostNotice; {
		refused, before := s.gate.refused.Load(), time.Now()
		<-step.C
		if quiet++; s.gate.refused.Load() != refused || time.Since(before) > 2*noticeTime/steps {
			quiet = 0
		}
	}
}

// close stops the site at once.
func (s *site) close() {
	s.cancel()
	// The error is that of closing the listener, which no caller needs.
	_ = s.server.Close()
	<-s.ended
}

// listenError adds a hint to the error of a listener, whose flags begin with -- and prefix.
func (c *config) listenError(prefix string, err error) error {
	hint, choice := "", "another port with --"+prefix+"port"
	if prefix != "" && !c.named(prefix+"port") {
		choice = "other ports with --port, which metrics and dashboard follow"
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "another node may be running: stop it, or choose " + choice
	case errors.Is(err, syscall.EACCES):
		hint = "ports below 1024 may need privileges: choose " + choice
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = "choose an address of this machine with --" + prefix + "bind"
	}
	return &hintedError{fmt.Errorf("%s: %w", c.spelled[prefix+"port"], err), hint}
}
