package ts_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/test/floqltest"
	"github.com/floedb/floe/ts"
)

// shown formats a result as the test language does.
func shown(r *floql.Result) string {
	var lines []string
	for _, s := range r.Series {
		lines = append(lines, floqltest.Format(s))
	}
	return strings.Join(lines, "\n")
}

// TestRollupsReplacePoints: once points are gone, a query returns the same result from rollups, or
// an error that it cannot.
func TestRollupsReplacePoints(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint("shards=", shards), func(t *testing.T) {
			r := newRig(t, shards)
			if shards > 1 {
				spread(t, r, "n")
			}
			s := storeOf(r, "n")
			tiers := []ts.Downsample{{Every: time.Minute, TTL: 3 * 24 * time.Hour}, {Every: time.Hour}}
			if err := s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 36 * time.Hour, Downsample: tiers}); err != nil {
				t.Fatal(err)
			}
			r.Deliver()
			start := r.Now()
			for i := range int64(24 * 60) { // a day before now, and a little more
				var batch []ts.Point
				for h := range int64(3) {
					p := point(fmt.Sprint("h", h), 0, math.Sin(float64(i*h))*100)
					p.Time = time.UnixMilli(start - day + i*minute + h*7*second)
					batch = append(batch, p)
				}
				write(t, s, batch...)
				if i%200 == 0 {
					r.Advance(10 * minute)
				}
			}
			ask := func(query string) (string, error) {
				from, to := start-day-hour, start+hour
				res, err := s.Query(t.Context(), strings.ReplaceAll(query, "RANGE", fmt.Sprintf("[%d..%d]", from-from%hour, to-to%hour)),
					floql.Options{Now: time.UnixMilli(r.Now())})
				if err != nil {
					return "", err
				}
				return shown(res), nil
			}
			exact := []string{
				"cpuRANGE | window(1h) | group_by(host) | avg()", "cpuRANGE | window(6h) | sum()", "cpuRANGE | window(2h) | count()",
				"cpuRANGE | window(1h) | min()", "cpuRANGE | window(1h) | max()", "cpuRANGE | window(1d) | first()",
				"cpuRANGE | window(1h) | last()",
				"cpuRANGE | window(1h) | spread()", "cpu{host=h1}RANGE | window(3h, 1h) | avg()",
				"cpu{host!=h1}RANGE | window(1h) | sum() | window(12h) | max()",
			}
			before := make(map[string]string)
			for _, q := range exact {
				before[q] = must(ask(q))
				if before[q] == "" {
					t.Fatalf("%s finds nothing", q)
				}
			}
			// An end that matches no rollup: the points still exist here.
			open := "cpuOPEN | window(1h) | group_by(host) | sum()"
			unaligned := func() (string, error) {
				return ask(strings.ReplaceAll(open, "OPEN", fmt.Sprintf("[%d..%d]", start-day-(start-day)%hour, start+17*minute+1)))
			}
			before[open] = must(unaligned())
			refused := []string{
				"cpuRANGE | window(1h) | percentile(99)", "cpuRANGE | where(value > 5) | window(1h) | avg()", "cpuRANGE",
				"cpuRANGE | rate(1h)",
				"cpuRANGE | window(1h) | stddev()",
			}
			for _, q := range refused {
				must(ask(q))
			}
			// First the earlier half of the points is gone, then all, then the finer rollups too.
			for n, pass := range []int64{24 * hour, 24 * hour, 3 * day} {
				for end := r.Now() + pass; r.Now() < end; {
					r.Advance(hour)
				}
				for _, q := range exact {
					if got := must(ask(q)); got != before[q] {
						t.Errorf("%v later: %s is\n%s\nwas\n%s", time.Duration(pass)*time.Millisecond, q, got, before[q])
					}
				}
				if got, err := unaligned(); n == 0 && (err != nil || got != before[open]) || n > 0 && !errors.Is(err, ts.ErrInvalid) {
					t.Errorf("pass %d: %s is\n%s, %v\nwas\n%s", n, open, got, err, before[open])
				}
				for _, q := range refused {
					if got, err := ask(q); !errors.Is(err, ts.ErrInvalid) || !strings.Contains(err.Error(), "rollups") {
						t.Errorf("%v later: %s = %s, %v, want ErrInvalid: only rollups are left", time.Duration(pass)*time.Millisecond, q,
							got, err)
					}
				}
			}
			// Rollups by name.
			for _, agg := range []string{"count", "sum", "min", "max", "first", "last"} {
				named := must(ask("cpu:1h:" + agg + "{host=h2}RANGE | alias(cpu)"))
				if want := must(ask("cpu{host=h2}RANGE | window(1h) | group_by(*) | " + agg + "()")); named != want {
					t.Errorf("cpu:1h:%s is\n%s\nwant\n%s", agg, named, want)
				}
			}
			if got := must(ask("cpu:1m:sumRANGE")); got != "" {
				t.Errorf("rollups that are gone: %s", got)
			}
			for _, name := range []string{"cpu:2h:max", "mem:1h:max", "cpu:1h:avg"} {
				if got := must(ask(name + "RANGE")); got != "" {
					t.Errorf("%s: %s", name, got)
				}
			}
			n := 0
			for range s.Read(t.Context(), "cpu:1h:max", "value") {
				n++
			}
			if n < 3*24 {
				t.Errorf("Read of a rollup yields %d samples", n)
			}
		})
	}
}

