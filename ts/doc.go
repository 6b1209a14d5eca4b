// Package ts provides the time series of a namespace: points of any measurement, with tags and
// fields, written in batches, stored compactly and queried with FloQL.
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
// Points may arrive in any order, within the retention of the measurement.
//
// SetRetention sets how long points are kept, and the rollups: count, sum, min, max, first and last
// of each bucket of time. A late point causes its buckets to be recomputed.
//
// # Storage
//
// A batch is one command in the log of a shard. Applying it stores the points in the caller's
// encoding, in a row called a block. A few minutes or megabytes later the leader sorts blocks into
// chunks, by time and field, and removes the blocks. It merges chunks until the points of a series
// are contiguous. No points exist only in memory, so they survive a crash like all other data:
// acknowledged points are in the log or in the state, as blocks or as chunks. Sealing and merging
// are commands too, and atomic. If a leader fails while sealing, the next one finds the same
// blocks.
//
// A caller caches the numbers of the series that it writes to, with fingerprints that the shard
// compares with its own. The number of a series may be stale, because the series was deleted, its
// number was lost with a tail of the log, or another node assigned it. The shard then refuses the
// number, and the caller looks the series up again. Points never reach the wrong series.
//
// # Queries
//
// A query reads one state of each shard. Series are found by an index of tags and their values. For
// the series, fields and time range of the query, the points of chunks and blocks are joined and
// aggregated in the shard. Only states of buckets are transferred. They add up to the same result,
// to the last bit, for any distribution of the points. Raw points (Read, and queries that process
// them one by one) are transferred in pages, each of one state.
//
// Points beyond the retention are not read. If the points of a query have been removed and rollups
// remain, the finest rollups that fit its windows replace them. A query that rollups cannot answer,
// such as a percentile, is refused rather than answered in part. "cpu:5m:max" reads a rollup by its
// name; it lags some minutes behind the points.
//
// # Guarantees
//
// A write that returns nil is committed and visible. The points of a batch for one shard become
// visible together; a batch over several shards of a spread namespace is not atomic, and the Result
// reports what was written. Repeating a write is safe: it writes the same points. A transaction
// (WriteOp) writes all of its points or none.
//
// # Limits
//
// A namespace has up to a million series, unless SetSeriesLimit sets another limit. Beyond it new
// series are refused with a LimitError that names the tag with the most values; existing series can
// still be written. Series without points are removed automatically. A measurement has up to 1,024
// fields, a series up to 64 tags. Integers beyond 2^53 are rounded. Counts of points count writes.
// Points that replace others are subtracted when they are sealed, or when their day has had no
// writes for ten minutes. Points of deleted series are subtracted when they are removed from disk.
package ts
