package golden

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/test/workload"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// rest makes the calls in a namespace that the works of package workload omit, so that the log
// holds every kind of command. Names contain a {tag} where one transaction uses several of them.
func (w *world) rest(ns string) {
	w.restOfKV(ns)
	w.restOfStreams(ns)
	w.restOfQueues(ns)
	w.restOfActions(ns)
	w.restOfWorkflows(ns)
	w.restOfJobs(ns)
}

// ok fails the test if a call has failed.
func ok[T any](w *world) func(T, error) T {
	return func(v T, err error) T {
		w.t.Helper()
		w.must(err)
		return v
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) txn(ns string) *engine.Txn { return engine.NewTxn(w.router, ns, workload.MaxValue) }

func (w *world) restOfKV(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[kv.Store](w.router, ns, workload.MaxValue)
	ok[kv.Written](w)(s.Put(ctx, "{tag}a", []byte(`{"n":[1,2]}`), kv.TTL(time.Hour)))
	w.must(s.Touch(ctx, "{tag}a", 2*time.Hour))
	w.must(s.Persist(ctx, "{tag}a"))
	ok[kv.Written](w)(s.JSONSet(ctx, "{tag}a", "m", []byte(`"x"`)))
	ok[kv.Written](w)(s.JSONDelete(ctx, "{tag}a", "n.0"))
	ok[kv.Counted](w)(s.Incr(ctx, "{tag}n", 7, kv.Max(9)))
	ok[*engine.TxnResult](w)(w.txn(ns).If(kv.Present("{tag}a"), kv.Absent("{tag}b")).Do(kv.PutOp("{tag}b", nil),
		kv.DeleteOp("{tag}b")).Commit(ctx))
}

func (w *world) restOfStreams(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[stream.Store](w.router, ns, workload.MaxValue)
	const name, group = "rest", "readers"
	w.must(s.Create(ctx, name, stream.Partitions(3)))
	w.must(s.SetRetention(ctx, name, stream.Retention{MaxLen: 1000, MaxAge: 24 * time.Hour, MaxBytes: 1 << 20}))
	w.must(s.Groups(name).Create(ctx, group, stream.AckTimeout(time.Minute), stream.MaxAttempts(2), stream.Backoff(0, time.Second)))
	w.must(s.Groups(name).Configure(ctx, group, stream.MaxAttempts(3)))
	var last stream.Appended
	for n := range 9 {
		last = ok[stream.Appended](w)(s.Append(ctx, name, stream.Message{Payload: []byte("p"), Headers: map[string]string{"h": "v"}},
			stream.Dedup("producer", uint64(n+1))))
	}
	ds := ok[[]stream.Delivery](w)(s.ReadGroup(ctx, name, group, "one"))
	if len(ds) < 3 {
		w.t.Fatalf("a group reads %d records", len(ds))
	}
	refs := stream.RefsOf(ds)
	ok[stream.Extended](w)(s.ExtendMany(ctx, name, group, refs[:1], time.Hour))
	ok[int](w)(s.Nack(ctx, name, group, refs[:1], stream.Reason("no")))
	ok[int](w)(s.Nack(ctx, name, group, refs[1:2], stream.ToDLQ()))
	ok[int](w)(s.Ack(ctx, name, group, refs[2:]...))
	w.must(s.Leave(ctx, name, group, "one"))
	w.must(s.Seek(ctx, name, group, stream.FromBeginning()))
	ok[int64](w)(s.Trim(ctx, name, stream.MaxLen(4)))
	w.must(s.Groups(name).Create(ctx, "alone", stream.InMode(stream.Exclusive)))
	ok[[]stream.Delivery](w)(s.ReadGroup(ctx, name, "alone", "one"))
	w.must(s.Groups(name).Delete(ctx, group))
	_, err := w.txn(ns).If(stream.LastIDIs(name, last.Partition, stream.ID{})).Do(stream.AppendOp(name, stream.Message{})).Commit(ctx)
	if !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrInvalid) {
		w.t.Fatal(err)
	}
	w.must(s.Create(ctx, "{tag}one"))
	ok[*engine.TxnResult](w)(w.txn(ns).If(stream.LastIDIs("{tag}one", 0, stream.ID{})).Do(stream.AppendOp("{tag}one",
		stream.Message{Payload: []byte("p")})).Commit(ctx))
	w.must(s.Create(ctx, "gone", stream.Partitions(8)))
	w.must(s.Delete(ctx, "gone"))
}

