package dashboard

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// seedStreams writes, in the namespace shop, the stream orders with three records in two partitions
// and the consumer group mailers, where ada has two records and has acknowledged one; an empty
// stream whose name is awkward in a path; and in the spread namespace wide a stream of eight
// partitions.
func seedStreams(t *testing.T, node *floe.Node) {
	t.Helper()
	ctx := t.Context()
	shop, wide := node.Stream("shop"), node.Stream("wide")
	for _, err := range []error{
		shop.Create(ctx, "orders", stream.Partitions(2), stream.MaxAge(7*24*time.Hour), stream.MaxLen(10_000)),
		shop.Create(ctx, "a/b é"),
		wide.Create(ctx, "w", stream.Partitions(8)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(store *stream.Store, name string, partition int, m stream.Message) {
		t.Helper()
		if _, err := store.Append(ctx, name, m, stream.Partition(partition)); err != nil {
			t.Fatal(err)
		}
	}
	put(shop, "orders", 0, stream.Message{Key: "k\xff", Payload: []byte("<one>\xff"),
		Headers: map[string]string{"type": "order", "raw": "\xfe"}})
	put(shop, "orders", 1, stream.Message{Payload: []byte("two")})
	put(shop, "orders", 0, stream.Message{Payload: []byte("three")})
	for p := range 8 {
		put(wide, "w", p, stream.Message{Payload: []byte("x")})
	}
	if err := shop.Groups("orders").Create(ctx, "idle", stream.FromEnd(), stream.InMode(stream.Exclusive)); err != nil {
		t.Fatal(err)
	}
	got, err := shop.ReadGroup(ctx, "orders", "mailers", "ada", stream.Limit(2), stream.AckTimeout(time.Hour))
	if err != nil || len(got) != 2 {
		t.Fatalf("ReadGroup = %v, %v", got, err)
	}
	if n, err := shop.Ack(ctx, "orders", "mailers", got[0].Ref()); err != nil || n != 1 {
		t.Fatalf("Ack = %d, %v", n, err)
	}
}

const (
	streamsRoute        = "GET /api/v1/streams"
	streamRoute         = "GET /api/v1/streams/:name"
	streamMessagesRoute = "GET /api/v1/streams/:name/messages"
	trimRoute           = "POST /api/v1/streams/:name/trim"
	deleteStreamRoute   = "DELETE /api/v1/streams/:name"
	ordersPath          = "/api/v1/streams/orders"
)

func streamOf(name, namespace string, partitions, appended int, retention string) fields {
	return fields{
		"name": is{name}, "namespace": is{namespace}, "partitions": is{partitions}, "ingest_rate": is{appended}, "reads": integer,
		"retention": is{retention},
	}
}

var (
	seededOrders = streamOf("orders", "shop", 2, 3, "7d, 10000 records")
	seededBlank  = streamOf("a/b é", "shop", 1, 0, "∞")
)

func partitionOf(id, records int, first, last shape) fields {
	return fields{"id": is{id}, "records": is{records}, "bytes": integer, "first_id": first, "last_id": last, "leader": is{"1"}}
}

func recordOf(partition, size int, key string, headers fields, payload string) fields {
	return fields{
		"id_ms": integer, "id_seq": integer, "ual_index": integer, "size": is{size}, "partition": is{partition}, "key": is{key},
		"headers": headers,
		"payload": is{payload},
	}
}

func bareRecord(size int, payload string) fields {
	return fields{"id_ms": integer, "id_seq": integer, "ual_index": integer, "size": is{size}, "payload": is{payload}}
}

func trimmed(dryRun bool) fields {
	return fields{"ok": is{true}, "stream": is{"orders"}, "dry_run": is{dryRun}}
}

var streamContract = []contractRow{
	{streamsRoute, "/api/v1/streams?namespace=shop", "", 200, items{seededBlank, seededOrders}},
	{streamsRoute, "/api/v1/streams?namespace=shop&limit=1&unknown=1", "", 200, items{seededBlank}},
	{streamsRoute, "/api/v1/streams?namespace=shop&after=a/b%20%C3%A9", "", 200, items{seededOrders}},
	{streamsRoute, "/api/v1/streams?namespace=shop&after=orders", "", 200, items{}},
	{streamsRoute, "/api/v1/streams?namespace=wide", "", 200, items{streamOf("w", "wide", 8, 8, "∞")}},
	{streamsRoute, "/api/v1/streams", "", 200, items{}}, // of the namespace default
	{streamsRoute, "/api/v1/streams?namespace=nowhere", "", 200, items{}},
	{streamsRoute, "/api/v1/streams?limit=1001", "", 400, failure},
	{"GET /api/v1/namespaces/:namespace/streams", "/api/v1/namespaces/shop/streams", "", 200, items{seededBlank, seededOrders}},
	{"GET /api/v1/namespaces/:namespace/streams", "/api/v1/namespaces/shop/streams?limit=1&after=b", "", 200, items{seededOrders}},
	{"GET /api/v1/namespaces/:namespace/streams", "/api/v1/namespaces/nowhere/streams", "", 404, failure},

	{streamRoute, ordersPath + "?namespace=shop", "", 200, fields{
		"name": is{"orders"}, "namespace": is{"shop"}, "ingest_rate": is{3}, "reads": integer, "retention": is{"7d, 10000 records"},
		"partitions": items{partitionOf(0, 2, text, text), partitionOf(1, 1, text, text)},
		"consumer_groups": items{
			fields{
				"name": is{"idle"}, "mode": is{"exclusive"}, "members": is{0}, "pending": is{0}, "lag": is{0},
				"last_delivered": fields{"0": text, "1": text},
			},
			fields{
				"name": is{"mailers"}, "mode": is{"shared"}, "members": is{1}, "pending": is{1}, "lag": is{1},
				"last_delivered": fields{"0": text, "1": text},
			},
		},
	}},
	{streamRoute, "/api/v1/streams/a%2Fb%20%C3%A9?namespace=shop", "", 200, fields{
		"name": is{"a/b é"}, "namespace": is{"shop"}, "ingest_rate": is{0}, "reads": is{0}, "retention": is{"∞"},
		"partitions": items{partitionOf(0, 0, is{"0-0"}, is{"0-0"})}, "consumer_groups": items{},
	}},
	{streamRoute, ordersPath, "", 404, failure},
	{streamRoute, ordersPath + "?namespace=nowhere", "", 404, failure},

	{streamMessagesRoute, ordersPath + "/messages?namespace=shop", "", 200, items{
		bareRecord(6, "<one>\ufffd"), bareRecord(3, "two"), bareRecord(5, "three"),
	}},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&fields=key", "", 400, failure},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&fields=all", "", 200, items{
		recordOf(0, 6, "k\ufffd", fields{"type": is{"order"}, "raw": is{"\ufffd"}}, "<one>\ufffd"), recordOf(1, 3, "", fields{},
			"two"), recordOf(0, 5, "", fields{}, "three"),
	}},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&limit=1&fields=all&encoding=base64", "", 200, items{
		recordOf(0, 6, "a/8=", fields{"type": is{"b3JkZXI="}, "raw": is{"/g=="}}, "PG9uZT7/"),
	}},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&limit=1&tail=true", "", 200, items{bareRecord(5, "three")}},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&partition=1&from=0-0&fields=all", "", 200,
		items{recordOf(1, 3, "", fields{}, "two")}},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&after=9223372036854775807-0", "", 200, items{}},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&cursor=9223372036854775807-0", "", 200, items{}},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&cursor=0-1&after=0-0", "", 400, failure},
	{streamMessagesRoute, ordersPath + "/messages?namespace=shop&partition=2", "", 400, failure},
	{streamMessagesRoute, ordersPath + "/messages", "", 404, failure},

	{trimRoute, ordersPath + "/trim?namespace=shop", "", 400, failure},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_bytes=5", "", 400, failure},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_len=1&max_bytes=5", "", 400, failure},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_len=0", "", 400, failure},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_len=0&dry_run=true", "", 200, trimmed(true)},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_len=1&dry_rn=true", "", 400, failure},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_len=1&dry_run=true", "", 200, trimmed(true)},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_len=1&dry_run", "", 200, trimmed(true)},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_len=1&dry_run=", "", 400, failure},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_len=1", "", 200, trimmed(false)},
	{trimRoute, ordersPath + "/trim?namespace=shop&max_age_s=3600&dry_run=0", "", 200, trimmed(false)},
	{trimRoute, ordersPath + "/trim?max_len=1", "", 404, failure},
	{trimRoute, ordersPath + "/trim?max_len=1&namespace=nowhere", "", 404, failure},
	{trimRoute, ordersPath + "/trim?max_len=1&namespace=_floe", "", 400, failure},
	{streamsRoute, "/api/v1/streams?namespace=shop&after=b", "", 200, items{seededOrders}}, // the counts are cumulative

	{deleteStreamRoute, ordersPath + "?namespace=shop", "", 409, failure},
	{deleteStreamRoute, ordersPath + "?namespace=shop&force=false", "", 409, failure},
	{deleteStreamRoute, ordersPath + "?namespace=shop&forse=true", "", 400, failure},
	{deleteStreamRoute, "/api/v1/streams/a%2Fb%20%C3%A9?namespace=shop", "", 200, fields{"ok": is{true}, "stream": is{"a/b é"}}},
	{deleteStreamRoute, "/api/v1/streams/a%2Fb%20%C3%A9?namespace=shop&force=true", "", 404, failure},
	{deleteStreamRoute, ordersPath + "?force=true&namespace=nowhere", "", 404, failure},
	{deleteStreamRoute, ordersPath + "?force=true&namespace=_floe", "", 400, failure},
}

