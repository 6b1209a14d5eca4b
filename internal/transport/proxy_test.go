package transport

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy carries connections to a node, and does to them what a network may do.
type proxy struct {
	to   string
	addr string

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows; nothing is called under it
	tamper func(conn int) tamper
	conns  int
}

// tamper is given what passes one connection, by a goroutine for each direction, and returns what
// goes on and whether that is the end of the connection. It may wait, until ctx is done.
type tamper func(ctx context.Context, up bool, b []byte) (on []byte, end bool)

// newProxy returns a proxy to a node; the function says what happens to each connection, counted
// from 0. nil: nothing.
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

// change makes later connections suffer something else.
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

// cutAfter ends a connection when so many bytes have passed in one direction.
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

// throttle lets so many bytes a second pass in each direction of a connection.
func throttle(perSecond int) tamper {
	return func(ctx context.Context, _ bool, b []byte) ([]byte, bool) {
		wait(ctx, time.Duration(len(b))*time.Second/time.Duration(perSecond))
		return b, false
	}
}

// stall lets nothing pass any more, and does not say so.
func stall(ctx context.Context, _ bool, _ []byte) ([]byte, bool) {
	<-ctx.Done()
	return nil, true
}
