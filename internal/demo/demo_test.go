package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

var seed = flag.Uint64("seed", 1, "of the shop that has to have everything")

// opened returns a node with a shop that has been loaded.
func opened(t *testing.T, seed uint64) (*floe.Node, *Shop) {
	t.Helper()
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	s := New(node, seed)
	if err := s.Load(t.Context()); err != nil {
		t.Fatalf("Load: %v", err)
	}
	return node, s
}

// live has the shop live through the first ticks at once, with everybody who works there.
func live(t *testing.T, s *Shop, ticks int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.pace = 10
	stop := s.staff(ctx)
	t.Cleanup(func() {
		cancel()
		if err := stop(); err != nil {
			t.Errorf("staff: %v", err)
		}
	})
	for n := range ticks {
		if err := s.tick(ctx, n); err != nil {
			t.Fatalf("tick %d: %v", n, err)
		}
	}
}

// wait waits until done has nothing more to say.
func wait(t *testing.T, missing func() []string) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	late := time.After(30 * time.Second)
	for {
		left := missing()
		if len(left) == 0 {
			return
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("never seen: %s", strings.Join(left, ", "))
		}
	}
}

// TestEverythingMoves: each primitive has something of each kind, in each state that a screen
// shows.
func TestEverythingMoves(t *testing.T) {
	node, s := opened(t, *seed)
	live(t, s, 130)
	ctx := t.Context()
	seen := make(map[string]bool)
	var want []string
	for status := workflow.Running; status <= workflow.TimedOut; status++ {
		want = append(want, "run "+status.String())
	}
	for status := action.Pending; status <= action.TimedOut; status++ {
		if status != action.Cancelled {
			want = append(want, "action run "+status.String())
		}
	}
	for _, status := range []processing.Status{processing.Running, processing.Stopped, processing.Cancelled, processing.Failed} {
		want = append(want, "job "+status.String())
	}
	want = append(want, "mail dead", "mail acked", "review acked", "picks acked", "group search lags", "group billing acks", "large orders",
		"enriched orders", "revenue", "orders dead", "returned")
	see := func(what string, when bool, err error) {
		if err == nil && when {
			seen[what] = true
		}
	}
	wait(t, func() (missing []string) {
		for status := workflow.Pending; status <= workflow.TimedOut; status++ {
			page, err := node.Workflow(Main).Runs().Page(ctx, workflow.InState(status), workflow.Limit(1))
			see("run "+status.String(), len(page.Items) > 0, err)
		}
		for a, err := range node.Action(Main).All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			for status, n := range map[action.Status]int64{
				action.Pending: a.Runs.Pending, action.Running: a.Runs.Running, action.Completed: a.Runs.Completed,
				action.Failed: a.Runs.Failed, action.TimedOut: a.Runs.TimedOut,
			} {
				see("action run "+status.String(), n > 0, nil)
			}
		}
		for j, err := range node.Processing(Main).All(ctx) {
			see("job "+j.Status.String(), true, err)
			see("revenue", j.Name == "revenue" && j.Metrics.RecordsIn > 0, err) // windows fire seconds later
		}
		for at, name := range map[string]string{Main + " mail": "mail", Main + " review": "review", Warehouse + " picks": "picks"} {
			q, err := node.Queue(strings.Fields(at)[0]).Get(ctx, name)
			see(name+" dead", q.Dead > 0, err)
			see(name+" acked", q.Acked > 0, err)
		}
		search, err := node.Stream(Main).Groups("orders").Get(ctx, "search")
		see("group search lags", search.Lag() > 20, err)
		billing, err := node.Stream(Main).Groups("orders").Get(ctx, "billing")
		see("group billing acks", billing.Lag() == 0, err)
		for name, what := range map[string]string{"huge-orders": "large orders", "enriched-orders": "enriched orders",
			stream.DeadLetters("orders"): "orders dead"} {
			st, err := node.Stream(Main).Get(ctx, name)
			see(what, st.Records() > 0, err)
		}
		returned, err := node.Workflow(Main).Runs().Page(ctx, workflow.Of("returns"), workflow.InState(workflow.Completed))
		see("returned", len(returned.Items) > 0, err)
		for _, what := range want {
			if !seen[what] {
				missing = append(missing, what)
			}
		}
		return missing
	})
}

