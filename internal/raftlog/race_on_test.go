//go:build race

package raftlog

// raceEnabled makes tests that search at random search less: the race detector slows them down
// tenfold and has other tests to look at.
const raceEnabled = true
