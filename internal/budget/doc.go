// Package budget divides the memory of a node among its uses.
//
// A node bounds the memory that it uses for callers, by counts and by bytes, with or without a
// budget. A budget makes these bounds fit together, so that their sum stays below it. Requests
// beyond a bound are rejected as busy, so that the system does not kill the process. Part of the
// budget is left unassigned, because Go's garbage collector needs room between collections, stacks
// and tables have no separate bound, and decoded data is larger than encoded data.
package budget