// sent is the payloads of a listing.
func sent(messages []streamMessage) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Payload)
	}
	return strings.Join(all, " ")
}

func TestStreamMessages(t *testing.T) {
	node := openNode(t)
	store := node.Stream("default")
	if err := store.Create(t.Context(), "s", stream.Partitions(2)); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range 6 {
		added, err := store.Append(t.Context(), "s", stream.Message{Payload: fmt.Append(nil, i)}, stream.Partition(i%2))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, added.ID.String())
	}
	h := New(node, Options{})
	for query, want := range map[string]string{
		"":                               "0 1 2 3 4 5",
		"?limit=2":                       "0 1",
		"?tail=false&limit=3":            "0 1 2",
		"?tail=true":                     "0 1 2 3 4 5",
		"?tail=1&limit=2":                "4 5",
		"?tail&limit=1":                  "5",
		"?tail=true&limit=2&partition=0": "2 4",
		"?partition=1":                   "1 3 5",
		"?from=" + ids[2]:                "2 3 4 5",
		"?after=" + ids[2]:               "3 4 5",
		"?after=" + ids[2] + "&limit=1":  "3",
		"?after=" + ids[5]:               "",
		"?from=0-0":                      "0 1 2 3 4 5",
		"?from=0":                        "0 1 2 3 4 5",
		"?after=" + ids[2] + "&partition=0&tail=0":        "4",
		"?from=9223372036854775807-18446744073709551615":  "",
		"?after=9223372036854775807-18446744073709551615": "",
	} {
		if got := sent(listed[streamMessage](t, query, get(h, "/api/v1/streams/s/messages"+query))); got != want {
			t.Errorf("messages%s are %q, want %q", query, got, want)
		}
	}
}

