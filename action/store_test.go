package action_test

import (
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

// TestStore registers, invokes, lists and cancels, in a plain namespace and in a spread one.
func TestStore(t *testing.T) {
	for _, spread := range []bool{false, true} {
		node := floe.OpenMemory(t)
		ctx := t.Context()
		if spread {
			if err := node.Namespaces().Create(ctx, "n", floe.Spread()); err != nil {
				t.Fatal(err)
			}
		}
		s := node.Action("n")
		if v, err := s.Register(ctx, "mail", action.Owner("ops"), action.MaxAttempts(2)); v != 1 || err != nil {
			t.Fatalf("Register = %d, %v", v, err)
		}
		var ids []action.RunID
		for range 10 {
			i, err := s.Invoke(ctx, "mail", []byte(`{"to":"ada"}`))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, i.Run)
		}
		seen := make(map[action.RunID]bool)
		for run, err := range s.Runs().All(ctx, action.Of("mail"), action.Limit(3)) {
			if err != nil || seen[run.ID] || run.Status != action.Pending || string(run.Input) != `{"to":"ada"}` || run.Source != "api" {
				t.Fatalf("run %+v, %v", run, err)
			}
			seen[run.ID] = true
		}
		if len(seen) != len(ids) {
			t.Errorf("%d runs are listed, want %d", len(seen), len(ids))
		}
		if err := s.Cancel(ctx, ids[3], "enough"); err != nil {
			t.Fatal(err)
		}
		if err := s.Cancel(ctx, ids[3], ""); !errors.Is(err, action.ErrConflict) {
			t.Errorf("Cancel of an ended run: %v", err)
		}
		run, err := s.Wait(ctx, ids[3])
		if err != nil || run.Status != action.Cancelled || run.Error != "enough" || run.Outcome != action.OutcomeCancelled {
			t.Errorf("cancelled run: %+v, %v", run, err)
		}
		info, err := s.Get(ctx, "mail")
		if want := (action.RunCounts{Total: 10, Pending: 9, Cancelled: 1}); err != nil || info.Runs != want || info.Owner != "ops" ||
			!info.Enabled {
			t.Errorf("Action = %+v, %v", info, err)
		}
		if err := s.Delete(ctx, "mail"); !errors.Is(err, action.ErrConflict) {
			t.Errorf("Delete with runs: %v", err)
		}
		if err := s.Delete(ctx, "mail", action.Force()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Invoke(ctx, "mail", nil); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("Invoke of a deleted action: %v", err)
		}
	}
}

// TestRateLimits: rates that cannot be computed with are refused, and those at the limit are
// accepted.
func TestRateLimits(t *testing.T) {
	s := floe.OpenMemory(t).Action("n")
	for _, row := range []struct {
		rate action.Rate
		want error
	}{
		{action.Rate{Limit: 1, Per: time.Hour}, nil},
		{action.Rate{Limit: 1_000_000, Per: time.Second, Burst: 1_000_000}, nil},
		{action.Rate{Limit: 1, Per: 366 * 24 * time.Hour, Burst: 36_000}, nil},
		{action.Rate{Limit: 1, Per: 366 * 24 * time.Hour, Burst: 1_000_000}, action.ErrInvalid},
		{action.Rate{Limit: 1, Per: 367 * 24 * time.Hour}, action.ErrInvalid},
		{action.Rate{Limit: 1_000_001, Per: time.Second}, action.ErrInvalid},
		{action.Rate{Limit: 1}, action.ErrInvalid},
		{action.Rate{Burst: 2}, action.ErrInvalid},
	} {
		if _, err := s.Register(t.Context(), "a", action.RateLimit(row.rate)); !errors.Is(err, row.want) {
			t.Errorf("%+v: %v, want %v", row.rate, err, row.want)
		}
	}
}
