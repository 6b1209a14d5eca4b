package ts_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// history holds the points of a measurement, to check rollups of them.
type history struct {
	t      *testing.T
	r      *machinetest.Rig
	s      *ts.Store
	points map[string]map[int64]float64 // by host and time
}

func newHistory(t *testing.T) *history {
	r := newRig(t, 1)
	return &history{t, r, storeOf(r, "n"), make(map[string]map[int64]float64)}
}

func (h *history) write(points ...ts.Point) {
	h.t.Helper()
	write(h.t, h.s, points...)
	for _, p := range points {
		host := p.Tags["host"]
		if h.points[host] == nil {
			h.points[host] = make(map[int64]float64)
		}
		h.points[host][p.Time.UnixMilli()] = p.Fields["value"]
	}
}

// years writes points over three years, alternating between two hosts.
func (h *history) years() {
	var batch []ts.Point
	for at := -3 * 365 * day; at < 0; at += 7 * hour {
		batch = append(batch, point(fmt.Sprint("h", at/hour&1), at, float64(at/hour%1000)/8))
	}
	h.write(batch...)
}

// maintain runs some steps of the duty.
func (h *history) maintain(steps int) {
	h.t.Helper()
	door := &maintenanceDoor{ground: h.r, steps: steps}
	for _, d := range h.r.Executor(0).Duties(1, func() engine.LeadDoor { return door }) {
		if err := d.Run(h.t.Context(), d.Lead); !errors.Is(err, errEnough) {
			h.t.Fatalf("duty: %v", err)
		}
	}
}

// check compares the completed buckets of a tier with aggregates of all points. Buckets before a
// time may be missing.
func (h *history) check(tier uint16, every, from int64) {
	h.t.Helper()
	counts, sums := make(map[ts.At]float64), make(map[ts.At]float64)
	for host, points := range h.points {
		for at, v := range points {
			k := ts.At{Measurement: "cpu", Tags: "host=" + host + ";", Field: "value", Time: at - (at%every+every)%every}
			if k.Time >= from && k.Time+every <= h.r.Now()-hour {
				counts[k]++
				sums[k] += v // exact: all are multiples of 1/8
			}
		}
	}
	gotCounts, gotSums := ts.Contents(h.r, 0, tier, 1), ts.Contents(h.r, 0, tier, 2)
	wrong := 0
	for k, n := range counts {
		if gotCounts[k] != n || gotSums[k] != sums[k] {
			if wrong++; wrong < 5 {
				h.t.Errorf("bucket %v of tier %d: count %v, sum %v, want %v, %v", time.UnixMilli(k.Time).UTC(), tier, gotCounts[k],
					gotSums[k], n, sums[k])
			}
		}
	}
	if len(counts) == 0 || wrong > 0 {
		h.t.Errorf("%d of %d buckets of tier %d are wrong", wrong, len(counts), tier)
	}
}

// kept checks that there are no raw points before a time.
func (h *history) kept(from int64) {
	h.t.Helper()
	for k := range ts.Contents(h.r, 0, 0, 0) {
		if k.Time < from {
			h.t.Errorf("a point of %v is still there, want none before %v", time.UnixMilli(k.Time).UTC(), time.UnixMilli(from).UTC())
			return
		}
	}
}

var history3 = ts.Retention{
	RawTTL: 7 * 24 * time.Hour,
	Downsample: []ts.Downsample{
		{Every: time.Hour}, {Every: 24 * time.Hour, TTL: 90 * 24 * time.Hour}, {Every: 30 * 24 * time.Hour}, // longer than points are kept
	},
}

// TestRetentionWithRollups: a retention with rollups loses no data. Points expire only once their
// buckets are made, however the duty is interrupted, sealed or not, and whatever the bucket length.
func TestRetentionWithRollups(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		for _, steps := range []int{1, 3, 1 << 30} {
			t.Run(fmt.Sprint("sealed=", sealed, "/steps=", steps), func(t *testing.T) {
				h := newHistory(t)
				h.years()
				if sealed {
					h.r.Advance(6 * minute)
				}
				must(0, h.s.SetRetention(t.Context(), "cpu", history3))
				rng := rand.New(rand.NewPCG(machinetest.Seed(t), 1))
				for range 40 {
					h.r.Pass(rng.Int64N(2 * hour))
					h.r.Fire()
					h.maintain(steps)
					if rng.IntN(4) == 0 {
						h.r.Restart()
					}
					// Points that are as late as allowed.
					late := h.r.Now() - machinetest.Epoch - 7*day + rng.Int64N(day)
					h.write(point("late", late, float64(late/second%100)))
				}
				h.r.Advance(2 * hour)
				for range 45 {
					h.r.Advance(day)
				}
				h.r.Advance(hour)
				h.check(1, hour, -1<<50)
				h.check(2, day, h.r.Now()-89*day)
				h.check(3, 30*day, -1<<50)
				h.kept(h.r.Now() - (7+30+2)*day)
				h.r.Verify()
			})
		}
	}
}

