package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

// longPolls are requests that wait, and what ends their waits.
var longPolls = []struct {
	request, body string
	wake          func(ctx context.Context, node *floe.Node) error
	answer        string // in the body
}{
	{"POST /api/v1/queues/q/dequeue", `{"wait_ms":60000}`, func(ctx context.Context, node *floe.Node) error {
		_, err := node.Queue("default").Enqueue(ctx, "q", []byte("woken"))
		return err
	}, `"payload":"woken"`},
	{"GET /api/v1/streams/s/records?wait_ms=60000", "", func(ctx context.Context, node *floe.Node) error {
		_, err := node.Stream("default").Append(ctx, "s", stream.Message{Payload: []byte("woken")})
		return err
	}, `"payload":"woken"`},
	{"POST /api/v1/streams/s/groups/g/read", `{"consumer":"c","wait_ms":60000}`, func(ctx context.Context, node *floe.Node) error {
		_, err := node.Stream("default").Append(ctx, "s", stream.Message{Payload: []byte("woken")})
		return err
	}, `"payload":"woken"`},
	{"POST /api/v1/workers/w/await", `{"actions":["a"],"wait_ms":60000}`, func(ctx context.Context, node *floe.Node) error {
		if _, err := node.Action("default").Register(ctx, "a"); err != nil {
			return err
		}
		_, err := node.Action("default").Invoke(ctx, "a", []byte(`"woken"`))
		return err
	}, `"input":"woken"`},
	{"GET /api/v1/actions/job/runs/{run}?wait_ms=60000", "", func(ctx context.Context, node *floe.Node) error {
		tasks, err := node.Action("default").Await(ctx, "w", []string{"job"})
		if err != nil || len(tasks) != 1 {
			return fmt.Errorf("%d tasks, %w", len(tasks), err)
		}
		return node.Action("default").Complete(ctx, tasks[0].Run, "w", []byte(`"woken"`))
	}, `"output":"woken"`},
	{"GET /api/v1/workflow/runs/flow-run?wait_ms=60000", "", func(ctx context.Context, node *floe.Node) error {
		tasks, err := node.Action("default").Await(ctx, "w", []string{"step"}, action.Wait(time.Minute))
		if err != nil || len(tasks) != 1 {
			return fmt.Errorf("%d tasks, %w", len(tasks), err)
		}
		return node.Action("default").Complete(ctx, tasks[0].Run, "w", nil)
	}, `"status":"completed"`},
	{"POST /api/v1/kv/namespaces/default/locks/l/acquire", `{"ttl_ms":1000,"wait_ms":60000}`, func(ctx context.Context, node *floe.Node) error {
		_, err := node.KV("default").Delete(ctx, "l")
		return err
	}, `"token":`},
}

