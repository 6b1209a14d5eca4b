package action

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// duty is a door for the schedules' duty on any ground, with a limited number of steps.
type duty struct {
	ground machinetest.Ground
	shard  engine.ShardID
	steps  int
	caught []engine.Command // commands proposed when no steps were left
}

var errEnough = errors.New("the duty has done enough")

func (d *duty) Now() int64 { return d.ground.Now() }

func (d *duty) Propose(ctx context.Context, cmd engine.Command) ([]byte, error) {
	if d.steps--; d.steps < 0 {
		d.caught = append(d.caught, cmd)
		return nil, errEnough
	}
	return d.ground.Propose(ctx, d.shard, cmd)
}

func (d *duty) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	select {
	case <-wake:
		return nil
	default:
	}
	if until <= d.Now() {
		return nil
	}
	return errEnough
}

// do runs the duty in a term, 0 for the current one of a rig.
func (d *duty) do(t testing.TB, term uint64) {
	t.Helper()
	var duties []engine.LedDuty
	door := func() engine.LeadDoor { return d }
	switch g := d.ground.(type) {
	case *machinetest.Rig:
		duties = g.Executor(d.shard).Duties(max(term, 1), door)
	case *machinetest.Stepped:
		duties = g.Node().Duties(d.shard, g.Node().State(d.shard).DutyTerm, door)
	}
	for _, led := range duties {
		if led.Name != dutySchedule {
			continue
		}
		if err := led.Run(t.Context(), led.Lead); !errors.Is(err, errEnough) {
			t.Fatalf("duty %s of shard %d: %v", led.Name, d.shard, err)
		}
	}
}

// TestStaleTick: a tick computed from a view is refused, and changes nothing, if its schedule has
// changed or the tick was decided since.
func TestStaleTick(t *testing.T) {
	for name, overtake := range map[string]func(c *scheduling){
		"decided": func(c *scheduling) { c.Advance(0) },
		"changed": func(c *scheduling) { c.must(c.Set(c.t.Context(), "s", ScheduleSpec{Every: 2 * time.Hour})) },
		"paused":  func(c *scheduling) { c.must(c.Pause(c.t.Context(), "s")) },
		"resumed": func(c *scheduling) {
			c.must(c.Pause(c.t.Context(), "s"))
			c.must(c.Resume(c.t.Context(), "s"))
		},
		"deleted": func(c *scheduling) { c.must(c.Delete(c.t.Context(), "s")) },
		"made again": func(c *scheduling) {
			c.must(c.Delete(c.t.Context(), "s"))
			c.must(c.Set(c.t.Context(), "s", ScheduleSpec{Every: time.Hour}))
		},
		"leader": func(c *scheduling) { c.SetTerm(2) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newScheduling(t, 1)
			c.set("s", ScheduleSpec{Every: time.Hour})
			c.Pass(hours(1))
			d := &duty{ground: c.Rig}
			d.do(t, 1)
			if len(d.caught) != 1 {
				t.Fatalf("the duty proposes %d commands, want 1", len(d.caught))
			}
			overtake(c)
			before := c.rows()
			if out := c.Entry(0, d.caught[0])[0]; !errors.Is(out.Err, ErrConflict) {
				t.Errorf("the tick is done: %v", out.Err)
			}
			if after := c.rows(); after != before {
				t.Errorf("it has written:\n%s\nbefore\n%s", after, before)
			}
			if c.Advance(0); name == "decided" || name == "leader" {
				c.wantRuns("02:00:00")
			} else {
				c.wantRuns("")
			}
		})
	}
}

// rows returns the rows of actions.
func (c *scheduling) rows() string {
	var b strings.Builder
	for _, row := range c.Rows(0) {
		if row.Machine == engine.MachineAction {
			fmt.Fprintf(&b, "%x %x\n", row.Key, row.Value)
		}
	}
	return b.String()
}

func (c *scheduling) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestStaleTickAmongOthers: the valid parts of a command are applied, the overtaken ones are not.
func TestStaleTickAmongOthers(t *testing.T) {
	c := newScheduling(t, 1)
	for _, name := range []string{"a", "b", "c"} {
		c.set(name, ScheduleSpec{Every: time.Hour})
	}
	c.Pass(hours(1))
	d := &duty{ground: c.Rig}
	d.do(t, 1)
	c.must(c.Pause(t.Context(), "b"))
	for range 2 { // a repeated command does nothing
		c.Entry(0, d.caught[0])
	}
	c.Advance(0)
	for name, ran := range map[string]int64{"a": 1, "b": 0, "c": 1} {
		if s := c.get(name); s.Ran != ran {
			t.Errorf("%s: %s", name, s.counts())
		}
	}
}
