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

// Primitive is what package floe makes nodes and clients with key-value stores of; programs have no use for it.
var Primitive = newWiring()

type (
	hiddenWiring = engine.Wiring[Store]
	wiring       struct{ *hiddenWiring }
)

func newWiring() wiring { return wiring{engine.NewWiring(table, newStore)} }

func newStore(s engine.Scope) *Store { return &Store{s} }

func table() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineKV, Name: "kv", New: newMachine,
		// On a full disk: a delete keeps the value in the history, so it frees space only when the tombstone is forgotten; but it takes next
		// to none either, and a key that is deleted can not be deleted again. A touch rewrites its row, and locks would get lost without it.
		// Deleting from a JSON value leaves a whole new version behind.
		Commands: []engine.CommandType{
			{Kind: kindPut, Name: "put", From: engine.FromUsers, Admit: admit},
			{Kind: kindDelete, Name: "delete", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindTouch, Name: "touch", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindIncr, Name: "incr", From: engine.FromUsers, Admit: admit},
			{Kind: kindJSONSet, Name: "json set", From: engine.FromUsers, Admit: admit},
			{Kind: kindJSONDelete, Name: "json delete", From: engine.FromUsers, Admit: admit},
			{Kind: kindCheck, Name: "check", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindPutMany, Name: "put many", From: engine.FromMachines | engine.FromShards},
		},
		Queries: []engine.QueryType{
			{Kind: queryGet, Name: "get", New: engine.NewQuery[getQuery]},
			{Kind: queryScan, Name: "scan", New: engine.NewQuery[scanQuery]},
			{Kind: queryHistory, Name: "history", New: engine.NewQuery[historyQuery]},
			{Kind: queryWait, Name: "wait", New: engine.NewQuery[waitQuery]},
			{Kind: queryChanges, Name: "changes", New: engine.NewQuery[changesQuery]},
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
		// Present versions: those are read for every Get and every write.
		Caches: func(k []byte) bool { return k[0] == 'c' },
	}
}

func newMachine() engine.Machine { return &machine{tombstones: maxTombstones} }

// admit checks a command of a user in another process.
func admit(cmd engine.Command, maxPayload int) error {
	c, err := decodeCommand(cmd.Kind, cmd.Body)
	if err != nil {
		return err
	}
	return engine.CheckPayload(max(len(c.value), c.maxBytes), maxPayload)
}
