package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

var (
	volumeFlag = flag.Int("volume", 20_000, "how many messages TestVolume queues, and how many records it appends")
	idleFlag   = flag.Int("idle", 300, "how many queues and groups of TestIdle there are, each")
)

const (
	volumeBytes  = 256
	volumeMemory = 1 << 20 // KiB that may be resident in a node
	volumeBatch  = 1000
)

// TestVolume fills a process with many messages and records, kills it, and uses them. The process
// must stay within its memory. A message after many consumed ones must take as long as the first
// ones, and the middle of a stream must be found as fast as its beginning.
func TestVolume(t *testing.T) {
	n := *volumeFlag
	c := newProcess(t)
	v := &volume{t: t, c: c, client: c.client(), payload: make([]byte, volumeBytes)}
	v.each(n, func() error {
		messages := make([]queue.NewMessage, volumeBatch)
		for i := range messages {
			messages[i].Payload = v.payload
		}
		_, err := v.client.Queue("default").EnqueueMany(t.Context(), "q", messages)
		return err
	})
	v.report("%d messages queued", n)
	var middle atomic.Pointer[stream.ID]
	var appended atomic.Int64
	v.each(n, func() error {
		messages := make([]stream.Message, volumeBatch)
		for i := range messages {
			messages[i].Payload = v.payload
		}
		ids, err := v.client.Stream("default").AppendMany(t.Context(), "s", messages)
		if err == nil && appended.Add(volumeBatch) == int64(n/2/volumeBatch*volumeBatch) {
			middle.Store(&ids[0].ID)
		}
		return err
	})
	v.report("%d records appended", n)
	c.kill(0)
	start := time.Now()
	c.start(0)
	t.Logf("opened in %v after a kill", time.Since(start).Round(time.Millisecond))

	first := v.fastest(func() { v.take(1) })
	v.each(n/5, func() error { return v.taken(volumeBatch) })
	v.flat("a message", first, v.fastest(func() { v.take(1) }))
	v.report("%d messages taken", n/5)
	v.each(n/5, func() error { return v.consumed(volumeBatch) })
	v.report("%d records consumed", n/5)
	v.flat("a page in the middle", v.fastest(func() { v.page(stream.FromBeginning()) }),
		v.fastest(func() { v.page(stream.From(*middle.Load())) }))
	if peak := v.memory("VmHWM"); peak > volumeMemory {
		t.Errorf("the node took %d KiB at most, want %d", peak, volumeMemory)
	}
}

// volume is a node in a process with much data.
type volume struct {
	t       *testing.T
	c       *processes
	client  *floe.Client
	payload []byte
}

// each does n operations, a batch at a time, with a few callers.
func (v *volume) each(n int, f func() error) {
	v.t.Helper()
	var left atomic.Int64
	left.Store(int64(n / volumeBatch))
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(); err != nil {
					v.t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	if v.t.Failed() {
		v.t.FailNow()
	}
}

func (v *volume) taken(n int) error {
	q := v.client.Queue("default")
	got, err := q.Dequeue(v.t.Context(), "q", queue.Max(n))
	if err != nil || len(got) != n {
		return fmt.Errorf("%d messages, want %d: %w", len(got), n, err)
	}
	receipts := make([]queue.Receipt, n)
	for i, m := range got {
		receipts[i] = m.Receipt
	}
	_, err = q.Ack(v.t.Context(), "q", receipts...)
	return err
}

func (v *volume) take(n int) {
	if err := v.taken(n); err != nil {
		v.t.Fatal(err)
	}
}

func (v *volume) consumed(n int) error {
	s := v.client.Stream("default")
	got, err := s.ReadGroup(v.t.Context(), "s", "g", "consumer", stream.Limit(n))
	if err == nil {
		_, err = s.Ack(v.t.Context(), "s", "g", stream.RefsOf(got)...)
	}
	return err
}

func (v *volume) page(from stream.StartOption) {
	got, err := v.client.Stream("default").Read(v.t.Context(), "s", from, stream.Limit(100))
	if err != nil || len(got) != 100 {
		v.t.Fatalf("%d records: %v", len(got), err)
	}
}

func (v *volume) fastest(f func()) time.Duration {
	best := time.Hour
	for range 50 {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best
}

// flat logs how long something takes, and how long it took before there was more data.
func (v *volume) flat(what string, before, after time.Duration) {
	v.t.Logf("%s takes %v, took %v", what, after, before)
}

func (v *volume) report(format string, args ...any) {
	v.t.Logf("%s: %d MiB resident, %d MiB at most", fmt.Sprintf(format, args...), v.memory("VmRSS")>>10, v.memory("VmHWM")>>10)
}

func (v *volume) memory(field string) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.c.cmds[0].Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), field+":")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		v.t.Fatal(err)
	}
	return n
}

// TestIdle leaves a process idle that has many used queues and groups. Nothing may be added to its
// logs, and it must take almost no CPU time.
func TestIdle(t *testing.T) {
	n := *idleFlag
	c := newProcess(t)
	client := c.client()
	ctx := t.Context()
	ok[stream.Appended](t)(client.Stream("default").Append(ctx, "s", stream.Message{}))
	var left atomic.Int64
	left.Store(int64(n))
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for i := left.Add(-1); i >= 0 && !t.Failed(); i = left.Add(-1) {
				if err := useOnce(ctx, client, fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	lsns := func() (list []uint64) {
		for _, s := range ok[floe.Stats](t)(client.Stats(ctx)).Shards {
			list = append(list, s.LSN)
		}
		return list
	}
	before, used, start := lsns(), processTime(t, c), time.Now()
	<-time.After(max(time.Second, time.Duration(n)*time.Millisecond/2))
	took := time.Since(start)
	share := float64(processTime(t, c)-used) / float64(took)
	t.Logf("%d queues and %d groups: %.2f %% of a processor in %v", n, n, 100*share, took.Round(time.Millisecond))
	if after := lsns(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the shards were at %v and came to %v by themselves", before, after)
	}
	// A tick of the system's clock is a hundredth of a second, so a short measurement is inexact.
	if took > 4*time.Second && share > 0.01 {
		t.Errorf("it took %.2f %% of a processor, want less than 1", 100*share)
	}
}

// useOnce creates a queue and a group, and uses them until no work is left.
func useOnce(ctx context.Context, client *floe.Client, name string) error {
	q := client.Queue("default")
	if _, err := q.Enqueue(ctx, name, nil); err != nil {
		return err
	}
	got, err := q.Dequeue(ctx, name)
	if err != nil || len(got) != 1 {
		return fmt.Errorf("%d messages: %w", len(got), err)
	}
	if _, err := q.Ack(ctx, name, got[0].Receipt); err != nil {
		return err
	}
	return client.Stream("default").Groups("s").Create(ctx, name)
}

// processTime returns the CPU time of the first process.
func processTime(t *testing.T, c *processes) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmds[0].Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// Fields 14 and 15; the second field may contain spaces in parentheses.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields, sum := strings.Fields(rest), 0
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		sum += ticks
	}
	return time.Duration(sum) * 10 * time.Millisecond
}
