package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

const largePipeline = `kind: Processing
name: large
namespace: pipes
sources:
  - name: orders
    stream: { name: orders }
operators:
  - name: only
    type: filter
    condition: "json:$.amount>100"
sinks:
  - name: out
    stream: { name: large }
`

// seedProcessing submits a job, which has read two records and written one of them, and another one
// that is stopped. Rows of the contract name them as {job} and {stopped}.
func seedProcessing(t *testing.T, node *floe.Node) {
	t.Helper()
	ctx := t.Context()
	for _, payload := range []string{`{"amount":5}`, `{"amount":500}`} {
		if _, err := node.Stream("pipes").Append(ctx, "orders", stream.Message{Payload: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
	}
	jobs := node.Processing("pipes")
	for _, name := range []string{"{job}", "{stopped}"} {
		made, err := jobs.Submit(ctx, []byte(largePipeline))
		if err != nil {
			t.Fatal(err)
		}
		seededIDs[name] = string(made.Job)
	}
	if _, err := jobs.Stop(ctx, processing.JobID(seededIDs["{stopped}"])); err != nil {
		t.Fatal(err)
	}
	awaitRecords(t, node, "large", 1)
	awaitJob(t, jobs, processing.JobID(seededIDs["{job}"]), 2)
}

// seededIDs are ids of jobs and runs, by what the contract calls them.
var seededIDs = map[string]string{}

// awaitRecords waits until a stream has so many records.
func awaitRecords(t *testing.T, node *floe.Node, name string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got := 0
	for _, err := range node.Stream("pipes").Follow(ctx, name) {
		if err != nil {
			t.Fatalf("stream %s has %d records, want %d: %v", name, got, n, err)
		}
		if got++; got == n {
			return
		}
	}
}

// awaitJob waits until a job has read so many records, and its leader has taken note of the last
// ones.
func awaitJob(t *testing.T, jobs *processing.Store, id processing.JobID, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		j, err := jobs.Get(ctx, id)
		if err != nil {
			t.Fatalf("job %+v: %v", j, err)
		}
		if j.Metrics.RecordsIn >= n && (j.Metrics.LastReadCount > 0 || j.Status != processing.Running) {
			return
		}
	}
}

const (
	jobsRoute   = "GET /api/v1/processing/jobs"
	submitRoute = "POST /api/v1/processing/jobs"
	jobRoute    = "GET /api/v1/processing/jobs/:id"
	stopRoute   = "PUT /api/v1/processing/jobs/:id/stop"
	endRoute    = "DELETE /api/v1/processing/jobs/:id"
)

// anyNumber is any number of JSON.
type anyNumber struct{}

func (anyNumber) check(at string, value any) []string {
	if _, ok := value.(json.Number); !ok {
		return []string{fmt.Sprintf("%s is %v, want a number", at, value)}
	}
	return nil
}

// positive is a number of JSON that is greater than 0.
type positive struct{}

func (positive) check(at string, value any) []string {
	n, ok := value.(json.Number)
	if f, err := n.Float64(); !ok || err != nil || f <= 0 {
		return []string{fmt.Sprintf("%s is %v, want a number greater than 0", at, value)}
	}
	return nil
}

var (
	runningMetrics = fields{
		"records_in": is{2}, "records_out": is{1}, "throughput_per_sec": anyNumber{}, "output_per_sec": anyNumber{},
		"last_read_count": is{2}, "batch_size": is{100},
		"idle_ms": integer, "watermark_ms": integer, "watermark_lag_ms": integer, "latency_last_ms": positive{},
		"latency_avg_ms": positive{},
		"latency_max_ms": positive{}, "running": is{true}, // D13: latencies have fractions, and no tick takes nothing
	}
	stoppedMetrics = fields{
		"records_in": integer, "records_out": integer, "throughput_per_sec": is{0}, "output_per_sec": is{0}, "last_read_count": is{0},
		"batch_size": is{100},
		"idle_ms":    is{0}, "watermark_ms": is{0}, "watermark_lag_ms": is{0}, "latency_last_ms": is{0}, "latency_avg_ms": anyNumber{},
		"latency_max_ms": anyNumber{}, "running": is{false},
	}
	runningJob = jobOf("RUNNING", is{2}, runningMetrics)
	stoppedJob = jobOf("STOPPED", integer, stoppedMetrics)
)

func jobOf(status string, processed shape, metrics fields) fields {
	return fields{
		"job_id": text, "name": is{"large"}, "namespace": is{"pipes"}, "status": is{status}, "parallelism": is{1}, "batch_size": is{100},
		"created_at":        integer,
		"records_processed": processed, "metrics": metrics,
	}
}

func jobChangedOf(status string) fields {
	return fields{"ok": is{true}, "job_id": text, "status": is{status}}
}

var processingContract = []contractRow{
	{jobsRoute, "/api/v1/processing/jobs?namespace=pipes", "", 200, items{runningJob, stoppedJob}},
	{jobsRoute, "/api/v1/processing/jobs?namespace=pipes&limit=1", "", 200, items{runningJob}},
	{jobsRoute, "/api/v1/processing/jobs?namespace=pipes&limit=1&fields=all", "", 200,
		items{with(jobOf("RUNNING", is{2}, with(runningMetrics, fields{"records_behind": is{0}})), fields{"reason": is{""}})}},
	{jobsRoute, "/api/v1/processing/jobs?fields=records_behind", "", 400, failure},
	{jobsRoute, "/api/v1/processing/jobs", "", 200, items{}},
	{jobsRoute, "/api/v1/processing/jobs?namespace=nowhere", "", 200, items{}},
	{jobsRoute, "/api/v1/processing/jobs?limit=0", "", 400, failure},
	{jobRoute, "/api/v1/processing/jobs/{job}", "", 200, with(runningJob, fields{"yaml": is{largePipeline}, "savepoints": items{}})},
	{jobRoute, "/api/v1/processing/jobs/{stopped}?namespace=pipes", "", 200,
		with(stoppedJob, fields{"yaml": is{largePipeline}, "savepoints": items{}})},
	{jobRoute, "/api/v1/processing/jobs/{job}?namespace=shop", "", 404, failure},
	{jobRoute, "/api/v1/processing/jobs/{stopped}?fields=all", "", 200,
		with(jobOf("STOPPED", integer, with(stoppedMetrics, fields{"records_behind": is{0}})),
			fields{"yaml": is{largePipeline}, "savepoints": items{}, "reason": is{""}})},
	{jobRoute, "/api/v1/processing/jobs/job-7", "", 404, failure},
	{jobRoute, "/api/v1/processing/jobs/job-7?namespace=pipes", "", 404, failure},
	{jobWorkRoute, "/api/v1/console/processing/jobs/{job}", "", 200, fields{
		"job_id": text, "reason": is{""}, "held": is{false}, "errors": is{0}, "late": is{0}, "dropped": is{0}, "missed": is{0},
		"operators": items{fields{"name": is{"only"}, "in": is{2}, "out": is{1}, "errors": is{0}, "late": is{0}, "dropped": integer}},
	}},
	{jobWorkRoute, "/api/v1/console/processing/jobs/job-7", "", 404, failure},
	{submitRoute, "/api/v1/processing/jobs?namespace=pipes", strings.Replace(largePipeline, "name: large\n", "name: other\n", 1), 200,
		jobChangedOf("RUNNING")},
	{submitRoute, "/api/v1/processing/jobs", strings.Replace(largePipeline, "name: large\n", "name: third\n", 1), 200,
		jobChangedOf("RUNNING")},
	{submitRoute, "/api/v1/processing/jobs?namespace=shop", largePipeline, 400, failure},
	{submitRoute, "/api/v1/processing/jobs?namespace=wide",
		strings.NewReplacer("namespace: pipes\n", "", "sinks:",
			"  - { name: sum, type: aggregate, function: count }\nsinks:").Replace(largePipeline), 200, jobChangedOf("RUNNING")},
	{submitRoute, "/api/v1/processing/jobs?namespace=_system", strings.Replace(largePipeline, "namespace: pipes\n", "", 1), 400, failure},
	{submitRoute, "/api/v1/processing/jobs?name=x", largePipeline, 400, failure},
	{submitRoute, "/api/v1/processing/jobs", "", 400, failure},
	{submitRoute, "/api/v1/processing/jobs", "kind: Processing\nname: [", 400, failure},
	{submitRoute, "/api/v1/processing/jobs", largePipeline + "wrong: 1\n", 400, failure},
	{stopRoute, "/api/v1/processing/jobs/{job}/stop", "", 200, jobChangedOf("STOPPED")},
	{stopRoute, "/api/v1/processing/jobs/{job}/stop?namespace=pipes", "", 200, jobChangedOf("STOPPED")},
	{stopRoute, "/api/v1/processing/jobs/{job}/stop?namespace=shop", "", 404, failure},
	{stopRoute, "/api/v1/processing/jobs/job-7/stop", "", 404, failure},
	{stopRoute, "/api/v1/processing/jobs/{job}/stop?force=true", "", 400, failure},
	{endRoute, "/api/v1/processing/jobs/{job}", "", 200, jobChangedOf("CANCELLED")},
	{endRoute, "/api/v1/processing/jobs/{job}?namespace=pipes", "", 200, jobChangedOf("CANCELLED")},
	{endRoute, "/api/v1/processing/jobs/none", "", 404, failure},
	{stopRoute, "/api/v1/processing/jobs/{job}/stop", "", 409, failure},
	{jobRoute, "/api/v1/processing/jobs/{job}", "", 200,
		with(jobOf("CANCELLED", is{2}, stoppedMetrics), fields{"yaml": is{largePipeline}, "savepoints": items{}})},
}

// TestSpreadJob: a job in a spread namespace is one job, with the records of all shards. An error
// about something it cannot do there names the operator.
func TestSpreadJob(t *testing.T) {
	node, ctx := openNode(t), t.Context()
	if err := node.Namespaces().Create(ctx, "broad", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	if err := node.Stream("broad").Create(ctx, "orders", stream.Partitions(8)); err != nil {
		t.Fatal(err)
	}
	base := serve(t, New(node, Options{})) + "/api/v1/processing/jobs"
	pipeline := strings.Replace(largePipeline, "namespace: pipes", "namespace: broad", 1)
	if err := node.Namespaces().Create(ctx, "wide", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	looking := strings.Replace(pipeline, "sinks:", "  - { name: user, type: kv_lookup, lookup_key: $.id, namespace: wide }\nsinks:", 1)
	if got := send(t, "POST "+base+"?namespace=broad", looking); got.status != 400 ||
		!strings.Contains(string(got.body), `operator \"user\": namespace \"wide\" is spread`) {
		t.Error(got)
	}
	if got := send(t, "POST "+base, pipeline); got.status != 200 {
		t.Fatal(got)
	}
	for i := range 24 {
		msg := stream.Message{Key: fmt.Sprint(i), Payload: fmt.Appendf(nil, `{"amount":%d}`, 90+i)}
		if _, err := node.Stream("broad").Append(ctx, "orders", msg); err != nil {
			t.Fatal(err)
		}
	}
	page, err := node.Processing("broad").Page(ctx)
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("jobs %+v, %v", page, err)
	}
	id := page.Items[0].ID
	awaitJob(t, node.Processing("broad"), id, 24)
	for _, request := range []string{"GET " + base + "/" + string(id), "GET " + base + "?namespace=broad"} {
		if got := send(t, request, ""); got.status != 200 || !strings.Contains(string(got.body), `"records_processed":24`) {
			t.Error(request, got)
		}
	}
	for _, request := range []string{"PUT " + base + "/" + string(id) + "/stop", "DELETE " + base + "/" + string(id)} {
		if got := send(t, request, ""); got.status != 200 {
			t.Error(request, got)
		}
	}
}

// TestFailedJob: the console shows the record on which a job failed; the specified detail does not.
func TestFailedJob(t *testing.T) {
	node, ctx := openNode(t), t.Context()
	if err := node.Stream("pipes").Create(ctx, "orders", stream.Partitions(4)); err != nil {
		t.Fatal(err)
	}
	bad, err := node.Stream("pipes").Append(ctx, "orders", stream.Message{Payload: []byte(`no JSON`)}, stream.Partition(3))
	if err != nil {
		t.Fatal(err)
	}
	jobs := node.Processing("pipes")
	made, err := jobs.Submit(ctx, []byte(strings.NewReplacer("name: large\n", "name: large\non_error: fail\n",
		"json:$.amount>100", "expr: amount > 100").Replace(largePipeline)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for status := processing.Running; status == processing.Running; {
		j, err := jobs.Get(ctx, made.Job)
		if err != nil {
			t.Fatal(err)
		}
		status = j.Status
	}
	a := &asker{t, node, New(node, Options{})}
	got := valueAt(a.ask(200, "GET /console/processing/jobs/"+string(made.Job), ""), "failure")
	shape := fields{
		"operator": is{"only"}, "reason": text, "source": is{"orders"}, "stream": is{"orders"}, "measurement": is{""}, "partition": is{3},
		"record_id": is{bad.ID.String()}, "offset": is{int(bad.Offset)},
	}
	for _, problem := range shape.check("failure", got) {
		t.Error(problem)
	}
	if f := valueAt(a.ask(200, "GET /processing/jobs/"+string(made.Job)+"?fields=all", ""), "failure"); f != nil {
		t.Errorf("the specified detail has the failure %v", f)
	}
}
