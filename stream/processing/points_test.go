package processing_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

var everyFlag = flag.Int("every", 9, "TestTickAtEveryPoint disturbs each so many-th proposal")

// A mishap is the fate of one proposal of a leader.
type mishap int

const (
	none      mishap = iota
	lost             // it is not applied, and the outcome is unknown
	unheard          // it is applied, and the outcome is unknown
	belated          // it is applied after the leader's next proposal
	ahead            // it is applied just before the leader's next proposal
	repeated         // it is applied twice
	overtaken        // another leader does all pending work, and then it is applied
	ended            // it is applied, the process ends, and another one starts
	failed           // it is not applied, the process ends, and another one starts
	mishaps

	unread mishap = -1 // no proposal: each read of each duty fails once
)

// disturbed is the door of leaders, with a mishap for one proposal.
type disturbed struct {
	*rig
	shard  engine.ShardID // of the working leader
	at     int            // number of the proposal, from 0; counts down
	what   mishap
	held   []proposal
	before bool // held is applied before the next proposal
	over   bool // the process has ended
	count  int  // number of proposals
}

type proposal struct {
	shard engine.ShardID
	cmd   engine.Command
}

var errOver = errors.New("the process has ended")

func (d *disturbed) Sleep(_ context.Context, wake <-chan struct{}, _ int64) error {
	select {
	case <-wake:
		return nil
	default:
		return errAsleep
	}
}

func (d *disturbed) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	if d.over {
		return nil, errOver
	}
	unknown := engine.Errorf(engine.ErrUnknownOutcome, "the answer is lost")
	d.count++
	d.at--
	what := none
	if d.at == -1 {
		what = d.what
	}
	held := d.held
	d.held = nil
	if d.before {
		d.apply(held)
	}
	var out engine.Outcome
	switch what {
	case lost:
		return nil, unknown
	case unheard:
		d.Entry(d.shard, cmd)
		return nil, unknown
	case belated, ahead:
		d.held, d.before = []proposal{{d.shard, cmd}}, what == ahead
		return nil, unknown
	case overtaken:
		d.lead(&disturbed{rig: d.rig, at: -2})
		out = d.Entry(d.shard, cmd)[0]
	case ended:
		d.Entry(d.shard, cmd)
		d.over = true
		return nil, errOver
	case failed:
		d.over = true
		return nil, errOver
	case repeated:
		out = d.Entry(d.shard, cmd)[0]
		d.Entry(d.shard, cmd)
	default:
		out = d.Entry(d.shard, cmd)[0]
	}
	if !d.before {
		d.apply(held)
	}
	return out.Result, out.Err
}

func (d *disturbed) apply(held []proposal) {
	for _, p := range held {
		d.Entry(p.shard, p.cmd)
	}
}

// entries returns the number of applied entries.
func (s *rig) entries() (n uint64) {
	for shard := range engine.ShardID(s.Shards()) {
		n += s.Executor(shard).Applied().Index
	}
	return n
}

// lead lets the leaders of all shards do all pending work. A leader whose process ends is replaced
// by another.
func (s *rig) lead(d *disturbed) {
	s.t.Helper()
	if d.what == unread {
		s.FailReads(s.held)
		for before := uint64(0); before != s.entries(); {
			before = s.entries()
			s.Advance(0)
		}
		return
	}
	for before := -1; before != d.count; {
		before = d.count
		for shard := range engine.ShardID(s.Shards()) {
			for _, duty := range s.Executor(shard).Duties(1, func() engine.LeadDoor { return d }) {
				d.shard = shard
				if err := duty.Run(context.Background(), duty.Lead); !errors.Is(err, errAsleep) && !errors.Is(err, errOver) &&
					!errors.Is(err, engine.ErrUnknownOutcome) {
					s.t.Errorf("duty %v: %v", duty, err)
				}
				if d.over {
					s.Restart()
					d.over = false
				}
			}
		}
		s.Deliver()
	}
	d.apply(d.held) // the last one
	d.held = nil
}

// remembering are jobs with state of all kinds, whose source has keys in several partitions.
var remembering = func() (all []string) {
	const head = "name: %s\nbatch_size: 3\nsources: [{name: in, stream: {name: in}, event_time: $.t, watermark: " +
		"{max_out_of_orderness_ms: 500, idle_timeout_ms: 5000}}%s]\noperators: [%s]\nsinks: [%s]\n"
	for _, j := range [][4]string{
		{"windows", "",
			"{type: keyby, key_expression: $.k}, {name: w, type: aggregate, function: sum, field: n, window: sliding, window_size: 2, " +
				"slide: 1, allowed_lateness: 1}",
			"{name: out, stream: {name: windows}}, {name: late, match: late, stream: {name: late}}"},
		{"sessions", "", "{type: keyby, key_expression: $.k}, {name: s, type: aggregate, function: max, field: n, window: session, gap: 1}",
			"{name: out, stream: {name: sessions}}, {name: q, queue: {name: work}}"},
		{"sums", "",
			"{name: d, type: dedup, key: $.n}, {type: keyby, key_expression: $.k}, {name: a, type: aggregate, function: sum, field: n}",
			"{name: out, stream: {name: sums}}, {name: keys, kv: {key: $.key, key_prefix: sum, write_mode: versioned}}"},
		{"pairs", ", {name: side, stream: {name: side}, event_time: $.t, watermark: {max_out_of_orderness_ms: 500, idle_timeout_ms: 5000}}",
			"{name: j, type: join, source: side, on: $.k, within_ms: 700, mode: left, enrich_field: p}",
			"{name: out, stream: {name: pairs}}"},
	} {
		all = append(all, fmt.Sprintf(head, j[0], j[1], j[2], j[3]))
	}
	return all
}()

