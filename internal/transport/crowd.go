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

// crowd is connections that can all be closed. An HTTP server forgets those that speak HTTP/2 in
// clear text, and an HTTP client does not close one on which a stream has ended a moment ago.
type crowd struct {
	limit   int
	silence time.Duration // after which a connection is given up

	// Of connections that others open:
	share    int                   // of the limit, for one address; 0: all
	reserved int                   // places beyond the limit for nodes of the cluster
	strange  time.Duration         // after which a connection without a stream that was welcomed is closed; 0: never
	crowds   func(addr netip.Addr) // hears of an address that has its share; nil: nobody does

	met func(addr string) // hears of each address that a connection was opened to; nil: nobody does

	received, sent atomic.Int64 // bytes

	mu     sync.Mutex // guards what follows; nothing is called under it
	conns  map[*guest]bool
	by     map[netip.Addr]int // those of an address that has a share
	nodes  map[netip.Addr]bool
	closed bool
}

// guest is a connection of a crowd, until it is closed.
type guest struct {
	net.Conn
	crowd *crowd
	addr  netip.Addr // of the other end, as shares count it; zero: it is not counted

	strange  *time.Timer // closes it; nil: it is not a stranger's
	streams  int         // that are being greeted, guarded by crowd.mu, like the next one
	welcomed bool        // one of its streams

	heard  atomic.Bool // something came since the last look
	lost   atomic.Bool // nothing came for too long
	silent int         // looks in a row before which nothing came; by the one goroutine that looks
	look   *time.Timer
}

// looks is how often in its silence a connection is looked at. One look alone, late because the
// process did not run, ends none.
const looks = 4

func newCrowd(limit int, silence time.Duration) *crowd {
	return &crowd{limit: limit, silence: silence, conns: make(map[*guest]bool), by: make(map[netip.Addr]int),
		nodes: make(map[netip.Addr]bool)}
}

// learn notes that a node of the cluster is at an address, which may have a port.
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

// isNode reports whether a node of the cluster is at an address.
func (c *crowd) isNode(at string) bool {
	addr, err := netip.ParseAddr(at)
	c.mu.Lock()
	defer c.mu.Unlock()
	return err == nil && c.nodes[budget.Host(addr)]
}

// admit returns the connection as one of the crowd, or closes it and returns nil if there are too
// many, or all have been closed.
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
	} else if c.share > 0 && addr.IsValid() && !addr.IsLoopback() { // others on this machine could do worse
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

// guestOf returns what entrance has made of a connection, nil if it is another's.
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

// begins notes that a stream is to be greeted, which has a deadline of its own.
func (g *guest) begins() {
	if g == nil || g.strange == nil {
		return
	}
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	g.streams++
	g.strange.Stop()
}

// greeted notes what has become of the stream.
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
