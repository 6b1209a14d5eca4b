package workflow_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/workflow"
)

// TestVersions: versions are listed, chosen by starts, and removed; runs of a removed version
// continue.
func TestVersions(t *testing.T) {
	for name, spread := range map[string]bool{"plain": false, "spread": true} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			r := newRig(t, 3)
			if err := engine.NewNamespaces(r.Router()).Create(ctx, "v", spread); err != nil {
				t.Fatal(err)
			}
			flows := flowsOf(r, "v")
			definition := func(version, output string) []byte {
				return fmt.Appendf(nil,
					"name: w\nversion: %q\nstart: { waitForSignal: { type: go }, transitions: { success: flo.Completed } }\noutput: { "+
						"is: %q }\n", version, output)
			}
			list := func(want string) {
				t.Helper()
				got := ""
				all, err := engine.Collect(flows.Versions("w").All(ctx, workflow.Limit(2)))
				for _, v := range all {
					got += v.Version
					if v.Default {
						got += "*"
					}
					if got += " "; v.CreatedAt.IsZero() {
						t.Errorf("version %q was made at no time", v.Version)
					}
				}
				if err != nil || got != want {
					t.Errorf("the versions are %q, want %q: %v", got, want, err)
				}
			}
			for _, v := range []string{"1", "2", "3"} {
				create(t, flows, definition(v, v))
			}
			list("3* 2 1 ")
			for _, version := range []string{"1", "1", "3", "2"} {
				if err := flows.Versions("w").SetDefault(ctx, version); err != nil {
					t.Fatal(err)
				}
				for range 6 { // in all shards
					started, err := flows.Start(ctx, "w", nil)
					if err != nil {
						t.Fatal(err)
					}
					if run, err := flows.Runs().Get(ctx, started.Run); err != nil || run.Version != version {
						t.Errorf("a start runs the version %q, want %q: %v", run.Version, version, err)
					}
					if _, err := flows.Cancel(ctx, started.Run, ""); err != nil {
						t.Fatal(err)
					}
				}
			}
			list("3 2* 1 ")
			for version, want := range map[string]error{"2": workflow.ErrConflict, "3": nil} {
				if err := flows.Versions("w").Delete(ctx, version); !errors.Is(err, want) {
					t.Errorf("RemoveVersion of %q beside the default version 2: %v, want %v", version, err, want)
				}
			}
			for version, want := range map[string]error{"3": workflow.ErrNotFound, "": workflow.ErrInvalid} {
				if err := flows.Versions("w").SetDefault(ctx, version); !errors.Is(err, want) {
					t.Errorf("SetDefault of %q: %v, want %v", version, err, want)
				}
			}
			if err := flows.Versions("x").SetDefault(ctx, "1"); !errors.Is(err, workflow.ErrNotFound) {
				t.Errorf("SetDefault of no workflow: %v", err)
			}
			create(t, flows, definition("3", "3"))
			list("3* 2 1 ")
			old, err := flows.Start(ctx, "w", nil, workflow.Version("1"))
			if err != nil {
				t.Fatal(err)
			}
			if err := flows.Versions("w").Delete(ctx, "1"); err != nil {
				t.Fatal(err)
			}
			for range 6 {
				if _, err := flows.Start(ctx, "w", nil, workflow.Version("1")); !errors.Is(err, workflow.ErrNotFound) {
					t.Errorf("a start of a version that was removed: %v", err)
				}
			}
			if _, err := flows.Versions("w").Get(ctx, "1"); !errors.Is(err, workflow.ErrNotFound) {
				t.Errorf("the definition of a version that was removed: %v", err)
			}
			list("3* 2 ")
			for version, want := range map[string]error{"3": workflow.ErrConflict, "1": workflow.ErrNotFound, "": workflow.ErrInvalid} {
				if err := flows.Versions("w").Delete(ctx, version); !errors.Is(err, want) {
					t.Errorf("RemoveVersion of %q: %v, want %v", version, err, want)
				}
			}
			if _, err := flows.Create(ctx, definition("3", "another")); !errors.Is(err, workflow.ErrConflict) &&
				!errors.Is(err, workflow.ErrExists) {
				t.Errorf("Create of a version that is known with another definition: %v", err)
			}
			list("3* 2 ")
			if _, err := flows.Versions("x").Page(ctx); !errors.Is(err, workflow.ErrNotFound) {
				t.Errorf("Versions of no workflow: %v", err)
			}
			create(t, flows, definition("1", "another"))
			list("1* 3 2 ")
			if _, err := flows.Signal(ctx, old.Run, "go", nil); err != nil {
				t.Fatal(err)
			}
			if run, err := flows.Runs().Get(ctx, old.Run); err != nil || run.Version != "1" || string(run.Output) != `{"is":"1"}` {
				t.Errorf("the run of a version that was removed is of %q and came to %s, %v", run.Version, run.Output, err)
			}
			r.Verify()
			if err := flows.Delete(ctx, "w"); err != nil {
				t.Fatal(err)
			}
			r.Verify()
		})
	}
}

