package stream

import (
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/push"
)

// countStreams is the counter of the machine.
const countStreams engine.Counter = 0

// Primitive is what package floe makes nodes and clients with streams and consumer groups of; programs have no use for it.
var Primitive = newWiring()

type (
	hiddenWiring = engine.Wiring[Store]
	wiring       struct{ *hiddenWiring }
)

func newWiring() wiring { return wiring{engine.NewWiring(table, newStore)} }

func newStore(s engine.Scope) *Store { return &Store{s} }

func table() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineStream, Name: "stream", New: newMachine,
		Commands: commands.Types(),
		Queries: []engine.QueryType{
			{Kind: querySpec, Name: "spec", New: engine.NewQuery[specQuery]},
			{Kind: queryRead, Name: "read", New: engine.NewQuery[readQuery]},
			{Kind: queryStats, Name: "stats", New: engine.NewQuery[statsQuery]},
			{Kind: queryList, Name: "list", New: engine.NewQuery[listQuery]},
			{Kind: queryRefs, Name: "refs", New: engine.NewQuery[refsQuery]},
			{Kind: queryRecords, Name: "records", New: engine.NewQuery[recordsQuery]},
			{Kind: queryGroupSpec, Name: "group spec", New: engine.NewQuery[groupSpecQuery]},
			{Kind: queryGroupWait, Name: "group wait", New: engine.NewQuery[groupWaitQuery]},
			{Kind: queryGroups, Name: "groups", New: engine.NewQuery[groupsQuery]},
			{Kind: queryPending, Name: "pending", New: engine.NewQuery[pendingQuery]},
			{Kind: push.QueryInfo, Name: "push", New: engine.NewQuery[push.Query]},
			{Kind: queryActivity, Name: "activity", New: engine.NewQuery[activityQuery]},
		},
		Errors: []engine.ErrorType{engine.NewErrorType(errorConflict, "conflict", codeConflict)},
		Counters: []engine.CounterType{
			{Counter: countStreams, Name: "streams", Field: func(c *engine.Counts) *int64 { return &c.Streams }},
		},
		// Rows of streams: those are read with every query and command.
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
