package ts_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// turn is a door that can be redirected: to a node that lost its tail, was restored, or is another
// one.
type turn struct{ *machinetest.Rig }

// TestStaleNumbers: a caller with series numbers of another state never writes to wrong series.
func TestStaleNumbers(t *testing.T) {
	for name, other := range map[string]func(first *machinetest.Rig, kept int) *machinetest.Rig{
		// The tail with series b and c is lost, and other series get their numbers.
		"tail lost": func(first *machinetest.Rig, kept int) *machinetest.Rig {
			r := newRig(t, 1)
			for _, e := range first.Log(0)[:kept] {
				r.Executor(0).Apply(1, r.Executor(0).Applied().Index+1, e, nil)
			}
			must(0, r.Executor(0).Commit())
			write(t, storeOf(r, "n"), point("x", 0, 1), point("c", 0, 2))
			return r
		},
		"another cluster": func(*machinetest.Rig, int) *machinetest.Rig {
			r := newRig(t, 1)
			write(t, storeOf(r, "n"), point("c", 0, 1), point("x", 0, 2), point("a", 0, 3))
			return r
		},
		"empty": func(*machinetest.Rig, int) *machinetest.Rig { return newRig(t, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			door := &turn{newRig(t, 1)}
			s := engine.StoreOf[ts.Store](engine.NewRouter(door), "n", 0)
			write(t, s, point("a", 0, 3))
			kept := len(door.Log(0))
			write(t, s, point("b", 0, 4), point("c", 0, 5))
			door.Rig = other(door.Rig, kept)
			want := make(map[ts.At]float64)
			for k, v := range ts.Contents(door.Rig, 0, 0, 0) {
				want[k] = v
			}
			var batch []ts.Point
			for i, host := range []string{"a", "b", "c", "d"} {
				batch = append(batch, point(host, second, float64(10+i)))
				want[ts.At{Measurement: "cpu", Tags: "host=" + host + ";", Field: "value",
					Time: machinetest.Epoch + second}] = float64(10 + i)
			}
			write(t, s, batch...)
			compare(t, door.Rig, want)
			write(t, s, batch...) // with the right numbers
			compare(t, door.Rig, want)
			door.Verify()
		})
	}
}

// TestDeletedAndMadeAgain: series and measurements that are deleted and created again get other
// numbers, whatever a caller has cached.
func TestDeletedAndMadeAgain(t *testing.T) {
	r := newRig(t, 1)
	one, two := engine.StoreOf[ts.Store](r.Router(), "n", 0), engine.StoreOf[ts.Store](r.Router(), "n", 0)
	write(t, one, point("a", 0, 1), point("b", 0, 1))
	must(two.Series("cpu").Delete(t.Context(), map[string]string{"host": "a"}))
	write(t, two, point("c", 0, 2), point("a", 0, 2))
	write(t, one, point("a", second, 3), point("b", second, 3))
	check(t, r, "cpu host=a; value 0 2", "cpu host=a; value 1000 3", "cpu host=b; value 0 1", "cpu host=b; value 1000 3",
		"cpu host=c; value 0 2")
	must(0, two.Delete(t.Context(), "cpu"))
	write(t, two, point("z", 0, 4))
	write(t, one, point("a", second, 5))
	check(t, r, "cpu host=a; value 1000 5", "cpu host=z; value 0 4")
	r.Verify()
}

// TestSameNumberOfTwoIncarnations: a caller may cache two series of a batch under one number, from
// before and after their measurement was created again. They are not confused.
func TestSameNumberOfTwoIncarnations(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	write(t, s, point("a", 0, 1))
	must(0, s.Delete(t.Context(), "cpu"))
	write(t, s, point("b", 0, 2))
	write(t, s, point("b", second, 3), point("a", second, 4))
	check(t, r, "cpu host=a; value 1000 4", "cpu host=b; value 0 2", "cpu host=b; value 1000 3")
}

// TestCallersDefineTheSame: callers that concurrently define the same thousand series get the same
// numbers.
func TestCallersDefineTheSame(t *testing.T) {
	node := open(t, floe.Config{Shards: 1})
	const callers, hosts = 4, 1000
	var all sync.WaitGroup
	for c := range callers {
		s := node.TS("default")
		all.Go(func() {
			points := make([]ts.Point, hosts)
			for i := range points {
				points[i] = ts.Point{Measurement: "cpu", Tags: map[string]string{"host": fmt.Sprint((i*7 + c) % hosts)},
					Fields: map[string]float64{"v": 1}}
			}
			if result, err := s.Write(within(t), points...); err != nil || result.Written != hosts {
				t.Errorf("Write = %+v, %v", result, err)
			}
		})
	}
	all.Wait()
	if m, err := node.TS("default").Get(t.Context(), "cpu"); err != nil || m.Series != hosts || m.Points != callers*hosts {
		t.Errorf("Measurement = %+v, %v", m, err)
	}
}

