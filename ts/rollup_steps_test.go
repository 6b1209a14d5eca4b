package ts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// rollupSteps runs the duty and returns, for each rollup step, from where on and from which series
// on buckets are left to compute, in seconds since start.
func rollupSteps(t *testing.T, r *machinetest.Rig, start int64) (steps []string) {
	t.Helper()
	r.EachStep(func(next map[string]func() (any, error)) {
		for _, step := range next {
			got, err := step()
			cmd, _ := got.(*engine.Command)
			if err != nil {
				t.Fatal(err)
			}
			if cmd == nil {
				continue
			}
			if len(steps) > 10 {
				t.Fatalf("the duty does not end: %q", steps)
			}
			in := codec.NewReader(cmd.Body) // of a fenced command
			in.Uvarint()
			inner := must(engine.DecodeCommand(in.Rest()))
			if _, body, err := rollup.Read(inner); inner.Kind == rollup.Kind {
				is := must(body, err).is
				s := fmt.Sprint((is.from - start) / 1000)
				if is.series > 0 {
					s += fmt.Sprintf(" to %d from series %d", (is.chunk-start)/1000, is.series)
				}
				steps = append(steps, s)
			}
		}
	})
	return steps
}

// TestRollupSteps: how a step that would read or write too much is divided: into fewer buckets, and
// one bucket into ranges of series.
func TestRollupSteps(t *testing.T) {
	const hour = int64(3600 * 1000)
	start := machinetest.Epoch - machinetest.Epoch%(24*hour) - 48*hour
	rng := rand.New(rand.NewPCG(1, 1))
	random := func() float64 { return math.Ldexp(rng.NormFloat64(), rng.IntN(1000)-500) } // 8 bytes
	host := func(i int) map[string]string { return map[string]string{"host": fmt.Sprintf("%05d", i)} }
	for _, c := range []struct {
		name  string
		every time.Duration
		write func(put func(host map[string]string, seconds float64, fields int), seal func())
		want  []string
	}{
		// Two halves of a day of 0.5 MB each, sealed one after the other.
		{"half a day", 3 * time.Hour, func(put func(map[string]string, float64, int), seal func()) {
			for half := range 2 {
				for i := range maxBatch {
					put(host(i%4), float64(half)*12*3600+float64(i)*0.6, 1)
				}
				seal()
			}
		}, []string{"43200", "86400"}},
		// 1.5 MB of chunks in one bucket, 1.1 MB of them of the first series, in three generations.
		{"one bucket", 12 * time.Hour, func(put func(map[string]string, float64, int), seal func()) {
			for generation := range 3 {
				for i := range maxBatch {
					put(host(max(i%10-6, 0)), float64(i)*0.6+float64(generation)*0.1, 1)
				}
				seal()
			}
			put(host(0), 13*3600, 1)
			seal()
		}, []string{"0 to 43200 from series 1", "43200", "86400"}},
		// 4,096 buckets of 10 series: 0.3 MB of points and 1.7 MB of buckets.
		{"many buckets", time.Second, func(put func(map[string]string, float64, int), seal func()) {
			for i := range 4096 {
				for h := range 10 {
					put(host(h), float64(i), 1)
				}
			}
			seal()
		}, []string{"2048", "4096"}},
		// One bucket of 500 series and 100 fields: 0.4 MB of points and 2.3 MB of buckets. Another
		// with a tenth of that.
		{"many fields", time.Hour, func(put func(map[string]string, float64, int), seal func()) {
			for i := range 500 {
				put(host(i), 0, 100)
				if i%10 == 0 {
					put(host(i), 3600, 100)
				}
			}
			seal()
		}, []string{"0 to 3600 from series 250", "0 to 3600 from series 375", "3600", "7200"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := machinetest.New(t, 1, table())
			s, ctx := engine.StoreOf[Store](r.Router(), "n", 0), t.Context()
			var batch []Point
			written := 0
			c.write(func(tags map[string]string, seconds float64, fields int) {
				at := time.UnixMilli(start + int64(seconds*1000))
				p := Point{Measurement: "m", Tags: tags, Fields: make(map[string]float64), Time: at}
				for f := range fields {
					p.Fields[fmt.Sprint("f", f)] = random()
				}
				batch = append(batch, p)
			}, func() {
				if result, err := s.Write(ctx, batch...); err != nil || result.Written != len(batch) {
					t.Fatalf("Write = %+v, %v", result, err)
				}
				written, batch = written+len(batch), nil
				r.Advance(sealAge)
				r.Advance(sealAge) // the rest
			})
			if err := s.SetRetention(ctx, "m", Retention{Downsample: []Downsample{{Every: c.every}}}); err != nil {
				t.Fatal(err)
			}
			if got := rollupSteps(t, r, start); !slices.Equal(got, c.want) {
				t.Errorf("steps %q, want %q", got, c.want)
			}
			counted := 0.0
			for sample, err := range s.Read(ctx, "m:"+formatEvery(c.every)+":count", "f0") {
				if counted += sample.Value; err != nil {
					t.Fatal(err)
				}
			}
			if int(counted) != written {
				t.Errorf("%v points are in buckets, want %d", counted, written)
			}
		})
	}
}