// TestTickAtEveryPoint: jobs reach the same result whatever happens to any one proposal of a
// leader. They have windows, sessions, sums, deduplicated keys and joined pairs, over two
// partitions that share their keys, and go through stops, savepoints and restores.
//
//	go test -run '^TestTickAtEveryPoint$' -every 1 ./stream/processing
func TestTickAtEveryPoint(t *testing.T) {
	atEveryPoint(t, *everyFlag, journeyOf)
}

// atEveryPoint repeats a journey with each mishap at every every-th proposal. All have the same
// result.
func atEveryPoint(t *testing.T, every int, journeyOf func(t *testing.T, seed uint64, at int, what mishap) (map[string]string, int)) {
	t.Helper()
	seed := machinetest.Seed(t)
	want, points := journeyOf(t, seed, 0, none)
	if len(want) < 8 || points < 40 {
		t.Fatalf("there are %d sinks after %d proposals: %v", len(want), points, want)
	}
	compare := func(at int, what mishap) {
		t.Helper()
		got, _ := journeyOf(t, seed, at, what)
		for name, text := range want {
			if got[name] != text {
				t.Fatalf("mishap %d of proposal %d of %d: %s holds\n%s\nwant\n%s", what, at, points, name, got[name], text)
			}
		}
	}
	compare(0, unread)
	first := int(seed % uint64(every))
	n := 0
	for at := first; at < points; at += every {
		for what := lost; what < mishaps; what++ {
			n++
			compare(at, what)
		}
	}
	t.Logf("%d mishaps at %d of %d points", n, (points-first+every-1)/every, points)
}

// journeyOf makes jobs read random records, with a mishap, and returns the contents of their sinks
// and the number of proposals.
func journeyOf(t *testing.T, seed uint64, at int, what mishap) (map[string]string, int) {
	t.Helper()
	s, ctx, rng := newRig(t, 1), context.Background(), rand.New(rand.NewPCG(seed, 0))
	for _, name := range []string{"in", "side"} {
		if err := s.streams.Create(ctx, name, stream.Partitions(2)); err != nil {
			t.Fatal(err)
		}
	}
	var jobs []processing.JobID
	for _, definition := range append(remembering,
		strings.ReplaceAll(strings.Replace(fanned, "name: fan\n", "name: fan\nbatch_size: 2\n", 1), "name: in\n    stream: { name: in }",
			"name: in\n    stream: { name: fan }")) {
		jobs = append(jobs, s.submit(definition))
	}
	d, n := &disturbed{rig: s, at: at, what: what}, int64(0)
	var saved []processing.SavepointID
	for round := range 6 {
		for range 6 {
			n += int64(rng.IntN(2))
			text := fmt.Sprintf(`{"k":"k%d","n":%d,"t":%d}`, rng.IntN(3), n, s.Now()-rng.Int64N(3000))
			for _, name := range []string{"in", "side"} {
				if _, err := s.streams.Append(ctx, name, stream.Message{Payload: []byte(text)}, stream.Partition(rng.IntN(2))); err != nil {
					t.Fatal(err)
				}
			}
			s.append("fan", reading(fmt.Sprint("k", rng.IntN(2)), int(n)))
		}
		s.lead(d)
		for _, id := range jobs {
			var err error
			switch round {
			case 1:
				var sp processing.SavepointID
				sp, err = s.jobs.Savepoints(id).Create(ctx)
				saved = append(saved, sp)
			case 2:
				_, err = s.jobs.Stop(ctx, id)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s.lead(d)
		if round == 2 {
			for i, id := range jobs {
				opts := []processing.RestoreOption{}
				if i%2 == 0 {
					opts = append(opts, processing.FromSavepoint(saved[i]))
				}
				if _, err := s.jobs.Restore(ctx, id, opts...); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.Pass(1500)
	}
	for range 3 {
		s.lead(d)
		s.Pass(20_000)
	}
	s.lead(d)
	got := make(map[string]string)
	for _, name := range []string{"windows", "late", "sessions", "sums", "pairs", "copy"} {
		got[name] = s.read(name)
	}
	for _, id := range jobs {
		j := s.job(id)
		got["job "+j.Name] = fmt.Sprint(j.Status, j.Reason, j.Metrics.RecordsIn, j.Metrics.RecordsOut, j.Metrics.Errors)
	}
	st, err := s.queues.Get(ctx, "work")
	if err != nil {
		t.Fatal(err)
	}
	got["queue"] = fmt.Sprint(st.Enqueued)
	for item, err := range s.keys.All(ctx, kv.Prefix("")) {
		if err != nil {
			t.Fatal(err)
		}
		got["key "+item.Key] = fmt.Sprintf("%s in version %d", item.Value, item.Version)
	}
	return got, d.count
}
