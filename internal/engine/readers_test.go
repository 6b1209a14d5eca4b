package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
)

const smallRead = 16 << 10 // bytes that a call may hold without a slot

// reads is a rig whose queries hold results, for calls with slots.
type reads struct {
	*rig
	readers *engine.Readers
}

// call begins a call, and returns a function that makes it hold bytes, and its end.
func (r *reads) call(ctx context.Context) (hold func(bytes ...int) string, end func()) {
	reading, end := r.readers.Begin(ctx)
	return func(bytes ...int) string {
		var err error
		for _, n := range bytes {
			err = r.execs[0].Query(reading, &question{ask: func(v *engine.View) error { v.Holds(n); v.Holds(1); return nil }},
				engine.Replica{Now: func() int64 { return r.now }})
		}
		return fmt.Sprint(err)
	}, end
}

// TestReadersAreBounded: a call that holds much needs a slot until it ends. Seven for each slot
// wait, further ones are refused.
func TestReadersAreBounded(t *testing.T) {
	for bytes, slots := range map[int64]int{0: 2, 3*engine.LargeRead - 1: 2, 3 * engine.LargeRead: 3} {
		plain, _, _ := newViewed(t, 1)
		synctest.Test(t, func(t *testing.T) {
			r := &reads{plain, engine.NewReaders(bytes)}
			var ends []func()
			for range slots {
				hold, end := r.call(t.Context())
				ends = append(ends, end)
				expect(t, "large", hold(smallRead), "<nil>")
				expect(t, "a query of the same call", hold(1<<30), "<nil>")
			}
			small, endSmall := r.call(t.Context())
			expect(t, "small", small(smallRead-1), "<nil>")
			endSmall()
			busy := fmt.Sprintf("%d calls hold more than 16384 bytes of results, the limit is %d", slots, slots)
			for range 2 {
				waiting := make(chan string, 99)
				for range 7 * slots {
					go func() {
						hold, end := r.call(t.Context())
						defer end()
						waiting <- hold(smallRead)
					}()
				}
				synctest.Wait()
				expect(t, "answered while they wait", len(waiting), 0)
				hold, end := r.call(t.Context())
				expect(t, "one more", hold(smallRead), busy)
				end()
				end()
				ends[0]()
				synctest.Wait()
				for range 7 * slots {
					expect(t, "after a wait", <-waiting, "<nil>")
				}
				hold, ends[0] = r.call(t.Context())
				expect(t, "again", hold(smallRead), "<nil>")
			}
			// The wait ends with the context, and after 30 s.
			start := time.Now()
			late, endLate := r.call(t.Context())
			expect(t, "late", late(smallRead), busy)
			expect(t, "time", time.Since(start), 30*time.Second)
			endLate()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			gone, endGone := r.call(ctx)
			expect(t, "gone", gone(smallRead), context.DeadlineExceeded)
			endGone()
			cancel()
			for _, end := range ends {
				end()
			}
			for range slots { // all slots are free
				hold, end := r.call(t.Context())
				defer end()
				start := time.Now()
				expect(t, "at the end", hold(smallRead), "<nil>")
				expect(t, "time", time.Since(start), time.Duration(0))
			}
		})
	}
}

// TestReadersStop: a query that waits for a slot ends when its replica stops. One that waits for a
// topic gives its slot back.
func TestReadersStop(t *testing.T) {
	plain, _, _ := newViewed(t, 1)
	r := &reads{plain, engine.NewReaders(0)}
	stop := make(chan struct{})
	close(stop)
	holds := func(v *engine.View) error { v.Holds(smallRead + 1); return nil }
	ask := func(ctx context.Context, replica engine.Replica, f func(v *engine.View) error) error {
		replica.Now = func() int64 { return r.now }
		return r.execs[0].Query(ctx, &question{ask: f}, replica)
	}
	first, end := r.readers.Begin(t.Context())
	defer end()
	expect(t, "first", ask(first, engine.Replica{}, holds), "<nil>")
	second, endSecond := r.readers.Begin(t.Context())
	waits := func(v *engine.View) error {
		v.Holds(smallRead + 1)
		if err := v.WaitOn(goods("x")); err != nil {
			return err
		}
		return engine.ErrWait
	}
	expect(t, "waits", ask(second, engine.Replica{NoWait: true}, waits), context.Canceled)
	third, endThird := r.readers.Begin(t.Context())
	defer endThird()
	expect(t, "third", ask(third, engine.Replica{}, holds), "<nil>")
	endSecond()
	fourth, endFourth := r.readers.Begin(t.Context())
	defer endFourth()
	expect(t, "stopped", ask(fourth, engine.Replica{Stop: stop}, holds), "closed while a query waited")
}

// TestRowsAreHeld: the rows that a query reads count, unless it skims them.
func TestRowsAreHeld(t *testing.T) {
	r, one, _ := newViewed(t, 1)
	r.run(one, "n", func(tx *engine.Tx) { tx.Set([]byte("k"), make([]byte, smallRead)) })
	synctest.Test(t, func(t *testing.T) {
		readers := engine.NewReaders(0)
		for range 2 {
			ctx, end := readers.Begin(t.Context())
			defer end()
			q := &question{ask: func(v *engine.View) error { v.Holds(smallRead + 1); return nil }}
			expect(t, "slot", r.execs[0].Query(ctx, q, engine.Replica{Now: func() int64 { return 0 }}), "<nil>")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reading, end := readers.Begin(ctx)
		defer end()
		for _, c := range []struct {
			skims bool
			gets  int
			want  string
		}{{false, 1, "<nil>"}, {true, 9, "<nil>"}, {false, 2, "context deadline exceeded"}} {
			q := &question{ask: func(v *engine.View) error {
				if c.skims {
					v.Skims()
				}
				for range c.gets {
					if value, ok, err := v.Get([]byte("k")); err != nil {
						expect(t, "value beside an error", fmt.Sprint(value, ok), "[] false")
						return err
					}
				}
				return nil
			}}
			err := r.execs[0].Query(reading, q, engine.Replica{Now: func() int64 { return 0 }})
			expect(t, fmt.Sprintf("%+v", c), err, c.want)
		}
	})
}
