package processing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream/processing"
)

// TestRecordsBehind: the number of unread records is shown while a job waits for a sink, also in
// lists, and is zero when all have been read.
func TestRecordsBehind(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 2}); err != nil {
		t.Fatal(err)
	}
	id := s.submit("name: behind\nsources: [{name: in, stream: {name: in}}]\nsinks: [{name: work, queue: {name: work}}]\n")
	s.append("in", amount(1), amount(2), amount(3), amount(4), amount(5))
	behind := func(want int64) {
		t.Helper()
		job, page := processing.Job{}, processing.Page[processing.Job]{}
		s.lane(id, bed{asleep: func(<-chan struct{}, int64) {
			job = s.job(id)
			var err error
			if page, err = s.jobs.Page(ctx); err != nil || len(page.Items) != 1 {
				t.Fatalf("Page = %+v, %v", page, err)
			}
		}})
		if got, listed := job.Metrics.RecordsBehind, page.Items[0].Metrics.RecordsBehind; got != want || listed != want {
			t.Errorf("%d records behind, %d in the list, want %d", got, listed, want)
		}
	}
	behind(3)
	if err := s.queues.Configure(ctx, "work", queue.Settings{}); err != nil {
		t.Fatal(err)
	}
	behind(0)
}

// scripted is the door of a duty that runs the next step of a script at each sleep, until none is
// left.
type scripted struct {
	bed
	script []func()
	took   int64 // duration of each proposal in ms
	micros int64 // additional microseconds per proposal, only on the clock of Elapsed
	passed int64 // microseconds passed so far

	ponders int64 // microseconds added at each read of the time
}

// Elapsed returns the time with fractions of a millisecond.
func (d *scripted) Elapsed() time.Duration {
	d.passed += d.ponders
	return time.Duration(d.s.Mono())*time.Millisecond + time.Duration(d.passed)*time.Microsecond
}

// Propose applies the command after a delay.
func (d *scripted) Propose(ctx context.Context, cmd engine.Command) ([]byte, error) {
	d.s.Pass(d.took)
	d.passed += d.micros
	return d.bed.Propose(ctx, cmd)
}

// Sleep runs the next step of the script.
func (d *scripted) Sleep(_ context.Context, wake <-chan struct{}, _ int64) error {
	select {
	case <-wake:
		return nil
	default:
	}
	if len(d.script) == 0 {
		return errSleeps
	}
	d.script[0]()
	d.script = d.script[1:]
	return nil
}

// TestMetrics: the metrics of a running job: rates since its start, the latency of its steps, and
// the number of records in the last step that read any. Counters of operators continue under
// another leader.
func TestMetrics(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit("name: m\nbatch_size: 2\nsources: [{name: in, stream: {name: in}, watermark: {idle_timeout_ms: 100}}]\noperators: " +
		"[{name: w, type: aggregate, function: count, window: tumbling, window_size: 1}]\nsinks: [{stream: out}]\n")
	var d *scripted
	d = &scripted{bed: bed{s: s}, script: []func(){
		func() { d.took = 10; s.append("in", "1", "2", "3") },
		func() { d.took = 30; s.append("in", "4") },
		func() {
			if m := s.job(id).Metrics; m.LatencyLast != 30*time.Millisecond || m.LatencyAvg != 20*time.Millisecond ||
				m.LatencyMax != 30*time.Millisecond || m.LastReadCount != 1 {
				t.Errorf("after two steps: %+v", m)
			}
			d.took = 0
			s.append("in", "5", "6")
		},
		func() { s.Pass(60_000) }, // the window fires without a read
		func() {
			m, lived := s.job(id).Metrics, s.Now()-s.job(id).CreatedAt.UnixMilli()
			if m.LastReadCount != 2 || m.LatencyMax != 30*time.Millisecond || m.LatencyLast != 0 || m.RecordsOut != 1 {
				t.Errorf("after the window: %+v", m)
			}
			if seconds := float64(lived) / 1000; m.InPerSecond != 6/seconds || m.OutPerSecond != 1/seconds {
				t.Errorf("in %d ms: %v and %v records/s", lived, m.InPerSecond, m.OutPerSecond)
			}
		},
	}}
	_, lane := processing.Lane(id)
	for _, duty := range s.Executor(0).Duties(1, func() engine.LeadDoor { return d }) {
		if duty.Machine == "processing" && duty.Name == lane {
			if err := duty.Run(t.Context(), duty.Lead); !errors.Is(err, errSleeps) || len(d.script) > 0 {
				t.Fatal(err)
			}
		}
	}
	s.Restart()
	s.append("in", "7")
	s.run()
	if o := s.job(id).Metrics.Operators; len(o) != 1 || o[0].Name != "w" || o[0].In != 7 || o[0].Out != 1 {
		t.Errorf("operators %+v", o)
	}
}

