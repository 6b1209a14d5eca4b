package action

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

func TestScheduleList(t *testing.T) {
	for _, shards := range []int{1, 3} {
		r := machinetest.New(t, shards, engine.TableOf[Store]())
		if _, err := r.Propose(t.Context(), engine.HomeShard("n", shards), engine.CreateNamespace("n", true)); err != nil {
			t.Fatal(err)
		}
		a := newActions(t, r, "n")
		s := a.store
		var want []string
		for _, action := range []string{"a", "a/b", "b", "c%2F", "d"} {
			a.register(action)
			for i := range 3 {
				name := fmt.Sprintf("s%d/ü", i)
				want = append(want, action+" "+name)
				if err := s.Schedules(action).Set(t.Context(), name, ScheduleSpec{Cron: "@daily"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, limit := range []int{1, 2, 4, 100} {
			if got := listed(t, s.Schedules(""), Limit(limit)); !slices.Equal(got, want) {
				t.Errorf("%d shards, pages of %d: %q, want %q", shards, limit, got, want)
			}
		}
		if got := listed(t, s.Schedules("a/b"), Limit(2)); !slices.Equal(got, want[3:6]) {
			t.Errorf("of one action: %q", got)
		}
		for _, cursor := range []string{"a", "/", "a/", "%/x", "b/s0"} {
			if _, err := s.Schedules("a").Page(t.Context(), Cursor(cursor)); !errors.Is(err, ErrInvalid) {
				t.Errorf("cursor %q: %v", cursor, err)
			}
		}
	}
}

func listed(t *testing.T, s Schedules, opts ...PageOption) (names []string) {
	t.Helper()
	for schedule, err := range s.All(t.Context(), opts...) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, schedule.Action+" "+schedule.Name)
	}
	return names
}
