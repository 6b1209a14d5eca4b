package workflow_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/workflow"
)

// TestRunFilters: runs are listed by workflow, even a deleted one, by state, attribute and time, or
// any combination. The newest come first, on pages of any size.
func TestRunFilters(t *testing.T) {
	for name, spread := range map[string]bool{"plain": false, "spread": true} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			r := newRig(t, 3)
			if err := engine.NewNamespaces(r.Router()).Create(ctx, "n", spread); err != nil {
				t.Fatal(err)
			}
			flows := flowsOf(r, "n")
			makeKnown := func(name string) {
				create(t, flows, fmt.Appendf(nil, `
name: %s
searchAttributes: [{ name: who, from: $.input.who }, { name: size, type: number, from: $.input.size }, { name: at, type: timestamp, from: $.input.at }]
start: { waitForSignal: { type: go }, transitions: { success: flo.Completed } }
`, name))
			}
			makeKnown("v")
			makeKnown("w")
			type started struct {
				id       workflow.RunID
				at       time.Time
				workflow string
				size     int
				who      string
				ended    bool
			}
			var all []started
			for i := range 24 {
				if i == 7 || i == 14 { // its runs stay
					if err := flows.Delete(ctx, "w", workflow.Force()); err != nil {
						t.Fatal(err)
					}
					makeKnown("w")
				}
				one := started{at: time.UnixMilli(r.Now()), workflow: []string{"v", "w"}[i%2], size: i % 3,
					who: []string{"7", "ann", "2026-01-01T00:00:00Z"}[i/2%3], ended: i%4 == 3}
				s, err := flows.Start(ctx, one.workflow,
					fmt.Appendf(nil, `{"who":%q,"size":%d,"at":"2026-01-0%dT00:00:00+01:00"}`, one.who, one.size, 1+one.size))
				if err != nil {
					t.Fatal(err)
				}
				if one.id = s.Run; one.ended {
					if _, err := flows.Signal(ctx, s.Run, "go", nil); err != nil {
						t.Fatal(err)
					}
				}
				all = append(all, one)
				r.Pass(1000)
			}
			type filter struct {
				name string
				opt  workflow.RunOption
				is   func(s *started) bool
			}
			none := filter{"", nil, func(*started) bool { return true }}
			from, to := all[5].at, all[19].at
			for _, of := range []filter{none, {"of w", workflow.Of("w"), func(s *started) bool { return s.workflow == "w" }}} {
				for _, state := range []filter{
					none,
					{"completed", workflow.InState(workflow.Completed), func(s *started) bool { return s.ended }},
					{"waiting", workflow.InState(workflow.Waiting), func(s *started) bool { return !s.ended }},
					{"active", workflow.Active(), func(s *started) bool { return !s.ended }},
				} {
					for _, attribute := range []filter{
						none,
						{"who ann", workflow.Has("who", workflow.AttributeValue("ann")), func(s *started) bool { return s.who == "ann" }},
						{`who "ann"`, workflow.Has("who", workflow.AttributeValue(`"ann"`)),
							func(s *started) bool { return s.who == "ann" }},
						{`who "7"`, workflow.Has("who", workflow.AttributeValue(`"7"`)), func(s *started) bool { return s.who == "7" }},
						{"who 7", workflow.Has("who", workflow.AttributeValue("7")), func(s *started) bool { return false }},
						{`who "2026"`, workflow.Has("who", workflow.AttributeValue(`"2026-01-01T00:00:00Z"`)),
							func(s *started) bool { return s.who[0] == '2' }},
						{"size 1", workflow.Has("size", workflow.AttributeValue("1.0")), func(s *started) bool { return s.size == 1 }},
						{"size 2", workflow.Has("size", 2), func(s *started) bool { return s.size == 2 }},
						{"at", workflow.Has("at", workflow.AttributeValue("2026-01-01T23:00:00Z")),
							func(s *started) bool { return s.size == 1 }},
						{"other", workflow.Has("other", 1), func(s *started) bool { return false }},
					} {
						for _, between := range []filter{
							none,
							{"from", workflow.StartedBetween(from, time.Time{}), func(s *started) bool { return !s.at.Before(from) }},
							{"to", workflow.StartedBetween(time.Time{}, to), func(s *started) bool { return s.at.Before(to) }},
							{"from to", workflow.StartedBetween(from, to),
								func(s *started) bool { return !s.at.Before(from) && s.at.Before(to) }},
							{"within", workflow.StartedBetween(from.Add(1), to.Add(1)),
								func(s *started) bool { return !s.at.Before(from) && !s.at.After(to) }},
							{"1970", workflow.StartedBetween(time.Time{}, time.UnixMilli(0)), func(s *started) bool { return false }},
							{"from 1970", workflow.StartedBetween(time.UnixMilli(0), time.Unix(1<<60, 0)),
								func(s *started) bool { return true }},
							{"never", workflow.StartedBetween(time.Unix(1<<60, 0), time.Time{}), func(s *started) bool { return false }},
						} {
							opts := []workflow.RunOption{workflow.Limit(1 + len(attribute.name)%4)}
							var want []workflow.RunID
							for _, f := range []filter{of, state, attribute, between} {
								if f.opt != nil {
									opts = append(opts, f.opt)
								}
							}
							for i := range all {
								if s := &all[i]; of.is(s) && state.is(s) && attribute.is(s) && between.is(s) {
									want = append(want, s.id)
								}
							}
							slices.Reverse(want)
							var got []workflow.RunID
							for run, err := range flows.Runs().All(ctx, opts...) {
								if err != nil {
									t.Fatal(err)
								}
								got = append(got, run.ID)
							}
							if !slices.Equal(got, want) {
								t.Errorf("runs %q %q %q %q: %v, want %v", of.name, state.name, attribute.name, between.name, got, want)
							}
						}
					}
				}
			}
		})
	}
}

