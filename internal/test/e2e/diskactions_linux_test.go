package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/workflow"
)

// TestActionsOnAFullDisk: runs cannot be invoked, taken or renewed, and new calls do not wait in
// vain. Active runs with small outputs complete, or can be cancelled, so that finished work is not
// retried. Larger outputs wait until there is space.
func TestActionsOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := newTmpfs(t, diskBytes)
	node, err := floe.Open(floe.Config{DataDir: filepath.Join(disk.root, "data"), Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	ctx, store := t.Context(), node.Action("default")
	for _, name := range []string{"by hand", "by worker"} {
		ok[int](t)(store.Register(ctx, name, action.Timeout(time.Hour)))
	}
	ok[workflow.Created](t)(node.Workflow("default").Create(ctx,
		[]byte("name: w\nstart: { run: \"@actions/by hand\", transitions: { success: next } }\n"+
			"steps: { next: { run: \"@actions/by hand\", transitions: { success: flo.Completed } } }\n")))
	invoke := func(name string) action.RunID { return ok[action.Invoked](t)(store.Invoke(ctx, name, nil)).Run }

	// A handler that returns while the disk is full, and a run that a worker has taken explicitly.
	begun, full := make(chan struct{}), make(chan struct{})
	worker := store.Worker(action.WorkerConfig{Concurrency: 1}).Handle("by worker", func(context.Context, *action.Task) (any, error) {
		close(begun)
		<-full
		return 1, nil
	})
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()
	handled := invoke("by worker")
	<-begun
	small, large, failed, dropped := invoke("by hand"), invoke("by hand"), invoke("by hand"), invoke("by hand")
	flow := ok[workflow.Started](t)(node.Workflow("default").Start(ctx, "w", nil)).Run
	got := ok[[]action.Task](t)(store.Await(ctx, "me", []string{"by hand"}, action.Max(5)))
	if len(got) != 5 {
		t.Fatalf("%d runs, want 5", len(got))
	}
	step := got[4].Run

	release := disk.hold(1 << 20)
	await(t, "a full disk", func() bool { return ok[floe.Stats](t)(node.Stats(ctx)).Disk.ReadOnly })
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, floe.ErrReadOnly) {
			t.Errorf("%s on a full disk: %v, want ErrReadOnly", what, err)
		}
	}
	_, err = store.Invoke(ctx, "by hand", nil)
	refused("Invoke", err)
	_, err = store.Await(ctx, "me", []string{"by hand"}, action.Wait(time.Hour))
	refused("Await", err)
	_, err = store.Extend(ctx, small, "me", time.Hour)
	refused("Extend", err)
	_, err = node.Workflow("default").Start(ctx, "w", nil)
	refused("a start", err)
	refused("a large output", store.Complete(ctx, large, "me", []byte(`"`+strings.Repeat("x", 10_000)+`"`)))
	h := dashboard.New(node, dashboard.Options{})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "http://127.0.0.1/api/v1/actions/by%20hand/invoke", bytes.NewReader([]byte(`{}`))))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("POST on a full disk = %d %s, Retry-After %q; want 503 and when", w.Code, w.Body, w.Header().Get("Retry-After"))
	}
	for what, err := range map[string]error{
		"Complete": store.Complete(ctx, small, "me", []byte(`1`)), "Fail": store.Fail(ctx, failed, "me", "no"), "Cancel": store.Cancel(ctx,
			dropped, "enough"),
		"Complete of a step": store.Complete(ctx, step, "me", nil),
	} {
		if err != nil {
			t.Errorf("%s on a full disk: %v", what, err)
		}
	}
	close(full)
	status := func(id action.RunID, want action.Status, attempts int) {
		t.Helper()
		if run, err := store.Runs().Get(ctx, id); err != nil || run.Status != want || run.Attempt != attempts {
			t.Errorf("the run is %+v, %v, want it %s after %d attempts", run, err, want, attempts)
		}
	}
	if run, err := store.Wait(ctx, handled); err != nil || run.Status != action.Completed || string(run.Output) != "1" {
		t.Errorf("what a worker has carried out is %+v, %v", run, err)
	}
	status(small, action.Completed, 1)
	status(failed, action.Failed, 1)
	status(dropped, action.Cancelled, 1)
	status(large, action.Running, 1)

	release()
	disk.giveBack()
	await(t, "space", func() bool { return !ok[floe.Stats](t)(node.Stats(ctx)).Disk.ReadOnly })
	if err := store.Complete(ctx, large, "me", []byte(`"`+strings.Repeat("x", 10_000)+`"`)); err != nil {
		t.Errorf("a large output when there is space: %v", err)
	}
	status(large, action.Completed, 1)
	next := ok[[]action.Task](t)(store.Await(ctx, "me", []string{"by hand"}, action.Max(5)))
	if len(next) != 1 {
		t.Fatalf("%d runs when there is space, want the second step", len(next))
	}
	if err := store.Complete(ctx, next[0].Run, "me", nil); err != nil {
		t.Error(err)
	}
	if run, err := node.Workflow("default").Wait(ctx, flow); err != nil || run.Status != workflow.Completed {
		t.Errorf("the workflow is %+v, %v", run, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(fmt.Errorf("the worker: %w", err))
	}
}