// TestTrim has a case for each of the trim rules of section 4, and for condition rules 2 and 3 of
// section 7.
func TestTrim(t *testing.T) {
	tests := []struct {
		query   string
		status  int
		text    string // of an error
		removed string
		left    string
	}{
		{"", 400, "max_len or max_age_s", "", "0 1 2 3"},                   // rule 1
		{"?dry_run=true", 400, "max_len or max_age_s", "", "0 1 2 3"},      // rule 1
		{"?max_len=3&max_age_s=3600", 200, "", "1", "1 2 3"},               // rule 2
		{"?max_age_s=3600", 200, "", "0", "0 1 2 3"},                       // rule 2, the age alone
		{"?max_bytes=1", 400, "max_bytes", "", "0 1 2 3"},                  // rule 3
		{"?max_bytes=1&max_len=1", 400, "max_bytes", "", "0 1 2 3"},        // rule 3
		{"?max_len=1&dry_run=true", 200, `"dry_run":true`, "3", "0 1 2 3"}, // rule 4
		{"?max_len=1&dry_run=1", 200, `"dry_run":true`, "3", "0 1 2 3"},    // rule 4
		{"?max_len=1&dry_run", 200, `"dry_run":true`, "3", "0 1 2 3"},      // rule 4
		{"?dry_run&max_len=1", 200, `"dry_run":true`, "3", "0 1 2 3"},      // rule 4
		{"?max_len=2&dry_run=false", 200, `"dry_run":false`, "2", "2 3"},   // rule 4
		{"?max_len=0", 400, "force=true", "", "0 1 2 3"},
		{"?max_len=0&force=false", 400, "force=true", "", "0 1 2 3"},
		{"?max_len=0&dry_run", 200, `"dry_run":true`, "4", "0 1 2 3"},
		{"?max_len=0&force=true", 200, `"dry_run":false`, "4", ""},
		{"?max_len=1&force", 200, "", "3", "3"},
		{"?max_len=4", 200, "", "0", "0 1 2 3"},
		{"?max_len=9223372036854775807", 200, "", "0", "0 1 2 3"},
	}
	for _, tt := range tests {
		node := openNode(t)
		for i := range 4 {
			if _, err := node.Stream("default").Append(t.Context(), "s", stream.Message{Payload: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
		}
		h := New(node, Options{})
		got := record(h, httptest.NewRequest("POST", "/api/v1/streams/s/trim"+tt.query, nil))
		if got.status != tt.status || !strings.Contains(string(got.body), tt.text) || got.header.Get("X-Floe-Trimmed") != tt.removed {
			t.Errorf("trim%s = %v, X-Floe-Trimmed %q, want %d %q, %q", tt.query, got, got.header.Get("X-Floe-Trimmed"), tt.status, tt.text,
				tt.removed)
		}
		if left := sent(listed[streamMessage](t, "messages", get(h, "/api/v1/streams/s/messages"))); left != tt.left {
			t.Errorf("trim%s leaves %q, want %q", tt.query, left, tt.left)
		}
	}
}

// TestTrimToLength: max_len is of the stream: of several partitions the oldest records go, wherever
// they are, also when many have the same millisecond.
func TestTrimToLength(t *testing.T) {
	node := openNode(t)
	store, ctx := node.Stream("default"), t.Context()
	if err := store.Create(ctx, "s", stream.Partitions(4)); err != nil {
		t.Fatal(err)
	}
	for i := range 40 { // eight at a time, for all partitions
		var msgs []stream.Message
		for j := range 8 {
			msgs = append(msgs, stream.Message{Key: fmt.Sprint("key", j), Payload: fmt.Append(nil, 8*i+j)})
		}
		if _, err := store.AppendMany(ctx, "s", msgs); err != nil {
			t.Fatal(err)
		}
	}
	h := New(node, Options{})
	held := 320
	for _, n := range []int{500, 320, 319, 200, 77, 1} {
		for _, dry := range []string{"true", "false"} {
			got := record(h, httptest.NewRequest("POST", fmt.Sprintf("/api/v1/streams/s/trim?max_len=%d&max_age_s=3600&dry_run=%s", n, dry),
				nil))
			if want := fmt.Sprint(max(held-n, 0)); got.status != 200 || got.header.Get("X-Floe-Trimmed") != want {
				t.Errorf("max_len=%d, dry_run=%s: %v, X-Floe-Trimmed %q, want %s", n, dry, got, got.header.Get("X-Floe-Trimmed"), want)
			}
		}
		held = min(held, n)
		var left []string
		records, err := store.Read(ctx, "s", stream.FromBeginning(), stream.Limit(1000))
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(records, func(a, b stream.Record) int { return a.ID.Compare(b.ID) })
		for _, r := range records {
			left = append(left, string(r.Payload))
		}
		if len(left) != held || left[0] != fmt.Sprint(320-held) {
			t.Errorf("max_len=%d leaves %d records, the oldest %s; want %d from %d on", n, len(left), left[0], held, 320-held)
		}
	}
}

// TestDeleteStream: section 3 and trim rule 5, "Delete of a non-empty stream requires force=true".
func TestDeleteStream(t *testing.T) {
	node := openNode(t)
	if _, err := node.Stream("default").Append(t.Context(), "s", stream.Message{Payload: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	h := New(node, Options{})
	remove := func(query string) answer {
		return record(h, httptest.NewRequest("DELETE", "/api/v1/streams/s"+query, nil))
	}
	for query, status := range map[string]int{"": 409, "?force=false": 409, "?force=0": 409, "?force=yes": 400, "?force=": 400,
		"?Force=true": 400} {
		checkError(t, "DELETE"+query, remove(query), status, "")
	}
	if got := remove("?force"); got.status != 200 {
		t.Errorf("DELETE with force = %v", got)
	}
	checkError(t, "DELETE again", remove("?force=true"), 404, "not found")
	if err := node.Stream("default").Create(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if got := remove(""); got.status != 200 {
		t.Errorf("DELETE of an empty stream = %v", got)
	}
}

// TestStreamCountsAreCumulative: section 2, ingest_rate and reads are cumulative record counts,
// "derive a rate by sampling across polls".
func TestStreamCountsAreCumulative(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	var got []string
	look := func() {
		s := listed[streamSummary](t, "streams", get(h, "/api/v1/streams"))
		got = append(got, fmt.Sprint(s[0].IngestRate, " ", s[0].Reads))
	}
	for range 2 {
		for range 3 {
			if _, err := node.Stream("default").Append(t.Context(), "s", stream.Message{}); err != nil {
				t.Fatal(err)
			}
		}
		look()
		listed[streamMessage](t, "messages", get(h, "/api/v1/streams/s/messages"))
		look()
		record(h, httptest.NewRequest("POST", "/api/v1/streams/s/trim?max_len=0&force=true", nil))
		look()
	}
	if want := []string{"3 0", "3 3", "3 3", "6 3", "6 6", "6 6"}; !slices.Equal(got, want) {
		t.Errorf("ingest_rate and reads are %q, want %q", got, want)
	}
}

// TestStreamRetention: section 2, "rendered from the persisted policy, or the single character ∞
// when no policy is set".
func TestStreamRetention(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	for want, r := range map[string]stream.Retention{
		"∞": {}, "7d": {MaxAge: 7 * 24 * time.Hour}, "36h": {MaxAge: 36 * time.Hour}, "10000 records": {MaxLen: 10_000},
		"7d, 10000 records": {MaxAge: 7 * 24 * time.Hour, MaxLen: 10_000}, "90m": {MaxAge: 90 * time.Minute},
	} {
		if err := node.Stream("default").Create(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if err := node.Stream("default").SetRetention(t.Context(), want, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range listed[streamSummary](t, "streams", get(h, "/api/v1/streams")) {
		if s.Retention != s.Name {
			t.Errorf("retention is %q, want %q", s.Retention, s.Name)
		}
	}
}

// TestStreamNames: names in the path are percent-decoded.
func TestStreamNames(t *testing.T) {
	node := openNode(t)
	base := serve(t, New(node, Options{})) + "/api/v1/streams"
	escape := func(name string) string { return strings.ReplaceAll(url.PathEscape(name), ".", "%2E") }
	for _, name := range awkwardNames {
		if err := node.Stream("default").Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := node.Stream("default").Groups(name).Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		path := base + "/" + escape(name)
		group := path + "/groups/" + escape(name)
		for _, request := range []string{"GET " + path, "GET " + path + "/messages", "GET " + group, "GET " + group + "/pending",
			"GET " + group + "/members"} {
			if got := send(t, request, ""); got.status != 200 {
				t.Errorf("%s = %v", request, got)
			}
		}
	}
	var names []string
	for after := ""; ; after = url.QueryEscape(names[len(names)-1]) {
		page := listed[streamSummary](t, "streams", send(t, "GET "+base+"?limit=4&after="+after, ""))
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			names = append(names, s.Name)
		}
	}
	if want := slices.Sorted(slices.Values(awkwardNames)); !slices.Equal(names, want) {
		t.Errorf("listed %q, want %q", names, want)
	}
	for _, name := range awkwardNames {
		for _, path := range []string{escape(name) + "/groups/" + escape(name), escape(name)} {
			if got := send(t, "DELETE "+base+"/"+path, ""); got.status != 200 {
				t.Errorf("DELETE %s = %v", path, got)
			}
		}
	}
}
