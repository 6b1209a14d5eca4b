package action

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestLatency: an action's latency covers the last attempts of completed runs, over all shards. The
// average is over all runs ever, the P99 over those among the last 1,024 that ended.
func TestLatency(t *testing.T) {
	for _, shards := range []int{1, 4} {
		r := machinetest.New(t, shards, table())
		router := r.Router()
		if err := engine.NewNamespaces(router).Create(t.Context(), "n", shards > 1); err != nil {
			t.Fatal(err)
		}
		s, ctx := engine.StoreOf[Store](router, "n", 1<<20), t.Context()
		if _, err := s.Register(ctx, "a", Backoff(0, 0), Timeout(time.Hour)); err != nil {
			t.Fatal(err)
		}
		runs := 0
		carryOut := func(took time.Duration, end func(id RunID) error) {
			t.Helper()
			runs++
			if _, err := s.Invoke(ctx, "a", nil, IdempotencyKey(fmt.Sprint(runs))); err != nil {
				t.Fatal(err)
			}
			r.Advance(5) // waiting does not count
			got, err := s.Await(ctx, "w", []string{"a"})
			if err != nil || len(got) != 1 {
				t.Fatalf("Await = %v, %v", got, err)
			}
			r.Advance(took.Milliseconds())
			if err := end(got[0].Run); err != nil {
				t.Fatal(err)
			}
		}
		complete := func(id RunID) error { return s.Complete(ctx, id, "w", nil) }
		want := func(l Latency) {
			t.Helper()
			i, err := s.Get(ctx, "a")
			// each shard has its own average
			i.Latency.Average, l.Average = i.Latency.Average.Round(time.Microsecond), l.Average.Round(time.Microsecond)
			if err != nil || i.Latency != l {
				t.Errorf("%d shards: the latency is %+v, %v; want %+v", shards, i.Latency, err, l)
			}
		}
		want(Latency{})
		for i := range 200 {
			if carryOut(time.Duration(i+1)*time.Millisecond, complete); i == 0 {
				want(Latency{1, time.Millisecond, time.Millisecond})
			}
		}
		want(Latency{200, 100*time.Millisecond + 500*time.Microsecond, 198 * time.Millisecond})
		carryOut(time.Minute, func(id RunID) error { return s.Fail(ctx, id, "w", "it failed") })
		carryOut(time.Minute, func(id RunID) error { return s.Cancel(ctx, id, "") })
		want(Latency{200, 100*time.Millisecond + 500*time.Microsecond, 198 * time.Millisecond})
		carryOut(time.Minute, func(id RunID) error { // only its second and last attempt counts
			if err := s.Fail(ctx, id, "w", "once more", Retry()); err != nil {
				return err
			}
			r.Advance(1)
			if got, err := s.Await(ctx, "w", []string{"a"}); err != nil || len(got) != 1 || got[0].Attempt != 2 {
				return fmt.Errorf("the second attempt is %+v: %w", got, err)
			}
			r.Advance(301)
			return complete(id)
		})
		want(Latency{201, (20_100 + 301) * time.Millisecond / 201, 199 * time.Millisecond})
	}
}

// TestRunShows: a run and the list of runs show everything the run was invoked with, and its state,
// at each point of its life.
func TestRunShows(t *testing.T) {
	r := machinetest.New(t, 1, table())
	router := r.Router()
	if err := engine.NewNamespaces(router).Create(t.Context(), "n", false); err != nil {
		t.Fatal(err)
	}
	s, ctx := engine.StoreOf[Store](router, "n", 1<<20), t.Context()
	if _, err := s.Register(ctx, "a", Backoff(0, 0), MaxAttempts(8)); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.UnixMilli(r.Now()) }
	i, err := s.Invoke(ctx, "a", []byte(`{"n":1}`), Priority(7), Delay(time.Hour), Labels(map[string]string{"gpu": "a"}),
		ConcurrencyKey("c"), IdempotencyKey("i"),
		Expire(10*time.Hour), MaxAttempts(2))
	if err != nil {
		t.Fatal(err)
	}
	want := Run{
		ID: i.Run, Action: "a", Status: Pending, Priority: 7, MaxAttempts: 2, Input: []byte(`{"n":1}`), Source: "api",
		Labels:         map[string]string{"gpu": "a"},
		ConcurrencyKey: "c", IdempotencyKey: "i", CreatedAt: now(), AvailableAt: now().Add(time.Hour),
	}
	shows := func(what string) {
		t.Helper()
		got, err := s.Runs().Get(ctx, i.Run)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", what, got, err, want)
		}
		page, err := s.Runs().Page(ctx, Of("a"))
		if err != nil || len(page.Items) != 1 || !reflect.DeepEqual(page.Items[0], got) {
			t.Errorf("%s: the list has %+v, %v", what, page.Items, err)
		}
		r.Advance(1000)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	var task Task
	take := func(attempt int) {
		t.Helper()
		got, err := s.Await(ctx, "w", []string{"a"}, Labels(map[string]string{"gpu": "a", "zone": "b"}))
		if err != nil || len(got) != 1 {
			t.Fatalf("Await = %+v, %v", got, err)
		}
		task = got[0]
		want.Status, want.Attempt, want.WorkerID, want.StartedAt = Running, attempt, "w", now()
	}
	shows("delayed")
	check(s.RunNow(ctx, i.Run))
	want.AvailableAt = now()
	shows("ready")
	take(1)
	shows("running")
	check(s.Finish(ctx, "w", &task, nil, Snooze(5*time.Second)))
	want.Status, want.Attempt, want.AvailableAt = Pending, 0, now().Add(5*time.Second)
	shows("snoozed")
	r.Advance(5000)
	take(1)
	want.AvailableAt = want.CreatedAt.Add(time.Second) // since RunNow
	check(s.Finish(ctx, "w", &task, nil, Code("c1", errors.New("once more"))))
	want.Status, want.Error, want.Code = Pending, "once more", "c1"
	shows("to be retried")
	take(2)
	if task.LastError != "once more" || task.LastCode != "c1" || task.Delivery != 3 || task.MaxAttempts != 2 || task.Priority != 7 ||
		task.ConcurrencyKey != "c" ||
		task.IdempotencyKey != "i" || task.Source != "api" && task.Source != "" || !task.CreatedAt.Equal(want.CreatedAt) ||
		task.Labels["gpu"] != "a" {
		t.Errorf("the task is %+v", task)
	}
	shows("retried")
	check(s.Finish(ctx, "w", &task, nil, errors.New("for good")))
	want.Status, want.Error, want.Code, want.Outcome, want.CompletedAt = Failed, "for good", "", OutcomeFailure, now()
	if want.Duration() != time.Second {
		t.Errorf("it took %v", want.Duration())
	}
	shows("failed")
	check(s.Retry(ctx, i.Run))
	want.Status, want.Outcome, want.CompletedAt, want.MaxAttempts = Pending, "", time.Time{}, 4
	shows("carried out again")
	take(3)
	check(s.Cancel(ctx, i.Run, "why"))
	want.Status, want.Outcome, want.Error, want.CompletedAt, want.Cancelling = Cancelled, OutcomeCancelled, "why", now(), true
	shows("cancelled")
	if err := s.Finish(ctx, "w", &task, 1, nil); !errors.Is(err, ErrConflict) {
		t.Errorf("the end of one that was cancelled: %v", err)
	}
	want.Cancelling = false
	shows("confirmed")
	check(s.Retry(ctx, i.Run))
	take(4)
	check(s.Finish(ctx, "w", &task, Outcome("approved", 5), nil))
	want.Status, want.Outcome, want.Error, want.Output, want.CompletedAt, want.MaxAttempts = Completed, "approved", "", []byte("5"), now(),
		5
	shows("completed")
}

