// Package metrics exports the state of a node as Prometheus metrics.
//
// A Collector is called at each scrape. Metrics of the node describe this node. Metrics of its
// contents (queues, groups, jobs ...) come from its own replicas, so a scrape needs no leader and
// no other node. In a cluster each node reports the same contents: a query uses max by (namespace,
// queue), not sum.
//
// A scrape does not wait for anything that writes can delay. Listings and the metrics of Pebble are
// gathered in the background (see collection). A scrape uses the new results if they arrive within
// a moment, otherwise the previous ones; floe_metrics_age_seconds is their age.
//
// The number of series is bounded, regardless of the contents of the node. Of each kind of objects,
// the first ones by namespace and name have their own series, up to a limit. The rest are added up
// in one series with the namespace "_other", which is not a valid name of a namespace. Their number
// is floe_metrics_objects_left_out.
package metrics
