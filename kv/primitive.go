package kv

import "github.com/floedb/floe/internal/engine"

// Counters of the machine; the numbers are part of the format on disk.
const (
	countKeys engine.Counter = iota
	countBytes
	countSets
	countDeletes
	countDead
)

var _ = engine.Provide(table, newStore)

func newStore(s engine.Scope) *Store { return &Store{s} }

func table() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineKV, Name: "kv", New: newMachine,
		Commands: commands.Types(),
		Queries: []engine.QueryType{
			engine.QueryRow(queryGet, "get", (*machine).queryGet),
			engine.QueryRow(queryScan, "scan", (*machine).queryScan),
			engine.QueryRow(queryHistory, "history", (*machine).queryHistory),
			engine.QueryRow(queryWait, "wait", (*machine).queryWait),
			engine.QueryRow(queryChanges, "changes", (*machine).queryChanges),
		},
		Errors: []engine.ErrorType{
			engine.NewErrorType(errorConflict, "conflict", codeConflict),
			engine.NewErrorType(errorBound, "bound", codeBound),
		},
		Counters: []engine.CounterType{
			{Counter: countKeys, Name: "keys", Field: func(c *engine.Counts) *int64 { return &c.Keys }},
			{Counter: countBytes, Name: "bytes", Field: func(c *engine.Counts) *int64 { return &c.KeyBytes }},
			{Counter: countSets, Name: "sets", Field: func(c *engine.Counts) *int64 { return &c.KeySets }},
			{Counter: countDeletes, Name: "deletes", Field: func(c *engine.Counts) *int64 { return &c.KeyDeletes }},
			{Counter: countDead, Name: "deleted keys", Field: func(c *engine.Counts) *int64 { return &c.DeadKeys }},
		},
		Reads: func(c *engine.Counts) *int64 { return &c.KeyReads },
		// Current versions, which every Get and every write reads.
		Caches: func(k []byte) bool { return k[0] == 'c' },
	}
}

func newMachine() engine.Machine { return newMachineOf(maxTombstones) }

func newMachineOf(tombstones int64) *machine {
	return &machine{tombstones: tombstones, calls: commands.NewCalls()}
}
