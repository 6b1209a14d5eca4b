package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	testrig "github.com/floedb/floe/internal/test/machinetest" // this package has a type named rig
)

// TestMismatchedEnds dials clear-text nodes with TLS, the reverse, and TLS nodes without trust: the
// error names the problem at once.
func TestMismatchedEnds(t *testing.T) {
	clear := newRig(t)
	conf := testTLS(t)
	secure := New(Config{Node: 1, Wire: testWire(), TLS: conf})
	t.Cleanup(secure.Close)
	secure.Attach(clear.host, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure.Serve(l)
	for name, c := range map[string]struct {
		addrs []string
		conf  *tls.Config
		want  string
	}{
		"TLS to clear text": {[]string{clear.addr}, conf, "it speaks clear text, TLS is expected"},
		"clear text to TLS": {[]string{l.Addr().String()}, nil, "it speaks TLS, clear text is expected"},
		"to two":            {[]string{l.Addr().String(), l.Addr().String()}, nil, "it speaks TLS, clear text is expected; "},
		"without trust": {[]string{l.Addr().String()}, &tls.Config{Certificates: conf.Certificates},
			"certificate signed by unknown authority"},
		"without certificate": {[]string{l.Addr().String()}, &tls.Config{RootCAs: conf.RootCAs}, "certificate required"},
	} {
		d, err := Dial(t.Context(), Config{Wire: testWire(), TLS: c.conf}, c.addrs)
		if err == nil {
			d.Close()
		}
		if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want ErrUnavailable with %q", name, err, c.want)
		}
	}
	clear.well(clear.dial())
	d, err := Dial(t.Context(), Config{Wire: testWire(), TLS: conf}, []string{clear.addr, l.Addr().String()})
	if err != nil {
		t.Fatalf("dial with one address that fits: %v", err)
	}
	defer d.Close()
	clear.well(d)
}

// TestOtherVersion: two ends with different versions of the protocol report the versions at once,
// and read no frame of each other.
func TestOtherVersion(t *testing.T) {
	r := newRig(t)
	resp, err := r.http().Post("http://"+r.addr+"/floe/99/door", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if v := resp.Header.Get(versionHeader); resp.StatusCode != http.StatusNotFound || v != strconv.Itoa(Version) {
		t.Errorf("a stream of version 99 is answered with %s, version %q", resp.Status, v)
	}
	addr := serveHTTP2(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(versionHeader, "99")
		http.NotFound(w, nil)
	})
	const want = `it speaks protocol version "99", this end speaks`
	if _, err := Dial(t.Context(), Config{Wire: testWire()}, []string{addr}); !errors.Is(err, engine.ErrUnavailable) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("dial: %v, want ErrUnavailable with %q", err, want)
	}
}

// TestOtherServer: a server that is no node is noticed at once, by what it says first.
func TestOtherServer(t *testing.T) {
	t.Parallel()
	says := func(text string) (addr string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text)
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	for addr, want := range map[string]error{
		serveHTTP2(t, http.NotFound):                  ErrWebServer,
		says("HTTP/1.1 400 Bad Request\r\n\r\n"):      ErrWebServer,
		says("<!DOCTYPE html>"):                       errForeign,
		says("-ERR unknown command\r\n"):              errForeign,
		says("SSH-2.0-OpenSSH_10.0\r\n"):              errForeign,
		says(string([]byte{tlsAlert, 3, 3, 0, 2, 2})): errTLS,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a dial that tries again ends with it
		_, err := Dial(ctx, Config{Wire: testWire()}, []string{addr})
		cancel()
		if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, want) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial: %v, want %v at once", err, want)
		}
	}
}

// TestOtherServerBeforeRequest: that a server is no node is reported also if its first bytes arrive
// before the request is sent.
func TestOtherServerBeforeRequest(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.WriteString(theirs, "SSH-2.0-OpenSSH_10.0\r\n")
	}()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	closed := &closeNoter{Conn: ours, closed: make(chan struct{})}
	dial := func(context.Context, string, string) (net.Conn, error) { return closed, nil }
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { <-closed.closed }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://node:9001"+pathDoor, nil)
	if err != nil {
		t.Fatal(err)
	}
	conns := newCrowd(maxConnections, 2*pingAfter)
	t.Cleanup(conns.closeAll)
	if resp, err := newClient(nil, dial, conns).Do(req); !errors.Is(err, errForeign) {
		t.Errorf("response %v, %v, want %v", resp, err, errForeign)
	}
}

// closeNoter closes a channel when the connection is closed.
type closeNoter struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *closeNoter) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// serveHTTP2 serves HTTP/2 in clear text and returns its address.
func serveHTTP2(t *testing.T, h http.HandlerFunc) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: h, Protocols: &protocols}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// TestDialNobody dials addresses that refuse connections, or accept them and stay silent: the error
// names each address once.
func TestDialNobody(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed := testrig.FreeAddr(t)
	_, err = Dial(t.Context(), Config{Wire: testWire()}, []string{silent.Addr().String(), closed})
	want := "no connection: " + silent.Addr().String() + ": it does not answer; " + closed + ": connect: connection refused"
	if !errors.Is(err, engine.ErrUnavailable) || err.Error() != want {
		t.Errorf("dial: %v, want %q", err, want)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial: %v is a deadline that the caller has not set", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, Config{Wire: testWire()}, []string{silent.Addr().String()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial with a deadline: %v", err)
	}

	// Silent addresses do not keep a client from one that answers.
	r := newRig(t)
	c, err := Dial(t.Context(), Config{Wire: testWire()}, []string{silent.Addr().String(), silent.Addr().String(), r.addr})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	r.well(c)
}
