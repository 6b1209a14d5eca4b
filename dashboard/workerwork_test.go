package dashboard

const (
	handPath      = "/api/v1/workers/hand"
	registerRoute = "PUT " + workerPath
	retireRoute   = "DELETE " + workerPath
	beatRoute     = "POST " + workerPath + "/heartbeat"
	drainRoute    = "POST " + workerPath + "/drain"
	awaitRoute    = "POST " + workerPath + "/await"
	completeRoute = "POST " + workerPath + "/runs/:run/complete"
	failRoute     = "POST " + workerPath + "/runs/:run/fail"
	extendRun     = "POST " + workerPath + "/runs/:run/touch"
)

var (
	handDone = fields{"ok": is{true}, "worker_id": is{"hand"}}
	noRuns   = fields{"runs": items{}}
)

func taskOf(run, lastError string, attempt int, input shape) fields {
	return fields{"run_id": kept(run), "action": is{"craft"}, "attempt": is{attempt}, "delivery": is{attempt}, "input": input,
		"labels": fields{}, "last_error": is{lastError}, "deadline_ms": integer}
}

// workerWorkContract works the runs of an action, craft, that seedCraft registers.
var workerWorkContract = []contractRow{
	{registerRoute, handPath, `{"actions":["craft"],"labels":{"zone":"a"},"concurrency":2,"metadata":{"v":1}}`, 200, handDone},
	{registerRoute, handPath, `{"actions":["craft"],"metadata":[1]}`, 400, failure},
	{registerRoute, handPath, `{"action":"craft"}`, 400, failure},
	{beatRoute, handPath + "/heartbeat", `{"load":1}`, 200, handDone},
	{beatRoute, "/api/v1/workers/unknown/heartbeat", "", 404, failure},
	{beatRoute, handPath + "/heartbeat", `{"load":-1}`, 400, failure},

	{awaitRoute, handPath + "/await", `{"actions":["craft"]}`, 200, noRuns},
	{awaitRoute, handPath + "/await", `{"actions":[]}`, 400, failure},
	{awaitRoute, handPath + "/await", `{"actions":["craft"],"max":0}`, 400, failure},
	{awaitRoute, handPath + "/await", `{"actions":["craft"],"max":100}`, 200, noRuns},
	{awaitRoute, handPath + "/await", `{"actions":["craft"],"max":101}`, 400, failure},
	{"POST /api/v1/actions/:name/invoke", "/api/v1/actions/craft/invoke", `{"size":3}`, 200, fields{"ok": is{true}, "action": is{"craft"},
		"namespace": is{"default"}, "status": text, "run_id": kept("<run>")}},
	{awaitRoute, handPath + "/await", `{"actions":["craft"],"wait_ms":10000}`, 200, fields{"runs": items{
		taskOf("<run>", "", 1, fields{"size": is{3}})}}},
	{extendRun, handPath + "/runs/<run>/touch", `{"lease_ms":60000}`, 200, fields{"deadline_ms": integer}},
	{extendRun, "/api/v1/workers/other/runs/<run>/touch", `{"lease_ms":60000}`, 409, failure},
	{extendRun, handPath + "/runs/<run>/touch", `{"lease_ms":0}`, 400, failure},
	{failRoute, handPath + "/runs/<run>/fail", `{"error":"too hot","code":"heat","retry":true,"delivery":2}`, 409, failure},
	{failRoute, handPath + "/runs/<run>/fail", `{"error":"too hot","retry":true,"delay_ms":-1}`, 400, failure},
	{failRoute, handPath + "/runs/<run>/fail", `{"error":"too hot","retry":true,"delay_ms":3153600000001}`, 400, failure},
	{failRoute, handPath + "/runs/<run>/fail", `{"error":"too hot","delay_ms":0}`, 400, failure},
	{failRoute, handPath + "/runs/<run>/fail", `{"error":"too hot","code":"heat","retry":true,"delay_ms":0,"delivery":1}`, 200,
		fields{"ok": is{true}, "run_id": known("<run>")}},
	{awaitRoute, handPath + "/await", `{"actions":["craft"],"wait_ms":10000}`, 200, fields{"runs": items{
		taskOf("<run>", "too hot", 2, fields{"size": is{3}})}}},
	{completeRoute, handPath + "/runs/<run>/complete", `{"output":{"a":}}`, 400, failure},
	{completeRoute, handPath + "/runs/<run>/complete", `{"output":{"a":[1,null]},"outcome":"done"}`, 200,
		fields{"ok": is{true}, "run_id": known("<run>")}},
	{completeRoute, handPath + "/runs/<run>/complete", `{}`, 409, failure},
	{actionRunRoute, craftPath + "/runs/<run>?wait_ms=60000", "", 200, craftRun("completed", fields{"a": items{is{1}, is{nil}}}, integer)},
	{actionRunRoute, craftPath + "/runs/<run>?wait_ms=60001", "", 400, failure},
	{actionRunRoute, "/api/v1/actions/other/runs/<run>", "", 404, failure},
	{drainRoute, handPath + "/drain", "", 200, handDone},
	{awaitRoute, handPath + "/await", `{"actions":["craft"]}`, 409, failure},
	{retireRoute, handPath, "", 200, handDone},
	{retireRoute, handPath, "", 404, failure},
}
