package ts_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// Concurrent changes: between a view and the command proposed from it, between two pages of a read,
// and between a check for room and the series that use it.

// ahead is a door that runs a concurrent change once, before a command.
type ahead struct {
	*machinetest.Rig
	do func()
}

// Propose runs the concurrent change first.
func (a *ahead) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	if do := a.do; do != nil {
		a.do = nil
		do()
	}
	return a.Rig.Propose(ctx, shard, cmd)
}

// TestCallersAtTheLimit: callers that all saw the same free room do not exceed the limit.
func TestCallersAtTheLimit(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	must(0, s.SetSeriesLimit(t.Context(), 3))
	write(t, s, point("a", 0, 1), point("b", 0, 1))
	door := &ahead{Rig: r, do: func() { write(t, s, point("c", 0, 1)) }}
	late := engine.StoreOf[ts.Store](engine.NewRouter(door), "n", 0)
	result, err := late.Write(t.Context(), point("d", 0, 1), point("a", second, 2))
	var full *ts.LimitError
	if !errors.As(err, &full) || full.Room != 0 || result.Written != 1 || result.Refused != 1 {
		t.Errorf("Write = %+v, %v, want the point of the series that exists written", result, err)
	}
	if m := must(s.Get(t.Context(), "cpu")); m.Series != 3 {
		t.Errorf("%d series, want 3", m.Series)
	}
}

// TestWrittenWhileRetired: a series without points is checked again once writes to it are
// impossible. Points written in between stay, and so do points written while it is being retired.
func TestWrittenWhileRetired(t *testing.T) {
	for _, late := range []bool{false, true} {
		r := newRig(t, 1)
		s := storeOf(r, "n")
		must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: time.Hour}))
		write(t, s, point("a", 0, 1), point("b", 0, 2))
		r.Advance(6 * minute)
		r.Pass(2 * day)
		steps := 0
		door := &meddler{ground: r, before: func(engine.Command) {
			if steps++; steps == 1 && !late || steps == 2 && late {
				rows(t, r, 'r', map[bool]int{false: 0, true: 2}[late]) // series that are being retired
				write(t, s, point("a", 2*day, 3))
			}
		}}
		r.Fire() // removes the day
		for _, d := range r.Executor(0).Duties(1, func() engine.LeadDoor { return door }) {
			if err := d.Run(t.Context(), d.Lead); !errors.Is(err, errEnough) {
				t.Errorf("duty: %v", err)
			}
		}
		check(t, r, fmt.Sprintf("cpu host=a; value %d 3", 2*day))
		if m := must(s.Get(t.Context(), "cpu")); m.Series != 1 {
			t.Errorf("late: %t: %d series, want one: the other has no points", late, m.Series)
		}
		write(t, s, point("a", 2*day+second, 4), point("b", 2*day, 5))
		counted(t, r, s, 3)
	}
}

// TestChurnAtTheLimit: a full namespace refuses new series and accepts points of existing ones. It
// has room again as soon as retention has removed all points of some series, day after day.
func TestChurnAtTheLimit(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	const limit, daily = 15, 10
	must(0, s.SetSeriesLimit(t.Context(), limit))
	must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 24 * time.Hour}))
	refused, made := 0, 0
	for d := range int64(10) {
		var full *ts.LimitError
		for i := range daily {
			result, err := s.Write(t.Context(), point(fmt.Sprintf("d%d-%d", d, i), d*day, 1), point("stays", d*day+int64(i), 2))
			if err != nil && !errors.As(err, &full) || result.Written == 0 {
				t.Fatalf("day %d: Write = %+v, %v, want the point of the series that stays written", d, result, err)
			}
			refused, made = refused+result.Refused, made+result.Written-1
		}
		if m := must(s.Get(t.Context(), "cpu")); m.Series > limit {
			t.Errorf("day %d: %d series, want up to %d", d, m.Series, limit)
		}
		r.Advance(day)
	}
	if refused == 0 || made < 6*daily {
		t.Errorf("%d new series were made and %d refused in 10 days, want some refused, and room for most", made, refused)
	}
}

// TestMergeOfMany merges more than one step processes: pages that cross the end of a step are cut
// there without loss.
func TestMergeOfMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 0))
	r := newRig(t, 1)
	s := storeOf(r, "n")
	want := make(map[hostTime]float64)
	for generation := range int64(2) {
		var lines strings.Builder
		for i := range int64(100_000) {
			if i%2 != generation && i%7 > 0 {
				continue
			}
			// 8 bytes each
			v, p := math.Ldexp(rng.NormFloat64(), rng.IntN(1000)-500), hostTime{fmt.Sprintf("h%d", i%40),
				machinetest.Epoch - 5*day + i/40*20*second}
			fmt.Fprintf(&lines, "cpu,host=%s value=%v %d\n", p.host, v, p.at)
			want[p] = v
		}
		if result := must(s.WriteLine(t.Context(), strings.NewReader(lines.String()), ts.Milliseconds)); result.Refused > 0 {
			t.Fatal(result.Err())
		}
		r.Advance(6 * minute)
	}
	entries := len(r.Log(0))
	r.Advance(hour)
	found := 0
	for p, err := range s.Read(t.Context(), "cpu", "value") {
		if v := want[hostTime{p.Tags[0].Value, p.Time.UnixMilli()}]; err != nil || v != p.Value {
			t.Fatalf("%+v, %v, want %v", p, err, v)
		}
		found++
	}
	if found != len(want) {
		t.Errorf("%d points, want %d", found, len(want))
	}
	if n := len(r.Log(0)) - entries; n < 2 {
		t.Errorf("%d entries: one step merges all", n)
	}
}

