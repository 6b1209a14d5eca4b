package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// crowd bounds the connections of a site. Of those beyond the limit so many are let in as are needed to tell them: 429, but for /health. Others are closed
// without a word.
type crowd struct {
	limit atomic.Int64
	open  atomic.Int64
}

const (
	defaultHTTPConnections = 4096
	latecomers             = 64
)

func newCrowd() *crowd {
	c := new(crowd)
	c.limit.Store(defaultHTTPConnections)
	return c
}

// wrap turns requests away while there are too many connections.
func (c *crowd) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, limit := c.open.Load(), c.limit.Load(); n > limit && r.URL.Path != "/health" {
			turnAway(w, r, http.StatusTooManyRequests, map[string]string{"error": fmt.Sprintf("%d connections are open, the limit is %d", n, limit)})
			return
		}
		h.ServeHTTP(w, r)
	})
}

// entrance is a listener whose connections are a crowd.
type entrance struct {
	net.Listener
	crowd *crowd
}

// Accept turns away who is far beyond the limit.
func (e *entrance) Accept() (net.Conn, error) {
	for {
		conn, err := e.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if e.crowd.open.Add(1) <= e.crowd.limit.Load()+latecomers {
			return &guest{Conn: conn, crowd: e.crowd}, nil
		}
		e.crowd.open.Add(-1)
		conn.Close()
	}
}

// guest is a connection until it is closed.
type guest struct {
	net.Conn
	crowd *crowd
	once  sync.Once
}

// Write writes what net/http answers to what is no request, in its own words and as text, as the other answers are: in JSON. Of an encrypted connection that can not
// be seen.
func (g *guest) Write(p []byte) (int, error) {
	if status, text, ok := bareRefusal(p); ok {
		if _, err := g.Conn.Write(refusalInJSON(status, text)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return g.Conn.Write(p)
}

// bareHead is how an answer of net/http itself goes on behind its status line.
const bareHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// bareRefusal returns the status line and the text of an answer that net/http has made itself, which is written at once.
func bareRefusal(p []byte) (status, text string, ok bool) {
	status, text, ok = strings.Cut(string(p[:min(len(p), 1024)]), bareHead)
	return status, text, ok && len(p) < 1024 && strings.HasPrefix(status, "HTTP/1.1 ") && !strings.Contains(status, "\r\n")
}

func refusalInJSON(status, text string) []byte {
	body, err := json.Marshal(map[string]string{"error": strings.ToLower(strings.TrimSpace(text))})
	if err != nil {
		body = []byte(`{"error":"bad request"}`)
	}
	return fmt.Appendf(nil, "%s\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
}

func (g *guest) Close() error {
	g.once.Do(func() { g.crowd.open.Add(-1) })
	return g.Conn.Close()
}
