package ts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestSelect compares the index's selection with the filters applied to each series.
func TestSelect(t *testing.T) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 5))
	for _, shards := range []int{1, 4} {
		r := newRig(t, shards)
		if shards > 1 {
			spread(t, r, "n")
		}
		s := storeOf(r, "n")
		var points []ts.Point
		for i := range 1500 {
			tags := map[string]string{"host": fmt.Sprintf("web-%d", i)}
			for tag, values := range map[string]int{"region": 3, "rack": 40, "rare": 200} {
				if n := rng.IntN(values + values/3); n < values {
					tags[tag] = fmt.Sprintf("%c%d", 'a'+n%3, n)
				}
			}
			points = append(points, ts.Point{Measurement: "m", Tags: tags, Fields: map[string]float64{"f": 1}, Time: at(int64(i))})
		}
		write(t, s, points...)
		for range 150 {
			var filters []floql.Filter
			var text []string
			for range 1 + rng.IntN(3) {
				tag := []string{"host", "region", "rack", "rare", "none"}[rng.IntN(5)]
				op := []floql.Op{floql.Equal, floql.NotEqual, floql.Match, floql.NotMatch}[rng.IntN(4)]
				value := fmt.Sprintf("%c%d", 'a'+rng.IntN(3), rng.IntN(12))
				switch rng.IntN(6) {
				case 0:
					value = ""
				case 1:
					value = fmt.Sprintf("web-%d", rng.IntN(1500))
				case 2, 3:
					if op >= floql.Match {
						value = []string{"*", "a*", "web-1?", "{a,b}*", "*[0-4]", "web-*7"}[rng.IntN(6)]
					}
				}
				f, err := floql.NewFilter(tag, op, value)
				if err != nil {
					t.Fatal(err)
				}
				filters, text = append(filters, f), append(text, fmt.Sprintf("%s%s%q", tag, op, value))
			}
			var want []string
			for _, p := range points {
				all := true
				for i := range filters {
					all = all && filters[i].Matches(p.Tags[filters[i].Tag])
				}
				if all {
					want = append(want, p.Tags["host"])
				}
			}
			query := fmt.Sprintf("m{%s}[%d..%d] | group_by(*) | count()", strings.Join(text, ","), machinetest.Epoch,
				machinetest.Epoch+10_000)
			res, err := s.Query(t.Context(), query)
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			var got []string
			for _, one := range res.Series {
				for _, tag := range one.Tags {
					if tag.Key == "host" {
						got = append(got, tag.Value)
					}
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("%d shards: %s selects %d series, want %d", shards, query, len(got), len(want))
			}
		}
	}
}

// TestReadInPages reads several pages of several series, fields and days, with the points in
// blocks, in pages, and in both.
func TestReadInPages(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	const n = 90_000
	want := make(map[hostTime]float64)
	var batch []ts.Point
	for i := range int64(n) {
		host := fmt.Sprint("h", i%3)
		millis := -3*day + i/3*8*second
		v := float64(i % 977)
		want[hostTime{host, at(millis).UnixMilli()}] = v
		batch = append(batch, ts.Point{Measurement: "m", Tags: map[string]string{"host": host}, Fields: map[string]float64{"f": v, "g": -v},
			Time: at(millis)})
		if len(batch) == 15_000 {
			write(t, s, batch...)
			if batch = batch[:0]; i == n/3-1 {
				r.Advance(10 * minute)
			}
		}
	}
	for pass := range 2 {
		for field, sign := range map[string]float64{"f": 1, "g": -1} {
			got := make(map[hostTime]float64)
			last := make(map[string]time.Time)
			for p, err := range s.Read(t.Context(), "m", field) {
				if err != nil {
					t.Fatal(err)
				}
				host := p.Tags[0].Value
				if !p.Time.After(last[host]) {
					t.Fatalf("%s: %v comes behind %v", host, p.Time, last[host])
				}
				last[host] = p.Time
				got[hostTime{host, p.Time.UnixMilli()}] = sign * p.Value
			}
			if len(got) != len(want) {
				t.Fatalf("pass %d: %d points of %s, want %d", pass, len(got), field, len(want))
			}
			for k, v := range want {
				if got[k] != v {
					t.Fatalf("pass %d: %v is %v, want %v", pass, k, got[k], v)
				}
			}
		}
		count := 0
		for p, err := range s.Read(t.Context(), "m", "f", ts.Tags(map[string]string{"host": "h1"}),
			ts.Between(at(-2*day), at(-2*day+minute))) {
			if err != nil || p.Tags[0].Value != "h1" {
				t.Fatal(p, err)
			}
			count++
		}
		if count != 60/8+1 && count != 60/8 {
			t.Errorf("%d points of a minute", count)
		}
		r.Advance(2 * day)
	}
	for range s.Read(t.Context(), "m", "f") {
		break // releases everything
	}
	for _, read := range []func() error{
		func() (err error) {
			for _, err = range s.Read(t.Context(), "m", "") {
			}
			return err
		},
		func() (err error) {
			for _, err = range s.Read(t.Context(), "", "f") {
			}
			return err
		},
	} {
		if err := read(); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("err = %v, want ErrInvalid", err)
		}
	}
}

