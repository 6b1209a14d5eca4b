package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Limits of the port.
const (
	greetTimeout   = 5 * time.Second // for headers, and for the handshake
	maxConnections = 10_000
	maxStreams     = 64   // of a connection
	maxInFlight    = 4096 // calls of a stream, those that wait too
	maxUnsent      = 256 << 20
)

// Serve accepts connections until the Peer is closed.
func (p *Peer) Serve(l net.Listener) {
	var protocols http.Protocols
	protocols.SetHTTP2(p.cfg.TLS != nil)
	protocols.SetUnencryptedHTTP2(p.cfg.TLS == nil)
	server := &http.Server{
		Handler: p, Protocols: &protocols, TLSConfig: p.cfg.TLS.Clone(), ReadHeaderTimeout: greetTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: 1 << 20, SendPingTimeout: 2 * pingAfter, PingTimeout: 2 * pingAfter,
			MaxReceiveBufferPerConnection: 16 << 20, MaxReceiveBufferPerStream: 4 << 20,
		},
		BaseContext: func(net.Listener) context.Context { return p.ctx },
		ErrorLog:    slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	all := &crowd{Listener: l, conns: make(map[*guest]bool)}
	p.mu.Lock()
	p.disconnect = func() {
		_ = server.Close() // the listener
		all.closeAll()
	}
	p.mu.Unlock()
	started := p.spawn(func() {
		serve := server.Serve
		if p.cfg.TLS != nil {
			serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
		}
		if err := serve(all); !errors.Is(err, http.ErrServerClosed) {
			p.host.Fail(fmt.Errorf("listen on %s: %w", l.Addr(), err))
		}
	})
	if !started {
		l.Close()
	}
}

// crowd is a listener that knows its connections: an HTTP server forgets those that speak HTTP/2 in clear text.
type crowd struct {
	net.Listener

	mu    sync.Mutex // guards conns; nothing is called under it
	conns map[*guest]bool
}

type guest struct {
	net.Conn
	crowd *crowd
}

// Accept turns away what is beyond the limit.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g := &guest{conn, c}
		c.mu.Lock()
		fits := len(c.conns) < maxConnections
		if fits {
			c.conns[g] = true
		}
		c.mu.Unlock()
		if fits {
			return g, nil
		}
		conn.Close()
	}
}

func (g *guest) Close() error {
	g.crowd.mu.Lock()
	delete(g.crowd.conns, g)
	g.crowd.mu.Unlock()
	return g.Conn.Close()
}

func (c *crowd) closeAll() {
	c.mu.Lock()
	conns := slices.Collect(maps.Keys(c.conns))
	c.mu.Unlock()
	for _, g := range conns {
		g.Close()
	}
}

// ServeHTTP serves one stream.
func (p *Peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve := map[string]func(context.Context, *wire, *hello) error{
		pathDoor: p.serveDoor, pathRaft: p.serveRaft, pathSnapshot: p.serveSnapshot,
	}[r.URL.Path]
	if serve == nil || r.Method != http.MethodPost || r.ProtoMajor != 2 {
		http.Error(w, "floe: this port is for floe's own protocol over HTTP/2", http.StatusNotFound)
		return
	}
	select {
	case <-p.ready:
	case <-r.Context().Done():
		return
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.running.Add(1)
	}
	p.mu.Unlock()
	if closed {
		http.Error(w, "closing", http.StatusServiceUnavailable)
		return
	}
	defer p.running.Done()
	rc := http.NewResponseController(w)
	s := &wire{r: newReader(r.Body), w: w, flush: rc.Flush}
	_ = rc.SetReadDeadline(time.Now().Add(greetTimeout))
	w.WriteHeader(http.StatusOK)
	if rc.Flush() != nil {
		return
	}
	h, err := p.welcome(s, r.URL.Path != pathDoor)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
		err = serve(r.Context(), s, h)
	} else if r.Context().Err() == nil {
		p.log.Warn("refused a stream", "from", r.RemoteAddr, "path", r.URL.Path, "error", err)
	}
	if errors.Is(err, errFrame) {
		p.log.Warn("ended a stream", "from", r.RemoteAddr, "path", r.URL.Path, "error", err)
	}
}

func (p *Peer) serveRaft(_ context.Context, s *wire, h *hello) error {
	return p.receiveRaft(s, h.identity.Node)
}

func (p *Peer) serveSnapshot(_ context.Context, s *wire, h *hello) error {
	return p.receiveSnapshot(s, h.identity.Node)
}

// visitor is one stream at the door.
type visitor struct {
	peer *Peer
	node bool // one of the cluster's
	out  *outbox

	mu      sync.Mutex // guards what follows
	calls   map[uint64]context.CancelFunc
	last    uint64 // request
	leaving bool   // good-bye has been said
}

