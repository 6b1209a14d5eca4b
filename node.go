package floe

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/transport"
)

// Node is an open data node. Its methods are safe for concurrent use.
type Node struct {
	stores
	host  *shard.Host
	peer  *transport.Peer // nil: it does not listen
	addr  net.Addr
	peers []Peer // of the cluster, nil: the node is alone
	gate  gatekeeper
	wire  *engine.Wire // of a node that listens
}

// Open opens the node of a data directory, or creates it. For a single node, Open returns once all
// shards accept writes. In a cluster it returns once the node has joined; calls then wait up to 5
// seconds for the nodes to elect leaders. Open replays the log, so it can take a few seconds after
// a crash.
//
// Open does not wait for other nodes. It fails if the disk does not respond for 20 seconds. Use
// OpenContext for another bound.
//
// Errors: ErrInvalid naming every bad field, or the mismatch if the directory has another format,
// number of shards or cluster, or is a file; ErrInUse if another node, of this or another process,
// has the directory; ErrUnavailable for other problems, such as damage, missing permissions, or a
// port in use. The directory is unchanged then.
func Open(c Config) (*Node, error) { return OpenContext(context.Background(), c) }

// OpenContext is Open with a context. When ctx is done, it stops, releases what it has opened, and
// returns ctx's error. The node does not use ctx once it is open.
func OpenContext(ctx context.Context, c Config) (*Node, error) {
	n, err := openNode(ctx, c)
	if err != nil {
		return nil, classified(err)
	}
	return n, nil
}

