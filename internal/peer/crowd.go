package peer

import (
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/shard"
)

// crowd is connections that can all be closed. An HTTP server forgets those that speak HTTP/2 in clear text, and an HTTP client does not close
// one on which a stream has ended a moment ago.
type crowd struct {
	limit   int
	silence time.Duration // after which a connection is given up

	received, sent atomic.Int64 // bytes

	mu     sync.Mutex // guards what follows; nothing is called under it
	conns  map[*guest]bool
	closed bool
}

// guest is a connection of a crowd, until it is closed.
type guest struct {
	net.Conn
	crowd *crowd

	heard  atomic.Bool // something came since the last look
	lost   atomic.Bool // nothing came for too long
	silent int         // looks in a row before which nothing came; by the one goroutine that looks
	look   *time.Timer
}

// looks is how often in its silence a connection is looked at. One look alone, late because the process did not run, ends none.
const looks = 4

func newCrowd(limit int, silence time.Duration) *crowd {
	return &crowd{limit: limit, silence: silence, conns: make(map[*guest]bool)}
}

// admit returns the connection as one of the crowd, or closes it and returns nil if there are too many, or all have been closed.
func (c *crowd) admit(conn net.Conn) *guest {
	g := &guest{Conn: conn, crowd: c}
	c.mu.Lock()
	fits := len(c.conns) < c.limit && !c.closed
	if fits {
		c.conns[g] = true
		g.look = time.AfterFunc(c.silence/looks, g.check)
	}
	c.mu.Unlock()
	if !fits {
		conn.Close()
		return nil
	}
	return g
}

// check closes the connection if nothing has come for too long.
func (g *guest) check() {
	if g.silent++; g.heard.Swap(false) {
		g.silent = 0
	}
	g.crowd.mu.Lock()
	open, over := g.crowd.conns[g], g.silent >= looks
	if open && !over {
		g.look.Reset(g.crowd.silence / looks)
	}
	g.crowd.mu.Unlock()
	if open && over {
		g.lost.Store(true)
		g.Close()
	}
}

func (g *guest) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if n > 0 {
		g.heard.Store(true)
	}
	if err != nil && g.lost.Load() {
		err = errSilent
	}
	g.crowd.received.Add(int64(n))
	return n, err
}

func (g *guest) Write(p []byte) (int, error) {
	n, err := g.Conn.Write(p)
	g.crowd.sent.Add(int64(n))
	return n, err
}

func (g *guest) Close() error {
	g.crowd.mu.Lock()
	delete(g.crowd.conns, g)
	g.look.Stop()
	g.crowd.mu.Unlock()
	return g.Conn.Close()
}

// traffic returns how many connections there are, and what all that there were have carried.
func (c *crowd) traffic() shard.Traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return shard.Traffic{Connections: len(c.conns), BytesReceived: c.received.Load(), BytesSent: c.sent.Load()}
}

// closeAll closes what there is, and what comes later.
func (c *crowd) closeAll() {
	c.mu.Lock()
	c.closed = true
	conns := slices.Collect(maps.Keys(c.conns))
	c.mu.Unlock()
	for _, g := range conns {
		g.Close()
	}
}

// entrance is a listener whose connections are a crowd.
type entrance struct {
	net.Listener
	crowd  *crowd
	secure bool // TLS is expected
}

// Accept turns away what is beyond the limit.
func (e *entrance) Accept() (net.Conn, error) {
	for {
		conn, err := e.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := e.crowd.admit(conn); g != nil {
			return &doorman{sniffer{Conn: g, secure: e.secure}}, nil
		}
	}
}