// TestHeldBack: a measurement names the rollup that keeps expired points on disk, and their number.
func TestHeldBack(t *testing.T) {
	for _, shards := range []int{1, 3} {
		r := newRig(t, shards)
		if shards > 1 {
			spread(t, r, "n")
		}
		s := storeOf(r, "n")
		var batch []ts.Point
		for at := -20 * day; at <= 0; at += day {
			for host := range 10 {
				batch = append(batch, point(fmt.Sprint(host), at, 1))
			}
		}
		write(t, s, batch...)
		r.Advance(6 * minute)
		check := func(when string, points, held int64, by ts.Downsample) {
			t.Helper()
			m := must(s.Get(t.Context(), "cpu"))
			listed := collect(s.All(t.Context()))
			if m.Points != points || m.Held != held || m.HeldBy != by || len(listed) != 1 || !reflect.DeepEqual(listed[0], m) {
				t.Errorf("%d shards, %s: %d points, %d held by %v, want %d, %d by %v; listed as %+v", shards, when, m.Points, m.Held,
					m.HeldBy, points, held, by, listed)
			}
		}
		check("for ever", 210, 0, ts.Downsample{})
		hours, months := ts.Downsample{Every: time.Hour, TTL: 15 * 24 * time.Hour}, ts.Downsample{Every: 30 * 24 * time.Hour}
		must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 7 * 24 * time.Hour, Downsample: []ts.Downsample{hours}}))
		r.Deliver()
		check("to be rolled up", 80, 80, hours) // beyond 15 days no rollup needs them
		r.Advance(2 * hour)
		check("rolled up", 80, 0, ts.Downsample{})
		must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 3 * 24 * time.Hour, Downsample: []ts.Downsample{hours, months}}))
		r.Deliver()
		r.Advance(2 * hour)
		check("in a bucket that is open", 40, 40, months)
	}
}

// TestRetentionChangesWhileRollingUp: points not yet rolled up survive changes of the retention,
// including longer ones and ones that restore tiers.
func TestRetentionChangesWhileRollingUp(t *testing.T) {
	h := newHistory(t)
	h.years()
	set := func(ttl time.Duration, rollups ...ts.Downsample) {
		t.Helper()
		must(0, h.s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: ttl, Downsample: rollups}))
		h.r.Pass(hour)
		h.r.Fire()
		h.maintain(2)
	}
	hours, days := ts.Downsample{Every: time.Hour}, ts.Downsample{Every: 24 * time.Hour}
	set(30*24*time.Hour, hours, days) // tiers 1 and 2
	set(10*24*time.Hour, hours, days)
	set(20*24*time.Hour, hours, days) // longer
	set(20*24*time.Hour, days)
	set(5*24*time.Hour, hours, days) // the hourly rollup is tier 3
	for range 10 {
		h.r.Advance(day)
	}
	h.r.Advance(hour)
	h.check(2, day, -1<<50)
	h.kept(h.r.Now() - 7*day)
	// Tier 3 was computed from the remaining points: all except those that were too old at a change
	// to a longer retention.
	h.check(3, hour, machinetest.Epoch-8*day)
	h.r.Verify()
}

// TestExactSumsOfRollups: a bucket's sum is that of its points, rounded once. So is a sum over many
// buckets whose points are gone, also if late points changed the number of parts of a sum.
func TestExactSumsOfRollups(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 24 * time.Hour, Downsample: []ts.Downsample{{Every: time.Minute}}}))
	var all floql.Slice
	put := func(batch ...ts.Point) {
		t.Helper()
		write(t, s, batch...)
		for _, p := range batch {
			for field, v := range p.Fields {
				must(0, all.Add(p.Measurement, p.Tags, field, p.Time, v))
			}
		}
	}
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 2))
	mixed := []float64{1e300, -1e300, 1e16, 1, 1e-16, -1e16, 1e-300, 5e-324, 0.1, 3}
	start := -machinetest.Epoch%minute + minute
	for i := range int64(200) {
		var batch []ts.Point
		for k := range 1 + rng.Int64N(12) {
			v := mixed[rng.IntN(len(mixed))]
			if i%4 == 0 {
				v = math.Round(rng.NormFloat64()*1e4) / 100
			}
			batch = append(batch, point("a", start+i*minute+k*second, v*(1+rng.Float64())))
		}
		put(batch...)
	}
	r.Advance(4 * hour)
	for i := range int64(20) { // late points: some sums now have fewer parts
		for k := range int64(12) {
			put(point("a", start+10*i*minute+k*second, float64(i)))
		}
	}
	window := fmt.Sprintf("cpu[%d..%d]", machinetest.Epoch+start, machinetest.Epoch+start+200*minute)
	queries := []string{" | window(1m) | sum()", " | window(1m) | avg()", " | window(20m) | sum()", " | window(20m) | avg()",
		" | window(200m) | sum()"}
	for range 4 {
		r.Advance(12 * hour)
	}
	for _, q := range queries {
		got, err := s.Query(t.Context(), window+q, floql.Options{Now: time.UnixMilli(r.Now())})
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		want := must(floql.Eval(t.Context(), &all, window+q, floql.Options{Now: time.UnixMilli(r.Now())}))
		if g, w := fmt.Sprint(got.Series), fmt.Sprint(want.Series); g != w || len(got.Series) == 0 {
			t.Errorf("%s\ngot\n%s\nwant\n%s", q, g, w)
		}
	}
	sums := make(map[int64]float64)
	for p, err := range s.Read(t.Context(), "cpu:1m:sum", "value") {
		sums[p.Time.UnixMilli()] = must(p, err).Value
	}
	want := must(floql.Eval(t.Context(), &all, window+queries[0], floql.Options{Now: time.UnixMilli(r.Now())}))
	for _, p := range want.Series[0].Points {
		if got, ok := sums[p.Time.UnixMilli()]; !ok || got != p.Value {
			t.Errorf("cpu:1m:sum at %d is %v, want %v", p.Time.UnixMilli(), got, p.Value)
		}
	}
}

