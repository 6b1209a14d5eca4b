// Package metrics makes the figures of a node metrics of Prometheus.
//
// A Collector is asked at each scrape. Figures of the node itself are of this node; those of what
// it holds (queues, groups, jobs ...) are those of its own replicas, so that a scrape needs no
// leader and no other node. In a cluster each node reports the same of them: a query takes max by
// (namespace, queue), not sum.
//
// A scrape waits for nothing that writes can hold up. What has to be listed, and what Pebble says,
// is gathered in the background (see part): a scrape takes it as it comes within a moment, or else
// as it was before, and floe_metrics_age_seconds says how old that is.
//
// However much a node holds, the number of series is bounded: of each kind of things the first so
// many, by namespace and name, have series of their own. The rest is summed up in one series with
// the namespace "_other", which no namespace can have, and floe_metrics_objects_left_out says how
// many they are.
package metrics
