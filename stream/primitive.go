package stream

import (
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// countStreams is the counter of the machine.
const countStreams engine.Counter = 0

var _ = engine.Provide(table, newStore)

func newStore(s engine.Scope) *Store { return &Store{s} }

func table() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineStream, Name: "stream", New: newMachine,
		Commands: commands.Types(),
		Queries: []engine.QueryType{
			engine.QueryRow(querySpec, "spec", (*machine).querySpec),
			engine.QueryRow(queryRead, "read", (*machine).queryRead),
			engine.QueryRow(queryStats, "stats", (*machine).queryStats),
			engine.QueryRow(queryList, "list", (*machine).queryList),
			engine.QueryRow(queryRefs, "refs", (*machine).queryRefs),
			engine.QueryRow(queryRecords, "records", (*machine).queryRecords),
			engine.QueryRow(queryGroupSpec, "group spec", (*machine).queryGroupSpec),
			engine.QueryRow(queryGroupWait, "group wait", (*machine).queryGroupWait),
			engine.QueryRow(queryGroups, "groups", (*machine).queryGroups),
			engine.QueryRow(queryPending, "pending", (*machine).queryPending),
			engine.QueryRow(protocol.QuerySubscription, "push", (*machine).queryPush),
			engine.QueryRow(queryActivity, "activity", (*machine).queryActivity),
		},
		Errors: []engine.ErrorType{engine.NewErrorType(errorConflict, "conflict", codeConflict)},
		Counters: []engine.CounterType{
			{Counter: countStreams, Name: "streams", Field: func(c *engine.Counts) *int64 { return &c.Streams }},
		},
		// Rows of streams: every query and command reads them.
		Caches: func(k []byte) bool { return k[0] == rowStream },
	}
}

func newMachine() engine.Machine {
	return &machine{
		calls:   commands.NewCalls(),
		streams: engine.NewMemory[streamName, *stream, struct{}](maxRemembered, nil),
		groups:  engine.NewMemory[groupName, *group, struct{}](maxRememberedGroups, nil),
	}
}