// serveDoor answers calls until the stream ends, or the node does: then it says good-bye, and answers what it has been asked.
func (p *Peer) serveDoor(ctx context.Context, s *wire, h *hello) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &visitor{peer: p, node: h.role == roleNode, out: newOutbox(maxUnsent), calls: make(map[uint64]context.CancelFunc)}
	stop := context.AfterFunc(p.draining, v.goodBye)
	defer stop()
	p.doors.Add(1)
	defer p.doors.Done()
	var calls, writer sync.WaitGroup
	writer.Go(func() {
		if v.out.run(s.w, s.flush) != nil {
			cancel()
		}
	})
	err := v.serve(ctx, s, &calls)
	cancel() // whoever asked is gone
	calls.Wait()
	v.out.end(err)
	writer.Wait()
	return err
}

// goodBye tells which requests are still answered. The other side ends the stream when it has all answers.
func (v *visitor) goodBye() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leaving = true
	_ = v.out.send((&answer{body: codec.AppendUvarint(nil, v.last)}).appendTo)
}

// serve reads requests until the stream ends.
func (v *visitor) serve(ctx context.Context, s *wire, calls *sync.WaitGroup) error {
	limit := v.peer.host.MaxValue() + maxRequest
	for {
		// The command is kept until it has been carried out.
		b, err := readFrame(s.r, nil, limit)
		if err != nil {
			return err
		}
		q, err := decodeRequest(b)
		if err != nil {
			return err
		}
		if q.kind == askCancel {
			v.end(q.id)
			continue
		}
		callCtx, err := v.begin(ctx, q.id)
		switch {
		case errors.Is(err, errStops):
			continue
		case errors.Is(err, engine.ErrBusy):
			v.answer(q.id, nil, err)
			continue
		case err != nil:
			return err
		}
		calls.Go(func() {
			result, err := v.carryOut(callCtx, &q)
			v.end(q.id)
			v.answer(q.id, result, err)
		})
	}
}

// begin admits a call.
func (v *visitor) begin(ctx context.Context, id uint64) (context.Context, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.leaving:
		return nil, errStops
	case id <= v.last:
		return nil, fmt.Errorf("%w: request %d after %d", errFrame, id, v.last)
	}
	v.last = id
	if len(v.calls) >= maxInFlight {
		return nil, engine.Errorf(engine.ErrBusy, "%d calls are under way on this connection", maxInFlight)
	}
	ctx, v.calls[id] = context.WithCancel(ctx)
	return ctx, nil
}

func (v *visitor) end(id uint64) {
	v.mu.Lock()
	cancel := v.calls[id]
	delete(v.calls, id)
	v.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (v *visitor) answer(id uint64, result []byte, err error) {
	a := answer{id: id, refused: err != nil, body: result}
	if err != nil {
		a.body = v.peer.cfg.Wire.AppendError(nil, err)
	}
	if len(a.body)+maxHead > maxAnswer {
		a.refused = true
		a.body = v.peer.cfg.Wire.AppendError(nil, engine.Errorf(engine.ErrInvalid, "an answer of %d bytes exceeds %d: ask for less at once", len(a.body), maxAnswer-maxHead))
	}
	_ = v.out.send(a.appendTo) // to nobody, if the stream has ended
}

// maxHead is what an answer has before its body, at most.
const maxHead = 32

// carryOut does what a request asks for. What a client sends is checked as if it were the worst.
func (v *visitor) carryOut(ctx context.Context, q *request) ([]byte, error) {
	p := v.peer
	if q.kind == askStats {
		if v.node {
			return p.stats(ctx)
		}
		return p.StatsOf(ctx, q.shard)
	}
	if q.shard >= uint64(p.host.Shards()) {
		return nil, engine.Errorf(engine.ErrInvalid, "no shard %d: the node has %d", q.shard, p.host.Shards())
	}
	id := engine.ShardID(q.shard)
	// Who asks does the waiting, for a leader too.
	propose, ask := p.propose, p.query
	if v.node || q.flags&flagDirect != 0 {
		propose, ask = p.host.Propose, p.host.Query
	}
	if q.kind == askPropose {
		cmd, err := engine.DecodeCommand(q.body)
		if err != nil {
			return nil, engine.Errorf(engine.ErrInvalid, "%v", err)
		}
		if !v.node {
			if err := p.cfg.Wire.Admit(cmd, p.host.MaxValue()); err != nil {
				return nil, err
			}
		}
		result, err := propose(ctx, id, cmd)
		return result, ambiguous(err)
	}
	query, err := p.cfg.Wire.DecodeQuery(q.body)
	if err != nil {
		return nil, err
	}
	if q.flags&flagStale != 0 {
		ask = p.host.QueryStale
	}
	if err := ask(ctx, id, query); err != nil {
		return nil, err
	}
	return engine.AppendResults(nil, query), nil
}
