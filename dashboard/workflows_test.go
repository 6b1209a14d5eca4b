package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/workflow"
)

const orderFlow = `name: order
version: "1"
start:
  waitForSignal: { type: approval, timeoutMs: 3600000, onTimeout: Rejected }
  transitions: { success: flo.Completed, rejected: Rejected }
terminals:
  Rejected: { status: failed, output: { by: "$.signals.approval.by" } }
`

const awkwardFlow = `{"name":"a/b é","version":"v 2","start":{"sleep":{"ms":3600000},"transitions":{"success":"flo.Completed"}}}`

// seedWorkflows writes, in the namespace shop, the workflow order with a run that is completed, one
// that was rejected, and one that waits with a signal that nobody wants; and one without runs,
// disabled, whose name is awkward in a path.
func seedWorkflows(t *testing.T, node *floe.Node) {
	t.Helper()
	ctx := t.Context()
	shop := node.Workflow("shop")
	for _, definition := range []string{orderFlow, awkwardFlow} {
		if _, err := shop.Create(ctx, []byte(definition)); err != nil {
			t.Fatal(err)
		}
	}
	if err := shop.Disable(ctx, "a/b é"); err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		id              workflow.RunID
		signal, payload string
	}{{"one/é", "approval", `{"by":"ada"}`}, {"two", "approval", `{"outcome":"rejected","by":"bob"}`}, {"three", "other", `"<x>"`}} {
		if _, err := shop.Start(ctx, "order", []byte(`{"id":1}`), workflow.UseID(r.id)); err != nil {
			t.Fatal(err)
		}
		if _, err := shop.Signal(ctx, r.id, r.signal, []byte(r.payload)); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	definitionsRoute = "GET /api/v1/workflow/definitions"
	createRoute      = "POST /api/v1/workflow/definitions"
	definitionRoute  = "GET /api/v1/workflow/definitions/:name"
	enableRoute      = "PUT /api/v1/workflow/definitions/:name/enable"
	disableRoute     = "PUT /api/v1/workflow/definitions/:name/disable"
	versionsRoute    = "GET /api/v1/workflow/definitions/:name/versions"
	deleteFlowRoute  = "DELETE /api/v1/workflow/definitions/:name"
	versionRoute     = "DELETE /api/v1/workflow/definitions/:name/versions/:version"
	defaultRoute     = "PUT /api/v1/workflow/definitions/:name/versions/:version/default"
	flowRunsRoute    = "GET /api/v1/workflow/runs"
	startRoute       = "POST /api/v1/workflow/runs"
	flowRunRoute     = "GET /api/v1/workflow/runs/:id"
	flowHistoryRoute = "GET /api/v1/workflow/runs/:id/history"
	cancelRoute      = "DELETE /api/v1/workflow/runs/:id"
	signalRoute      = "POST /api/v1/workflow/runs/:id/signal"
	retryFlowRoute   = "POST /api/v1/workflow/runs/:id/retry"
	startsRoute      = "GET /api/v1/console/workflows/:name"
)

