// Package ts is the time series of a namespace: points of any measurements, with tags and fields,
// that are written in batches, kept in few bytes and queried by FloQL.
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
// A series is a measurement with a set of tags; a point of it has values of some fields at a time
// in milliseconds. There is one value of a field at a time: what is written later replaces what was
// there. Points may come in any order, as long as the retention of the measurement keeps them.
//
// SetRetention says how long points are kept, and which rollups are: of each bucket of time count,
// sum, min, max, first and last. A late point has its buckets computed anew.
//
// # How points are kept
//
// A batch is one command in the log of a shard. Applying it stores the points as the caller has
// encoded them, in a row called a block; a few minutes or megabytes later the leader sorts blocks
// into pages, by time and field, and removes them; and it merges pages until the points of a series
// stand together. Nothing is kept open in memory. So points survive a crash as everything else
// does, with no second mechanism: what was acknowledged is in the log or in the state, as blocks or
// as pages, and sealing and merging are commands too, which happen as a whole or not at all. A
// leader that dies while it seals has done nothing; the next one finds the same blocks.
//
// A caller remembers the numbers of the series that it writes to. They go with fingerprints, which
// the shard compares with its own: a number of a series that was deleted, that got lost with a tail
// of the log, or that another node gave out, is refused and looked for anew, and never leads to a
// wrong series.
//
// # Queries
//
// A query reads one state of each shard. Series are found by an index of tags and their values; of
// those found, and of the fields and the time that are asked for, the points of pages and blocks
// are joined, and aggregated where they are: what travels is states of buckets, which add up to the
// same result, to the last bit, however the points are spread. Points themselves (Read, and queries
// that take them one by one) come in pages, each of one state.
//
// Nothing is read beyond the retention. Where the points of a query are gone and rollups are left
// of them, the finest rollups take their place that fit its windows; a query that they can not
// answer, as a percentile, is refused and not answered in part. "cpu:5m:max" reads a rollup by its
// name: what has been computed so far, some minutes behind the points.
//
// # Guarantees
//
// A write that returns nil is committed and visible. What a batch has for one shard is visible
// together; a batch over several shards of a spread namespace is not atomic, and the Result says
// what was written. A write can be repeated: it is the same points. In a transaction (WriteOp) all
// of the points are written or none.
//
// # Limits
//
// A namespace has up to a million series, unless SetSeriesLimit says otherwise: beyond it new
// series are refused with a LimitError that names the tag with the most values, and those that
// exist are written as before. Series without points leave by themselves. A measurement has up to
// 1,024 fields, a series up to 64 tags. Integers beyond 2^53 are rounded. Counts of points are of
// what was written: points that replace others leave the count when they are sealed, or when
// nothing more has been written to their day for ten minutes; those of deleted series when they
// leave the disk.
package ts