// TestRunsOfAllActions: the runs of all actions are listed action by action. A page that ends with
// an action is followed by one of the next.
func TestRunsOfAllActions(t *testing.T) {
	r := machinetest.New(t, 1, table())
	s, ctx := engine.StoreOf[Store](r.Router(), "n", 1<<20), t.Context()
	page := func(cursor string) (runs, next string) {
		t.Helper()
		p, err := s.Runs().Page(ctx, Limit(2), Cursor(cursor))
		if err != nil {
			t.Fatalf("Page(%q): %v", cursor, err)
		}
		for _, run := range p.Items {
			runs += run.Action + " "
		}
		return runs, p.Cursor
	}
	if runs, next := page(""); runs != "" || next != "" {
		t.Errorf("without actions: %q, cursor %q", runs, next)
	}
	for name, n := range map[string]int{"a": 3, "b": 0, "c%": 2, "d": 1} {
		if _, err := s.Register(ctx, name); err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := s.Invoke(ctx, name, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	runs, within := page("")
	if runs != "a a " || !strings.HasPrefix(within, "a/") || within == "a/" {
		t.Errorf("the first page: %q, cursor %q", runs, within)
	}
	next := within
	for _, want := range []struct{ runs, cursor string }{{"a ", "a/"}, {"", "b/"}, {"c% c% ", "c%25/"}, {"d ", ""}} {
		if runs, next = page(next); runs != want.runs || next != want.cursor {
			t.Errorf("%q, cursor %q, want %q, %q", runs, next, want.runs, want.cursor)
		}
	}
	if err := s.Delete(ctx, "a", Force()); err != nil {
		t.Fatal(err)
	}
	if runs, next := page(within); runs != "" || next != "a/" {
		t.Errorf("after the action was deleted: %q, cursor %q, want none and the next action", runs, next)
	}
	for _, cursor := range []string{"a", "%zz/", "a\n/", "/x", "a/no"} {
		if _, err := s.Runs().Page(ctx, Cursor(cursor)); !errors.Is(err, ErrInvalid) {
			t.Errorf("Page(%q): %v, want ErrInvalid", cursor, err)
		}
	}
}

// TestNames: each status, policy and result has its name, and other numbers none.
func TestNames(t *testing.T) {
	for got, want := range map[string][]string{
		fmt.Sprint(WorkerStatus(0), Active, Draining, Unhealthy, Unhealthy+1): {"unknown", "active", "draining", "unhealthy", "unknown"},
		fmt.Sprint(TickRan-1, TickRan, TickTriggered, TickBuffered, TickSkipped, TickRefused, TickMissed, TickMissed+1): {
			"unknown", "ran", "triggered", "buffered", "skipped", "refused", "missed", "unknown"},
	} {
		if got != strings.Join(want, " ") {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for i, name := range []string{"skip", "buffer", "allow", "replace"} {
		if o, err := ParseOverlap(name); err != nil || o != Overlap(i) || o.String() != name {
			t.Errorf("overlap %s is %v, %v", name, o, err)
		}
	}
	for i, name := range []string{"one", "none", "all"} {
		if c, err := ParseCatchUp(name); err != nil || c != CatchUp(i) || c.String() != name {
			t.Errorf("catch-up %s is %v, %v", name, c, err)
		}
	}
	_, overlap := ParseOverlap("unknown")
	_, catchUp := ParseCatchUp("unknown")
	if !errors.Is(overlap, ErrInvalid) || !errors.Is(catchUp, ErrInvalid) {
		t.Errorf("unknown names: %v, %v", overlap, catchUp)
	}
}
