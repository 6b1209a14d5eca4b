package ts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestEachFailure: a call returns the error of any request to a shard that fails.
func TestEachFailure(t *testing.T) {
	for _, shards := range []int{1, 3} {
		r := newRig(t, shards)
		if shards > 1 {
			spread(t, r, "n")
		}
		ctx, now := t.Context(), time.UnixMilli(r.Now())
		for i := range 8 {
			p := point(string(rune('a'+i)), -int64(i)*second, 1)
			write(t, storeOf(r, "n"), p)
		}
		call := func(f func(s *ts.Store) error) func(engine.Door) error {
			return func(d engine.Door) error { return f(engine.StoreOf[ts.Store](engine.NewRouter(d), "n", 0)) }
		}
		tags := map[string]string{"host": "a"}
		r.EachFailure(map[string]func(engine.Door) error{
			"All":         call(func(s *ts.Store) error { return machinetest.LastError(s.All(ctx)) }),
			"Page":        call(func(s *ts.Store) error { _, err := s.Page(ctx); return err }),
			"Measurement": call(func(s *ts.Store) error { _, err := s.Get(ctx, "cpu"); return err }),
			"DeleteRange": call(func(s *ts.Store) error {
				_, err := s.DeleteRange(ctx, "cpu", now.Add(-time.Hour), now.Add(-59*time.Minute), nil)
				return err
			}),
			"DeleteRange of series": call(func(s *ts.Store) error {
				_, err := s.DeleteRange(ctx, "cpu", now.Add(-time.Hour), now.Add(-59*time.Minute), tags)
				return err
			}),
			"DeleteSeries": call(func(s *ts.Store) error {
				_, err := s.Series("cpu").Delete(ctx, map[string]string{"host": "none"})
				return err
			}),
			"Last":      call(func(s *ts.Store) error { return machinetest.LastError(s.Last(ctx, "cpu", "value")) }),
			"Read":      call(func(s *ts.Store) error { return machinetest.LastError(s.Read(ctx, "cpu", "value")) }),
			"Query":     call(func(s *ts.Store) error { _, err := s.Query(ctx, "cpu[0..2000000000000] | avg()"); return err }),
			"Series":    call(func(s *ts.Store) error { return machinetest.LastError(s.Series("cpu").All(ctx)) }),
			"TagValues": call(func(s *ts.Store) error { _, err := s.TagValues(ctx, "cpu"); return err }),
			"Write": call(func(s *ts.Store) error {
				result, err := s.Write(ctx, point("a", 0, 1), point("b", 0, 1), point("c", 0, 1))
				if err == nil {
					err = result.Err()
				}
				return err
			}),
			"WriteLine": call(func(s *ts.Store) error {
				result, err := s.WriteLine(ctx,
					strings.NewReader(fmt.Sprintf("cpu,host=a value=1 %d\ncpu,host=b value=1 %[1]d\n", r.Now())), ts.Milliseconds)
				if err == nil {
					err = result.Err()
				}
				return err
			}),
		})
	}
}

// TestMalformedBodies: a command whose body does not decode is refused.
func TestMalformedBodies(t *testing.T) {
	machinetest.RefusesMalformed(t, engine.MachineTS, func() *machinetest.Rig { return newRig(t, 1) })
}
