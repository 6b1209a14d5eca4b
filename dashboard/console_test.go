package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe"
)

const (
	meRoute          = "GET /api/v1/console/me"
	validateRoute    = "POST /api/v1/console/validate"
	ratesRoute       = "GET /api/v1/console/rates"
	shardsRoute      = "GET /api/v1/console/shards"
	problemsRoute    = "GET /api/v1/console/problems"
	jobWorkRoute     = "GET /api/v1/console/processing/jobs/:id"
	queueStateRoute  = "GET /api/v1/console/queues/:name"
	streamStateRoute = "GET /api/v1/console/streams/:name"
	keyListRoute     = "GET /api/v1/console/keys"
	activityRoute    = "GET /api/v1/console/streams/:name/activity"
)

var consoleContract = []contractRow{
	{meRoute, "/api/v1/console/me", "", 200, fields{"role": is{"admin"}, "namespaces": is{nil}, "expires_at": is{nil},
		"read_only": is{false}, "client_addr": text}},
	{keyListRoute, "/api/v1/console/keys", "", 200, items{}},
	{validateRoute, "/api/v1/console/validate?kind=workflow", orderFlow, 200, fields{
		"problems": items{},
		"graph": fields{
			"nodes": items{
				fields{"id": is{"_start"}, "kind": is{"wait"}, "label": is{"signal approval"}, "line": is{3}},
				fields{"id": is{"end:flo.Completed"}, "kind": is{"end-completed"}, "label": is{"flo.Completed"}, "line": is{0}},
				fields{"id": is{"end:Rejected"}, "kind": is{"end-failed"}, "label": is{"Rejected"}, "line": is{7}},
			},
			"edges": list{fields{"from": is{"_start"}, "to": text, "label": text}},
		},
	}},
	{validateRoute, "/api/v1/console/validate?kind=workflow", "name: x\nbogus: 1\n", 200, fields{
		"problems": list{fields{"line": integer, "column": integer, "severity": text, "message": text}}, "graph": fields{"nodes": items{},
			"edges": items{}},
	}},
	{validateRoute, "/api/v1/console/validate?kind=processing", largePipeline, 200, fields{
		"problems": items{fields{"line": is{6}, "column": is{0}, "severity": is{"warning"}, "message": text}},
		"graph": fields{
			"nodes": items{
				fields{"id": is{"orders"}, "kind": is{"stream"}, "label": is{"orders"}, "line": is{5}},
				fields{"id": is{"only"}, "kind": is{"filter"}, "label": is{"json:$.amount>100"}, "line": is{8}},
				fields{"id": is{"out"}, "kind": is{"stream"}, "label": is{"large"}, "line": is{12}},
			},
			"edges": items{
				fields{"from": is{"orders"}, "to": is{"only"}, "label": is{""}}, fields{"from": is{"only"}, "to": is{"out"},
					"label": is{""}},
			},
		},
	}},
	{ratesRoute, "/api/v1/console/rates", "", 200,
		fields{"step_ms": is{1000}, "commands": numbers{}, "bytes_in": numbers{}, "bytes_out": numbers{}}},
	{shardsRoute, "/api/v1/console/shards", "", 200, list{fields{
		"id": integer, "leader": is{1}, "behind": is{0}, "lsn": integer, "queued": integer, "waiting": integer,
	}}},
	{problemsRoute, "/api/v1/console/problems?namespace=calm", "", 200, fields{
		"namespace": is{"calm"}, "problems": items{}, "partial": items{}, "truncated": is{false},
	}},
	{problemsRoute, "/api/v1/console/problems?namespace=a%00b", "", 400, failure},
	{validateRoute, "/api/v1/console/validate?kind=poem", "x", 400, failure},
	{validateRoute, "/api/v1/console/validate", "x", 400, failure},
	{activityRoute, "/api/v1/console/streams/orders/activity?namespace=shop&from=1000&to=1999&buckets=2", "", 200, fields{
		"from": is{1000}, "to": is{2000}, "step_ms": is{500}, "records": items{is{0}, is{0}}, "bytes": items{is{0}, is{0}},
	}},
	{activityRoute, "/api/v1/console/streams/orders/activity?namespace=shop&from=1000", "", 400, failure},
	{activityRoute, "/api/v1/console/streams/orders/activity?namespace=shop&from=2000&to=1000", "", 400, failure},
	{activityRoute, "/api/v1/console/streams/orders/activity?namespace=shop&from=1000&to=2000&partition=9", "", 400, failure},
	{activityRoute, "/api/v1/console/streams/none/activity?namespace=shop&from=1000&to=2000", "", 404, failure},

	{keyRoute, shopKeys + "/user:1?version=1", "", 200, fields{
		"found": is{true}, "key": is{"user:1"}, "namespace": is{"shop"}, "value": is{"Ada"}, "version": is{1}, "size": is{3},
		"updated_at": integer, "ttl_ms": is{nil},
	}},
	{keyRoute, shopKeys + "/user:1?version=9", "", 404,
		fields{"error": text, "found": is{false}, "key": is{"user:1"}, "namespace": is{"shop"}}},
	{keyRoute, shopKeys + "/user:1?version=0", "", 400, failure},
	{messagesRoute, mailPath + "/messages?namespace=shop&limit=1&after=10-4&max_payload=4", "", 200,
		items{messageOf(3, 100, "ready", 0, is{0}, 9, "to: ")}},
	{queueStateRoute, "/api/v1/console/queues/mail?namespace=shop", "", 200, fields{
		"name": is{"mail"}, "paused": is{false}, "max_len": integer, "max_bytes": integer, "max_attempts": integer,
		"backoff_min_ms": integer, "backoff_max_ms": integer, "dead_retention_ms": integer, "dedup_window_ms": integer,
		"truncated": is{false},
		"dead": items{fields{"seq": is{1}, "reason": is{"no such address"}, "died_at": integer},
			fields{"seq": is{2}, "reason": text, "died_at": integer}},
		"reasons": list{fields{"reason": text, "count": integer}},
	}},
	{queueStateRoute, "/api/v1/console/queues/mail", "", 404, failure},
	{streamStateRoute, "/api/v1/console/streams/orders?namespace=shop", "", 200, fields{
		"name": is{"orders"}, "retention": fields{"max_age_ms": integer, "max_len": integer, "max_bytes": integer},
	}},
	{streamStateRoute, "/api/v1/console/streams/none", "", 404, failure},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&limit=1&partition=1&max_payload=2&fields=all", "", 200,
		items{recordOf(1, 3, "", fields{}, "tw")}},
}

