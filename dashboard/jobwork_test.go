package dashboard

import (
	"strings"
	"testing"

	"github.com/floedb/floe/stream/processing"
)

const (
	applyRoute       = "PUT /api/v1/processing/jobs"
	planRoute        = "POST /api/v1/processing/plan"
	resumeJobRoute   = "PUT /api/v1/processing/jobs/:id/start"
	rescaleRoute     = "PUT /api/v1/processing/jobs/:id/rescale"
	restoreRoute     = "POST /api/v1/processing/jobs/:id/restore"
	savepointsRoute  = "GET /api/v1/processing/jobs/:id/savepoints"
	savepointRoute   = "POST /api/v1/processing/jobs/:id/savepoints"
	unsavepointRoute = "DELETE /api/v1/processing/jobs/:id/savepoints/:savepoint"
	appliedPath      = "/api/v1/processing/jobs/<job>"
)

var (
	appliedPipeline = strings.Replace(largePipeline, "name: large\n", "name: applied\n", 1)
	lowerPipeline   = strings.Replace(appliedPipeline, "amount>100", "amount>10", 1)
	renamedPipeline = strings.Replace(lowerPipeline, "- name: orders", "- name: others", 1)
)

// planned is which state a plan keeps, drops and begins.
func planned(kept, dropped, begun items) fields {
	return fields{"kept": kept, "dropped": dropped, "new": begun, "notes": items{}}
}

func savepointOf(id shape, complete shape) fields {
	return fields{"id": id, "created_at": integer, "records_processed": integer, "complete": complete, "bytes": integer}
}

var noPlan = planned(none, none, none)