// TestSameSeed: what is written is a function of the seed, whoever reads it meanwhile.
func TestSameSeed(t *testing.T) {
	tell := func(seed uint64) map[string]string {
		node, s := opened(t, seed)
		for n := range 30 {
			if err := s.tick(t.Context(), n); err != nil {
				t.Fatalf("tick %d: %v", n, err)
			}
		}
		return contents(t, node, s)
	}
	one, again, other := tell(1), tell(1), tell(2)
	if len(one) < 2000 {
		t.Errorf("%d things were written", len(one))
	}
	for _, what := range slices.Sorted(maps.Keys(one)) {
		if again[what] != one[what] {
			t.Errorf("%s: %s, and with the same seed %s", what, one[what], again[what])
		}
	}
	if maps.Equal(one, other) {
		t.Errorf("another seed makes the same")
	}
}

// contents are what a node has, by what it is, without the times of writing.
func contents(t *testing.T, node *floe.Node, s *Shop) map[string]string {
	t.Helper()
	ctx, all := t.Context(), make(map[string]string)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range []string{Main, Warehouse, Analytics} {
		for item, err := range node.KV(ns).All(ctx) {
			check(err)
			e, err := node.KV(ns).Get(ctx, item.Key)
			check(err)
			all[ns+" key "+item.Key] = string(e.Value)
		}
		for st, err := range node.Stream(ns).All(ctx) {
			check(err)
			if st.Name == "huge-orders" || st.Name == "enriched-orders" || strings.HasPrefix(st.Name, "large-orders") ||
				strings.HasSuffix(st.Name, ".errors") {
				continue // what jobs write, when they come to it
			}
			for p := range st.Partitions {
				records, err := node.Stream(ns).Read(ctx, st.Name, stream.Partition(p), stream.FromBeginning())
				check(err)
				for i, r := range records {
					all[fmt.Sprintf("%s stream %s/%d/%d", ns, st.Name, p, i)] = r.Key + " " + string(r.Payload)
				}
			}
		}
	}
	for m, err := range node.Queue(Main).Messages("newsletter").All(ctx) {
		check(err)
		all[fmt.Sprintf("message %d", m.Seq)] = string(m.Payload)
	}
	for sample, err := range node.TS(Main).Read(ctx, "cpu", "usage") {
		check(err)
		all[fmt.Sprintf("cpu %v %v", sample.Tags, sample.Time.Sub(s.now.Truncate(time.Millisecond)))] = fmt.Sprint(sample.Value)
	}
	return all
}

// TestNothingGrows: whatever comes all the time has a bound.
func TestNothingGrows(t *testing.T) {
	node, s := opened(t, 1)
	live(t, s, 61)
	ctx := t.Context()
	// The job that writes revenue does so when its first window ends, seconds from now.
	if _, err := node.TS(Main).Write(ctx, ts.Point{Measurement: "revenue", Fields: map[string]float64{"cents": 1}}); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{Main, Warehouse, Analytics} {
		for st, err := range node.Stream(ns).All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			still := st.Name == "imports" || strings.HasPrefix(st.Name, "large-orders")
			if st.Retention == (stream.Retention{}) && !still {
				t.Errorf("stream %s of %s keeps everything", st.Name, ns)
			}
		}
		for q, err := range node.Queue(ns).All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if q.Settings.MaxLen == 0 && !strings.HasPrefix(q.Name, "large-orders") {
				t.Errorf("queue %s of %s has no bound", q.Name, ns)
			}
		}
		for m, err := range node.TS(ns).All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if m.Retention.RawTTL == 0 {
				t.Errorf("measurement %s of %s keeps everything", m.Name, ns)
			}
		}
	}
}

// TestVisitors: whatever somebody who plays with the shop takes away, the rest goes on, and it ends
// when the node does.
func TestVisitors(t *testing.T) {
	node, s := opened(t, 3)
	ctx := t.Context()
	for _, err := range []error{
		node.Workflow(Main).Disable(ctx, "order"), node.Stream(Main).Delete(ctx, "clicks", stream.Force()), node.Queue(Main).Pause(ctx,
			"mail"), node.TS(Main).Delete(ctx, "cpu"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before, err := node.Stream(Main).Get(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.tick(ctx, 0) // which says what it could not do
	if after, err := node.Stream(Main).Get(ctx, "orders"); err != nil || after.Records() <= before.Records() {
		t.Errorf("a tick with the workflow disabled: %d orders after %d, %v", after.Records(), before.Records(), err)
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run until its ctx ended: %v", err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(ctx); !errors.Is(err, floe.ErrClosed) {
		t.Errorf("Run on a closed node: %v, want ErrClosed", err)
	}
}
