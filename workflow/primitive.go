package workflow

import "github.com/floedb/floe/internal/engine"

// Counters of the machine, by namespace.
const (
	countWorkflows engine.Counter = iota
	countActive
	countStarted
	countCompleted
	countFailed
	countCancelled
	countTimedOut
	countSignals
	countTimers
	countSteps
	countSchedules
	countUndoFailed
)

// Primitive is what package floe makes nodes and clients with workflows of; programs have no use for it.
var Primitive = newWiring()

type (
	hiddenWiring = engine.Wiring[Store]
	wiring       struct{ *hiddenWiring }
)

func newWiring() wiring { return wiring{engine.NewWiring(table, newStore)} }

func table() engine.Primitive {
	const start = engine.FromUsers | engine.FromShards | engine.FromMachines
	const ended = engine.FromMachines
	return engine.Primitive{
		ID: engine.MachineWorkflow, Name: "workflow", New: func() engine.Machine { return newMachine() },
		// On a full disk what is under way comes to its end, and what is cancelled does.
		Commands: []engine.CommandType{
			{Kind: kindCreate, Name: "create", From: engine.FromUsers, Admit: admit, Reaches: reaches},
			{Kind: kindAdopt, Name: "adopt", From: engine.FromShards},
			{Kind: kindEnable, Name: "enable", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindDelete, Name: "delete", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindStart, Name: "start", From: start, Admit: admit},
			{Kind: kindSignal, Name: "signal", From: engine.FromUsers, Admit: admit},
			{Kind: kindCancel, Name: "cancel", From: start, Admit: admit, Shrinks: true},
			{Kind: kindRetry, Name: "retry", From: engine.FromUsers, Admit: admit},
			{Kind: kindDone, Name: "end action", From: ended},
			{Kind: kindChildDone, Name: "end child", From: ended},
			{Kind: kindRelay, Name: "relay end", From: engine.FromShards},
			{Kind: kindInvalidate, Name: "invalidate plan", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindPlanNews, Name: "plan news", From: engine.FromShards},
			{Kind: kindTick, Name: "tick schedules", From: engine.FromLeaders},
			{Kind: kindScheduledEnd, Name: "end scheduled run", From: ended},
			{Kind: kindPauseSchedule, Name: "pause schedule", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindTrigger, Name: "trigger", From: engine.FromShards | engine.FromMachines},
			{Kind: kindRemoveVersion, Name: "remove version", From: engine.FromUsers | engine.FromShards, Admit: admit, Shrinks: true},
		},
		Queries: []engine.QueryType{
			{Kind: queryInfo, Name: "info", New: engine.NewQuery[infoQuery]},
			{Kind: queryList, Name: "list", New: engine.NewQuery[listQuery]},
			{Kind: queryRun, Name: "run", New: engine.NewQuery[runQuery]},
			{Kind: queryRuns, Name: "runs", New: engine.NewQuery[runsQuery]},
			{Kind: queryHistory, Name: "history", New: engine.NewQuery[historyQuery]},
			{Kind: queryVersions, Name: "versions", New: engine.NewQuery[versionsQuery]},
		},
		Counters: []engine.CounterType{
			{Counter: countWorkflows, Name: "workflows", Field: func(c *engine.Counts) *int64 { return &c.Workflows }},
			{Counter: countActive, Name: "active runs", Field: func(c *engine.Counts) *int64 { return &c.RunsActive }},
			{Counter: countStarted, Name: "started runs", Field: func(c *engine.Counts) *int64 { return &c.RunsStarted }},
			{Counter: countCompleted, Name: "completed runs", Field: func(c *engine.Counts) *int64 { return &c.RunsCompleted }},
			{Counter: countFailed, Name: "failed runs", Field: func(c *engine.Counts) *int64 { return &c.RunsFailed }},
			{Counter: countCancelled, Name: "cancelled runs", Field: func(c *engine.Counts) *int64 { return &c.RunsCancelled }},
			{Counter: countTimedOut, Name: "timed out runs", Field: func(c *engine.Counts) *int64 { return &c.RunsTimedOut }},
			{Counter: countSignals, Name: "signals", Field: func(c *engine.Counts) *int64 { return &c.Signals }},
			{Counter: countTimers, Name: "timers", Field: func(c *engine.Counts) *int64 { return &c.Timers }},
			{Counter: countSteps, Name: "steps", Field: func(c *engine.Counts) *int64 { return &c.Steps }},
			{Counter: countSchedules, Name: "schedules", Field: func(c *engine.Counts) *int64 { return &c.Schedules }},
			{Counter: countUndoFailed, Name: "failed compensations", Field: func(c *engine.Counts) *int64 { return &c.CompensationsFailed }},
		},
		// Rows of workflows and of their names, and where runs stand.
		Caches: func(k []byte) bool {
			return k[0] == rowWorkflow || k[0] == rowName || k[0] == rowRun && len(k) == partAt+1 && k[partAt] == partHeader
		},
	}
}