func (w *world) restOfQueues(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[queue.Store](w.router, ns, workload.MaxValue)
	const name = "{tag}rest"
	w.must(s.Configure(ctx, name, queue.Settings{MaxAttempts: 2, DeadRetention: 1000 * time.Hour, BackoffMin: queue.NoBackoff}))
	for range 8 {
		ok[queue.Enqueued](w)(s.Enqueue(ctx, name, []byte("p"), queue.Priority(3), queue.Headers(map[string]string{"h": "v"})))
	}
	ok[queue.Enqueued](w)(s.Enqueue(ctx, name, []byte("later"), queue.Delay(time.Hour), queue.DedupKey("key")))
	ms := ok[[]queue.Message](w)(s.Dequeue(ctx, name, queue.Max(6), queue.Lease(time.Minute)))
	ok[*engine.TxnResult](w)(w.txn(ns).If(queue.Held(name, ms[0].Receipt)).Do(queue.AckOp(name, ms[0].Receipt)).Commit(ctx))
	ok[time.Time](w)(s.Extend(ctx, name, ms[1].Receipt, time.Hour))
	ok[int](w)(s.Nack(ctx, name, []queue.Receipt{ms[2].Receipt}, queue.ToDLQ(), queue.Reason("no")))
	ok[int](w)(s.Nack(ctx, name, []queue.Receipt{ms[3].Receipt}, queue.ToDLQ()))
	ok[int](w)(s.Nack(ctx, name, []queue.Receipt{ms[4].Receipt}))
	ok[int64](w)(s.Release(ctx, name, ms[5].Receipt))
	w.must(s.DeadLetters(name).Delete(ctx, ms[3].Seq))
	w.must(s.DeadLetters(name).Requeue(ctx, ms[2].Seq))
	ok[int64](w)(s.DeadLetters(name).RequeueAll(ctx))
	gone := ok[queue.Enqueued](w)(s.Enqueue(ctx, name, []byte("p")))
	w.must(s.Messages(name).Delete(ctx, gone.Seq))
	w.must(s.Pause(ctx, name))
	w.must(s.Resume(ctx, name))
	ok[queue.Enqueued](w)(s.Enqueue(ctx, "{tag}gone", nil))
	ok[int64](w)(s.Purge(ctx, "{tag}gone"))
	w.must(s.Delete(ctx, "{tag}gone"))
}

func (w *world) restOfSeries(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[ts.Store](w.router, ns, workload.MaxValue)
	forgotten := engine.StoreOf[kv.Store](w.router, ns, workload.MaxValue)
	ok[kv.Written](w)(forgotten.Put(ctx, "forgotten", nil))
	ok[kv.Written](w)(forgotten.Delete(ctx, "forgotten"))
	const name = "rest"
	w.must(s.SetSeriesLimit(ctx, 10_000))
	w.must(s.SetRetention(ctx, name, ts.Retention{RawTTL: 48 * time.Hour,
		Downsample: []ts.Downsample{{Every: time.Minute, TTL: 24 * 30 * time.Hour}}}))
	write := func(age time.Duration) {
		var points []ts.Point
		for host := range 4 {
			for i := range 20 {
				points = append(points, ts.Point{
					Measurement: name, Tags: map[string]string{"host": string(rune('a' + host))},
					Time:   w.now().Add(-age - time.Duration(i)*time.Minute),
					Fields: map[string]float64{"f": float64(i) / 3, "g": float64(host)},
				})
			}
		}
		ok[ts.Result](w)(s.Write(ctx, points...))
	}
	for range 3 {
		write(0)
		w.sleep(5 * time.Hour)
		write(9 * time.Hour) // into sealed data
	}
	ok[int64](w)(s.Series(name).Delete(ctx, map[string]string{"host": "a"}))
	ok[int64](w)(s.DeleteRange(ctx, name, w.now().Add(-6*time.Hour), w.now(), map[string]string{"host": "b"}))
	w.must(s.SetRetention(ctx, "passing", ts.Retention{RawTTL: 24 * time.Hour})) // whose series are retired
	ok[ts.Result](w)(s.Write(ctx, ts.Point{Measurement: "passing", Time: w.now(), Fields: map[string]float64{"f": 1}}))
	for range 10 {
		w.sleep(6 * time.Hour)
	}
	w.must(s.Delete(ctx, name))
	w.sleep(time.Hour)
	ok[ts.Result](w)(s.Write(ctx, ts.Point{Measurement: "kept", Time: w.now(), Fields: map[string]float64{"f": 1}}))
	w.sleep(time.Hour)
}

