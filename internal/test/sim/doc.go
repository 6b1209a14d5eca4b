// Package sim runs whole nodes in one goroutine, without a real clock, network or disk. A seed
// determines the order of events, losses and crashes. The package holds tests only, so `go doc`
// shows nothing. Read plan_test.go for the faults, sim_test.go for the suites, and world_test.go
// for the course of a run.
//
// Nodes are shard.Steppers with five injected values: file system, clock, random numbers,
// transport, and disk usage through the file system. Clients are coroutines that use the public API
// of kv over a door that yields while it waits. So many of them work at once, and still the seed
// decides the order of all steps. A failing seed prints the command that repeats it. Once fixed it
// is added to testdata/seeds, with which every run begins.
package sim