var (
	seededOrder = fields{
		"name": is{"order"}, "version": is{"1"}, "enabled": is{true}, "step_count": is{1}, "plan_count": is{0}, "has_schedule": is{false},
		"has_trigger": is{false}, "start_step": is{"_start"}, "terminals": items{is{"Rejected"}}, "steps": items{is{"_start"}},
	}
	seededOther = fields{
		"name": is{"a/b é"}, "version": is{"v 2"}, "enabled": is{false}, "step_count": is{1}, "plan_count": is{0},
		"has_schedule": is{false},
		"has_trigger":  is{false}, "start_step": is{"_start"}, "terminals": items{}, "steps": items{is{"_start"}},
	}
	orderDetail = with(seededOrder, fields{"definition_yaml": is{orderFlow}, "status": is{"active"}, "run_count": is{3}})
	otherDetail = with(seededOther, fields{"definition_yaml": is{awkwardFlow}, "status": is{"disabled"}, "run_count": is{0}})

	runOne = flowRunOf("one/é", "completed",
		fields{"current_step": is{nil}, "completed_at": integer, "duration_ms": integer, "error": is{nil}})
	runTwo   = flowRunOf("two", "failed", fields{"current_step": is{nil}, "completed_at": integer, "duration_ms": integer, "error": text})
	runThree = flowRunOf("three", "waiting", fields{"current_step": is{"_start"}, "completed_at": is{0}, "duration_ms": is{0},
		"error": is{nil}})

	detailOne = with(runOne, fields{
		"input": fields{"id": is{1}}, "output": fields{"by": is{"ada"}}, "pending_signals": items{},
		"step_results": fields{"_start": stepOf("success", fields{"by": is{"ada"}})},
	})
	detailThree = with(runThree, fields{
		"input": fields{"id": is{1}}, "output": is{nil}, "step_results": fields{},
		"pending_signals": items{fields{"type": is{"other"}, "payload": is{"<x>"}, "received_at": integer}},
	})
	tickingSchedule = fields{
		"cron": is{"0 6 * * *"}, "timezone": is{"Europe/Berlin"}, "interval_ms": is{0}, "max_concurrent": is{1}, "note": is{""},
		"decided_to": integer, "active_runs": is{0},
		"started_total": is{0}, "skipped_total": is{0}, "missed_total": is{0}, "refused_total": is{0},
	}
	tickingTrigger = fields{
		"stream": is{"orders"}, "namespace": is{"ticking"}, "consumer_group": is{"wf-ticking"}, "mode": is{"shared"}, "batch_size": is{1},
		"batch_timeout_ms": integer,
		"start":            is{"latest"}, "max_concurrent": is{0}, "state": is{"waiting"}, "reason": text, "lag": is{0},
		"active_runs":   is{0},
		"started_total": is{0},
		"records_total": is{0}, "repeated_total": is{0}, "refused_total": is{0}, "note": is{""},
	}
	flowEvents = list{fields{"event_type": text, "step_name": text, "timestamp": integer}}
)

func flowRunOf(id, status string, more fields) fields {
	return with(fields{
		"run_id": is{id}, "workflow": is{"order"}, "version": is{"1"}, "status": is{status}, "triggered_by": is{"api"},
		"started_at":          integer,
		"history_event_count": integer,
	}, more)
}

func stepOf(outcome string, output shape) fields {
	return fields{"outcome": is{outcome}, "output": output, "attempts": integer, "started_at": integer, "completed_at": integer}
}

func madeOf(name, status string) fields {
	return fields{"ok": is{true}, "name": is{name}, "status": is{status}}
}

func enabledOf(name string, enabled bool) fields {
	return fields{"ok": is{true}, "name": is{name}, "enabled": is{enabled}}
}

func startOf(id shape, status string) fields {
	return fields{"ok": is{true}, "run_id": id, "workflow": is{"order"}, "status": is{status}}
}

func changeOf(id, status string) fields {
	return fields{"ok": is{true}, "run_id": is{id}, "status": is{status}}
}

