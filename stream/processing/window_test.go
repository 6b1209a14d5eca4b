package processing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/stream/processing"
)

const summed = `
name: sums
sources:
  - name: sales
    stream: { name: sales }
    event_time: $.ts
    watermark: { max_out_of_orderness_ms: 1000, idle_timeout_ms: 30000 }
operators:
  - { type: keyby, key_expression: $.who }
  - { name: total, type: aggregate, function: sum, field: n, window: tumbling, window_size: 10 }
sinks:
  - name: out
    stream: { name: totals }
`

// TestWindows: windows of a key fire once when the watermark passes their end, also over a restart,
// a stop and a savepoint; the rest fire when the source is idle.
func TestWindows(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	base := s.Now() / 10_000 * 10_000
	sale := func(who string, after, n int64) string {
		return fmt.Sprintf(`{"who":%q,"ts":%d,"n":%d}`, who, base+after, n)
	}
	total := func(who string, n, count, from int64) string {
		return fmt.Sprintf(`{"key":%q,"value":%d,"count":%d,"window_start":%d,"window_end":%d}`, who, n, count, base+from, base+from+10_000)
	}
	id := s.submit(summed)
	s.append("sales", sale("a", 0, 1), sale("b", 9999, 2), sale("a", 10_500, 4), sale("a", 9000, 8))
	s.run()
	s.want("totals", "")
	s.Restart()
	s.append("sales", sale("b", 11_000, 16))
	s.run()
	first := []string{total("a", 9, 2, 0), total("b", 2, 1, 0)}
	s.want("totals", strings.Join(first, " "))
	if _, err := s.jobs.Savepoints(id).Create(ctx); err != nil {
		t.Fatal(err)
	}
	s.run()
	if _, err := s.jobs.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.append("sales", sale("a", 5000, 32)) // late by then
	if _, err := s.jobs.Restore(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.Advance(60_000)
	s.run()
	s.want("totals", strings.Join(append(first, total("a", 4, 1, 10_000), total("b", 16, 1, 10_000)), " "))
	if m := s.job(id).Metrics; m.RecordsIn != 6 || m.RecordsOut != 4 || m.Errors != 0 {
		t.Errorf("metrics %+v", m)
	}
}

// TestLargeBatch: records with too much output together are processed fewer at a time. They used to
// end every tick with an error, forever.
func TestLargeBatch(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit(fmt.Sprintf(`
name: padded
batch_size: 2
sources: [{name: lists, stream: {name: lists}}]
operators:
  - { type: flatmap, array_field: a }
  - { type: set, pad: '"%s"' }
  - { type: filter, condition: "json:$.n=7" }
sinks: [{name: out, stream: {name: sevens}}]
`, strings.Repeat("x", 4_000)))
	list := `{"a":[{"n":7}` + strings.Repeat(`,{"n":1}`, 3_200) + `]}`
	s.append("lists", list, list)
	s.run()
	if j := s.job(id); j.Status != processing.Running || j.Metrics.RecordsIn != 2 || j.Metrics.RecordsOut != 2 || j.Metrics.Errors != 0 {
		t.Errorf("job %v (%s) %+v", j.Status, j.Reason, j.Metrics)
	}
}
