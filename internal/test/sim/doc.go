// Package sim runs whole nodes in one goroutine, without a real clock, network or disk: what
// happens next, what is lost and who crashes follows from a seed. It holds tests only, so `go doc`
// shows nothing; read plan_test.go for the faults, sim_test.go for the suites, and world_test.go
// for how a run goes.
//
// Nodes are shard.Steppers on five injected values: file system, clock, random numbers, transport,
// and disk usage by way of the file system. Clients are coroutines that use the public API of kv
// over a door which gives control back while it waits, so many of them are at work at once and
// still every step is taken in an order that the seed decides. A failing seed prints the command
// that repeats it; once fixed it goes to testdata/seeds, which every run begins with.
package sim
