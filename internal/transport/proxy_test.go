package transport

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy forwards connections to a node, and disturbs them as a network may.
type proxy struct {
	to   string
	addr string

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards the fields below; no call is made under it
	tamper func(conn int) tamper
	conns  int
}

// tamper receives the data of one connection, in a goroutine per direction. It returns the data to
// forward and whether the connection ends. It may wait until ctx is done.
type tamper func(ctx context.Context, up bool, b []byte) (on []byte, end bool)

// newProxy returns a proxy to a node; how returns the tamper of each connection, counted from 0.
// nil: none.
func newProxy(t *testing.T, to string, how func(conn int) tamper) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, addr: l.Addr().String(), tamper: how}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(func() { p.accept(l) })
	context.AfterFunc(p.ctx, func() { l.Close() })
	t.Cleanup(p.close)
	return p
}

func (p *proxy) close() {
	p.cancel()
	p.running.Wait()
}

// change sets the tampers of later connections.
func (p *proxy) change(how func(conn int) tamper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tamper = how
}

func (p *proxy) next() tamper {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.conns
	p.conns++
	if p.tamper == nil {
		return nil
	}
	return p.tamper(n)
}

func (p *proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.carry(client, p.next()) })
	}
}

// carry serves one connection until one side, the tamperer or the proxy ends it.
func (p *proxy) carry(client net.Conn, how tamper) {
	defer client.Close()
	node, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer node.Close()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		node.Close()
	})
	defer stop()
	var both sync.WaitGroup
	pass := func(dst, src net.Conn, up bool) {
		defer cancel()
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			b, end := buf[:n], err != nil
			if how != nil && n > 0 {
				var over bool
				b, over = how(ctx, up, b)
				end = end || over
			}
			if _, err := dst.Write(b); err != nil || end {
				return
			}
		}
	}
	both.Go(func() { pass(node, client, true) })
	both.Go(func() { pass(client, node, false) })
	both.Wait()
}

// cutAfter ends a connection after n bytes in one direction.
func cutAfter(n int, upward bool) tamper {
	return func(_ context.Context, up bool, b []byte) ([]byte, bool) {
		if up != upward {
			return b, false
		}
		if len(b) > n {
			return b[:n], true
		}
		n -= len(b)
		return b, n == 0
	}
}

// throttle limits each direction of a connection to perSecond bytes per second.
func throttle(perSecond int) tamper {
	return func(ctx context.Context, _ bool, b []byte) ([]byte, bool) {
		wait(ctx, time.Duration(len(b))*time.Second/time.Duration(perSecond))
		return b, false
	}
}

// stall silently blocks all data.
func stall(ctx context.Context, _ bool, _ []byte) ([]byte, bool) {
	<-ctx.Done()
	return nil, true
}