// TestSeriesLimit: at the limit, new series are refused with an error that names their source.
// Existing series are written as before.
func TestSeriesLimit(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	must(0, s.SetSeriesLimit(t.Context(), 10))
	for i := range 8 {
		write(t, s, point(fmt.Sprintf("h%d", i), 0, 1))
	}
	tagged := func(id int) ts.Point {
		p := point("h0", 0, 1)
		p.Tags["request"] = fmt.Sprint(id)
		return p
	}
	write(t, s, tagged(0))
	var flood []ts.Point
	for i := range 5 {
		flood = append(flood, tagged(i+1))
	}
	result, err := s.Write(t.Context(), append(flood, point("h3", second, 2))...)
	var full *ts.LimitError
	if !errors.As(err, &full) || !errors.Is(err, ts.ErrBusy) || full.Limit != 10 || full.Room != 1 || full.Wanted != 5 ||
		result.Written != 2 || result.Refused != 4 {
		t.Errorf("Write beyond the limit = %+v, %v (%+v), want 2 written: a known series, and the one that there is room for", result, err,
			full)
	}
	var lasting interface{ Lasts() bool } // checked by the engine: messages from other shards do not wait for room
	if !errors.As(err, &lasting) || !lasting.Lasts() {
		t.Errorf("%v does not last: what comes from another shard would wait for ever", err)
	}
	entries := len(r.Log(0))
	for range 3 {
		if result, err = s.Write(t.Context(), flood[1:]...); !errors.As(err, &full) || result.Written != 0 {
			t.Errorf("Write = %+v, %v", result, err)
		}
	}
	fresh := engine.StoreOf[ts.Store](r.Router(), "n", 0)
	if _, err := fresh.Write(t.Context(), flood[1:]...); !errors.As(err, &full) || full.Tag != "host" && full.Tag != "request" ||
		full.Values != 8 {
		t.Errorf("Write = %v, want the tag with the most values", err)
	}
	if n := len(r.Log(0)); n != entries {
		t.Errorf("%d entries of the log for series without room, want none", n-entries)
	}
	write(t, fresh, point("h1", second, 5), flood[0]) // existing series
	must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "h0"}))
	write(t, fresh, point("new", 0, 1))
	r.Verify()
}

// TestChurn: series that come and go for longer than the retention never fill the namespace.
func TestChurn(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	must(0, s.SetSeriesLimit(t.Context(), 60))
	must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 24 * 3600 * 1e9}))
	write(t, s, point("stays", 0, 1))
	for d := range int64(12) {
		for i := range 10 {
			write(t, s, point(fmt.Sprintf("d%d-%d", d, i), d*day, 1), point("stays", d*day, 2))
		}
		r.Advance(day)
		r.Advance(hour)
	}
	m := must(s.Get(t.Context(), "cpu"))
	if m.Series > 41 {
		t.Errorf("%d series: those without points have not left", m.Series)
	}
	write(t, s, point("d0-1", 12*day, 1)) // one that left returns
	r.Verify()
}

// TestTooMuchUnsealed: a shard accepts a limited number of unsealed bytes, and more once they are
// sealed.
func TestTooMuchUnsealed(t *testing.T) {
	r := newRigOf(t, 1, func() engine.Machine { return ts.NewCramped(2000) })
	s := storeOf(r, "n")
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		_, err = s.Write(t.Context(), point("a", int64(n)*second, 1))
	}
	if !errors.Is(err, ts.ErrBusy) || n > 100 {
		t.Errorf("after %d writes: %v, want ErrBusy", n, err)
	}
	r.Advance(6 * minute)
	write(t, s, point("a", 0, 2))
	r.Verify()
}

func TestTransactions(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	write(t, s, point("a", 0, 1))
	if _, err := r.Txn("n").Do(ts.WriteOp(point("a", second, 2), point("b", 0, 3)),
		ts.SetRetentionOp("cpu", ts.Retention{RawTTL: 1e9 * 3600})).Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"cpu host=a; value 0 1", "cpu host=a; value 1000 2", "cpu host=b; value 0 3"}
	check(t, r, want...)
	_, err := r.Txn("n").Do(ts.WriteOp(point("c", 0, 1), point("a", 5*second, 1)), ts.WriteOp(point("a", -2*hour, 2))).Commit(t.Context())
	if !errors.Is(err, ts.ErrInvalid) {
		t.Errorf("Commit with a point that is too old = %v, want ErrInvalid", err)
	}
	check(t, r, want...)
	write(t, s, point("c", second, 9))
	check(t, r, append(want, "cpu host=c; value 1000 9")...)
	if _, err := r.Txn("n").Do(ts.WriteOp(ts.Point{Measurement: "m"})).Commit(t.Context()); !errors.Is(err, ts.ErrInvalid) {
		t.Errorf("Commit of a point without fields = %v", err)
	}
	r.Verify()
}
