package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// scraped returns the series of an answer: "name{labels}" and its value. scraped returns all
// series, when what is gathered in the background has been gathered once: a scrape waits for that
// for a second only.
func scraped(t *testing.T, h http.Handler, token string) map[string]float64 {
	t.Helper()
	for t.Context().Err() == nil {
		if all := scrapedNow(t, h, token); hasMetric(all, "floe_metrics_objects_not_read") {
			return all
		}
	}
	t.Fatal("nothing is gathered in the background")
	return nil
}

func scrapedNow(t *testing.T, h http.Handler, token string) map[string]float64 {
	t.Helper()
	got := record(h, request("GET", "/metrics", "", token))
	if got.status != 200 {
		t.Fatalf("GET /metrics: %v", got)
	}
	all := make(map[string]float64)
	for line := range strings.Lines(string(got.body)) {
		name, value, found := cutLast(strings.TrimSpace(line))
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("series %q: %v", line, err)
		}
		all[name] = v
	}
	return all
}

func cutLast(line string) (before, after string, found bool) {
	at := strings.LastIndexByte(line, ' ')
	if at < 0 {
		return "", "", false
	}
	return line[:at], line[at+1:], true
}

// TestExporter: the metrics say what was done, and what there is.
func TestExporter(t *testing.T) {
	node := openNode(t)
	ctx := t.Context()
	jobs, events := node.Queue("shop"), node.Stream("shop")
	for range 3 {
		if _, err := jobs.Enqueue(ctx, "mail", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := events.Append(ctx, "orders", stream.Message{Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := jobs.Dequeue(ctx, "mail"); err != nil {
		t.Fatal(err)
	}
	if err := events.Groups("orders").Create(ctx, "bills", stream.FromBeginning()); err != nil {
		t.Fatal(err)
	}
	if _, err := node.KV("shop").Get(ctx, "none"); err == nil {
		t.Fatal("a key that there is not")
	}
	h := NewExporter(node, Options{})
	all := scraped(t, h, "")
	for series, want := range map[string]float64{
		`floe_ready`: 1,
		`floe_queue_ready{namespace="shop",queue="mail"}`:                                2,
		`floe_queue_inflight{namespace="shop",queue="mail"}`:                             1,
		`floe_queue_enqueued_total{namespace="shop",queue="mail"}`:                       3,
		`floe_group_lag{group="bills",namespace="shop",stream="orders"}`:                 3,
		`floe_stream_appended_total{namespace="shop",stream="orders"}`:                   3,
		`floe_operations_total{operation="enqueue",primitive="queue"}`:                   3,
		`floe_operation_errors_total{primitive="kv",reason="busy"}`:                      0,
		`floe_operation_duration_seconds_count{kind="write",primitive="queue"}`:          4,
		`floe_operation_duration_seconds_bucket{kind="write",primitive="queue",le="16"}`: 4,
		`floe_shard_leader{shard="0"}`:                                                   1,
		`floe_metrics_objects_limit`:                                                     1000,
		`floe_metrics_objects_left_out{kind="queue"}`:                                    0,
		`floe_metrics_scrape_errors`:                                                     0,
	} {
		if got, ok := all[series]; !ok || got != want {
			t.Errorf("%s is %v (there: %t), want %v", series, got, ok, want)
		}
	}
	for _, name := range []string{"floe_fsync_duration_seconds_count", "floe_store_flushes_total", "floe_shard_applied_index",
		"go_goroutines", "process_resident_memory_bytes"} {
		if !hasMetric(all, name) {
			t.Errorf("there is no %s", name)
		}
	}
	for series := range all {
		if strings.Contains(series, `"_system"`) {
			t.Errorf("a series is about a system namespace: %s", series)
		}
	}
}

func hasMetric(all map[string]float64, name string) bool {
	for series := range all {
		if metric, _, _ := strings.Cut(series, "{"); metric == name {
			return true
		}
	}
	return false
}

// TestExporterIsBounded: many queues and streams make no more series than are allowed. The rest is
// in one, and how many they are is said.
func TestExporterIsBounded(t *testing.T) {
	const own, count = 10, 10_000
	node := openNode(t)
	txn := node.Txn("many")
	for i := range count {
		txn.Do(queue.EnqueueOp(fmt.Sprintf("x%05d", i), []byte("x")),
			stream.AppendOp(fmt.Sprintf("x%05d", i), stream.Message{Payload: []byte("x")}))
		if i%100 < 99 && i < count-1 {
			continue
		}
		if _, err := txn.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		txn = node.Txn("many")
	}
	all := scraped(t, NewExporter(node, Options{MetricsObjects: own}), "")
	none := scraped(t, NewExporter(node, Options{MetricsObjects: -1}), "")
	for kind, metric := range map[string]string{"queue": "floe_queue_ready", "stream": "floe_stream_records"} {
		named := regexp.MustCompile(fmt.Sprintf(`^%s\{namespace="many",%s="x\d+"\}$`, metric, kind))
		n := 0
		for series := range all {
			if named.MatchString(series) {
				n++
			}
		}
		others := fmt.Sprintf(`%s{namespace="_other",%s=""}`, metric, kind)
		rest, left := all[others], all[fmt.Sprintf("floe_metrics_objects_left_out{kind=%q}", kind)]
		if want := float64(count - own); n != own || rest != want || left != want ||
			all[fmt.Sprintf("floe_metrics_objects_not_read{kind=%q}", kind)] != 0 {
			t.Errorf("%d of %d have a %s of their own, the rest comes to %v, %v were left out", n, count, metric, rest, left)
		}
		if none[others] != float64(count) {
			t.Errorf("%s without series of their own: %v, want %d", metric, none[others], count)
		}
	}
}

// TestExporterShowsTheBudget: what jobs may remember of their state is a part of the memory that
// the node was given.
func TestExporterShowsTheBudget(t *testing.T) {
	node, err := floe.Open(floe.Config{Memory: budget.Least, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	limits := budget.Divide(budget.Least, 1)
	if got := scraped(t, NewExporter(node, Options{}), "")["floe_state_cache_limit_bytes"]; got != float64(limits.State) {
		t.Errorf("jobs may remember %v bytes, want %d", got, limits.State)
	}
}

// TestExporterRoles: testdata/exporter_roles.txt says who may see what of the exporter, generated
// from its routes.
func TestExporterRoles(t *testing.T) {
	node := openNode(t)
	h, api := NewExporter(node, Options{}), New(node, Options{})
	checkError(t, "an unknown path", record(h, request("GET", "/api/v1/namespaces", "", "")), 404, "no endpoint")
	checkError(t, "a write", record(h, request("POST", "/metrics", "", "")), 405, "not allowed")
	admin := bootstrap(t, node)
	_, reader := newKey(t, node, floe.RoleRead)
	_, some := newKey(t, node, floe.RoleWrite, floe.ForNamespaces("shop"))
	wanted := readRolesOf(t, "testdata/exporter_roles.txt")
	for _, rt := range exporterRoutes {
		want, ok := wanted[rt.method+" "+rt.path]
		if !ok {
			t.Errorf("%s %s is not in testdata/exporter_roles.txt", rt.method, rt.path)
		}
		for who, c := range map[string]struct {
			shown  string
			status int
		}{
			"nobody": {"", 401}, "a wrong key": {"floe_sk_0123456789abcdef_00", 401}, "a wrong token": {"x", 401},
			"a reader's key": {reader, 200}, "an admin's key": {admin, 200}, "a reader's session": {login(t, api, reader), 200},
			"a key for some namespaces": {some, 403},
		} {
			if want == "public" {
				c.status = 200
			}
			if got := record(h, request(rt.method, rt.path, "", c.shown)); got.status != c.status {
				t.Errorf("%s %s with %s: %v, want %d", rt.method, rt.path, who, got, c.status)
			}
		}
	}
}

// TestExporterHost: a foreign site that points its name at this machine reads nothing but /health.
func TestExporterHost(t *testing.T) {
	h := NewExporter(openNode(t), Options{LoopbackOnly: true, Hosts: []string{"metrics.internal"}})
	for host, want := range map[string]int{"localhost:9001": 200, "127.0.0.1": 200, "metrics.internal:9001": 200, "evil.example": 421} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = host
		if got := record(h, r); got.status != want {
			t.Errorf("host %s: %v, want %d", host, got, want)
		}
		r = httptest.NewRequest("GET", "/health", nil)
		r.Host = host
		if got := record(h, r); got.status != 200 || string(got.body) != `{"status":"ok","shards":4}`+"\n" {
			t.Errorf("health of host %s: %v", host, got)
		}
	}
}

// TestExporterOfClosedNode: a scrape of a node that is closed, or closes, ends; it says that the
// node is not ready.
func TestExporterOfClosedNode(t *testing.T) {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := NewExporter(node, Options{})
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if got := record(h, request("GET", "/health", "", "")); got.status != 503 {
		t.Errorf("health: %v", got)
	}
	if got := record(h, request("GET", "/metrics", "", "")); got.status == 500 {
		t.Errorf("metrics: %v", got)
	}
}

// TestExporterOfJobs: what each operator of a job has done is told; operators beyond those with
// series of their own are summed up in one.
func TestExporterOfJobs(t *testing.T) {
	node := openNode(t)
	ctx := t.Context()
	for _, payload := range []string{`{"n":1}`, `{"n":200}`, `{}`, `x`} {
		if _, err := node.Stream("shop").Append(ctx, "orders", stream.Message{Payload: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
	}
	jobs := node.Processing("shop")
	made, err := jobs.Submit(ctx, []byte(`
name: sums
sources: [{ name: orders, stream: { name: orders } }]
operators:
  - { name: all, type: passthrough }
  - { name: sum, type: aggregate, function: sum, field: $.n }
sinks: [{ name: out, stream: { name: sums } }]
`))
	if err != nil {
		t.Fatal(err)
	}
	awaitJob(t, jobs, made.Job, 4)
	labels := func(operator string) string {
		return fmt.Sprintf(`{job=%q,name="sums",namespace="shop",operator=%q}`, made.Job, operator)
	}
	all := scraped(t, NewExporter(node, Options{}), "")
	for series, want := range map[string]float64{
		`floe_job_operator_records_in_total` + labels("all"):                                 4,
		`floe_job_operator_records_out_total` + labels("all"):                                4,
		`floe_job_operator_records_in_total` + labels("sum"):                                 4,
		`floe_job_operator_records_out_total` + labels("sum"):                                2,
		`floe_job_operator_errors_total` + labels("sum"):                                     1,
		`floe_job_operator_dropped_total` + labels("sum"):                                    1,
		`floe_job_operator_late_total` + labels("sum"):                                       0,
		`floe_metrics_objects_left_out{kind="operator"}`:                                     0,
		`floe_job_errors_total{job="` + string(made.Job) + `",name="sums",namespace="shop"}`: 1,
	} {
		if got, ok := all[series]; !ok || got != want {
			t.Errorf("%s is %v (there: %t), want %v", series, got, ok, want)
		}
	}
	all = scraped(t, NewExporter(node, Options{MetricsObjects: 1}), "")
	rest := all[`floe_job_operator_records_out_total{job="",name="",namespace="_other",operator=""}`]
	if left := all[`floe_metrics_objects_left_out{kind="operator"}`]; rest != 2 || left != 1 || hasSeries(all, labels("sum")) {
		t.Errorf("of operators that were left out there are %v, which have made %v records", left, rest)
	}
}

func hasSeries(all map[string]float64, labels string) bool {
	for series := range all {
		if strings.HasSuffix(series, labels) {
			return true
		}
	}
	return false
}

// TestExporterAtCapacity: one scrape too many is told to come again.
func TestExporterAtCapacity(t *testing.T) {
	e := NewExporter(openNode(t), Options{}).(*exporter)
	for range maxScrapes {
		e.scrapes <- struct{}{}
	}
	got := record(e, request("GET", "/metrics", "", ""))
	if checkError(t, "a scrape too many", got, 429, "4 scrapes are under way"); got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: %v", got.header)
	}
	if got := record(e, request("GET", "/health", "", "")); got.status != 200 {
		t.Errorf("health: %v", got)
	}
	<-e.scrapes
	if got := record(e, request("GET", "/metrics", "", "")); got.status != 200 || len(e.scrapes) != maxScrapes-1 {
		t.Errorf("when one has ended: %v, %d scrapes", got, len(e.scrapes))
	}
}

// again is an error that knows when to come again.
type again time.Duration

func (again) Error() string               { return "later" }
func (a again) RetryAfter() time.Duration { return time.Duration(a) }

func TestRetryAfter(t *testing.T) {
	for want, err := range map[string]error{"1": engine.ErrBusy, "60": fmt.Errorf("busy: %w", again(59*time.Second+1)),
		"2": again(2 * time.Second)} {
		if got := retryAfter(err); got != want {
			t.Errorf("%v: Retry-After %s, want %s", err, got, want)
		}
	}
}
