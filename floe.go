// Package floe is an embeddable data node: key-value, queues, and later streams, time series, actions, stream processing and
// workflows, over one replicated log stored in Pebble.
//
//	node, err := floe.Open(floe.Config{DataDir: "data"})
//	if err != nil { ... }
//	defer node.Close()
//	store := node.KV("default")
//	_, err = store.Put(ctx, "greeting", []byte("hello"))
//	entry, err := store.Get(ctx, "greeting")
//
// Every write is a command in the log of one of the node's shards; what is acknowledged is durable and visible. A transaction
// (Node.Txn) changes any keys of a namespace together or not at all. The errors of all packages are the values below.
package floe

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/peer"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// Version is the version of this program, as /cluster/stats reports it.
const Version = "0.1.0"

// The errors of floe; the same values in every package. Use errors.Is.
var (
	ErrNotFound       = engine.ErrNotFound
	ErrConflict       = engine.ErrConflict
	ErrExists         = engine.ErrExists
	ErrInvalid        = engine.ErrInvalid
	ErrBusy           = engine.ErrBusy
	ErrUnavailable    = engine.ErrUnavailable
	ErrInUse          = engine.ErrInUse          // another node has the data directory; also ErrUnavailable
	ErrReadOnly       = engine.ErrReadOnly       // the disk is full: reads and what frees space go on; also ErrUnavailable
	ErrUnknownOutcome = engine.ErrUnknownOutcome // a write that may or may not have happened; also ErrUnavailable
	ErrClosed         = engine.ErrClosed
	ErrUnauthorized   = engine.ErrUnauthorized
)

// Durability says when a write is acknowledged.
type Durability = shard.Durability

// The durabilities.
const (
	// Sync acknowledges what has been fsynced on a quorum: nothing acknowledged is lost, not even in a power failure of all nodes.
	Sync = shard.Sync
	// Async acknowledges what has been written, and fsyncs within Config.SyncInterval: a crash of the process loses nothing
	// that was acknowledged, a power failure at most the last interval.
	Async = shard.Async
)

// Config says how to open a node. The zero value is a node in memory.
type Config struct {
	// DataDir is the directory of the node, created when missing and locked while the node is open. "" keeps everything in
	// memory, for tests.
	DataDir string
	// Shards is the number of shards, 1 to 256. It is fixed when the directory is created: 0 takes what is there, or 4.
	Shards int
	// Durability is Sync unless set to Async.
	Durability Durability
	// SyncInterval is how late an Async write may be fsynced. 0 means 100 ms.
	SyncInterval time.Duration
	// CacheSize is the memory for cached blocks of the state, in bytes. 0 means 256 MiB with a DataDir and 16 MiB without.
	CacheSize int64
	// MaxValueSize is the largest value or payload in bytes, at most 16 MiB. 0 means 1 MiB.
	MaxValueSize int
	// Listen is the address, host:port, for clients and for the other nodes of a cluster. "" means none; in a cluster, the node's own of
	// Peers.
	Listen string
	// NodeID is the node's own of Peers, not 0.
	NodeID uint64
	// Peers are the nodes of a cluster, this one too: 3 or 5 as a rule, 7 at most. They are fixed when the directory is created. nil is
	// a node alone.
	Peers []Peer
	// Secret is what the nodes of a cluster know each other by, at least 16 bytes, the same for all.
	Secret []byte
	// TLS encrypts Listen, and what the node itself opens to others: Certificates, RootCAs, ClientCAs. nil means clear text.
	TLS *tls.Config
	// Logger hears of changes of state and background failures, not of requests. nil means no log.
	Logger *slog.Logger
}

// Peer is a node of a cluster: its id, not 0, and the address at which the others reach it, host:port.
type Peer = peer.Member

