package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floedb/floe/internal/test/reference"
)

const referenceIntro = "# Metrics\n\n" +
	"The metrics port serves these metrics at `/metrics` for Prometheus, with the `go_` and `process_` metrics of the Go client " +
	"library. Counters start at 0 or at the value stored in the data directory. Histograms are native histograms, with classic " +
	"buckets in the text format.\n\n" +
	"In a cluster, every node reports the contents of its own replicas. Use `max by (namespace, queue)`, not `sum`, across nodes. " +
	"The number of series per kind of objects is limited by `metrics.objects`; the others are added up in series with the " +
	"namespace `_other`.\n"

// TestMetricsReference: docs/reference/metrics.md agrees with the descriptions of metrics.
func TestMetricsReference(t *testing.T) {
	page, left := referenceIntro, slices.Clone(descriptions)
	for _, section := range []struct {
		title string
		has   func(d description) bool
	}{
		{"Contents", func(d description) bool { return slices.Contains(d.labels, "namespace") }},
		{"Shards", func(d description) bool { return slices.Contains(d.labels, "shard") }},
		{"Storage", func(d description) bool {
			return strings.HasPrefix(d.name, "floe_store_") || strings.HasPrefix(d.name, "floe_log_")
		}},
		{"The exporter", func(d description) bool { return strings.HasPrefix(d.name, "floe_metrics_") }},
		{"The node", func(description) bool { return true }},
	} {
		var rows [][]string
		left = slices.DeleteFunc(left, func(d description) bool {
			if section.has(d) {
				rows = append(rows, d.row())
				return true
			}
			return false
		})
		page += fmt.Sprintf("\n## %s\n%s", section.title, reference.Table([]string{"metric", "type", "unit", "labels", "meaning"}, rows))
	}
	reference.Check(t, "metrics.md", page)
}

func (d description) row() []string {
	kinds := map[prometheus.ValueType]string{0: "histogram", prometheus.CounterValue: "counter", prometheus.GaugeValue: "gauge"}
	unit := ""
	for _, u := range []string{"bytes", "seconds"} {
		if strings.HasSuffix(strings.TrimSuffix(d.name, "_total"), "_"+u) {
			unit = u
		}
	}
	var labels []string
	for _, l := range d.labels {
		labels = append(labels, reference.Code(l))
	}
	return []string{reference.Code(d.name), kinds[d.kind], unit, strings.Join(labels, ", "), d.help}
}
