package dashboard

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

// seedQueues writes, in the namespace shop, the queue mail with two dead letters (1 and 2), a
// message that is ready (3), an urgent one that is leased (4) and one that is delayed (5), and an
// empty queue whose name is awkward in a path.
func seedQueues(t *testing.T, node *floe.Node) {
	t.Helper()
	ctx := t.Context()
	shop := node.Queue("shop")
	enqueue := func(payload string, opts ...queue.EnqueueOption) {
		t.Helper()
		if _, err := shop.Enqueue(ctx, "mail", []byte(payload), opts...); err != nil {
			t.Fatal(err)
		}
	}
	dequeue := func(n int) []queue.Message {
		t.Helper()
		messages, err := shop.Dequeue(ctx, "mail", queue.Max(n), queue.Lease(time.Hour))
		if err != nil || len(messages) != n {
			t.Fatalf("Dequeue = %v, %v", messages, err)
		}
		return messages
	}
	enqueue("bad")
	enqueue("worse\xff")
	for _, m := range dequeue(2) {
		if _, err := shop.Nack(ctx, "mail", []queue.Receipt{m.Receipt}, queue.ToDLQ(), queue.Reason("no such address")); err != nil {
			t.Fatal(err)
		}
	}
	enqueue("to: <ada>")
	enqueue("to: bob\xff", queue.Priority(10))
	dequeue(1)
	enqueue("later", queue.Delay(time.Hour), queue.Headers(map[string]string{"raw": "\xff"})) // of headers the API says nothing
	if err := shop.Configure(ctx, "a/b é", queue.Settings{MaxLen: 1}); err != nil {
		t.Fatal(err)
	}
}

const (
	queuesRoute   = "GET /api/v1/queues"
	queueRoute    = "GET /api/v1/queues/:name"
	enqueueRoute  = "POST /api/v1/queues/:name"
	messagesRoute = "GET /api/v1/queues/:name/messages"
	messageRoute  = "GET /api/v1/queues/:name/messages/:seq"
	removeRoute   = "DELETE /api/v1/queues/:name/messages/:seq"
	purgeRoute    = "POST /api/v1/queues/:name/purge"
	deadRoute     = "GET /api/v1/queues/:name/dlq"
	requeueRoute  = "POST /api/v1/queues/:name/dlq/:seq/requeue"
	discardRoute  = "DELETE /api/v1/queues/:name/dlq/:seq"
	mailPath      = "/api/v1/queues/mail"
)

func queueOf(name string, available, inflight, ready, enqueued, dequeued, dead int) fields {
	return fields{
		"name": is{name}, "namespace": is{"shop"}, "ready": is{ready}, "inflight": is{inflight}, "pending": is{ready},
		"available": is{available},
		"enqueued":  is{enqueued}, "dequeued": is{dequeued}, "dlq_count": is{dead},
	}
}

func messageOf(seq, priority int, state string, attempts int, remaining shape, size int, payload string) fields {
	return fields{
		"seq": is{seq}, "priority": is{priority}, "state": is{state}, "attempts": is{attempts}, "lease_remaining_ms": remaining,
		"size":    is{size},
		"payload": is{payload},
	}
}

func changedMessage(name string, seq int) fields {
	return fields{"ok": is{true}, "queue": is{name}, "seq": is{seq}}
}

var (
	seededMail  = queueOf("mail", 1, 1, 2, 5, 3, 2)
	seededEmpty = queueOf("a/b é", 0, 0, 0, 0, 0, 0)
)

