// Package floe is an embeddable data node: key-value, and later streams, queues, time series, actions, stream processing and
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
	"log/slog"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
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
	// Logger hears of changes of state and background failures, not of requests. nil means no log.
	Logger *slog.Logger
}

// Node is an open data node. Its methods may be used by many goroutines at once.
type Node struct {
	host     *shard.Host
	router   *engine.Router
	maxValue int
}

// Open opens the node of a data directory, or creates it, and returns once all its shards can be written to. It brings the state
// forward from the log, so after a crash it takes up to a few seconds.
//
// Errors: ErrInvalid naming every bad field; ErrInUse if another node, of this or another process, has the directory; an error naming what it found
// if the directory is of a newer format, has another number of shards, or is damaged (nothing is changed then).
func Open(c Config) (*Node, error) {
	host, err := shard.Open(shard.Config{
		Dir:          c.DataDir,
		Shards:       c.Shards,
		Durability:   c.Durability,
		SyncInterval: c.SyncInterval,
		CacheBytes:   c.CacheSize,
		MaxValue:     c.MaxValueSize,
		Logger:       c.Logger,
		Machines:     machines(),
	})
	if err != nil {
		return nil, err
	}
	return &Node{host: host, router: engine.NewRouter(host), maxValue: host.MaxValue()}, nil
}

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
func machines() []func() engine.Machine { return []func() engine.Machine{kv.NewMachine} }

// KV returns the key-value store of a namespace.
func (n *Node) KV(namespace string) *kv.Store { return kv.New(n.router, namespace, n.maxValue) }

// Txn starts a transaction in a namespace.
func (n *Node) Txn(namespace string) *Txn { return engine.NewTxn(n.router, namespace, n.maxValue) }

// Namespaces creates and lists namespaces.
func (n *Node) Namespaces() *Namespaces { return engine.NewNamespaces(n.router) }

// MaxValueSize returns the configured limit for values and payloads, in bytes.
func (n *Node) MaxValueSize() int { return n.maxValue }

// Stats returns figures about the node. ErrClosed once it is being closed; a node that has failed still tells them.
func (n *Node) Stats(context.Context) (Stats, error) {
	s, err := n.host.Stats()
	s.Version = Version
	return s, err
}

// Err returns what made the node fail, or nil. A failed node answers nothing but ErrUnavailable until it is opened again.
func (n *Node) Err() error { return n.host.Err() }

// Close writes what is in memory to disk, releases the directory and returns when all goroutines have ended. Calls that wait get
// ErrClosed. A second Close does nothing.
func (n *Node) Close() error { return n.host.Close() }

// Names of types that live in internal packages.
type (
	// Stats is what Node.Stats returns: version, start, state ("ok", "no quorum", "failed"), calls so far and per second,
	// waiting queries, the disk with whether it is so full that the node is read-only, and a list each of nodes and of shards.
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