// Node is an open data node. Its methods may be used by many goroutines at once.
type Node struct {
	host     *shard.Host
	peer     *peer.Peer // nil: it does not listen
	addr     net.Addr
	peers    []Peer // of the cluster, nil: the node is alone
	router   *engine.Router
	stale    *engine.Router
	maxValue int
}

// Open opens the node of a data directory, or creates it. Alone, it returns once all its shards can be written to; in a cluster it returns
// when it takes part, and calls wait, up to 5 seconds, for the leaders that the nodes elect. It brings the state forward from the log, so
// after a crash it takes up to a few seconds.
//
// Errors: ErrInvalid naming every bad field; ErrInUse if another node, of this or another process, has the directory; an error naming what it found
// if the directory is of a newer format, has another number of shards or another cluster, or is damaged (nothing is changed then).
func Open(c Config) (*Node, error) {
	if err := c.checkCluster(); err != nil {
		return nil, err
	}
	n := &Node{peers: slices.Clone(c.Peers)}
	var listener net.Listener
	if c.Listen != "" {
		var err error
		if listener, err = net.Listen("tcp", c.Listen); err != nil {
			return nil, err
		}
		n.addr = listener.Addr()
	}
	if err := n.open(c); err != nil {
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

func (n *Node) open(c Config) error {
	conf := shard.Config{
		Dir: c.DataDir, Shards: c.Shards, Durability: c.Durability, SyncInterval: c.SyncInterval, CacheBytes: c.CacheSize, MaxValue: c.MaxValueSize,
		Logger: c.Logger, Machines: machines(), NodeID: c.NodeID,
	}
	if c.Listen != "" {
		n.peer = peer.New(peer.Config{
			Node: max(c.NodeID, 1), Wire: wire(), Members: c.Peers, Secret: c.Secret, TLS: c.TLS, Logger: c.Logger,
		})
	}
	if len(c.Peers) > 0 {
		for _, p := range c.Peers {
			conf.Voters = append(conf.Voters, p.ID)
		}
		conf.Transport, conf.Door, conf.Alive = n.peer, n.peer.Door(), n.peer.Alive
	}
	host, err := shard.Open(conf)
	if err != nil {
		if n.peer != nil {
			n.peer.Close()
		}
		return err
	}
	n.host, n.router, n.maxValue = host, engine.NewRouter(host), host.MaxValue()
	n.stale = n.router
	if n.peer == nil {
		return nil
	}
	if len(c.Peers) > 0 {
		if err := host.Identify(); err != nil {
			return errors.Join(err, n.Close())
		}
		n.router, n.stale = engine.NewRouter(n.peer.Door()), engine.NewRouter(n.peer.StaleDoor())
	}
	n.peer.Attach(host, n.encodedStats)
	return nil
}

func (n *Node) encodedStats(ctx context.Context) ([]byte, error) {
	s, err := n.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// checkCluster returns ErrInvalid naming what is wrong with the fields for a cluster, and makes Listen what it is by default.
func (c *Config) checkCluster() error {
	if len(c.Peers) == 0 {
		if c.NodeID > 1 {
			return engine.Errorf(ErrInvalid, "floe: configuration: node id %d without peers", c.NodeID)
		}
		return nil
	}
	var bad []error
	self, ids := -1, make(map[uint64]bool)
	for i, p := range c.Peers {
		if p.ID == c.NodeID {
			self = i
		}
		if p.ID == 0 || ids[p.ID] {
			bad = append(bad, fmt.Errorf("peer id %d is 0 or there twice", p.ID))
		}
		if _, _, err := net.SplitHostPort(p.Addr); err != nil {
			bad = append(bad, fmt.Errorf("address %q of peer %d is not host:port", p.Addr, p.ID))
		}
		ids[p.ID] = true
	}
	if self < 0 {
		bad = append(bad, fmt.Errorf("node id %d is not among the peers", c.NodeID))
	} else if c.Listen == "" {
		c.Listen = c.Peers[self].Addr
	}
	if n := len(c.Peers); n > maxPeers {
		bad = append(bad, fmt.Errorf("%d peers exceed %d", n, maxPeers))
	}
	if n := len(c.Secret); n < minSecret && len(c.Peers) > 1 {
		bad = append(bad, fmt.Errorf("secret of %d bytes is shorter than %d", n, minSecret))
	}
	if len(bad) > 0 {
		return engine.Errorf(ErrInvalid, "floe: configuration: %v", errors.Join(bad...))
	}
	return nil
}

const (
	maxPeers  = 7
	minSecret = 16
)

// Verify reads all of a node's data directory and reports what is damaged or does not fit together: every record of the log, every
// block of the state's tables, and, with the log replayed in memory as Open would do it, every row. It changes nothing in the
// directory, keeps nodes from opening it meanwhile, and needs memory for what a replay writes: about as much as the log holds behind
// the last flush of the state.
//
// A report without Problems means that Open will succeed and find everything that was ever acknowledged, as far as the directory
// itself can tell: it can not know of a newest write that never got there, nor that all of it was replaced by an older copy.
//
// Errors: ErrInUse if a node has the directory; ErrInvalid if it is no data directory; ctx's, and those of reading.
func Verify(ctx context.Context, dir string) (VerifyReport, error) {
	return shard.Verify(ctx, shard.VerifyConfig{Dir: dir, Machines: machines()})
}

// machines are the primitives that every shard has.
func machines() []func() engine.Machine {
	return []func() engine.Machine{kv.NewMachine, stream.NewMachine, queue.NewMachine}
}

func wire() *engine.Wire {
	var all []engine.Machine
	for _, make := range machines() {
		all = append(all, make())
	}
	return engine.NewWire(all...)
}

// AccessOption changes how the store that an accessor returns reaches its data.
type AccessOption func(access) access

type access struct{ stale bool }

// Stale makes reads answer from whichever replica is at hand, without asking the shard's leader: it may be behind, for as long as it is cut off,
// but it answers also when there is no leader. Watches and waits follow that replica. Writes are the same.
func Stale() AccessOption {
	return func(a access) access {
		a.stale = true
		return a
	}
}

func pick(router, stale *engine.Router, opts []AccessOption) *engine.Router {
	var a access
	for _, opt := range opts {
		a = opt(a)
	}
	if a.stale {
		return stale
	}
	return router
}

// KV returns the key-value store of a namespace.
func (n *Node) KV(namespace string, opts ...AccessOption) *kv.Store {
	return kv.New(pick(n.router, n.stale, opts), namespace, n.maxValue)
}

// Queue returns the queues of a namespace.
func (n *Node) Queue(namespace string, opts ...AccessOption) *queue.Store {
	return queue.New(pick(n.router, n.stale, opts), namespace, n.maxValue)
}

// Stream returns the streams and consumer groups of a namespace.
func (n *Node) Stream(namespace string, opts ...AccessOption) *stream.Store {
	return stream.New(pick(n.router, n.stale, opts), namespace, n.maxValue)
}

// Txn starts a transaction in a namespace.
func (n *Node) Txn(namespace string) *Txn { return engine.NewTxn(n.router, namespace, n.maxValue) }

// Namespaces creates and lists namespaces.
func (n *Node) Namespaces(opts ...AccessOption) *Namespaces {
	return engine.NewNamespaces(pick(n.router, n.stale, opts))
}

// MaxValueSize returns the configured limit for values and payloads, in bytes.
func (n *Node) MaxValueSize() int { return n.maxValue }

// Addr returns where the node listens for clients and other nodes, nil if it does not.
func (n *Node) Addr() net.Addr { return n.addr }

// Stats returns figures about the node, which it has at hand. ErrClosed once it is being closed; a node that has failed still tells them.
func (n *Node) Stats(context.Context) (Stats, error) {
	s, err := n.host.Stats()
	s.Version = Version
	if n.peer != nil {
		s.Port = n.peer.Traffic()
	}
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

// StatsOf returns what a node of the cluster, by its id, says about itself, asking it if it is another one. Errors: ErrNotFound if there is no
// such node; ErrUnavailable if it does not answer; ctx's.
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

// Err returns what made the node fail, or nil. A failed node answers nothing but ErrUnavailable until it is opened again.
func (n *Node) Err() error { return n.host.Err() }

// What Close waits for others. It is a second more for clients that do not take their answers; see peer.Peer.Close.
const (
	handOverTime = 2 * time.Second // that they take over what the node leads
	drainTime    = 4 * time.Second // in all: that, and that writes in flight get their outcome
)

// Close hands what the node leads over to other nodes, writes what is in memory to disk, releases the directory and returns when all goroutines
// have ended. Calls that wait get ErrClosed. For others it waits for up to 5 seconds, for the disk as long as that takes. A second Close does
// nothing.
func (n *Node) Close() error {
	drained := time.Now().Add(drainTime)
	if n.peer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
		n.host.HandOver(ctx)
		cancel()
		n.peer.Drain()
	}
	err := n.host.CloseWithin(time.Until(drained))
	if n.peer != nil {
		n.peer.Close()
	}
	return err
}

// Client is a node or a cluster in other processes, with the same stores as a Node. Its methods may be used by many goroutines at once.
//
// It asks the leader of each shard, finds the next one when that changes, and connects again by itself. Reads are repeated until they are answered,
// writes only while they have certainly not happened; one whose answer got lost is ErrUnknownOutcome. While nobody can be reached, or there
// is no leader, a call waits for up to 5 seconds, or as long as its ctx, and is then ErrUnavailable. Watches and waits go on behind a lost connection
// where they were.
type Client struct {
	door   *peer.Client
	router *engine.Router
	stale  *engine.Router
}

// DialOption changes how Dial connects.
type DialOption func(*peer.Config)

// WithTLS encrypts the connections.
func WithTLS(c *tls.Config) DialOption { return func(p *peer.Config) { p.TLS = c } }

// Dial connects to a node, or to a cluster of which it is given some or all nodes, each as host:port. It returns when one of them has answered. ctx bounds
// that only.
//
// Errors: ErrInvalid without an address; ErrUnavailable, within 5 seconds, with the reason for each of them.
func Dial(ctx context.Context, addrs []string, opts ...DialOption) (*Client, error) {
	if len(addrs) == 0 {
		return nil, engine.Errorf(ErrInvalid, "floe: dial: no address")
	}
	c := peer.Config{Wire: wire()}
	for _, opt := range opts {
		opt(&c)
	}
	door, err := peer.Dial(ctx, c, addrs)
	if err != nil {
		return nil, fmt.Errorf("floe: dial: %w", err)
	}
	return &Client{door, engine.NewRouter(door), engine.NewRouter(door.StaleDoor())}, nil
}

// KV returns the key-value store of a namespace.
func (c *Client) KV(namespace string, opts ...AccessOption) *kv.Store {
	return kv.New(pick(c.router, c.stale, opts), namespace, c.door.MaxValue())
}

// Queue returns the queues of a namespace.
func (c *Client) Queue(namespace string, opts ...AccessOption) *queue.Store {
	return queue.New(pick(c.router, c.stale, opts), namespace, c.door.MaxValue())
}

// Stream returns the streams and consumer groups of a namespace.
func (c *Client) Stream(namespace string, opts ...AccessOption) *stream.Store {
	return stream.New(pick(c.router, c.stale, opts), namespace, c.door.MaxValue())
}

// Txn starts a transaction in a namespace.
func (c *Client) Txn(namespace string) *Txn {
	return engine.NewTxn(c.router, namespace, c.door.MaxValue())
}

// Namespaces creates and lists namespaces.
func (c *Client) Namespaces(opts ...AccessOption) *Namespaces {
	return engine.NewNamespaces(pick(c.router, c.stale, opts))
}

// MaxValueSize returns the limit of the nodes for values and payloads, in bytes.
func (c *Client) MaxValueSize() int { return c.door.MaxValue() }

// Stats returns figures about the node that is asked, whichever that is.
func (c *Client) Stats(ctx context.Context) (Stats, error) { return decodeStats(c.door.Stats(ctx)) }

// StatsOf returns what a node of the cluster, by its id, says about itself, through the one that Stats would ask. Errors: ErrNotFound if there is
// no such node; ErrUnavailable if it does not answer that one; ctx's.
func (c *Client) StatsOf(ctx context.Context, id uint64) (Stats, error) {
	if id == 0 { // would be the one that is asked
		return Stats{}, noNode(id)
	}
	return decodeStats(c.door.StatsOf(ctx, id))
}

// Close ends the connections and returns when all goroutines have ended. Calls that wait get ErrClosed. A second Close does nothing.
func (c *Client) Close() error {
	c.door.Close()
	return nil
}

// Names of types that live in internal packages.
type (
	// Stats is what Node.Stats returns: version, id, time and start, state ("ok", "no quorum", "failed"), calls so far and per second,
	// waiting queries, the connections and bytes of the port it listens on, the disk with whether it is so full that the node is read-only, and a list each of nodes (id, address, whether they
	// are alive as this node sees it) and of shards (leader, term, how far this node has come).
	Stats = shard.Stats
	// VerifyReport is what Verify returns: Problems, of which each names a file and offset or a shard and row, and how much was
	// read: segments, bytes and entries of the log, tables and their bytes, rows by shard.
	VerifyReport = shard.VerifyReport
	// Txn collects the parts of a transaction over one namespace, up to 1,000 of them and 4 MiB. All conditions hold and all
	// operations succeed, in order and in one log entry, or nothing happens:
	//
	//	(*Txn) If(conditions ...Condition) *Txn           checked before the first operation
	//	(*Txn) Do(ops ...Op) *Txn                         each sees what the ones before it did
	//	(*Txn) Commit(ctx) (*TxnResult, error)
	//
	// When Commit returns nil, all of it is committed and visible. After a ctx error or ErrUnknownOutcome it may or may not have
	// happened, as a whole. Errors: *TxnError; ErrInvalid if it is empty, exceeds the limits, or its names live in several
	// shards of a spread namespace (names with a common {tag} share one).
	Txn = engine.Txn
	// TxnResult holds in Values what each operation of Do returned, in order; the operation's documentation names the type.
	TxnResult = engine.TxnResult
	// TxnError says which part was refused: Index counts from 0 among the conditions (Condition is true) or the operations. It
	// unwraps to the reason, such as a *kv.ConflictError.
	TxnError = engine.TxnError
	// Op is an operation of a transaction, made by kv.PutOp and its siblings.
	Op = engine.Op
	// Condition is a condition of a transaction, made by kv.RevisionIs and its siblings.
	Condition = engine.Condition
	// Namespaces creates and lists namespaces:
	//
	//	(*Namespaces) Create(ctx, name, opts ...) error                   Spread() is the one option; ErrExists
	//	(*Namespaces) Get(ctx, name) (NamespaceInfo, error)               ErrNotFound
	//	(*Namespaces) Page(ctx, after, limit) ([]NamespaceInfo, error)    in order of names
	//	(*Namespaces) All(ctx) iter.Seq2[NamespaceInfo, error]
	//
	// A first write creates a namespace too, not spread. "default" always exists; names that begin with "_" are floe's own.
	Namespaces = engine.Namespaces
	// NamespaceInfo has Name, Spread, CreatedAt, and Counts: how many keys, bytes, streams, queues ... it holds.
	NamespaceInfo = engine.NamespaceInfo
)

// Spread is the option of Namespaces.Create for a namespace that outgrows one shard.
var Spread = engine.Spread