var workflowContract = slices.Concat(workflowReads, aliasesOf(workflowReads), []contractRow{
	{createRoute, "/api/v1/workflow/definitions?namespace=shop", orderFlow, 200, madeOf("order", "unchanged")},
	{createRoute, "/api/v1/workflow/definitions?namespace=shop", strings.Replace(orderFlow, "by:", "who:", 1), 409, failure},
	{createRoute, "/api/v1/workflow/definitions?namespace=shop", strings.Replace(orderFlow, `"1"`, `"2"`, 1), 200,
		madeOf("order", "updated")},
	{createRoute, "/api/v1/workflow/definitions", orderFlow, 200, madeOf("order", "created")},
	{createRoute, "/api/v1/workflow/definitions?name=x", orderFlow, 400, failure},
	{createRoute, "/api/v1/workflow/definitions", "namespace: named\n" + orderFlow, 200, madeOf("order", "created")},
	{createRoute, "/api/v1/workflow/definitions?namespace=gone", strings.Replace(orderFlow, "namespace: shop", "", 1), 200,
		madeOf("order", "created")},
	{deleteFlowRoute, "/api/v1/workflow/definitions/nothing?namespace=gone", "", 404, failure},
	{deleteFlowRoute, "/api/v1/workflow/definitions/order?namespace=gone&force", "", 200, fields{"ok": is{true}, "name": is{"order"}}},
	{deleteFlowRoute, "/api/v1/workflow/definitions/order?namespace=gone", "", 404, failure},
	{createRoute, "/api/v1/workflow/definitions?namespace=named", "namespace: named\n" + orderFlow, 200, madeOf("order", "unchanged")},
	{createRoute, "/api/v1/workflow/definitions?namespace=shop", "namespace: named\n" + orderFlow, 400, failure},
	{createRoute, "/api/v1/workflow/definitions", "namespace: _system\n" + orderFlow, 400, failure},
	{createRoute, "/api/v1/workflow/definitions", "", 400, failure},
	{createRoute, "/api/v1/workflow/definitions", "name: [", 400, failure},
	{createRoute, "/api/v1/workflow/definitions?namespace=_system", orderFlow, 400, failure},
	{"POST /api/v1/workflows", "/api/v1/workflows?namespace=shop", awkwardFlow, 200, madeOf("a/b é", "unchanged")},

	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&version=1&run_id=r1", `{"id":2}`, 200, startOf(is{"r1"}, "waiting")},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&run_id=r1", `{"id":2}`, 409, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&version=latest", ``, 200, startOf(text, "waiting")},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&idempotency_key=k", `2`, 200, startOf(text, "waiting")},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&idempotency_key=k", `2`, 200, startOf(text, "waiting")},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&idempotency_key=k", `3`, 409, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&idempotency_key=", `3`, 400, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&run_id=", `3`, 400, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&run_id=wfr-7", `3`, 400, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&run=r2", `3`, 400, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order", `{`, 400, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop", `{}`, 400, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=", `{}`, 400, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&version=9", `{}`, 404, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=none", `{}`, 404, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=a/b%20%C3%A9", `{}`, 409, failure},

	{signalRoute, "/api/v1/workflow/runs/r1/signal?namespace=shop&signal=other", ``, 200, changeOf("r1", "waiting")},
	{signalRoute, "/api/v1/workflow/runs/r1/signal?namespace=shop", `{}`, 400, failure},
	{signalRoute, "/api/v1/workflow/runs/r1/signal?namespace=shop&signal=", `{}`, 400, failure},
	{signalRoute, "/api/v1/workflow/runs/r1/signal?namespace=shop&signal=a&type=b", `{}`, 400, failure},
	{signalRoute, "/api/v1/workflow/runs/r1/signal?namespace=shop&signal=a", `{`, 400, failure},
	{signalRoute, "/api/v1/workflow/runs/r1/signal?namespace=shop&type=approval", `{"by":"eve"}`, 200, changeOf("r1", "completed")},
	{signalRoute, "/api/v1/workflow/runs/r1/signal?namespace=shop&signal=approval", `{}`, 409, failure},
	{signalRoute, "/api/v1/workflow/runs/none/signal?namespace=shop&signal=approval", `{}`, 404, failure},
	{signalRoute, "/api/v1/workflow/runs/r1/signal?signal=approval", `{}`, 409, failure}, // it is found, and has ended
	{signalRoute, "/api/v1/workflow/runs/r1/signal?signal=approval&namespace=default", `{}`, 404, failure},
	{"POST /api/v1/workflows/:id/signal", "/api/v1/workflows/three/signal?namespace=shop&signal=other", `1`, 200,
		changeOf("three", "waiting")},

	{retryFlowRoute, "/api/v1/workflow/runs/two/retry?namespace=shop", `{"steps":"_start"}`, 400, failure},
	{retryFlowRoute, "/api/v1/workflow/runs/two/retry?namespace=shop", `{"step":"none"}`, 400, failure},
	{retryFlowRoute, "/api/v1/workflow/runs/two/retry?namespace=shop", `{"step":"_start","input":{}}`, 400, failure},
	{retryFlowRoute, "/api/v1/workflow/runs/two/retry?namespace=shop", `{"input":{`, 400, failure},
	{retryFlowRoute, "/api/v1/workflow/runs/two/retry?namespace=shop&step=_start", ``, 400, failure},
	{retryFlowRoute, "/api/v1/workflow/runs/two/retry", `{"step":"_start"}`, 200, changeOf("two", "waiting")},
	{retryFlowRoute, "/api/v1/workflow/runs/two/retry?namespace=shop", ``, 409, failure},
	{retryFlowRoute, "/api/v1/workflow/runs/one%2F%C3%A9/retry?namespace=shop", ``, 409, failure},
	{retryFlowRoute, "/api/v1/workflow/runs/none/retry?namespace=shop", ``, 404, failure},
	{signalRoute, "/api/v1/workflow/runs/two/signal?namespace=shop&signal=approval", `{"outcome":"rejected"}`, 200,
		changeOf("two", "failed")},
	{"POST /api/v1/workflows/:id/retry", "/api/v1/workflows/two/retry?namespace=shop", ``, 200, changeOf("two", "waiting")},

	{cancelRoute, "/api/v1/workflow/runs/none?namespace=shop", "", 404, failure},
	{cancelRoute, "/api/v1/workflow/runs/one%2F%C3%A9?namespace=shop", "", 409, failure},
	{cancelRoute, "/api/v1/workflow/runs/three?namespace=shop&force=true", "", 400, failure},
	{cancelRoute, "/api/v1/workflow/runs/three?namespace=shop", "", 200, changeOf("three", "cancelled")},
	{cancelRoute, "/api/v1/workflow/runs/three?namespace=shop", "", 409, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&run_id=r3", `{}`, 200, startOf(is{"r3"}, "waiting")},
	{deleteFlowRoute, "/api/v1/workflow/definitions/order?namespace=shop", "", 409,
		fields{"error": ends("; to delete it all the same, set force=true")}},
	{"DELETE /api/v1/workflows/:id", "/api/v1/workflows/r3?namespace=shop", "", 200, changeOf("r3", "cancelled")},

	{versionsRoute, "/api/v1/workflow/definitions/order/versions?namespace=shop", "", 200, fields{
		"name": is{"order"}, "versions": items{
			fields{"version": is{"2"}, "default": is{true}, "created_at": integer}, fields{"version": is{"1"}, "default": is{false},
				"created_at": integer},
		},
	}},
	{versionsRoute, "/api/v1/workflow/definitions/none/versions?namespace=shop", "", 404, failure},
	{versionRoute, "/api/v1/workflow/definitions/order/versions/2?namespace=shop", "", 409, failure},
	{versionRoute, "/api/v1/workflow/definitions/order/versions/9?namespace=shop", "", 404, failure},
	{createRoute, "/api/v1/workflow/definitions?namespace=old", orderFlow, 200, madeOf("order", "created")},
	{createRoute, "/api/v1/workflow/definitions?namespace=old", strings.Replace(orderFlow, `"1"`, "next", 1), 200,
		madeOf("order", "updated")},
	{defaultRoute, "/api/v1/workflow/definitions/order/versions/1/default?namespace=old", "", 200,
		fields{"ok": is{true}, "name": is{"order"}, "version": is{"1"}}},
	{versionRoute, "/api/v1/workflow/definitions/order/versions/1?namespace=old", "", 409, failure},
	{defaultRoute, "/api/v1/workflow/definitions/order/versions/9/default?namespace=old", "", 404, failure},
	{defaultRoute, "/api/v1/workflow/definitions/none/versions/1/default?namespace=old", "", 404, failure},
	{defaultRoute, "/api/v1/workflow/definitions/order/versions/1/default?namespace=old&force=true", "", 400, failure},
	{defaultRoute, "/api/v1/workflow/definitions/order/versions/next/default?namespace=old", "", 200,
		fields{"ok": is{true}, "name": is{"order"}, "version": is{"next"}}},
	{versionRoute, "/api/v1/workflow/definitions/order/versions/1?namespace=old", "", 200,
		fields{"ok": is{true}, "name": is{"order"}, "version": is{"1"}}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&attribute=none%3D1", "", 200, items{}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&attribute=none", "", 400, failure},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&started_before=1000", "", 200, items{}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&started_from=tomorrow", "", 400, failure},

	{enableRoute, "/api/v1/workflow/definitions/a%2Fb%20%C3%A9/enable?namespace=shop", "", 200, enabledOf("a/b é", true)},
	{enableRoute, "/api/v1/workflow/definitions/order/enable?namespace=shop&now=1", "", 400, failure},
	{enableRoute, "/api/v1/workflow/definitions/none/enable?namespace=shop", "", 404, failure},
	{disableRoute, "/api/v1/workflow/definitions/order/disable?namespace=shop", "", 200, enabledOf("order", false)},
	{disableRoute, "/api/v1/workflow/definitions/none/disable?namespace=shop", "", 404, failure},
	{startRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order", `{}`, 409, failure},
	{"PUT /api/v1/workflows/:name/enable", "/api/v1/workflows/order/enable?namespace=shop", "", 200, enabledOf("order", true)},
	{"PUT /api/v1/workflows/:name/disable", "/api/v1/workflows/order/disable?namespace=shop", "", 200, enabledOf("order", false)},

	{createRoute, "/api/v1/workflow/definitions?namespace=ticking", tickingFlow, 200, madeOf("ticking", "created")},
	{startsRoute, "/api/v1/console/workflows/ticking?namespace=ticking", "", 200,
		startsOf(with(tickingSchedule, fields{"paused": is{false}, "next_at": optional{integer}}))},
	{startsRoute, "/api/v1/console/workflows/order?namespace=shop", "", 200, fields{
		"name": is{"order"}, "namespace": is{"shop"}, "schedule": is{nil}, "trigger": is{nil},
	}},
	{startsRoute, "/api/v1/console/workflows/none?namespace=shop", "", 404, failure},
})

