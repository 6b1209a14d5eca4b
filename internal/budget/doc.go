// Package budget divides the memory of a node over all that takes any.
//
// What a node holds for its callers is bounded whatever the budget, by counts and by bytes; a
// budget makes these bounds fit together, so that all of them used up at once are less than it.
// What is beyond a bound is refused as busy, and nobody has to be killed. A part of the budget is
// given to nobody: Go's garbage collector needs room between two collections, stacks and tables
// have no bound of their own, and what is decoded is larger than what was sent.
package budget
