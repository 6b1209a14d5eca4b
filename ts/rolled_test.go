package ts_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestQueriesOverRollups: where points are gone, rollups give the result of all points. Here now is
// no multiple of the buckets, and windows are longer than the retention.
func TestQueriesOverRollups(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	retention := ts.Retention{RawTTL: 3 * time.Hour,
		Downsample: []ts.Downsample{{Every: time.Minute, TTL: 100 * time.Hour}, {Every: 10 * time.Minute}}}
	if err := s.SetRetention(t.Context(), "cpu", retention); err != nil {
		t.Fatal(err)
	}
	var all floql.Slice
	for i := range int64(12 * 6) {
		var batch []ts.Point
		for k := range int64(10) {
			for j, host := range []string{"a", "b"} {
				p := point(host, (10*i+k)*minute+int64(j)*7*second, float64((10*i+k)*i%97)/4)
				batch = append(batch, p)
				for field, v := range p.Fields {
					if err := all.Add(p.Measurement, p.Tags, field, p.Time, v); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		r.Advance(10 * minute)
		write(t, s, batch...)
	}
	r.Advance(17*second + 123)
	now := time.UnixMilli(machinetest.Epoch + 12*60*minute + 17*second + 123)
	for _, query := range []string{
		"cpu[6h] | window(10m) | avg()", "cpu[8h] | window(1h) | group_by(host) | max()", "cpu[10h] | window(30m, 10m) | count()",
		"cpu[12h] | window(1d) | sum()",
		"cpu[12h] | window(1d, tz=Europe/Berlin) | group_by(host) | last()", "cpu[5h] | window(1m) | first()",
		"cpu[1h] | window(7s) | median()",
	} {
		got, err := s.Query(t.Context(), query, floql.Options{Now: now})
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		want, err := floql.Eval(t.Context(), &all, query, floql.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if g, w := fmt.Sprint(got.Series), fmt.Sprint(want.Series); g != w {
			t.Errorf("%s\ngot\n%s\nwant\n%s", query, g, w)
		}
	}
	for _, query := range []string{
		"cpu[6h] | window(10m) | median()", "cpu[6h] | where(value > 3) | window(10m) | max()", "cpu[6h] | window(7s) | avg()", "cpu[6h]",
		// If all points of a range are gone, the range must end with a bucket.
		fmt.Sprintf("cpu[%d..%d] | window(10m) | sum()", machinetest.Epoch-machinetest.Epoch%(10*minute), machinetest.Epoch+90*minute+1),
	} {
		if _, err := s.Query(t.Context(), query, floql.Options{Now: now}); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid: points are gone", query, err)
		}
	}
}
