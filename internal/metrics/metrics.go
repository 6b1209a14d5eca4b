package metrics

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// DefaultObjects is the default number of objects per kind with their own series.
const DefaultObjects = 1000

// Source is the data source of a Collector.
type Source struct {
	Host    *shard.Host
	Version string
	Traffic func() shard.Traffic // of the client port; nil: none
	Replica *engine.Router       // to the node's replicas in their current state: queries do not wait for the log
	Limits  func() []Limit       // nil: none
}

// Limit is a limit and its current use.
type Limit struct {
	Name        string
	Used, Limit int64
}

// Collector collects the metrics of a node.
type Collector struct {
	source  Source
	objects int
	parts   []*collection
}

// New returns a Collector. objects is the number of objects per kind with their own series; 0 means
// DefaultObjects, negative none.
func New(s Source, objects int) *Collector {
	if objects == 0 {
		objects = DefaultObjects
	}
	c := &Collector{source: s, objects: max(objects, 0)}
	now := time.Now()
	c.parts = []*collection{
		{name: "contents", gather: (*scrape).contents, last: gathered{begun: now}},
		{name: "store", gather: (*scrape).stored, last: gathered{begun: now}},
	}
	return c
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		out <- d.Desc
	}
}

// Collect sends all metrics. A closed node reports only that it is not ready.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.scrape()
	s.send(objectsLimit, float64(c.objects))
	if s.node() {
		s.background(c)
	}
	for _, m := range s.metrics {
		out <- m
	}
}

func (c *Collector) scrape() *scrape { return &scrape{source: &c.source, objects: c.objects} }

// background adds the metrics that are gathered in the background.
func (s *scrape) background(c *Collector) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, p := range c.parts {
		p.begin(c)
	}
	for _, p := range c.parts {
		g := p.wait(ctx)
		s.metrics = append(s.metrics, g.metrics...)
		s.failed += g.failed
		s.send(partAge, time.Since(g.begun).Seconds(), p.name)
		s.send(partTime, g.took.Seconds(), p.name)
	}
	s.send(scrapeErrors, float64(s.failed))
}

// scrape collects the metrics of a scrape.
type scrape struct {
	source  *Source
	objects int
	metrics []prometheus.Metric
	failed  int // incomplete listings
}

// description describes a metric.
type description struct {
	*prometheus.Desc
	kind       prometheus.ValueType // 0: a histogram
	name, help string
	labels     []string
}

// descriptions lists all metrics, which are variables of this package.
var descriptions []description

func describe(kind prometheus.ValueType, name, help string, labels []string) description {
	name = "floe_" + name
	d := description{prometheus.NewDesc(name, help, labels, nil), kind, name, help, labels}
	descriptions = append(descriptions, d)
	return d
}

func gauge(name, help string, labels ...string) description {
	return describe(prometheus.GaugeValue, name, help, labels)
}

func counter(name, help string, labels ...string) description {
	return describe(prometheus.CounterValue, name, help, labels)
}

func distribution(name, help string, labels ...string) description {
	return describe(0, name, help, labels)
}

// send adds a value. A label that is not UTF-8 would fail the whole scrape, so it becomes an error
// of its metric. Valid names are always UTF-8.
func (s *scrape) send(d description, value float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d.Desc, d.kind, value, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d.Desc, err)
	}
	s.metrics = append(s.metrics, m)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func number[T ~int | ~uint16 | ~uint64](n T) string { return strconv.FormatUint(uint64(n), 10) }
