package floe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/metrics"
)

// Collector returns the metrics of the node, for a Prometheus registry:
//
//	prometheus.MustRegister(node.Collector(0))
//
// The metrics are named floe_*; dashboard.NewExporter serves them over HTTP. Each scrape queries
// the node and takes at most a second, even on a busy node. Listings are collected in the
// background; floe_metrics_age_seconds is their age. objects is how many queues, streams, groups,
// jobs, workflows, actions and namespaces have their own series: the first of each kind, by
// namespace and name. 0 means 1000, negative none. The others are summed up in a series with the
// namespace "_other"; floe_metrics_objects_left_out is their number. Floe's own objects are not
// shown.
func (n *Node) Collector(objects int) prometheus.Collector {
	s := metrics.Source{Host: n.host, Version: Version, Replica: engine.NewRouter(n.host.StaleDoor())}
	if n.peer != nil {
		s.Traffic = n.peer.Traffic
		s.Limits = func() (all []metrics.Limit) {
			for _, l := range n.peer.Limits() {
				all = append(all, metrics.Limit(l))
			}
			return all
		}
	}
	return metrics.New(s, objects)
}
