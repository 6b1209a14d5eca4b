package e2e

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/workflow"
)

var waitingRunsFlag = flag.Int("waiting-runs", 1000, "how many runs wait in TestWaitingRuns; from 10,000 on for ten seconds")

// TestWaitingRuns lets many runs wait for a signal, or for a time, and leaves them alone. They must
// be on disk, and cost neither memory nor CPU time. When the process is killed, it must be back at
// once, and the runs must continue.
func TestWaitingRuns(t *testing.T) {
	n := *waitingRunsFlag
	c := newCalmProcess(t)
	v := &volume{t: t, c: c, client: c.client()}
	ctx, flows := t.Context(), v.client.Workflow("default")
	ok[workflow.Created](t)(flows.Create(ctx,
		[]byte("name: signal\nretention: { runs: 1000 }\nstart: { waitForSignal: { type: go, timeoutMs: 86400000 }, transitions: { "+
			"success: flo.Completed } }\n")))
	ok[workflow.Created](t)(flows.Create(ctx,
		[]byte("name: nap\nstart: { sleep: { ms: 86400000 }, transitions: { success: flo.Completed } }\n")))
	v.report("no run")
	empty := v.memory("VmRSS")
	var left atomic.Int64
	left.Store(int64(n))
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for i := left.Add(-1); i >= 0 && !t.Failed(); i = left.Add(-1) {
				var err error
				if i%2 == 0 {
					_, err = flows.Start(ctx, "signal", []byte(`{"order":1}`), workflow.UseID(workflow.RunID(fmt.Sprint("s", i))))
				} else {
					_, err = flows.Start(ctx, "nap", []byte(`{"order":1}`))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	v.report("%d runs started", n)
	c.kill(0)
	c.start(0)
	await(t, "the runs", func() bool {
		i, err := flows.Get(ctx, "nap")
		return err == nil && i.Runs.Active == int64(n/2)
	})
	v.report("%d runs after a kill", n)
	wait := time.Second
	if n >= 10_000 {
		wait = 10 * time.Second
	}
	lsns := func() (list []uint64) {
		for _, s := range ok[floe.Stats](t)(v.client.Stats(ctx)).Shards {
			list = append(list, s.LSN)
		}
		return list
	}
	before, used, start := lsns(), processTime(t, c), time.Now()
	<-time.After(wait)
	took := time.Since(start)
	share := float64(processTime(t, c)-used) / float64(took)
	t.Logf("%d waiting runs: %.2f %% of a processor in %v, %d KiB more than without runs", n, 100*share, took.Round(time.Millisecond),
		v.memory("VmRSS")-empty)
	if after := lsns(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the shards were at %v and came to %v by themselves", before, after)
	}
	// A tick of the system's clock is a hundredth of a second, so a short measurement is inexact.
	if took > 4*time.Second && share > 0.01 {
		t.Errorf("it took %.2f %% of a processor, want less than 1", 100*share)
	}
	// The replayed log and the cached blocks use their limits of memory, however many runs there
	// are.
	if rss := v.memory("VmRSS"); rss > 512<<10 {
		t.Errorf("the node takes %d KiB with %d runs that wait", rss, n)
	}
	for i := range int64(min(n, 1000)) / 2 {
		if _, err := flows.Signal(ctx, workflow.RunID(fmt.Sprint("s", 2*i)), "go", []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	i := ok[workflow.Info](t)(flows.Get(ctx, "signal"))
	if want := int64(min(n, 1000)) / 2; i.Runs.Completed != want || i.Runs.Total != int64(n+1)/2 {
		t.Errorf("%+v, want %d completed", i.Runs, want)
	}
}
