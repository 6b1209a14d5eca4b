package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Limits of the port.
const (
	greetTimeout   = 5 * time.Second // for headers, and for the handshake
	maxConnections = 10_000          // that a node opens
	maxStreams     = 64              // per connection
	maxUnsent      = 256 << 20
)

// Serve accepts connections until the Peer is closed.
func (p *Peer) Serve(l net.Listener) {
	var protocols http.Protocols
	protocols.SetHTTP2(p.cfg.TLS != nil)
	protocols.SetUnencryptedHTTP2(p.cfg.TLS == nil)
	buffer := int(p.limits.ConnBuffer)
	server := &http.Server{
		Handler: p, Protocols: &protocols, TLSConfig: modern(p.cfg.TLS), ReadHeaderTimeout: greetTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: min(dataFrame, buffer), SendPingTimeout: 3 * pingAfter,
			PingTimeout:                   pongTimeout,
			MaxReceiveBufferPerConnection: buffer, MaxReceiveBufferPerStream: min(2<<20, buffer),
		},
		BaseContext: func(net.Listener) context.Context { return p.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, guestKey{}, guestOf(c))
		},
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	all := p.accepted
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
		if err := serve(&entrance{l, all, p.cfg.TLS != nil}); !errors.Is(err, http.ErrServerClosed) {
			p.host.Fail(fmt.Errorf("listen on %s: %w", l.Addr(), err))
		}
	})
	if !started {
		l.Close()
	}
}

// modern returns a copy of a configuration that requires TLS 1.3, even if the original allows
// others, because both ends are floe.
func modern(conf *tls.Config) *tls.Config {
	if conf == nil {
		return nil
	}
	conf = conf.Clone()
	conf.MinVersion = tls.VersionTLS13
	if each := conf.GetConfigForClient; each != nil {
		conf.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			own, err := each(hello)
			return modern(own), err
		}
	}
	return conf
}

// ofBrowser reports whether a page in a browser sent the request. Floe's own clients are not
// browsers, and a foreign page could otherwise use the port through its visitor's browser.
func ofBrowser(r *http.Request) bool {
	for name := range r.Header {
		if name == "Origin" || strings.HasPrefix(name, "Sec-Fetch-") {
			return true
		}
	}
	return false
}

