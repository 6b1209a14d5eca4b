package processing_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

var errSleeps = errors.New("the duty sleeps")

// bed is the door of a duty that ends when it sleeps.
type bed struct {
	s        *rig
	shard    engine.ShardID
	asleep   func(wake <-chan struct{}, until int64)
	proposed func()
	refuse   func(cmd engine.Command) error // nil accepts all
	calls    int64
}

func (b *bed) Calls() int64 { return b.calls }

func (b *bed) Now() int64 { return b.s.Now() }

func (b *bed) Mono() int64 { return b.s.Mono() }

func (b *bed) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	if b.refuse != nil {
		if err := b.refuse(cmd); err != nil {
			return nil, err
		}
	}
	out := b.s.Entry(b.shard, cmd)[0]
	if b.proposed != nil {
		b.proposed()
	}
	return out.Result, out.Err
}

func (b *bed) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	select {
	case <-wake:
		return nil
	default:
	}
	if b.asleep != nil {
		b.asleep(wake, until)
	}
	return errSleeps
}

// duties runs the duties of jobs, each until it sleeps.
func (s *rig) duties(b bed) {
	s.t.Helper()
	for shard := range s.Shards() {
		s.duty(shard, "", b)
	}
}

// lane runs the duty of a job until it sleeps.
func (s *rig) lane(id processing.JobID, b bed) {
	s.t.Helper()
	shard, name := processing.Lane(id)
	s.duty(shard, name, b)
}

func (s *rig) duty(shard int, name string, b bed) {
	s.t.Helper()
	s.dutyOf(shard, name, &b)
}

func (s *rig) dutyOf(shard int, name string, b *bed) {
	s.t.Helper()
	b.s, b.shard = s, engine.ShardID(shard)
	for _, d := range s.Executor(b.shard).Duties(1, func() engine.LeadDoor { return b }) {
		if d.Machine != "processing" || name != "" && d.Name != name {
			continue
		}
		if err := d.Run(context.Background(), d.Lead); !errors.Is(err, errSleeps) {
			s.t.Errorf("duty %v: %v", &d, err)
		}
	}
}

// wakes reports whether something wakes the duty that runs a job, and when the duty would look on
// its own.
func (s *rig) wakes(id processing.JobID, something func()) (woken bool, until int64) {
	s.t.Helper()
	s.lane(id, bed{asleep: func(wake <-chan struct{}, at int64) {
		until = at
		something()
		select {
		case <-wake:
			woken = true
		default:
		}
	}})
	return woken, until
}

const queued = `
name: queued
sources: [{ name: in, stream: { name: in, partitions: all } }]
sinks: [{ name: work, queue: { name: work } }]
`

// TestWaitForRoom: a job held by a full queue writes nothing until the queue has room, and anything
// that makes room wakes it. It used to retry continuously.
func TestWaitForRoom(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 3}); err != nil {
		t.Fatal(err)
	}
	id := s.submit(queued)
	for i := range 20 {
		s.append("in", amount(i))
	}
	s.run()
	before := len(s.Log(0))
	for range 50 {
		s.Advance(3000)
	}
	if n := len(s.Log(0)) - before; n > 0 {
		t.Errorf("a job that is held has written %d entries", n)
	}
	if j := s.job(id); j.Metrics.RecordsIn != 3 {
		t.Errorf("job %+v", j)
	}
	if woken, until := s.wakes(id, func() {}); woken || until < s.Now()+30_000 {
		t.Errorf("woken by nothing: %t, looks again in %d ms", woken, until-s.Now())
	}
	for _, room := range []struct {
		name string
		make func() error
	}{
		{"ack", func() error {
			all, err := s.queues.Dequeue(ctx, "work")
			if err != nil || len(all) != 1 {
				return fmt.Errorf("%d messages, %v", len(all), err)
			}
			_, err = s.queues.Ack(ctx, "work", all[0].Receipt)
			return err
		}},
		{"purge", func() error { _, err := s.queues.Purge(ctx, "work"); return err }},
		{"configure", func() error { return s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 5}) }},
		{"delete", func() error { return s.queues.Delete(ctx, "work") }},
	} {
		woken, _ := s.wakes(id, func() {
			if err := room.make(); err != nil {
				t.Errorf("%s: %v", room.name, err)
			}
		})
		if !woken {
			t.Errorf("%s wakes nobody", room.name)
		}
		s.run()
	}
	if j := s.job(id); j.Metrics.RecordsIn != 20 {
		t.Errorf("job %+v", j)
	}
}