// TestRunsWithAll: a listing returns the runs with all requested attributes, given in any order, on
// pages of any size.
func TestRunsWithAll(t *testing.T) {
	for name, spread := range map[string]bool{"plain": false, "spread": true} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			r := newRig(t, 3)
			if err := engine.NewNamespaces(r.Router()).Create(ctx, "n", spread); err != nil {
				t.Fatal(err)
			}
			flows := flowsOf(r, "n")
			create(t, flows, []byte(`
name: w
searchAttributes: [{ name: who, from: $.input.who }, { name: size, type: number, from: $.input.size }]
start: { waitForSignal: { type: go }, transitions: { success: flo.Completed } }
`))
			for i := range 30 {
				if _, err := flows.Start(ctx, "w", fmt.Appendf(nil, `{"who":"%c","size":%d}`, "ab"[i%2], i%3)); err != nil {
					t.Fatal(err)
				}
			}
			a, b, one := workflow.Has("who", "a"), workflow.Has("who", "b"), workflow.Has("size", 1)
			for _, c := range []struct {
				opts []workflow.RunOption
				want int
			}{
				{[]workflow.RunOption{a}, 15}, {[]workflow.RunOption{one}, 10}, {[]workflow.RunOption{a, one},
					5}, {[]workflow.RunOption{one, a}, 5},
				{[]workflow.RunOption{one, b, one}, 5}, {[]workflow.RunOption{a, b},
					0}, {[]workflow.RunOption{a, one, workflow.Has("other", 1)}, 0},
			} {
				n := 0
				for run, err := range flows.Runs().All(ctx, append(c.opts, workflow.Limit(2))...) {
					if n++; err != nil || c.want == 5 && run.Attributes["size"] != 1.0 {
						t.Fatalf("%v, %v", run.Attributes, err)
					}
				}
				if n != c.want {
					t.Errorf("%d runs, want %d", n, c.want)
				}
			}
			many := make([]workflow.RunOption, 33)
			for i := range many {
				many[i] = one
			}
			if _, err := flows.Runs().Page(ctx, many[1:]...); err != nil {
				t.Errorf("with 32 attributes: %v", err)
			}
			if _, err := flows.Runs().Page(ctx, many...); !errors.Is(err, workflow.ErrInvalid) {
				t.Errorf("with 33 attributes: %v", err)
			}
		})
	}
}
