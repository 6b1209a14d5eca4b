package ts

import "github.com/floedb/floe/internal/engine"

// The counters of the machine.
const (
	countMeasurements engine.Counter = iota
	countSeries
	countPoints
)

// Primitive is what package floe makes nodes and clients with time series of; programs have no use for it.
var Primitive = newWiring()

type (
	hiddenWiring = engine.Wiring[Store]
	wiring       struct{ *hiddenWiring }
)

func newWiring() wiring { return wiring{engine.NewWiring(table, newStore)} }

func table() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineTS, Name: "ts", New: newMachine,
		Commands: []engine.CommandType{
			{Kind: kindWrite, Name: "write", From: engine.FromUsers | engine.FromShards | engine.FromMachines, Admit: admit},
			{Kind: kindDelete, Name: "delete measurement", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindDeleteSeries, Name: "delete series", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindSetRetention, Name: "set retention", From: engine.FromUsers, Admit: admit},
			{Kind: kindSetLimit, Name: "set limit", From: engine.FromUsers, Admit: admit},
			{Kind: kindAdoptRetention, Name: "adopt retention", From: engine.FromShards},
			{Kind: kindAdoptLimit, Name: "adopt limit", From: engine.FromShards},
			{Kind: kindSeal, Name: "seal", From: engine.FromLeaders},
			{Kind: kindRewrite, Name: "rewrite", From: engine.FromLeaders},
			{Kind: kindForget, Name: "forget", From: engine.FromLeaders, Shrinks: true},
			{Kind: kindRollup, Name: "rollup", From: engine.FromLeaders},
			{Kind: kindRetire, Name: "retire", From: engine.FromLeaders, Shrinks: true},
			{Kind: kindSettle, Name: "settle", From: engine.FromLeaders, Shrinks: true},
			{Kind: kindAnnounce, Name: "announce", From: engine.FromShards},
			{Kind: kindCount, Name: "count", From: engine.FromLeaders, Shrinks: true},
			{Kind: kindWithdraw, Name: "withdraw", From: engine.FromShards, Shrinks: true},
			{Kind: kindDeleteRange, Name: "delete range", From: engine.FromUsers, Admit: admit, Shrinks: true},
		},
		Queries: []engine.QueryType{
			{Kind: queryResolve, Name: "resolve", New: engine.NewQuery[resolveQuery]},
			{Kind: queryMeasurement, Name: "measurement", New: engine.NewQuery[measurementQuery]},
			{Kind: queryMeasurements, Name: "measurements", New: engine.NewQuery[measurementsQuery]},
			{Kind: querySeries, Name: "series", New: engine.NewQuery[seriesQuery]},
			{Kind: queryRead, Name: "read", New: engine.NewQuery[readQuery]},
			{Kind: queryAggregate, Name: "aggregate", New: engine.NewQuery[aggregateQuery]},
			{Kind: queryTags, Name: "tags", New: engine.NewQuery[tagsQuery]},
			{Kind: queryLast, Name: "last", New: engine.NewQuery[lastQuery]},
		},
		Errors: []engine.ErrorType{engine.NewErrorType(errorLimit, "limit", codeLimit)},
		Counters: []engine.CounterType{
			{Counter: countMeasurements, Name: "measurements", Field: func(c *engine.Counts) *int64 { return &c.Measurements }},
			{Counter: countSeries, Name: "series", Field: func(c *engine.Counts) *int64 { return &c.Series }},
			{Counter: countPoints, Name: "points", Field: func(c *engine.Counts) *int64 { return &c.Points }},
		},
	}
}

// admit checks a command of a user in another process.
func admit(cmd engine.Command, maxPayload int) error { return checkCommand(cmd) }
