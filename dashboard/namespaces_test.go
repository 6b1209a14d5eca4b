package dashboard

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// summaryOf is the summary of a namespace with so many streams, queues, keys, actions and
// workflows.
func summaryOf(name string, streams, queues, keys, actions, workflows int) fields {
	return fields{
		"name": is{name}, "stream_count": is{streams}, "queue_count": is{queues}, "kv_count": is{keys}, "workflow_count": is{workflows},
		"processing_count": is{0}, "action_count": is{actions}, "is_system": is{false},
	}
}

// pipes is the namespace of the jobs.
var pipes = with(summaryOf("pipes", 2, 0, 0, 0, 0), fields{"processing_count": is{2}})

const deleteNamespaceRoute = "DELETE /api/v1/namespaces/:namespace"

var namespaceContract = []contractRow{
	{"GET /api/v1/namespaces", "/api/v1/namespaces", "", 200,
		items{summaryOf("default", 0, 0, 0, 0, 0), pipes, summaryOf("shop", 2, 2, 6, 2, 2), summaryOf("wide", 1, 0, 3, 0, 0)}},
	{"GET /api/v1/namespaces", "/api/v1/namespaces?limit=1&after=pipes", "", 200, items{summaryOf("shop", 2, 2, 6, 2, 2)}},
	{"GET /api/v1/namespaces", "/api/v1/namespaces?after=zz", "", 200, items{}},
	{"GET /api/v1/namespaces", "/api/v1/namespaces?limit=0", "", 400, failure},
	{"GET /api/v1/namespaces/:namespace", "/api/v1/namespaces/shop", "", 200, fields{
		"name": is{"shop"}, "stream_count": is{2}, "queue_count": is{2}, "kv_count": is{6}, "workflow_count": is{2},
		"processing_count": is{0}, "action_count": is{2}, "is_system": is{false}, "created_at": integer,
	}},
	{"GET /api/v1/namespaces/:namespace", "/api/v1/namespaces/nowhere", "", 404, failure},
	{"GET /api/v1/namespaces/:namespace", "/api/v1/namespaces/shop?namespace=wide", "", 400, failure},
	{"GET /api/v1/namespaces/:namespace/streams", "/api/v1/namespaces/shop/streams?limit=1001", "", 400, failure},
	{"GET /api/v1/namespaces/:namespace/queues", "/api/v1/namespaces/shop/queues?after=x&after=y", "", 400, failure},
	{"GET /api/v1/namespaces/:namespace/kv", "/api/v1/namespaces/wide/kv", "", 200, list{scanItemShape}},
	{"GET /api/v1/namespaces/:namespace/kv", "/api/v1/namespaces/wide/kv?limit=1&after=w1", "", 200, items{
		fields{"key": is{"w2"}, "size": is{1}, "version": integer},
	}},
	{"GET /api/v1/namespaces/:namespace/kv", "/api/v1/namespaces/wide/kv?limit=1&after=dzE%3D&encoding=base64", "", 200, items{
		fields{"key": is{"dzI="}, "size": is{1}, "version": integer},
	}},
	{"GET /api/v1/namespaces/:namespace/kv", "/api/v1/namespaces/wide/kv?after=w1&encoding=base64", "", 400, failure},
	{"GET /api/v1/namespaces/:namespace/kv", "/api/v1/namespaces/nowhere/kv", "", 404, failure},
	{"POST /api/v1/namespaces", "/api/v1/namespaces?unknown=1", `{"name":"new"}`, 400, failure},
	{"POST /api/v1/namespaces", "/api/v1/namespaces?namespace=shop", `{"name":"new"}`, 200, fields{"ok": is{true}, "name": is{"new"}}},
	{"POST /api/v1/namespaces", "/api/v1/namespaces", `{"name":"new"}`, 409, failure},
	{"POST /api/v1/namespaces", "/api/v1/namespaces", `{"name":"default"}`, 409, failure},
	{"POST /api/v1/namespaces", "/api/v1/namespaces", `{"name":"_floe"}`, 400, failure},
	{"POST /api/v1/namespaces", "/api/v1/namespaces", `{"name":""}`, 400, failure},
	{"POST /api/v1/namespaces", "/api/v1/namespaces", `{}`, 400, failure},
	{"GET /api/v1/namespaces/:namespace", "/api/v1/namespaces/new", "", 200, fields{
		"name": is{"new"}, "stream_count": is{0}, "queue_count": is{0}, "kv_count": is{0}, "workflow_count": is{0},
		"processing_count": is{0}, "action_count": is{0}, "is_system": is{false}, "created_at": integer,
	}},
	{deleteNamespaceRoute, "/api/v1/namespaces/new", "", 200, fields{"ok": is{true}, "name": is{"new"}}},
	{deleteNamespaceRoute, "/api/v1/namespaces/new", "", 404, failure},
	{deleteNamespaceRoute, "/api/v1/namespaces/shop", "", 409, failure},
	{deleteNamespaceRoute, "/api/v1/namespaces/shop?force=true", "", 400, failure},
	{deleteNamespaceRoute, "/api/v1/namespaces/default", "", 400, failure},
	{"POST /api/v1/namespaces", "/api/v1/namespaces", `{"name":"new","spread":true}`, 409, failure}, // its placement cannot change
	{"POST /api/v1/namespaces", "/api/v1/namespaces", `{"name":"new","spread":1}`, 400, failure},
	{"POST /api/v1/namespaces", "/api/v1/namespaces", `{"name":"new","spread":false}`, 200, fields{"ok": is{true}, "name": is{"new"}}},
}

// TestNamespaceKeysContinue pages through the keys of a namespace with the last key of each page.
func TestNamespaceKeysContinue(t *testing.T) {
	node := openNode(t)
	base := serve(t, New(node, Options{}))
	var want, got []string
	for i := range 25 {
		key := fmt.Sprintf("key-%02d", i)
		want = append(want, key)
		if _, err := node.KV("default").Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	for after := ""; ; {
		var page []scanItem
		a := send(t, "GET "+base+"/api/v1/namespaces/default/kv?limit=10&after="+after, "")
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatalf("%v: %v", a, err)
		}
		if len(page) == 0 {
			break
		}
		for _, item := range page {
			got = append(got, item.Key)
		}
		after = got[len(got)-1]
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