// TestRateOfAMillisecond: a job that has run for one millisecond has a rate.
func TestRateOfAMillisecond(t *testing.T) {
	s := newRig(t, 1)
	s.append("orders", amount(200))
	id := s.submit(filtered)
	s.run()
	if m := s.job(id).Metrics; m.InPerSecond != 1000 {
		t.Errorf("metrics %+v", m)
	}
}

// TestRoomIsTaken: a step whose room in the sink is taken before it is applied is halved at once,
// and the records that fit are processed.
func TestRoomIsTaken(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 2}); err != nil {
		t.Fatal(err)
	}
	id := s.submit("name: taken\nsources: [{name: in, stream: {name: in}}]\nsinks: [{name: work, queue: {name: work}}]\n")
	s.lane(id, bed{})
	s.append("in", "a", "b")
	proposals := 0
	s.lane(id, bed{refuse: func(engine.Command) error {
		if proposals++; proposals == 1 {
			_, err := s.queues.Enqueue(ctx, "work", []byte("other"))
			return err
		}
		return nil
	}})
	if m := s.job(id).Metrics; m.RecordsIn != 1 || proposals != 2 {
		t.Errorf("%d proposals, %+v", proposals, m)
	}
}

// TestLatency: latencies have fractions of a millisecond, the last step counts when the job is
// stopped, and the recorded latencies survive a restart.
func TestLatency(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit("name: m\nbatch_size: 2\nsources: [{name: in, stream: {name: in}}]\nsinks: [{stream: out}]\n")
	const micro = time.Microsecond
	check := func(when string, last, avg, most time.Duration) {
		t.Helper()
		if m := s.job(id).Metrics; m.LatencyLast != last || m.LatencyAvg != avg || m.LatencyMax != most {
			t.Errorf("%s: last %v, mean %v, most %v; want %v, %v, %v", when, m.LatencyLast, m.LatencyAvg, m.LatencyMax, last, avg, most)
		}
	}
	var d *scripted
	d = &scripted{bed: bed{s: s}, script: []func(){
		func() { d.micros = 300; s.append("in", "1") },
		func() {
			check("after a step of 0.3 ms", 300*micro, 300*micro, 300*micro)
			d.took, d.micros = 1, 501
			s.append("in", "2")
		},
		func() {
			check("after another one of 1.501 ms", 1501*micro, 900500*time.Nanosecond, 1501*micro)
			d.took, d.micros, d.ponders = 0, 0, 400
			s.append("in", "3")
		},
		func() {
			check("after one of 0.8 ms, half of them to compute it", 800*micro, 867*micro, 1501*micro)
			if _, err := s.jobs.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
	}}
	_, lane := processing.Lane(id)
	for _, duty := range s.Executor(0).Duties(1, func() engine.LeadDoor { return d }) {
		if duty.Machine == "processing" && duty.Name == lane {
			if err := duty.Run(t.Context(), duty.Lead); !errors.Is(err, errSleeps) || len(d.script) > 0 {
				t.Fatal(err)
			}
		}
	}
	check("when it is stopped", 0, 733666*time.Nanosecond, 1501*micro)
	s.Restart()
	check("after a restart", 0, 733666*time.Nanosecond, 1501*micro)
}