// ServeHTTP serves one stream.
func (p *Peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve := map[string]func(context.Context, *wire, *hello) error{
		pathDoor: p.serveDoor, pathRaft: p.serveRaft, pathPulse: p.serveRaft, pathSnapshot: p.serveSnapshot,
	}[r.URL.Path]
	w.Header().Set(versionHeader, strconv.Itoa(Version))
	if serve == nil || r.Method != http.MethodPost || r.ProtoMajor != 2 {
		http.Error(w, "floe: this port is for floe's own protocol over HTTP/2", http.StatusNotFound)
		return
	}
	if ofBrowser(r) {
		http.Error(w, "floe: this port does not serve web pages", http.StatusForbidden)
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
	if r.URL.Path == pathDoor {
		// A welcomed client may have sent calls. From then on Close waits until it has received
		// their results.
		if !p.enter() {
			http.Error(w, "closing", http.StatusServiceUnavailable)
			return
		}
		defer p.doors.Done()
	}
	rc := http.NewResponseController(w)
	s := &wire{r: bufio.NewReaderSize(r.Body, greetBuffer), w: w, flush: rc.Flush, until: func(t time.Time) { _ = rc.SetReadDeadline(t) }}
	if s.from, _, _ = net.SplitHostPort(r.RemoteAddr); s.from == "" {
		s.from = r.RemoteAddr
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	s.near = isNear(r.RemoteAddr, local)
	// The writer must not be used once the stream has been served, so the aborting goroutine must
	// check that.
	var mu sync.Mutex
	served := false
	s.abort = func() {
		mu.Lock()
		defer mu.Unlock()
		if !served {
			_ = rc.SetWriteDeadline(time.Now())
		}
	}
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		served = true
	}()
	_ = rc.SetReadDeadline(time.Now().Add(greetTimeout))
	s.crowded = p.crowded(r.URL.Path)
	if s.crowded != nil {
		w.Header().Set("Connection", "close") // also for HTTP/2: no further stream is accepted then
	}
	w.WriteHeader(http.StatusOK)
	if rc.Flush() != nil {
		return
	}
	guest, _ := r.Context().Value(guestKey{}).(*guest)
	guest.begins()
	h, err := p.greetOnce(r.Context(), s, r.URL.Path != pathDoor)
	guest.greeted(err == nil, err == nil && h.role == roleNode)
	if err == nil {
		s.r = newReader(s.r)
		_ = rc.SetReadDeadline(time.Time{})
		err = serve(r.Context(), s, h)
	} else if r.Context().Err() == nil || errors.Is(err, errUnproved) {
		p.tellRefusal(r, h, err)
	}
	if errors.Is(err, errFrame) {
		p.warnOf("ended a stream", r, err)
	}
}

// greetOnce is welcome within the limit of concurrent handshakes. Others wait their turn.
func (p *Peer) greetOnce(ctx context.Context, s *wire, nodesOnly bool) (*hello, error) {
	if !p.accepted.isNode(s.from) {
		waiting, cancel := context.WithTimeout(ctx, greetTimeout)
		defer cancel()
		if err := p.greeting.take(waiting, s.from, maxHello); err != nil {
			return nil, err
		}
		defer p.greeting.giveBack(s.from, maxHello)
	}
	return p.welcome(ctx, s, nodesOnly)
}

// isNear reports whether a connection comes from this machine: from a loopback address, or from its
// own destination address, as when a process connects to an address of its own machine.
func isNear(remote string, local net.Addr) bool {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	addr := from.Addr().Unmap()
	if addr.IsLoopback() {
		return true
	}
	tcp, ok := local.(*net.TCPAddr)
	return ok && tcp.AddrPort().Addr().Unmap() == addr
}

// crowded returns an error if a client is refused because there are too many connections. Nodes are
// accepted, on all paths that only nodes use.
func (p *Peer) crowded(path string) error {
	n, limit := p.accepted.traffic().Connections, p.limits.Connections
	if path != pathDoor || n <= limit {
		return nil
	}
	return engine.Errorf(engine.ErrBusy, "%d connections are open to this node, the limit is %d", n, limit)
}

// tellRefusal logs a refused opener and the reason, but only once for a cluster node that keeps
// retrying.
func (p *Peer) tellRefusal(r *http.Request, h *hello, err error) {
	if h != nil && h.role == roleNode {
		if n := p.nodes[h.identity.Node]; n != nil {
			n.refuses(r.RemoteAddr, err)
			return
		}
	}
	p.warnOf("refused a stream", r, err)
}

// warnOf logs the end of a stream, unless there were too many such lines in the last minute,
// because strangers can cause any number of them.
func (p *Peer) warnOf(what string, r *http.Request, err error) {
	p.strangers.Lock()
	unsaid, ok := p.strangers.next(time.Now())
	p.strangers.Unlock()
	if ok {
		p.log.Warn(what, "from", r.RemoteAddr, "path", r.URL.Path, "error", err, "unsaid", unsaid)
	}
}

func (p *Peer) serveRaft(_ context.Context, s *wire, h *hello) error {
	n := p.nodes[h.identity.Node]
	defer n.enter(h.identity.Run)()
	n.pulse.beat() // it can respond from now on
	return p.receiveRaft(s, h.identity.Node)
}

func (p *Peer) serveSnapshot(_ context.Context, s *wire, h *hello) error {
	// The host cannot close while it reads a snapshot, so stop reading. The sender retries later.
	stop := context.AfterFunc(p.draining, s.abort)
	defer stop()
	return p.receiveSnapshot(s, h.identity.Node)
}

// visitor is one stream at the door.
type visitor struct {
	peer  *Peer
	node  bool        // a node of the cluster
	grant *auth.Grant // of a client; nil: all permissions
	from  string      // its address
	near  bool        // the client is on this machine
	whose string      // the key, or the address if none exists: the holder of shares
	tally *tally      // its calls
	out   *outbox

	mu      sync.Mutex // guards what follows
	calls   map[uint64]context.CancelFunc
	taken   int       // bytes of their requests
	last    [2]uint64 // small and large request
	leaving bool      // the good-bye was sent
}

// serveDoor answers calls until the stream ends or the node stops. When the node stops, it sends a
// good-bye and answers the accepted requests.
func (p *Peer) serveDoor(ctx context.Context, s *wire, h *hello) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waits := maxWaits
	if h.role == roleNode {
		waits = maxAllWaits // those of all clients connected to the node
	}
	v := &visitor{
		peer: p, node: h.role == roleNode, grant: h.grant, from: s.from, near: s.near, tally: newTally("this connection", maxInFlight,
			waits), out: newOutbox(maxUnsent),
		calls: make(map[uint64]context.CancelFunc), whose: s.from,
	}
	if h.grant != nil && !h.grant.IsOpen() {
		v.whose = h.grant.Key().ID
	}
	v.tally.alone = !v.node
	v.out.all = &p.answers.used
	stop := context.AfterFunc(p.draining, v.goodBye)
	defer stop()
	if v.grant != nil {
		defer v.grant.AfterEnd(v.goodBye)()
	}
	var calls, writer sync.WaitGroup
	writer.Go(func() {
		if v.out.run(s) != nil {
			cancel()
			s.abort() // the caller does not receive the answers
		}
	})
	err := v.serve(ctx, s, &calls)
	v.out.end(err) // first: the client must not mistake the error of a ctx that ends here for its own
	cancel()
	calls.Wait()
	writer.Wait()
	return err
}