// tickingFlow is started by a schedule, and by the records of a stream that there is not.
const tickingFlow = `
name: ticking
schedule: { cron: "0 6 * * *", timezone: Europe/Berlin }
trigger: { stream: orders }
start: { sleep: { ms: 1000 }, transitions: { success: flo.Completed } }
`

func startsOf(schedule shape) fields {
	return fields{"name": is{"ticking"}, "namespace": is{"ticking"}, "schedule": schedule, "trigger": tickingTrigger}
}

var workflowReads = []contractRow{
	{definitionsRoute, "/api/v1/workflow/definitions?namespace=shop", "", 200, items{seededOther, seededOrder}},
	{definitionsRoute, "/api/v1/workflow/definitions?namespace=shop&limit=1", "", 200, items{seededOther}},
	{definitionsRoute, "/api/v1/workflow/definitions?namespace=shop&after=a/b%20%C3%A9&unknown=1", "", 200, items{seededOrder}},
	{definitionsRoute, "/api/v1/workflow/definitions", "", 200, items{}},
	{definitionsRoute, "/api/v1/workflow/definitions?namespace=nowhere", "", 200, items{}},
	{definitionsRoute, "/api/v1/workflow/definitions?limit=1001", "", 400, failure},

	{definitionRoute, "/api/v1/workflow/definitions/order?namespace=shop", "", 200, orderDetail},
	{definitionRoute, "/api/v1/workflow/definitions/a%2Fb%20%C3%A9?namespace=shop", "", 200, otherDetail},
	{definitionRoute, "/api/v1/workflow/definitions/order", "", 404, failure},
	{definitionRoute, "/api/v1/workflow/definitions/none?namespace=shop", "", 404, failure},

	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop", "", 200, items{runThree, runTwo, runOne}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&limit=2", "", 200, items{runThree, runTwo}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&workflow=order&status=completed", "", 200, items{runOne}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&status=waiting", "", 200, items{runThree}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&workflow=a/b%20%C3%A9", "", 200, items{}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&workflow=none", "", 200, items{}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=nowhere", "", 200, items{}},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&status=done", "", 400, failure},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&workflow=", "", 400, failure},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&limit=0", "", 400, failure},
	{flowRunsRoute, "/api/v1/workflow/runs?namespace=shop&after=what", "", 400, failure},

	{flowRunRoute, "/api/v1/workflow/runs/one%2F%C3%A9?namespace=shop", "", 200, detailOne},
	{flowRunRoute, "/api/v1/workflow/runs/three?namespace=shop", "", 200, detailThree},
	{flowRunRoute, "/api/v1/workflow/runs/three", "", 200, detailThree},
	{flowRunRoute, "/api/v1/workflow/runs/three?fields=all", "", 200, with(detailThree, fields{"compensations_failed": is{0}})},
	{flowRunRoute, "/api/v1/workflow/runs/three?fields=some", "", 400, failure},
	{flowRunRoute, "/api/v1/workflow/runs/three?namespace=default", "", 404, failure},
	{flowRunRoute, "/api/v1/workflow/runs/none?namespace=shop", "", 404, failure},
	{flowRunRoute, "/api/v1/workflow/runs/wfr-none", "", 404, failure},
	{flowRunRoute, "/api/v1/workflow/runs/%00?namespace=shop", "", 400, failure},

	{flowHistoryRoute, "/api/v1/workflow/runs/one%2F%C3%A9/history?namespace=shop", "", 200, flowEvents},
	{flowHistoryRoute, "/api/v1/workflow/runs/three/history?namespace=shop&limit=1", "", 200,
		items{fields{"event_type": is{"workflow_started"}, "step_name": is{""}, "timestamp": integer}}},
	{flowHistoryRoute, "/api/v1/workflow/runs/three/history?namespace=shop&after=what", "", 400, failure},
	{flowHistoryRoute, "/api/v1/workflow/runs/none/history?namespace=shop", "", 404, failure},
}