// flaky is a door whose node is sometimes unavailable, and seals only after a while.
type flaky struct {
	*machinetest.Rig
	calls int
}

func (f *flaky) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	f.calls++
	switch f.calls % 5 {
	case 1:
		return nil, engine.ErrUnavailable
	case 2: // written, but not reported
		_, _ = f.Rig.Propose(ctx, shard, cmd)
		return nil, engine.ErrUnavailable
	case 3:
		f.Advance(6 * minute)
		f.Restart()
	}
	return f.Rig.Propose(ctx, shard, cmd)
}

// TestImportWaits: an import continues after the node was unavailable or had too many unsealed
// bytes. It ends with its context.
func TestImportWaits(t *testing.T) {
	r := newRigOf(t, 1, func() engine.Machine { return ts.NewCramped(100_000) })
	var lines strings.Builder
	for i := range int64(100_000) {
		fmt.Fprintf(&lines, "cpu,host=a value=%v %d\n", math.Sqrt(float64(i)), machinetest.Epoch-i*second)
	}
	synctest.Test(t, func(t *testing.T) {
		s := engine.StoreOf[ts.Store](engine.NewRouter(&flaky{Rig: r}), "n", 0)
		result, err := s.Import(t.Context(), strings.NewReader(lines.String()), ts.Milliseconds)
		if err != nil || result.Written != 100_000 || result.Refused != 0 {
			t.Errorf("Import = %+v, %v", result, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		away := engine.StoreOf[ts.Store](engine.NewRouter(&ahead{Rig: r}), "n", 0)
		if _, err := away.Import(ctx, strings.NewReader(lines.String()), ts.Milliseconds); !errors.Is(err, context.DeadlineExceeded) ||
			!errors.Is(err, ts.ErrBusy) {
			t.Errorf("Import into a shard that does not seal = %v, want that of the context and ErrBusy", err)
		}
	})
}

// TestTagsOfTelegraf: a backslash is literal unless it precedes a comma, a space or an equals sign.
// That follows models/points.go of InfluxDB and plugins/serializers/influx/escape.go of Telegraf. A
// NUL does not turn a line into another series.
func TestTagsOfTelegraf(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	escape := strings.NewReplacer(",", `\,`, " ", `\ `, "=", `\=`)
	var lines strings.Builder
	values := []string{`C:\` + `x`, `C:\\x`, `a\\\b`, `a\,b`, `a\ b`, `a\=b`, `\n`, `a, b=c`, `\"q\"`}
	for i, v := range values {
		fmt.Fprintf(&lines, "disk,path=%s value=%d %d\n", escape.Replace(v), i, machinetest.Epoch)
	}
	lines.WriteString("\x00disk,path=a value=1\n")
	result, err := s.WriteLine(t.Context(), strings.NewReader(lines.String()), ts.Milliseconds)
	if err != nil || result.Written != len(values) || result.Refused != 1 {
		t.Errorf("WriteLine = %+v, %v", result, err)
	}
	got := make(map[string]float64)
	for p, err := range s.Read(t.Context(), "disk", "value") {
		got[must(p, err).Tags[0].Value] = p.Value
	}
	for i, v := range values {
		if got[v] != float64(i) || len(got) != len(values) {
			t.Errorf("path %q is %v of %d series, want %d", v, got[v], len(got), i)
		}
	}
}

// TestRetentionBeforePoints: the settings of a measurement without points can be read.
func TestRetentionBeforePoints(t *testing.T) {
	for _, shards := range []int{1, 4} {
		r := newRig(t, shards)
		s := storeOf(r, "n")
		if shards > 1 {
			spread(t, r, "n")
		}
		if _, err := s.Retention(t.Context(), "cpu"); !errors.Is(err, ts.ErrNotFound) {
			t.Errorf("before it is set: %v, want ErrNotFound", err)
		}
		for _, want := range []ts.Retention{history3, {}} {
			must(0, s.SetRetention(t.Context(), "cpu", want))
			if got, err := s.Retention(t.Context(), "cpu"); !reflect.DeepEqual(got, want) || err != nil {
				t.Errorf("%d shards: Retention = %v, %v, want %v", shards, got, err, want)
			}
		}
		if _, err := s.Get(t.Context(), "cpu"); !errors.Is(err, ts.ErrNotFound) {
			t.Errorf("Get: %v, want ErrNotFound", err)
		}
	}
}
