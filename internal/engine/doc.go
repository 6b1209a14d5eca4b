// Package engine is the common base of floe's primitives. It has machines, transactions over them,
// durable timers, the outbox between shards, namespaces, waiters on topics, and the door through
// which all reads and writes pass.
//
// A Machine is the deterministic core of one primitive. The log of a shard holds its commands. An
// Executor applies them in order, through a Tx, to the shard's part of the state in Pebble. Apply
// must not depend on anything but the log. Time is Tx.Now, the leader's stamp of the entry, and
// identity is Tx.LSN. The package does no I/O except through Pebble and starts no goroutines;
// internal/shard drives it.
//
// # The way of a command
//
//	Scope.Propose, Scope.Take
//	  |
//	  v
//	propose   Executor.Check; the leader's queue
//	  |          a Take that finds nothing waits in the hub instead, and comes back by Ready
//	  v
//	step      the leader puts the queued commands into one Entry with a timestamp
//	  |
//	  v
//	append    the log on disk, here and on followers, until a quorum has the entry
//	  |
//	  v
//	apply     Executor.Apply: the machine's Apply for each command, in order
//	  |          read    overlay of the batch, then row cache, then Pebble
//	  |          write   overlay; a refused command is rolled back to its Savepoint
//	  |          follow  Tx.Then runs commands of other machines as parts of this one
//	  v
//	commit    Executor.Commit: overlay and Applied go to Pebble as one batch, without a WAL;
//	  |          then published to queries. A crash loses batches that were not flushed, whole
//	  |          and from the end; the log has their entries
//	  v
//	wake      hub: queries look again. Ready: takes that can proceed go to propose
//	  |
//	  v
//	the caller has the result
//
// The shard also proposes commands itself. Work that Apply leaves in the state comes back as a
// command:
//
//	left by        stored as        read by            comes back as
//	Tx.Schedule    timer row        Executor.NextDue   Fire, which calls OnTimer
//	Tx.Send        outbox row       Dispatch           Deliver in the other shard, then Settle
//	any change     machine's rows   Duty               Fenced, refused in another term
//
// # The parts of an Executor
//
// One goroutine at a time applies: it calls Apply, Commit, Restore and the methods documented as
// "for the goroutine that applies". Meanwhile queries, takes and duties run in their own
// goroutines.
//
//	part        what it holds                             used by
//	batch       entries applied since the last Commit     the goroutine that applies
//	hashes      the hash of the state, comparisons        the goroutine that applies
//	timers      position of the first timer               the goroutine that applies
//	memories    decoded rows of machines, see Memory      the goroutine that applies
//	committed   rows in Pebble and in the row cache       db, rows: all; iterators: as above
//	published   index, term and time that queries see     written there, read by all
//	dir         namespaces                                written there, read by all
//	outbox      numbers of messages to other shards       written there, read by all
//	hub         waiting queries and takes                 all
//	predictor   topics of items made by a cause           all
//	checks      counts and checks of tests                as its fields say
//
// The mutexes guard the following. Only directory.order is held while another mutex is locked,
// which is directory.mu.
//
//	directory.order   namespaces sorted by name
//	directory.mu      namespaces by name and by number
//	outboxIndex.mu    lanes with messages, by target
//	rowBucket.mu      a part of the row cache, which all shards of the node share
//	Hub.mu            waiters and takes by topic; it is in package wait
//	Predictor.mu      topics by cause; it is in package wait
package engine
