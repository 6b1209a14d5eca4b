package action_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestBounds: every limit that the package documents holds as documented. The minimum and maximum
// are accepted, and values one beyond them are ErrInvalid.
func TestBounds(t *testing.T) {
	node := floe.OpenMemory(t)
	s, ctx := node.Action("n"), t.Context()
	register := func(opts ...action.RegisterOption) error {
		_, err := s.Register(ctx, "a", opts...)
		return err
	}
	if err := register(); err != nil {
		t.Fatal(err)
	}
	invoke := func(opts ...action.InvokeOption) error {
		_, err := s.Invoke(ctx, "a", nil, opts...)
		return err
	}
	text := func(n int) string { return strings.Repeat("x", n) }
	schedule := func(name string, spec action.ScheduleSpec, opts ...action.ScheduleOption) error {
		return s.Schedules("a").Set(ctx, name, spec, opts...)
	}
	hourly := action.ScheduleSpec{Every: time.Hour}
	await := func(worker string, names []string, opts ...action.AwaitOption) error {
		_, err := s.Await(ctx, worker, names, opts...)
		return err
	}
	taken := func() action.Task {
		if _, err := s.Invoke(ctx, "taken", nil); err != nil {
			t.Fatal(err)
		}
		tasks, err := s.Await(ctx, "w", []string{"taken"})
		if err != nil || len(tasks) != 1 {
			t.Fatal(tasks, err)
		}
		return tasks[0]
	}
	if _, err := s.Register(ctx, "taken"); err != nil {
		t.Fatal(err)
	}
	rate := func(limit int, per time.Duration, burst int) error {
		return register(action.RateLimit(action.Rate{Limit: limit, Per: per, Burst: burst}))
	}
	run := func(c action.WorkerConfig, names ...string) error {
		ended, end := context.WithCancel(ctx)
		end()
		w := s.Worker(c)
		for _, name := range names {
			w.Handle(name, nothing)
		}
		return w.Run(ended)
	}
	const none, open = math.MinInt, math.MaxInt // no minimum, and no maximum
	var bounds []machinetest.Bound
	for _, c := range []struct {
		what        string
		least, most int
		try         func(n int) error
	}{
		{"name", 1, 255, func(n int) error { _, err := s.Register(ctx, text(n)); return err }},
		{"owner", none, action.MaxTextBytes, func(n int) error { return register(action.Owner(text(n))) }},
		{"description", none, action.MaxTextBytes, func(n int) error { return register(action.Description(text(n))) }},
		{"timeout", 1, open, func(n int) error { return register(action.Timeout(time.Duration(n))) }},
		{"max attempts", 1, action.MaxAttemptsLimit, func(n int) error { return register(action.MaxAttempts(n)) }},
		{"back-off", 0, open, func(n int) error { return register(action.Backoff(time.Duration(n), time.Duration(n))) }},
		{"longest back-off", 1000, open, func(n int) error { return register(action.Backoff(1000, time.Duration(n))) }},
		{"retention", 1, open, func(n int) error { return register(action.Retain(time.Duration(n), 1)) }},
		{"retained runs", 0, action.MaxRetainedRuns, func(n int) error { return register(action.Retain(time.Hour, n)) }},
		{"running", 0, action.MaxRunningLimit, func(n int) error { return register(action.MaxRunning(n)) }},
		{"running per key", 0, action.MaxRunningLimit, func(n int) error { return register(action.MaxRunningPerKey(n)) }},
		{"rate", 1, action.MaxRateLimit, func(n int) error { return rate(n, time.Second, 1) }},
		{"burst", none, action.MaxRateLimit, func(n int) error { return rate(10, time.Second, n) }},
		{"time of a rate", 1, 366 * 24 * 3600 * 1000, func(n int) error { return rate(1, time.Duration(n)*time.Millisecond, 1) }},
		{"priority", 0, action.MaxPriority, func(n int) error { return invoke(action.Priority(n)) }},
		{"delay", 0, open, func(n int) error { return invoke(action.Delay(time.Duration(n))) }},
		{"expiry", 1, open, func(n int) error { return invoke(action.Expire(time.Duration(n))) }},
		{"timeout of a run", 1, open, func(n int) error { return invoke(action.Timeout(time.Duration(n))) }},
		{"max attempts of a run", 1, action.MaxAttemptsLimit, func(n int) error { return invoke(action.MaxAttempts(n)) }},
		{"idempotency key", 1, action.MaxKeyBytes, func(n int) error { return invoke(action.IdempotencyKey(text(n))) }},
		{"concurrency key", 1, action.MaxKeyBytes, func(n int) error { return invoke(action.ConcurrencyKey(text(n))) }},
		{"name of a label", 1, 255, func(n int) error { return invoke(action.Labels(map[string]string{text(n): ""})) }},
		{"labels", none, action.MaxLabelBytes, func(n int) error { return invoke(action.Labels(map[string]string{"l": text(n - 1)})) }},
		{"many labels", none, action.MaxLabelBytes, func(n int) error {
			many := map[string]string{"ab": text(n - 2*26*2)}
			for i := range 2*26 - 1 {
				many["l"+string(rune('A'+i))] = ""
			}
			return invoke(action.Labels(many))
		}},
		{"input", none, 1 << 20, func(n int) error { _, err := s.Invoke(ctx, "a", []byte(`"`+text(n-2)+`"`)); return err }},
		{"reason", none, action.MaxReasonBytes, func(n int) error {
			i, err := s.Invoke(ctx, "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			return s.Cancel(ctx, i.Run, text(n))
		}},
		{"runs that Await takes", 1, 100, func(n int) error { return await("w", []string{"none"}, action.Max(n)) }},
		{"wait", 0, open, func(n int) error { return await("w", []string{"none"}, action.Wait(time.Duration(min(n, 1)))) }},
		{"worker", 1, 255, func(n int) error { return await(text(n), []string{"none"}) }},
		{"labels of a worker", none, action.MaxLabelBytes, func(n int) error {
			return await("w", []string{"none"}, action.Labels(map[string]string{"l": text(n - 1)}))
		}},
		{"labels of a registered worker", none, action.MaxLabelBytes, func(n int) error {
			return s.RegisterWorker(ctx, action.NewWorker{ID: "w", Actions: []string{"none"}, Labels: map[string]string{"l": text(n - 1)}})
		}},
		{"metadata", none, 4 << 10, func(n int) error {
			return s.RegisterWorker(ctx, action.NewWorker{ID: "w", Actions: []string{"none"},
				Metadata: []byte(`{"m":"` + text(n-8) + `"}`)})
		}},
		{"concurrency", 1, 1000, func(n int) error {
			if n == 0 {
				n = -1 // 0 is the default
			}
			return run(action.WorkerConfig{Concurrency: n}, "none")
		}},
		{"actions of a worker", 1, 1000, func(n int) error {
			var names []string
			for range n {
				names = append(names, "none")
			}
			return await("w", names)
		}},
		{"outcome", none, action.MaxOutcomeBytes, func(n int) error {
			task := taken()
			return s.Complete(ctx, task.Run, "w", nil, action.OutcomeName(text(n)))
		}},
		{"code", none, action.MaxOutcomeBytes, func(n int) error {
			task := taken()
			return s.Fail(ctx, task.Run, "w", "x", action.ErrorCode(text(n)))
		}},
		{"output", none, 1 << 20, func(n int) error { task := taken(); return s.Complete(ctx, task.Run, "w", []byte(text(n))) }},
		{"touch", 1, open, func(n int) error {
			task := taken()
			_, err := s.Extend(ctx, task.Run, "w", time.Duration(n))
			return err
		}},
		{"page", 1, 1000, func(n int) error { _, err := s.Page(ctx, action.Limit(n)); return err }},
		{"page of runs", 1, 1000, func(n int) error { _, err := s.Runs().Page(ctx, action.Of("a"), action.Limit(n)); return err }},
		{"name of a schedule", 1, action.MaxScheduleName, func(n int) error { return schedule(text(n), hourly) }},
		{"interval", 1000, open, func(n int) error {
			return schedule("s", action.ScheduleSpec{Every: time.Duration(min(n, math.MaxInt64/1_000_000)) * time.Millisecond})
		}},
		{"runs that are caught up", 1, action.MaxCatchUp, func(n int) error {
			spec := hourly
			if spec.CatchUp, spec.CatchUpLimit = action.CatchUpAll, n; n == 0 {
				spec.CatchUpLimit = -1 // 0 is the default
			}
			return schedule("s", spec)
		}},
		{"cron expression", none, 256, func(n int) error {
			return schedule("s", action.ScheduleSpec{Cron: "0" + strings.Repeat(" ", n-len("00***")-3) + "0 * * *"})
		}},
		{"attributes of a listing", none, 16, func(n int) error {
			_, err := s.Runs().Page(ctx, append([]action.RunOption{action.Of("a")},
				slices.Repeat([]action.RunOption{action.Has(action.AttributeSource, "api")}, n)...)...)
			return err
		}},
		{"prefix", none, 255, func(n int) error { _, err := s.Page(ctx, action.Prefix(text(n))); return err }},
		{"page of schedules", 1, 1000, func(n int) error { _, err := s.Schedules("a").Page(ctx, action.Limit(n)); return err }},
		{"page of workers", 1, 1000, func(n int) error { _, err := s.Workers().Page(ctx, action.Limit(n)); return err }},
		{"id of a worker in the process", none, 255, func(n int) error { return run(action.WorkerConfig{ID: text(n)}, "none") }},
		{"labels of a worker in the process", none, action.MaxLabelBytes, func(n int) error {
			return run(action.WorkerConfig{Labels: map[string]string{"l": text(n - 1)}}, "none")
		}},
		{"metadata of a worker in the process", none, 4 << 10, func(n int) error {
			return run(action.WorkerConfig{Metadata: map[string]string{"m": text(n - 8)}}, "none")
		}},
		{"handlers of a worker", 1, 1000, func(n int) error {
			var names []string
			for i := range n {
				names = append(names, strconv.Itoa(i))
			}
			return run(action.WorkerConfig{}, names...)
		}},
		{"schedules of an action", none, action.MaxSchedules, func(n int) error {
			if _, err := s.Register(ctx, "scheduled"); err != nil {
				t.Fatal(err)
			}
			defer s.Delete(ctx, "scheduled")
			txn := node.Txn("n")
			for i := range n - 3 {
				if txn.Do(action.SetScheduleOp("scheduled", strconv.Itoa(i), hourly)); i%50 == 49 || i == n-4 {
					if _, err := txn.Commit(ctx); err != nil {
						t.Fatal(err)
					}
					txn = node.Txn("n")
				}
			}
			var err error
			for i := range 3 {
				err = errors.Join(err, s.Schedules("scheduled").Set(ctx, "last"+strconv.Itoa(i), hourly))
			}
			return err
		}},
		{"priority of a schedule", 0, action.MaxPriority, func(n int) error { return schedule("s", hourly, action.Priority(n)) }},
		{"concurrency key of a schedule", 1, action.MaxKeyBytes,
			func(n int) error { return schedule("s", hourly, action.ConcurrencyKey(text(n))) }},
	} {
		bounds = append(bounds, machinetest.Bound{What: c.what, Least: int64(c.least), Most: int64(c.most)})
		t.Run(c.what, func(t *testing.T) {
			values := make(map[int]bool) // and whether each is accepted
			if c.least != none {
				values[c.least-1], values[c.least], values[c.least+1] = false, true, true
			}
			if c.most != open {
				values[c.most-1], values[c.most], values[c.most+1] = true, true, false
			} else {
				values[open-1], values[open] = true, true
			}
			for n, good := range values {
				if err := c.try(n); good && err != nil || !good && !errors.Is(err, floe.ErrInvalid) {
					t.Errorf("%d: %v", n, err)
				}
			}
		})
	}
	for n := range 3 { // longer errors are cut
		task, n := taken(), action.MaxErrorBytes-1+n
		if err := s.Fail(ctx, task.Run, "w", text(n)); err != nil {
			t.Error(err)
		}
		if r, err := s.Runs().Get(ctx, task.Run); err != nil || len(r.Error) != min(n, action.MaxErrorBytes) {
			t.Errorf("of an error of %d bytes there are %d, %v", n, len(r.Error), err)
		}
	}
	machinetest.DocumentLimits(t, "package action", bounds)
}
