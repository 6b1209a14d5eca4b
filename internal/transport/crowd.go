package transport

import (
	"crypto/tls"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/shard"
)

// crowd is a set of connections that can be closed together. An HTTP server does not track
// clear-text HTTP/2 connections, and an HTTP client does not close a connection on which a stream
// has just ended.
type crowd struct {
	limit   int
	silence time.Duration // after which a connection is closed

	// For accepted connections:
	share    int                   // of the limit, for one address; 0: all
	reserved int                   // places beyond the limit for cluster nodes
	strange  time.Duration         // after which a connection without a welcomed stream is closed; 0: never
	crowds   func(addr netip.Addr) // called for an address that has used up its share; may be nil

	met func(addr string) // called with each address a connection was opened to; may be nil

	received, sent atomic.Int64 // bytes

	mu     sync.Mutex // guards what follows; nothing is called under it
	conns  map[*guest]bool
	by     map[netip.Addr]int // connections by address, for addresses with a share
	nodes  map[netip.Addr]bool
	closed bool
}

// guest is a connection of a crowd, until it is closed.
type guest struct {
	net.Conn
	crowd *crowd
	addr  netip.Addr // of the other end, as counted for shares; zero: not counted

	strange  *time.Timer // closes the connection; nil: no limit for strangers
	streams  int         // in their handshake; guarded by crowd.mu, like welcomed
	welcomed bool        // one of its streams

	heard  atomic.Bool // bytes arrived since the last check
	lost   atomic.Bool // closed because nothing arrived for too long
	silent int         // checks in a row without bytes; used only by the checking goroutine
	look   *time.Timer
}

// looks is the number of checks of a connection during its silence. So a single late check, after
// the process was suspended, closes no connection.
const looks = 4

func newCrowd(limit int, silence time.Duration) *crowd {
	return &crowd{limit: limit, silence: silence, conns: make(map[*guest]bool), by: make(map[netip.Addr]int),
		nodes: make(map[netip.Addr]bool)}
}

// learn notes the address of a cluster node, which may include a port.
func (c *crowd) learn(at string) {
	addr, err := netip.ParseAddr(at)
	if withPort, portErr := netip.ParseAddrPort(at); portErr == nil {
		addr, err = withPort.Addr(), nil
	}
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[budget.Host(addr)] = true
}

// isNode reports whether an address is that of a cluster node.
func (c *crowd) isNode(at string) bool {
	addr, err := netip.ParseAddr(at)
	c.mu.Lock()
	defer c.mu.Unlock()
	return err == nil && c.nodes[budget.Host(addr)]
}

// admit adds the connection to the crowd. If there are too many or the crowd is closed, it closes
// the connection and returns nil.
func (c *crowd) admit(conn net.Conn) *guest {
	g := &guest{Conn: conn, crowd: c}
	addr := netip.Addr{}
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		addr = budget.Host(tcp.AddrPort().Addr())
	}
	c.mu.Lock()
	limit, full := c.limit, false
	if c.nodes[addr] {
		limit += c.reserved
	} else if c.share > 0 && addr.IsValid() && !addr.IsLoopback() { // local processes could do worse
		g.addr, full = addr, c.by[addr] >= c.share
	}
	fits := len(c.conns) < limit && !full && !c.closed
	if fits {
		c.conns[g] = true
		if g.addr.IsValid() {
			c.by[g.addr]++
		}
		g.look = time.AfterFunc(c.silence/looks, g.check)
		if c.strange > 0 {
			g.strange = time.AfterFunc(c.strange, func() { g.Close() })
		}
	}
	c.mu.Unlock()
	if full && c.crowds != nil {
		c.crowds(addr)
	}
	if !fits {
		conn.Close()
		return nil
	}
	return g
}

// guestKey is the key of a context's *guest.
type guestKey struct{}

// guestOf returns the guest of a connection accepted by entrance, or nil.
func guestOf(c net.Conn) *guest {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if d, ok := c.(*doorman); ok {
		g, _ := d.Conn.(*guest)
		return g
	}
	return nil
}

// begins notes that a stream begins its handshake, which has its own deadline.
func (g *guest) begins() {
	if g == nil || g.strange == nil {
		return
	}
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	g.streams++
	g.strange.Stop()
}

// greeted records the result of the handshake.
func (g *guest) greeted(welcome, node bool) {
	if g == nil || g.strange == nil {
		return
	}
	if node {
		g.crowd.learn(g.RemoteAddr().String())
	}
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	g.streams--
	g.welcomed = g.welcomed || welcome
	if g.streams == 0 && !g.welcomed && g.crowd.conns[g] {
		g.strange.Reset(g.crowd.strange)
	}
}

// check closes the connection if nothing has arrived for too long.
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
	c := g.crowd
	c.mu.Lock()
	if c.conns[g] && g.addr.IsValid() {
		if c.by[g.addr]--; c.by[g.addr] == 0 {
			delete(c.by, g.addr)
		}
	}
	delete(c.conns, g)
	g.look.Stop()
	if g.strange != nil {
		g.strange.Stop()
	}
	c.mu.Unlock()
	return g.Conn.Close()
}

// traffic returns the number of connections, and the bytes of all connections so far.
func (c *crowd) traffic() shard.Traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return shard.Traffic{Connections: len(c.conns), BytesReceived: c.received.Load(), BytesSent: c.sent.Load()}
}

// closeAll closes all present and future connections.
func (c *crowd) closeAll() {
	c.mu.Lock()
	c.closed = true
	conns := slices.Collect(maps.Keys(c.conns))
	c.mu.Unlock()
	for _, g := range conns {
		g.Close()
	}
}

// entrance is a listener whose connections form a crowd.
type entrance struct {
	net.Listener
	crowd  *crowd
	secure bool // TLS is expected
}

// Accept rejects connections beyond the limit.
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
