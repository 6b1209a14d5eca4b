package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/floedb/floe/ts"
)

const (
	past      = 6 * time.Hour // length of the loaded time series
	pointTime = 30 * time.Second
	livePoint = 5 * time.Second // interval between the points of Run: ten ticks
)

// host is a machine of the shop.
type host struct {
	name, region string
	usual        float64 // processor usage in percent
}

var hosts = []host{{"web-01", "eu", 42}, {"web-02", "us", 35}, {"db-01", "eu", 58}}

func (s *Shop) loadSeries(ctx context.Context) error {
	store := s.db.TS(Main)
	keep := ts.Retention{RawTTL: 24 * time.Hour, Downsample: []ts.Downsample{{Every: 5 * time.Minute, TTL: 30 * 24 * time.Hour}}}
	var lines strings.Builder
	n := int(past / pointTime)
	for i := range n {
		s.points(&lines, s.random(seriesStream, i), i, s.now.Add(-time.Duration(n-i)*pointTime))
	}
	_, err := store.WriteLine(ctx, strings.NewReader(lines.String()), ts.Milliseconds)
	errs := []error{err}
	for _, name := range []string{"cpu", "checkout", "orders_total", "revenue"} {
		errs = append(errs, store.SetRetention(ctx, name, keep))
	}
	return errors.Join(errs...)
}

// points writes the lines of the i-th point in time: machines, the checkout, and a counter. The
// database was off for half an hour, and in the last hour the bank gets slower every minute.
func (s *Shop) points(lines *strings.Builder, r *rand.Rand, i int, at time.Time) {
	ms := at.UnixMilli()
	for k, h := range hosts {
		usage := h.usual + 16*wave(i, 240+40*k) + 6*math.Abs(wave(i, 11)) + 5*r.Float64()
		if h.name == "db-01" && i > 300 && i < 360 {
			continue
		}
		fmt.Fprintf(lines, "cpu,host=%s,region=%s usage=%.2f,load=%.2f %d\n", h.name, h.region, usage, usage/20, ms)
	}
	slow := max(0, float64(i)-600) / 120
	for k, bank := range []string{"northbank", "southbank"} {
		p50 := 38 + 10*float64(k) + 6*wave(i, 200) + 4*r.Float64()
		p99 := p50*(3+r.Float64()) + float64(1-k)*400*min(slow, 2)*r.Float64()
		fmt.Fprintf(lines, "checkout,bank=%s p50_ms=%.1f,p99_ms=%.1f %d\n", bank, p50, p99, ms)
	}
	fmt.Fprintf(lines, "orders_total,shop=main value=%d %d\n", i*14+r.IntN(9), ms)
}

// tickSeries continues the time series.
func (s *Shop) tickSeries(ctx context.Context, r *rand.Rand, n int) error {
	var lines strings.Builder
	s.points(&lines, r, int(past/pointTime)+n/10, s.now.Add(time.Duration(n)*livePoint/10))
	_, err := s.db.TS(Main).WriteLine(ctx, strings.NewReader(lines.String()), ts.Milliseconds)
	return err
}
