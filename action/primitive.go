package action

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/roster"
)

// countActions is the counter of the machine.
const countActions engine.Counter = 0

// Kinds of errors.
const (
	errorPlace uint8 = iota + 1
	errorSession
)

// Primitive is what package floe makes nodes and clients with actions of; programs have no use for it.
var Primitive = newWiring()

type (
	hiddenWiring = engine.Wiring[Store]
	wiring       struct{ *hiddenWiring }
)

func newWiring() wiring { return wiring{engine.NewWiring(table, newStore)} }

func table() engine.Primitive {
	const more = engine.FromUsers | engine.FromShards | engine.FromMachines
	p := engine.Primitive{
		ID: engine.MachineAction, Name: "action", New: newMachine,
		// On a full disk runs that are under way end, if their outputs are small, and what is cancelled goes. Nothing is taken: each attempt writes.
		Commands: []engine.CommandType{
			{Kind: kindInvoke, Name: "invoke", From: more, Admit: admit},
			{Kind: kindCancel, Name: "cancel", From: more, Admit: admit, Shrinks: true},
			{Kind: kindRegister, Name: "register", From: engine.FromUsers, Admit: admit},
			{Kind: kindAdopt, Name: "adopt", From: engine.FromShards},
			{Kind: kindEnable, Name: "enable", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindDelete, Name: "delete", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindOpen, Name: "open session", From: engine.FromUsers, Admit: admit},
			{Kind: kindWork, Name: "work", From: engine.FromUsers, Admit: admit},
			{Kind: kindTouch, Name: "touch", From: engine.FromUsers, Admit: admit},
			{Kind: kindClose, Name: "close session", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindExpire, Name: "expire session", From: engine.FromLeaders, Shrinks: true},
			{Kind: kindJoin, Name: "join", From: engine.FromUsers, Admit: admit},
			{Kind: kindLeave, Name: "leave", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindNote, Name: "note workers", From: engine.FromLeaders, Shrinks: true},
			{Kind: kindSchedule, Name: "schedule", From: engine.FromUsers, Admit: admit},
			{Kind: kindUnschedule, Name: "delete schedule", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindPause, Name: "pause schedule", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindTrigger, Name: "trigger schedule", From: engine.FromUsers, Admit: admit},
			{Kind: kindTick, Name: "tick schedules", From: engine.FromLeaders},
			{Kind: kindScheduledEnd, Name: "end scheduled run", From: engine.FromMachines},
			{Kind: kindSettle, Name: "settle", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindEnd, Name: "end", From: engine.FromUsers, Admit: admit},
			{Kind: kindHeld, Name: "held", From: engine.FromUsers, Admit: admit},
			{Kind: kindRetry, Name: "retry", From: engine.FromUsers, Admit: admit},
			{Kind: kindRunNow, Name: "run now", From: engine.FromUsers, Admit: admit},
		},
		Queries: []engine.QueryType{
			{Kind: queryInfo, Name: "info", New: engine.NewQuery[infoQuery]},
			{Kind: queryList, Name: "list", New: engine.NewQuery[listQuery]},
			{Kind: queryRun, Name: "run", New: engine.NewQuery[runQuery]},
			{Kind: queryRuns, Name: "runs", New: engine.NewQuery[runsQuery]},
			{Kind: queryBeat, Name: "beat", New: engine.NewQuery[beatQuery]},
			{Kind: querySchedule, Name: "schedule", New: engine.NewQuery[scheduleQuery]},
			{Kind: querySchedules, Name: "schedules", New: engine.NewQuery[schedulesQuery]},
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
	p.Queries = append(p.Queries, roster.Queries()...)
	p.Queries = append(p.Queries, engine.QueryType{Kind: queryReady, Name: "ready", New: engine.NewQuery[readyQuery]})
	return p
}

func newMachine() engine.Machine {
	return &machine{roster: roster.Roster{Holds: heldBy}, pulses: make(map[uint64]int64)}
}
