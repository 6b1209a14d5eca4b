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
		Commands: []engine.CommandType{
			{Kind: kindCreate, Name: "create", From: engine.FromUsers | engine.FromShards | engine.FromMachines, Admit: admit},
			{Kind: kindSetRetention, Name: "set retention", From: engine.FromUsers, Admit: admit},
			{Kind: kindAppend, Name: "append", From: engine.FromUsers | engine.FromShards | engine.FromMachines, Admit: admit},
			{Kind: kindTrim, Name: "trim", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindDelete, Name: "delete", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindCheckLast, Name: "check last", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindAdopt, Name: "adopt", From: engine.FromShards},
			{Kind: kindDrop, Name: "drop", From: engine.FromShards, Shrinks: true},
			{Kind: kindCreateGroup, Name: "create group", From: engine.FromUsers, Admit: admit},
			{Kind: kindDeleteGroup, Name: "delete group", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindReadGroup, Name: "read group", From: engine.FromUsers, Admit: admit},
			{Kind: kindAck, Name: "ack", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindNack, Name: "nack", From: engine.FromUsers, Admit: admit},
			{Kind: kindExtend, Name: "extend", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindLeave, Name: "leave", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindSeek, Name: "seek", From: engine.FromUsers, Admit: admit},
			{Kind: kindHold, Name: "hold", From: engine.FromUsers, Admit: admit},
			{Kind: kindAdoptGroup, Name: "adopt group", From: engine.FromUsers | engine.FromShards, Admit: admit},
			{Kind: kindDropGroup, Name: "drop group", From: engine.FromShards, Shrinks: true},
			{Kind: kindFollow, Name: "follow", From: engine.FromShards},
			{Kind: kindMiss, Name: "miss", From: engine.FromLeaders},
			{Kind: kindRelay, Name: "relay subscription", From: engine.FromShards, AtHome: true, Shrinks: true},
			{Kind: kindSubscribe, Name: "subscribe", From: engine.FromShards | engine.FromMachines, Shrinks: true},
			{Kind: kindPush, Name: "push", From: engine.FromLeaders},
			{Kind: kindEnd, Name: "end of a batch", From: engine.FromShards | engine.FromMachines, Shrinks: true},
			{Kind: kindWant, Name: "want a batch", From: engine.FromShards, Shrinks: true},
			{Kind: kindGrant, Name: "grant a batch", From: engine.FromShards, Shrinks: true},
			{Kind: kindPour, Name: "pour", From: engine.FromShards | engine.FromMachines},
			{Kind: kindConfigureGroup, Name: "configure group", From: engine.FromUsers, Admit: admit},
		},
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
		streams: engine.NewMemory[streamName, *stream, struct{}](maxRemembered, nil),
		groups:  engine.NewMemory[groupName, *group, struct{}](maxRememberedGroups, nil),
	}
}

// admit checks a command of a user in another process.
func admit(cmd engine.Command, maxPayload int) error {
	c, err := decodeCommand(cmd.Kind, cmd.Body)
	if err == nil && cmd.Kind == kindAppend {
		err = c.append.check(maxPayload)
	}
	return err
}
