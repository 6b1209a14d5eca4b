package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/floedb/floe/internal/meter"
)

// The classic buckets of a histogram end at powers of four, from 15 microseconds to 16 seconds.
// They serve scrapes in text format, and servers not configured for native histograms.
const classicStep = 2

// histogram is both a native and a classic histogram.
type histogram struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	meter.Distribution
}

// distribution adds a histogram.
func (s *scrape) distribution(d description, of meter.Distribution, labels ...string) {
	s.metrics = append(s.metrics, &histogram{d.Desc, prometheus.MakeLabelPairs(d.Desc, labels), of})
}

// Desc returns the description of the metric.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write encodes the metric.
func (h *histogram) Write(m *dto.Metric) error {
	m.Label = h.labels
	m.Histogram = &dto.Histogram{
		SampleCount: proto.Uint64(h.Count), SampleSum: proto.Float64(h.Sum.Seconds()),
		Schema: proto.Int32(meter.Schema), ZeroThreshold: proto.Float64(0), ZeroCount: proto.Uint64(0),
	}
	for exponent := -16; exponent <= 4; exponent += classicStep {
		m.Histogram.Bucket = append(m.Histogram.Bucket,
			&dto.Bucket{CumulativeCount: proto.Uint64(h.AtMost(exponent)), UpperBound: proto.Float64(math.Exp2(float64(exponent)))})
	}
	m.Histogram.PositiveSpan, m.Histogram.PositiveDelta = spans(h.Buckets)
	if len(m.Histogram.PositiveSpan) == 0 { // an empty span marks the histogram as native
		m.Histogram.PositiveSpan = []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(0)}}
	}
	return nil
}

// spans encodes buckets as in native histograms: the offset of each run of buckets from the
// previous one, and the difference of each count from the previous one.
func spans(buckets []meter.Bucket) (all []*dto.BucketSpan, deltas []int64) {
	next, before := 0, int64(0)
	for i, b := range buckets {
		if i == 0 || b.Index != next {
			all = append(all, &dto.BucketSpan{Offset: proto.Int32(int32(b.Index - next)), Length: proto.Uint32(0)})
		}
		*all[len(all)-1].Length++
		deltas = append(deltas, int64(b.Count)-before)
		next, before = b.Index+1, int64(b.Count)
	}
	return all, deltas
}
