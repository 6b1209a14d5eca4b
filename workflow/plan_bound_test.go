package workflow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/workflow"
)

// cachedOf requests the given number of keys, one a second, from a plan with the given cache
// limits, and returns the cached keys. An output has outputBytes.
func cachedOf(t *testing.T, keys, outputBytes int, maxCached, maxBytes int64) (hits []int) {
	t.Helper()
	ctx := context.Background()
	r := machinetest.New(t, 1, engine.TableOf[action.Store](), workflow.TableOf(maxCached, maxBytes))
	flows, actions := flowsOf(r, "n"), actionsOf(r, "n")
	if _, err := actions.Register(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := flows.Create(ctx, []byte(`
name: w
start: { run: "@plan/p", transitions: { success: flo.Completed } }
plans: { p: { executors: [{ name: one, run: "@actions/a" }], cache: { ttl_ms: 3600000, key: "{input}" } } }
`)); err != nil {
		t.Fatal(err)
	}
	output := []byte(`"` + strings.Repeat("x", outputBytes-2) + `"`)
	ask := func(key int) (hit bool) {
		t.Helper()
		if _, err := flows.Start(ctx, "w", fmt.Append(nil, key)); err != nil {
			t.Fatal(err)
		}
		tasks, err := actions.Await(ctx, "w", []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range tasks {
			if err := actions.Complete(ctx, tasks[i].Run, "w", output); err != nil {
				t.Fatal(err)
			}
		}
		return len(tasks) == 0
	}
	for i := range keys {
		if ask(100 + i) {
			t.Fatalf("the output of key %d is cached before it is there", 100+i)
		}
		r.Pass(1000)
		r.Verify()
	}
	for i := keys - 1; i >= 0; i-- { // youngest first: a missing key is cached again and evicts another one
		if ask(100 + i) {
			hits = append(hits, 100+i)
		}
	}
	return hits
}

// TestCacheIsBounded: outputs beyond the cache's limit are evicted in order of expiry, and no more
// than necessary; an output that is too large on its own is not cached.
func TestCacheIsBounded(t *testing.T) {
	for _, c := range []struct {
		what                string
		bytes               int
		maxCached, maxBytes int64
		want                []int
	}{
		{"room for all", 100, 10, 1030, []int{109, 108, 107, 106, 105, 104, 103, 102, 101, 100}},
		{"one too many", 100, 9, 10_000, []int{109, 108, 107, 106, 105, 104, 103, 102, 101}},
		{"a byte too many", 100, 100, 1029, []int{109, 108, 107, 106, 105, 104, 103, 102, 101}},
		{"as many as one and a half", 100, 100, 150, []int{109}},
		{"too large", 100, 100, 102, nil},
	} {
		if hits := cachedOf(t, 10, c.bytes, c.maxCached, c.maxBytes); !slices.Equal(hits, c.want) {
			t.Errorf("%s: cached are %v, want %v", c.what, hits, c.want)
		}
	}
}
