// Package shard runs shards. Each shard is a raft group over the node's shared log, and an
// engine.Executor applies its committed entries to the state in Pebble.
//
// # Goroutines of a shard
//
// A box is a struct with its own goroutine: its run method.
//
//	callers: Propose, Take          peers; reads of a cluster
//	   |                               |
//	   v                               |
//	admission: room in the             |
//	   |       queue, else ErrBusy     |
//	   v                               v
//	mailbox <------------------------------------------------------------.
//	   |                                                                 |
//	   v                                                                 |
//	+-------------+  appends    +-----------------------------------+    |
//	| loop        |------------>| logWriter of the host: one write  |--->| durable
//	|             |             |   and one fsync for all shards    |    |
//	|  core.Step  |             +-----------------------------------+    |
//	|             |  committed  +-----------------------------------+    |
//	|             |------------>| applier                           |----' applied
//	|             |             |   Executor.Apply, Executor.Commit |
//	|             |             +-----------------------------------+
//	|             |                | outcomes         | index, time
//	|             |                v                  v
//	|             |             pending:           waitingReads:
//	|             |             callers            Executor.Query
//	|             |  messages
//	|             |------------> Transport, with snapshots of exports
//	|             |  leader, term
//	|             |------------> role
//	|             |  poke       +-----------------------------------+
//	|             |------------>| sender: a goroutine per target    |---> Propose, in the
//	|             |             +-----------------------------------+     target or here
//	|             |  poke       +-----------------------------------+
//	|             |------------>| dutyRunner: a goroutine per duty  |---> Propose, here
//	+-------------+             +-----------------------------------+
//
// The stages overlap: while one entry is applied, the next is appended and a third gathers
// commands. loop and applier each have a mutex, because other goroutines also do their work. The
// logWriter's goroutine steps all loops after a round (loop.goOn). A loop with a single command
// takes it through all stages itself (loop.goThrough). A Stepper has no goroutines and takes the
// steps itself.
//
// The goroutines of the host are in Host.start.
//
// # What each mutex guards
//
//	loop.mu            the core, the last input, appends that wait for a snapshot
//	applier.mu         writing with the Executor, outcomes of the batch, the comparer
//	logWriter.roundMu  the batch being written; held during write and fsync
//	logWriter.mu       appends for the next round
//	applyQueue.mu      work for the applier
//	mailbox.mu         input for the next step
//	pending.mu         proposals in the log, by entry
//	waitingReads.mu    reads, with the index or time they wait for
//	line.mu            large proposals that wait for room in the queue
//	exports.mu         snapshots that were announced and not sent
//	sender.mu          deliveries by target
//	shardClock.mu      the shard's time
//	clocks.mu          the clocks of other nodes; of the host
//	Host.mu            why the host has failed
//
// The order in which a goroutine locks them:
//
//	loop.mu -> logWriter.roundMu   TryLock
//	loop.mu -> applier.mu          TryLock
//	any of these three -> any other
//	line.mu -> Host.mu             by admission.enter
//
// All others are leaves. A goroutine that waits for applier.mu therefore holds no other mutex.
// Under loop.mu the shard also calls Config.Alive, Config.Full and Transport.Send, which do not
// wait.
package shard
