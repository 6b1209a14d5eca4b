package processing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// newSpread is newRig for a namespace that is spread over the shards, with a stream in of eight
// partitions and a stream copy of four.
func newSpread(t testing.TB, shards int) *rig {
	t.Helper()
	s, ctx := newRig(t, shards), context.Background()
	err := errors.Join(
		engine.NewNamespaces(s.Router()).Create(ctx, "n", true),
		s.streams.Create(ctx, "in", stream.Partitions(8)),
		s.streams.Create(ctx, "copy", stream.Partitions(4)),
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// give appends n readings of several keys, numbered from from.
func (s *rig) give(from, n int) {
	s.t.Helper()
	for i := from; i < from+n; i++ {
		k := fmt.Sprint("k", i%13)
		if _, err := s.streams.Append(context.Background(), "in", stream.Message{Key: k, Payload: []byte(reading(k, i))}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// settle lets leaders work until the messages between them have taken effect.
func (s *rig) settle() {
	for range 4 {
		s.run()
	}
}

// given checks that the sinks of the job fan have the first n readings, each once, and those of a
// key in order.
func (s *rig) given(n int) {
	s.t.Helper()
	ctx := context.Background()
	var got []string
	last := make(map[string]int)
	for p := range 4 {
		recs, err := s.streams.Read(ctx, "copy", stream.Partition(p), stream.Limit(1000))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range recs {
			var id string
			var load, at int
			if _, err := fmt.Sscanf(strings.NewReplacer(`"`, " ", ",", " ").Replace(string(r.Payload)), "{ id : %s load :%d at :%d}", &id,
				&load, &at); err != nil {
				s.t.Fatalf("%s: %v", r.Payload, err)
			}
			if r.Key != id || last[id] > load {
				s.t.Errorf("key %s: %s comes behind load %d", r.Key, r.Payload, last[id])
			}
			last[id] = load
			got = append(got, string(r.Payload))
		}
	}
	var want []string
	for i := range n {
		want = append(want, reading(fmt.Sprint("k", i%13), i))
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		s.t.Errorf("the stream holds %d records, want %d", len(got), len(want))
	}
	for k, load := range last {
		if e, err := s.keys.Get(ctx, "user:"+k); err != nil || string(e.Value) != reading(k, load) {
			s.t.Errorf("user:%s is %s, %v, want %s", k, e.Value, err, reading(k, load))
		}
	}
	if st, err := s.queues.Get(ctx, "work"); err != nil || st.Enqueued != int64(n) {
		s.t.Errorf("queue %+v, %v, want %d messages", st, err, n)
	}
	if m, err := s.series.Get(ctx, "cpu"); err != nil || m.Points != int64(n) {
		s.t.Errorf("measurement %+v, %v, want %d points", m, err, n)
	}
}

// TestSpread: in a spread namespace each shard reads its partitions, and sinks in all shards have
// each record once. Users see one job: it is stopped and restored everywhere when the call returns,
// and its metrics include all parts.
func TestSpread(t *testing.T) {
	s, ctx := newSpread(t, 4), context.Background()
	id := s.submit(fanned)
	s.give(0, 100)
	s.settle()
	s.given(100)
	if j := s.job(id); j.Metrics.RecordsIn != 100 || j.Metrics.Errors != 0 || j.Metrics.Backlog != 0 || j.Status != processing.Running ||
		j.Held {
		t.Errorf("job %+v", j)
	}
	if st, err := s.jobs.Stop(ctx, id); err != nil || st != processing.Stopped {
		t.Fatalf("Stop: %v, %v", st, err)
	}
	s.give(100, 50)
	s.settle()
	s.given(100)
	if err := s.jobs.Rescale(ctx, id, 3); err != nil {
		t.Fatal(err)
	}
	if st, err := s.jobs.Restore(ctx, id); err != nil || st != processing.Running {
		t.Fatalf("Restore: %v, %v", st, err)
	}
	s.Restart()
	s.settle()
	s.given(150)
	changed := strings.Replace(fanned, "sinks:", "operators: [{type: filter, condition: \"json:$.load<175\"}]\nsinks:", 1)
	if done, err := s.jobs.Apply(ctx, []byte(changed)); err != nil || !done.Changed || done.Job != id {
		t.Fatalf("Apply: %+v, %v", done, err)
	}
	s.give(150, 50)
	s.settle()
	s.given(175)
	j := s.job(id)
	if m := j.Metrics; m.RecordsIn != 200 || len(m.Operators) != 1 || m.Operators[0].In != 50 || m.Operators[0].Out != 25 {
		t.Errorf("metrics %+v", m)
	}
	if _, err := s.jobs.Cancel(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.give(200, 10)
	s.settle()
	s.given(175)
	s.Advance(8 * 24 * 60 * 60 * 1000)
	if _, err := s.jobs.Get(ctx, id); !errors.Is(err, processing.ErrNotFound) {
		t.Errorf("a job that was cancelled long ago: %v", err)
	}
	n := 0
	s.Replay(func() int { n++; return 1 + n%7 }, func() bool { return n%3 == 0 })
}

// TestSpreadExactlyOnce: leaders of all shards lose commands, get no responses and change, while
// messages between the shards are late: each record takes effect once.
func TestSpreadExactlyOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 1))
	s, ctx := newSpread(t, 3), context.Background()
	s.submit(strings.Replace(fanned, "name: fan\n", "name: fan\nbatch_size: 2\n", 1))
	n := 0
	for range 40 {
		more := rng.IntN(8)
		s.give(n, more)
		n += more
		s.Hold(rng.IntN(2) == 0)
		shard := engine.ShardID(rng.IntN(3))
		d := &flaky{rig: s, shard: shard, rng: rng, left: rng.IntN(5)}
		for _, duty := range s.Executor(shard).Duties(1, func() engine.LeadDoor { return d }) {
			_ = duty.Run(ctx, duty.Lead)
		}
		if rng.IntN(5) == 0 {
			s.Restart()
		}
		s.Hold(false)
		if rng.IntN(3) == 0 {
			s.Deliver()
		}
	}
	s.settle()
	s.given(n)
}

// apart is the door of one shard's duties; messages for other shards are not delivered yet.
type apart struct {
	*rig
	shard engine.ShardID
}

func (d apart) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	out := d.Entry(d.shard, cmd)[0]
	return out.Result, out.Err
}

func (d apart) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	select {
	case <-wake:
		return nil
	default:
		return errAsleep
	}
}

// leadApart lets the leader of a shard do its pending work.
func (s *rig) leadApart(shard engine.ShardID) {
	for _, duty := range s.Executor(shard).Duties(1, func() engine.LeadDoor { return apart{s, shard} }) {
		_ = duty.Run(context.Background(), duty.Lead)
	}
}

// TestSpreadLatency: the latency of steps is the mean, and the maximum, over all parts.
func TestSpreadLatency(t *testing.T) {
	s := newSpread(t, 2)
	id := s.submit("batch_size: 1\n" + fanned)
	s.give(0, 200)
	home, _ := processing.Lane(id)
	for shard := range 2 {
		took := int64(10)
		if shard != home {
			took = 30
		}
		steps := 0
		s.duty(shard, "", bed{proposed: func() { s.Pass(took); steps++ }})
		if steps < 4 {
			t.Fatalf("%d steps", steps)
		}
	}
	if m := s.job(id).Metrics; m.LatencyMax != 30*time.Millisecond || m.LatencyAvg <= 10*time.Millisecond ||
		m.LatencyAvg >= 30*time.Millisecond {
		t.Errorf("metrics %+v", m)
	}
}

// TestSpreadTicksAreBounded: a step that would pass on more than fits into a command reads fewer
// records.
func TestSpreadTicksAreBounded(t *testing.T) {
	s, ctx := newSpread(t, 2), context.Background()
	id := s.submit("name: large\nsources: [{name: in, stream: {name: in}}]\noperators: [{type: map, a: $.s, b: $.s, c: $.s, d: $.s}, " +
		"{name: n, type: aggregate, function: count}]\nsinks: [{stream: copy}]\n")
	for n := range 40 {
		msg := stream.Message{Key: fmt.Sprint(n), Payload: fmt.Appendf(nil, `{"s":%q}`, strings.Repeat("x", 60<<10))}
		if _, err := s.streams.Append(ctx, "in", msg); err != nil {
			t.Fatal(err)
		}
	}
	most := 0
	for shard := range 2 {
		s.duty(shard, "", bed{refuse: func(cmd engine.Command) error {
			most = max(most, len(cmd.Body))
			return nil
		}})
	}
	if m := s.job(id).Metrics; m.RecordsIn != 40 || most < 240<<10 || most > 1100<<10 {
		t.Errorf("the largest command has %d bytes: %+v", most, m)
	}
}

// TestSpreadEnds: a bounded job is completed when all its parts are, and messages of an earlier run
// do not count; one failed part ends the job everywhere.
func TestSpreadEnds(t *testing.T) {
	s, ctx := newSpread(t, 4), context.Background()
	s.give(0, 40)
	id := s.submit(strings.Replace(fanned, "name: fan\n", "name: fan\nstop_at: latest\n", 1))
	home, _ := processing.Lane(id)
	s.give(40, 10)
	s.Hold(true)
	for shard := range engine.ShardID(4) {
		if int(shard) != home {
			s.leadApart(shard) // its part is done, but no other shard knows
		}
	}
	if j := s.job(id); j.Status != processing.Running || j.Metrics.RecordsIn == 0 {
		t.Errorf("job %+v", j)
	}
	unheard, cancel := context.WithCancel(ctx)
	cancel()
	_, _ = s.jobs.Stop(unheard, id)
	_, _ = s.jobs.Restore(unheard, id)
	s.Hold(false)
	s.Deliver()
	s.leadApart(engine.ShardID(home)) // the last part of this run, as far as other shards have reported
	if j := s.job(id); j.Status != processing.Running {
		t.Errorf("job %+v", j)
	}
	s.settle()
	if j := s.job(id); j.Status != processing.Completed || j.Metrics.RecordsIn != 50 || j.EndedAt.IsZero() {
		t.Errorf("job %+v", j)
	}
	s.given(50)

	failing := s.submit(strings.NewReplacer("name: fan\n", "name: failing\non_error: fail\n", "sinks:\n",
		"operators: [{type: filter, condition: \"expr: load > 0\"}]\nsinks:\n").Replace(fanned))
	s.settle() // the reading with load 0 succeeds
	if _, err := s.streams.Append(ctx, "in", stream.Message{Key: "bad", Payload: []byte(`{"load":"none"}`)}); err != nil {
		t.Fatal(err)
	}
	s.settle()
	before := s.job(failing)
	if before.Status != processing.Failed || before.Reason == "" {
		t.Errorf("job %+v", before)
	}
	s.give(50, 40)
	s.settle()
	if j := s.job(failing); j.Metrics.RecordsIn != before.Metrics.RecordsIn {
		t.Errorf("a job that has failed has read %d records more", j.Metrics.RecordsIn-before.Metrics.RecordsIn)
	}
}

// TestSpreadRefused: a record that a sink refuses permanently, here or in another shard, goes to
// the stream of errors; all others are written.
func TestSpreadRefused(t *testing.T) {
	s, ctx := newSpread(t, 4), context.Background()
	if err := s.series.SetSeriesLimit(ctx, 4); err != nil {
		t.Fatal(err)
	}
	id := s.submit(fanned)
	s.give(0, 60)
	s.settle()
	failed, j := s.allOf(processing.ErrorStream("fan")), s.job(id)
	m, err := s.series.Get(ctx, "cpu")
	if err != nil || int(m.Points)+len(failed) != 60 || len(failed) == 0 || int(j.Metrics.Errors) != len(failed) || j.Metrics.Backlog != 0 {
		t.Errorf("measurement %+v, %v, %d failures, job %+v", m, err, len(failed), j)
	}
	if st, err := s.queues.Get(ctx, "work"); err != nil || st.Enqueued != 60 {
		t.Errorf("queue %+v, %v", st, err)
	}
}

// TestSpreadFullQueue: a queue with less capacity than the output of a step, in any shard, loses
// nothing, and the waiting output is counted. Meanwhile all other sinks get their records, except
// those for the shard of the queue.
func TestSpreadFullQueue(t *testing.T) {
	s, ctx := newSpread(t, 4), context.Background()
	if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 3}); err != nil {
		t.Fatal(err)
	}
	id := s.submit(fanned)
	s.give(0, 60)
	s.settle()
	if st, err := s.queues.Get(ctx, "work"); err != nil || st.Enqueued != 3 {
		t.Errorf("queue %+v, %v", st, err)
	}
	if j := s.job(id); j.Metrics.Backlog == 0 || j.Status != processing.Running {
		t.Errorf("job %+v", j)
	}
	for range 60 {
		if _, err := s.queues.Purge(ctx, "work"); err != nil {
			t.Fatal(err)
		}
		s.Advance(3000)
	}
	s.given(60)
	if j := s.job(id); j.Metrics.Backlog != 0 || j.Metrics.RecordsIn != 60 || j.Metrics.Errors != 0 {
		t.Errorf("job %+v", j)
	}
}

