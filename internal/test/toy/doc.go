// Package toy is a state machine for tests of the engine and of what carries it: counters that are
// changed at once, later, and across shards. It uses every ability of the engine: rows, counts,
// timers, the outbox, topics, refusals.
package toy
