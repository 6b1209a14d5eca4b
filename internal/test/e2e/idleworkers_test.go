package e2e

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

var idleWorkersFlag = flag.Int("idle-workers", 100,
	"how many workers wait in TestIdleWorkers, of one client; from 1,000 on for ten seconds")

// TestIdleWorkers lets many workers of one client wait. Waiting must write nothing, and must cost
// neither their process nor the node a relevant amount of CPU time. Then the workers work.
func TestIdleWorkers(t *testing.T) {
	n := *idleWorkersFlag
	c := newCalmProcess(t)
	db := c.client()
	ctx, stop := context.WithCancel(t.Context())
	store := db.Action("work")
	ok[int](t)(store.Register(ctx, "a"))
	var mu sync.Mutex // guards by
	by := make(map[string]bool)
	var workers sync.WaitGroup
	for i := range n {
		w := store.Worker(action.WorkerConfig{ID: fmt.Sprint("w", i), Concurrency: 1})
		w.Handle("a", func(context.Context, *action.Task) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			by[w.ID()] = true
			return nil, nil
		})
		workers.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Errorf("worker %d: %v", i, err)
			}
		})
	}
	await(t, "all workers are listed", func() bool {
		info, err := store.Get(ctx, "a")
		return err == nil && info.Workers == n
	})
	// They are listed by the heartbeats of their process, perhaps before its session is in the log.
	// The session begins with the first take.
	if run, err := store.InvokeAndWait(ctx, "a", nil); err != nil || run.Status != action.Completed {
		t.Fatalf("the first run is %+v, %v", run, err)
	}
	lsns := func() (list []uint64) {
		for _, s := range ok[floe.Stats](t)(db.Stats(ctx)).Shards {
			list = append(list, s.LSN)
		}
		return list
	}
	wait := time.Second
	if n >= 1000 {
		wait = 10 * time.Second
	}
	before, node, own, start := lsns(), processTime(t, c), ownTime(t), time.Now()
	<-time.After(wait)
	took := time.Since(start)
	atNode, here := float64(processTime(t, c)-node)/float64(took), float64(ownTime(t)-own)/float64(took)
	t.Logf("%d idle workers: %.2f %% of a processor in their process, %.2f %% in the node, in %v", n, 100*here, 100*atNode,
		took.Round(time.Millisecond))
	if after := lsns(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the shards were at %v and came to %v by themselves", before, after)
	}
	// A tick of the system's clock is a hundredth of a second, so a short measurement is inexact.
	if took > 4*time.Second && (here > 0.01 || atNode > 0.01) {
		t.Errorf("it took %.2f and %.2f %% of a processor, want less than 1", 100*here, 100*atNode)
	}
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			for range 20 {
				if run, err := store.InvokeAndWait(ctx, "a", nil); err != nil || run.Status != action.Completed || run.Attempt != 1 {
					t.Errorf("the run is %+v, %v", run, err)
				}
			}
		})
	}
	callers.Wait()
	stop()
	workers.Wait()
	if len(by) < min(n, 100)/2 {
		t.Errorf("%d of %d workers have had 200 runs", len(by), n)
	}
}

// ownTime returns the CPU time of this process.
func ownTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