var queueContract = []contractRow{
	{queuesRoute, "/api/v1/queues?namespace=shop", "", 200, items{seededEmpty, seededMail}},
	{queuesRoute, "/api/v1/queues?namespace=shop&limit=1", "", 200, items{seededEmpty}},
	{queuesRoute, "/api/v1/queues?namespace=shop&limit=1&after=a/b%20%C3%A9&unknown=1", "", 200, items{seededMail}},
	{queuesRoute, "/api/v1/queues?namespace=shop&after=mail", "", 200, items{}},
	{queuesRoute, "/api/v1/queues", "", 200, items{}}, // of the namespace default
	{queuesRoute, "/api/v1/queues?namespace=nowhere", "", 200, items{}},
	{queuesRoute, "/api/v1/queues?limit=0", "", 400, failure},
	{"GET /api/v1/namespaces/:namespace/queues", "/api/v1/namespaces/shop/queues", "", 200, items{seededEmpty, seededMail}},
	{"GET /api/v1/namespaces/:namespace/queues", "/api/v1/namespaces/shop/queues?limit=1&after=b", "", 200, items{seededMail}},
	{"GET /api/v1/namespaces/:namespace/queues", "/api/v1/namespaces/nowhere/queues", "", 404, failure},

	{queueRoute, mailPath + "?namespace=shop", "", 200, seededMail},
	{queueRoute, "/api/v1/queues/a%2Fb%20%C3%A9?namespace=shop", "", 200, seededEmpty},
	{queueRoute, mailPath, "", 404, failure},
	{queueRoute, mailPath + "?namespace=nowhere", "", 404, failure},

	{messagesRoute, mailPath + "/messages?namespace=shop", "", 200, items{
		messageOf(4, 10, "leased", 1, integer, 8, "to: bob\ufffd"),
		messageOf(3, 100, "ready", 0, is{0}, 9, "to: <ada>"),
		messageOf(5, 100, "ready", 0, integer, 5, "later"),
	}},
	{messagesRoute, mailPath + "/messages?namespace=shop&limit=1&encoding=base64", "", 200, items{
		messageOf(4, 10, "leased", 1, integer, 8, "dG86IGJvYv8="),
	}},
	{messagesRoute, mailPath + "/messages?namespace=shop&limit=1&after=10-4", "", 200,
		items{messageOf(3, 100, "ready", 0, is{0}, 9, "to: <ada>")}},
	{messagesRoute, mailPath + "/messages?namespace=shop&after=100-5", "", 200, items{}},
	{messagesRoute, mailPath + "/messages?namespace=shop&after=5", "", 400, failure},
	{messagesRoute, mailPath + "/messages", "", 404, failure},

	{messageRoute, mailPath + "/messages/4?namespace=shop", "", 200, messageOf(4, 10, "leased", 1, integer, 8, "to: bob\ufffd")},
	{messageRoute, mailPath + "/messages/4?namespace=shop&encoding=base64&max_payload=3", "", 200,
		messageOf(4, 10, "leased", 1, integer, 8, "dG86")},
	{messageRoute, mailPath + "/messages/5?namespace=shop", "", 200, messageOf(5, 100, "ready", 0, integer, 5, "later")},
	{messageRoute, mailPath + "/messages/1?namespace=shop", "", 200, messageOf(1, 100, "dlq", 1, is{0}, 3, "bad")},
	{messageRoute, mailPath + "/messages/6?namespace=shop", "", 404, failure},
	{messageRoute, mailPath + "/messages/4", "", 404, failure},
	{messageRoute, mailPath + "/messages/0?namespace=shop", "", 400, failure},

	{deadRoute, mailPath + "/dlq?namespace=shop", "", 200, items{
		messageOf(1, 100, "dlq", 1, is{0}, 3, "bad"), messageOf(2, 100, "dlq", 1, is{0}, 6, "worse\ufffd"),
	}},
	{deadRoute, mailPath + "/dlq?namespace=shop&limit=1&after=1&encoding=base64", "", 200, items{
		messageOf(2, 100, "dlq", 1, is{0}, 6, "d29yc2X/"),
	}},
	{deadRoute, mailPath + "/dlq?namespace=shop&after=2", "", 200, items{}},
	{deadRoute, mailPath + "/dlq?namespace=shop&after=100-1", "", 400, failure},
	{deadRoute, mailPath + "/dlq", "", 404, failure},

	{requeueRoute, mailPath + "/dlq/1/requeue?namespace=shop&unknown=1", "", 400, failure},
	{requeueRoute, mailPath + "/dlq/1/requeue?namespace=shop", "", 200, changedMessage("mail", 1)},
	{requeueRoute, mailPath + "/dlq/1/requeue?namespace=shop", "", 404, failure},
	{requeueRoute, mailPath + "/dlq/1/requeue", "", 404, failure},
	{requeueRoute, mailPath + "/dlq/one/requeue?namespace=shop", "", 400, failure},
	{requeueRoute, mailPath + "/dlq/1/requeue?namespace=_floe", "", 400, failure},
	{queueRoute, mailPath + "?namespace=shop", "", 200, queueOf("mail", 2, 1, 3, 5, 3, 1)},

	{discardRoute, mailPath + "/dlq/2?namespace=shop&forse=true", "", 400, failure},
	{discardRoute, mailPath + "/dlq/2?namespace=shop", "", 200, changedMessage("mail", 2)},
	{discardRoute, mailPath + "/dlq/2?namespace=shop", "", 404, failure},
	{discardRoute, mailPath + "/dlq/2", "", 404, failure},
	{discardRoute, mailPath + "/dlq/0?namespace=shop", "", 400, failure},
	{discardRoute, mailPath + "/dlq/2?namespace=_floe", "", 400, failure},

	{removeRoute, mailPath + "/messages/5?namespace=shop&force=true", "", 400, failure},
	{removeRoute, mailPath + "/messages/5?namespace=shop", "", 200, changedMessage("mail", 5)},
	{removeRoute, mailPath + "/messages/5?namespace=shop", "", 404, failure},
	{removeRoute, mailPath + "/messages/4?namespace=shop", "", 409, failure}, // it is leased
	{removeRoute, mailPath + "/messages/3", "", 404, failure},
	{removeRoute, mailPath + "/messages/3?namespace=_floe", "", 400, failure},
	{removeRoute, mailPath + "/messages/x?namespace=shop", "", 400, failure},

	{purgeRoute, mailPath + "/purge?namespace=shop&dry_run=true", "", 400, failure},
	{purgeRoute, mailPath + "/purge?namespace=shop", "", 200, fields{"ok": is{true}, "purged": is{3}}},
	{purgeRoute, mailPath + "/purge?namespace=shop", "", 200, fields{"ok": is{true}, "purged": is{0}}},
	{purgeRoute, mailPath + "/purge", "", 404, failure},
	{purgeRoute, mailPath + "/purge?namespace=nowhere", "", 404, failure},
	{purgeRoute, mailPath + "/purge?namespace=_floe", "", 400, failure},

	{enqueueRoute, "/api/v1/queues/a%2Fb%20%C3%A9?namespace=shop&prio=3", "raw", 400, failure},
	{enqueueRoute, "/api/v1/queues/a%2Fb%20%C3%A9?namespace=shop&priority=7&delay_ms=0", "raw", 200, changedMessage("a/b é", 1)},
	{enqueueRoute, "/api/v1/queues/a%2Fb%20%C3%A9?namespace=shop", "raw", 429, failure}, // it is bounded
	{enqueueRoute, "/api/v1/queues/new?namespace=made", "", 200, changedMessage("new", 1)},
	{enqueueRoute, "/api/v1/queues/new?namespace=made&encoding=base64", "/w==", 200, changedMessage("new", 2)},
	{enqueueRoute, "/api/v1/queues/new?namespace=made&encoding=base64", "/w", 400, failure},
	{enqueueRoute, "/api/v1/queues/new?namespace=made&priority=256", "raw", 400, failure},
	{enqueueRoute, "/api/v1/queues/new?namespace=made&delay_ms=-1", "raw", 400, failure},
	{enqueueRoute, "/api/v1/queues/new?namespace=_floe", "raw", 400, failure},
	{"GET /api/v1/namespaces/:namespace/queues", "/api/v1/namespaces/made/queues", "", 200, items{fields{
		"name": is{"new"}, "namespace": is{"made"}, "ready": is{2}, "inflight": is{0}, "pending": is{2}, "available": is{2},
		"enqueued": is{2},
		"dequeued": is{0}, "dlq_count": is{0},
	}}},
}

