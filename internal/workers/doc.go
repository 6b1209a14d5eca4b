// Package workers is the registry of a namespace's workers: their descriptions, whether they are
// alive, their load and their run counts. The registry holds workers of every kind: action workers,
// stream consumers and queue consumers. Its rows and commands belong to engine.MachineAction.
// Package action embeds a Registry and delegates to it.
//
// # Placement and heartbeats
//
// A worker is stored in the shard of its ID: the namespace's home shard, or any shard if the
// namespace is spread. It joins and leaves by commands. In between, its process sends a report
// every 10 s. A report is a query, and the shard's leader keeps the latest one of each worker in
// memory (heartbeat), so idle workers cause no writes. A duty of the leader (watch) scans the rows
// periodically and writes the data that the next leader needs: changed counts, and workers that
// have become silent.
//
// # Silence
//
// A worker without a heartbeat for 90 s is unhealthy, and after 24 h it is removed. A new leader
// has no heartbeats yet. It assumes that every worker was seen when its term began, except those
// whose rows mark them as silent. A failover therefore changes no worker's health.
//
// # Lives
//
// A worker draws a random number, its life, each time it starts. A report whose life differs from
// the row's counts as a report of an unknown worker, and its process joins again. The counts of
// earlier lives are added to those of the current one until the worker leaves.
//
// # Polling workers
//
// A polling worker has no process that uses this library: it is a program in another language, or a
// script, that polls for each run. Its life is 0. It may register and send heartbeats. In either
// case, each shard counts the ended runs that it gave to the worker (Took, Ended), and treats every
// call of the worker as a heartbeat. A polling worker that holds a run is alive.
package workers
