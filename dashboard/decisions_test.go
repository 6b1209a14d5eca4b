package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// asker sends requests to a handler whose node seed has filled.
type asker struct {
	*testing.T
	node *floe.Node
	h    http.Handler
}

func newAsker(t *testing.T) *asker {
	node := openNode(t)
	seed(t, node)
	return &asker{t, node, New(node, Options{})}
}

// ask sends a request, such as "GET /queues", and returns the JSON of the answer, whose status must
// be as given.
func (a *asker) ask(status int, send, body string) any {
	a.Helper()
	got := a.answer(send, body)
	if got.status != status {
		a.Errorf("%s: %v, want %d", send, got, status)
	}
	return decoded(a.T, got)
}

func (a *asker) answer(send, body string) answer {
	for name, id := range seededIDs {
		send = strings.ReplaceAll(send, name, id)
	}
	method, target, _ := strings.Cut(send, " ")
	if !strings.HasPrefix(target, "/health") {
		target = "/api/v1" + target
	}
	return record(a.h, httptest.NewRequest(method, target, strings.NewReader(body)))
}

func decoded(t *testing.T, got answer) (value any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(got.body))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		t.Errorf("%v: %v", got, err)
	}
	return value
}

// valueAt returns a member of an object, by its path.
func valueAt(value any, path ...string) any {
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

// named returns the item of an array whose name is that.
func named(value any, name string) any {
	all, _ := value.([]any)
	if i := slices.IndexFunc(all, func(v any) bool { return valueAt(v, "name") == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// numberAt returns a member as a number, -1 if it is none.
func numberAt(value any, path ...string) int64 {
	n, ok := valueAt(value, path...).(json.Number)
	if i, err := n.Int64(); ok && err == nil {
		return i
	}
	return -1
}

// TestDecisions has what was decided of the API where the specification is open or was read
// differently once, by the numbers of the decisions. D12 is TestBareRefusals of cmd/internal/cli.
func TestDecisions(t *testing.T) {
	for name, check := range map[string]func(*asker){
		"D2 a read of a key counts once, also if it expires":    readsOnce,
		"D3 ids are found without a namespace":                  idsAlone,
		"D4 a key of one namespace is about that one":           ownNamespace,
		"D6 errors have no addresses":                           noAddresses,
		"D7 trims are of the whole stream, and 0 needs force":   wholeTrims,
		"D8 ready is the same in summary and list":              oneReady,
		"D9 pages go on by after and cursor, and no other name": pagesGoOn,
		"D10 messages of streams have the specified fields":     bareMessages,
		"D11 health is 200 whatever its query":                  anyHealth,
		"D13 latencies have fractions":                          fractions,
		"D14 counts are those of what is listed":                trueCounts,
		"D15 below a missing namespace there is nothing":        nothingBelow,
		"D16 counters survive a restart":                        countersStay,
		"D17 the namespace of a definition counts":              definitionNamespaces,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { check(newAsker(t)) })
	}
}

func readsOnce(a *asker) {
	const key = "/kv/namespaces/fresh/keys/"
	a.ask(200, "PUT "+key+"stays", `{"value":"v"}`)
	a.ask(200, "PUT "+key+"expires", `{"value":"v","ttl_seconds":3600}`)
	reads := func() int64 { return numberAt(named(a.ask(200, "GET /kv/namespaces", ""), "fresh"), "get_ops") }
	start := reads()
	a.ask(200, "GET "+key+"stays", "")
	plain := reads() - start
	a.ask(200, "GET "+key+"expires", "")
	if expiring := reads() - start - plain; plain != 1 || expiring != 1 {
		a.Errorf("a read counts %d, one of a key that expires %d, want 1", plain, expiring)
	}
}

func idsAlone(a *asker) {
	for _, send := range []string{
		"GET /workers/w%2F1", "GET /workflow/runs/three", "GET /workflows/three", "GET /workflow/runs/three/history",
		"POST /workflow/runs/three/signal?signal=other", "DELETE /workflow/runs/three",
		"GET /processing/jobs/{job}", "PUT /processing/jobs/{job}/stop", "DELETE /processing/jobs/{job}",
	} {
		a.ask(200, send, "")
	}
	for _, namespace := range []string{"first", "second"} {
		a.ask(200, "POST /workflow/definitions?namespace="+namespace, orderFlow)
		a.ask(200, "POST /workflow/runs?workflow=order&run_id=same&namespace="+namespace, `{}`)
	}
	a.ask(400, "GET /workflow/runs/same", "") // which of them
	a.ask(200, "GET /workflow/runs/same?namespace=first", "")
	a.ask(404, "GET /workflow/runs/nowhere", "")
}

func ownNamespace(a *asker) {
	bootstrap(a, a.node)
	_, key := newKey(a, a.node, floe.RoleRead, floe.ForNamespaces("pipes"))
	token := login(a, a.h, key)
	for target, want := range map[string]string{
		"/processing/jobs/{job}": `"namespace":"pipes"`, "/console/processing/jobs/{job}": `"job_id"`, "/streams": `"orders"`,
		"/processing/jobs": `"large"`, "/namespaces": `"pipes"`,
	} {
		target = strings.ReplaceAll(target, "{job}", seededIDs["{job}"])
		if got := record(a.h, request("GET", "/api/v1"+target, "", token)); got.status != 200 || !strings.Contains(string(got.body), want) {
			a.Errorf("%s: %v, want %s", target, got, want)
		}
	}
	checkError(a, "a run of another namespace", record(a.h, request("GET", "/api/v1/workflow/runs/three", "", token)), 404, "not found")
}

func noAddresses(a *asker) {
	failed := engine.Errorf(engine.ErrUnavailable, "no connection: dial tcp 10.1.2.3:9000: connect: connection refused")
	h := New(backend{a.node, func(context.Context) (floe.Stats, error) { return floe.Stats{}, failed }}, Options{})
	if got := get(h, "/api/v1/metrics"); got.status != 503 || strings.Contains(string(got.body), "10.1.2.3") {
		a.Errorf("%v", got)
	}
}

func wholeTrims(a *asker) {
	if err := a.node.Stream("trims").Create(a.Context(), "s", stream.Partitions(4)); err != nil {
		a.Fatal(err)
	}
	for i := range 8 {
		if _, err := a.node.Stream("trims").Append(a.Context(), "s", stream.Message{Payload: []byte{'0' + byte(i)}},
			stream.Partition(i%4)); err != nil {
			a.Fatal(err)
		}
	}
	const trim = "POST /streams/s/trim?namespace=trims&max_len="
	a.ask(400, trim+"0", "")
	if a.ask(200, trim+"3", ""); a.stored() != 3 {
		a.Errorf("%d records after a trim to 3", a.stored())
	}
	if a.ask(200, trim+"0&force=true", ""); a.stored() != 0 {
		a.Errorf("%d records after a trim to 0", a.stored())
	}
}

// stored returns how many records the stream of wholeTrims has.
func (a *asker) stored() (n int64) {
	partitions, _ := valueAt(a.ask(200, "GET /streams/s?namespace=trims", ""), "partitions").([]any)
	for _, p := range partitions {
		n += numberAt(p, "records")
	}
	return n
}

func oneReady(a *asker) {
	for i, opts := range [][]queue.EnqueueOption{nil, {queue.Delay(time.Hour)}, nil} {
		if _, err := a.node.Queue("shop").Enqueue(a.Context(), "ready", []byte{byte('0' + i)}, opts...); err != nil {
			a.Fatal(err)
		}
	}
	if _, err := a.node.Queue("shop").Dequeue(a.Context(), "ready"); err != nil {
		a.Fatal(err)
	}
	messages, _ := a.ask(200, "GET /queues/ready/messages?namespace=shop", "").([]any)
	ready := int64(0)
	for _, m := range messages {
		if valueAt(m, "state") == "ready" {
			ready++
		}
	}
	summary := named(a.ask(200, "GET /queues?namespace=shop", ""), "ready")
	if detail := a.ask(200, "GET /queues/ready?namespace=shop", ""); ready != 2 || numberAt(summary, "ready") != ready ||
		numberAt(detail, "ready") != ready {
		a.Errorf("%d messages are ready, %v in the summary, %v in the detail", ready, summary, detail)
	}
}

func pagesGoOn(a *asker) {
	for _, list := range []string{"/namespaces?limit=1", "/queues?namespace=shop&limit=1", "/kv/namespaces/shop/keys?limit=1",
		"/streams/orders/messages?namespace=shop&limit=1", "/workflow/runs?namespace=shop&limit=1"} {
		first := a.answer("GET "+list, "")
		link, ok := strings.CutSuffix(strings.TrimPrefix(first.header.Get("Link"), "<?"), `>; rel="next"`)
		query, err := url.ParseQuery(link)
		if !ok || err != nil {
			a.Errorf("%s is cut and does not say so: Link %q", list, first.header.Get("Link"))
			continue
		}
		path, _, _ := strings.Cut(list, "?")
		next := a.answer("GET "+path+"?"+query.Encode(), "")
		if next.status != 200 || bytes.Equal(next.body, first.body) {
			a.Errorf("%s goes on with %v", list, next)
		}
		if after := query.Get("after"); after != "" {
			query.Del("after")
			query.Set("cursor", after)
		} else {
			query.Set("cursor", query.Get("cursor"))
		}
		if named := a.answer("GET "+path+"?"+query.Encode(), ""); !bytes.Equal(named.body, next.body) {
			a.Errorf("%s goes on with %v by cursor, %v by after", list, named, next)
		}
		for _, name := range []string{"offset", "page", "page_size", "size", "start", "skip", "pageToken"} {
			a.ask(400, "GET "+list+"&"+name+"=1", "")
		}
		a.ask(200, "GET "+list+"&unknown=1", "")
	}
}

func bareMessages(a *asker) {
	specified := []string{"id_ms", "id_seq", "payload", "size", "ual_index"}
	for query, want := range map[string][]string{"": specified,
		"&fields=all": slices.Sorted(slices.Values(append([]string{"headers", "key", "partition"}, specified...)))} {
		all, _ := a.ask(200, "GET /streams/orders/messages?namespace=shop"+query, "").([]any)
		if len(all) == 0 {
			a.Fatal("no messages")
		}
		for _, m := range all {
			if object, ok := m.(map[string]any); !ok || !slices.Equal(slices.Sorted(maps.Keys(object)), want) {
				a.Errorf("a message with %q is %v, want the fields %v", query, m, want)
			}
		}
	}
}

func anyHealth(a *asker) {
	for _, query := range []string{"", "?", "?limit=zero&namespace=", "?page=2", "?x=%zz", "?namespace=_system"} {
		if got := a.ask(200, "GET /health"+query, ""); valueAt(got, "status") != "ok" {
			a.Errorf("/health%s: %v", query, got)
		}
	}
}

func fractions(a *asker) {
	for _, send := range []string{"GET /processing/jobs/{job}", "GET /processing/jobs?namespace=pipes&limit=1"} {
		got := a.ask(200, send, "")
		if all, ok := got.([]any); ok {
			got = all[0]
		}
		for _, name := range []string{"latency_last_ms", "latency_avg_ms", "latency_max_ms"} {
			for _, diff := range (positive{}).check(name, valueAt(got, "metrics", name)) {
				a.Errorf("%s: %s", send, diff)
			}
		}
	}
	before := valueAt(a.ask(200, "GET /processing/jobs/{job}", ""), "metrics")
	a.ask(200, "PUT /processing/jobs/{job}/stop", "")
	after := valueAt(a.ask(200, "GET /processing/jobs/{job}", ""), "metrics")
	for _, name := range []string{"latency_avg_ms", "latency_max_ms"} {
		for _, diff := range (positive{}).check(name, valueAt(after, name)) {
			a.Errorf("stopped, with %v before: %s", before, diff)
		}
	}
}

func trueCounts(a *asker) {
	metrics := a.ask(200, "GET /metrics", "")
	listed, _ := a.ask(200, "GET /kv/namespaces", "").([]any)
	if n := numberAt(metrics, "kv_namespaces"); n != int64(len(listed)) || n != 2 {
		a.Errorf("kv_namespaces is %d, /kv/namespaces has %d, want 2", n, len(listed))
	}
	jobs, _ := a.ask(200, "GET /processing/jobs?namespace=pipes", "").([]any)
	if n := numberAt(a.ask(200, "GET /namespaces/pipes", ""), "processing_count"); n != int64(len(jobs)) || n != 2 {
		a.Errorf("processing_count is %d, %d jobs are listed", n, len(jobs))
	}
	// Three runs have come to their only step and got a signal each. A step that is waited in was
	// begun, and a signal that no step takes has been delivered.
	flows := valueAt(metrics, "workflows")
	if steps, signals := numberAt(flows, "steps_executed_total"), numberAt(flows, "signals_delivered_total"); steps != 3 || signals != 3 {
		a.Errorf("%d steps, %d signals, want 3: %v", steps, signals, flows)
	}
}

func nothingBelow(a *asker) {
	for _, path := range []string{"/namespaces/nowhere", "/namespaces/nowhere/streams", "/namespaces/nowhere/queues",
		"/namespaces/nowhere/kv", "/kv/namespaces/nowhere/keys", "/kv/namespaces/nowhere/keys/k/history"} {
		a.ask(404, "GET "+path, "")
	}
	a.ask(200, "GET /queues?namespace=nowhere", "")
	a.ask(200, "GET /kv/namespaces/default/keys", "")
}

func countersStay(a *asker) {
	dir := a.TempDir()
	open := func() *floe.Node {
		node, err := floe.Open(floe.Config{DataDir: dir, MaxValueSize: 64 << 10})
		if err != nil {
			a.Fatal(err)
		}
		a.h, a.node = New(node, Options{}), node
		return node
	}
	closed := func() {
		if err := a.node.Close(); err != nil {
			a.Error(err)
		}
	}
	seed(a.T, open())
	a.ask(200, "GET /kv/namespaces/shop/keys/user:1", "")
	a.ask(200, "PUT /processing/jobs/{job}/stop", "")
	a.ask(200, "PUT /kv/namespaces/shop/keys/user:2", `{"value":"v"}`)
	counters := func() map[string]int64 {
		all := make(map[string]int64)
		for send, names := range map[string][]string{
			"/kv/namespaces":          {"key_count", "bytes_stored", "get_ops", "set_ops", "delete_ops"},
			"/streams?namespace=shop": {"ingest_rate", "reads"},
			"/queues?namespace=shop":  {"enqueued", "dequeued", "dlq_count"},
			"/actions?namespace=shop": {"runs.total", "runs.completed", "runs.failed", "latency.count"},
			"/processing/jobs/{job}":  {"records_processed", "metrics.records_in", "metrics.records_out"},
			"/metrics": {"workflows.started_total", "workflows.completed_total", "workflows.failed_total",
				"workflows.steps_executed_total", "workflows.signals_delivered_total"},
		} {
			got := a.ask(200, "GET "+send, "")
			list, ok := got.([]any)
			if !ok {
				list = []any{got}
			}
			for _, one := range list {
				for _, name := range names {
					all[fmt.Sprintf("%s %v %s", send, valueAt(one, "name"), name)] = numberAt(one, strings.Split(name, ".")...)
				}
			}
		}
		return all
	}
	before := counters()
	totals := a.ask(200, "GET /cluster/stats", "")
	closed()
	open()
	defer closed()
	if after := counters(); !maps.Equal(before, after) {
		for name := range before {
			if before[name] != after[name] {
				a.Errorf("%s was %d, is %d after a restart", name, before[name], after[name])
			}
		}
	}
	for name, n := range before {
		if n < 0 {
			a.Errorf("there is no %s", name)
		}
	}
	again := a.ask(200, "GET /cluster/stats", "")
	for _, name := range []string{"commands_total", "bytes_received", "bytes_sent"} {
		if before, after := numberAt(totals, name), numberAt(again, name); after < before || before <= 0 {
			a.Errorf("%s was %d, is %d after a restart", name, before, after)
		}
	}
}

func definitionNamespaces(a *asker) {
	a.ask(200, "POST /workflow/definitions", "namespace: elsewhere\n"+orderFlow)
	a.ask(200, "GET /workflow/definitions/order?namespace=elsewhere", "")
	a.ask(404, "GET /workflow/definitions/order", "")
	made := a.ask(200, "POST /processing/jobs", strings.Replace(largePipeline, "name: large\n", "name: other\n", 1))
	id, _ := valueAt(made, "job_id").(string)
	if ns := valueAt(a.ask(200, "GET /processing/jobs/"+id, ""), "namespace"); ns != "pipes" {
		a.Errorf("the job is in %v", ns)
	}
	a.ask(400, "POST /workflow/definitions?namespace=shop", "namespace: elsewhere\n"+orderFlow)
	a.ask(400, "POST /processing/jobs?namespace=shop", largePipeline)
}
