// Package faults holds the tests that fail every file operation in turn, crash a node at each, and
// damage every kind of file. A failed node leaves parked goroutines of its database behind, so no
// test here checks for leaks.
package faults