// TestSpreadLimits: features that a job in a spread namespace does not support are refused with the
// operator's name.
func TestSpreadLimits(t *testing.T) {
	s, ctx := newSpread(t, 4), context.Background()
	if err := engine.NewNamespaces(s.Router()).Create(ctx, "wide", true); err != nil {
		t.Fatal(err)
	}
	definition := strings.Replace(fanned, "sinks:",
		"operators: [{ name: user, type: kv_lookup, lookup_key: $.id, namespace: wide }]\nsinks:", 1)
	if _, err := s.jobs.Submit(ctx, []byte(definition)); !errors.Is(err, processing.ErrInvalid) ||
		!strings.Contains(err.Error(), `operator "user": namespace "wide" is spread`) {
		t.Errorf("Submit: %v", err)
	}
}

// TestSpreadListing: jobs of all shards are listed in pages, in the order of their names.
func TestSpreadListing(t *testing.T) {
	s, ctx := newSpread(t, 4), context.Background()
	var want []string
	for i := range 11 {
		name := fmt.Sprintf("job %02d", i)
		want = append(want, name)
		s.submit(strings.Replace(fanned, "name: fan\n", "name: "+name+"\n", 1))
	}
	s.give(0, 20)
	s.settle()
	var got []string
	for j, err := range s.jobs.All(ctx, processing.Limit(3), processing.InState(processing.Running)) {
		if err != nil || j.Metrics.RecordsIn != 20 {
			t.Fatalf("%+v, %v", j, err)
		}
		got = append(got, j.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("jobs %v", got)
	}
}
