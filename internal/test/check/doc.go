// Package check says whether what nodes answered is what they promise. Every suite feeds the same
// checkers, whatever it does to the nodes meanwhile: simulators, kills, power cuts, networks that
// fail.
//
// A checker is fed while a suite runs and asked at the end; it never talks to a node. Each has
// tests that feed it histories it must refuse, because a checker that never failed proves nothing.
package check
