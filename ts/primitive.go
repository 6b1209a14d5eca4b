package ts

import "github.com/floedb/floe/internal/engine"

// Counters of the machine.
const (
	countMeasurements engine.Counter = iota
	countSeries
	countPoints
)

var _ = engine.Provide(table, newStore)

func table() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineTS, Name: "ts", New: newMachine,
		Commands: commands.Types(),
		Queries: []engine.QueryType{
			queryRow[resolveQuery](queryResolve, "resolve"),
			queryRow[measurementQuery](queryMeasurement, "measurement"),
			queryRow[measurementsQuery](queryMeasurements, "measurements"),
			queryRow[seriesQuery](querySeries, "series"),
			queryRow[readQuery](queryRead, "read"),
			queryRow[aggregateQuery](queryAggregate, "aggregate"),
			queryRow[tagsQuery](queryTags, "tags"),
			queryRow[lastQuery](queryLast, "last"),
		},
		Errors: []engine.ErrorType{engine.NewErrorType(errorLimit, "limit", codeLimit)},
		Counters: []engine.CounterType{
			{Counter: countMeasurements, Name: "measurements", Field: func(c *engine.Counts) *int64 { return &c.Measurements }},
			{Counter: countSeries, Name: "series", Field: func(c *engine.Counts) *int64 { return &c.Series }},
			{Counter: countPoints, Name: "points", Field: func(c *engine.Counts) *int64 { return &c.Points }},
		},
	}
}
