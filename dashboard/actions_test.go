package dashboard

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

// seedActions writes, in the namespace shop, the action charge with a run that a worker has
// completed, one that has failed, and one that waits; and one without runs whose name is awkward in
// a path. Rows of the contract name the one that has failed {failed}.
func seedActions(t *testing.T, node *floe.Node) {
	t.Helper()
	ctx := t.Context()
	shop := node.Action("shop")
	for name, opts := range map[string][]action.RegisterOption{
		"charge": {action.Owner("billing"), action.Timeout(5 * time.Second), action.MaxAttempts(1)},
		"a/b é":  nil,
	} {
		if _, err := shop.Register(ctx, name, opts...); err != nil {
			t.Fatal(err)
		}
	}
	if err := shop.RegisterWorker(ctx, action.NewWorker{
		ID: "w/1", Machine: "m1", MaxConcurrent: 4, Actions: []string{"charge"}, Metadata: []byte(`{"zone":"a"}`),
	}); err != nil {
		t.Fatal(err)
	}
	for i, input := range []string{`{"order":1}`, `"<two>"`, `3`} {
		if _, err := shop.Invoke(ctx, "charge", []byte(input)); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			break
		}
		tasks, err := shop.Await(ctx, "w/1", []string{"charge"})
		if err != nil || len(tasks) != 1 {
			t.Fatalf("Await = %v, %v", tasks, err)
		}
		if i == 0 {
			err = shop.Complete(ctx, tasks[0].Run, "w/1", []byte("no JSON \xff"))
		} else {
			seededIDs["{failed}"] = string(tasks[0].Run)
			err = shop.Fail(ctx, tasks[0].Run, "w/1", "card refused")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

const (
	actionsRoute = "GET /api/v1/actions"
	actionRoute  = "GET /api/v1/actions/:name"
	runsRoute    = "GET /api/v1/actions/:name/runs"
	invokeRoute  = "POST /api/v1/actions/:name/invoke"
	retryRoute   = "POST /api/v1/actions/:name/runs/:id/retry"
	runNowRoute  = "POST /api/v1/actions/:name/runs/:id/run-now"
	workersRoute = "GET /api/v1/workers"
	workerRoute  = "GET /api/v1/workers/:id"
)

func actionOf(name, owner string, timeout, retries, workers int, latency shape, counts fields) fields {
	return fields{
		"name": is{name}, "namespace": is{"shop"}, "type": is{"user"}, "owner": is{owner}, "version": is{1}, "enabled": is{true},
		"timeout_ms":  is{timeout},
		"max_retries": is{retries}, "worker_count": is{workers}, "latency": latency, "runs": counts,
	}
}

func countsOf(total, pending, running, completed, failed int) fields {
	return fields{
		"total": is{total}, "pending": is{pending}, "running": is{running}, "completed": is{completed}, "failed": is{failed},
		"cancelled": is{0},
		"timed_out": is{0},
	}
}

// runOf is a run that a worker has ended.
func runOf(status string, input, output, failure shape) fields {
	return fields{
		"run_id": text, "status": is{status}, "attempt": is{1}, "input": input, "output": output, "error": failure, "source": is{"api"},
		"worker_id":  is{"w/1"},
		"created_at": integer, "started_at": integer, "completed_at": integer, "duration_ms": integer,
	}
}

// processOf is what a worker has done of one kind.
func processOf(name, kind string, runs, failures int, last shape) fields {
	return fields{"name": is{name}, "kind": is{kind}, "run_count": is{runs}, "fail_count": is{failures}, "last_run_at": last}
}

var (
	latencyOfOne = fields{"count": is{1}, "avg_ms": integer, "p99_ms": integer}
	noLatency    = fields{"count": is{0}, "avg_ms": is{0}, "p99_ms": is{0}}

	seededCharge  = actionOf("charge", "billing", 5000, 0, 1, latencyOfOne, countsOf(3, 1, 0, 1, 1))
	seededAwkward = actionOf("a/b é", "", 30_000, 3, 0, noLatency, countsOf(0, 0, 0, 0, 0))

	completedRun = runOf("completed", fields{"order": is{1}}, is{"no JSON \uFFFD"}, is{nil})
	failedRun    = runOf("failed", is{"<two>"}, is{nil}, is{"card refused"})
	waitingRun   = fields{
		"run_id": text, "status": is{"pending"}, "attempt": is{0}, "input": is{3}, "output": is{nil}, "error": is{nil}, "source": is{"api"},
		"worker_id":  is{nil},
		"created_at": integer, "started_at": is{nil}, "completed_at": is{nil}, "duration_ms": is{nil},
	}
	seededWorker = fields{ // D1: its runs are counted where they have ended
		"worker_id": is{"w/1"}, "status": is{"active"}, "worker_type": is{"action"}, "namespace": is{"shop"}, "machine_id": is{"m1"},
		"current_load":   is{0},
		"max_concurrent": is{4}, "tasks_completed": is{1}, "tasks_failed": is{1}, "last_seen": integer, "registered_at": integer,
		"metadata": fields{"zone": is{"a"}}, "processes": items{processOf("charge", "action", 2, 1, integer)},
	}
	runChangedOf       = fields{"ok": is{true}, "run_id": text, "namespace": is{"shop"}, "status": is{"pending"}}
	invocationOfCharge = fields{"ok": is{true}, "action": is{"charge"}, "namespace": is{"shop"}, "status": is{"pending"}, "run_id": text}
)

func with(f fields, more fields) fields {
	all := fields{}
	for _, from := range []fields{f, more} {
		for name, s := range from {
			all[name] = s
		}
	}
	return all
}

var actionContract = []contractRow{
	{actionsRoute, "/api/v1/actions?namespace=shop", "", 200, items{seededAwkward, seededCharge}},
	{actionsRoute, "/api/v1/actions?namespace=shop&limit=1", "", 200, items{seededAwkward}},
	{actionsRoute, "/api/v1/actions?namespace=shop&after=a/b%20%C3%A9&unknown=1", "", 200, items{seededCharge}},
	{actionsRoute, "/api/v1/actions", "", 200, items{}},
	{actionsRoute, "/api/v1/actions?namespace=nowhere", "", 200, items{}},
	{actionsRoute, "/api/v1/actions?limit=0", "", 400, failure},

	{actionRoute, "/api/v1/actions/charge?namespace=shop", "", 200,
		with(seededCharge, fields{"recent_runs": items{waitingRun, failedRun, completedRun}, "workers": items{seededWorker}})},
	{actionRoute, "/api/v1/actions/a%2Fb%20%C3%A9?namespace=shop", "", 200,
		with(seededAwkward, fields{"recent_runs": items{}, "workers": items{}})},
	{actionRoute, "/api/v1/actions/charge", "", 404, failure},
	{actionRoute, "/api/v1/actions/none?namespace=shop", "", 404, failure},

	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop", "", 200, items{waitingRun, failedRun, completedRun}},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&limit=2", "", 200, items{waitingRun, failedRun}},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&status=completed", "", 200, items{completedRun}},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&status=timed_out", "", 200, items{}},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&from=1&outcome=success", "", 200, items{completedRun}},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&from=1&to=2", "", 200, items{}},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&worker=nobody&code=none", "", 200, items{}},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&to=yesterday", "", 400, failure},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&status=done", "", 400, failure},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&limit=1001", "", 400, failure},
	{runsRoute, "/api/v1/actions/charge/runs?namespace=shop&after=what", "", 400, failure},
	{runsRoute, "/api/v1/actions/none/runs?namespace=shop", "", 404, failure},

	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop", `{"order":4}`, 200, invocationOfCharge},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop", ``, 200, invocationOfCharge},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&priority=0&delay_ms=60000&idempotency_key=k", `4`, 200, invocationOfCharge},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&idempotency_key=k", `4`, 200, invocationOfCharge},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&idempotency_key=k", `5`, 409, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&idempotency_key=", `4`, 400, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&prio=3", `4`, 400, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&priority=256", `4`, 400, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&delay_ms=-1", `4`, 400, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&timeout_ms=60000&max_retries=0&expire_ms=3600000&idempotency_key=k", `4`,
		200, invocationOfCharge},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&timeout_ms=0", `4`, 400, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&max_retries=1000001", `4`, 400, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop&expire_ms=-1", `4`, 400, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop", `{"order":`, 400, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=shop", "\"\xff\"", 400, failure},
	{invokeRoute, "/api/v1/actions/none/invoke?namespace=shop", `4`, 404, failure},
	{invokeRoute, "/api/v1/actions/charge/invoke?namespace=_system", `4`, 400, failure},

	{retryRoute, "/api/v1/actions/charge/runs/{failed}/retry?namespace=default", "", 404, failure},
	{retryRoute, "/api/v1/actions/charge/runs/{failed}/retry", "", 200, runChangedOf},
	{retryRoute, "/api/v1/actions/charge/runs/{failed}/retry?namespace=shop", "", 409, failure},
	{runNowRoute, "/api/v1/actions/charge/runs/{failed}/run-now", "", 200, runChangedOf},
	{runNowRoute, "/api/v1/actions/a%2Fb%20%C3%A9/runs/{failed}/run-now", "", 404, failure},
	{retryRoute, "/api/v1/actions/charge/runs/none/retry", "", 400, failure},
	{retryRoute, "/api/v1/actions/charge/runs/none/retry?namespace=shop", "", 400, failure},
	{runNowRoute, "/api/v1/actions/charge/runs/none/run-now?namespace=shop", "", 400, failure},
	{runNowRoute, "/api/v1/actions/charge/runs/none/run-now?namespace=shop&at=1", "", 400, failure},

	{workersRoute, "/api/v1/workers?namespace=shop", "", 200, items{seededWorker}},
	{workersRoute, "/api/v1/workers?namespace=shop&after=w/1", "", 200, items{}},
	{workersRoute, "/api/v1/workers", "", 200, items{}},
	{workerRoute, "/api/v1/workers/w%2F1?namespace=shop", "", 200, seededWorker},
	{workerRoute, "/api/v1/workers/w%2F1", "", 200, seededWorker},
	{workerRoute, "/api/v1/workers/w%2F1?namespace=default", "", 404, failure},
	{workerRoute, "/api/v1/workers/none?namespace=shop", "", 404, failure},
	{workerRoute, "/api/v1/workers/none", "", 404, failure},
}

