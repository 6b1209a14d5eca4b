package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// The namespaces of all works.
const (
	Plain  = "plain"  // in one shard
	Spread = "spread" // in all shards
	Apart  = "apart"  // in one shard, another one if there are several
)

// MaxValue is the nodes' limit for values.
const MaxValue = 16 << 10

// World is the environment of a client: a simulation, or a cluster of processes that are killed.
type World interface {
	// Router returns a router to the nodes.
	Router() *engine.Router
	// Rand is for one client, or for clients that take turns.
	Rand() *rand.Rand
	// Client returns the client's number.
	Client() int
	// Working reports whether the client should do another act, after a pause.
	Working() bool
	// Sleep waits; false means that the run has ended and waiting must stop.
	Sleep(time.Duration) bool
	// Lossy reports whether acknowledged writes may have been lost. Checks that rely on them are
	// impossible then.
	Lossy() bool
	// Async reports whether a power failure makes the world lossy.
	Async() bool
	// Note records the outcome of each call. Errors that no client should get fail the run.
	Note(error)
	// Failf fails the run.
	Failf(format string, args ...any)
}

// Work is done by clients, concurrently with other works.
type Work struct {
	Name    string
	Clients int
	New     func() Job
}

// Job is a work in one run. Its methods may be called by several clients at once.
type Job interface {
	// Open creates what the job needs, before any client works on it; false if that failed.
	Open(World) bool
	// Do is the work of a client.
	Do(World)
	// Audit checks everything once more, when no client works and all nodes are up.
	Audit(World)
}

// Works lists the works of every suite.
var Works = []Work{
	{"bank", 2, newBankJob},
	{"queue", 2, newQueueJob},
	{"stream", 1, newStreamJob},
	{"group", 1, newGroupJob},
	{"series", 1, newSeriesJob},
	{"action", 2, newActionJob},
	{"workflow", 2, newFlowJob},
	{"trigger", 2, newTriggerJob},
	{"processing", 1, newPipeJob},
	{"state", 1, newStateJob},
	{"keys", 1, newKeysJob},
}

// Open creates the namespaces of all works.
func Open(w World) bool {
	for _, name := range []string{Plain, Spread, Apart} {
		if !insist(w, func() error {
			err := engine.NewNamespaces(w.Router()).Create(context.Background(), name, name == Spread)
			if errors.Is(err, engine.ErrExists) {
				return nil
			}
			return err
		}) {
			return false
		}
	}
	return true
}

// insist repeats a call until it succeeds; false if the run ends first.
func insist(w World, call func() error) bool {
	for {
		err := call()
		if err == nil {
			return true
		}
		w.Note(err)
		if !w.Sleep(10 * time.Millisecond) {
			return false
		}
	}
}

// upTo draws a random duration below max.
func upTo(w World, max time.Duration) time.Duration {
	return time.Duration(w.Rand().Int64N(int64(max)))
}
