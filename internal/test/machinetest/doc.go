// Package machinetest runs state machines for tests without raft, log or clock: each command is one
// entry, stamped with a time that only the test moves.
package machinetest
