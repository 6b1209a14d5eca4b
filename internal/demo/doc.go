// Package demo is a shop that runs in a node. Customers order, workers pick and charge, mail
// bounces, a search index has fallen behind, a job has failed. The shop has examples of everything
// that the console shows, so floe demo serves it, and the browser tests use it.
//
// Load creates the history and Run continues it. The seed determines the data: in two shops with
// the same seed, an order with the same number is identical and has the same outcome. The timing is
// not deterministic, because the scheduling of workers is not.
//
// The data is bounded: rates are low, and all added data has a retention or a consumer that removes
// it.
package demo
