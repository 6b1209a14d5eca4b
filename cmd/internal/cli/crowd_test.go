package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBareRefusals (D12 of the decisions about the API): what net/http refuses before there is a
// request is answered in JSON, and answers of handlers pass as they are.
func TestBareRefusals(t *testing.T) {
	s, err := listen("127.0.0.1:0", http2, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	const own = "HTTP/1.1 400 Bad Request" + bareHead + "400 Bad Request"
	s.gate.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, own) }))
	for request, want := range map[string]struct {
		status string
		text   string
	}{
		"GET / HTTP/1.1\r\n\r\n": {"400 Bad Request: missing required Host header",
			"missing required host header"},
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n": {"400 Bad Request", "400 bad request"},
		"nonsense\r\n\r\n": {"400 Bad Request", "400 bad request"},
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n": {"431 Request Header Fields Too Large",
			"431 request header fields too large"},
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n":                      {"417 Expectation Failed", "expectation failed"},
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: secret\r\n\r\n":        {"501", "unsupported transfer encoding"},
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept: */*\r\n\r\n": {"200 OK", ""},
	} {
		conn, err := net.Dial("tcp", s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, request) }()
		got, _ := io.ReadAll(conn) // the rest of a large header may be reset
		conn.Close()
		head, body, _ := strings.Cut(string(got), "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 "+want.status) {
			t.Errorf("%.60q: %q, want %s", request, head, want.status)
		}
		if want.text == "" {
			if body != own {
				t.Errorf("a handler's answer has become %q", body)
			}
			continue
		}
		var refusal struct{ Error string }
		if err := json.Unmarshal([]byte(body), &refusal); err != nil || !strings.Contains(refusal.Error, want.text) ||
			!strings.Contains(head, "application/json") {
			t.Errorf("%.60q: %q, %q; want JSON with %q", request, head, body, want.text)
		}
	}
}

// visitor is a connection from an address.
type visitor struct {
	net.Conn
	addr string
}

func (v visitor) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(v.addr))
}

// TestPlacesOfAddresses: an address has three fourths of a site's connections, an IPv6 network
// counting as one; this machine and trusted proxies may have all.
func TestPlacesOfAddresses(t *testing.T) {
	var log lockedBuffer
	c := newCrowd(slog.New(slog.NewTextHandler(&log, nil)))
	c.bound(40, []netip.Prefix{netip.MustParsePrefix("198.51.100.7/32")})
	come := func(n int, addr func(i int) string) (in []*guest) {
		for i := range n {
			a, b := net.Pipe()
			t.Cleanup(func() { a.Close(); b.Close() })
			if g := c.admit(visitor{a, addr(i)}); g != nil {
				in = append(in, g)
			}
		}
		return in
	}
	leave := func(guests []*guest) {
		for _, g := range guests {
			g.Close()
			g.Close()
		}
	}
	for name, group := range map[string]struct {
		addr func(i int) string
		want int
	}{
		"an address":      {func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 1000+i) }, 30},
		"a mapped one":    {func(i int) string { return fmt.Sprintf("[::ffff:192.0.2.1]:%d", 1000+i) }, 30},
		"a network":       {func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1000", i+1) }, 30},
		"this machine":    {func(i int) string { return fmt.Sprintf("127.0.0.1:%d", 1000+i) }, 40 + latecomers},
		"a trusted proxy": {func(i int) string { return fmt.Sprintf("198.51.100.7:%d", 1000+i) }, 40 + latecomers},
	} {
		in := come(200, group.addr)
		others := come(20, func(i int) string { return fmt.Sprintf("192.0.2.%d:1000", 10+i) })
		if len(in) != group.want {
			t.Errorf("%s: %d connections of 200, want %d", name, len(in), group.want)
		}
		if served := slices.IndexFunc(others, func(g *guest) bool { return g.late }); group.want == 30 && served != 10 {
			t.Errorf("%s has its share: %d others are served, want 10", name, served)
		}
		leave(in)
		leave(others)
	}
	if c.open != 0 || len(c.by) != 0 {
		t.Errorf("when all have gone: %d are open, by address %v", c.open, c.by)
	}
	if said := strings.Count(log.String(), "its address has its share"); said != 1 {
		t.Errorf("%d lines in the log, want one a minute\n%s", said, log.String())
	}
}

// TestEarlyConnectionsGoOn: a connection that came while there was room is served, however many
// come after it.
func TestEarlyConnectionsGoOn(t *testing.T) {
	s, err := listen("127.0.0.1:0", http2, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	s.crowd.bound(1, nil)
	s.gate.open(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(conn net.Conn) string {
		t.Helper()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		status := make([]byte, len("HTTP/1.1 200 OK"))
		if _, err := io.ReadFull(conn, status); err != nil {
			t.Fatal(err)
		}
		for rest := make([]byte, 1); !strings.HasSuffix(string(status), "\r\n\r\n"); status = append(status, rest...) {
			if _, err := io.ReadFull(conn, rest); err != nil {
				t.Fatal(err)
			}
		}
		return string(status[9:12])
	}
	early := dial(t, "http://"+s.addr.String())
	if got := ask(early); got != "200" {
		t.Errorf("the first: %s", got)
	}
	idle, late := dial(t, "http://"+s.addr.String()), dial(t, "http://"+s.addr.String())
	defer idle.Close() // which asks for nothing
	if got := ask(late); got != "429" {
		t.Errorf("one beyond the limit: %s, want 429", got)
	}
	if got := ask(early); got != "200" {
		t.Errorf("the first with others beyond the limit: %s, want 200", got)
	}
}
