// Package pipeline implements the computation of stream processing. It reads and compiles job
// definitions and runs records through their operators. It does not depend on shards, logs or
// clocks: its inputs are passed in and its outputs are returned.
//
// A job is parsed once (Parse), when it is submitted, and compiled (Compile) wherever it runs. A
// Tick is one step of a job. It takes records and produces writes of sinks, failed records, changes
// of state and counts. The same state and the same records in the same order produce the same
// bytes, for any number of workers.
//
// seam.go is the interface for package processing.
package pipeline