// listed decodes an answer with an array.
func listed[T any](t testing.TB, what string, got answer) (items []T) {
	t.Helper()
	if err := json.Unmarshal(got.body, &items); err != nil || got.status != 200 {
		t.Fatalf("%s = %v (%v)", what, got, err)
	}
	return items
}

// TestPurgeKeepsDeadLetters: section 3, "removes every ready and leased message; dead-letter
// entries stay"; section 4, "with the real count".
func TestPurgeKeepsDeadLetters(t *testing.T) {
	node := openNode(t)
	seedQueues(t, node)
	base := serve(t, New(node, Options{})) + mailPath
	if got, want := send(t, "POST "+base+"/purge?namespace=shop", "").String(), `200 {"ok":true,"purged":3}`; got != want {
		t.Errorf("purge = %s, want %s", got, want)
	}
	if left := listed[queueMessage](t, "messages", send(t, "GET "+base+"/messages?namespace=shop", "")); len(left) != 0 {
		t.Errorf("after the purge there are %+v", left)
	}
	dead := listed[queueMessage](t, "dlq", send(t, "GET "+base+"/dlq?namespace=shop", ""))
	if len(dead) != 2 || dead[0].Seq != 1 || dead[1].Seq != 2 {
		t.Errorf("after the purge the dead letters are %+v", dead)
	}
	if got := send(t, "POST "+base+"/dlq/2/requeue?namespace=shop", ""); got.status != 200 {
		t.Errorf("requeue = %v", got)
	}
	// As if it had never been delivered.
	back := listed[queueMessage](t, "messages", send(t, "GET "+base+"/messages?namespace=shop&encoding=base64", ""))
	want := queueMessage{Seq: 2, Priority: 100, State: "ready", Size: 6, Payload: "d29yc2X/"}
	if len(back) != 1 || back[0] != want {
		t.Errorf("after the requeue there are %+v, want %+v", back, want)
	}
}