// TestDefaultVersion: the default version determines the schedule, trigger and retention of the
// workflow.
func TestDefaultVersion(t *testing.T) {
	for name, spread := range map[string]bool{"plain": false, "spread": true} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			r := newRig(t, 3)
			if err := engine.NewNamespaces(r.Router()).Create(ctx, "v", spread); err != nil {
				t.Fatal(err)
			}
			flows := flowsOf(r, "v")
			const rest = "\nstart: { sleep: { ms: 1000 }, transitions: { success: flo.Completed } }\n"
			create(t, flows, []byte("name: w\nversion: \"1\"\nschedule: { cron: \"0 6 * * *\" }"+rest))
			create(t, flows, []byte("name: w\nversion: \"2\"\ntrigger: { stream: s }"+rest))
			for _, version := range []string{"2", "1", "2", "1"} {
				if err := flows.Versions("w").SetDefault(ctx, version); err != nil {
					t.Fatal(err)
				}
				info, err := flows.Get(ctx, "w")
				if err != nil || info.Version != version || (info.Schedule != nil) != (version == "1") ||
					(info.Trigger != nil) != (version == "2") {
					t.Errorf("version %s: %+v, %v", version, info, err)
				}
				r.Verify()
			}
		})
	}
}

// TestRemovedVersionsDoNotCount: only versions of a workflow that can be started count, also for
// the limit.
func TestRemovedVersionsDoNotCount(t *testing.T) {
	for name, spread := range map[string]bool{"plain": false, "spread": true} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			r := machinetest.New(t, 3, engine.TableOf[action.Store](), workflow.TableOfVersions(3))
			if err := engine.NewNamespaces(r.Router()).Create(ctx, "v", spread); err != nil {
				t.Fatal(err)
			}
			flows := flowsOf(r, "v")
			add := func(version string, want int, wantErr error) {
				t.Helper()
				c, err := flows.Create(ctx, fmt.Appendf(nil,
					"name: w\nversion: %q\nstart: { sleep: 0, transitions: { success: flo.Completed } }\n", version))
				if !errors.Is(err, wantErr) || c.Versions != want {
					t.Errorf("version %s: %d versions, %v, want %d, %v", version, c.Versions, err, want, wantErr)
				}
			}
			remove := func(version string) {
				t.Helper()
				if err := flows.Versions("w").Delete(ctx, version); err != nil {
					t.Error(err)
				}
			}
			add("1", 1, nil)
			add("2", 2, nil)
			add("3", 3, nil)
			add("4", 0, workflow.ErrInvalid)
			add("3", 3, nil)
			for i := 4; i < 20; i++ {
				remove(fmt.Sprint(i - 2))
				add(fmt.Sprint(i-1), 2, nil)
				add(fmt.Sprint(i), 3, nil)
			}
			remove("1")
			add("1", 3, nil)
			add("2", 0, workflow.ErrInvalid)
			if all, err := engine.Collect(flows.Versions("w").All(ctx, workflow.Limit(2))); err != nil || len(all) != 3 {
				t.Errorf("%d versions are listed, %v", len(all), err)
			}
			for range 6 {
				if _, err := flows.Start(ctx, "w", nil, workflow.Version("1")); err != nil {
					t.Errorf("a start of a version that was removed and made again: %v", err)
				}
			}
			r.Verify()
			if err := flows.Delete(ctx, "w", workflow.Force()); err != nil {
				t.Fatal(err)
			}
			add("1", 1, nil)
			r.Verify()
		})
	}
}