// aliasesOf sends rows to the other path that their route has, if there is one.
func aliasesOf(rows []contractRow) (aliases []contractRow) {
	for _, row := range rows {
		for _, p := range [][2]string{{"/workflow/runs/", "/workflows/"}, {"/workflow/definitions", "/workflows"}} {
			if strings.Contains(row.route, p[0]) && row.route != definitionRoute {
				row.route, row.send = strings.Replace(row.route, p[0], p[1], 1), strings.Replace(row.send, p[0], p[1], 1)
				aliases = append(aliases, row)
			}
		}
	}
	return aliases
}

// TestRunWithoutNamespace: an id of floe's own says where the run is; a namespace that says
// otherwise does not have it.
func TestRunWithoutNamespace(t *testing.T) {
	node := openNode(t)
	seedWorkflows(t, node)
	base := serve(t, New(node, Options{})) + "/api/v1/workflow/runs"
	var run flowStarted
	if got := send(t, "POST "+base+"?namespace=shop&workflow=order", `{}`); got.status != 200 || json.Unmarshal(got.body, &run) != nil {
		t.Fatal(got)
	}
	for _, tt := range []struct {
		request string
		status  int
	}{
		{"GET " + base + "/" + run.RunID, 200},
		{"GET " + base + "/" + run.RunID + "/history", 200},
		{"GET " + base + "/" + run.RunID + "?namespace=shop", 200},
		{"GET " + base + "/" + run.RunID + "?namespace=default", 404},
		{"POST " + base + "/" + run.RunID + "/signal?signal=other", 200},
		{"DELETE " + base + "/" + run.RunID + "?namespace=default", 404},
		{"DELETE " + base + "/" + run.RunID, 200},
		{"DELETE " + base + "/" + run.RunID, 409},
		{"POST " + base + "/" + run.RunID + "/signal?signal=other", 409},
	} {
		if got := send(t, tt.request, ""); got.status != tt.status {
			t.Errorf("%s = %v, want %d", tt.request, got, tt.status)
		}
	}
}

