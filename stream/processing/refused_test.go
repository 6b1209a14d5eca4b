package processing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream/processing"
)

// dozing is the door of a duty that sleeps a number of times and then ends. Time passes while it
// sleeps, and each nap is noted, with the reason that the job shows.
type dozing struct {
	bed
	job  processing.JobID
	naps []string
	most int
}

func (d *dozing) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	select {
	case <-wake:
		return nil
	default:
	}
	if len(d.naps) == d.most {
		return errSleeps
	}
	d.naps = append(d.naps, fmt.Sprintf("%d ms %q", until-d.s.Now(), d.s.job(d.job).Reason))
	d.s.Pass(until - d.s.Now())
	return nil
}

// TestRefusedSteps: after a step that was refused, a job either repeats it at once, with fewer
// records if they were too many for a command, or is held for a while that grows. It shows why.
func TestRefusedSteps(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		refused   int    // number of steps that are refused
		proposals int    // until the job has read 8 records
		naps      string // until then
	}{
		"an unknown outcome": {engine.Errorf(engine.ErrUnknownOutcome, "lost"), 3, 4, "[]"},
		"a conflict":         {engine.Errorf(engine.ErrConflict, "overtaken"), 3, 4, "[]"},
		"read-only": {engine.Errorf(engine.ErrReadOnly, "no space"), 3, 4,
			`["20 ms \"no space\"" "40 ms \"no space\"" "80 ms \"no space\""]`},
		"busy":               {engine.Errorf(engine.ErrBusy, "full"), 2, 3, `["20 ms \"full\"" "40 ms \"full\""]`},
		"eight are too many": {engine.Errorf(engine.ErrInvalid, "large"), 1, 3, "[]"},
		"two are too many":   {engine.Errorf(engine.ErrInvalid, "large"), 3, 7, "[]"},
		"one is too many":    {engine.Errorf(engine.ErrInvalid, "large"), 5, 9, `["20 ms \"large\"" "40 ms \"large\""]`},
		"another error":      {errors.New("odd"), 2, 3, `["20 ms \"odd\"" "40 ms \"odd\""]`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t, 1)
			id := s.submit(filtered)
			s.run()
			want := ""
			for i := range 8 {
				s.append("orders", amount(200+i))
				if i > 0 {
					want += " "
				}
				want += amount(200 + i)
			}
			proposals := 0
			d := &dozing{job: id, most: 10}
			d.s = s
			d.refuse = func(engine.Command) error {
				if proposals++; proposals <= c.refused {
					return c.err
				}
				return nil
			}
			d.proposed = func() {
				if s.job(id).Metrics.RecordsIn == 8 {
					d.most = len(d.naps)
				}
			}
			shard, lane := processing.Lane(id)
			for _, duty := range s.Executor(engine.ShardID(shard)).Duties(1, func() engine.LeadDoor { return d }) {
				if duty.Machine == "processing" && duty.Name == lane {
					if err := duty.Run(t.Context(), duty.Lead); !errors.Is(err, errSleeps) {
						t.Errorf("duty: %v", err)
					}
				}
			}
			if got := fmt.Sprintf("%q", d.naps); got != c.naps || proposals != c.proposals {
				t.Errorf("%d proposals, want %d; naps %s, want %s", proposals, c.proposals, got, c.naps)
			}
			if m := s.job(id); m.Metrics.RecordsIn != 8 || m.Reason != "" {
				t.Errorf("%d records are read, %q", m.Metrics.RecordsIn, m.Reason)
			}
			s.want("large", want)
		})
	}
}