// goodBye reports which requests will still be answered. The other side ends the stream when it has
// all answers.
func (v *visitor) goodBye() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leaving = true
	_ = v.out.sendSmall(func(dst []byte) []byte { return append(dst, goodBye(v.last)...) })
}

func goodBye(last [2]uint64) []byte {
	return (&answer{body: codec.AppendUvarint(codec.AppendUvarint(nil, last[0]), last[1])}).appendTo(nil)
}

// serve reads requests until the stream ends.
func (v *visitor) serve(ctx context.Context, s *wire, calls *sync.WaitGroup) error {
	in := inbox{wire: s, out: v.out, limit: v.peer.host.MaxValue() + maxRequest,
		admit: func(n int) (func(), error) { return v.admitLarge(ctx, s, n) }}
	defer in.end()
	for {
		// The command is kept until it has been executed.
		b, large, release, err := in.next()
		if err != nil {
			return err
		}
		if large {
			s.until(time.Time{})
		}
		q, err := decodeRequest(b)
		if err == nil && q.kind == askCancel {
			v.cancel(q.id)
			release()
			continue
		}
		var callCtx context.Context
		if err == nil {
			callCtx, err = v.begin(ctx, &q, len(b), large)
		}
		if err != nil {
			release()
		}
		switch {
		case errors.Is(err, errStops):
			continue
		case errors.Is(err, engine.ErrBusy):
			v.answer(q.id, nil, err)
			continue
		case err != nil:
			return err
		}
		size := len(b)
		b = nil // a waiting query retains only what was decoded
		release = sync.OnceFunc(release)
		calls.Go(func() {
			lasting := q.flags&flagLasting != 0
			if err := v.peer.tally.take(callCtx, lasting, q.space); err != nil {
				v.end(&q, size, large)
				release()
				v.answer(q.id, nil, err)
				return
			}
			readCtx, end := v.peer.readers.Begin(callCtx)
			defer end() // once the answer is in the counted send queue
			result, err := v.carryOut(readCtx, &q, release)
			v.peer.tally.remove(lasting, q.space)
			if v.grant != nil && q.kind != askPropose {
				err = v.grant.Explain(err)
			}
			v.end(&q, size, large)
			release()
			if err == nil && q.kind == askQuery && !v.node {
				err = v.roomFor(&q, 0) // a read can be repeated, and many answers may have been made at once
			}
			v.answer(q.id, result, err)
		})
	}
}

