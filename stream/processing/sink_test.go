package processing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
)

const fanned = `
kind: Processing
name: fan
sources:
  - name: in
    stream: { name: in }
sinks:
  - name: copy
    stream: { name: copy, key: "$.id" }
  - name: keys
    kv: { key: "$.id", key_prefix: user, separator: ":" }
  - name: first
    kv: { key: "$.id", key_prefix: first, separator: ":", write_mode: if_absent }
  - name: work
    queue: { name: work, priority: 5 }
  - name: cpu
    ts: { measurement: cpu, tags: { host: id }, fields: { load: load }, timestamp: "$.at" }
`

func reading(id string, load int) string {
	return fmt.Sprintf(`{"id":%q,"load":%d,"at":%d}`, id, load, int64(1_000_000_000_000+load))
}

// TestSinks: every sink has the expected output of each record, in the order of the source.
func TestSinks(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	id := s.submit(fanned)
	s.append("in", reading("a", 1), reading("b", 2), reading("a", 3))
	s.run()
	s.want("copy", strings.Join([]string{reading("a", 1), reading("b", 2), reading("a", 3)}, " "))
	recs, err := s.streams.Read(ctx, "copy")
	if err != nil || recs[0].Key != "a" || recs[1].Key != "b" {
		t.Errorf("copy: %+v, %v", recs, err)
	}
	for key, want := range map[string]string{"user:a": reading("a", 3), "first:a": reading("a", 1), "user:b": reading("b", 2)} {
		if e, err := s.keys.Get(ctx, key); err != nil || string(e.Value) != want {
			t.Errorf("%s is %s, %v, want %s", key, e.Value, err, want)
		}
	}
	if st, err := s.queues.Get(ctx, "work"); err != nil || st.Enqueued != 3 {
		t.Errorf("queue %+v, %v", st, err)
	}
	if m, err := s.series.Get(ctx, "cpu"); err != nil || m.Points != 3 || m.Series != 2 {
		t.Errorf("measurement %+v, %v", m, err)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 3 || m.RecordsOut != 14 || m.Errors != 0 { // a key put twice in a step is put once
		t.Errorf("metrics %+v", m)
	}
}

// TestFullQueue: a full queue holds the job with its reason, also if it has room for less than a
// step; nothing is lost.
func TestFullQueue(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 3}); err != nil {
		t.Fatal(err)
	}
	id := s.submit(fanned)
	var want []string
	for i := range 20 {
		want = append(want, reading("a", i))
	}
	s.append("in", want...)
	s.run()
	if j := s.job(id); j.Metrics.RecordsIn != 3 {
		t.Errorf("job %+v", j)
	}
	for range 20 {
		if _, err := s.queues.Purge(ctx, "work"); err != nil {
			t.Fatal(err)
		}
		s.Advance(3000)
	}
	s.want("copy", strings.Join(want, " "))
	if st, err := s.queues.Get(ctx, "work"); err != nil || st.Enqueued != 20 {
		t.Errorf("queue %+v, %v", st, err)
	}
}

