package points

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// walks adds n points of each of some series, 10 s apart: random walks with steps of sigma 0.5,
// which have two decimals unless they are full floats.
func walks(e *Encoder, series, n int, full bool) {
	rng := rand.New(rand.NewPCG(1, 2))
	e.Reset()
	for s := range series {
		v := 50 + 20*rng.NormFloat64()
		for i := range n {
			v += rng.NormFloat64() * 0.5
			at := 1_700_000_000_000 + int64(i)*10_000
			if full {
				e.Float(uint32(s), 1, at, v)
			} else {
				e.Decimal(uint32(s), 1, at, int64(math.Round(v*100)), 2)
			}
		}
	}
}

// TestSize pins how many bytes a point takes.
func TestSize(t *testing.T) {
	for _, c := range []struct {
		n, series int
		full      bool
		most      float64
	}{
		{2000, 100, false, 1.06}, {720, 100, false, 1.07}, {200, 500, false, 1.10}, {60, 1000, false, 1.15}, {20, 1000, false, 1.30}, {6,
			1000, false, 1.65}, {1, 1000, false, 1.9},
		{2000, 100, true, 6.3}, {720, 100, true, 6.3}, {20, 1000, true, 6.6},
	} {
		var e Encoder
		walks(&e, c.series, c.n, c.full)
		bytes, points := 0, 0
		for p := range e.Chunks(64 << 10) {
			bytes += len(p.Data)
			points += p.Points
		}
		got := float64(bytes) / float64(points)
		t.Logf("runs of %d, full %t: %.3f bytes a point", c.n, c.full, got)
		if got > c.most {
			t.Errorf("runs of %d points, full floats: %t: %.3f bytes a point, want up to %.2f", c.n, c.full, got, c.most)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, full := range []bool{false, true} {
		for _, n := range []int{5, 2000} {
			b.Run(fmt.Sprintf("full=%t/run=%d", full, n), func(b *testing.B) {
				var from, e Encoder
				walks(&from, 10_000/n, n, full)
				points := from.buckets[0].points
				b.ReportAllocs()
				var dst []byte
				for b.Loop() {
					e.Reset()
					// As callers write them: a time after the other, of all series.
					for i := range n {
						for s := 0; s < len(points); s += n {
							p := &points[s+i]
							e.add(1, *p)
						}
					}
					dst = e.Append(dst[:0])
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(points)), "ns/point")
				b.ReportMetric(float64(len(dst))/float64(len(points)), "bytes/point")
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, full := range []bool{false, true} {
		for _, n := range []int{5, 720} {
			b.Run(fmt.Sprintf("full=%t/run=%d", full, n), func(b *testing.B) {
				var e Encoder
				walks(&e, 20_000/n, n, full)
				data := e.Append(nil)
				var r Reader
				var c Cursor
				sum, points := 0.0, e.Len()
				b.ReportAllocs()
				for b.Loop() {
					if err := r.Open(data); err != nil {
						b.Fatal(err)
					}
					r.Runs(1, &c)
					for c.Next() {
						_, values := c.Read()
						sum += values[0]
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*points), "ns/point")
			})
		}
	}
}
