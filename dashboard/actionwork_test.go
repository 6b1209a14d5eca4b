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

var actionEndContract = []contractRow{
	{"POST /api/v1/actions/:name/invoke", craftPath + "/invoke", "1", 200, fields{"ok": is{true}, "action": is{"craft"},
		"namespace": is{"default"}, "status": text, "run_id": text}},
	{deleteActionRoute, craftPath, "", 409, failure},
	{deleteActionRoute, craftPath + "?forse=true", "", 400, failure},
	{deleteActionRoute, craftPath + "?force=true", "", 200, fields{"ok": is{true}, "name": is{"craft"}}},
	{deleteActionRoute, craftPath, "", 404, failure},
}
