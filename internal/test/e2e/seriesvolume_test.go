package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/ts"
)

var (
	manySeriesFlag = flag.Int("many-series", 20_000, "how many series TestManySeries writes")
	manyPointsFlag = flag.Int("many-points", 400_000, "how many points TestManyPoints writes")
)

// TestManySeries fills a process with many series, kills it, and uses them. The cost of opening,
// and of writing and querying some series, must not grow with their number.
func TestManySeries(t *testing.T) {
	n := *manySeriesFlag / volumeBatch * volumeBatch
	c := newCalmProcess(t)
	v := &volume{t: t, c: c, client: c.client()}
	begin := time.Now().Truncate(time.Second)
	all := func(at time.Time) {
		t.Helper()
		var next atomic.Int64
		start, used := time.Now(), processTime(t, c)
		v.each(n, func() error {
			var text []byte
			first := int(next.Add(volumeBatch)) - volumeBatch
			for i := first; i < first+volumeBatch; i++ {
				text = fmt.Appendf(text, "up,host=h%07d,zone=z%d value=%d %d\n", i, i%10, i, at.UnixMilli())
			}
			return importText(t.Context(), v.client, text)
		})
		v.report("%d series written in %v, %v of processors", n, time.Since(start).Round(time.Millisecond), processTime(t, c)-used)
	}
	all(begin)
	all(begin.Add(time.Second))
	c.kill(0)
	start := time.Now()
	c.start(0)
	opened := time.Since(start).Round(time.Millisecond)
	v.report("opened in %v after a kill", opened)

	v.client = c.client() // one that has no series cached
	last := fmt.Sprintf("h%07d", n-1)
	query := fmt.Sprintf(`up{host=%s}[%d..%d] | window(1h) | sum()`, last, begin.Add(-time.Hour).UnixMilli(),
		begin.Add(time.Hour).UnixMilli())
	start = time.Now()
	got := ok[*floql.Result](t)(v.client.FloQL(t.Context(), "default", query))
	if len(got.Series) != 1 || len(got.Series[0].Points) != 1 && len(got.Series[0].Points) != 2 {
		t.Errorf("%s: %+v", query, got)
	}
	v.report("a query for one of them took %v", time.Since(start).Round(time.Microsecond))
	all(begin.Add(2 * time.Second))
	m := ok[ts.Measurement](t)(v.client.TS("default").Get(t.Context(), "up"))
	if m.Series != int64(n) || m.Points != int64(3*n) {
		t.Errorf("%d series with %d points, want %d with 3 each", m.Series, m.Points, n)
	}
	if peak := v.memory("VmHWM"); peak > volumeMemory {
		t.Errorf("the node took %d KiB at most, want %d", peak, volumeMemory)
	}
}

// TestManyPoints fills a process with many points, of a thousand series, and aggregates all of
// them.
func TestManyPoints(t *testing.T) {
	const hosts, steps = 1000, 10
	n := *manyPointsFlag / (hosts * steps) * steps // per host
	c := newCalmProcess(t)
	v := &volume{t: t, c: c, client: c.client()}
	const step = 10 * time.Second
	begin := time.Now().Add(-time.Duration(n) * step).Truncate(time.Hour)
	var next atomic.Int64
	start, used := time.Now(), processTime(t, c)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			var text bytes.Buffer
			for first := int(next.Add(steps)) - steps; first < n && !t.Failed(); first = int(next.Add(steps)) - steps {
				text.Reset()
				for i := first; i < first+steps; i++ {
					appendGauges(&text, hosts, i, begin.Add(time.Duration(i)*step))
				}
				if err := importText(t.Context(), v.client, text.Bytes()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	v.report("%d points written in %v, %v of processors", n*hosts, time.Since(start).Round(time.Millisecond), processTime(t, c)-used)
	for _, q := range []struct {
		stages string
		series int
	}{{"window(1h) | group_by(host) | avg()", hosts}, {"window(5m) | avg()", 1}, {"window(1d) | group_by(host) | max() | topk(3)", 3}} {
		query := fmt.Sprintf("cpu[%d..%d] | %s", begin.UnixMilli(), begin.Add(time.Duration(n)*step).UnixMilli(), q.stages)
		start, used := time.Now(), processTime(t, c)
		got := ok[*floql.Result](t)(v.client.FloQL(t.Context(), "default", query))
		if len(got.Series) != q.series {
			t.Errorf("%s: %d series, want %d", query, len(got.Series), q.series)
		}
		v.report("%s took %v, %v of processors", q.stages, time.Since(start).Round(time.Millisecond), processTime(t, c)-used)
	}
	c.kill(0)
	start = time.Now()
	c.start(0)
	v.report("opened in %v after a kill", time.Since(start).Round(time.Millisecond))
	m := ok[ts.Measurement](t)(c.client().TS("default").Get(t.Context(), "cpu"))
	if m.Points != int64(n*hosts) || m.Series != hosts {
		t.Errorf("%d points of %d series, want %d of %d", m.Points, m.Series, n*hosts, hosts)
	}
	if peak := v.memory("VmHWM"); peak > volumeMemory {
		t.Errorf("the node took %d KiB at most, want %d", peak, volumeMemory)
	}
}

// appendGauges writes a point of each host, with two decimals.
func appendGauges(text *bytes.Buffer, hosts, i int, at time.Time) {
	rng := rand.New(rand.NewPCG(uint64(i), 0))
	millis := strconv.FormatInt(at.UnixMilli(), 10)
	for host := range hosts {
		v := 5000 + (i*37+host*101)%2000 + rng.IntN(50)
		fmt.Fprintf(text, "cpu,host=h%04d usage=%d.%02d ", host, v/100, v%100)
		text.WriteString(millis)
		text.WriteByte('\n')
	}
}

// importText writes lines until they are accepted: they are refused while too much data waits to be
// sealed.
func importText(ctx context.Context, client *floe.Client, text []byte) error {
	for {
		result, err := client.TS("default").WriteLine(ctx, bytes.NewReader(text), ts.Milliseconds)
		if err != nil || result.Refused == 0 {
			return err
		}
		if err := result.Err(); !errors.Is(err, floe.ErrBusy) {
			return err
		}
	}
}
