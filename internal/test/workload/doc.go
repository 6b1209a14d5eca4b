// Package workload provides, for each primitive, what the suites that run whole nodes need: random
// client work that checks every answer and audits the final state, and operations that are counted.
// The simulator, the fault suites and e2e take them from the tables here. So a primitive with a
// file and rows in this package is tested by all of them.
package workload