// purging empties a queue often enough that a job waiting for room gets as far as it can.
func (s *rig) purging(name string, rounds int) {
	s.t.Helper()
	for range rounds {
		s.Advance(3000)
		if _, err := s.queues.Purge(context.Background(), name); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestMoreThanAQueueHolds: a record that creates more messages than its empty queue holds goes to
// the stream of errors with the reason, and the job continues. It used to wait forever.
func TestMoreThanAQueueHolds(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings queue.Settings
	}{{"length", queue.Settings{MaxLen: 3}}, {"bytes", queue.Settings{MaxBytes: 6}}} {
		t.Run(test.name, func(t *testing.T) {
			s, ctx := newRig(t, 1), context.Background()
			if err := s.queues.Configure(ctx, "work", test.settings); err != nil {
				t.Fatal(err)
			}
			id := s.submit(`
name: many
sources: [{ name: in, stream: { name: in, partitions: all } }]
operators: [{ type: flatmap, array_field: $.items }]
sinks: [{ name: work, queue: { name: work } }, { name: copy, stream: { name: copy } }]
`)
			s.append("in", `{"items":[11,12,13]}`, `{"items":[21,22,23,24]}`, `{"items":[31]}`)
			s.purging("work", 4)
			s.want("copy", "11 12 13 21 22 23 24 31")
			if st, err := s.queues.Get(ctx, "work"); err != nil || st.Enqueued != 4 {
				t.Errorf("queue %+v, %v", st, err)
			}
			s.want(processing.ErrorStream("many"), "21 22 23 24")
			recs, err := s.streams.Read(ctx, processing.ErrorStream("many"), stream.Limit(1))
			if err != nil || recs[0].Headers["floe-operator"] != "work" ||
				!strings.Contains(recs[0].Headers["floe-error"], `more than queue "work" ever holds`) {
				t.Errorf("error %v, %v", recs, err)
			}
			if m := s.job(id).Metrics; m.RecordsIn != 3 || m.Errors != 4 {
				t.Errorf("metrics %+v", m)
			}
		})
	}
}

// TestTicksAmongOthers: ticks are small while users write to the shard, so that their writes do not
// wait long, and large otherwise.
func TestTicksAmongOthers(t *testing.T) {
	for _, test := range []struct {
		calls, least, most int64
		record             string
		spread             bool
	}{
		{4, 1000, 2000, "more", false}, {20, 30, 64, "more", false}, {20, 2, 3, strings.Repeat("m", 3000), false},
		{20, 65, 256, "more", true}, {20, 4, 17, strings.Repeat("m", 3000), true},
	} {
		s := newRig(t, 1)
		if test.spread {
			s = newSpread(t, 1)
		}
		id := s.submit(`
name: copy
batch_size: 1000
sources: [{ name: in, stream: { name: in, partitions: all } }]
sinks: [{ name: out, stream: { name: out } }]
`)
		s.append("in", "first")
		var b bed
		read, largest := int64(0), int64(0)
		shard, name := processing.Lane(id)
		b.proposed = func() {
			in := s.job(id).Metrics.RecordsIn
			if b.calls > 0 {
				largest = max(largest, in-read)
			} else {
				s.append("in", slices.Repeat([]string{test.record}, 1000)...)
				s.append("in", slices.Repeat([]string{test.record}, 1000)...)
			}
			read = in
			b.calls += test.calls
			s.Pass(200)
		}
		s.dutyOf(shard, name, &b)
		if read != 2001 || largest < test.least || largest > test.most {
			t.Errorf("with %d writes in 200 ms %d records of %d bytes were read, %d at once; want 2001, and %d-%d",
				test.calls, read, len(test.record), largest, test.least, test.most)
		}
	}
}

// TestMoreThanAFarQueueHolds: a job learns only when its message arrives that a queue in another
// shard would never hold it. The record goes to the stream of errors, and later ones are enqueued.
// They used to wait forever.
func TestMoreThanAFarQueueHolds(t *testing.T) {
	s, ctx := newRig(t, 4), context.Background()
	other := ""
	for i := 0; ; i++ {
		if other = fmt.Sprint("other", i); engine.HomeShard(other, 4) != engine.HomeShard("n", 4) {
			break
		}
	}
	queues := engine.StoreOf[queue.Store](s.Router(), other, 1<<20)
	if err := queues.Configure(ctx, "work", queue.Settings{MaxBytes: 6}); err != nil {
		t.Fatal(err)
	}
	id := s.submit(fmt.Sprintf(`
name: far
sources: [{ name: in, stream: { name: in, partitions: all } }]
sinks: [{ name: work, queue: { name: work, namespace: %s } }]
`, other))
	s.append("in", "11", "2222222", "333333", "44")
	for range 4 {
		s.run()
		s.Deliver()
		if _, err := queues.Purge(ctx, "work"); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := queues.Get(ctx, "work"); err != nil || st.Enqueued != 3 {
		t.Errorf("queue %+v, %v", st, err)
	}
	s.want(processing.ErrorStream("far"), "2222222")
	recs, err := s.streams.Read(ctx, processing.ErrorStream("far"), stream.Limit(1))
	if err != nil || len(recs) != 1 || recs[0].Headers["floe-operator"] != "work" ||
		!strings.Contains(recs[0].Headers["floe-error"], `queue "work" never holds 7 bytes: its max bytes are 6`) {
		t.Errorf("error %v, %v", recs, err)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 4 || m.Backlog != 0 {
		t.Errorf("metrics %+v", m)
	}
}

// TestWindowsThroughASmallQueue: windows that fire together go to a queue that holds one message,
// one after the other. They used to wait forever.
func TestWindowsThroughASmallQueue(t *testing.T) {
	for _, window := range []string{"window: tumbling, window_size: 10, allowed_lateness: 100", "window: session, gap: 10"} {
		t.Run(window, func(t *testing.T) {
			s, ctx := newRig(t, 1), context.Background()
			if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 1}); err != nil {
				t.Fatal(err)
			}
			id := s.submit(strings.NewReplacer("window: tumbling, window_size: 10", window, "stream: {name: out}",
				"queue: {name: work}").Replace(countedOnce))
			s.keyed(5, 1000)
			s.keyed(1, 50_000)
			s.keyed(3, 2000) // late for a session, which they do not change
			s.purging("work", 20)
			st, err := s.queues.Get(ctx, "work")
			if m := s.job(id).Metrics; err != nil || st.Enqueued < 5 || st.Enqueued != m.RecordsOut || m.RecordsIn != 9 || m.Errors != 0 {
				t.Errorf("queue %+v, %v, metrics %+v", st, err, m)
			}
		})
	}
}

// TestHeldReason: the reason why a job is held is visible while it is held.
func TestHeldReason(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 1}); err != nil {
		t.Fatal(err)
	}
	id := s.submit(queued)
	s.append("in", amount(1), amount(2))
	var held processing.Job
	s.lane(id, bed{asleep: func(<-chan struct{}, int64) { held = s.job(id) }})
	if !held.Held || held.Reason != `queue "work" is full` || held.Metrics.RecordsIn != 1 {
		t.Errorf("job %+v", held)
	}
}

