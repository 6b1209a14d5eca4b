// Package processing runs jobs over streams: pipelines that read records of streams as they come,
// run them through operators, and write what comes of them to streams, keys, queues and time
// series, each record once.
//
//	made, err := node.Processing("default").Submit(ctx, []byte(`
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
// A definition can be written in Go, too: see Definition. REFERENCE.md, beside this package, has
// all keys, and the language of expressions.
//
// # Jobs
//
// A job is a definition in YAML or JSON: sources, operators that are applied in order to every
// record, and sinks. It runs from its submission until it is stopped, cancelled, or can not go on;
// Get says how it stands, and why it waits if something holds it up. A job that was stopped goes on
// where it was (Restore), from a savepoint, or with another definition, in which sources and
// operators that have kept their names and keys keep their state.
//
// # Guarantees
//
// A job takes steps, of up to ten times batch_size records. A step is one command of the log: where
// it has come to in its sources, the state of its operators and what its sinks write in the same
// shard happen together, or not at all; what they write elsewhere is sent once, with it. So every
// record has its effects once, whatever crashes and whenever. It holds for streams, keys, queues
// and time series of floe; what others make of them is theirs.
//
// A sink that refuses a record for good, as it is too large, sends it to the stream of errors,
// "<job>.errors"; so does an operator that can not work with one. The records are there as they
// were, with headers that say why (floe-error, floe-operator, floe-source, floe-partition,
// floe-offset, floe-id), for seven days. A sink that is full holds the job, until it takes records
// again: nothing is lost, and nothing grows. While users write to the shard of a job its ticks are
// small, so that a job which has much to catch up with does not keep them waiting.
//
// # Time
//
// The event time of a record is that of its id, or what event_time finds in it. The watermark of a
// job is how far the event times of its sources have come, less the disorder they are allowed. It
// fires windows. A partition in which nothing comes any more does not hold it up. When nothing
// comes anywhere, event time runs on with the clock as far as something waits for it, so that the
// last windows fire.
//
// A job with stop_at: latest ends event time when it has read everything: all windows fire and
// sessions end. When such a job is restored, or applied again without stop_at, event time continues
// from where it was before the end, so what is appended later is as late as it would have been
// without. A window that had not been due by then fires a second time if it gets more records, with
// those alone. With a time series as source such a job runs until the delay of the source is over,
// and has read the points that were younger.
//
// Time series are read by the time of their points, up to those that are as old as the delay of the
// source (5 s). Points that are written later than that, before what has been read, are missed.
// Metrics.Missed counts them when the job looks for points, unless they have been sealed since they
// were written. A measurement seals its points after five minutes, or when it has 4 MiB of them: a
// job that was stopped or held for longer, or a flood of points, can miss some that are not
// counted.
//
// # Values
//
// Sums are exact, whatever the order of records, and rounded when they are written. A sum beyond
// the numbers of JSON (about 1.8e308) is an error record in place of the record that an aggregate
// would emit; what has been summed up stays, so a later record may bring it back. An average has no
// such limit, and -0 is written as 0.
//
// # Limits
//
// A sliding window has up to 1,000 panes, of the greatest length that divides its size and its
// slide. When one fires, it costs about three times the root of their number for each key. An
// aggregate computes up to 32 values. A definition has up to 256 KiB, a job up to 100 sources,
// operators and sinks each, and 100 savepoints. What operators make of one record has up to 16 MiB,
// and up to 100,000 records of it go to sinks, in 16 MiB with all that floe adds to them. The keys
// of aggregate, dedup and join have up to 3 KiB, and a key that is made of several parts up to 64
// KiB.
//
// In a namespace that is spread over all shards a job has a part in each, which reads the
// partitions, and the series, that are there. What has one key in one partition stays in its order.
// Calls that change a job return when all shards have heard of it. Operators that keep state by key
// (aggregate, dedup, join) have each key in one shard, to which records are passed from all others;
// those of one shard stay in their order. Event time there is the least of what all shards have
// come to. A shard whose partitions are idle does not hold it up once a grace is over: one idle
// timeout, the longest of the job's sources, from when records come again after all shards were
// idle, and from when a replica has begun to lead. After that the first record of a shard that was
// idle while others were not may be late by the time that a message takes: allow lateness if that
// matters. Records are passed to the shard of what kv_lookup looks up, too. A record that such an
// operator can not work with is in the stream of errors as it was passed to it, and one that has
// been passed to an operator which another definition does not keep is dropped with its state. A
// job stands still while a savepoint of it is made, so that it is of one moment in all shards, and
// can not be stopped while it is being restored from one. Other namespaces that such a job looks
// up, or its sinks write to, must not be spread.
package processing
