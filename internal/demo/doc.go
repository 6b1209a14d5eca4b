// Package demo is a shop that runs in a node. Customers order, workers pick and charge, mail
// bounces, a search index has fallen behind, a job has failed. The shop has some of everything that
// the console shows. So floe demo serves it, and the browser tests use it.
//
// Load creates the history and Run continues it. The seed determines the data: in two shops with
// the same seed, an order with the same number is identical and has the same outcome. The timing is
// not determined, because workers are scheduled freely.
//
// The data is bounded: rates are low, and everything that is added has a retention or a consumer
// that removes it.
package demo