func (w *world) restOfActions(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[action.Store](w.router, ns, workload.MaxValue)
	ok[int](w)(s.Register(ctx, "rest", action.Timeout(time.Minute), action.MaxRunning(2), action.Owner("o")))
	w.must(s.RegisterWorker(ctx, action.NewWorker{ID: "worker"}))
	w.must(s.Heartbeat(ctx, "worker", 1))
	w.must(s.Schedules("rest").Set(ctx, "s", action.ScheduleSpec{Every: time.Minute, Input: []byte(`{}`)}))
	ok[action.Invoked](w)(s.Schedules("rest").Trigger(ctx, "s"))
	w.sleep(2 * time.Minute)
	for _, task := range ok[[]action.Task](w)(s.Await(ctx, "worker", []string{"rest"})) {
		ok[time.Time](w)(s.Extend(ctx, task.Run, "worker", time.Minute))
		w.must(s.Complete(ctx, task.Run, "worker", []byte(`1`)))
	}
	for _, fails := range []bool{true, false} {
		run := ok[action.Invoked](w)(s.Invoke(ctx, "rest", nil, action.Delay(time.Hour), action.MaxAttempts(2), action.Timeout(time.Minute),
			action.Expire(2*time.Hour))).Run
		if fails {
			w.must(s.Cancel(ctx, run, "no"))
			w.must(s.Retry(ctx, run))
		} else {
			w.must(s.RunNow(ctx, run))
		}
		for _, task := range ok[[]action.Task](w)(s.Await(ctx, "worker", []string{"rest"})) {
			end := action.CompleteOp(&task, []byte(`1`))
			if fails {
				end = action.FailOp(&task, "no")
			}
			ok[*engine.TxnResult](w)(w.txn(ns).If(action.Held(&task)).Do(end).Commit(ctx))
		}
	}
	w.consume(ns, s)
	w.workBeforeFaults(ns)
	w.must(s.Schedules("rest").Pause(ctx, "s"))
	w.must(s.Schedules("rest").Delete(ctx, "s"))
	w.must(s.Drain(ctx, "worker"))
	w.must(s.Deregister(ctx, "worker"))
	w.must(s.Disable(ctx, "rest"))
	w.must(s.Enable(ctx, "rest"))
	ok[int](w)(s.Register(ctx, "gone"))
	w.must(s.Delete(ctx, "gone"))
	w.sleep(15 * time.Minute) // after which workers are forgotten
}

func (w *world) restOfWorkflows(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[workflow.Store](w.router, ns, workload.MaxValue)
	acts := engine.StoreOf[action.Store](w.router, ns, workload.MaxValue)
	for _, name := range []string{"a", "b"} {
		ok[int](w)(acts.Register(ctx, name, action.MaxAttempts(1)))
	}
	ok[workflow.Created](w)(s.Create(ctx, []byte(lookup)))
	ok[workflow.Created](w)(s.Create(ctx, []byte(ticking)))
	run := ok[workflow.Started](w)(s.Start(ctx, "lookup", []byte(`{"who":"x"}`))).Run
	w.sleep(time.Second)
	for _, task := range ok[[]action.Task](w)(acts.Await(ctx, "worker", []string{"a", "b"})) {
		w.must(acts.Complete(ctx, task.Run, "worker", []byte(`1`)))
	}
	w.sleep(time.Second)
	ok[workflow.Status](w)(s.Signal(ctx, run, "changed", []byte(`{}`)))
	w.must(s.InvalidatePlan(ctx, "lookup", "find"))
	w.sleep(3 * time.Minute)
	for range 2 {
		for _, task := range ok[[]action.Task](w)(acts.Await(ctx, "worker", []string{"a", "b"})) {
			w.must(acts.Fail(ctx, task.Run, "worker", "no"))
		}
		w.sleep(time.Minute)
	}
	ok[workflow.Status](w)(s.Cancel(ctx, run, "enough"))
	w.sleep(time.Second)
	failed := ok[workflow.Started](w)(s.Start(ctx, "lookup", []byte(`{"who":"y"}`))).Run
	w.sleep(time.Second)
	for range 8 { // attempts and executors
		for _, task := range ok[[]action.Task](w)(acts.Await(ctx, "worker", []string{"a", "b"}, action.Max(10))) {
			w.must(acts.Fail(ctx, task.Run, "worker", "no"))
		}
		w.sleep(10 * time.Second)
	}
	ok[workflow.Status](w)(s.Retry(ctx, failed))
	ok[workflow.Created](w)(s.Create(ctx, []byte(strings.Replace(lookup, `version: "1"`, `version: "2"`, 1))))
	w.must(s.Versions("lookup").SetDefault(ctx, "1"))
	w.must(s.Versions("lookup").SetDefault(ctx, "2"))
	w.must(s.Versions("lookup").Delete(ctx, "1"))
	w.must(s.Schedule("tick").Pause(ctx))
	w.must(s.Schedule("tick").Resume(ctx))
	w.sleep(2 * time.Minute)
	w.must(s.Disable(ctx, "tick"))
	w.must(s.Delete(ctx, "tick", workflow.Force()))
}

