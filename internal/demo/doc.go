// Package demo is a shop that lives in a node: customers order, workers pick and charge, mail
// bounces, a search index has fallen behind, a job has failed. It has something of everything that
// the console shows, so it is what floe demo serves and what the browser tests look at.
//
// Load makes what has happened until now, Run goes on with it. What is written is a function of the
// seed: of two shops with one seed, the order with a number is the same, and so is what becomes of
// it. When it is written is not, for workers take turns as they come.
//
// Nothing grows for ever: rates are low, and everything that comes has a retention or somebody who
// takes it away.
package demo
