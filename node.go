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

// Node is an open data node. Its methods may be used by many goroutines at once.
type Node struct {
	stores
	host  *shard.Host
	peer  *transport.Peer // nil: it does not listen
	addr  net.Addr
	peers []Peer // of the cluster, nil: the node is alone
	gate  gatekeeper
	wire  *engine.Wire // of a node that listens
}

// Open opens the node of a data directory, or creates it. Alone, it returns once all its shards can
// be written to; in a cluster it returns when it takes part, and calls wait, up to 5 seconds, for
// the leaders that the nodes elect. It brings the state forward from the log, so after a crash it
// takes up to a few seconds.
//
// It waits for no other node, and for a disk only as long as that answers: a disk that is stuck for
// 20 seconds fails it. OpenContext bounds it otherwise.
//
// Errors: ErrInvalid naming every bad field, or what does not fit if the directory is of another
// format, has another number of shards or another cluster, or is a file; ErrInUse if another node,
// of this or another process, has the directory; ErrUnavailable with what else was found, such as
// damage, missing permissions, or a port that is taken. The directory is as it was then.
func Open(c Config) (*Node, error) { return OpenContext(context.Background(), c) }

// OpenContext is Open that gives up when ctx is done, releases what it has opened, and returns
// ctx's error. The context is of no use to the node once it is open.
func OpenContext(ctx context.Context, c Config) (*Node, error) {
	n, err := openNode(ctx, c)
	if err != nil {
		return nil, classified(err)
	}
	return n, nil
}

// classified makes errors of opening match a sentinel: what is not the caller's mistake, nor the
// end of his context, is a node that is not available.
func classified(err error) error {
	for _, kind := range []error{ErrInvalid, ErrUnavailable, ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return &openError{err}
}

// openError is ErrUnavailable with the error that is the reason.
type openError struct{ err error }

func (e *openError) Error() string { return e.err.Error() }

// Unwrap returns ErrUnavailable and the reason.
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
	cluster := len(c.Peers) > 1 // a cluster of one node is a node alone: there is nobody to talk to
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
	n.gate.run() // by doors that have the host now
	return nil
}

// changed notes what a client has changed, or tried to: the keys at once, anything else with what
// others do.
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

// Addr returns where the node listens for clients and other nodes, nil if it does not.
func (n *Node) Addr() net.Addr { return n.addr }

// Stats returns figures about the node, which it has at hand. ErrClosed once it is being closed; a
// node that has failed still tells them.
func (n *Node) Stats(context.Context) (Stats, error) {
	given, err := n.host.Stats()
	s := newStats(given)
	s.Version = Version
	for i := range s.Nodes {
		s.Nodes[i].Addr = n.addrOf(s.Nodes[i].ID)
	}
	return s, err
}

// addrOf returns where a node of the cluster listens, "" for a node alone that does not.
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

// StatsOf returns what a node of the cluster, by its id, says about itself, asking it if it is
// another one. Errors: ErrNotFound if there is no such node; ErrUnavailable if it does not answer;
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

// Err returns what made the node fail, or nil. A failed node answers nothing but ErrUnavailable
// until it is opened again.
func (n *Node) Err() error { return n.host.Err() }

// What Close waits for others. It is a second more for clients that do not take their answers; see
// transport.Peer.Close.
const (
	handOverTime = 2 * time.Second // that they take over what the node leads
	drainTime    = 4 * time.Second // in all: that, and that writes in flight get their outcome
)

// Close hands what the node leads over to other nodes, writes what is in memory to disk, releases
// the directory and returns when all goroutines have ended. Calls that wait get ErrClosed. For
// others it waits for up to 5 seconds, for the disk as long as that takes. A second Close does
// nothing.
func (n *Node) Close() error {
	drained := time.Now().Add(drainTime)
	ctx, cancel := context.WithTimeout(context.Background(), auditLast)
	n.gate.flush(ctx)
	n.gate.noteUses(ctx)
	cancel()
	if n.peer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
		n.peer.Leave()
		n.host.HandOver(ctx)
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
