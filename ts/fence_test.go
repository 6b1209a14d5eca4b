package ts_test

import (
	"context"
	"errors"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// catcher is a duty's door that records the proposed commands.
type catcher struct {
	*machinetest.Rig
	caught []engine.Command
}

var errCaught = errors.New("caught")

// Propose records the command.
func (c *catcher) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	c.caught = append(c.caught, cmd)
	return nil, errCaught
}

// Sleep ends the duty.
func (c *catcher) Sleep(context.Context, <-chan struct{}, int64) error { return errCaught }

// proposed returns the command that the duty of the rig's shard would propose now, in a term.
func proposed(t *testing.T, r *machinetest.Rig, term uint64) engine.Command {
	t.Helper()
	c := &catcher{Rig: r}
	for _, d := range r.Executor(0).Duties(term, func() engine.LeadDoor { return c }) {
		if err := d.Run(t.Context(), d.Lead); !errors.Is(err, errCaught) {
			t.Fatalf("%s: %v", d.Name, err)
		}
	}
	if len(c.caught) != 1 {
		t.Fatalf("the duty proposes %d commands, want 1", len(c.caught))
	}
	return c.caught[0]
}

// TestOvertakenSeal: a seal computed from a view is refused, and changes nothing, if its inputs
// have changed since.
func TestOvertakenSeal(t *testing.T) {
	for name, overtake := range map[string]func(r *machinetest.Rig, s *ts.Store){
		"sealed": func(r *machinetest.Rig, s *ts.Store) { r.Advance(0) },
		"deleted": func(r *machinetest.Rig, s *ts.Store) {
			must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "a"}))
		},
		"retention": func(r *machinetest.Rig, s *ts.Store) {
			must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 24 * 3600 * 1e9}))
		},
		"made again": func(r *machinetest.Rig, s *ts.Store) {
			must(0, s.Delete(t.Context(), "cpu"))
			write(t, s, point("c", 0, 1), point("d", 0, 1))
		},
		"leader": func(r *machinetest.Rig, s *ts.Store) { r.SetTerm(2) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			s := storeOf(r, "n")
			write(t, s, point("a", 0, 1), point("b", 0, 1))
			write(t, s, point("a", 0, 2), point("b", second, 2))
			r.Pass(6 * minute)
			cmd := proposed(t, r, 1)
			overtake(r, s)
			before := contents(r)
			if out := r.Entry(0, cmd)[0]; !errors.Is(out.Err, engine.ErrConflict) {
				t.Errorf("the seal is carried out: %v", out.Err)
			}
			check(t, r, before)
			r.Advance(10 * minute)
			check(t, r, before)
			r.Verify()
		})
	}
}

// TestOvertakenMerge: pages merged in a view do not replace other pages, or pages that no longer
// exist.
func TestOvertakenMerge(t *testing.T) {
	for name, overtake := range map[string]func(r *machinetest.Rig, s *ts.Store){
		"merged": func(r *machinetest.Rig, s *ts.Store) { r.Advance(0) },
		"removed": func(r *machinetest.Rig, s *ts.Store) {
			must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 3600 * 1e9}))
			r.Advance(minute)
		},
		"series deleted": func(r *machinetest.Rig, s *ts.Store) {
			must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "a"}))
			r.Advance(minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			s := storeOf(r, "n")
			for i := range int64(2) {
				write(t, s, point("a", i*second, 1), point("b", 0, float64(i)))
				r.Advance(6 * minute)
			}
			r.Pass(2 * day)
			cmd := proposed(t, r, 1)
			overtake(r, s)
			before := contents(r)
			if out := r.Entry(0, cmd)[0]; !errors.Is(out.Err, engine.ErrConflict) {
				t.Errorf("the merge is carried out: %v", out.Err)
			}
			check(t, r, before)
			r.Advance(hour)
			check(t, r, before)
			r.Verify()
		})
	}
}

// TestOvertakenCount: a partition's count computed from a view is not stored if points were sealed
// or removed meanwhile.
func TestOvertakenCount(t *testing.T) {
	for name, overtake := range map[string]func(r *machinetest.Rig, s *ts.Store){
		"sealed": func(r *machinetest.Rig, s *ts.Store) {
			write(t, s, point("c", 0, 1), point("c", second, 1))
			r.Advance(6 * minute)
		},
		"series deleted": func(r *machinetest.Rig, s *ts.Store) {
			must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "b"}))
			r.Advance(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			s := storeOf(r, "n")
			for range 2 { // the same points the second time
				write(t, s, point("a", 0, 1), point("b", 0, 1))
				r.Advance(6 * minute)
			}
			r.Pass(11 * minute)
			cmd := proposed(t, r, 1)
			overtake(r, s)
			before := must(s.Get(t.Context(), "cpu")).Points
			if out := r.Entry(0, cmd)[0]; !errors.Is(out.Err, engine.ErrConflict) {
				t.Errorf("the count is carried out: %v", out.Err)
			}
			counted(t, r, s, before)
			r.Advance(hour)
			want := map[string]int64{"sealed": 4, "series deleted": 1}[name]
			counted(t, r, s, want)
		})
	}
}
