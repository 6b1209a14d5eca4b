package processing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// flaky is the door of duties that lose their proposals, or get no response to them.
type flaky struct {
	*rig
	shard    engine.ShardID
	rng      *rand.Rand
	proposed []engine.Command // that were applied
	left     int              // proposals until the duty ends, as if another leader took over
}

var errAsleep = errors.New("there is nothing to do now")

func (d *flaky) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	d.left--
	unknown := engine.Errorf(engine.ErrUnknownOutcome, "the answer is lost")
	switch n := d.rng.IntN(10); {
	case n == 0:
		return nil, unknown // the command is lost as well
	case n == 1:
		d.Entry(d.shard, cmd)
		d.proposed = append(d.proposed, cmd)
		return nil, unknown
	case n == 2 && len(d.proposed) > 0: // an earlier command arrives late, and again
		d.Entry(d.shard, d.proposed[d.rng.IntN(len(d.proposed))])
	}
	out := d.Entry(d.shard, cmd)[0]
	if out.Err == nil {
		d.proposed = append(d.proposed, cmd)
	}
	return out.Result, out.Err
}

func (d *flaky) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	select {
	case <-wake:
		if d.left > 0 {
			return nil
		}
	default:
	}
	return errAsleep
}

// TestExactlyOnce: commands of ticks are lost, repeated, or applied without a response, leaders
// change at any moment, and executors restart: each record takes effect once.
func TestExactlyOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 0))
	s, ctx := newRig(t, 1), context.Background()
	s.submit(strings.Replace(fanned, "name: fan\n", "name: fan\nbatch_size: 2\n", 1))
	var want []string
	for round := range 60 {
		for range rng.IntN(6) {
			want = append(want, reading(fmt.Sprint("k", rng.IntN(4)), len(want)))
			s.append("in", want[len(want)-1])
		}
		d := &flaky{rig: s, rng: rng, left: rng.IntN(5)}
		for _, duty := range s.Executor(0).Duties(1, func() engine.LeadDoor { return d }) {
			_ = duty.Run(ctx, duty.Lead)
		}
		if rng.IntN(5) == 0 {
			s.Restart()
		}
		if round%20 == 19 {
			s.run()
		}
	}
	s.run()
	s.run()
	if got := s.read("copy"); got != strings.Join(want, " ") {
		t.Errorf("the stream holds %s\nwant %s", got, strings.Join(want, " "))
	}
	if st, err := s.queues.Get(ctx, "work"); err != nil || st.Enqueued != int64(len(want)) {
		t.Errorf("the queue has had %+v, %v, want %d", st, err, len(want))
	}
	if m, err := s.series.Get(ctx, "cpu"); err != nil || m.Points != int64(len(want)) {
		t.Errorf("the series hold %+v, %v, want %d", m, err, len(want))
	}
	machinetest.EqualReplicas(t, s.Log(0), tables(), machinetest.Replica{},
		machinetest.Replica{Name: "crashes behind each entry", Commit: 1, Restart: 1})
}

// TestOvertaken: a tick proposed again at any later time is refused and changes nothing.
func TestOvertaken(t *testing.T) {
	s := newRig(t, 1)
	s.submit(fanned)
	for i := range 5 {
		s.append("in", reading("a", i))
		s.run()
	}
	before, log := s.read("copy"), s.Log(0)
	again := 0
	for _, data := range log {
		var e engine.Entry
		if err := e.Decode(data); err != nil {
			t.Fatal(err)
		}
		for _, c := range e.Commands {
			cmd, err := engine.DecodeCommand(c)
			if err != nil {
				t.Fatal(err)
			}
			if cmd.Namespace != "" || !strings.Contains(string(cmd.Body), "copy") {
				continue // not a tick: ticks come in a command of the engine
			}
			again++
			if out := s.Entry(0, cmd)[0]; !errors.Is(out.Err, engine.ErrConflict) {
				t.Errorf("a tick that comes again: %v", out.Err)
			}
		}
	}
	if again < 5 {
		t.Errorf("%d ticks came again, want at least 5", again)
	}
	s.run()
	s.want("copy", before)
}