// TestLimitsOfQueries exceeds each limit by one, in the shards and where their answers are
// combined.
func TestLimitsOfQueries(t *testing.T) {
	for _, shards := range []int{1, 4} {
		r := newRig(t, shards)
		if shards > 1 {
			spread(t, r, "n")
		}
		s := storeOf(r, "n")
		var batch []ts.Point
		for i := range int64(1000) {
			batch = append(batch, point(fmt.Sprint("h", i%10), i*second, float64(i)))
		}
		write(t, s, batch...)
		for _, stages := range []string{"", " | window(1m) | group_by(host) | avg()", " | window(1m) | percentile(50)",
			" | where(value >= 0)"} {
			query := fmt.Sprintf("cpu[%d..%d]%s", machinetest.Epoch, machinetest.Epoch+hour, stages)
			for _, l := range []struct {
				limit floql.Limit
				of    func(n int64) floql.Limits
				n     int64
			}{
				{"points", func(n int64) floql.Limits { return floql.Limits{Points: n} }, 1000},
				{"series", func(n int64) floql.Limits { return floql.Limits{Series: n} }, 10},
			} {
				if _, err := s.Query(t.Context(), query, floql.Options{Limits: l.of(l.n)}); err != nil {
					t.Errorf("%d shards, %s, %s: %d: %v", shards, query, l.limit, l.n, err)
				}
				var exceeded *floql.LimitError
				if _, err := s.Query(t.Context(), query, floql.Options{Limits: l.of(l.n - 1)}); !errors.As(err, &exceeded) ||
					exceeded.Limit != l.limit {
					t.Errorf("%d shards, %s, %s: %d: %v, want a LimitError", shards, query, l.limit, l.n-1, err)
				}
			}
			var exceeded *floql.LimitError
			if _, err := s.Query(t.Context(), query, floql.Options{Limits: floql.Limits{Bytes: 1000}}); !errors.As(err, &exceeded) ||
				exceeded.Limit != "bytes" {
				t.Errorf("%d shards, %s: 1000 bytes: %v, want a LimitError", shards, query, err)
			}
		}
	}
}

// TestTooManyPointsAreNotRead: a query over its limit of points is refused before it reads them, if
// the number is known.
func TestTooManyPointsAreNotRead(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	var batch []ts.Point
	for i := range int64(10_000) {
		batch = append(batch, point(fmt.Sprint("h", i%10), -5*day+i*second, float64(i)))
	}
	write(t, s, batch...)
	r.Advance(hour)
	for _, of := range []string{"cpu", "cpu{host=h1}"} {
		query := fmt.Sprintf("%s[%d..%d] | window(1h) | avg()", of, machinetest.Epoch-10*day, machinetest.Epoch)
		var exceeded *floql.LimitError
		if _, err := s.Query(t.Context(), query, floql.Options{Limits: floql.Limits{Points: 999}}); !errors.As(err, &exceeded) ||
			exceeded.Limit != "points" {
			t.Errorf("%s: %v, want a LimitError", query, err)
		}
		if _, err := s.Query(t.Context(), query, floql.Options{Limits: floql.Limits{Points: 10_000}}); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// TestBlocksInBudget: the unsealed blocks that a query holds count towards its memory limit, to the
// byte.
func TestBlocksInBudget(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range int64(10) {
		var batch []ts.Point
		for k := range int64(1000) {
			batch = append(batch, point("a", (1000*i+k)*second, rng.Float64()))
		}
		write(t, s, batch...)
	}
	_, bytes := ts.CountRows(r, 0, ts.RowBlock)
	query := fmt.Sprintf("cpu[%d..%d] | avg()", at(0).UnixMilli(), at(day).UnixMilli())
	ask := func(limit int64) error {
		_, err := s.Query(t.Context(), query, floql.Options{Limits: floql.Limits{Bytes: limit}})
		return err
	}
	var exceeded *floql.LimitError
	if err := ask(int64(bytes) / 2); !errors.As(err, &exceeded) || exceeded.Limit != "bytes" {
		t.Errorf("a query in half of what the blocks take = %v", err)
	}
	if err := ask(8 * int64(bytes)); err != nil {
		t.Errorf("a query in enough memory = %v", err)
	}
	r.Advance(5 * minute) // sealed: it reads one page at a time
	if err := ask(int64(bytes) / 2); err != nil {
		t.Errorf("the query over pages = %v", err)
	}
}

// TestLittleAnswersNeedNoSlot: a query over many points with a small answer needs little memory and
// no slot of the large reads. One that returns all points does need a slot.
func TestLittleAnswersNeedNoSlot(t *testing.T) {
	const n = 50_000
	r := newRig(t, 1)
	s := storeOf(r, "n")
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "m f=%d %d\n", i*i%7919, i*100)
	}
	if _, err := s.WriteLine(t.Context(), strings.NewReader(lines.String()), ts.Milliseconds); err != nil {
		t.Fatal(err)
	}
	r.Advance(10 * minute) // sealed, because a query holds unsealed blocks
	readers := engine.NewReaders(0)
	ask := func(ctx context.Context, stages string) error {
		ctx, end := readers.Begin(ctx)
		t.Cleanup(end)
		_, err := s.Query(ctx, fmt.Sprintf("m[0..%d]%s", n*100, stages))
		return err
	}
	for range 5 {
		if err := ask(t.Context(), " | window(1h) | avg()"); err != nil {
			t.Fatalf("an average of all points: %v", err)
		}
	}
	for range 2 {
		if err := ask(t.Context(), ""); err != nil {
			t.Fatalf("all points: %v", err)
		}
	}
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := ask(late, ""); err == nil {
		t.Error("all points are read a third time, and there are two slots")
	}
}
