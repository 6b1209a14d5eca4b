// Package pipeline is what stream processing computes: it reads definitions of jobs, compiles them,
// and runs records through their operators. It knows nothing of shards, logs and clocks: what it
// reads is given to it, and what it makes is handed back.
//
// A job is Parsed once, when it is submitted, and Compiled by whoever runs it. A Tick is one step
// of it: records go in, and out come writes of sinks, records that failed, changes of state and
// counts. The same state and the same records in the same order give the same bytes, whatever the
// number of workers.
//
// seam.go is what package processing knows of this one.
package pipeline
