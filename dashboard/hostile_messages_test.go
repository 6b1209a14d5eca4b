package dashboard

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// seedHostile writes what rows of hostileStreams and hostileQueues that are not refused find: in
// the namespace default the stream s with the group g, and the queue q.
func seedHostile(t testing.TB, node *floe.Node) {
	t.Helper()
	store := node.Stream("default")
	if _, err := store.Append(t.Context(), "s", stream.Message{Payload: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ReadGroup(t.Context(), "s", "g", "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Queue("default").Enqueue(t.Context(), "q", []byte("x")); err != nil {
		t.Fatal(err)
	}
}

const (
	inMessages = "/streams/s/messages"
	inGroup    = "/streams/s/groups/g"
	longest    = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn" // 63
	name255    = longest + longest + longest + longest + "nnn"
)

var hostileStreams = []hostileRow{
	{"GET /streams?limit=0", 400, "limit is \"0\", it takes an integer from 1 to 1000"},
	{"GET /streams?limit=-1", 400, "limit"},
	{"GET /streams?limit=9223372036854775808", 400, "limit"},
	{"GET /streams?after=a&after=b", 400, "after is given 2 times"},
	{"GET /streams?after=%ff%00", 400, "parameter after: name \"\\xff\\x00\" is not valid UTF-8"},
	{"GET /streams?after=" + strings.Repeat("x", 16<<10), 400, "parameter after: name of 16384 bytes exceeds 255"},
	{"GET /streams?namespace=", 400, "namespace"},
	{"GET /streams?namespace=%E2%80%AE", 400, "U+202E"},
	{"GET /streams?namespace=_floe", 200, ""},
	{"GET /streams?" + strings.Repeat("x=1&", 9_999), 200, ""},
	{"GET " + inMessages + "?limit=1001", 400, "limit"},
	{"GET " + inMessages + "?limit=1e3", 400, "limit"},
	{"GET " + inMessages + "?limit=0x10", 400, "limit"},
	{"GET " + inMessages + "?limit=%2B5", 400, "limit"},
	{"GET " + inMessages + "?limit=%2010", 400, "limit"},
	{"GET " + inMessages + "?limit=", 400, "limit"},
	{"GET " + inMessages + "?limit=5&limit=5", 400, "limit is given 2 times"},
	{"GET " + inMessages + "?from=", 400, "from is \"\", it takes the id of a message"},
	{"GET " + inMessages + "?from=x", 400, "from"},
	{"GET " + inMessages + "?from=1-", 400, "from"},
	{"GET " + inMessages + "?from=-1", 400, "from"},
	{"GET " + inMessages + "?from=-1-0", 400, "from"},
	{"GET " + inMessages + "?from=1-2-3", 400, "from"},
	{"GET " + inMessages + "?from=%2B1-0", 400, "from"},
	{"GET " + inMessages + "?from=1_0-0", 400, "from"},
	{"GET " + inMessages + "?from=0x1-0", 400, "from"},
	{"GET " + inMessages + "?from=1e3-0", 400, "from"},
	{"GET " + inMessages + "?from=9223372036854775808-0", 400, "from"},
	{"GET " + inMessages + "?from=1-18446744073709551616", 400, "from"},
	{"GET " + inMessages + "?from=1-0&from=1-0", 400, "from is given 2 times"},
	{"GET " + inMessages + "?from=9223372036854775807-18446744073709551615", 200, ""},
	{"GET " + inMessages + "?after=s", 400, "after"},
	{"GET " + inMessages + "?from=1-0&after=1-0", 400, "from, after and tail exclude each other"},
	{"GET " + inMessages + "?from=1-0&tail=1", 400, "exclude"},
	{"GET " + inMessages + "?after=1-0&tail=true", 400, "exclude"},
	{"GET " + inMessages + "?tail=maybe", 400, "tail is \"maybe\", it takes true, false, 1 or 0"},
	{"GET " + inMessages + "?tail=", 400, "tail"},
	{"GET " + inMessages + "?tail", 200, ""},
	{"GET " + inMessages + "?tail&tail", 400, "tail is given 2 times"},
	{"GET " + inMessages + "?tail&tail=", 400, "tail is given 2 times"},
	{"GET " + inMessages + "?tail=TRUE", 400, "tail"},
	{"GET " + inMessages + "?tail=yes", 400, "tail"},
	{"GET " + inMessages + "?tail=1&tail=1", 400, "tail is given 2 times"},
	{"GET " + inMessages + "?partition=-1", 400, "partition is \"-1\", it takes an integer from 0 to 1023"},
	{"GET " + inMessages + "?partition=1", 400, "no partition 1"},
	{"GET " + inMessages + "?partition=1024", 400, "partition"},
	{"GET " + inMessages + "?partition=9223372036854775808", 400, "partition"},
	{"GET " + inMessages + "?partition=0&partition=0", 400, "partition is given 2 times"},
	{"GET " + inMessages + "?encoding=hex", 400, "encoding"},
	{"GET " + inMessages + "?LIMIT=0&unknown=1&unknown=2", 200, ""},
	{"GET " + inMessages + "?cursor=x", 400, "parameter cursor is \"x\""},
	{"GET " + inMessages + "?a=1;b=2", 400, "semicolon"},
	{"GET " + inMessages + "/", 404, "no endpoint"},
	{"GET /streams/", 404, "no endpoint"},
	{"GET /streams//messages", 404, "no endpoint"},
	{"GET /streams/s/MESSAGES", 404, "no endpoint"},
	{"GET /streams/s/groups", 404, "no endpoint"},
	{"GET /streams/s/groups/", 404, "no endpoint"},
	{"GET /streams/s/groups//pending", 404, "no endpoint"},
	{"GET /streams/%2e%2e", 404, "not found"},
	{"GET /streams/..", 404, "not found"},
	{"GET /streams/a%2Fb", 404, "not found"},
	{"GET /streams/a+b;v=1%3F", 404, "not found"},
	{"GET /streams/%00", 400, "control character"},
	{"GET /streams/%ff", 400, "UTF-8"},
	{"GET /streams/%E2%80%AE/messages", 400, "U+202E"},
	{"GET /streams/%E2%80%A8/groups/g", 400, "U+2028"},
	{"GET /streams/%", 400, byNetHTTP},
	{"GET /streams/" + name255, 404, "not found"},
	{"GET /streams/n" + name255, 400, "255"},
	{"GET /streams/n" + name255 + "/messages", 400, "255"},
	{"GET /streams/s/groups/%ff", 400, "UTF-8"},
	{"GET /streams/s/groups/%00/pending", 400, "control character"},
	{"GET /streams/s/groups/" + name255 + "/members", 404, "not found"},
	{"GET /streams/s/groups/n" + name255 + "/members", 400, "255"},
	{"GET /streams/%00/groups/g/pending?after=1-0", 400, "control character"},
	{"GET /streams/%ff/groups/g", 400, "UTF-8"},
	{"GET /streams/%F0%9F%98%80", 404, "not found"},
	{"GET /streams/_system", 404, "not found"},
	{"GET " + inGroup + "/pending?limit=0", 400, "limit"},
	{"GET " + inGroup + "/pending?after=c", 400, "after is \"c\", it takes the id of a message"},
	{"GET " + inGroup + "/pending?after=9223372036854775807-18446744073709551615", 200, ""},
	{"GET " + inGroup + "/pending?after=1-0&after=1-0", 400, "after is given 2 times"},
	{"GET " + inGroup + "/members?limit=1001", 400, "limit"},
	{"GET " + inGroup + "/members?after=%ff%00&unknown=1", 400, "parameter after"},
	{"GET " + inGroup + "/members?after=a&after=b", 400, "after is given 2 times"},
	{"PUT /streams/s?partitions=2", 400, "unknown parameter \"partitions\""},
	{"POST /streams/s", 405, "method POST"},
	{"GET /streams/s/trim", 405, "method GET"},
	{"POST /streams/s/trim", 400, "max_len or max_age_s"},
	{"POST /streams/s/trim?dry_run=true", 400, "max_len or max_age_s"},
	{"POST /streams/s/trim?max_len=", 400, "max_len"},
	{"POST /streams/s/trim?max_len=-1", 400, "max_len is \"-1\", it takes an integer from 0"},
	{"POST /streams/s/trim?max_len=9223372036854775808", 400, "max_len"},
	{"POST /streams/s/trim?max_len=1e3", 400, "max_len"},
	{"POST /streams/s/trim?max_len=1&max_len=1", 400, "max_len is given 2 times"},
	{"POST /streams/s/trim?max_age_s=0", 400, "max_age_s is \"0\", it takes an integer from 1"},
	{"POST /streams/s/trim?max_age_s=9223372036", 400, "max_age_s"},
	{"POST /streams/s/trim?max_age_s=1.5", 400, "max_age_s"},
	{"POST /streams/s/trim?max_age_s=x&max_len=1", 400, "max_age_s"},
	{"POST /streams/s/trim?max_bytes=1", 400, "max_bytes"},
	{"POST /streams/s/trim?max_bytes=&max_len=1", 400, "max_bytes"},
	{"POST /streams/s/trim?max_len=1&dry_run=maybe", 400, "dry_run"},
	{"POST /streams/s/trim?max_len=1&dry_run=", 400, "dry_run"},
	{"POST /streams/s/trim?max_len=1&dry_run=True", 400, "dry_run"},
	{"POST /streams/s/trim?max_len=1&dry_run=1&dry_run=0", 400, "dry_run is given 2 times"},
	{"POST /streams/s/trim?max_len=1&dry_rn=true", 400,
		"unknown parameter \"dry_rn\": this endpoint takes namespace, max_len, max_age_s, max_bytes, dry_run"},
	{"POST /streams/s/trim?max_len=1&limit=1", 400, "limit"},
	{"POST /streams/s/trim?max_len=1&a;b", 400, "semicolon"},
	{"POST /streams/%ff/trim?max_len=1", 400, "UTF-8"},
	{"POST /streams/n" + name255 + "/trim?max_len=1", 400, "255"},
	{"POST /streams/none/trim?max_len=1", 404, "not found"},
	{"POST /streams/s/trim?max_len=1&namespace=_floe", 400, "_floe"},
	{"DELETE /streams/s", 409, "force"},
	{"DELETE /streams/s?force=maybe", 400, "force"},
	{"DELETE /streams/s?force=", 400, "force"},
	{"DELETE /streams/s?force=true&force=true", 400, "force is given 2 times"},
	{"DELETE /streams/s?forse=true", 400, "unknown parameter \"forse\": this endpoint takes namespace, force"},
	{"DELETE /streams/s?force=true&dry_run=true", 400, "dry_run"},
	{"DELETE /streams/%ff?force=true", 400, "UTF-8"},
	{"DELETE /streams/none?force=true", 404, "not found"},
	{"DELETE /streams/s?force=true&namespace=_floe", 400, "_floe"},
	{"DELETE " + inGroup + "?force=true", 400, "unknown parameter \"force\""},
	{"DELETE /streams/s/groups/%ff", 400, "UTF-8"},
	{"DELETE /streams/s/groups/none", 404, "not found"},
	{"DELETE " + inGroup + "?namespace=_floe", 400, "_floe"},
}

var hostileQueues = []hostileRow{
	{"GET /queues?limit=0", 400, "limit is \"0\", it takes an integer from 1 to 1000"},
	{"GET /queues?limit=1001", 400, "limit"},
	{"GET /queues?limit=1&limit=a", 400, "limit"},
	{"GET /queues?after=a&after=b", 400, "after is given 2 times"},
	{"GET /queues?after=%ff%00&unknown=1", 400, "parameter after"},
	{"GET /queues?after=" + strings.Repeat("x", 16<<10), 400, "parameter after"},
	{"GET /queues?namespace=%ff", 400, "UTF-8"},
	{"GET /queues?namespace=_floe", 200, ""},
	{"GET /queues/", 404, "no endpoint"},
	{"GET /queues//messages", 404, "no endpoint"},
	{"GET /queues/q/", 404, "no endpoint"},
	{"GET /queues/q/DLQ", 404, "no endpoint"},
	{"GET /queues/..", 404, "not found"},
	{"GET /queues/%2e%2e%2f", 404, "not found"},
	{"GET /queues/%00", 400, "control character"},
	{"GET /queues/%ff", 400, "UTF-8"},
	{"GET /queues/%E2%80%AE", 400, "U+202E"},
	{"GET /queues/%zz", 400, byNetHTTP},
	{"GET /queues/" + name255, 404, "not found"},
	{"GET /queues/n" + name255, 400, "255"},
	{"GET /queues/%7Btag", 404, "not found"},
	{"GET /queues/q/messages?limit=-1", 400, "limit"},
	{"GET /queues/q/messages?limit=9223372036854775808", 400, "limit"},
	{"GET /queues/q/messages?after=", 400, "after is \"\", it takes priority and seq of a message"},
	{"GET /queues/q/messages?after=1", 400, "after"},
	{"GET /queues/q/messages?after=100-", 400, "after"},
	{"GET /queues/q/messages?after=-1", 400, "after"},
	{"GET /queues/q/messages?after=256-1", 400, "after"},
	{"GET /queues/q/messages?after=100-0", 400, "after"},
	{"GET /queues/q/messages?after=100-1-1", 400, "after"},
	{"GET /queues/q/messages?after=100-18446744073709551615", 400, "after"},
	{"GET /queues/q/messages?after=%2B1-1", 400, "after"},
	{"GET /queues/q/messages?after=100-1&after=100-1", 400, "after is given 2 times"},
	{"GET /queues/q/messages?after=007-01", 200, ""},
	{"GET /queues/q/messages?after=255-9223372036854775807", 200, ""},
	{"GET /queues/q/messages?encoding=BASE64", 400, "encoding"},
	{"GET /queues/%ff/messages", 400, "UTF-8"},
	{"GET /queues/n" + name255 + "/messages", 400, "255"},
	{"GET /queues/none/messages", 404, "not found"},
	{"GET /queues/q/messages/0", 400, "seq is \"0\", it takes an integer from 1"},
	{"GET /queues/q/messages/9223372036854775807", 404, "message 9223372036854775807 not found"},
	{"GET /queues/none/messages/1", 404, "not found"},
	{"DELETE /queues/q/messages/x", 400, "seq is \"x\""},
	{"DELETE /queues/q/messages/1?force=true", 400, "unknown parameter \"force\": this endpoint takes namespace"},
	{"DELETE /queues/q/messages/", 404, "no endpoint"},
	{"POST /queues/q/messages/1", 405, "method POST"},
	{"GET /queues/q/dlq?limit=1e3", 400, "limit"},
	{"GET /queues/q/dlq?after=x", 400, "after is \"x\", it takes an integer from 0"},
	{"GET /queues/q/dlq?after=-1", 400, "after"},
	{"GET /queues/q/dlq?after=9223372036854775808", 400, "after"},
	{"GET /queues/q/dlq?after=9223372036854775807", 200, ""},
	{"GET /queues/q/dlq?after=1&after=1", 400, "after is given 2 times"},
	{"GET /queues/%ff/dlq", 400, "UTF-8"},
	{"GET /queues/q/dlq/1", 405, "method GET"},
	{"POST /queues", 405, "method POST"},
	{"PUT /queues/q?max_len=1", 400, "unknown parameter \"max_len\""},
	{"DELETE /queues/q", 409, "holds 1 message; to delete it all the same, set force=true"},
	{"POST /queues/q?priority=-1", 400, "priority is \"-1\", it takes an integer from 0 to 255"},
	{"POST /queues/q?priority=256", 400, "priority"},
	{"POST /queues/q?priority=", 400, "priority"},
	{"POST /queues/q?priority=1.0", 400, "priority"},
	{"POST /queues/q?priority=high", 400, "priority"},
	{"POST /queues/q?priority=1&priority=1", 400, "priority is given 2 times"},
	{"POST /queues/q?delay_ms=-1", 400, "delay_ms"},
	{"POST /queues/q?delay_ms=9223372036854775807", 400, "delay_ms"},
	{"POST /queues/q?delay_ms=3153600000001", 400, "delay_ms"},
	{"POST /queues/q?delay_ms=1s", 400, "delay_ms"},
	{"POST /queues/q?prio=3", 400, "unknown parameter \"prio\": this endpoint takes namespace, priority, delay_ms, idempotency_key, encoding"},
	{"POST /queues/q?delay=1", 400, "unknown parameter \"delay\""},
	{"POST /queues/q/dlq/1/requeue?force=true", 400, "unknown parameter \"force\""},
	{"POST /queues/q?encoding=utf-8", 400, "encoding"},
	{"POST /queues/q?namespace=_floe", 400, "_floe"},
	{"POST /queues/q?namespace=%00", 400, "control character"},
	{"POST /queues/%ff", 400, "UTF-8"},
	{"POST /queues/%00", 400, "control character"},
	{"POST /queues/n" + name255, 400, "255"},
	{"POST /queues/q/purge?dry_run=true", 400, "unknown parameter \"dry_run\": this endpoint takes namespace"},
	{"POST /queues/q/purge?namespace=default&namespace=default", 400, "namespace is given 2 times"},
	{"POST /queues/q/purge?a;b", 400, "semicolon"},
	{"POST /queues/q/purge?namespace=_floe", 400, "_floe"},
	{"POST /queues/%ff/purge", 400, "UTF-8"},
	{"POST /queues/none/purge", 404, "not found"},
	{"GET /queues/q/purge", 405, "method GET"},
	{"POST /queues/q/dlq/0/requeue", 400, "seq is \"0\", it takes an integer from 1"},
	{"POST /queues/q/dlq/-1/requeue", 400, "seq"},
	{"POST /queues/q/dlq/1.5/requeue", 400, "seq"},
	{"POST /queues/q/dlq/%2B1/requeue", 400, "seq"},
	{"POST /queues/q/dlq/18446744073709551615/requeue", 400, "seq"},
	{"POST /queues/q/dlq/1%2F2/requeue", 400, "seq"},
	{"POST /queues/q/dlq/9223372036854775807/requeue", 404, "not found"},
	{"POST /queues/q/dlq//requeue", 404, "no endpoint"},
	{"POST /queues/%ff/dlq/1/requeue", 400, "UTF-8"},
	{"POST /queues/q/dlq/1/requeue?namespace=_floe", 400, "_floe"},
	{"DELETE /queues/q/dlq/x", 400, "seq is \"x\""},
	{"DELETE /queues/q/dlq/1%00", 400, "seq"},
	{"DELETE /queues/q/dlq/1", 404, "not found"}, // it is no dead letter
	{"DELETE /queues/q/dlq/1?force=true", 400, "unknown parameter \"force\""},
	{"DELETE /queues/q/dlq/", 404, "no endpoint"},
	{"DELETE /queues/n" + name255 + "/dlq/1", 400, "255"},
}

// TestRefusedRemovalsRemoveNothing: after all hostile requests, what was there is.
func TestRefusedRemovalsRemoveNothing(t *testing.T) {
	node := openNode(t)
	seedHostile(t, node)
	h := New(node, Options{})
	for _, rows := range [][]hostileRow{hostileStreams, hostileQueues} {
		for _, row := range rows {
			if method, target, _ := strings.Cut(row.request, " "); method != "GET" && row.text != byNetHTTP {
				r := httptest.NewRequest(method, "/api/v1"+target, nil)
				if got := record(h, r); got.status != row.status {
					t.Errorf("%.200s = %v, want %d", row.request, got, row.status)
				}
			}
		}
	}
	if got := sent(listed[streamMessage](t, "messages", get(h, "/api/v1/streams/s/messages"))); got != "x" {
		t.Errorf("the stream has %q", got)
	}
	if got := listed[pendingMessage](t, "pending", get(h, "/api/v1/streams/s/groups/g/pending")); len(got) != 1 {
		t.Errorf("the group has %+v pending", got)
	}
	if got := listed[queueMessage](t, "messages", get(h, "/api/v1/queues/q/messages")); len(got) != 1 || got[0].Payload != "x" {
		t.Errorf("the queue has %+v", got)
	}
	if got := listed[namespaceSummary](t, "namespaces", get(h, "/api/v1/namespaces")); len(got) != 1 {
		t.Errorf("namespaces are %+v, want the default one only", got)
	}
}

// TestPayloadWithoutEnd: a payload over the limit is refused without being read to its end, and
// none that was cut off is enqueued.
func TestPayloadWithoutEnd(t *testing.T) {
	node := openNode(t)
	h := newHandler(node, Options{})
	server := serve(t, h)
	limit := node.MaxValueSize()
	const request = "POST /api/v1/queues/q"
	checkError(t, "claimed length", exchange(t, server, request, "x", "Content-Length: 99999999999"), 413, "65536 bytes")
	if n := h.traffic.received.Load(); n != 0 {
		t.Errorf("%d bytes were read", n)
	}
	checkError(t, "one byte over", exchange(t, server, request, strings.Repeat("x", limit+1)), 413, "65536 bytes")
	if got := endlessChunks(t, server, request); got.status != 413 || got.header.Get("Connection") != "close" {
		t.Errorf("chunks without end: %v, Connection %q", got, got.header.Get("Connection"))
	}
	if n := h.traffic.received.Load(); n > int64(3*limit) {
		t.Errorf("%d bytes were read, the limit is %d", n, limit)
	}
	checkError(t, "truncated", exchange(t, server, request, "x", "Content-Length: 100"), 400, "read body: unexpected EOF")
	checkError(t, "broken chunk", exchange(t, server, request, "zz\r\n", "Transfer-Encoding: chunked"), 400, "read body")
	const gzip = "\x1f\x8b\x08\x00\x00\x00\x00\x00"
	checkError(t, "truncated gzip", exchange(t, server, request, gzip, "Content-Length: 8", "Content-Encoding: gzip"), 400, "gzip body")
	if s, err := node.Queue("default").Get(t.Context(), "q"); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("the queue has %+v (%v), want nothing", s, err)
	}
	if held := h.traffic.held.Load(); held != 0 {
		t.Errorf("%d bytes are held after all requests", held)
	}
}
