// Package toy is a state machine for tests of the engine and of its users: counters that are
// changed at once, later, and across shards. It uses every feature of the engine: rows, counts,
// timers, the outbox, topics, refusals.
package toy