// TestQueueMessagesContinue pages through a queue of all states in priority order, lower first, and
// by seq within a priority.
func TestQueueMessagesContinue(t *testing.T) {
	node := openNode(t)
	var want []string
	for i := range 25 {
		opts := []queue.EnqueueOption{queue.Priority(i % 3 * 50)}
		if i%5 == 0 {
			opts = append(opts, queue.Delay(time.Hour))
		}
		if _, err := node.Queue("default").Enqueue(t.Context(), "q", nil, opts...); err != nil {
			t.Fatal(err)
		}
	}
	for p := range 3 {
		for i := p; i < 25; i += 3 {
			want = append(want, fmt.Sprintf("%d-%d", p*50, i+1))
		}
	}
	if _, err := node.Queue("default").Dequeue(t.Context(), "q", queue.Max(7)); err != nil {
		t.Fatal(err)
	}
	base := serve(t, New(node, Options{})) + "/api/v1/queues/q/messages?limit=10"
	var got []string
	for next := ""; ; next = "&after=" + got[len(got)-1] {
		page := listed[queueMessage](t, base+next, send(t, "GET "+base+next, ""))
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			got = append(got, fmt.Sprintf("%d-%d", m.Priority, m.Seq))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestRemainingCountsDown: of a leased message until the lease ends, of a delayed one, which is
// "ready", until it can be delivered.
func TestRemainingCountsDown(t *testing.T) {
	node := openNode(t)
	seedQueues(t, node)
	page, err := node.Queue("shop").Messages("mail").Page(t.Context())
	if err != nil || len(page.Items) != 3 {
		t.Fatalf("Page = %+v, %v", page, err)
	}
	leased, delayed := page.Items[0].LeaseUntil, page.Items[2].AvailableAt
	h := newHandler(node, Options{})
	for _, left := range []time.Duration{time.Hour, 1500 * time.Microsecond, 0, -time.Second} {
		for i, until := range map[int]time.Time{0: leased, 2: delayed} {
			h.now = func() time.Time { return until.Add(-left) }
			got := listed[queueMessage](t, "messages", get(h, mailPath+"/messages?namespace=shop"))
			if want := max(0, left.Milliseconds()); got[i].LeaseRemainingMillis != want {
				t.Errorf("with %v left lease_remaining_ms of %+v is not %d", left, got[i], want)
			}
		}
	}
}

// TestPayloadsAreAnyBytes: section 4, "body is the raw message payload".
func TestPayloadsAreAnyBytes(t *testing.T) {
	node := openNode(t)
	base := serve(t, New(node, Options{})) + "/api/v1/queues/q"
	limit := node.MaxValueSize()
	largest := bytes.Repeat([]byte("\xff\x00"), limit/2)
	wrapped := slices.Clone(base64.StdEncoding.AppendEncode(nil, []byte("wrapped by a tool")))
	wrapped = slices.Insert(wrapped, 8, '\n')
	tests := []struct {
		name, query, body, want string
		status                  int
	}{
		{"empty", "", "", "", 200},
		{"JSON", "", ` {"a": "<>&"} `, ` {"a": "<>&"} `, 200},
		{"bytes", "?encoding=utf8", "\xff\x00\xfe\r\n", "\xff\x00\xfe\r\n", 200},
		{"base64", "?encoding=base64", "/wD+", "\xff\x00\xfe", 200},
		{"base64 in lines", "?encoding=base64", string(wrapped) + "\n", "wrapped by a tool", 200},
		{"no base64", "?encoding=base64", "\xff\x00", "", 400},
		{"base64 of URLs", "?encoding=base64", "_wD-", "", 400},
		{"at the limit", "", string(largest), string(largest), 200},
		{"base64 at the limit", "?encoding=base64", base64.StdEncoding.EncodeToString(largest), string(largest), 200},
		{"over the limit", "", string(largest) + "x", "", 413},
		{"base64 over the limit", "?encoding=base64", base64.StdEncoding.EncodeToString(append(largest, 'x')), "", 413},
	}
	for _, tt := range tests {
		got := send(t, "POST "+base+tt.query, tt.body)
		if got.status != tt.status {
			t.Errorf("%s: POST = %v, want %d", tt.name, got, tt.status)
		}
		if tt.status != 200 {
			checkError(t, tt.name, got, tt.status, "")
			continue
		}
		messages, err := node.Queue("default").Dequeue(t.Context(), "q")
		if err != nil || len(messages) != 1 || string(messages[0].Payload) != tt.want {
			t.Errorf("%s: stored %.200v (%v), want %.100q", tt.name, messages, err, tt.want)
		}
	}
}

// TestEnqueueParameters: the default priority is 100, a delay makes the message wait.
func TestEnqueueParameters(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	for _, query := range []string{"", "?priority=0", "?priority=255", "?delay_ms=3600000", "?delay_ms=3153600000000"} {
		if got := record(h, httptest.NewRequest("POST", "/api/v1/queues/q"+query, strings.NewReader("x"))); got.status != 200 {
			t.Fatalf("POST %s = %v", query, got)
		}
	}
	page, err := node.Queue("default").Messages("q").Page(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range page.Items {
		wait := time.Duration(0)
		if m.State == queue.Delayed {
			wait = m.AvailableAt.Sub(m.EnqueuedAt)
		}
		got = append(got, fmt.Sprint(m.Priority, " ", m.Seq, " ", wait))
	}
	want := []string{"0 2 0s", "100 1 0s", "100 4 1h0m0s", "100 5 876000h0m0s", "255 3 0s"}
	if !slices.Equal(got, want) {
		t.Errorf("messages are %q, want %q", got, want)
	}
}

// awkwardNames are names that a path has to escape, and names of endpoints.
var awkwardNames = []string{
	"q", "a/b", "..", ".", "a b", "a+b", "%", "%2F", "a;v=1", "?", "#", "messages", "purge", "dlq", "groups", "trim", "é", "e\u0301", "日本語",
	"😀", "con",
	"{tag", "}{", "{tag}", "_system", strings.Repeat("n", 255),
}

// TestQueueNames: names in the path are percent-decoded.
func TestQueueNames(t *testing.T) {
	node := openNode(t)
	base := serve(t, New(node, Options{})) + "/api/v1/queues"
	for _, name := range awkwardNames {
		path := base + "/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
		for _, request := range []string{"POST " + path, "GET " + path, "GET " + path + "/messages", "GET " + path + "/dlq"} {
			if got := send(t, request, "x"); got.status != 200 {
				t.Errorf("%s = %v", request, got)
			}
		}
		if s, err := node.Queue("default").Get(t.Context(), name); err != nil || s.Ready != 1 {
			t.Errorf("queue %q has %+v, %v", name, s, err)
		}
	}
	var names []string
	for after := ""; ; after = url.QueryEscape(names[len(names)-1]) {
		page := listed[queueSummary](t, "queues", send(t, "GET "+base+"?limit=4&after="+after, ""))
		if len(page) == 0 {
			break
		}
		for _, q := range page {
			names = append(names, q.Name)
		}
	}
	if want := slices.Sorted(slices.Values(awkwardNames)); !slices.Equal(names, want) {
		t.Errorf("listed %q, want %q", names, want)
	}
}
