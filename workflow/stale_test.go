package workflow_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/workflow"
)

// catcher is a door for duties that records proposals and proposes none.
type catcher struct {
	r      *machinetest.Rig
	caught []engine.Command
}

var errCaught = errors.New("caught")

func (c *catcher) Now() int64 { return c.r.Now() }

func (c *catcher) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	c.caught = append(c.caught, cmd)
	return nil, errCaught
}

func (c *catcher) Sleep(context.Context, <-chan struct{}, int64) error { return errCaught }

// TestStaleTick: ticks computed by a duty are refused if they were already decided, or if the
// schedule was changed, paused or replaced. Nothing is started twice, or by a schedule that no
// longer exists.
func TestStaleTick(t *testing.T) {
	ctx := context.Background()
	definition := func(version, schedule string) []byte {
		return []byte("name: w\nversion: \"" + version + "\"\nschedule: { " + schedule +
			", max_concurrent: 0 }\nstart: { sleep: { ms: 0 }, transitions: { success: flo.Completed } }\n")
	}
	for name, overtake := range map[string]func(r *machinetest.Rig, flows *workflow.Store) error{
		"decided": func(r *machinetest.Rig, _ *workflow.Store) error { r.Advance(0); return nil },
		"changed": func(_ *machinetest.Rig, flows *workflow.Store) error {
			_, err := flows.Create(ctx, definition("2", "interval: 90000"))
			return err
		},
		"paused":   func(_ *machinetest.Rig, flows *workflow.Store) error { return flows.Schedule("w").Pause(ctx) },
		"disabled": func(_ *machinetest.Rig, flows *workflow.Store) error { return flows.Disable(ctx, "w") },
		"resumed": func(_ *machinetest.Rig, flows *workflow.Store) error {
			return errors.Join(flows.Schedule("w").Pause(ctx), flows.Schedule("w").Resume(ctx))
		},
		"deleted": func(_ *machinetest.Rig, flows *workflow.Store) error { return flows.Delete(ctx, "w", workflow.Force()) },
	} {
		r := newRig(t, 1)
		flows := flowsOf(r, "n")
		if _, err := flows.Create(ctx, definition("1", "interval: 60000")); err != nil {
			t.Fatal(err)
		}
		r.Advance(0) // the duty schedules
		r.Pass(60_000)
		door := &catcher{r: r}
		for _, led := range r.Executor(0).Duties(1, func() engine.LeadDoor { return door }) {
			if err := led.Run(ctx, led.Lead); !errors.Is(err, errCaught) {
				t.Fatalf("duty %s: %v", led.Name, err)
			}
		}
		if len(door.caught) != 1 {
			t.Fatalf("%d commands are proposed, want 1", len(door.caught))
		}
		if err := overtake(r, flows); err != nil {
			t.Fatal(err)
		}
		if out := r.Entry(0, door.caught[0])[0]; !errors.Is(out.Err, workflow.ErrConflict) {
			t.Errorf("%s: a stale tick: %v, want ErrConflict", name, out.Err)
		}
		want := 0
		if name == "decided" {
			want = 1
		}
		runs := 0
		for _, err := range flows.Runs().All(ctx) {
			if runs++; err != nil {
				t.Fatal(err)
			}
		}
		if runs != want {
			t.Errorf("%s: %d runs, want %d", name, runs, want)
		}
		r.Advance(time.Second.Milliseconds())
		r.Verify()
	}
}
