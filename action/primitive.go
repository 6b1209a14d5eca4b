package action

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workers"
)

// countActions is the counter of the machine.
const countActions engine.Counter = 0

// Kinds of errors.
const (
	errorPlace uint8 = iota + 1
	errorSession
)

var _ = engine.Provide(table, newStore)

func table() engine.Primitive {
	p := engine.Primitive{
		ID: engine.MachineAction, Name: "action", New: newMachine,
		Commands: commandTypes(),
		Queries: []engine.QueryType{
			engine.QueryRow(queryInfo, "info", (*machine).queryInfo),
			engine.QueryRow(queryList, "list", (*machine).queryList),
			engine.QueryRow(queryRun, "run", (*machine).queryRun),
			engine.QueryRow(queryRuns, "runs", (*machine).queryRuns),
			engine.QueryRow(queryHeartbeat, "beat", (*machine).queryHeartbeat),
			engine.QueryRow(querySchedule, "schedule", (*machine).querySchedule),
			engine.QueryRow(querySchedules, "schedules", (*machine).querySchedules),
		},
		Errors: []engine.ErrorType{
			engine.NewErrorType(errorPlace, "place", func(c *codec.Coder, e *placeError) { e.code(c) }),
			engine.NewErrorType(errorSession, "session", func(c *codec.Coder, e *sessionError) { e.code(c) }),
		},
		Counters: []engine.CounterType{
			{Counter: countActions, Name: "actions", Field: func(c *engine.Counts) *int64 { return &c.Actions }},
		},
		// Rows of actions, of their names and sets of labels, and of sessions.
		Caches: func(k []byte) bool {
			return k[0] == rowAction || k[0] == rowName || k[0] == rowSet || k[0] == rowSession
		},
	}
	p.Queries = append(p.Queries, workers.Queries()...)
	p.Queries = append(p.Queries, engine.QueryRow(queryReady, "ready", (*machine).queryReady))
	return p
}

func newMachine() engine.Machine {
	return &machine{workers: workers.Registry{Holds: heldBy}, calls: commands.NewCalls(), heartbeats: make(map[uint64]int64)}
}
