package queue

import "github.com/floedb/floe/internal/engine"

// countQueues is the counter of the machine.
const countQueues engine.Counter = 0

var _ = engine.Provide(table, newStore)

func newStore(s engine.Scope) *Store { return &Store{s} }

func table() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineQueue, Name: "queue", New: newMachine,
		Commands: commands.Types(),
		Queries: []engine.QueryType{
			engine.QueryRow(queryStats, "stats", (*machine).queryStats),
			engine.QueryRow(queryList, "list", (*machine).queryList),
			engine.QueryRow(queryPeek, "peek", (*machine).queryPeek),
			engine.QueryRow(queryDead, "dead letters", (*machine).queryDead),
			engine.QueryRow(queryMessage, "message", (*machine).queryMessage),
		},
		Errors: []engine.ErrorType{engine.NewErrorType(errorReceipt, "receipt", codeReceipt)},
		Counters: []engine.CounterType{
			{Counter: countQueues, Name: "queues", Field: func(c *engine.Counts) *int64 { return &c.Queues }},
		},
		// Every command reads the row of its queue, and most lookups of a dedup key find no row.
		Caches: func(k []byte) bool { return k[0] == 'q' || k[0] == 'k' },
	}
}

func newMachine() engine.Machine {
	return newMachineOf(standardLimits)
}

func newMachineOf(l limits) *machine {
	m := &machine{maxInflight: maxInflight, limits: l, calls: commands.NewCalls()}
	m.queues = engine.NewMemory[uint64](l.queues, m.undo)
	return m
}
