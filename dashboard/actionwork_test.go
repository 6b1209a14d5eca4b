package dashboard

const (
	craftPath           = "/api/v1/actions/craft"
	registerActionRoute = "PUT " + actionPath
	deleteActionRoute   = "DELETE " + actionPath
)

func craftVersion(n int) fields { return fields{"ok": is{true}, "name": is{"craft"}, "version": is{n}} }

func craftSwitched(enabled bool) fields {
	return fields{"ok": is{true}, "name": is{"craft"}, "enabled": is{enabled}}
}

var actionWorkContract = []contractRow{
	{registerActionRoute, craftPath, `{"timeout_ms":-1}`, 400, failure},
	{registerActionRoute, craftPath, `{"max_attempts":1000002}`, 400, failure},
	{registerActionRoute, craftPath, `{"max_running":-1}`, 400, failure},
	{registerActionRoute, craftPath, `{"rate":{"limit":1}}`, 400, failure},
	{registerActionRoute, craftPath, `{"rate":{"limits":1}}`, 400, failure},
	{registerActionRoute, craftPath, "", 200, craftVersion(1)},
	{registerActionRoute, craftPath, `{"description":"Craft it","owner":"hall","timeout_ms":60000,"max_attempts":3,"backoff_min_ms":0,
		"backoff_max_ms":0,"max_running":5,"max_running_per_key":2,"retention_ms":3600000,"retained_runs":10,
		"rate":{"limit":1000,"per_ms":1000,"burst":100}}`, 200, craftVersion(2)},
	{"PUT " + actionPath + "/disable", craftPath + "/disable", "", 200, craftSwitched(false)},
	{"POST /api/v1/actions/:name/invoke", craftPath + "/invoke", "1", 409, failure},
	{"PUT " + actionPath + "/enable", craftPath + "/enable", "", 200, craftSwitched(true)},
	{"PUT " + actionPath + "/enable", "/api/v1/actions/none/enable", "", 404, failure},
}

const (
	actionRunRoute    = "GET " + actionPath + "/runs/:id"
	cancelActionRoute = "POST " + actionPath + "/runs/:id/cancel"
)

// craftRun is a run of craft that worker hand had.
func craftRun(status string, output, ended shape) fields {
	return fields{"run_id": known("<run>"), "status": is{status}, "attempt": is{2}, "input": fields{"size": is{3}}, "output": output,
		"error": optional{text}, "source": is{"api"}, "worker_id": is{"hand"}, "created_at": integer, "started_at": integer,
		"completed_at": ended, "duration_ms": ended}
}

var actionEndContract = []contractRow{
	{"POST /api/v1/actions/:name/invoke", craftPath + "/invoke", "1", 200, fields{"ok": is{true}, "action": is{"craft"},
		"namespace": is{"default"}, "status": text, "run_id": kept("<idle>")}},
	{actionRunRoute, craftPath + "/runs/<idle>?wait_ms=1", "", 200, fields{"run_id": known("<idle>"), "status": is{"pending"},
		"attempt": integer, "input": is{1}, "output": is{nil}, "error": is{nil}, "source": is{"api"}, "worker_id": is{nil},
		"created_at": integer, "started_at": is{nil}, "completed_at": is{nil}, "duration_ms": is{nil}}},
	{cancelActionRoute, craftPath + "/runs/<idle>/cancel?reason=late", "", 200, fields{"ok": is{true}, "run_id": known("<idle>"),
		"namespace": is{"default"}, "status": is{"cancelled"}}},
	{cancelActionRoute, craftPath + "/runs/<idle>/cancel", "", 409, failure},
	{"POST /api/v1/actions/:name/invoke", craftPath + "/invoke", "1", 200, fields{"ok": is{true}, "action": is{"craft"},
		"namespace": is{"default"}, "status": text, "run_id": text}},
	{deleteActionRoute, craftPath, "", 409, fields{"error": ends("; to delete it all the same, set force=true")}},
	{deleteActionRoute, craftPath + "?forse=true", "", 400, failure},
	{deleteActionRoute, craftPath + "?force=true", "", 200, fields{"ok": is{true}, "name": is{"craft"}}},
	{deleteActionRoute, craftPath, "", 404, failure},
}