// TestIdleLanes: 100 idle jobs sleep until something arrives, or half a minute.
func TestIdleLanes(t *testing.T) {
	table, looks, _ := processing.Observed(1 << 20)
	s := newStageOf(t, 1, table)
	for i := range 100 {
		s.append(fmt.Sprint("in", i), amount(500))
		s.submit(strings.NewReplacer("name: orders }", fmt.Sprint("name: in", i, " }"), "name: big",
			fmt.Sprint("name: big", i)).Replace(filtered))
	}
	s.run()
	var seen int64
	s.duties(bed{
		proposed: func() { t.Error("an idle job proposes") },
		asleep: func(_ <-chan struct{}, until int64) {
			if until < s.Now()+30_000 {
				t.Errorf("looks again in %d ms", until-s.Now())
			}
			seen += looks()
		},
	})
	if seen > 200 {
		t.Errorf("%d looks of 100 idle jobs", seen)
	}
}

// TestBacklogWakes: a job with too much output waiting for sinks in other shards is woken when
// there is room, and not before.
func TestBacklogWakes(t *testing.T) {
	s, ctx := newRig(t, 4), context.Background()
	other := ""
	for i := 0; ; i++ {
		if other = fmt.Sprint("other", i); engine.HomeShard(other, 4) != engine.HomeShard("n", 4) {
			break
		}
	}
	id := s.submit(fmt.Sprintf(`
name: far
sources: [{ name: in, stream: { name: in, partitions: all } }]
sinks: [{ name: out, stream: { name: out, namespace: %s } }]
`, other))
	large := strings.Repeat("x", 900<<10)
	for range 12 {
		s.append("in", large)
	}
	s.lane(id, bed{})
	if m := s.job(id).Metrics; m.Backlog < processing.MaxOutBytes || m.RecordsIn == 12 {
		t.Fatalf("backlog %d after %d records", m.Backlog, m.RecordsIn)
	}
	if woken, _ := s.wakes(id, s.Deliver); !woken {
		t.Error("not woken when what waited was taken")
	}
	s.run()
	s.Deliver()
	s.run()
	far := engine.StoreOf[stream.Store](s.Router(), other, 1<<20)
	if st, err := far.Get(ctx, "out"); err != nil || st.Appended != 12 {
		t.Errorf("out: %+v, %v", st, err)
	}
	if m := s.job(id).Metrics; m.Backlog != 0 {
		t.Errorf("metrics %+v", m)
	}
}