var jobWorkContract = []contractRow{
	{planRoute, planPath, appliedPipeline, 200, with(noPlan, fields{"job_id": is{""}, "created": is{true}, "changed": is{false}})},
	{applyRoute, jobsPath, appliedPipeline, 200,
		with(noPlan, fields{"ok": is{true}, "job_id": kept("<job>"), "status": is{"RUNNING"}, "created": is{true}, "changed": is{false}})},
	{applyRoute, jobsPath + "?namespace=pipes", appliedPipeline, 200, with(noPlan,
		fields{"ok": is{true}, "job_id": known("<job>"), "status": is{"RUNNING"}, "created": is{false}, "changed": is{false}})},
	{planRoute, planPath + "?namespace=pipes", lowerPipeline, 200,
		with(planned(items{is{"source orders"}}, none, none),
			fields{"job_id": known("<job>"), "created": is{false}, "changed": is{true}})},
	{applyRoute, jobsPath, lowerPipeline, 200, with(planned(items{is{"source orders"}}, none, none),
		fields{"ok": is{true}, "job_id": known("<job>"), "status": is{"RUNNING"}, "created": is{false}, "changed": is{true}})},
	{planRoute, planPath, renamedPipeline, 200, with(planned(none, items{is{"source orders"}}, items{is{"source others"}}),
		fields{"job_id": known("<job>"), "created": is{false}, "changed": is{true}})},
	{applyRoute, jobsPath, renamedPipeline, 409, fields{"error": ends("; to drop it, set drop_state=true")}},
	{applyRoute, jobsPath + "?drop_state=true", renamedPipeline, 200,
		with(planned(none, items{is{"source orders"}}, items{is{"source others"}}),
			fields{"ok": is{true}, "job_id": known("<job>"), "status": is{"RUNNING"}, "created": is{false}, "changed": is{true}})},
	{applyRoute, jobsPath + "?savepoint=nonsense", lowerPipeline, 400, failure},
	{applyRoute, jobsPath + "?drop_stat=true", appliedPipeline, 400, failure},
	{applyRoute, jobsPath + "?namespace=shop", appliedPipeline, 400, failure},
	{applyRoute, jobsPath, appliedPipeline + "wrong: 1\n", 400, failure},
	{applyRoute, jobsPath, strings.Repeat("#", processing.MaxDefinition), 400, failure},
	{applyRoute, jobsPath, strings.Repeat("#", processing.MaxDefinition+1), 413, failure},
	{applyRoute, jobsPath, "", 400, failure},
	{planRoute, planPath, "", 400, failure},
	{planRoute, planPath, appliedPipeline + "wrong: 1\n", 400, failure},
	{submitRoute, jobsPath, largePipeline, 200, jobChangedOf("RUNNING")},
	{planRoute, planPath, largePipeline, 409, failure}, // two jobs have the name

	{savepointsRoute, appliedPath + "/savepoints", "", 200, none},
	{savepointRoute, appliedPath + "/savepoints?wait_ms=60000", "", 200, savepointOf(kept("<point>"), is{true})},
	{savepointRoute, appliedPath + "/savepoints?namespace=pipes", "", 200, savepointOf(kept("<other>"), boolean)},
	{savepointRoute, appliedPath + "/savepoints?wait_ms=60001", "", 400, failure},
	{savepointRoute, appliedPath + "/savepoints?wait_ms=-1", "", 400, failure},
	{savepointRoute, "/api/v1/processing/jobs/job-7/savepoints", "", 404, failure},
	{savepointRoute, "/api/v1/processing/jobs/job-7/savepoints?namespace=pipes", "", 404, failure},
	{savepointsRoute, appliedPath + "/savepoints", "", 200,
		items{savepointOf(known("<point>"), is{true}), savepointOf(known("<other>"), boolean)}},
	{savepointsRoute, appliedPath + "/savepoints?limit=1", "", 200, items{savepointOf(known("<point>"), is{true})}},
	{savepointsRoute, appliedPath + "/savepoints?limit=0", "", 400, failure},
	{savepointsRoute, appliedPath + "/savepoints?limit=1001", "", 400, failure},
	{savepointsRoute, appliedPath + "/savepoints?after=x", "", 400, failure},
	{savepointsRoute, "/api/v1/processing/jobs/job-7/savepoints?namespace=pipes", "", 404, failure},
	{unsavepointRoute, appliedPath + "/savepoints/<other>", "", 200, fields{"ok": is{true}, "id": known("<other>")}},
	{unsavepointRoute, appliedPath + "/savepoints/<other>", "", 404, failure},
	{unsavepointRoute, appliedPath + "/savepoints/x", "", 400, failure},
	{unsavepointRoute, "/api/v1/processing/jobs/job-7/savepoints/x?namespace=pipes", "", 404, failure},

	{rescaleRoute, appliedPath + "/rescale", `{"parallelism":64}`, 200, jobChangedOf("RUNNING")},
	{rescaleRoute, appliedPath + "/rescale", `{"parallelism":65}`, 400, failure},
	{rescaleRoute, appliedPath + "/rescale", `{"parallelism":0}`, 400, failure},
	{rescaleRoute, appliedPath + "/rescale", `{}`, 400, failure},
	{rescaleRoute, "/api/v1/processing/jobs/job-7/rescale?namespace=pipes", `{"parallelism":1}`, 404, failure},

	{resumeJobRoute, appliedPath + "/start", "", 409, failure}, // it runs
	{restoreRoute, appliedPath + "/restore", "", 409, failure},
	{stopRoute, appliedPath + "/stop", "", 200, jobChangedOf("STOPPED")},
	{resumeJobRoute, appliedPath + "/start", "", 200, jobChangedOf("RUNNING")},
	{resumeJobRoute, appliedPath + "/start?savepoint=x", "", 400, failure},
	{resumeJobRoute, "/api/v1/processing/jobs/job-7/start?namespace=pipes", "", 404, failure},
	{stopRoute, appliedPath + "/stop", "", 200, jobChangedOf("STOPPED")},
	{restoreRoute, appliedPath + "/restore?savepoint=<other>", "", 404, failure},
	{restoreRoute, appliedPath + "/restore?savepoint=x", "", 400, failure},
	{restoreRoute, appliedPath + "/restore?savepoint=", "", 400, fields{"error": is{"parameter savepoint is empty"}}},
	{restoreRoute, appliedPath + "/restore?restart_source=", "", 400, fields{"error": is{"parameter restart_source is empty"}}},
	{restoreRoute, appliedPath + "/restore?restart_source=nosuch", "", 400, failure},
	{restoreRoute, appliedPath + "/restore", renamedPipeline + "wrong: 1\n", 400, failure},
	{restoreRoute, appliedPath + "/restore", lowerPipeline, 409, failure}, // its source would be lost
	{restoreRoute, "/api/v1/processing/jobs/job-7/restore?namespace=pipes", "", 404, failure},
	{restoreRoute, appliedPath + "/restore?savepoint=<point>", "", 200, fields{"ok": is{true}, "job_id": known("<job>"), "status": text}},
	{endRoute, appliedPath, "", 200, jobChangedOf("CANCELLED")},
	{resumeJobRoute, appliedPath + "/start", "", 409, failure},
	{savepointRoute, appliedPath + "/savepoints", "", 409, failure},
}

// TestRestoreDefinition: a restored job has the definition of the body and restarts the sources
// that are named.
func TestRestoreDefinition(t *testing.T) {
	node := openNode(t)
	seedProcessing(t, node)
	path := "http://localhost/api/v1/processing/jobs/" + seededIDs["{stopped}"]
	h := New(node, Options{})
	lower := strings.Replace(largePipeline, "amount>100", "amount>10", 1)
	if got := record(h, request("POST", path+"/restore?restart_source=orders", lower, "")); got.status != 200 {
		t.Fatal(got)
	}
	if got := record(h, request("GET", path, "", "")); !strings.Contains(string(got.body), "amount>10\\") {
		t.Errorf("the definition is %s", got.body)
	}
}