const lookup = `kind: Workflow
name: lookup
version: "1"
start:
  run: "@plan/find"
  transitions: { success: hold, failure: flo.Failed }
steps:
  hold: { waitForSignal: { type: go, timeoutMs: 3600000, onTimeout: flo.Failed }, transitions: { success: flo.Completed } }
plans:
  find:
    selection: round-robin
    executors:
      - { name: one, run: "@actions/a" }
      - { name: two, run: "@actions/b" }
    cache: { ttl_ms: 60000, key: "find:{input.who}", invalidate_on: [changed] }
`

const ticking = `kind: Workflow
name: tick
version: "1"
schedule: { interval: 60000, max_concurrent: 2, input: '{"n":1}' }
start: { run: "@actions/a", transitions: { success: flo.Completed, failure: flo.Failed } }
`

func (w *world) restOfJobs(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[processing.Store](w.router, ns, workload.MaxValue)
	for job, err := range s.All(ctx) {
		w.must(err)
		if job.Status != processing.Running {
			continue
		}
		w.must(s.Rescale(ctx, job.ID, 2))
		sp := ok[processing.SavepointID](w)(s.Savepoints(job.ID).Create(ctx))
		for range 5 {
			w.sleep(time.Second)
		}
		if _, err := s.AwaitSavepoint(ctx, job.ID, sp); err == nil {
			ok[processing.Status](w)(s.Stop(ctx, job.ID))
			w.sleep(time.Second)
			ok[processing.Status](w)(s.Restore(ctx, job.ID, processing.FromSavepoint(sp)))
			w.sleep(time.Second)
			w.must(s.Savepoints(job.ID).Delete(ctx, sp))
		}
		if job.Name == "pipe" {
			continue // until leaveJobs
		}
		ok[processing.Status](w)(s.Cancel(ctx, job.ID))
		w.sleep(time.Second)
	}
}

// consume lets a worker, and a consumer of a queue, work for a while.
func (w *world) consume(ns string, s *action.Store) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.Worker(action.WorkerConfig{ID: "session", Grace: -1}).Handle("rest",
			func(context.Context, *action.Task) (any, error) { return nil, nil }).Run(ctx)
	})
	wg.Go(func() {
		queues := engine.StoreOf[queue.Store](w.router, ns, workload.MaxValue)
		_ = queues.Consume(ctx, "{tag}rest", func(ctx context.Context, _ queue.Message) error { <-ctx.Done(); return ctx.Err() },
			queue.Grace(0))
	})
	for range 20 {
		ok[action.Invoked](w)(s.Invoke(ctx, "rest", nil))
		w.sleep(3 * time.Second)
	}
	cancel()
	wg.Wait()
}

// faultyDoor is the connection of a worker's process to a node that has a full disk, or that it can
// no longer reach.
type faultyDoor struct {
	engine.Door
	fullDisk, gone atomic.Bool
}

func (d *faultyDoor) fault(write bool) error {
	switch {
	case d.gone.Load():
		return engine.ErrUnavailable
	case write && d.fullDisk.Load():
		return engine.ErrReadOnly
	}
	return nil
}

func (d *faultyDoor) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	shrinks := slices.ContainsFunc(primitive.All(), func(p engine.Primitive) bool {
		return p.ID == cmd.Machine &&
			p.Commands[cmd.Kind-1].Shrinks
	})
	if err := d.fault(!shrinks); err != nil {
		return nil, err
	}
	return d.Door.Propose(ctx, shard, cmd)
}

func (d *faultyDoor) Take(ctx context.Context, shard engine.ShardID, take engine.Take) ([]byte, error) {
	if err := d.fault(true); err != nil {
		return nil, err
	}
	return d.Door.Take(ctx, shard, take)
}

func (d *faultyDoor) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	if err := d.fault(false); err != nil {
		return err
	}
	return d.Door.Query(ctx, shard, q)
}

// workBeforeFaults lets a worker finish a run while the node's disk is full, and die with another
// one.
func (w *world) workBeforeFaults(ns string) {
	door := &faultyDoor{Door: w.door}
	far := engine.StoreOf[action.Store](engine.NewRouter(door), ns, workload.MaxValue)
	near := engine.StoreOf[action.Store](w.router, ns, workload.MaxValue)
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		handle := func(ctx context.Context, t *action.Task) (any, error) {
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
			}
			return nil, nil
		}
		_ = far.Worker(action.WorkerConfig{ID: "dies", Grace: -1}).Handle("dies", handle).Run(ctx)
	})
	ok[int](w)(near.Register(ctx, "dies", action.Timeout(10*time.Minute)))
	for _, fault := range []*atomic.Bool{&door.fullDisk, &door.gone} {
		ok[action.Invoked](w)(near.Invoke(ctx, "dies", nil))
		w.sleep(10 * time.Second)
		fault.Store(true)
		w.sleep(20 * time.Second)
		door.fullDisk.Store(false)
		w.sleep(10 * time.Second)
	}
	cancel()
	wg.Wait()
	w.sleep(3 * time.Minute)
}
