// Package floe is an embeddable data node: key-value, queues, streams with consumer groups, time
// series, actions, workflows and stream processing, over one replicated log stored in Pebble.
//
//	node, err := floe.Open(floe.Config{DataDir: "data"})
//	if err != nil { ... }
//	defer node.Close()
//	store := node.KV("default")
//	_, err = store.Put(ctx, "greeting", []byte("hello"))
//	entry, err := store.Get(ctx, "greeting")
//
// Every write is a command in the log of one of the node's shards; an acknowledged write is durable
// and visible. A transaction (Txn) changes any items of a namespace atomically. A Client (Dial)
// connects to a node or a cluster in other processes. DB is the interface that Client and Node
// share; programs should be written against it. All packages return the error values below.
//
// Tests open an in-memory node in one line: OpenMemory(t).
package floe

import (
	"context"
	"runtime/debug"
	"strings"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// Version is the version of floe, as /cluster/stats reports it.
const Version = "0.1.0"

// build identifies the program in data directories: the version, and the known details of its
// sources, as in "floe 0.1.0 (4f2a9c1d03be, modified)".
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "floe " + Version
	}
	var details []string
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			details = append(details, m.Version)
		}
	}
	for _, s := range info.Settings {
		switch {
		case info.Main.Path != modulePath: // they are about the host program
		case s.Key == "vcs.revision" && len(details) == 0:
			details = append(details, s.Value[:min(len(s.Value), 12)])
		case s.Key == "vcs.modified" && s.Value == "true":
			details = append(details, "modified")
		}
	}
	if len(details) == 0 {
		return "floe " + Version
	}
	return "floe " + Version + " (" + strings.Join(details, ", ") + ")"
}

const modulePath = "github.com/floedb/floe"

// Errors of floe; the same values in every package. Use errors.Is.
var (
	ErrNotFound = engine.ErrNotFound // the named thing does not exist
	ErrConflict = engine.ErrConflict // a condition of the operation (a revision, bound or receipt) does not hold
	ErrExists   = engine.ErrExists   // the thing to create already exists
	ErrInvalid  = engine.ErrInvalid  // an argument is malformed or exceeds its limits
	ErrBusy     = engine.ErrBusy     // a bounded resource is full; the same call may succeed later
	// no leader, no reachable node, or the node has failed; the message says which
	ErrUnavailable    = engine.ErrUnavailable
	ErrInUse          = engine.ErrInUse          // another node has the data directory; also ErrUnavailable
	ErrReadOnly       = engine.ErrReadOnly       // the disk is full: reads and operations that free space still work; also ErrUnavailable
	ErrUnknownOutcome = engine.ErrUnknownOutcome // a write that may or may not have happened; also ErrUnavailable
	ErrClosed         = engine.ErrClosed         // the node or client has been closed
	ErrUnauthorized   = engine.ErrUnauthorized   // the credentials are missing, wrong or insufficient
)

// DB is the interface that Node and Client share. A program that uses it does not depend on whether
// its data is in its own process. Only floe implements it: methods may be added. All methods are
// safe for concurrent use, even after Close. Calls on the stores they return then fail with
// ErrClosed.
type DB interface {
	// KV, Stream, Queue, TS, Action, Workflow and Processing return the stores of a namespace.
	// Stores need no Close.
	KV(namespace string, opts ...AccessOption) *kv.Store
	Stream(namespace string, opts ...AccessOption) *stream.Store
	Queue(namespace string, opts ...AccessOption) *queue.Store
	TS(namespace string, opts ...AccessOption) *ts.Store
	Action(namespace string, opts ...AccessOption) *action.Store
	Workflow(namespace string, opts ...AccessOption) *workflow.Store
	Processing(namespace string, opts ...AccessOption) *processing.Store
	// FloQL evaluates a query over the time series of a namespace.
	FloQL(ctx context.Context, namespace, query string, opts ...floql.Options) (*floql.Result, error)
	// Txn starts a transaction over the primitives of a namespace.
	Txn(namespace string) *Txn
	// Namespaces returns the handle that creates and lists namespaces.
	Namespaces(opts ...AccessOption) *Namespaces
	// Keys returns the API keys.
	Keys() *Keys
	// MaxValueSize returns the maximum size of values and payloads, in bytes.
	MaxValueSize() int
	// Stats returns figures about the node, or, for a Client, about the node that answers it.
	Stats(ctx context.Context) (Stats, error)
	// Close ends all waiting calls with ErrClosed.
	Close() error
}

var (
	_ DB = (*Node)(nil)
	_ DB = (*Client)(nil)
)
