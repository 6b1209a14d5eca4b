package dashboard

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/floedb/floe/action"
)

const (
	allSchedulesRoute    = "GET /api/v1/schedules"
	schedulesRoute       = "GET " + schedulesPath
	scheduleRoute        = "GET " + schedulePath
	setScheduleRoute     = "PUT " + schedulePath
	deleteScheduleRoute  = "DELETE " + schedulePath
	pauseScheduleRoute   = "PUT " + schedulePath + "/pause"
	resumeScheduleRoute  = "PUT " + schedulePath + "/resume"
	triggerScheduleRoute = "POST " + schedulePath + "/trigger"
	flowScheduleRoute    = "GET " + flowSchedulePath

	sweepSchedules = "/api/v1/actions/sweep/schedules"
	tickingPath    = "/api/v1/workflow/definitions/ticking/schedule"
)

var (
	nightlySummary = fields{
		"kind": is{"action"}, "target": is{"sweep"}, "name": is{"night ly/1"}, "cron": is{"0 6 1 1 *"}, "timezone": is{"Europe/Berlin"},
		"interval_ms": is{0}, "paused": is{false}, "note": is{""}, "next_at": integer, "decided_to": integer, "last_run_id": is{nil},
		"started_total": is{0}, "skipped_total": is{0}, "missed_total": is{0}, "refused_total": is{0},
	}
	nightly = with(nightlySummary, fields{
		"anchor_ms": is{nil}, "overlap": is{"buffer"}, "catch_up": is{"all"}, "catch_up_limit": is{1000}, "input": fields{"full": is{true}},
		"priority": is{255}, "labels": fields{"zone": is{"a"}}, "concurrency_key": is{"k"}, "buffered_at": is{nil}, "created_at": integer,
		"updated_at": integer, "ticks": items{},
	})
	triggered = fields{"started_total": is{1}, "last_run_id": known("<tick>"), "ticks": items{fields{
		"at": optional{integer}, "decided_at": integer, "result": is{"triggered"}, "run_id": known("<tick>"), "error": is{nil},
		"count": integer,
	}}}
	pausedNightly = fields{"paused": is{true}, "next_at": is{nil}}
	everyHour     = with(nightlySummary, fields{"name": is{"hourly"}, "cron": is{""}, "timezone": is{""}, "interval_ms": is{3600000},
		"paused": is{true}, "next_at": is{nil}})
	tickingSummary = with(nightlySummary, fields{"kind": is{"workflow"}, "target": is{"ticking"}, "name": is{nil}, "cron": is{"0 6 * * *"},
		"next_at": optional{integer}})
	tickingState  = with(tickingSchedule, fields{"paused": is{false}, "next_at": optional{integer}})
	tickingPaused = with(tickingSchedule, fields{"paused": is{true}, "next_at": is{nil}})
)

