package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// versionError reports that a node has another version of the protocol.
type versionError struct{ theirs string }

func (e *versionError) Error() string {
	return fmt.Sprintf("it speaks protocol version %.20q, this end speaks %d", e.theirs, Version)
}

// The first byte of a connection distinguishes TLS from clear-text HTTP/2, which begins with "P"
// and is answered by a length below 65,536.
const (
	tlsAlert     = 0x15
	tlsHandshake = 0x16
)

// errClearText and errTLS are the errors of ends with different settings for TLS. ErrWebServer is
// the error of a client that calls the port of the dashboard or of another HTTP server. errForeign
// is the error of a client that calls a server of another protocol.
var (
	errClearText = errors.New("it speaks clear text, TLS is expected")
	errTLS       = errors.New("it speaks TLS, clear text is expected")
	ErrWebServer = errors.New("it is an HTTP server, such as the dashboard, and not the port for clients")
	errForeign   = errors.New("it is no floe node: it speaks another protocol")
)

// webVersion is the version that ports without the protocol report.
const webVersion = "none"

// Unspoken returns a handler for a port that does not speak the protocol, so that clients and nodes
// get ErrWebServer.
func Unspoken(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains([]string{pathDoor, pathRaft, pathPulse, pathSnapshot}, r.URL.Path) {
			w.Header().Set(versionHeader, webVersion)
		}
		h.ServeHTTP(w, r)
	})
}

// sniffer fails the first read of a connection whose other end speaks TLS where clear text is
// expected, or the reverse.
type sniffer struct {
	net.Conn
	secure bool // TLS is expected
	client bool // the other end is a server
	heard  bool // first bytes were read; used only by the reading goroutine

	note func(error) // called with the error of the first read; may be nil
}

func (s *sniffer) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n == 0 || s.heard {
		return n, err
	}
	s.heard = true
	if mismatch := s.mismatch(b[:n]); mismatch != nil {
		if s.note != nil {
			s.note(mismatch)
		}
		return 0, mismatch
	}
	return n, err
}

// mismatch returns why no connection is possible, from the first bytes of the other end.
func (s *sniffer) mismatch(b []byte) error {
	secure := b[0] == tlsAlert || b[0] == tlsHandshake
	switch {
	case !s.secure && bytes.HasPrefix(b, []byte("HTTP/1.")):
		return ErrWebServer
	case !s.secure && s.client && !secure && b[0] != 0: // a server of HTTP/2 begins with a short frame
		return errForeign
	case secure == s.secure:
		return nil
	case secure:
		return errTLS
	}
	return errClearText
}

// explainer returns the errors of sniffers. net/http reports only that a connection could not be
// established if it failed before its first request was sent.
type explainer struct {
	*http.Transport
	mismatches sync.Map // address → error of the newest connection
}

// note stores the error of the newest connection to an address, or nil.
func (e *explainer) note(addr string, err error) {
	if err == nil {
		e.mismatches.Delete(addr)
	} else {
		e.mismatches.Store(addr, err)
	}
}

func (e *explainer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := e.Transport.RoundTrip(r)
	if err != nil && !isFinal(err) {
		if mismatch, ok := e.mismatches.Load(r.URL.Host); ok {
			return nil, mismatch.(error)
		}
	}
	return resp, err
}

// dialFunc opens a connection, like net.Dialer.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer opens connections to nodes, which form a crowd. dial is nil for the operating system's.
// note is called with nil before each dial, and with the error of a connection's sniffer.
func dialer(secure bool, dial dialFunc, conns *crowd, note func(addr string, err error)) dialFunc {
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		note(addr, nil)
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		g := conns.admit(c)
		if g == nil {
			return nil, errEnded
		}
		if conns.met != nil {
			conns.met(c.RemoteAddr().String())
		}
		return &sniffer{Conn: g, secure: secure, client: true, note: func(err error) { note(addr, err) }}, nil
	}
}

// Answers to a client that does not begin as the port expects, for that client's sniffer.
const (
	plainRefusal  = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nfloe: this port is in clear text\n"
	secureRefusal = "\x15\x03\x03\x00\x02\x02\x46" // a fatal alert, protocol_version
)

// doorman is a sniffer at the door of a node.
type doorman struct{ sniffer }

func (d *doorman) Read(b []byte) (int, error) {
	n, err := d.sniffer.Read(b)
	switch {
	case errors.Is(err, errTLS):
		_, _ = io.WriteString(d.Conn, plainRefusal)
	case errors.Is(err, errClearText):
		_, _ = io.WriteString(d.Conn, secureRefusal)
	}
	return n, err
}

// plain returns why a connection failed, without the address, which the caller already shows.
func plain(err error) error {
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		err = dial.Err
	}
	return err
}

// isFinal reports whether no connection is possible until one end is configured differently.
func isFinal(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var alert *net.OpError
	var version *versionError
	return errors.As(err, &version) || errors.Is(err, errTLS) || errors.Is(err, errClearText) || errors.Is(err, ErrWebServer) ||
		errors.Is(err, errForeign) || errors.As(err, &untrusted) || errors.As(err, &alert) && alert.Op == "remote error"
}

// finalError is a notSentError that a retry will not change.
type finalError struct{ reason error }

func (e *finalError) Error() string   { return fmt.Sprintf("no connection: %v", e.reason) }
func (e *finalError) Unwrap() []error { return []error{engine.ErrUnavailable, e.reason} }
