package ts_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/ts"
)

// lines returns points of several series in the line protocol, one text per time step. Values are a
// random walk with two decimals or, with full set, use all digits.
func lines(series, steps int, start time.Time, full bool) [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([]float64, series)
	for i := range values {
		values[i] = 50 + 10*rng.NormFloat64()
	}
	var all [][]byte
	for step := range steps {
		var b bytes.Buffer
		at := start.Add(time.Duration(step) * 10 * time.Second).UnixNano()
		for i := range values {
			if values[i] += 0.5 * rng.NormFloat64(); full {
				fmt.Fprintf(&b, "cpu,host=host-%04d,region=eu-west usage=%v %d\n", i, values[i], at)
			} else {
				fmt.Fprintf(&b, "cpu,host=host-%04d,region=eu-west usage=%.2f %d\n", i, math.Round(values[i]*100)/100, at)
			}
		}
		all = append(all, b.Bytes())
	}
	return all
}

// BenchmarkWriteLine writes batches of 5,000 points of 1,000 series. It reports points per second
// and bytes of log commands.
func BenchmarkWriteLine(b *testing.B) {
	for _, full := range []bool{false, true} {
		b.Run(fmt.Sprintf("full=%v", full), func(b *testing.B) {
			node := open(b, floe.Config{DataDir: b.TempDir(), Shards: 1})
			s := node.TS("default")
			text := lines(1000, 1000, time.Now().Add(-3*time.Hour), full)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				var batch []byte
				for i := range 5 {
					batch = append(batch, text[(5*n+i)%len(text)]...)
				}
				n++
				result, err := s.WriteLine(b.Context(), bytes.NewReader(batch), ts.Nanoseconds)
				if err != nil || result.Refused > 0 {
					b.Fatalf("WriteLine = %+v, %v", result, err)
				}
			}
			b.ReportMetric(float64(5000*b.N)/b.Elapsed().Seconds(), "points/s")
		})
	}
}

// TestBytesPerPoint: sealed and merged gauges with two decimals take little more than a byte per
// point. Values with all digits take about six.
func TestBytesPerPoint(t *testing.T) {
	for _, c := range []struct {
		name          string
		series, steps int
		full          bool
		most          float64
	}{
		{"720 a run", 20, 720, false, 1.25},
		{"60 a run", 100, 60, false, 1.5},
		{"6 a run", 1000, 6, false, 2.6},
		{"full", 20, 720, true, 6.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1)
			s := storeOf(r, "n")
			for _, text := range lines(c.series, c.steps, at(0), c.full) {
				result, err := s.WriteLine(t.Context(), bytes.NewReader(text), ts.Nanoseconds)
				if err != nil || result.Refused > 0 {
					t.Fatalf("WriteLine = %+v, %v", result, err)
				}
			}
			r.Advance(6 * minute)
			r.Advance(2 * day)
			pages, bytes := ts.CountRows(r, 0, ts.RowChunk)
			if got := float64(bytes) / float64(c.series*c.steps); got > c.most {
				t.Errorf("%.2f bytes a point in %d pages, want at most %.2f", got, pages, c.most)
			} else {
				t.Logf("%.2f bytes a point in %d pages", got, pages)
			}
		})
	}
}