// scheduleContract schedules an action, sweep, in the namespace of the workflow ticking, which has
// a schedule too.
var scheduleContract = []contractRow{
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":3600000}`, 404, failure},
	{schedulesRoute, sweepSchedules + "?namespace=ticking", "", 404, failure},
	{registerActionRoute, "/api/v1/actions/sweep?namespace=ticking", "", 200,
		fields{"ok": is{true}, "name": is{"sweep"}, "version": is{1}}},
	{schedulesRoute, sweepSchedules + "?namespace=ticking", "", 200, items{}},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", ``, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"cron":"0 6 * *"}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"cron":"0 6 * * *","timezone":"Europe/Nowhere"}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"cron":"0 6 * * *","interval_ms":60000}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":999}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":-1}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":60000,"overlap":"queue"}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":60000,"catch_up":"some"}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":60000,"catch_up_limit":0}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":60000,"catch_up_limit":1001}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":60000,"priority":256}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":60000,"zone":"UTC"}`, 400, failure},
	{setScheduleRoute, sweepSchedules + "/night%20ly%2F1?namespace=ticking", `{"cron":"0 6 1 1 *","timezone":"Europe/Berlin",
		"overlap":"buffer","catch_up":"all","catch_up_limit":1000,"input":{"full":true},"priority":255,"labels":{"zone":"a"},
		"concurrency_key":"k"}`, 200, nightly},
	{setScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", `{"interval_ms":3600000,"anchor_ms":60000,"paused":true}`, 200,
		with(everyHour, fields{"anchor_ms": is{60000}, "overlap": is{"skip"}, "catch_up": is{"one"}, "catch_up_limit": is{100},
			"input": is{nil}, "priority": is{100}, "labels": fields{}, "concurrency_key": is{""}, "buffered_at": is{nil},
			"created_at": integer, "updated_at": integer, "ticks": items{}})},
	{schedulesRoute, sweepSchedules + "?namespace=ticking", "", 200, items{everyHour, nightlySummary}},
	{schedulesRoute, sweepSchedules + "?namespace=ticking&limit=1", "", 200, items{everyHour}},
	{schedulesRoute, sweepSchedules + "?namespace=ticking&limit=0", "", 400, failure},
	{schedulesRoute, sweepSchedules + "?namespace=ticking&limit=1001", "", 400, failure},
	{schedulesRoute, sweepSchedules + "?namespace=ticking&after=x", "", 400, failure},
	{allSchedulesRoute, "/api/v1/schedules?namespace=ticking", "", 200, items{everyHour, nightlySummary, tickingSummary}},
	{allSchedulesRoute, "/api/v1/schedules?namespace=ticking&limit=2", "", 200, items{everyHour, nightlySummary}},
	{allSchedulesRoute, "/api/v1/schedules?namespace=ticking&after=workflow/", "", 200, items{tickingSummary}},
	{allSchedulesRoute, "/api/v1/schedules?namespace=ticking&after=hourly", "", 400, failure},
	{allSchedulesRoute, "/api/v1/schedules?namespace=nowhere", "", 200, items{}},
	{triggerScheduleRoute, sweepSchedules + "/night%20ly%2F1/trigger?namespace=ticking", "", 200, fields{"ok": is{true},
		"action": is{"sweep"}, "namespace": is{"ticking"}, "status": is{"pending"}, "run_id": kept("<tick>")}},
	{triggerScheduleRoute, sweepSchedules + "/night%20ly%2F1/trigger?namespace=ticking", "", 409, failure},
	{triggerScheduleRoute, sweepSchedules + "/none/trigger?namespace=ticking", "", 404, failure},
	{scheduleRoute, sweepSchedules + "/night%20ly%2F1?namespace=ticking", "", 200, with(nightly, triggered)},
	{scheduleRoute, sweepSchedules + "/none?namespace=ticking", "", 404, failure},
	{pauseScheduleRoute, sweepSchedules + "/night%20ly%2F1/pause?namespace=ticking", "", 200,
		with(with(nightly, triggered), pausedNightly)},
	{resumeScheduleRoute, sweepSchedules + "/night%20ly%2F1/resume?namespace=ticking", "", 200, with(nightly, triggered)},
	{resumeScheduleRoute, sweepSchedules + "/none/resume?namespace=ticking", "", 404, failure},
	{pauseScheduleRoute, sweepSchedules + "/none/pause?namespace=ticking", "", 404, failure},
	{pauseScheduleRoute, sweepSchedules + "/hourly/pause?namespace=ticking&until=1", "", 400, failure},
	{deleteScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", "", 200, fields{"ok": is{true}, "target": is{"sweep"},
		"name": is{"hourly"}}},
	{deleteScheduleRoute, sweepSchedules + "/hourly?namespace=ticking", "", 404, failure},

	{"PUT " + flowSchedulePath + "/pause", tickingPath + "/pause?namespace=ticking", "", 200, tickingPaused},
	{flowScheduleRoute, tickingPath + "?namespace=ticking", "", 200, tickingPaused},
	{"PUT " + flowSchedulePath + "/resume", tickingPath + "/resume?namespace=ticking", "", 200, tickingState},
	{flowScheduleRoute, "/api/v1/workflow/definitions/order/schedule?namespace=shop", "", 404, failure},
	{"PUT " + flowSchedulePath + "/pause", "/api/v1/workflow/definitions/order/schedule/pause?namespace=shop", "", 404, failure},
	{"PUT " + flowSchedulePath + "/resume", "/api/v1/workflow/definitions/none/schedule/resume?namespace=shop", "", 404, failure},
}

// TestSchedulePages: pages of all schedules, of any size, have each schedule once and in order.
func TestSchedulePages(t *testing.T) {
	node := openNode(t)
	ctx, actions := t.Context(), node.Action("default")
	var want []string
	for _, name := range []string{"a", "b/c"} {
		if _, err := actions.Register(ctx, name); err != nil {
			t.Fatal(err)
		}
		for _, schedule := range []string{"x", "y/z"} {
			if err := actions.Schedules(name).Set(ctx, schedule, action.ScheduleSpec{Cron: "0 6 1 1 *"}); err != nil {
				t.Fatal(err)
			}
			want = append(want, name+" "+schedule)
		}
	}
	for i := range 5 {
		name := fmt.Sprint("flow", i)
		definition := strings.Replace(tickingFlow, "name: ticking", "name: "+name, 1)
		if i%2 == 1 {
			definition = strings.Replace(orderFlow, "name: order", "name: "+name, 1)
		} else {
			want = append(want, name+" ")
		}
		if _, err := node.Workflow("default").Create(ctx, []byte(definition)); err != nil {
			t.Fatal(err)
		}
	}
	h := New(node, Options{})
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		for query := fmt.Sprint("limit=", limit); query != ""; {
			page := record(h, httptest.NewRequest("GET", "/api/v1/schedules?"+query, nil))
			for _, s := range listed[scheduleSummary](t, "schedules", page) {
				name := ""
				if s.Name != nil {
					name = *s.Name
				}
				got = append(got, s.Target+" "+name)
			}
			query, _, _ = strings.Cut(strings.TrimPrefix(page.header.Get("Link"), "<?"), ">")
			if _, err := url.ParseQuery(query); err != nil || len(got) > len(want) {
				t.Fatalf("limit %d: %q, then %q, %v", limit, got, query, err)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
	}
}