// admitLarge waits for the memory of a large request, which must then arrive within a time limit.
func (v *visitor) admitLarge(ctx context.Context, s *wire, n int) (release func(), err error) {
	pool := v.peer.frames
	if err := pool.take(ctx, s.from, int64(n)); err != nil {
		return nil, err
	}
	s.until(time.Now().Add(writeTimeout * time.Duration(1+n/writePart)))
	return func() { pool.giveBack(s.from, int64(n)) }, nil
}

// begin admits a call whose request has size bytes. If large is set, it arrived in parts.
func (v *visitor) begin(ctx context.Context, q *request, size int, large bool) (_ context.Context, err error) {
	last := &v.last[0]
	if large {
		last = &v.last[1]
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.leaving:
		return nil, errStops
	case q.id <= *last || v.calls[q.id] != nil:
		return nil, fmt.Errorf("%w: request %d after %d", errFrame, q.id, *last)
	}
	*last = q.id
	if err := v.roomFor(q, size); err != nil {
		return nil, err
	}
	if v.taken+size > maxTaken {
		return nil, engine.Errorf(engine.ErrBusy, "the calls on this connection take %d bytes, the limit is %d", v.taken+size, maxTaken)
	}
	if large && !v.node {
		if err := v.peer.large.add(v.whose, int64(size)); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				v.peer.large.remove(v.whose, int64(size))
			}
		}()
	}
	lasting := q.flags&flagLasting != 0
	q.space = q.namespace()
	if err := v.tally.add(lasting, q.space); err != nil {
		return nil, err
	}
	if lasting {
		ctx = engine.Lasting(ctx)
	}
	if q.flags&flagLingers != 0 {
		ctx = engine.Lingering(ctx)
	}
	ctx, v.calls[q.id] = v.bound(ctx, q)
	v.taken += size
	v.peer.requests.used.Add(int64(size))
	return ctx, nil
}

// roomFor returns ErrBusy if the requests of all clients exceed their limit. Requests of other
// nodes also come from clients, and were counted there.
func (v *visitor) roomFor(q *request, size int) error {
	p := v.peer
	if used := p.requests.used.Load() + int64(size); !v.node && used > p.requests.limit && used > int64(size) {
		return engine.Errorf(engine.ErrBusy, "the calls of all clients take %d bytes, the limit is %d", used, p.requests.limit)
	}
	if !v.node && p.answers.full() {
		return engine.Errorf(engine.ErrBusy, "%d bytes of answers wait to be sent to clients, the limit is %d", p.answers.used.Load(),
			p.answers.limit)
	}
	return nil
}

// bound returns the context of a call. Waits and reads end with the grant, but proposals still get
// their outcome.
func (v *visitor) bound(ctx context.Context, q *request) (context.Context, context.CancelFunc) {
	if v.grant == nil || q.kind == askPropose {
		return context.WithCancel(ctx)
	}
	return v.grant.While(ctx)
}

// cancel cancels a call. The call counts until it ends, because a proposed command continues until
// it is committed.
func (v *visitor) cancel(id uint64) {
	v.mu.Lock()
	cancel := v.calls[id]
	v.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (v *visitor) end(q *request, size int, large bool) {
	v.cancel(q.id)
	if large && !v.node {
		v.peer.large.remove(v.whose, int64(size))
	}
	v.tally.remove(q.flags&flagLasting != 0, q.space)
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.calls, q.id)
	v.taken -= size
	v.peer.requests.used.Add(-int64(size))
}

