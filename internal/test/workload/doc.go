// Package workload has what the suites that run whole nodes need of each primitive: work that
// clients do at random, which checks everything that it is told and audits what is left, and
// operations that are counted. The simulator, the fault suites and e2e take them from the tables
// here, so a primitive that has a file and rows in this package is tried by all of them.
package workload