// TestDeletedInBlock: the purge walk for a deleted series waits for the blocks that have points of
// it. These points reach no page.
func TestDeletedInBlock(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	write(t, s, point("a", 0, 1), point("b", 0, 2))
	r.Advance(6 * minute)
	write(t, s, point("a", second, 3), point("b", second, 4))
	must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "a"}))
	door := &patient{ground: r, steps: []func(){func() { r.Pass(6 * minute) }}}
	for _, d := range r.Executor(0).Duties(1, func() engine.LeadDoor { return door }) {
		if err := d.Run(t.Context(), d.Lead); !errors.Is(err, errEnough) {
			t.Errorf("duty: %v", err)
		}
	}
	rows(t, r, ts.RowBlock, 0)
	rows(t, r, 't', 0)
	counted(t, r, s, 2)
}

// paged is the number of points read before and after a change: more than fit in a page in total.
const paged = 75_000

// minTime is earlier than all times of the test.
const minTime = -100 * day

// TestReadWhileItChanges: changes between the pages of a read neither repeat nor reorder points. No
// point that exists throughout is missing. Deleting the measurement ends the read.
func TestReadWhileItChanges(t *testing.T) {
	hosts := []string{"a", "b", "c"}
	kept := map[string]int64{"a": minTime, "b": minTime, "c": minTime}
	for name, change := range map[string]struct {
		do   func(r *machinetest.Rig, s *ts.Store)
		kept map[string]int64 // from when on points exist after the change
		err  error
	}{
		"sealed, restarted and written": {func(r *machinetest.Rig, s *ts.Store) {
			r.Advance(6 * minute)
			r.Restart()
			write(t, s, point("a", -40*hour, -40*60*60))
		}, kept, nil},
		"series deleted": {func(_ *machinetest.Rig, s *ts.Store) {
			must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "b"}))
		}, map[string]int64{"a": minTime, "c": minTime}, nil},
		"too old, and removed": {func(r *machinetest.Rig, s *ts.Store) {
			must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 3 * time.Hour}))
			for sample := range s.Read(t.Context(), "cpu", "value") {
				if sample.Time.Before(at(-3 * hour)) {
					t.Fatalf("there is a point of %v", sample.Time)
				}
			}
			r.Advance(6 * minute)
		}, map[string]int64{"a": -3*hour + 6*minute, "b": -3*hour + 6*minute, "c": -3*hour + 6*minute}, nil},
		"made again": {func(_ *machinetest.Rig, s *ts.Store) {
			must(0, s.Delete(t.Context(), "cpu"))
			write(t, s, point("a", 0, 0))
		}, map[string]int64{"a": 0}, ts.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			s := storeOf(r, "n")
			var lines strings.Builder
			for i := range int64(paged / 3) {
				for _, host := range hosts {
					fmt.Fprintf(&lines, "cpu,host=%s value=%d %d\n", host, -i*6, machinetest.Epoch-i*6*second)
				}
			}
			if result := must(s.WriteLine(t.Context(), strings.NewReader(lines.String()), ts.Milliseconds)); result.Refused > 0 {
				t.Fatal(result.Err())
			}
			n, changed := 0, false
			latest := make(map[string]int64)
			var err error
			for p, e := range s.Read(t.Context(), "cpu", "value") {
				if err = e; err != nil {
					break
				}
				host, at := p.Tags[0].Value, p.Time.UnixMilli()-machinetest.Epoch
				if last, ok := latest[host]; ok && at <= last || p.Value != float64(at/second) {
					t.Fatalf("%s has %v at %d, behind %d", host, p.Value, at, last)
				}
				latest[host] = at
				if n++; n > 1000 && !changed {
					changed = true
					change.do(r, s)
				}
			}
			if !errors.Is(err, change.err) {
				t.Fatalf("after %d points: %v, want %v", n, err, change.err)
			}
			for _, host := range hosts {
				if _, there := change.kept[host]; there && err == nil && latest[host] != 0 {
					t.Errorf("the last point of %s is at %d, want 0: it was there all the time", host, latest[host])
				}
			}
			want, got := make(map[string]int), make(map[string]int)
			for host, from := range change.kept {
				want[host] = int(min(-from/(6*second)+1, paged/3))
			}
			for p := range s.Read(t.Context(), "cpu", "value") {
				got[p.Tags[0].Value]++
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("behind it there are %v, want %v", got, want)
			}
		})
	}
}
