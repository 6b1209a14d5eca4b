// Package faults holds the tests that fail every file operation in turn, crash a node at each, and
// damage every kind of file. A failed node leaves goroutines of its database parked for good, so no
// test here looks for leaks.
package faults
