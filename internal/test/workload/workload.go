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
	Spread = "spread" // over all
	Apart  = "apart"  // in one shard too, another one if there are several
)

// MaxValue is the limit of the nodes for values.
const MaxValue = 16 << 10

// World is where a client works: a simulation, or a cluster of processes that are killed.
type World interface {
	// Router leads to the nodes.
	Router() *engine.Router
	// Rand is for one client, or for clients that take turns.
	Rand() *rand.Rand
	// Client returns the client's number.
	Client() int
	// Working reports whether the client is to go on with another act, after a pause.
	Working() bool
	// Sleep waits; false means that the run has ended and nothing may wait any more.
	Sleep(time.Duration) bool
	// Lossy reports whether acknowledged writes may have been lost: what was checked with them in
	// mind can not be any more.
	Lossy() bool
	// Async reports whether a crash of the power makes it so.
	Async() bool
	// Note is told the outcome of each call. Errors that nobody should get fail the run.
	Note(error)
	// Failf fails the run.
	Failf(format string, args ...any)
}

// Work is done by clients, beside others.
type Work struct {
	Name    string
	Clients int
	New     func() Job
}

// Job is a work in one run. Its methods may be called by several clients at once.
type Job interface {
	// Open makes what the job needs, before anybody works on it; false if it could not.
	Open(World) bool
	// Do is the work of a client.
	Do(World)
	// Audit looks at everything once more, when nobody works and all nodes are well.
	Audit(World)
}

// Works are done in every suite.
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

// insist repeats a call until it succeeds; false if the run has ended instead.
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

// upTo draws a duration below max.
func upTo(w World, max time.Duration) time.Duration {
	return time.Duration(w.Rand().Int64N(int64(max)))
}
