package processing_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

var windowsFlag = flag.Int("windows", 3000, "how many windows TestKilledWhileFiring fires")

const countedOnce = `
name: counts
batch_size: 5
sources: [{name: in, stream: {name: in}, event_time: $.t, watermark: {max_out_of_orderness_ms: 0, idle_timeout_ms: 3600000}}]
operators:
  - { type: passthrough }
  - { type: keyby, key_expression: $.k }
  - { name: w, type: aggregate, function: count, window: tumbling, window_size: 10 }
sinks: [{name: out, stream: {name: out}}]
`

// allOf returns all payloads of a stream.
func (s *rig) allOf(name string) (all []string) {
	s.t.Helper()
	for opts := []stream.ReadOption(nil); ; {
		recs, err := s.streams.Read(context.Background(), name, append(opts, stream.Limit(stream.MaxReadLimit))...)
		if err != nil && !errors.Is(err, stream.ErrNotFound) {
			s.t.Fatal(err)
		}
		if len(recs) == 0 {
			return all
		}
		for _, r := range recs {
			all = append(all, string(r.Payload))
		}
		opts = []stream.ReadOption{stream.After(recs[len(recs)-1].ID)}
	}
}

// keyed appends a record of time t for each of many keys.
func (s *rig) keyed(keys int, t int64) {
	s.t.Helper()
	for from := 0; from < keys; from += 1000 {
		var msgs []stream.Message
		for k := from; k < min(from+1000, keys); k++ {
			msgs = append(msgs, stream.Message{Payload: fmt.Appendf(nil, `{"k":"key%07d","t":%d}`, k, t)})
		}
		if _, err := s.streams.AppendMany(context.Background(), "in", msgs); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestKilledWhileFiring: while many windows fire the process ends after every other command, or
// before it, and all fire once, in the order of their keys.
//
//	go test -run '^TestKilledWhileFiring$' -windows 1000000 ./stream/processing
func TestKilledWhileFiring(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit(countedOnce)
	s.keyed(*windowsFlag, 1000)
	s.lead(&disturbed{rig: s, at: -2})
	if got := s.allOf("out"); len(got) > 0 {
		t.Fatalf("%d windows have fired", len(got))
	}
	s.keyed(1, 50_000)
	ends := 0
	for n := 0; ; n++ {
		d := &disturbed{rig: s, at: n % 3, what: []mishap{ended, failed}[n/3%2]}
		s.leadOnce(d)
		if d.count == 0 {
			break
		}
		ends++
	}
	got := s.allOf("out")
	if len(got) != *windowsFlag || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("%d windows have fired, want %d, each once and in order", len(got), *windowsFlag)
	}
	if ends < *windowsFlag/600 {
		t.Errorf("leaders were disturbed %d times", ends)
	}
	if m := s.job(id).Metrics; m.RecordsOut != int64(*windowsFlag) || m.Errors != 0 {
		t.Errorf("metrics %+v", m)
	}
	t.Logf("%d windows, disturbed %d times", len(got), ends)
}

// leadOnce lets a leader do its pending work until it has a mishap.
func (s *rig) leadOnce(d *disturbed) {
	s.t.Helper()
	for _, duty := range s.Executor(0).Duties(1, func() engine.LeadDoor { return d }) {
		_ = duty.Run(context.Background(), duty.Lead)
	}
	if d.over {
		s.Restart()
	}
}

// TestEditedWhileFiring: a job is stopped while its windows fire. It continues with other operators
// before the firing one, or without it, also from a savepoint of that moment. Each window fires
// once. The firing position used to apply to whichever operator was at that place, which ended
// every tick with an error.
func TestEditedWhileFiring(t *testing.T) {
	const keys = 900
	edited := map[string]string{
		"as it was": countedOnce,
		"others in front": strings.Replace(countedOnce, "operators:\n",
			"operators:\n  - { type: set, x: 1 }\n  - { name: other, type: aggregate, function: count, window: session, gap: 1 }\n", 1),
		"a filter in front": strings.Replace(countedOnce, "operators:\n",
			"operators:\n  - { type: passthrough }\n  - { type: filter, condition: \"json:$.t>0\" }\n", 1),
		"fewer in front":  strings.Replace(countedOnce, "  - { type: passthrough }\n", "", 1),
		"it is not there": strings.Replace(countedOnce, "name: w, ", "name: v, ", 1),
		"more behind": strings.Replace(countedOnce, "sinks:",
			"  - { name: last, type: aggregate, function: count, window: tumbling, window_size: 100 }\nsinks:", 1),
		"another one instead": strings.Replace(countedOnce, "name: w, type: aggregate, function: count, window: tumbling, window_size: 10",
			"name: w, type: aggregate, function: count, window: session, gap: 10", 1),
	}
	for what, definition := range edited {
		for _, from := range []string{"", " from a savepoint"} {
			t.Run(what+from, func(t *testing.T) {
				s, ctx := newRig(t, 1), context.Background()
				id := s.submit(countedOnce)
				s.keyed(keys, 1000)
				s.lead(&disturbed{rig: s, at: -2})
				s.keyed(1, 50_000)
				s.leadOnce(&disturbed{rig: s, at: 2, what: failed}) // it has read everything, and fired some windows
				fired := len(s.allOf("out"))
				if fired == 0 || fired >= keys {
					t.Fatalf("%d windows have fired", fired)
				}
				opts := []processing.RestoreOption{processing.ReplaceDefinition([]byte(definition)), processing.DropState()}
				if _, err := s.jobs.Stop(ctx, id); err != nil {
					t.Fatal(err)
				}
				if from != "" {
					sp, err := s.jobs.Savepoints(id).Create(ctx)
					if err != nil {
						t.Fatal(err)
					}
					s.lead(&disturbed{rig: s, at: -2})
					opts = append(opts, processing.FromSavepoint(sp))
				}
				if _, err := s.jobs.Restore(ctx, id, opts...); err != nil {
					t.Fatal(err)
				}
				s.lead(&disturbed{rig: s, at: -2})
				s.lead(&disturbed{rig: s, at: -2})
				got, want := s.allOf("out"), keys
				switch what {
				case "it is not there", "another one instead":
					want = fired
				case "more behind":
					return // these windows now go into another window
				}
				if j := s.job(id); j.Status != processing.Running || len(got) != want {
					t.Errorf("job %s (%s): %d windows have fired, want %d", j.Status, j.Reason, len(got), want)
				}
				s.keyed(1, 100_000)
				s.lead(&disturbed{rig: s, at: -2})
				if j := s.job(id); j.Metrics.RecordsIn != keys+2 {
					t.Errorf("it has read %d records, want %d", j.Metrics.RecordsIn, keys+2)
				}
			})
		}
	}
}

const summing = `
name: sums
batch_size: 5
sources: [{name: in, stream: {name: in}}]
operators:
  - { type: keyby, key_expression: $.k }
  - { name: a, type: aggregate, function: sum, field: n }
sinks: [{name: out, stream: {name: out}}]
`

// TestSavepointUnderLoad: savepoints of some MiB are made while records arrive and leaders change.
// A job restored from one produces the same output from the later records as before.
func TestSavepointUnderLoad(t *testing.T) {
	s, ctx, rng := newRig(t, 1), context.Background(), rand.New(rand.NewPCG(machinetest.Seed(t), 0))
	id := s.submit(summing)
	n := 0
	feed := func(count int, long string) {
		t.Helper()
		var msgs []stream.Message
		for range count {
			n++
			msgs = append(msgs, stream.Message{Payload: fmt.Appendf(nil, `{"k":"%s%d","n":%d}`, long, rng.IntN(40), n)})
		}
		if _, err := s.streams.AppendMany(ctx, "in", msgs); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1500 { // keys that do not compress well: there are several chunks
		var b strings.Builder
		for b.Len() < 2500 {
			fmt.Fprintf(&b, "%x", rng.Uint64())
		}
		feed(1, b.String())
		if i%50 == 49 {
			s.lead(&disturbed{rig: s, at: -2})
		}
	}
	for round := range 6 {
		feed(20, "k")
		sp, err := s.jobs.Savepoints(id).Create(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 { // each leader starts the savepoint anew
			feed(7, "k")
			s.leadOnce(&disturbed{rig: s, at: rng.IntN(9), what: []mishap{ended, failed}[i%2]})
		}
		s.lead(&disturbed{rig: s, at: -2})
		got, err := s.jobs.AwaitSavepoint(ctx, id, sp)
		if err != nil || !got.Complete {
			t.Fatalf("savepoint %+v, %v", got, err)
		}
		before := s.allOf("out")
		if len(before) != n {
			t.Fatalf("round %d: %d sums of %d records", round, len(before), n)
		}
		if _, err := s.jobs.Stop(ctx, id); err != nil {
			t.Fatal(err)
		}
		if _, err := s.jobs.Restore(ctx, id, processing.FromSavepoint(sp)); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			s.leadOnce(&disturbed{rig: s, at: rng.IntN(4), what: []mishap{ended, failed}[rng.IntN(2)]})
		}
		s.lead(&disturbed{rig: s, at: -2})
		after := s.allOf("out")
		again := after[len(before):]
		if !slices.Equal(again, before[len(before)-len(again):]) {
			t.Fatalf("round %d: the restored job makes other sums of the %d records behind the savepoint", round, len(again))
		}
		if len(again) > n || len(again) == 0 && round == 0 {
			t.Fatalf("round %d: %d of %d records were behind the savepoint", round, len(again), n)
		}
		if _, err := s.streams.Trim(ctx, "out", stream.MaxLen(0)); err != nil {
			t.Fatal(err)
		}
		n = 0
	}
}

// TestRestoreToEqualCursors: a tick from before a restore arrives when the job has been restored to
// the same position: the cursors are equal, and the tick is refused. The same holds when the job
// continues as it is, maybe with another definition.
func TestRestoreToEqualCursors(t *testing.T) {
	for _, when := range []string{"stopped", "being restored", "restored", "running", "as it stands"} {
		t.Run(when, func(t *testing.T) {
			s, ctx := newRig(t, 1), context.Background()
			id := s.submit(summing)
			s.append("in", `{"k":"a","n":1}`)
			s.run()
			sp, err := s.jobs.Savepoints(id).Create(ctx)
			if err != nil {
				t.Fatal(err)
			}
			s.run()
			s.append("in", `{"k":"a","n":2}`, `{"k":"b","n":3}`)
			d := &disturbed{rig: s, at: 0, what: belated}
			for _, duty := range s.Executor(0).Duties(1, func() engine.LeadDoor { return &once{disturbed: d} }) {
				_ = duty.Run(ctx, duty.Lead)
			}
			if len(d.held) != 1 {
				t.Fatalf("%d ticks are on their way", len(d.held))
			}
			if _, err := s.jobs.Stop(ctx, id); err != nil {
				t.Fatal(err)
			}
			switch when {
			case "stopped":
			case "as it stands":
				if _, err := s.jobs.Restore(ctx, id); err != nil {
					t.Fatal(err)
				}
			default:
				if _, err := s.jobs.Restore(ctx, id, processing.FromSavepoint(sp)); err != nil {
					t.Fatal(err)
				}
			}
			switch when {
			case "restored": // state restored, but nothing read
				savepoints := s.Executor(0).Duties(1, func() engine.LeadDoor { return &disturbed{rig: s, at: -2} })
				for _, duty := range savepoints {
					if strings.Contains(fmt.Sprint(duty), "savepoints") {
						_ = duty.Run(ctx, duty.Lead)
					}
				}
			case "running":
				s.run()
			}
			if out := s.Entry(0, d.held[0].cmd)[0]; !errors.Is(out.Err, engine.ErrConflict) {
				t.Errorf("the tick of before: %v, want ErrConflict", out.Err)
			}
			if when == "stopped" {
				if _, err := s.jobs.Restore(ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			s.run()
			s.want("out", `{"key":"a","value":1,"count":1} {"key":"a","value":3,"count":2} {"key":"b","value":3,"count":1}`)
		})
	}
}

// once is a leader that ends with its first proposal.
type once struct{ *disturbed }

func (o *once) Propose(ctx context.Context, cmd engine.Command) ([]byte, error) {
	if o.count > 0 {
		return nil, errOver
	}
	return o.disturbed.Propose(ctx, cmd)
}

// TestEveryOrderOfIdlePartitions: windows have the same records whichever partition becomes idle
// first, second and third, and whether it comes back or not.
func TestEveryOrderOfIdlePartitions(t *testing.T) {
	const definition = `
name: idle
sources: [{name: in, stream: {name: in}, event_time: $.t, watermark: {max_out_of_orderness_ms: 0, idle_timeout_ms: 1000}}]
operators:
  - { name: w, type: aggregate, function: sum, field: n, window: tumbling, window_size: 10 }
sinks: [{name: out, stream: {name: out}}, {name: late, match: late, stream: {name: late}}]
`
	var want string
	for _, order := range permutations(4) {
		s, ctx := newRig(t, 1), context.Background()
		if err := s.streams.Create(ctx, "in", stream.Partitions(4)); err != nil {
			t.Fatal(err)
		}
		s.submit(definition)
		say := func(p int, at, n int64) {
			t.Helper()
			text := fmt.Sprintf(`{"t":%d,"n":%d}`, at, n)
			if _, err := s.streams.Append(ctx, "in", stream.Message{Payload: []byte(text)}, stream.Partition(p)); err != nil {
				t.Fatal(err)
			}
			s.run()
		}
		for i := range 4 {
			say(i, 1000, 1) // in the first window, which no partition has passed
		}
		s.want("out", "")
		for i, p := range order {
			for _, other := range order[i+1:] {
				say(other, int64(11_000+10_000*i), 1)
			}
			s.Advance(400)
			s.Advance(400)
			s.Advance(300) // p is idle, and the others hold their window open
			for _, other := range order[i+1:] {
				say(other, int64(12_000+10_000*i), 1)
			}
			_ = p
		}
		s.Advance(20_000) // all are idle
		say(order[0], 500, 1)
		say(order[1], 5000, 1)
		s.Advance(20_000)
		got := fmt.Sprintf("%s\nlate %s", s.read("out"), s.read("late"))
		if want == "" {
			want = got
			if strings.Count(want, "window_start") != 4 || strings.Count(want, "late") != 1 {
				t.Fatalf("order %v comes to %s", order, got)
			}
		}
		if got != want {
			t.Errorf("order %v comes to\n%s\nwant\n%s", order, got, want)
		}
	}
}

func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, rest := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(rest), at, n-1))
		}
	}
	return all
}

// TestFailureOfHugeRecord: the output of an operator may be too large for a sink, and then for the
// stream of errors too. The job used to be held forever.
func TestFailureOfHugeRecord(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit(fmt.Sprintf(`
name: huge
sources: [{name: in, stream: {name: in}}]
operators:
  - { type: set, a: '"%s"' }
  - { type: set, b: $.a, c: $.a, d: $.a, e: $.a, f: $.a, g: $.a, h: $.a }
  - { type: set, i: value, j: value, k: value }
sinks: [{name: out, stream: {name: out}}]
`, strings.Repeat("x", 3000)))
	s.append("in", `{"n":1,"big":"`+strings.Repeat("y", 900_000)+`"}`, `{"n":2}`)
	for range 5 {
		s.Advance(3000)
	}
	if j := s.job(id); j.Metrics.RecordsIn != 2 || j.Status != processing.Running {
		t.Errorf("job %s, %s: %+v", j.Status, j.Reason, j.Metrics)
	}
}
