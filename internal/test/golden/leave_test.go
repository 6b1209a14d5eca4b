package golden

import (
	"fmt"
	"strings"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/auth"
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

// leave starts work in a namespace that is still unfinished at the end, so that rows of each kind
// remain.
func (w *world) leave(ns string) {
	w.leaveStreams(ns)
	w.leaveQueues(ns)
	w.leaveActions(ns)
	w.leaveWorkflows(ns)
	w.leaveSeries(ns)
	w.leaveJobs(ns)
}

// leaveKeys leaves keys that expire, a used key, an ended session, and the name of a namespace that
// a key was about to create.
func (w *world) leaveKeys() {
	ctx, g := w.t.Context(), auth.NewGate(0)
	g.Attach(w.router.Door(), w.router.Door())
	g.Now = w.now
	_, _, err := g.Create(ctx, auth.Key{Role: auth.Admin, Expires: w.now().Add(time.Hour)}, nil)
	w.must(err)
	w.must(g.Refresh(ctx))
	for _, leaves := range []bool{true, false} { // the other one is revoked with all of its sessions and namespaces
		k, secret, err := g.Create(ctx, auth.Key{Role: auth.Write, Namespaces: []string{workload.Plain},
			Expires: w.now().Add(24 * time.Hour)}, nil)
		w.must(err)
		token, _, err := g.Session(ctx, secret, "192.0.2.1")
		w.must(err)
		w.must(g.EndSession(ctx, token))
		w.must(g.NoteUses(ctx))
		anywhere, secret, err := g.Create(ctx, auth.Key{Role: auth.Write}, nil)
		w.must(err)
		grant, err := g.Enter(ctx, secret, "192.0.2.1", false)
		w.must(err)
		w.must(grant.Introduce(ctx, engine.NewWire(primitive.All()), engine.CreateNamespace("of a key", false)))
		if !leaves {
			w.must(g.Revoke(ctx, k.ID))
			w.must(g.Revoke(ctx, anywhere.ID))
		}
	}
}

// leaveNamespaces leaves deleted namespaces, and one that was created again.
func (w *world) leaveNamespaces() {
	ctx, all := w.t.Context(), engine.NewNamespaces(w.router)
	for _, name := range []string{"deleted", "deleted and spread", "made anew and spread"} {
		spread := strings.HasSuffix(name, "spread")
		w.must(all.Create(ctx, name, spread))
		keys := engine.StoreOf[kv.Store](w.router, name, workload.MaxValue)
		ok[kv.Written](w)(keys.Put(ctx, "k", nil))
		ok[kv.Written](w)(keys.Delete(ctx, "k"))
		w.must(all.Delete(ctx, name))
	}
	w.must(all.Create(ctx, "made anew and spread", true))
}

func (w *world) leaveStreams(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[stream.Store](w.router, ns, workload.MaxValue)
	const name = "left"
	w.must(s.Create(ctx, name, stream.Partitions(2)))
	w.must(s.Groups(name).Create(ctx, "keys", stream.InMode(stream.KeyShared), stream.AckTimeout(24*time.Hour)))
	for n := range 12 {
		ok[stream.Appended](w)(s.Append(ctx, name, stream.Message{Key: fmt.Sprint("k", n%3), Payload: []byte("p")}))
	}
	ds := ok[[]stream.Delivery](w)(s.ReadGroup(ctx, name, "keys", "one", stream.Limit(2)))
	ok[int](w)(s.Nack(ctx, name, "keys", stream.RefsOf(ds[:1]), stream.Delay(time.Hour)))
	ok[[]stream.Delivery](w)(s.ReadGroup(ctx, name, "keys", "two"))
	w.must(s.Groups(name).Configure(ctx, "keys", stream.AckTimeout(12*time.Hour))) // with members that are spared, see stream/attendance.go
}

func (w *world) leaveQueues(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[queue.Store](w.router, ns, workload.MaxValue)
	for n := range 5 {
		ok[queue.Enqueued](w)(s.Enqueue(ctx, "left", []byte("p"), queue.DedupKey(fmt.Sprint("key", n))))
	}
	for _, m := range ok[[]queue.Message](w)(s.Dequeue(ctx, "left", queue.Max(2), queue.Lease(24*time.Hour)))[1:] {
		ok[int](w)(s.Nack(ctx, "left", []queue.Receipt{m.Receipt}, queue.ToDLQ(), queue.Reason("no")))
	}
	ok[queue.Enqueued](w)(s.Enqueue(ctx, "deleted", nil, queue.DedupKey("key")))
	w.must(s.Delete(ctx, "deleted"))
}

func (w *world) leaveActions(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[action.Store](w.router, ns, workload.MaxValue)
	ok[int](w)(s.Register(ctx, "left", action.MaxRunningPerKey(1), action.Timeout(24*time.Hour)))
	w.must(s.Schedules("left").Set(ctx, "s", action.ScheduleSpec{Every: 24 * time.Hour, Input: []byte(`{}`)}))
	for n := range 3 {
		ok[action.Invoked](w)(s.Invoke(ctx, "left", nil, action.ConcurrencyKey("key"),
			action.Labels(map[string]string{"n": fmt.Sprint(n % 2)}), action.Expire(24*time.Hour)))
	}
	ok[action.Invoked](w)(s.Invoke(ctx, "left", nil, action.Delay(24*time.Hour), action.IdempotencyKey("key")))
	w.must(s.RegisterWorker(ctx, action.NewWorker{ID: "left"}))
	ok[[]action.Task](w)(s.Await(ctx, "left", []string{"left"}, action.Labels(map[string]string{"n": "0"})))
	ok[int](w)(s.Register(ctx, "awaited"))
	ok[action.Invoked](w)(s.Invoke(ctx, "awaited", nil, action.ConcurrencyKey("key")))
	ok[int](w)(s.Register(ctx, "deleted"))
	ok[action.Invoked](w)(s.Invoke(ctx, "deleted", nil))
	ok[[]action.Task](w)(s.Await(ctx, "left", []string{"deleted"}))
	w.must(s.Delete(ctx, "deleted", action.Force()))
}

func (w *world) leaveWorkflows(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[workflow.Store](w.router, ns, workload.MaxValue)
	acts := engine.StoreOf[action.Store](w.router, ns, workload.MaxValue)
	for _, name := range []string{"a", "b"} {
		ok[int](w)(acts.Register(ctx, name))
	}
	ok[workflow.Created](w)(s.Create(ctx, []byte(strings.Replace(strings.Replace(lookup, "name: lookup", "name: left", 1), "ttl_ms: 60000",
		"ttl_ms: 86400000", 1)+
		"searchAttributes: [{ name: who, type: string, from: $.input.who }]\n")))
	ok[workflow.Created](w)(s.Create(ctx, []byte(strings.Replace(ticking, "name: tick", "name: leftTick", 1))))
	w.sleep(2 * time.Minute)
	ok[workflow.Started](w)(s.Start(ctx, "left", []byte(`{"who":"x"}`), workflow.UseID("left-x")))
	ok[workflow.Started](w)(s.Start(ctx, "left", []byte(`{"who":"y"}`), workflow.IdempotencyKey("key")))
	w.sleep(time.Second)
	for _, task := range ok[[]action.Task](w)(acts.Await(ctx, "left", []string{"a", "b"})) {
		w.must(acts.Complete(ctx, task.Run, "left", []byte(`1`)))
	}
	w.sleep(time.Second)
}

func (w *world) leaveSeries(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[ts.Store](w.router, ns, workload.MaxValue)
	ok[kv.Written](w)(engine.StoreOf[kv.Store](w.router, ns, workload.MaxValue).Put(ctx, "left", nil, kv.TTL(24*time.Hour)))
	for host := range 3 {
		ok[ts.Result](w)(s.Write(ctx, ts.Point{Measurement: "left", Tags: map[string]string{"host": fmt.Sprint(host)}, Time: w.now(),
			Fields: map[string]float64{"f": 1}}))
	}
	ok[int64](w)(s.Series("left").Delete(ctx, map[string]string{"host": "1"}))
	ok[int64](w)(s.DeleteRange(ctx, "left", w.now().Add(-time.Hour), w.now(), map[string]string{"host": "2"}))
}

func (w *world) leaveJobs(ns string) {
	ctx, s := w.t.Context(), engine.StoreOf[processing.Store](w.router, ns, workload.MaxValue)
	for job, err := range s.All(ctx, processing.InState(processing.Running)) {
		w.must(err)
		ok[processing.SavepointID](w)(s.Savepoints(job.ID).Create(ctx))
	}
	for range 5 {
		w.sleep(time.Second)
	}
}
