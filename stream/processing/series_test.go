package processing_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestSeriesAsSource: points are read as records in the order of their times, each once, also those
// from before the job.
func TestSeriesAsSource(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	write := func(host string, at int64, v float64) {
		t.Helper()
		p := ts.Point{Measurement: "cpu", Tags: map[string]string{"host": host}, Fields: map[string]float64{"load": v},
			Time: time.UnixMilli(machinetest.Epoch + at)}
		if _, err := s.series.Write(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	write("b", -2000, 1)
	write("a", -2000, 2)
	write("a", -3000, 3)
	write("c", -1000, 4)
	id := s.submit(`
kind: Processing
name: load
sources:
  - name: cpu
    ts: { measurement: cpu, field: load, poll_interval_ms: 1000, delay_ms: 0 }
operators:
  - { name: not-c, type: filter, condition: "json:$.value!=4" }
sinks:
  - { name: out, stream: { name: out } }
`)
	s.run()
	at := func(tags, value, at string) string {
		return `{"measurement":"cpu","tags":{"host":"` + tags + `"},"timestamp_ms":` + at + `,"value":` + value + `}`
	}
	want := []string{at("a", "3", "999999997000"), at("a", "2", "999999998000"), at("b", "1", "999999998000")}
	s.want("out", strings.Join(want, " "))
	s.Advance(5000)
	write("a", 1000, 5)
	s.Restart()
	s.Advance(5000)
	s.Advance(5000)
	s.want("out", strings.Join(append(want, at("a", "5", "1000000001000")), " "))
	if m := s.job(id).Metrics; m.RecordsIn != 5 {
		t.Errorf("metrics %+v", m)
	}
}

// TestLatePoints: points are read when they are old enough. Those written before the read position
// are counted as missed, each once, across restarts.
func TestLatePoints(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	write := func(host, field string, at int64) {
		t.Helper()
		p := ts.Point{Measurement: "cpu", Tags: map[string]string{"host": host}, Fields: map[string]float64{field: float64(at)},
			Time: time.UnixMilli(machinetest.Epoch + at)}
		if _, err := s.series.Write(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	id := s.submit("name: late\nsources: [{name: cpu, ts: {measurement: cpu, field: load, tags: {host: a}}}]\noperators: [{type: map, " +
		"v: $.value}]\nsinks: [{name: out, stream: {name: out}}]\n")
	wants := func(when string, missed int64, out string) {
		t.Helper()
		s.want("out", out)
		if m := s.job(id).Metrics; m.Missed != missed || m.Errors != 0 {
			t.Errorf("%s: missed %d, want %d, errors %d", when, m.Missed, missed, m.Errors)
		}
	}
	s.Advance(10_000)
	write("a", "load", 9000)
	s.Advance(1000)
	wants("a point that is too young", 0, "")
	write("a", "load", 7000) // before the other one, and in time
	s.Advance(4000)
	wants("both are old enough", 0, `{"v":7000} {"v":9000}`)
	s.Advance(10_000)
	write("a", "load", 8000)
	write("a", "load", 8500)
	write("b", "load", 8000)
	write("a", "other", 8000)
	s.Advance(2000)
	wants("two of four are of the source, and late", 2, `{"v":7000} {"v":9000}`)
	s.Restart()
	write("a", "load", 24_000)
	s.Advance(20_000)
	wants("after a restart", 2, `{"v":7000} {"v":9000} {"v":24000}`)
	write("a", "load", 1)
	s.Restart()
	s.Advance(2000)
	wants("late while nobody looked", 3, `{"v":7000} {"v":9000} {"v":24000}`)
}

// TestLatePointsOfAPause: points that arrive while a job is stopped, and before its read position,
// are missed. They are counted unless they are sealed before the job looks.
func TestLatePointsOfAPause(t *testing.T) {
	for _, test := range []struct {
		pause, missed int64 // ms
	}{{1000, 1}, {3_600_000, 0}} {
		s, ctx := newRig(t, 1), context.Background()
		write := func(at int64) {
			t.Helper()
			if _, err := s.series.Write(ctx, ts.Point{Measurement: "cpu", Fields: map[string]float64{"load": float64(at)},
				Time: time.UnixMilli(machinetest.Epoch + at)}); err != nil {
				t.Fatal(err)
			}
		}
		write(1000)
		id := s.submit("name: late\nsources: [{name: cpu, ts: {measurement: cpu, field: load}}]\noperators: [{type: map, v: " +
			"$.value}]\nsinks: [{name: out, stream: {name: out}}]\n")
		s.Advance(20_000)
		if _, err := s.jobs.Stop(ctx, id); err != nil {
			t.Fatal(err)
		}
		write(500)
		s.Advance(test.pause)
		if _, err := s.jobs.Restore(ctx, id); err != nil {
			t.Fatal(err)
		}
		s.Advance(2000)
		s.want("out", `{"v":1000}`)
		if m := s.job(id).Metrics; m.Missed != test.missed {
			t.Errorf("after a pause of %d ms: missed %d, want %d", test.pause, m.Missed, test.missed)
		}
	}
}