// TestMarkWhileFiring: the shown watermark passes the end of a window only once the window has been
// emitted. It used to be ahead while many windows fired.
func TestMarkWhileFiring(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit(strings.Replace(summed, "name: sums", "name: sums\nbatch_size: 1000", 1))
	base := s.Now() / 10_000 * 10_000
	var all []stream.Message
	const keys = 6000
	for i := range keys {
		all = append(all, stream.Message{Payload: fmt.Appendf(nil, `{"who":"w%d","ts":%d,"n":1}`, i, base)})
	}
	all = append(all, stream.Message{Payload: fmt.Appendf(nil, `{"who":"last","ts":%d,"n":1}`, base+20_000)})
	for len(all) > 0 {
		n := min(len(all), 1000)
		if _, err := s.streams.AppendMany(context.Background(), "sales", all[:n]); err != nil {
			t.Fatal(err)
		}
		all = all[n:]
	}
	slices, mark := 0, int64(0)
	s.lane(id, bed{asleep: func(<-chan struct{}, int64) { mark = s.job(id).Metrics.Watermark.UnixMilli() }, proposed: func() {
		st, err := s.streams.Get(context.Background(), "totals")
		told := int64(0)
		if err == nil {
			told = st.Appended
		}
		if told > 0 && told < keys {
			slices++
		}
		if mark := s.job(id).Metrics.Watermark; told < keys && !mark.IsZero() && mark.UnixMilli() >= base+10_000 {
			t.Errorf("%d of %d windows have been told, and the watermark is %d ms behind their end", told, keys,
				mark.UnixMilli()-base-10_000)
		}
	}})
	if st, err := s.streams.Get(context.Background(), "totals"); err != nil || st.Appended != keys || slices == 0 {
		t.Errorf("totals %+v, %v, %d slices", st, err, slices)
	}
	if mark < base+10_000 {
		t.Errorf("the watermark is %d", mark-base)
	}
}

// TestSpreadGraceWakes: sections that hold their watermark for the grace of idle upstreams wake
// when it is over. Nothing else wakes them: no message announces its end.
func TestSpreadGraceWakes(t *testing.T) {
	s := newSpread(t, 3)
	chained := strings.Replace(keyedSums, "idle_timeout_ms: 30000", "idle_timeout_ms: 300", 1)
	chained = strings.Replace(chained, "operators:\n",
		"operators:\n  - { name: user, type: kv_lookup, lookup_key: $.who, on_missing: \"null\" }\n", 1)
	s.submit(chained)
	base := s.Now() / 10_000 * 10_000
	var sales []sale
	for n := range int64(4) { // not in all shards
		sales = append(sales, sale{"w", base + n*3000, n})
	}
	s.sell("in", sales...)
	want, began := summedUp(sales, 10_000), s.Now()
	for len(s.windowsOf("copy")) < len(want) {
		before, next := len(s.Log(0))+len(s.Log(1))+len(s.Log(2)), int64(math.MaxInt64)
		s.duties(bed{asleep: func(_ <-chan struct{}, until int64) { next = min(next, until) }})
		s.Deliver()
		if len(s.Log(0))+len(s.Log(1))+len(s.Log(2)) > before {
			continue
		}
		if s.Pass(max(next-s.Now(), 1)); s.Now() > began+20_000 {
			t.Fatalf("after %d ms: %+v, want %+v", s.Now()-began, s.windowsOf("copy"), want)
		}
	}
}