// TestRefusedForGood: a record that a sink refuses permanently goes to the stream of errors
// unchanged; all others are written once.
func TestRefusedForGood(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	if err := s.series.SetSeriesLimit(ctx, 2); err != nil {
		t.Fatal(err)
	}
	id := s.submit(fanned)
	s.append("in", reading("a", 1), reading("b", 2), reading("c", 3), reading("a", 4), reading("d", 5))
	s.run()
	s.want("copy", strings.Join([]string{reading("a", 1), reading("b", 2), reading("c", 3), reading("a", 4), reading("d", 5)}, " "))
	recs, err := s.streams.Read(ctx, processing.ErrorStream("fan"))
	if err != nil || len(recs) != 2 {
		t.Fatalf("errors: %+v, %v", recs, err)
	}
	for i, want := range []string{reading("c", 3), reading("d", 5)} {
		if r := recs[i]; string(r.Payload) != want || r.Headers["floe-operator"] != "cpu" || r.Headers["floe-source"] != "in" ||
			r.Headers["floe-error"] == "" {
			t.Errorf("error %d: %s %v", i, r.Payload, r.Headers)
		}
	}
	if m, err := s.series.Get(ctx, "cpu"); err != nil || m.Points != 3 {
		t.Errorf("measurement %+v, %v", m, err)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 5 || m.Errors != 2 {
		t.Errorf("metrics %+v", m)
	}
	if st, err := s.streams.Get(ctx, processing.ErrorStream("fan")); err != nil || st.Retention.MaxAge != 7*24*time.Hour {
		t.Errorf("stream of errors: %+v, %v", st, err)
	}
}

// TestOtherShards: sinks in namespaces of other shards get each record once. While one of them is
// full others continue, until too much is waiting.
func TestOtherShards(t *testing.T) {
	s, ctx := newRig(t, 4), context.Background()
	other := "" // a namespace in another shard
	for i := 0; ; i++ {
		if other = fmt.Sprint("other", i); engine.HomeShard(other, 4) != engine.HomeShard("n", 4) {
			break
		}
	}
	queues := engine.StoreOf[queue.Store](s.Router(), other, 1<<20)
	keys := engine.StoreOf[kv.Store](s.Router(), other, 1<<20)
	streams := engine.StoreOf[stream.Store](s.Router(), other, 1<<20)
	series := engine.StoreOf[ts.Store](s.Router(), other, 1<<20)
	if err := queues.Configure(ctx, "work", queue.Settings{MaxLen: 2}); err != nil {
		t.Fatal(err)
	}
	definition := fanned
	for _, sink := range []string{"stream: { name: copy,", "kv: {", "queue: {", "ts: {"} {
		definition = strings.ReplaceAll(definition, sink, sink+" namespace: "+other+",")
	}
	definition = strings.ReplaceAll(definition, "namespace: "+other+", namespace: "+other, "namespace: "+other)
	definition = strings.ReplaceAll(definition, "copy, namespace: "+other+",,", "copy, namespace: "+other+",")
	id := s.submit(definition)
	s.append("in", reading("a", 1), reading("b", 2))
	s.run()
	s.Deliver()
	s.run()
	if recs, err := streams.Read(ctx, "copy"); err != nil || len(recs) != 2 {
		t.Errorf("copy: %+v, %v", recs, err)
	}
	if e, err := keys.Get(ctx, "user:b"); err != nil || string(e.Value) != reading("b", 2) {
		t.Errorf("user:b is %s, %v", e.Value, err)
	}
	if st, err := queues.Get(ctx, "work"); err != nil || st.Enqueued != 2 {
		t.Errorf("queue %+v, %v", st, err)
	}
	if m, err := series.Get(ctx, "cpu"); err != nil || m.Points != 2 {
		t.Errorf("measurement %+v, %v", m, err)
	}
	if m := s.job(id).Metrics; m.Backlog != 0 || m.RecordsOut != 10 {
		t.Errorf("metrics %+v", m)
	}
}

// TestStopBeforeAFullQueue: Stop does not wait for output sent to another shard, where a full queue
// may hold it forever; it arrives when there is room.
func TestStopBeforeAFullQueue(t *testing.T) {
	s, ctx := newRig(t, 4), context.Background()
	other := "" // a namespace in another shard
	for i := 0; other == "" || engine.HomeShard(other, 4) == engine.HomeShard("n", 4); i++ {
		other = fmt.Sprint("other", i)
	}
	queues := engine.StoreOf[queue.Store](s.Router(), other, 1<<20)
	if err := queues.Configure(ctx, "work", queue.Settings{MaxLen: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := queues.Enqueue(ctx, "work", []byte("first")); err != nil {
		t.Fatal(err)
	}
	id := s.submit("name: held\nsources: [{name: in, stream: {name: in}}]\nsinks: [{name: work, queue: {name: work, namespace: " + other +
		"}}]\n")
	s.append("in", "a")
	s.run()
	s.Deliver()
	if status, err := s.jobs.Stop(ctx, id); err != nil || status != processing.Stopped {
		t.Errorf("Stop = %v, %v", status, err)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 1 || m.RecordsOut != 0 || m.Backlog == 0 {
		t.Errorf("while the queue is full: %+v", m)
	}
	if err := queues.Configure(ctx, "work", queue.Settings{}); err != nil {
		t.Fatal(err)
	}
	s.Advance(60_000)
	if m := s.job(id).Metrics; m.RecordsOut != 1 || m.Backlog != 0 {
		t.Errorf("when there is room: %+v", m)
	}
}

// TestManyRefused: all refused outputs of a tick are reported at once, so that a tick with many is
// proposed a few times and not once for each.
func TestManyRefused(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	if err := s.series.SetSeriesLimit(ctx, 2); err != nil {
		t.Fatal(err)
	}
	s.Hold(true)
	id := s.submit(fanned)
	for i := range 50 {
		s.append("in", reading(fmt.Sprint("k", i), i))
	}
	d := &disturbed{rig: s, at: -2}
	s.lead(d)
	if m := s.job(id).Metrics; m.RecordsIn != 50 || m.Errors != 48 {
		t.Errorf("metrics %+v", m)
	}
	if d.count > 12 {
		t.Errorf("%d proposals", d.count)
	}
}
