package engine

import (
	"context"

	"github.com/floedb/floe/internal/codec"
)

// Machine is the state machine of one primitive in one shard. Each shard has its own instance,
// which the table of the primitive makes (see Primitive).
//
// Apply and OnTimer are called from one goroutine at a time and must be functions of the state and
// their arguments alone: no clock, no randomness, no map order, no other shard. What is in memory
// may change only in a Memory, or in a Tx.OnCommit hook, because a command inside a transaction may
// succeed and yet be taken back. Queries are answered by many goroutines at once, also while Apply
// runs.
type Machine interface {
	// Apply carries out a command of one of the kinds in its Primitive: it checks first and then
	// changes. On error nothing it did remains. The result is kept by the caller. Errors must be
	// definite refusals (see Errorf); an impossible state panics.
	Apply(tx *Tx, cmd Command) (result []byte, err error)
	// OnTimer handles a token that tx.Schedule stored. It must cope with tokens that no longer mean
	// anything.
	OnTimer(tx *Tx, token []byte)
	// Restore rebuilds in-memory indexes from the state, after opening and after a snapshot was
	// installed.
	Restore(v *View) error
}

// Leaver is a Machine that still has rows of a namespace when all of its counters there are zero,
// such as the history of deleted keys.
type Leaver interface {
	// Leave removes those rows from the namespace of tx, until the command is Full, and reports
	// whether it found any. It is called again until it finds none.
	Leave(tx *Tx) (found bool)
}

// Observer is a Machine that wants to hear what has become visible.
type Observer interface {
	// Committed is called by the applying goroutine with what Apply and OnTimer reported through
	// Tx.Changed, in order, after it has become visible. It may change in-memory indexes and wake
	// queries; n < 0 wakes all of a topic. The keys are valid only during the call.
	Committed(changes []Change, wake Waker)
}

// Change is a change of one row as an Observer hears of it.
type Change struct {
	Namespace uint32 // as in row keys
	Name      string // of the namespace
	LSN       LSN
	Key       []byte
}

// Query is a read: a struct with arguments and result fields, filled in place when it is answered
// locally. To another process its arguments are sent, and its results come back.
type Query interface {
	Machine() MachineID
	Kind() uint8 // tells it from other ones of its machine; part of the protocol between processes
	// Arguments codes the arguments. A decoder that reads one out of range has to fail: limits too
	// are arguments.
	Arguments(f *codec.Fields)
	// Results codes the results.
	Results(f *codec.Fields)
}

// LeaderQuery is a Query that tells the leader something, such as that a worker is alive. No other
// replica can answer it, even to a caller that would be content with any, and who may only read may
// not ask it.
type LeaderQuery interface {
	Query
	OfLeader()
}

// Door is the one way to the shards: a local node, a forwarding one, or a remote client.
type Door interface {
	// Shards returns the number of shards, which never changes.
	Shards() int
	// Propose makes the shard apply the command and returns its result once the write is as durable
	// as configured and visible. An error that matches ErrUnknownOutcome, or a ctx error after the
	// command was handed over, leaves open whether it took effect; every other error means it did
	// not.
	Propose(ctx context.Context, shard ShardID, cmd Command) ([]byte, error)
	// Take proposes a take as soon as there is something to take, and returns its result. If that
	// is not so within the time it waits it returns nil, and nothing has been written. A take that
	// waits and gets an error is gone, unless the error is one that Propose too leaves open.
	Take(ctx context.Context, shard ShardID, t Take) ([]byte, error)
	// Query fills q's result from the applied state, waiting within ctx if the query waits.
	Query(ctx context.Context, shard ShardID, q Query) error
}

// CachingDoor is a Door that can answer some reads from memory at once.
type CachingDoor interface {
	Door
	// Cached returns a row of the machine whose key is kind, the number of the namespace (u32) and
	// name, exactly as a query would read it now; ok is false if only a query can tell. hash is the
	// XXH64 of the name. The row must not be changed.
	Cached(shard ShardID, p *Place, m MachineID, kind byte, name string, hash uint64) (row []byte, ok bool)
}