// classified makes errors of opening match a sentinel. An error that is neither the caller's
// mistake nor the end of the caller's ctx becomes ErrUnavailable.
func classified(err error) error {
	for _, kind := range []error{ErrInvalid, ErrUnavailable, ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return &openError{err}
}

// openError is an ErrUnavailable with its cause.
type openError struct{ err error }

func (e *openError) Error() string { return e.err.Error() }

// Unwrap returns ErrUnavailable and the cause.
func (e *openError) Unwrap() []error { return []error{ErrUnavailable, e.err} }

func openNode(ctx context.Context, c Config) (*Node, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	n := &Node{peers: slices.Clone(c.Peers)}
	var listener net.Listener
	if c.Listen != "" {
		var err error
		if listener, err = transport.Listen(c.Listen); err != nil {
			return nil, err
		}
		n.addr = listener.Addr()
	}
	if err := n.open(ctx, c); err != nil {
		if listener != nil {
			err = errors.Join(err, listener.Close())
		}
		return nil, err
	}
	if listener != nil {
		n.peer.Serve(listener)
	}
	return n, nil
}

func (n *Node) open(ctx context.Context, c Config) error {
	limits := c.limits()
	cluster := len(c.Peers) > 1 // a cluster of one is a single node: it has no peers to talk to
	conf := shard.Config{
		Dir: c.DataDir, Shards: c.Shards, Durability: shard.Durability(c.Durability), SyncInterval: c.SyncInterval, CatchUp: c.ClockCatchUp,
		CacheBytes: c.CacheSize, MaxValue: c.MaxValueSize,
		QueueBytes: limits.Proposals, LogCacheBytes: limits.LogCache, StateBytes: limits.State, TableFiles: limits.Tables,
		Logger: c.Logger, Build: build(), Primitives: primitive.All(), NodeID: c.NodeID,
	}
	for _, p := range conf.Primitives {
		if p.Given != nil {
			p.Given(c.Funcs)
		}
	}
	if c.Memory > 0 {
		conf.CacheBytes, conf.MemTableMost = limits.Cache, uint64(limits.MemTable)
	}
	n.gate.open(max(c.NodeID, 1), &n.stores, n, cmp.Or(c.Logger, slog.New(slog.DiscardHandler)))
	var others []transport.Member
	if cluster {
		others = members(c.Peers)
	}
	if c.Listen != "" {
		n.wire = engine.NewWire(primitive.All())
		n.peer = transport.New(transport.Config{
			Node: max(c.NodeID, 1), Wire: n.wire, Members: others, Secret: c.Secret, TLS: c.TLS, Logger: c.Logger,
			Gate: n.gate.gate, Changed: n.changed, Limits: limits,
			Insecure: c.Insecure || c.TLS != nil && c.TLS.ClientAuth == tls.RequireAndVerifyClientCert,
		})
	}
	if n.peer != nil {
		conf.Traffic = n.peer.Traffic
	}
	if cluster {
		for _, p := range c.Peers {
			conf.Voters = append(conf.Voters, p.ID)
		}
		conf.Transport, conf.Door, conf.Alive = n.peer, n.peer.Door(), n.peer.Alive
		conf.Full, conf.Problem, conf.Clocks = n.peer.Full, n.peer.Problem, true
	}
	host, err := shard.OpenContext(ctx, conf)
	if err != nil {
		if n.peer != nil {
			n.peer.Close()
		}
		return err
	}
	n.host, n.router, n.maxValue = host, engine.NewRouter(host), host.MaxValue
	n.stale = n.router
	if cluster {
		if err := host.Identify(); err != nil {
			return errors.Join(err, n.Close())
		}
		n.router, n.stale = engine.NewRouter(n.peer.Door()), engine.NewRouter(n.peer.StaleDoor())
	}
	n.attach()
	n.gate.gate.Attach(n.router.Door(), n.stale.Door())
	if n.peer != nil {
		n.peer.Attach(host, n.encodedStats)
	}
	n.gate.run() // through doors that have the host now
	return nil
}

// changed records a client's change or attempted change. Changes of keys are written at once, all
// others are aggregated.
func (n *Node) changed(ctx context.Context, g *auth.Grant, from string, cmd engine.Command, err error) {
	if what, keys := auth.Changes(cmd); keys {
		n.gate.note(ctx, AuditKeysStream, g, AuditEntry{From: from, Action: what}, err)
		return
	}
	if g.IsOpen() {
		return
	}
	n.gate.record(g, from, n.wire.Describe(cmd), cmd.Namespace, err)
}

// Keys returns the API keys of the node, or of its cluster.
func (n *Node) Keys() *Keys { return &Keys{gate: &n.gate} }

func (n *Node) encodedStats(ctx context.Context) ([]byte, error) {
	s, err := n.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// Addr returns the address at which the node listens for clients and other nodes, nil if it does
// not.
func (n *Node) Addr() net.Addr { return n.addr }

// Stats returns figures about the node, from memory. It returns ErrClosed once the node is closing;
// a failed node still returns its figures.
func (n *Node) Stats(context.Context) (Stats, error) {
	given, err := n.host.Stats()
	s := newStats(given)
	s.Version = Version
	for i := range s.Nodes {
		s.Nodes[i].Addr = n.addrOf(s.Nodes[i].ID)
	}
	return s, err
}

// addrOf returns the address of a node of the cluster, "" for a single node that does not listen.
func (n *Node) addrOf(id string) string {
	for _, p := range n.peers {
		if strconv.FormatUint(p.ID, 10) == id {
			return p.Addr
		}
	}
	if n.addr == nil {
		return ""
	}
	return n.addr.String()
}

// StatsOf returns the figures of the node with the given id. If it is another node, StatsOf queries
// that node. Errors: ErrNotFound if there is no such node; ErrUnavailable if it does not answer;
// ctx's.
func (n *Node) StatsOf(ctx context.Context, id uint64) (Stats, error) {
	switch {
	case n.peer == nil && id == 1:
		return n.Stats(ctx)
	case n.peer == nil || id == 0:
		return Stats{}, noNode(id)
	}
	return decodeStats(n.peer.StatsOf(ctx, id))
}

func noNode(id uint64) error { return engine.Errorf(ErrNotFound, "the cluster has no node %d", id) }

func decodeStats(b []byte, err error) (s Stats, _ error) {
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// Err returns the error that made the node fail, or nil. A failed node answers only ErrUnavailable
// until it is reopened.
func (n *Node) Err() error { return n.host.Err() }

// How long Close waits for other nodes. Clients that do not read their answers can add up to a
// second; see transport.Peer.Close.
const (
	handOverTime = 2 * time.Second // until other nodes lead what the node leads
	drainTime    = 4 * time.Second // in total, including the outcome of writes in flight
)

// Close hands leadership over to other nodes, flushes memory to disk, releases the directory and
// returns when all goroutines have ended. Waiting calls fail with ErrClosed. Close waits up to 5
// seconds for other nodes, and for the disk without a limit. A second Close does nothing.
func (n *Node) Close() error {
	drained := time.Now().Add(drainTime)
	ctx, cancel := context.WithTimeout(context.Background(), auditLast)
	n.gate.flush(ctx)
	n.gate.noteUses(ctx)
	cancel()
	if n.peer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
		n.peer.Leave()
		n.host.TransferLeadership(ctx)
		cancel()
		n.peer.Drain()
	}
	err := n.host.CloseWithin(time.Until(drained))
	n.gate.close()
	if n.peer != nil {
		n.peer.Close()
	}
	return err
}