// TestSpreadRuns: runs of a spread namespace are in all shards, and are listed, found by id, told
// and ended like others.
func TestSpreadRuns(t *testing.T) {
	node := openNode(t)
	if err := node.Namespaces().Create(t.Context(), "broad", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	base := serve(t, New(node, Options{})) + "/api/v1"
	if got := send(t, "POST "+base+"/workflows?namespace=broad", orderFlow); got.status != 200 {
		t.Fatal(got)
	}
	want := make(map[string]bool)
	for i := range 8 {
		var run flowStarted
		got := send(t, fmt.Sprintf("POST %s/workflow/runs?namespace=broad&workflow=order&idempotency_key=%d", base, i), "1")
		if got.status != 200 || json.Unmarshal(got.body, &run) != nil {
			t.Fatal(got)
		}
		want[run.RunID] = true
	}
	for _, r := range everyPage[flowRunSummary](t, base+"/workflow/runs", "?namespace=broad&workflow=order&limit=3") {
		if !want[r.RunID] || r.Status != "waiting" {
			t.Errorf("lists %+v", r)
		}
		delete(want, r.RunID)
		for _, request := range []string{"GET %s", "POST %s/signal?signal=approval", "GET %s/history"} {
			if got := send(t, fmt.Sprintf(request, base+"/workflows/"+r.RunID), ""); got.status != 200 {
				t.Errorf(request+" = %v", r.RunID, got)
			}
		}
	}
	if len(want) != 0 {
		t.Errorf("does not list %v", want)
	}
	if got := send(t, "GET "+base+"/workflow/definitions/order?namespace=broad", ""); !strings.Contains(string(got.body), `"run_count":8`) {
		t.Error(got)
	}
}

// TestAllMistakes: the answer to a bad definition has all that is wrong with it, however much that
// is.
func TestAllMistakes(t *testing.T) {
	var definition strings.Builder
	definition.WriteString("name: bad\nversion: \"1\"\nstart: { run: \"@actions/a\", transitions: { success: flo.Completed } }\nsteps:\n")
	for i := range 20 {
		fmt.Fprintf(&definition, "  s%d: { run: \"@actions/a\", wrong: 1, transitions: { success: flo.Completed } }\n", i)
	}
	got := record(New(openNode(t), Options{}),
		httptest.NewRequest("POST", "/api/v1/workflow/definitions", strings.NewReader(definition.String())))
	checkError(t, "20 mistakes", got, 400, "line 5: ")
	for i := range 20 {
		checkError(t, "20 mistakes", got, 400, fmt.Sprintf("line %d: unknown key", i+5))
	}
}

// TestTooManySignals checks the limit of pending signals.
func TestTooManySignals(t *testing.T) {
	node := openNode(t)
	seedWorkflows(t, node)
	ctx, flows := t.Context(), node.Workflow("shop")
	for range 8 { // 512 KiB of payloads, and what they are within
		if _, err := flows.Signal(ctx, "three", "other", []byte(`"`+strings.Repeat("x", 60<<10)+`"`)); err != nil {
			t.Fatal(err)
		}
	}
	target := "/api/v1/workflow/runs/three/signal?namespace=shop&signal=other"
	for range 20 {
		got := record(New(node, Options{}), httptest.NewRequest("POST", target, strings.NewReader(`"`+strings.Repeat("x", 60<<10)+`"`)))
		if got.status == 200 {
			continue
		}
		if checkError(t, "too many signals", got, 429, "signals"); got.header.Get("Retry-After") == "" {
			t.Error("without Retry-After")
		}
		return
	}
	t.Error("1.6 MiB of signals are kept")
}

// TestFlowHistory pages through a history event by event, and through the runs.
func TestFlowHistory(t *testing.T) {
	node := openNode(t)
	seedWorkflows(t, node)
	base := serve(t, New(node, Options{}))
	var types, ids []string
	for _, e := range everyPage[flowEvent](t, base+"/api/v1/workflow/runs/two/history", "?namespace=shop&limit=1") {
		types = append(types, e.EventType+" "+e.StepName)
	}
	want := []string{
		"workflow_started ", "step_started _start", "waiting_for_signal _start", "signal_received ", "signal_matched _start",
		"step_completed _start", "workflow_failed ",
	}
	if !slices.Equal(types, want) {
		t.Errorf("history %q, want %q", types, want)
	}
	for _, r := range everyPage[flowRunSummary](t, base+"/api/v1/workflow/runs", "?namespace=shop&limit=1&workflow=order") {
		ids = append(ids, r.RunID)
	}
	if want := []string{"three", "two", "one/é"}; !slices.Equal(ids, want) {
		t.Errorf("runs %q, want %q", ids, want)
	}
}

// everyPage returns what a listing has, page by page.
func everyPage[T any](t *testing.T, target, query string) (all []T) {
	t.Helper()
	for range 100 {
		got := send(t, "GET "+target+query, "")
		all = append(all, listed[T](t, target, got)...)
		link := got.header.Get("Link")
		if link == "" {
			return all
		}
		query, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
	}
	t.Fatalf("%s does not end", target)
	return nil
}

// TestRunIsFound: a run with an id that was chosen is found without its namespace while there is
// one of the id, first in the default one.
func TestRunIsFound(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	const definition = `{"name":"w","version":"1","start":{"waitForSignal":{"type":"a"},"transitions":{"success":"flo.Completed"}}}`
	start := func(namespace string) {
		t.Helper()
		store := node.Workflow(namespace)
		if _, err := store.Create(t.Context(), []byte(definition)); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Start(t.Context(), "w", nil, workflow.UseID("mine")); err != nil {
			t.Fatal(err)
		}
	}
	start("one")
	start("three")
	checkError(t, "a run in two namespaces", get(h, "/api/v1/workflow/runs/mine"), 400, `run "mine" is in the namespaces "one" and "three"`)
	start("default")
	for range 2 {
		if got := record(h, httptest.NewRequest("DELETE", "/api/v1/workflow/runs/mine", nil)); got.status != 200 && got.status != 409 {
			t.Errorf("a run in the default namespace: %v", got)
		}
	}
	for namespace, want := range map[string]workflow.Status{"default": workflow.Cancelled, "one": workflow.Waiting,
		"three": workflow.Waiting} {
		if r, err := node.Workflow(namespace).Runs().Get(t.Context(), "mine"); err != nil || r.Status != want {
			t.Errorf("the run in %s is %v, %v, want %v", namespace, r.Status, err, want)
		}
	}
}