// TestInvokeAgain: what an Idempotency-Key has made is told again, as far as it has come.
func TestInvokeAgain(t *testing.T) {
	node := openNode(t)
	seedActions(t, node)
	h := New(node, Options{})
	invoke := func(body string) answer {
		r := httptest.NewRequest("POST", "/api/v1/actions/charge/invoke?namespace=shop", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "order 7")
		return record(h, r)
	}
	read := func(got answer) (i invocation) {
		if err := json.Unmarshal(got.body, &i); err != nil || got.status != 200 {
			t.Fatalf("invoke = %v, %v", got, err)
		}
		return i
	}
	first := read(invoke("7"))
	if err := node.Action("shop").Cancel(t.Context(), action.RunID(first.RunID), ""); err != nil {
		t.Fatal(err)
	}
	if again := read(invoke("7")); again.RunID != first.RunID || again.Status != "cancelled" {
		t.Errorf("again: %+v, first: %+v", again, first)
	}
	if got := invoke("8"); got.status != 409 {
		t.Errorf("with another input: %v", got)
	}
}

// TestRunAgain: a run that has failed is retried, and one that waits for a time is begun, wherever
// they are; others are not.
func TestRunAgain(t *testing.T) {
	node := openNode(t)
	seedActions(t, node)
	base := serve(t, New(node, Options{})) + "/api/v1/actions/"
	delayed, err := node.Action("shop").Invoke(t.Context(), "a/b é", nil, action.Delay(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{"delayed": string(delayed.Run)}
	for _, r := range listed[actionRun](t, "runs", send(t, "GET "+base+"charge/runs?namespace=shop", "")) {
		ids[r.Status] = r.RunID
	}
	for _, c := range []struct {
		run, do, query string
		status         int
	}{
		{"failed", "run-now", "", 409},
		{"failed", "retry", "?namespace=default", 404},
		{"failed", "retry", "", 200},
		{"failed", "retry", "", 409}, // it waits
		{"completed", "retry", "", 409},
		{"pending", "retry", "?namespace=shop", 409},
		{"delayed", "run-now", "?namespace=shop", 200},
		{"delayed", "run-now", "", 200}, // it goes on to wait for a worker
	} {
		var want shape = failure
		if c.status == 200 {
			want = fields{"ok": is{true}, "run_id": is{ids[c.run]}, "namespace": is{"shop"}, "status": is{"pending"}}
		}
		of := "charge"
		if c.run == "delayed" {
			of = "a%2Fb%20%C3%A9"
		}
		got := send(t, "POST "+base+of+"/runs/"+ids[c.run]+"/"+c.do+c.query, "")
		for _, diff := range (contractRow{route: retryRoute, send: c.run + " " + c.do + c.query, status: c.status, want: want}).diffs(got) {
			t.Error(diff)
		}
	}
}

// TestRunsGoOn: a listing that was cut says where it continues, and has every run once.
func TestRunsGoOn(t *testing.T) {
	node := openNode(t)
	seedActions(t, node)
	base := serve(t, New(node, Options{})) + "/api/v1/actions/charge/runs"
	seen := make(map[string]bool)
	query := "?namespace=shop&limit=2"
	for range 3 {
		got := send(t, "GET "+base+query, "")
		for _, r := range listed[actionRun](t, "runs", got) {
			seen[r.RunID] = true
		}
		link := got.header.Get("Link")
		if link == "" {
			break
		}
		target, _, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if _, err := url.ParseQuery(strings.TrimPrefix(target, "?")); err != nil {
			t.Fatalf("Link %q: %v", link, err)
		}
		query = target
	}
	if len(seen) != 3 {
		t.Errorf("%d runs are listed, want 3", len(seen))
	}
	first := listed[actionRun](t, "runs", send(t, "GET "+base+"?namespace=shop&limit=1", ""))
	rest := listed[actionRun](t, "runs", send(t, "GET "+base+"?namespace=shop&after="+first[0].RunID, ""))
	if len(rest) != 2 || rest[0].RunID == first[0].RunID {
		t.Errorf("behind run %s: %+v", first[0].RunID, rest)
	}
}

// TestWorkerThatCounts: what a worker in another runtime says of itself is shown, and what it does
// not say is 0. Runs are not its to count: that is done where they end.
func TestWorkerThatCounts(t *testing.T) {
	node := openNode(t)
	seedActions(t, node)
	if err := node.Action("shop").Heartbeat(t.Context(), "w/1", 2, action.Process{Name: "charge", Kind: "action", Runs: 9, Failures: 9},
		action.Process{Name: "mails", Kind: "thread", Runs: 5, Failures: 2}); err != nil {
		t.Fatal(err)
	}
	got := send(t, "GET "+serve(t, New(node, Options{}))+"/api/v1/workers/w%2F1?namespace=shop", "")
	want := with(seededWorker, fields{
		"current_load": is{2}, "tasks_completed": is{4}, "tasks_failed": is{3},
		"processes": items{processOf("charge", "action", 2, 1, integer), processOf("mails", "thread", 5, 2, is{0})},
	})
	for _, diff := range (contractRow{route: workerRoute, send: "/api/v1/workers/w%2F1?namespace=shop", status: 200,
		want: want}).diffs(got) {
		t.Error(diff)
	}
}

// TestContractD1: a worker that calls Await, Complete and Fail, and never registers, is listed as
// one that is alive, with the runs that it has and those that have ended.
func TestContractD1(t *testing.T) {
	for _, spread := range []bool{false, true} {
		node, err := floe.Open(floe.Config{Shards: 3})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Close() })
		ctx, store, base := t.Context(), node.Action("shop"), serve(t, New(node, Options{}))
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		if spread {
			must(node.Namespaces().Create(ctx, "shop", floe.Spread()))
		}
		_, err = store.Register(ctx, "charge", action.MaxAttempts(1))
		must(err)
		take := func() action.RunID {
			t.Helper()
			_, err := store.Invoke(ctx, "charge", nil)
			must(err)
			tasks, err := store.Await(ctx, "script/1", []string{"charge"})
			if err != nil || len(tasks) != 1 {
				t.Fatalf("Await = %v, %v", tasks, err)
			}
			return tasks[0].Run
		}
		check := func(load, completed, failed int, last shape) {
			t.Helper()
			worker := fields{
				"worker_id": is{"script/1"}, "status": is{"active"}, "worker_type": is{"action"}, "namespace": is{"shop"},
				"machine_id": is{nil}, "current_load": is{load},
				"max_concurrent": is{0}, "tasks_completed": is{completed}, "tasks_failed": is{failed}, "last_seen": integer,
				"registered_at": integer,
				"metadata":      is{nil}, "processes": items{processOf("charge", "action", completed+failed, failed, last)},
			}
			for _, row := range []contractRow{
				{workersRoute, "/api/v1/workers?namespace=shop", "", 200, items{worker}},
				{workerRoute, "/api/v1/workers/script%2F1?namespace=shop", "", 200, worker},
				{workerRoute, "/api/v1/workers/script%2F1", "", 200, worker},
			} {
				for _, diff := range row.diffs(send(t, "GET "+base+row.send, "")) {
					t.Errorf("spread=%t: %s: %s", spread, row.send, diff)
				}
			}
		}
		run := take()
		check(1, 0, 0, is{0})
		must(store.Complete(ctx, run, "script/1", nil))
		check(0, 1, 0, integer)
		must(store.Fail(ctx, take(), "script/1", "card refused"))
		check(0, 1, 1, integer)
	}
}
