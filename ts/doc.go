// Package ts is the time series of a namespace: points of any measurements, with tags and fields,
// written in batches, stored compactly and queried with FloQL.
//
//	series := node.TS("default")
//	_, err := series.Write(ctx, ts.Point{
//		Measurement: "cpu", Tags: map[string]string{"host": "web-01"}, Fields: map[string]float64{"user": 12.5}, Time: time.Now(),
//	})
//	result, err := series.WriteLine(ctx, os.Stdin, ts.Nanoseconds) // the line protocol of InfluxDB
//
//	answer, err := series.Query(ctx, `cpu{host=~"web-*"}[1h] | window(5m) | group_by(host) | avg()`) // FloQL, see package floql
//
// # Concepts
//
// A series is a measurement with a set of tags. A point of a series has values of some fields at a
// time in milliseconds. A field has one value at a time: a later write replaces an earlier one.
// Points may arrive in any order, as long as the retention of the measurement keeps them.
//
// SetRetention sets how long points are kept, and the rollups: count, sum, min, max, first and last
// of each bucket of time. A late point causes its buckets to be recomputed.
//
// # Storage
//
// A batch is one command in the log of a shard. Applying it stores the points as the caller has
// encoded them, in a row called a block. A few minutes or megabytes later the leader sorts blocks
// into chunks, by time and field, and removes the blocks. It merges chunks until the points of a
// series are contiguous. Nothing is kept open in memory, so points survive a crash like all other
// data, without a second mechanism: acknowledged points are in the log or in the state, as blocks
// or as chunks. Sealing and merging are commands too, and atomic. A leader that fails while sealing
// has done nothing; the next one finds the same blocks.
//
// A caller caches the numbers of the series that it writes to, with fingerprints that the shard
// compares with its own. The number of a series may be stale: the series was deleted, its number
// was lost with a tail of the log, or another node assigned it. The shard then refuses the number
// and the caller looks the series up again; points never reach a wrong series.
//
// # Queries
//
// A query reads one state of each shard. Series are found by an index of tags and their values. For
// the series, fields and time range of the query, the points of chunks and blocks are joined and
// aggregated in the shard. Only states of buckets are transferred; they add up to the same result,
// to the last bit, however the points are distributed. Raw points (Read, and queries that process
// them one by one) are transferred in pages, each of one state.
//
// Points beyond the retention are not read. Where the points of a query have been removed and
// rollups remain, the finest rollups that fit its windows replace them. A query that rollups cannot
// answer, such as a percentile, is refused, not answered in part. "cpu:5m:max" reads a rollup
// by its name: what has been computed so far, some minutes behind the points.
//
// # Guarantees
//
// A write that returns nil is committed and visible. The points of a batch for one shard become
// visible together; a batch over several shards of a spread namespace is not atomic, and the Result
// reports what was written. Repeating a write is safe: it writes the same points. In a transaction
// (WriteOp) all of the points are written or none.
//
// # Limits
//
// A namespace has up to a million series, unless SetSeriesLimit sets another limit. Beyond it new
// series are refused with a LimitError that names the tag with the most values; existing series can
// still be written. Series without points are removed automatically. A measurement has up to 1,024
// fields, a series up to 64 tags. Integers beyond 2^53 are rounded. Counts of points count writes.
// Points that replace others leave the count when they are sealed, or when their day has had no
// writes for ten minutes; those of deleted series when they are removed from disk.
package ts
