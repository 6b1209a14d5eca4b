package floe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/metrics"
)

// Collector returns the metrics of the node, for a registry of Prometheus:
//
//	prometheus.MustRegister(node.Collector(0))
//
// They are named floe_*; dashboard.NewExporter serves them over HTTP. The node is asked at each
// scrape, which takes a second at most, however busy it is: what has to be listed is gathered in
// the background, and floe_metrics_age_seconds says how old it is. Of each kind of things (queues,
// streams, groups, jobs, workflows, actions, namespaces) the first so many, by namespace and name,
// have series of their own; 0 means 1000, negative none. The rest is summed up in a series with the
// namespace "_other", and floe_metrics_objects_left_out says how many they are. What belongs to
// floe itself is not shown.
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
