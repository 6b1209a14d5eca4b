package processing_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/rig"
	"github.com/floedb/floe/ts"
)

// TestSeriesAsSource: points come as records in the order of their times, each once, also those of a time before the job.
func TestSeriesAsSource(t *testing.T) {
	s, ctx := newStage(t, 1), context.Background()
	write := func(host string, at int64, v float64) {
		t.Helper()
		p := ts.Point{Measurement: "cpu", Tags: map[string]string{"host": host}, Fields: map[string]float64{"load": v}, Time: time.UnixMilli(rig.Epoch + at)}
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
    ts: { measurement: cpu, field: load, poll_interval_ms: 1000 }
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