func (v *visitor) answer(id uint64, result []byte, err error) {
	a := answer{id: id, refused: err != nil, body: result}
	if err != nil {
		a.body = v.peer.cfg.Wire.AppendError(nil, err)
	}
	if len(a.body)+maxHead > maxAnswer {
		a.refused = true
		a.body = v.peer.cfg.Wire.AppendError(nil,
			engine.Errorf(engine.ErrInvalid, "an answer of %d bytes exceeds %d: request less at once", len(a.body), maxAnswer-maxHead))
	}
	send := v.out.send
	if isLarge(len(a.body)) {
		send = func(payload func([]byte) []byte) error { return v.out.sendLarge(len(a.body)+maxHead, payload) }
	}
	if err := send(a.appendTo); err != nil {
		v.out.end(err) // the caller would wait for a missing answer
	}
}

// maxHead is the maximum size of an answer's head.
const maxHead = 32

// carryOut executes a request. Requests of clients are not trusted. It calls release once the frame
// of the request is no longer needed, even before the end, because a query may wait for hours.
func (v *visitor) carryOut(ctx context.Context, q *request, release func()) ([]byte, error) {
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
	// The caller does the waiting, including that for a leader.
	here := v.node || q.flags&flagDirect != 0
	if q.kind == askPropose {
		cmd, err := engine.DecodeCommand(q.body)
		if err != nil {
			return nil, engine.Errorf(engine.ErrInvalid, "%v", err)
		}
		if !v.node {
			if err := v.admit(ctx, cmd); err != nil {
				v.changed(ctx, cmd, err)
				return nil, err
			}
		}
		var result []byte
		if here {
			result, err = p.host.Propose(ctx, id, cmd)
		} else {
			result, err = p.propose(ctx, new(trip), id, cmd)
		}
		v.changed(ctx, cmd, err)
		return result, ambiguous(err)
	}
	if q.kind == askTake {
		return v.carryOutTake(ctx, id, q, here)
	}
	query, err := p.cfg.Wire.DecodeQuery(q.body)
	if err != nil {
		return nil, err
	}
	q.body = nil
	release()
	if ns, ok := engine.NamespaceOf(query); ok && len(ns) > engine.MaxNameBytes {
		return nil, engine.Errorf(engine.ErrInvalid, "namespace name of %d bytes exceeds %d", len(ns), engine.MaxNameBytes)
	}
	ask := func(query engine.Query) error {
		switch {
		case q.flags&flagStale != 0:
			return p.host.QueryStale(ctx, id, query)
		case here:
			return p.host.Query(ctx, id, query)
		}
		return p.query(ctx, new(trip), id, query)
	}
	if v.grant == nil || q.flags&flagStale != 0 && v.mayLook(query) {
		err = ask(query)
	} else {
		err = v.grant.Ask(query, ask)
	}
	if err != nil {
		return nil, err
	}
	return engine.AppendResults(nil, query), nil
}

// mayLook reports whether a client may get a stale answer while it is unknown whether keys exist.
// It may if it would be accepted without keys.
func (v *visitor) mayLook(query engine.Query) bool {
	p := v.peer
	return p.cfg.Gate.MayLook() && (v.near || p.cfg.Insecure) && query.Machine() != engine.MachineKeys
}

// changed reports a change that a client with a key made or attempted. The old permissions of a
// changed key end before the answer, or a moment later if that fails.
func (v *visitor) changed(ctx context.Context, cmd engine.Command, err error) {
	if v.grant == nil {
		return
	}
	if v.peer.cfg.Changed != nil {
		v.peer.cfg.Changed(ctx, v.grant, v.from, cmd, err)
	}
	if _, keys := auth.Changes(cmd); keys && err == nil {
		_ = v.peer.cfg.Gate.Refresh(ctx)
	}
}

// admit checks a command of a client.
func (v *visitor) admit(ctx context.Context, cmd engine.Command) error {
	if v.grant != nil {
		if err := v.grant.Command(v.peer.cfg.Wire, cmd); err != nil {
			return err
		}
	}
	if err := v.peer.cfg.Wire.Admit(cmd, v.peer.host.MaxValue()); err != nil || v.grant == nil {
		return err
	}
	return v.grant.Introduce(ctx, v.peer.cfg.Wire, cmd)
}
