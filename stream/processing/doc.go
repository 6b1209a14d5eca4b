// Package processing runs jobs over streams. A job is a pipeline that reads records as they arrive,
// passes them through operators, and writes the results to streams, keys, queues and time series,
// exactly once.
//
//	applied, err := node.Processing("default").Apply(ctx, []byte(`
//	kind: Processing
//	name: large-orders
//	sources:
//	  - name: orders
//	    stream: { name: orders }
//	operators:
//	  - name: large
//	    type: filter
//	    condition: "json:$.amount>100"
//	sinks:
//	  - name: out
//	    stream: { name: large-orders }
//	`))
//
// A program can call Apply each time it starts. Apply does not touch a job that already runs with
// this definition. A definition can also be written in Go: see Definition. The page
// docs/reference/processing.md lists all keys and describes the expression language.
//
// # Jobs
//
// A job is a definition in YAML or JSON: sources, operators that are applied in order to every
// record, and sinks. It runs from its submission until it is stopped or cancelled, completes or
// fails. Get returns its status, and the reason if it is held up. Restore resumes a stopped job
// where it was, from a savepoint, or with another definition. In that definition, sources and
// operators with unchanged names and keys keep their state.
//
// # Guarantees
//
// A job advances in steps of up to ten times batch_size records. A step is one command of the log.
// The positions in the sources, the state of the operators and the sinks' writes to the same shard
// change atomically; writes elsewhere are sent once, with the step. So every record takes effect
// once, even after crashes. This holds for streams, keys, queues and time series of floe, but not
// for systems that read from them.
//
// A record that a sink rejects permanently, for example as too large, goes to the error stream,
// "<job>.errors". So does a record that an operator cannot process. The error stream keeps the
// original records for seven days, with headers that give the reason (floe-error, floe-operator,
// floe-source, floe-partition, floe-offset, floe-id). A full sink holds the job until it accepts
// records again. No records are lost, and no buffer grows. While users write to the shard of a job,
// its ticks are small, so a job with a large backlog does not delay them.
//
// # Time
//
// The event time of a record is the time of its ID, or the value of event_time in it. The watermark
// of a job is the event time that its sources have reached, less their allowed disorder. Windows
// fire when the watermark passes their end. A partition without new records does not hold up the
// watermark. When all partitions are idle, event time advances with the clock until no window waits
// for it, so the last windows fire.
//
// A job with stop_at: latest ends event time when it has read everything: all windows fire and
// sessions end. If it is later restored, or applied again without stop_at, event time continues
// from its value before the end. Records appended later are as late as they would have been without
// the end. A window that was not due before the end fires again if it gets more records, with only
// those records. If a source is a time series, such a job also waits for the source's delay, and
// reads the points that were younger.
//
// Time series are read in order of time, up to the points that are older than the delay of the
// source (5 s). A point that is written after later points have been read is missed. Metrics.Missed
// counts missed points when the job next reads, unless they have been sealed by then. A measurement
// seals its points after five minutes, or at 4 MiB. So if a job was stopped or held for longer, or
// many points arrive, some missed points may not be counted.
//
// # Values
//
// Sums are exact, regardless of the order of records, and are rounded when they are written. A sum
// beyond the range of JSON numbers (about 1.8e308) yields an error record instead of the
// aggregate's record. The sum itself is kept, so later records may bring it back into range. An
// average has no such limit, and -0 is written as 0.
//
// # Limits
//
// A sliding window has up to 1,000 panes, whose length is the greatest common divisor of its size
// and its slide. Firing a window merges, for each key, about three times the square root of that
// number. An aggregate computes up to 32 values. A definition has up to 256 KiB, a job up to 100
// sources, operators and sinks each, and 100 savepoints. The operators' output for one record is up
// to 16 MiB. Up to 100,000 of these records go to sinks, in up to 16 MiB including floe's overhead.
// The keys of aggregate, dedup and join have up to 3 KiB, and a key composed of several parts up to
// 64 KiB.
//
// In a namespace that is spread over all shards a job has a subtask in each, which reads the
// partitions and series of that shard. Records with the same key in the same partition stay in
// order. Calls that change a job return when all shards have applied the change. Other namespaces
// that such a job looks up, or its sinks write to, must not be spread.
//
// Operators with state by key (aggregate, dedup, join) keep each key in one shard, to which the
// other shards pass records; records from one shard stay in order. Records are also passed to the
// shard of the key that kv_lookup reads. If such an operator cannot process a record, the error
// stream contains the record as it was passed to the operator. Records passed to an operator that a
// new definition does not keep are dropped with its state.
//
// Event time in these operators is the minimum over all shards. A shard whose partitions are idle
// does not hold it up after a grace of one idle timeout, the longest of the job's sources. The
// grace starts when records arrive again after all shards were idle, and when a replica becomes
// leader. After that, the first record of a shard that was idle while others were not may be late
// by the latency of a message. Allow lateness if that matters.
//
// A job pauses during a savepoint, so that the savepoint captures one moment in all shards. It
// cannot be stopped during a restore from a savepoint.
package processing
