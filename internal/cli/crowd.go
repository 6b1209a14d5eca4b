package cli

import (
	"fmt"
	"net"
	"net/http"
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

func (g *guest) Close() error {
	g.once.Do(func() { g.crowd.open.Add(-1) })
	return g.Conn.Close()
}
