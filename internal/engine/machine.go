package engine

import (
	"context"

	"github.com/floedb/floe/internal/codec"
)

// Machine is the state machine of one primitive in one shard. Each shard has its own instance,
// which the table of the primitive makes (see Primitive).
//
// Apply and OnTimer are called from one goroutine at a time and must depend only on the state and
// their arguments: no clock, no randomness, no map order, no other shard. In-memory data may change
// only in a Memory or in a Tx.OnCommit hook, because a command inside a transaction may succeed and
// still be rolled back. Queries run in many goroutines at once, also while Apply runs.
type Machine interface {
	// Apply executes a command of one of the kinds in its Primitive. It checks first and then
	// writes. If it returns an error, none of its effects remain. The caller keeps the result.
	// Errors must be definite refusals (see Errorf); an impossible state panics.
	Apply(tx *Tx, cmd Command) (result []byte, err error)
	// OnTimer handles a token that tx.Schedule stored. It must ignore tokens that are no longer
	// valid.
	OnTimer(tx *Tx, token []byte)
	// Restore rebuilds in-memory indexes from the state, after opening and after a snapshot was
	// installed.
	Restore(v *View) error
}

// Leaver is a Machine that still has rows in a namespace when all of its counters there are zero,
// such as the history of deleted keys.
type Leaver interface {
	// Leave removes those rows from the namespace of tx, until the command is Full, and reports
	// whether it found any. It is called again until it finds none.
	Leave(tx *Tx) (found bool)
}

// Observer is a Machine that receives the changes that have become visible.
type Observer interface {
	// Committed is called by the applying goroutine with the changes that Apply and OnTimer
	// reported through Tx.Changed, in order, after they have become visible. It may change
	// in-memory indexes and wake queries; n < 0 wakes all queries of a topic. The keys are valid
	// only during the call.
	Committed(changes []Change, wake Waker)
}

// Change is a change of one row as passed to an Observer.
type Change struct {
	Namespace uint32 // as in row keys
	Name      string // of the namespace
	LSN       LSN
	Key       []byte
}

// Query is a read: a struct with arguments and result fields, filled in place when it is answered
// locally. To another process, the arguments are sent and the results returned.
type Query interface {
	Machine() MachineID
	Kind() uint8 // Kind distinguishes the queries of a machine; part of the protocol between processes
	// Arguments codes the arguments. A decoder that reads one out of range must fail: limits are
	// arguments too.
	Arguments(f *codec.Fields)
	// Results codes the results.
	Results(f *codec.Fields)
}

// LeaderQuery is a Query that also informs the leader, for example that a worker is alive. No other
// replica can answer it, even for a caller that accepts any replica. Callers that have only read
// permission may not send it.
type LeaderQuery interface {
	Query
	OfLeader()
}

// Door is the only access to the shards: a local node, a forwarding node, or a remote client.
type Door interface {
	// Shards returns the number of shards, which never changes.
	Shards() int
	// Propose makes the shard apply the command and returns its result once the write is visible
	// and as durable as configured. After an error that matches ErrUnknownOutcome, or a ctx error
	// after the command was handed over, the command may or may not have taken effect. After any
	// other error it did not.
	Propose(ctx context.Context, shard ShardID, cmd Command) ([]byte, error)
	// Take proposes a take as soon as an item is available, and returns its result. If the wait
	// ends first, it returns nil and the take has written nothing. A waiting take that gets an
	// error has ended, unless the error leaves the outcome open, as for Propose.
	Take(ctx context.Context, shard ShardID, t Take) ([]byte, error)
	// Query fills in q's results from the applied state. If the query waits, it does so until ctx
	// ends.
	Query(ctx context.Context, shard ShardID, q Query) error
}

// CachingDoor is a Door that can answer some reads from memory at once.
type CachingDoor interface {
	Door
	// Cached returns the row of the machine with the key of kind, namespace number (u32) and name,
	// exactly as a query would read it now. ok is false if a query is needed. hash is the XXH64 of
	// the name. The row must not be changed.
	Cached(shard ShardID, p *Place, m MachineID, kind byte, name string, hash uint64) (row []byte, ok bool)
}
