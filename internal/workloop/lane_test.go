package workloop_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/workloop"
)

// TestLaneOrder: pieces of a lane run one after the other while others go on.
func TestLaneOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, seen := newBoard(t, 30*time.Second), new(log)
		b.stretch = true
		b.add(job{id: 0, lane: "a"}, job{id: 1, lane: "a"}, job{id: 2, lane: "a"}, job{id: 3, lane: "b"}, job{id: 4, lane: "b"}, job{id: 5})
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 6, Handle: func(ctx context.Context, j job) error {
			pass(time.Minute)
			seen.note("%d", j.id)
			return ctx.Err()
		}})
		pass(150 * time.Second)
		if s := loop.Status(); s.Load != 1 {
			t.Errorf("load %d, want 1", s.Load)
		}
		lines := seen.copy()
		slices.Sort(lines[:3])
		slices.Sort(lines[3:])
		if got := fmt.Sprint(lines); got != "[0 3 5 1 4]" {
			t.Errorf("they ended as %s, want [0 3 5 1 4]", got)
		}
		pass(time.Minute)
		loop.end(t)
		if b.done() != 6 || b.latest != 6 {
			t.Errorf("%d of 6 are done after %d deliveries", b.done(), b.latest)
		}
	})
}

// TestLaneFailure: what is behind a piece that fails is not run before it has been delivered again.
func TestLaneFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, seen := newBoard(t, 30*time.Second), new(log)
		b.stretch = true
		b.add(job{id: 0, lane: "a"}, job{id: 1, lane: "a"})
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 2, Handle: func(ctx context.Context, j job) error {
			seen.note("%d", j.id)
			if j.delivery == 1 {
				return errStop
			}
			return nil
		}})
		pass(time.Minute)
		loop.end(t)
		if got := fmt.Sprint(seen.lines); got != "[0 0 1]" || b.done() != 2 {
			t.Errorf("they ran as %s, want [0 0 1]; %d done", got, b.done())
		}
	})
}

// TestLaneNeedsNoRenewal: what is behind a piece that was successful is run without another look at
// its lease, and so is what is behind one that failed where there are no leases.
func TestLaneNeedsNoRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pair := []job{{id: 0, lane: "a"}, {id: 1, lane: "a"}}
		leased, lasting, seen := newBoard(t, 30*time.Second, pair...), newBoard(t, 0, pair...), new(log)
		first := start(t, workloop.Config[job]{Source: leased, Concurrency: 2, Handle: func(context.Context, job) error { return nil }})
		second := start(t, workloop.Config[job]{Concurrency: 2, Source: struct {
			workloop.Source[job]
			workloop.Laner[job]
		}{lasting, lasting}, Handle: func(_ context.Context, j job) error {
			if seen.note("%d", j.id); j.delivery == 1 {
				return errStop
			}
			return nil
		}})
		pass(time.Second)
		first.end(t)
		second.end(t)
		if leased.done() != 2 || leased.renewals != 0 {
			t.Errorf("%d of 2 are done, with %d renewals", leased.done(), leased.renewals)
		}
		if got := fmt.Sprint(seen.lines); got != "[0 1 0]" || lasting.done() != 2 {
			t.Errorf("they ran as %s, want [0 1 0]; %d done", got, lasting.done())
		}
	})
}

// TestLaneOfALostPiece: the next delivery of a piece waits for the handler that lost it.
func TestLaneOfALostPiece(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, seen := newBoard(t, 30*time.Second), new(log)
		b.stretch = true
		b.add(job{id: 0, lane: "a"}, job{id: 1, lane: "a"})
		release := make(chan struct{})
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 3, Handle: func(ctx context.Context, j job) error {
			seen.note("%d begins", j.id)
			if j.delivery == 1 {
				<-release
			}
			seen.note("%d ends", j.id)
			return nil
		}})
		synctest.Wait()
		b.lose(0)
		pass(10 * time.Minute) // far more than a lease: those that wait are renewed
		close(release)
		pass(time.Minute)
		loop.end(t)
		if got := fmt.Sprint(seen.lines); got != "[0 begins 0 ends 0 begins 0 ends 1 begins 1 ends]" || b.done() != 2 || b.latest != 4 {
			t.Errorf("%s; %d done after %d deliveries", got, b.done(), b.latest)
		}
	})
}

// TestHold bounds what waits in lanes.
func TestHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 30*time.Second)
		for i := range 100 {
			b.ready = append(b.ready, job{id: i, lane: "a"})
		}
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 4, Hold: 10, Handle: func(ctx context.Context, j job) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		synctest.Wait()
		b.look(func() {
			if b.latest != 10 {
				t.Errorf("%d pieces are held, want 10", b.latest)
			}
		})
		loop.end(t)
		if b.returned != 9 || len(b.ready) != 100 {
			t.Errorf("%d given back, %d ready, want 9 and 100", b.returned, len(b.ready))
		}
	})
}

var (
	runs = flag.Int("runs", 20, "random histories")
	seed = flag.Uint64("seed", 0, "of the first one; 0: any")
)

// TestRandom runs random histories: whatever fails, is lost, panics or takes long, no piece of a
// lane overtakes or overlaps another, each is settled well once, and all are in the end.
func TestRandom(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1e9) + 1
	}
	for i := range *runs {
		if !t.Run(fmt.Sprint("seed=", first+uint64(i)),
			func(t *testing.T) { bubble(t, func(t *testing.T) { history(t, first+uint64(i)) }) }) {
			return
		}
	}
}

func history(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	b := newBoard(t, 30*time.Second)
	b.stretch = true
	const total = 200
	for i := range total {
		b.ready = append(b.ready, job{id: i, lane: []string{"", "a", "b", "c", "d"}[rng.IntN(5)]})
	}
	var mu sync.Mutex
	busy := make(map[string]bool)
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	handle := func(ctx context.Context, j job) error {
		settled := false
		b.look(func() { settled = len(b.ends[j.id]) > 0 && b.ends[j.id][len(b.ends[j.id])-1].Err == nil })
		mu.Lock()
		if j.lane != "" && (busy[j.lane] || settled) {
			t.Errorf("job %d of lane %s: another one runs, or it was done", j.id, j.lane)
		}
		busy[j.lane] = true
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			busy[j.lane] = false
		}()
		pass(time.Duration(roll(1000)*roll(100)) * time.Millisecond)
		switch roll(12) {
		case 0:
			panic("bad luck")
		case 1, 2:
			return errStop
		case 3:
			<-ctx.Done() // until it is lost
		}
		return ctx.Err()
	}
	c := workloop.Config[job]{Source: b, Concurrency: 1 + rng.IntN(20), Handle: handle, Grace: time.Hour}
	loop := start(t, c)
	for b.done() < total {
		pass(time.Duration(roll(20)) * time.Second)
		b.mu.Lock()
		held := len(b.leases)
		for _, l := range b.leases {
			if at := l.job.id; held > 0 && at%7 == int(time.Now().Unix())%7 {
				b.loseLocked(l.job)
			}
		}
		b.mu.Unlock()
		if roll(30) == 0 {
			loop.end(t)
			loop = start(t, c)
		}
	}
	loop.end(t)
	for id, ends := range b.ends {
		for i, r := range ends {
			if last := i == len(ends)-1; (r.Err == nil) != last {
				t.Errorf("job %d was settled as %v", id, ends)
			}
		}
	}
}
