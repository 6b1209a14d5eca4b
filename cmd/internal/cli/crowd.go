package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/budget"
)

// crowd limits a site's connections, and its requests to the same number: an HTTP/2 connection
// carries many requests, and each can hold as much as an HTTP/1 connection. Up to latecomers
// connections beyond the limit are accepted to receive 429; only /health is served to them. Others
// are closed without an answer. So are the connections of an address beyond its share, so that a
// single address cannot lock out all others.
type crowd struct {
	log  *slog.Logger
	told atomic.Int64 // last time that a full share was logged, in ns

	mu      sync.Mutex // guards the fields below; nothing is called under it
	limit   int
	proxies []netip.Prefix // each stands for many clients, so has no share
	open    int
	by      map[netip.Addr]int // connections of addresses that have a share
	served  int                // requests
	asked   map[netip.Addr]int // requests of addresses that have a share
}

const (
	defaultHTTPConnections = 4096
	latecomers             = 64
)

func newCrowd(log *slog.Logger) *crowd {
	return &crowd{log: log, limit: defaultHTTPConnections, by: make(map[netip.Addr]int), asked: make(map[netip.Addr]int)}
}

// bound sets the limit, and the proxies that are exempt from shares.
func (c *crowd) bound(limit int, proxies []netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit, c.proxies = limit, proxies
}

// admit returns the connection as a guest, or closes it and returns nil if there are too many.
func (c *crowd) admit(conn net.Conn) *guest {
	g := &guest{Conn: conn, crowd: c}
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		g.addr = tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	c.mu.Lock()
	if !g.addr.IsValid() || g.addr.IsLoopback() || slices.ContainsFunc(c.proxies, func(p netip.Prefix) bool { return p.Contains(g.addr) }) {
		g.addr = netip.Addr{} // other processes on this machine could do worse
	} else {
		g.addr = budget.Host(g.addr)
	}
	share := budget.AddressShare(c.limit)
	crowds := g.addr.IsValid() && c.by[g.addr] >= share
	fits := !crowds && c.open < c.limit+latecomers
	if fits {
		c.open++
		g.late = c.open > c.limit
		if g.addr.IsValid() {
			c.by[g.addr]++
		}
	}
	c.mu.Unlock()
	if crowds {
		c.tellShare(g.addr, share)
	}
	if !fits {
		conn.Close()
		return nil
	}
	return g
}

// tellShare logs, at most once a minute, that an address has used up its share of connections.
func (c *crowd) tellShare(addr netip.Addr, share int) {
	now := time.Now().UnixNano()
	if last := c.told.Load(); now-last >= int64(time.Minute) && c.told.CompareAndSwap(last, now) {
		c.log.Warn("closed an HTTP connection: its address has its share of them", "from", addr, "share", share)
	}
}

// guestKey is the key of a context's *guest.
type guestKey struct{}

// withGuest is a value for http.Server.ConnContext.
func withGuest(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, guestKey{}, conn)
}

// wrap rejects requests on late connections while there are too many connections. Earlier
// connections are not affected. It also rejects requests of HTTP/2 beyond the limit of the site, or
// the share of their address.
func (c *crowd) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g, _ := r.Context().Value(guestKey{}).(*guest)
		refusal := c.begin(g, r.ProtoMajor)
		defer c.end(g)
		if refusal != "" && r.URL.Path != "/health" {
			turnAway(w, r, http.StatusTooManyRequests, map[string]string{"error": refusal})
			return
		}
		h.ServeHTTP(w, r)
	})
}

// begin counts a request, and returns why it is rejected, "" if it is not. end must follow.
func (c *crowd) begin(g *guest, version int) (refusal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served++
	if g == nil {
		return ""
	}
	if g.addr.IsValid() {
		c.asked[g.addr]++
	}
	share := budget.AddressShare(c.limit)
	switch {
	case g.late && c.open > c.limit:
		return fmt.Sprintf("%d connections are open, the limit is %d", c.open, c.limit)
	case version < 2: // one request at a time
	case c.served > c.limit:
		return fmt.Sprintf("%d requests are being served, the limit is %d", c.served-1, c.limit)
	case g.addr.IsValid() && c.asked[g.addr] > share:
		return fmt.Sprintf("%d requests of this address are being served, the limit is %d", c.asked[g.addr]-1, share)
	}
	return ""
}

func (c *crowd) end(g *guest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served--
	if g == nil || !g.addr.IsValid() {
		return
	}
	if c.asked[g.addr]--; c.asked[g.addr] == 0 {
		delete(c.asked, g.addr)
	}
}

// entrance is a listener whose connections belong to a crowd.
type entrance struct {
	net.Listener
	crowd *crowd
}

// Accept closes connections that the crowd does not admit.
func (e *entrance) Accept() (net.Conn, error) {
	for {
		conn, err := e.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := e.crowd.admit(conn); g != nil {
			return g, nil
		}
	}
}

// guest is a connection until it is closed.
type guest struct {
	net.Conn
	crowd *crowd
	addr  netip.Addr // the remote address, as shares count it; zero: not counted
	late  bool       // accepted beyond the limit
	once  sync.Once
}

// Write replaces the plain-text answers of net/http to malformed requests by JSON, which all other
// answers use. It cannot see them on an encrypted connection.
func (g *guest) Write(p []byte) (int, error) {
	if status, text, ok := bareRefusal(p); ok {
		if _, err := g.Conn.Write(refusalInJSON(status, text)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return g.Conn.Write(p)
}

// bareHead is the part of an answer by net/http itself that follows the status line.
const bareHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// bareExpectation is the start of the answer to an Expect other than 100-continue. It has no text.
const bareExpectation = "HTTP/1.1 417 Expectation Failed"

// bareRefusal returns the status line and the text of an answer by net/http itself, which is a
// single write.
func bareRefusal(p []byte) (status, text string, ok bool) {
	if bytes.HasPrefix(p, []byte(bareExpectation+"\r\n")) {
		return bareExpectation, "expectation failed: only 100-continue is known", true
	}
	status, text, ok = strings.Cut(string(p[:min(len(p), 1024)]), bareHead)
	return status, text, ok && len(p) < 1024 && strings.HasPrefix(status, "HTTP/1.1 ") && !strings.Contains(status, "\r\n")
}

func refusalInJSON(status, text string) []byte {
	body, err := json.Marshal(map[string]string{"error": strings.ToLower(strings.TrimSpace(text))})
	if err != nil {
		body = []byte(`{"error":"bad request"}`)
	}
	return fmt.Appendf(nil, "%s\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, len(body), body)
}

func (g *guest) Close() error {
	g.once.Do(func() {
		c := g.crowd
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
		if !g.addr.IsValid() {
			return
		}
		if c.by[g.addr]--; c.by[g.addr] == 0 {
			delete(c.by, g.addr)
		}
	})
	return g.Conn.Close()
}
