package dashboard

import (
	"net/http"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
)

// wantRun checks the next event of a run, and returns its id.
func (s *subscription) wantRun(status string) string {
	s.t.Helper()
	if e := s.next(); e["status"] != status || s.last == "" {
		s.t.Errorf("event %v with the id %q, want the status %s", e, s.last, status)
	}
	return s.last
}

// wantEnd checks that no event follows.
func (s *subscription) wantEnd() {
	s.t.Helper()
	for s.lines.Scan() {
		if text := s.lines.Text(); strings.Contains(text, "data") {
			s.t.Errorf("%q follows the last event", text)
		}
	}
}

// wantOver checks that a resumed response has nothing, and says so by its status.
func wantOver(t *testing.T, url, id string) {
	t.Helper()
	s := subscribe(t, url, "Last-Event-ID", id)
	if s.wantEnd(); s.status != http.StatusNoContent {
		t.Errorf("%s after %s: status %d, want 204", url, id, s.status)
	}
}

// TestActionRunEvents: the events of a run are its present state and its end, after which a client
// that resumes gets nothing until the run is retried.
func TestActionRunEvents(t *testing.T) {
	node := openNode(t)
	store, ctx := node.Action("default"), t.Context()
	id := startRuns(t, node)
	h := New(node, Options{MaxConcurrent: 1})
	url := serve(t, h) + "/api/v1/actions/job/runs/" + id
	s := subscribe(t, url)
	pending := s.wantRun("pending")
	h.(*handler).awaitWaiters(t, 1)
	again := subscribe(t, url, "Last-Event-ID", pending)
	h.(*handler).awaitWaiters(t, 2)
	tasks, err := store.Await(ctx, "w", []string{"job"})
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%v, %v", tasks, err)
	}
	running := subscribe(t, url, "Last-Event-ID", pending)
	running.wantRun("running")
	if err := store.Fail(ctx, tasks[0].Run, "w", "no"); err != nil {
		t.Fatal(err)
	}
	failed := s.wantRun("failed")
	for _, s := range []*subscription{again, running} {
		if got := s.wantRun("failed"); got != failed {
			t.Errorf("the id of the end is %s, and %s for another client", got, failed)
		}
		s.wantEnd()
	}
	s.wantEnd()
	h.(*handler).awaitWaiters(t, 0)
	wantOver(t, url, failed)
	wantOver(t, url+"?after="+failed, "")
	ended := subscribe(t, url)
	ended.wantRun("failed")
	ended.wantEnd()
	if err := store.Retry(ctx, action.RunID(id)); err != nil {
		t.Fatal(err)
	}
	leaves := subscribe(t, url, "Last-Event-ID", failed)
	leaves.wantRun("pending")
	h.(*handler).awaitWaiters(t, 1)
	leaves.leave()
	h.(*handler).awaitWaiters(t, 0)

	for _, bad := range []string{"x", "1", "-pending", "1-done", "1-pending-1", "-1-pending"} {
		if s := subscribe(t, url, "Last-Event-ID", bad); s.status != 400 {
			t.Errorf("Last-Event-ID %s: status %d, want 400", bad, s.status)
		}
	}
	if s := subscribe(t, strings.Replace(url, "/job/", "/step/", 1)); s.status != 404 {
		t.Errorf("a run of another action: status %d, want 404", s.status)
	}
}

// TestFlowRunEvents: as TestActionRunEvents, for a run of a workflow.
func TestFlowRunEvents(t *testing.T) {
	node := openNode(t)
	flows, ctx := node.Workflow("default"), t.Context()
	if _, err := flows.Create(ctx, []byte(orderFlow)); err != nil {
		t.Fatal(err)
	}
	if _, err := flows.Start(ctx, "order", nil, workflow.UseID("r/1")); err != nil {
		t.Fatal(err)
	}
	server := serve(t, New(node, Options{}))
	url := server + "/api/v1/workflow/runs/r%2F1"
	s := subscribe(t, url)
	waiting := s.wantRun("waiting")
	again := subscribe(t, server+"/api/v1/workflows/r%2F1", "Last-Event-ID", waiting)
	if _, err := flows.Signal(ctx, "r/1", "approval", []byte(`{"outcome":"rejected"}`)); err != nil {
		t.Fatal(err)
	}
	failed := s.wantRun("failed")
	s.wantEnd()
	if e := again.next(); e["status"] != "failed" || e["run_id"] != "r/1" || e["step_results"] == nil {
		t.Errorf("event %v, want the failed run with its steps", e)
	}
	again.wantEnd()
	wantOver(t, url, failed)
	if _, err := flows.Retry(ctx, "r/1"); err != nil {
		t.Fatal(err)
	}
	retried := subscribe(t, url, "Last-Event-ID", failed)
	retried.wantRun("waiting")
	if _, err := flows.Signal(ctx, "r/1", "approval", nil); err != nil {
		t.Fatal(err)
	}
	wantOver(t, url, retried.wantRun("completed"))
	for _, bad := range []string{"x", "-1", "1.5", "9223372036854775808"} {
		if s := subscribe(t, url, "Last-Event-ID", bad); s.status != 400 {
			t.Errorf("Last-Event-ID %s: status %d, want 400", bad, s.status)
		}
	}
	if s := subscribe(t, server+"/api/v1/workflow/runs/none"); s.status != 404 {
		t.Errorf("an unknown run: status %d, want 404", s.status)
	}
}

// TestRunEventsEnd: the events of a run end with an error when the key is revoked, and when the
// action and with it the run is deleted.
func TestRunEventsEnd(t *testing.T) {
	node := openNode(t)
	id := startRuns(t, node)
	bootstrap(t, node)
	h := New(node, Options{})
	server := serve(t, h)
	keyID, key := newKey(t, node, floe.RoleRead)
	token := "Bearer " + login(t, h, key)
	var open []*subscription
	for path, status := range map[string]string{"actions/job/runs/" + id: "pending", "workflow/runs/flow-run": "running"} {
		s := subscribe(t, server+"/api/v1/"+path, "Authorization", token)
		s.wantRun(status)
		open = append(open, s)
	}
	_, other := newKey(t, node, floe.RoleRead)
	gone := subscribe(t, server+"/api/v1/actions/job/runs/"+id, "Authorization", "Bearer "+login(t, h, other))
	gone.wantRun("pending")
	h.(*handler).awaitWaiters(t, 3)
	if err := node.Keys().Revoke(t.Context(), keyID); err != nil {
		t.Fatal(err)
	}
	for _, s := range open {
		if e := s.next(); !strings.Contains(e["error"].(string), "revoked") {
			t.Errorf("the key was revoked: %v", e)
		}
		s.wantEnd()
	}
	h.(*handler).awaitWaiters(t, 1)
	if err := node.Action("default").Delete(t.Context(), "job", action.Force()); err != nil {
		t.Fatal(err)
	}
	if e := gone.next(); !strings.Contains(e["error"].(string), "not found") {
		t.Errorf("the run was deleted: %v", e)
	}
	gone.wantEnd()
	h.(*handler).awaitWaiters(t, 0)
}