// TestLongPolls: a request that waits takes no slot, so that other requests of a handler with one
// slot are served, and it ends as soon as there is something. Its place among the waiting requests
// is free afterwards.
func TestLongPolls(t *testing.T) {
	for _, p := range longPolls {
		t.Run(p.request, func(t *testing.T) {
			node := openNode(t)
			h := New(node, Options{MaxConcurrent: 1}).(*handler)
			if _, err := node.KV("default").Put(t.Context(), "l", nil); err != nil {
				t.Fatal(err)
			}
			done := poll(t.Context(), h, strings.ReplaceAll(p.request, "{run}", startRuns(t, node)), p.body, "")
			h.awaitWaiters(t, 1)
			if got := get(h, "/api/v1/queues"); got.status != 200 {
				t.Errorf("beside a request that waits: %v", got)
			}
			if err := p.wake(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			if got := <-done; got.status != 200 || !strings.Contains(string(got.body), p.answer) {
				t.Errorf("got %v, want %s", got, p.answer)
			}
			h.awaitWaiters(t, 0)
			if n := h.slots.taken; n != 0 {
				t.Errorf("%d slots are taken, want none", n)
			}
		})
	}
}

// startRuns starts a run of the action job, whose id it returns, and the run flow-run of a workflow
// that calls the action step.
func startRuns(t *testing.T, node *floe.Node) string {
	t.Helper()
	for _, name := range []string{"job", "step"} {
		if _, err := node.Action("default").Register(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	run, err := node.Action("default").Invoke(t.Context(), "job", nil)
	if err != nil {
		t.Fatal(err)
	}
	flows := node.Workflow("default")
	if _, err := flows.Create(t.Context(), []byte(waitingFlow)); err != nil {
		t.Fatal(err)
	}
	if _, err := flows.Start(t.Context(), "waits", nil, workflow.UseID("flow-run")); err != nil {
		t.Fatal(err)
	}
	return string(run.Run)
}

const waitingFlow = `
kind: Workflow
name: waits
version: 1.0.0
start:
  run: "@actions/step"
  transitions: { success: flo.Completed, failure: flo.Failed }
`

// poll sends a request, and returns where its answer arrives.
func poll(ctx context.Context, h *handler, request, body, token string) <-chan answer {
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	done := make(chan answer, 1)
	go func() { done <- record(h, r) }()
	return done
}

// awaitWaiters waits until n requests wait.
func (h *handler) awaitWaiters(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for h.waiters.count() != n {
		if ctx.Err() != nil {
			t.Fatalf("%d requests wait, want %d", h.waiters.count(), n)
		}
		runtime.Gosched()
	}
}

// TestLongPollEnds: a wait ends when its time is over, when the client leaves, when its key is
// revoked and when the node is closed.
func TestLongPollEnds(t *testing.T) {
	const request, body = "POST /api/v1/queues/q/dequeue", `{"wait_ms":60000}`
	node := openNode(t)
	h := New(node, Options{}).(*handler)

	if got := <-poll(t.Context(), h, request, `{"wait_ms":20}`, ""); got.status != 200 || string(got.body) != "{\"messages\":[]}\n" {
		t.Errorf("after its time: %v", got)
	}
	ctx, leave := context.WithCancel(t.Context())
	done := poll(ctx, h, request, body, "")
	h.awaitWaiters(t, 1)
	leave()
	<-done
	h.awaitWaiters(t, 0)
	if _, err := node.Queue("default").Enqueue(t.Context(), "q", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if found, err := node.Queue("default").Dequeue(t.Context(), "q", queue.Max(9)); err != nil || len(found) != 1 {
		t.Errorf("%d messages, %v: a client that has left took one", len(found), err)
	}

	bootstrap(t, node)
	id, key := newKey(t, node, floe.RoleWrite)
	done = poll(t.Context(), h, request, body, login(t, h, key))
	h.awaitWaiters(t, 1)
	if err := node.Keys().Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.status != 401 {
		t.Errorf("the key was revoked: %v", got)
	}
	_, key = newKey(t, node, floe.RoleWrite)
	done = poll(t.Context(), h, request, body, login(t, h, key))
	h.awaitWaiters(t, 1)
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.status != 503 {
		t.Errorf("the node was closed: %v", got)
	}
	h.awaitWaiters(t, 0)
}

// TestTooManyWaiters: beyond its limits, a request is refused instead of waiting.
func TestTooManyWaiters(t *testing.T) {
	h := New(openNode(t), Options{}).(*handler)
	h.waiters.most, h.waiters.mostBytes = 3, 1000
	ctx, leave := context.WithCancel(t.Context())
	dequeue := func(address, body string) <-chan answer {
		r := httptest.NewRequestWithContext(ctx, "POST", "/api/v1/queues/q/dequeue", strings.NewReader(body))
		r.RemoteAddr = address + ":1"
		done := make(chan answer, 1)
		go func() { done <- record(h, r) }()
		return done
	}
	const body = `{"wait_ms":60000}`
	waiting := []<-chan answer{dequeue("192.0.2.1", body)}
	h.awaitWaiters(t, 1)
	checkError(t, "the second of a caller", <-dequeue("192.0.2.1", body), 429, "1 requests of this caller are waiting")
	large := body + strings.Repeat(" ", 1000)
	checkError(t, "a large body", <-dequeue("192.0.2.2", large), 429, "requests with bodies of 17 bytes are waiting")
	waiting = append(waiting, dequeue("192.0.2.2", body), dequeue("192.0.2.3", body))
	h.awaitWaiters(t, 3)
	checkError(t, "the fourth", <-dequeue("192.0.2.4", body), 429, "3 requests are waiting")
	if got := <-dequeue("192.0.2.1", ""); got.status != 200 {
		t.Errorf("without a wait: %v", got)
	}
	if held := h.traffic.held.Load(); held != 0 {
		t.Errorf("waiting requests hold %d bytes of the memory for bodies", held)
	}
	leave()
	for _, done := range waiting {
		<-done
	}
	h.awaitWaiters(t, 0)
	if w := h.waiters; w.bytes != 0 || len(w.by) != 0 {
		t.Errorf("%d bytes of %v are waiting, want none", w.bytes, w.by)
	}
}

// TestLines: a batch can be sent as one JSON object per line; empty lines are skipped.
func TestLines(t *testing.T) {
	server := serve(t, New(openNode(t), Options{}))
	lines := func(path, body string) answer {
		return send(t, "POST "+server+path, body, "Content-Type", "application/x-ndjson; charset=utf-8")
	}
	for _, row := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/api/v1/queues/q/batch", "{\"payload\":\"a\"}\n\n{\"payload\":\"b\",\"priority\":1}", 200, `{"seqs":[1,2],"duplicates":[]}`},
		{"/api/v1/queues/q/batch", "{\"payload\":\"a\"}\n{\"payload\":1}\n", 400, "line 2"},
		{"/api/v1/queues/q/batch", "{\"payload\":\"a\"}\n\n{\"payload\":\"b\",\"priority\":256}\n", 400, "line 3"},
		{"/api/v1/queues/q/batch", "\n", 400, ""},
		{"/api/v1/queues/q/batch", strings.Repeat("{\"payload\":\"\"}\n", queue.MaxBatch), 200, "1002]"},
		{"/api/v1/queues/q/batch", strings.Repeat("{\"payload\":\"\"}\n", queue.MaxBatch+1), 400, "more than 1000 lines"},
		{"/api/v1/streams/s/messages", "{\"key\":\"k\",\"payload\":\"a\"}\n{\"payload\":\"b\"}\n", 200, `{"ids":["`},
		{"/api/v1/streams/s/messages", "{\"key\":1}\n", 400, "line 1"},
		{"/api/v1/streams/s/messages", "", 400, ""},
	} {
		if got := lines(row.path, row.body); got.status != row.status || !strings.Contains(string(got.body), row.want) {
			t.Errorf("%s %.60q = %v, want %d %s", row.path, row.body, got, row.status, row.want)
		}
	}
}

// TestRawAppend: a body that is no JSON is the payload of one message.
func TestRawAppend(t *testing.T) {
	node := openNode(t)
	server := serve(t, New(node, Options{}))
	got := send(t, "POST "+server+"/api/v1/streams/s/messages?key=k%00", "\x00\xff{", "Content-Type", "application/octet-stream")
	records, err := node.Stream("default").Read(t.Context(), "s")
	if got.status != 200 || err != nil || len(records) != 1 || records[0].Key != "k\x00" || string(records[0].Payload) != "\x00\xff{" {
		t.Errorf("%v made %+v, %v", got, records, err)
	}
}

// TestIdempotencyKeys: a repeated request with the same Idempotency-Key changes nothing, and gets
// the answer of the first.
func TestIdempotencyKeys(t *testing.T) {
	server := serve(t, New(openNode(t), Options{}))
	for _, row := range []struct{ path, body string }{
		{"/api/v1/streams/s/messages", `{"messages":[{"payload":"a"},{"payload":"b"}]}`},
		{"/api/v1/queues/q", "a"},
		{"/api/v1/queues/q/batch", `{"messages":[{"payload":"a"},{"payload":"b"}]}`},
	} {
		post := func(key string) string {
			got := send(t, "POST "+server+row.path, row.body, "Idempotency-Key", key)
			if got.status != 200 {
				t.Fatalf("%s: %v", row.path, got)
			}
			before, _, _ := strings.Cut(string(got.body), `,"duplicates"`)
			return before
		}
		if first, again, other := post("one"), post("one"), post("two"); first != again || first == other {
			t.Errorf("%s: %s, again %s, with another key %s", row.path, first, again, other)
		}
	}
	got := send(t, "POST "+server+"/api/v1/streams/s/messages", `{"messages":[{"payload":""}],"dedup":{"producer":"p","sequence":1}}`, "Idempotency-Key", "x")
	checkError(t, "both", got, 400, "exclude each other")
	got = send(t, "POST "+server+"/api/v1/queues/q/batch", `{"messages":[{"payload":"","dedup_key":"d"}]}`, "Idempotency-Key", "x")
	checkError(t, "both", got, 400, "exclude each other")
}

// TestGetKeysBounded: the values of one response are bounded, and the rest is read by further
// requests.
func TestGetKeysBounded(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	var keys []string
	for i := range 300 {
		key := fmt.Sprintf("k%03d", i)
		if _, err := node.KV("default").Put(t.Context(), key, bytes.Repeat([]byte("v"), 60_000)); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	var found []string
	for rest := keys; len(rest) > 0; {
		asked, err := json.Marshal(map[string][]string{"keys": rest})
		if err != nil {
			t.Fatal(err)
		}
		got := record(h, httptest.NewRequest("POST", "/api/v1/kv/namespaces/default/get", bytes.NewReader(asked)))
		var items keyItems
		if err := json.Unmarshal(got.body, &items); err != nil || len(items.Items) == 0 || len(got.body) > 2*maxListedBytes {
			t.Fatalf("%d bytes, %d items, %v", len(got.body), len(items.Items), err)
		}
		for _, item := range items.Items {
			found = append(found, item.Key)
		}
		rest = items.Unread
	}
	if !slices.Equal(found, keys) {
		t.Errorf("found %v, want %v", found, keys)
	}
}

// TestEncodedBodies: a gzip body is decoded wherever a body is read, and another encoding refused.
func TestEncodedBodies(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	post := func(method, target, body, encoding string) answer {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Content-Encoding", encoding)
		return record(h, r)
	}
	zipped := func(body string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(body))
		if err := errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, row := range []struct{ request, body string }{
		{"POST /api/v1/queues/q", "plain text"},
		{"POST /api/v1/queues/q/batch", `{"messages":[{"payload":"plain text"}]}`},
		{"POST /api/v1/streams/s/messages", `{"messages":[{"payload":"plain text"}]}`},
		{"PUT /api/v1/kv/namespaces/default/keys/k", `{"value":"plain text"}`},
	} {
		method, target, _ := strings.Cut(row.request, " ")
		if got := post(method, target, zipped(row.body), "gzip"); got.status != 200 {
			t.Errorf("%s: %v", row.request, got)
		}
		checkError(t, row.request, post(method, target, row.body, "br"), 415, "content encoding")
	}
	for range 2 {
		if m, err := node.Queue("default").Dequeue(t.Context(), "q"); err != nil || len(m) != 1 || string(m[0].Payload) != "plain text" {
			t.Errorf("%+v, %v", m, err)
		}
	}
	large := strings.Repeat("x", node.MaxValueSize())
	if got := post("POST", "/api/v1/queues/q", zipped(large), "gzip"); got.status != 200 {
		t.Errorf("the largest payload: %v", got)
	}
	checkError(t, "a larger one", post("POST", "/api/v1/queues/q", zipped(large+"x"), "gzip"), 413, "max_value_size")
}
