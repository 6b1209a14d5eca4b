// Package machinetest runs state machines in tests without raft, log or clock. Each command is one
// entry, stamped with a time that only the test advances.
package machinetest