// TestTiersThatCameLater: rollups added after points or finer rollups are gone do not replace those
// that still have them.
func TestTiersThatCameLater(t *testing.T) {
	const days = 40
	hourly, minutely := ts.Downsample{Every: time.Hour}, ts.Downsample{Every: 5 * time.Minute}
	short, long := ts.Downsample{Every: 5 * time.Minute, TTL: 9 * 24 * time.Hour}, ts.Downsample{Every: 5 * time.Minute,
		TTL: 30 * 24 * time.Hour}
	twoDays := 48 * time.Hour
	for name, settings := range map[string][]ts.Retention{
		"added": {{Downsample: []ts.Downsample{hourly}}, {RawTTL: twoDays, Downsample: []ts.Downsample{hourly}},
			{RawTTL: twoDays, Downsample: []ts.Downsample{hourly, minutely}}},
		"added with longer": {{Downsample: []ts.Downsample{hourly}}, {RawTTL: twoDays, Downsample: []ts.Downsample{hourly}},
			{Downsample: []ts.Downsample{hourly, minutely}}},
		"kept longer": {{RawTTL: twoDays, Downsample: []ts.Downsample{hourly, short}}, {},
			{RawTTL: twoDays, Downsample: []ts.Downsample{hourly, long}}},
		"kept for ever": {{RawTTL: twoDays, Downsample: []ts.Downsample{hourly, short}}, {},
			{RawTTL: twoDays, Downsample: []ts.Downsample{hourly, minutely}}},
		"replaced and again": {{RawTTL: twoDays, Downsample: []ts.Downsample{hourly, minutely}},
			{RawTTL: twoDays, Downsample: []ts.Downsample{hourly}}, {RawTTL: twoDays, Downsample: []ts.Downsample{hourly, minutely}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			s := storeOf(r, "n")
			from := (r.Now()/day + 1) * day
			query := fmt.Sprintf("cpu[%d..%d] | window(1d) | sum()", from, from+days*day)
			var want []string
			for d := range int64(days) {
				if setting := d / (days / 3); d%(days/3) == 0 && setting < 3 && (setting == 0 || len(settings[setting].Downsample) > 0) {
					if err := s.SetRetention(t.Context(), "cpu", settings[setting]); err != nil {
						t.Fatal(err)
					}
				}
				r.Advance(from + d*day + 12*hour - r.Now())
				p := point("a", 0, float64(d+1))
				p.Time = time.UnixMilli(from + d*day)
				write(t, s, p)
				want = append(want, fmt.Sprintf("%d %d", from+d*day, d+1))
				r.Advance(6 * hour)
				got, err := s.Query(t.Context(), query, floql.Options{Now: time.UnixMilli(r.Now())})
				if err != nil {
					t.Fatalf("day %d: %v", d, err)
				}
				var sums []string
				for _, series := range got.Series {
					for _, p := range series.Points {
						sums = append(sums, fmt.Sprintf("%d %v", p.Time.UnixMilli(), p.Value))
					}
				}
				if !slices.Equal(sums, want) {
					t.Fatalf("day %d: sums of days are\n%s, want\n%s", d, strings.Join(sums, "\n"), strings.Join(want, "\n"))
				}
			}
			r.Verify()
		})
	}
}