// numbers is an array of integers, which may be empty.
type numbers struct{}

func (numbers) check(at string, value any) []string {
	got, ok := value.([]any)
	if !ok {
		return []string{fmt.Sprintf("%s is %v, want an array", at, value)}
	}
	var diffs []string
	for i, item := range got {
		diffs = append(diffs, integer.check(fmt.Sprintf("%s[%d]", at, i), item)...)
	}
	return diffs
}

// consoleWrites come when the rows of keys have been.
var consoleWrites = []contractRow{
	{"PUT " + strings.TrimPrefix(keyRoute, "GET "), shopKeys + "/edited", `{"value":"one"}`, 200, fields{
		"ok": is{true}, "key": is{"edited"}, "namespace": is{"shop"}, "version": is{1}, "lsn": integer,
	}},
	{"PUT " + strings.TrimPrefix(keyRoute, "GET "), shopKeys + "/edited?if_version=2", `{"value":"two"}`, 409, failure},
	{"PUT " + strings.TrimPrefix(keyRoute, "GET "), shopKeys + "/edited?if_version=1", `{"value":"two"}`, 200, fields{
		"ok": is{true}, "key": is{"edited"}, "namespace": is{"shop"}, "version": is{2}, "lsn": integer,
	}},
	{"PUT " + strings.TrimPrefix(keyRoute, "GET "), shopKeys + "/never?if_version=1", `{"value":"two"}`, 404, failure},
	{"PUT " + strings.TrimPrefix(keyRoute, "GET "), shopKeys + "/never?if_version=0", `{"value":"two"}`, 400, failure},
}

// TestConsole: the console is there at every mount, under its policy; what is no file of it is JSON
// as before; the mount without its slash leads to it.
func TestConsole(t *testing.T) {
	node := openNode(t)
	for _, m := range mounts {
		base := serve(t, m.mount(New(node, Options{}))) + m.prefix
		got := send(t, "GET "+base+"/", "")
		if got.status != 200 || got.header.Get("Content-Type") != "text/html; charset=utf-8" ||
			!strings.Contains(got.header.Get("Content-Security-Policy"), "script-src 'self'") {
			t.Errorf("GET %s/ = %v, %v", m.prefix, got.status, got.header)
		}
		if got := send(t, "HEAD "+base+"/", ""); got.status != 200 || len(got.body) > 0 {
			t.Errorf("HEAD %s/ = %v", m.prefix, got)
		}
		checkError(t, "POST /", send(t, "POST "+base+"/", ""), 405, "method POST")
		checkError(t, "GET /assets/none.js", send(t, "GET "+base+"/assets/none.js", ""), 404, "no endpoint")
	}
	bare := send(t, "GET "+serve(t, mounts[1].mount(New(node, Options{})))+mounts[1].prefix, "")
	if bare.status != 308 || bare.header.Get("Location") != "./floe/" {
		t.Errorf("GET %s = %v, Location %q", mounts[1].prefix, bare, bare.header.Get("Location"))
	}
}

// TestKeyList: an admin reads all keys, without their secrets.
func TestKeyList(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	admin := bootstrap(t, node)
	id, _ := newKey(t, node, floe.RoleWrite, floe.KeyName("till"), floe.ForNamespaces("shop"))
	got := record(h, request("GET", keysPath+"?limit=2", "", login(t, h, admin)))
	record := func(id, name, role, namespaces shape) fields {
		return fields{"id": id, "name": name, "role": role, "namespaces": namespaces, "created_at": integer, "expires_at": is{nil},
			"last_used_at": optional{integer}}
	}
	row := contractRow{status: 200, want: items{record(text, is{""}, is{"admin"}, is{nil}), record(is{id}, is{"till"}, is{"write"},
		items{is{"shop"}})}}
	if !strings.HasPrefix(string(got.body), `[{"id":"`+admin[len("floe_sk_"):][:16]) {
		slices.Reverse(row.want.(items)) // they are in the order of their ids
	}
	for _, diff := range row.diffs(got) {
		t.Errorf("%s\n%v", diff, got)
	}
}

// TestReadOnly: a dashboard for reading refuses whatever changes something, and nothing else.
func TestReadOnly(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{ReadOnly: true})
	for _, rt := range allRoutes() {
		target := strings.NewReplacer(":", "").Replace(rt.path)
		got := record(h, request(rt.method, target, "", ""))
		reads := rt.method == "GET" || reading[rt.method+" "+rt.path]
		if reads == (got.status == 403) {
			t.Errorf("%s %s = %v", rt.method, target, got)
		}
	}
	if got := get(h, "/api/v1/console/me"); !strings.Contains(string(got.body), `"read_only":true`) {
		t.Errorf("GET console/me = %v", got)
	}
}
