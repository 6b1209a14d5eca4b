package action

import (
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestDamages: what Verify reports for each damaged row.
func TestDamages(t *testing.T) {
	row := func(kind byte) func(k []byte) bool { return func(k []byte) bool { return k[0] == kind } }
	machinetest.RunDamages(t, "testdata/damages", engine.MachineAction, map[string]machinetest.RowKind{
		"action":   machinetest.RowOf(row(rowAction), (*record).code),
		"name":     machinetest.RowOf(row(rowName), (*nameRow).code),
		"grave":    machinetest.RowOf(row(rowGrave), (*record).code),
		"expiry":   machinetest.BareRow(row(rowExpiry)),
		"run":      machinetest.RowOf(row(rowRun), (*runRow).code),
		"state":    machinetest.RowOf(row(rowState), (*stateRow).layout),
		"waiting":  machinetest.BareRow(row(rowWaiting)),
		"delayed":  machinetest.BareRow(row(rowDelayed)),
		"labels":   machinetest.RowOf(func(k []byte) bool { return k[0] == rowSet && len(k) == numberAt }, (*labelsRow).code),
		"set":      machinetest.RowOf(func(k []byte) bool { return k[0] == rowSet && len(k) > numberAt }, (*labelSet).code),
		"held":     machinetest.RowOf(row(rowHeld), (*held).code),
		"ended":    machinetest.RowOf(row(rowEnded), (*endedRow).code),
		"lane":     machinetest.RowOf(row(rowLane), (*laneRow).code),
		"eligible": machinetest.BareRow(row(rowEligible)),
		"key":      machinetest.RowOf(row(rowKey), (*keyRow).code),
		"key-end":  machinetest.BareRow(row(rowKeyEnd)),
		"session":  machinetest.RowOf(row(rowSession), (*sessionRow).code),
		"key-sets": machinetest.BareRow(row(rowKeySets)),
		"self":     machinetest.BareRow(row(rowSelf)),
		"stats":    machinetest.BareRow(row(rowStats)),
		"worker":   machinetest.BareRow(row(rowWorker)),
		"plan":     machinetest.RowOf(row(rowPlan), (*plan).code),
		"due":      machinetest.BareRow(row(rowDue)),
		"schedule": machinetest.RowOf(row(rowSchedule), (*scheduleRow).code),
	}, newDamageable)
}

// newDamageable returns a rig with rows of all kinds.
func newDamageable(t *testing.T) *machinetest.Rig {
	ctx := t.Context()
	r := machinetest.New(t, 1, table())
	s := engine.StoreOf[Store](r.Router(), "n", 1<<20)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Register(ctx, "a", MaxAttempts(3), Backoff(time.Minute, time.Hour))
	must(err)
	_, err = s.Register(ctx, "gone")
	must(err)
	_, err = s.Register(ctx, "limited", MaxRunning(2), MaxRunningPerKey(1), RateLimit(Rate{Limit: 5, Per: time.Minute, Burst: 5}))
	must(err)
	invoke := func(name string, opts ...InvokeOption) RunID {
		t.Helper()
		v, err := s.Invoke(ctx, name, []byte(`1`), opts...)
		must(err)
		return v.Run
	}
	take := func(n int, opts ...AwaitOption) []Task {
		t.Helper()
		tasks, err := s.Await(ctx, "w", []string{"a", "gone", "limited"}, append(opts, Max(n))...)
		if err != nil || len(tasks) != n {
			t.Fatalf("Await = %v, %v; want %d tasks", tasks, err, n)
		}
		return tasks
	}
	w := &world{t: t, r: r, of: make(map[protocol.Ref]uint64)}
	session := w.open(group{"", []string{"a", "limited"}}, group{labels(map[string]string{"gpu": "yes"}), []string{"a"}})

	invoke("a", IdempotencyKey("k"))
	must(s.Complete(ctx, take(1)[0].Run, "w", []byte(`2`)))
	invoke("a")
	must(s.Fail(ctx, take(1)[0].Run, "w", "no", Retry())) // waits for its next attempt
	invoke("gone", IdempotencyKey("g"))
	take(1)
	must(s.Delete(ctx, "gone", Force()))
	for range 3 {
		invoke("limited", ConcurrencyKey("c"))
		invoke("a", Labels(map[string]string{"gpu": "yes"}), ConcurrencyKey("d"))
	}
	invoke("limited", ConcurrencyKey("e"))
	invoke("a", Labels(map[string]string{"gpu": "yes"}))
	_, err = w.work(workBody{session: session, wants: []want{{group: 0, worker: "x", slots: 1}}})
	must(err)
	cancelled := invoke("a")
	take(1)
	must(s.Cancel(ctx, cancelled, "enough"))
	invoke("a", Expire(time.Hour), IdempotencyKey("l"))
	invoke("a", Delay(time.Hour), Expire(2*time.Hour))
	must(s.Schedules("a").Set(ctx, "s", ScheduleSpec{Every: time.Hour, Overlap: OverlapBuffer}))
	r.Verify()
	return r
}
