// Package check verifies that the answers of nodes keep the guarantees. All suites use the same
// checkers, whatever faults they inject: simulators, kills, power failures, network failures.
//
// A checker is fed while a suite runs and queried at the end; it never talks to a node. Each has
// tests with histories that it must refuse, because a checker that has never failed proves nothing.
package check
