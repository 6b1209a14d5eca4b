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

var _ = engine.Provide(table, newStore)

func table() engine.Primitive {
	types := commands.Types()
	types[kindCreate-1].Admit, types[kindCreate-1].Reaches = admitCreate, reaches
	return engine.Primitive{
		ID: engine.MachineWorkflow, Name: "workflow", New: func() engine.Machine { return newMachine() },
		Commands: types,
		Queries: []engine.QueryType{
			engine.QueryRow(queryInfo, "info", func(m *machine, v *engine.View, q *infoQuery) error { return m.seen.info(v, q) }),
			engine.QueryRow(queryList, "list", func(m *machine, v *engine.View, q *listQuery) error { return m.seen.list(v, q) }),
			engine.QueryRow(queryRun, "run", func(m *machine, v *engine.View, q *runQuery) error { return m.seen.run(v, q) }),
			engine.QueryRow(queryRuns, "runs", func(m *machine, v *engine.View, q *runsQuery) error { return m.seen.runs(v, q) }),
			engine.QueryRow(queryHistory, "history",
				func(m *machine, v *engine.View, q *historyQuery) error { return m.seen.history(v, q) }),
			engine.QueryRow(queryVersions, "versions", func(_ *machine, v *engine.View, q *versionsQuery) error { return versions(v, q) }),
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
			{Counter: countUndoFailed, Name: "failed compensations",
				Field: func(c *engine.Counts) *int64 { return &c.CompensationsFailed }},
		},
		// Rows of workflows, of their names, and headers of runs.
		Caches: func(k []byte) bool {
			return k[0] == rowWorkflow || k[0] == rowName || k[0] == rowRun && len(k) == partAt+1 && k[partAt] == partHeader
		},
	}
}
