package dashboard

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream"
)

var scanItemShape = fields{"key": text, "size": integer, "version": integer}

func missing(key, namespace string) fields {
	return fields{"error": text, "found": is{false}, "key": is{key}, "namespace": is{namespace}}
}

// seedKV writes the namespaces shop (six keys) and wide (a spread one, three keys).
func seedKV(t *testing.T, node *floe.Node) {
	t.Helper()
	ctx := t.Context()
	shop := node.KV("shop")
	put := func(store *kv.Store, key, value string, opts ...kv.PutOption) {
		t.Helper()
		if _, err := store.Put(ctx, key, []byte(value), opts...); err != nil {
			t.Fatal(err)
		}
	}
	put(shop, "user:1", "Ada")
	put(shop, "user:1", "Ada <Lovelace> & Co")
	put(shop, "user:2", "Bob", kv.TTL(time.Hour))
	put(shop, "user:3", "Cyd")
	put(shop, "a/b", "slash")
	put(shop, "bin\xff", "\xff\x00é")
	put(shop, "empty", "")
	put(shop, "gone", "x")
	if _, err := shop.Delete(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	if err := node.Namespaces().Create(ctx, "wide", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"w1", "w2", "w3"} {
		put(node.KV("wide"), key, "x")
	}
}

const (
	keysRoute    = "GET /api/v1/kv/namespaces/:namespace/keys"
	keyRowsRoute = "GET /api/v1/console/kv/namespaces/:namespace/keys"
	keyRoute     = "GET /api/v1/kv/namespaces/:namespace/keys/:key"
	historyRoute = "GET /api/v1/kv/namespaces/:namespace/keys/:key/history"
	putRoute     = "PUT /api/v1/kv/namespaces/:namespace/keys/:key"
	deleteRoute  = "DELETE /api/v1/kv/namespaces/:namespace/keys/:key"
	shopKeys     = "/api/v1/kv/namespaces/shop/keys"
	shopKeyRows  = "/api/v1/console/kv/namespaces/shop/keys"
	newKeys      = "/api/v1/kv/namespaces/fresh/keys" // a namespace that the first write creates
)

var kvContract = []contractRow{
	{"GET /api/v1/kv/namespaces", "/api/v1/kv/namespaces?after=pipes&limit=1", "", 200, items{fields{
		"name": is{"shop"}, "key_count": is{6}, "bytes_stored": integer, "get_ops": integer, "set_ops": is{8}, "delete_ops": is{1},
	}}},
	{"GET /api/v1/kv/namespaces", "/api/v1/kv/namespaces", "", 200, list{fields{
		"name": text, "key_count": integer, "bytes_stored": integer, "get_ops": integer, "set_ops": integer, "delete_ops": integer,
	}}},

	{keysRoute, shopKeys, "", 200, fields{
		"keys": list{scanItemShape}, "count": is{6}, "has_more": is{false}, "cursor": is{""}, "namespace": is{"shop"},
	}},
	{keysRoute, shopKeys + "?prefix=user:&limit=2&namespace=shop&unknown=1&unknown=2", "", 200, fields{
		"keys": items{
			fields{"key": is{"user:1"}, "size": is{19}, "version": integer}, fields{"key": is{"user:2"}, "size": is{3}, "version": integer},
		},
		"count": is{2}, "has_more": is{true}, "cursor": text, "namespace": is{"shop"},
	}},
	{keysRoute, shopKeys + "?prefix=bin&encoding=base64", "", 200, fields{
		"keys":  items{fields{"key": is{"Ymlu/w=="}, "size": is{4}, "version": integer}},
		"count": is{1}, "has_more": is{false}, "cursor": is{""}, "namespace": is{"shop"},
	}},
	{keysRoute, shopKeys + "?prefix=bin%ff&encoding=utf8", "", 200, fields{
		"keys":  items{fields{"key": is{"bin\ufffd"}, "size": is{4}, "version": integer}},
		"count": is{1}, "has_more": is{false}, "cursor": is{""}, "namespace": is{"shop"},
	}},
	{keysRoute, "/api/v1/kv/namespaces/nowhere/keys", "", 404, failure},
	{keysRoute, "/api/v1/kv/namespaces/default/keys", "", 200, fields{
		"keys": items{}, "count": is{0}, "has_more": is{false}, "cursor": is{""}, "namespace": is{"default"},
	}},
	{keysRoute, shopKeys + "?cursor=AAAA", "", 400, failure},

	{keyRowsRoute, shopKeyRows + "?prefix=user:&limit=2", "", 200, fields{
		"keys": items{
			fields{"key": is{"user:1"}, "size": is{19}, "version": integer, "updated_at": integer, "ttl_ms": is{nil},
				"preview": is{"Ada <Lovelace> & Co"}},
			fields{"key": is{"user:2"}, "size": is{3}, "version": integer, "updated_at": integer, "ttl_ms": integer, "preview": is{"Bob"}},
		},
		"cursor": text,
	}},
	{keyRowsRoute, shopKeyRows + "?prefix=bin&encoding=base64", "", 200, fields{
		"keys": items{fields{"key": is{"Ymlu/w=="}, "size": is{4}, "version": integer, "updated_at": integer, "ttl_ms": is{nil},
			"preview": is{"/wDDqQ=="}}},
		"cursor": is{""},
	}},
	{keyRowsRoute, "/api/v1/console/kv/namespaces/nowhere/keys", "", 404, failure},
	{keyRowsRoute, "/api/v1/console/kv/namespaces/default/keys", "", 200, fields{"keys": items{}, "cursor": is{""}}},
	{keyRowsRoute, shopKeyRows + "?cursor=AAAA", "", 400, failure},

	{keyRoute, shopKeys + "/user:1", "", 200, fields{
		"found": is{true}, "key": is{"user:1"}, "namespace": is{"shop"}, "value": is{"Ada <Lovelace> & Co"}, "version": is{2},
		"size": is{19}, "updated_at": integer, "ttl_ms": is{nil},
	}},
	{keyRoute, shopKeys + "/user%3A2", "", 200, fields{
		"found": is{true}, "key": is{"user:2"}, "namespace": is{"shop"}, "value": is{"Bob"}, "version": is{1},
		"size": is{3}, "updated_at": integer, "ttl_ms": integer,
	}},
	{keyRoute, shopKeys + "/bin%FF", "", 200, fields{
		"found": is{true}, "key": is{"bin\ufffd"}, "namespace": is{"shop"}, "value": is{"\ufffd\x00é"}, "version": is{1},
		"size": is{4}, "updated_at": integer, "ttl_ms": is{nil},
	}},
	{keyRoute, shopKeys + "/bin%FF?encoding=base64", "", 200, fields{
		"found": is{true}, "key": is{"bin\ufffd"}, "namespace": is{"shop"}, "value": is{"/wDDqQ=="}, "version": is{1},
		"size": is{4}, "updated_at": integer, "ttl_ms": is{nil},
	}},
	{keyRoute, shopKeys + "/gone", "", 404, missing("gone", "shop")},
	{keyRoute, shopKeys + "/a%2Fc", "", 404, missing("a/c", "shop")},
	{keyRoute, "/api/v1/kv/namespaces/nowhere/keys/a", "", 404, missing("a", "nowhere")},

	{historyRoute, shopKeys + "/gone/history", "", 200, fields{
		"key": is{"gone"}, "namespace": is{"shop"}, "version_count": is{2}, "versions": items{
			fields{"version": is{2}, "term": integer, "timestamp_ms": integer, "size": is{0}, "tombstone": is{true}},
			fields{"version": is{1}, "term": integer, "timestamp_ms": integer, "size": is{1}, "tombstone": is{false}},
		},
	}},
	{historyRoute, shopKeys + "/never/history", "", 404, failure},

	{putRoute, newKeys + "/a%2Fb", `{"value":"1","ttl_seconds":60,"nx":true}`, 200, fields{
		"ok": is{true}, "key": is{"a/b"}, "namespace": is{"fresh"}, "version": is{1}, "lsn": integer,
	}},
	{keyRoute, newKeys + "/a%2Fb", "", 200, fields{
		"found": is{true}, "key": is{"a/b"}, "namespace": is{"fresh"}, "value": is{"1"}, "version": is{1}, "size": is{1},
		"updated_at": integer, "ttl_ms": integer,
	}},
	{putRoute, newKeys + "/a%2Fb", `{"value":"2","nx":true}`, 409, failure},
	{putRoute, newKeys + "/a%2Fb?unknown=1", `{"value":"2"}`, 400, failure},
	{putRoute, newKeys + "/a%2Fb?namespace=fresh", `{"value":"2","ttl_seconds":0,"nx":false}`, 200, fields{
		"ok": is{true}, "key": is{"a/b"}, "namespace": is{"fresh"}, "version": is{2}, "lsn": integer,
	}},
	{keyRoute, newKeys + "/a%2Fb", "", 200, fields{ // a plain PUT clears the expiry
		"found": is{true}, "key": is{"a/b"}, "namespace": is{"fresh"}, "value": is{"2"}, "version": is{2}, "size": is{1},
		"updated_at": integer, "ttl_ms": is{nil},
	}},
	{putRoute, newKeys + "/bin?encoding=base64", `{"value":"/wDDqQ=="}`, 200, fields{
		"ok": is{true}, "key": is{"bin"}, "namespace": is{"fresh"}, "version": is{1}, "lsn": integer,
	}},
	{keyRoute, newKeys + "/bin?encoding=base64", "", 200, fields{
		"found": is{true}, "key": is{"bin"}, "namespace": is{"fresh"}, "value": is{"/wDDqQ=="}, "version": is{1}, "size": is{4},
		"updated_at": integer, "ttl_ms": is{nil},
	}},
	{putRoute, newKeys + "/bin?encoding=base64", `{"value":"/wDDqQ"}`, 400, failure},
	{putRoute, newKeys + "/bin", `{"value":"1","ttl_seconds":-1}`, 400, failure},
	{putRoute, "/api/v1/kv/namespaces/_floe/keys/a", `{"value":"1"}`, 400, failure},

	{deleteRoute, newKeys + "/bin?namespace=fresh", "", 200, fields{"ok": is{true}, "key": is{"bin"}, "namespace": is{"fresh"}}},
	{deleteRoute, newKeys + "/bin", "", 404, failure},
	{deleteRoute, newKeys + "/a%2Fb?forse=true", "", 400, failure},
	{deleteRoute, newKeys + "/a%2Fb?namespace=shop", "", 400, failure},
	{deleteRoute, "/api/v1/kv/namespaces/nowhere/keys/a", "", 404, failure},
	{deleteRoute, "/api/v1/kv/namespaces/_floe/keys/a", "", 400, failure},
}

// TestKeysAreAnyBytes writes, reads, lists and deletes keys that are awkward in a path, at each
// mount and below a ServeMux.
func TestKeysAreAnyBytes(t *testing.T) {
	mux := func(h http.Handler) http.Handler {
		m := http.NewServeMux()
		m.Handle("/m/", http.StripPrefix("/m", h))
		return m
	}
	keys := []string{
		"k", "a/b", "a//b", "/", "//", ".", "..", "../..", "a/../b", "a b", " ", "a+b", "%", "%2F", "%zz", "a;v=1", "?", "#", "history",
		"a/history", "é", "日本語", "😀", "\x00", "\n", "\xff", "\xff/\xfe", "\"<>&'", "{tag}", strings.Repeat("k", kv.MaxKeyBytes),
		strings.Repeat("/", kv.MaxKeyBytes),
	}
	for _, m := range append(slices.Clone(mounts), struct {
		prefix string
		mount  func(http.Handler) http.Handler
	}{"/m", mux}) {
		t.Run("mount="+m.prefix+"/", func(t *testing.T) {
			node := openNode(t)
			base := serve(t, m.mount(New(node, Options{}))) + m.prefix + "/api/v1/kv/namespaces/default/keys"
			for _, key := range keys {
				// Dots would be folded by a ServeMux, as by browsers.
				path := base + "/" + strings.ReplaceAll(url.PathEscape(key), ".", "%2E")
				if got := send(t, "PUT "+path, `{"value":"x"}`); got.status != 200 {
					t.Fatalf("PUT %.60q = %v", key, got)
				}
				if _, err := node.KV("default").Get(t.Context(), key); err != nil {
					t.Errorf("PUT %.60q stored another key: %v", key, err)
				}
				for _, request := range []string{"GET " + path, "GET " + path + "/history"} {
					if got := send(t, request, ""); got.status != 200 {
						t.Errorf("%s = %v", request, got)
					}
				}
			}
			checkListing(t, base, keys)
			for _, key := range keys {
				path := base + "/" + strings.ReplaceAll(url.PathEscape(key), ".", "%2E")
				if got := send(t, "DELETE "+path, ""); got.status != 200 {
					t.Errorf("DELETE %.60q = %v", key, got)
				}
			}
		})
	}
}

// checkListing fails unless pages of seven list exactly the keys.
func checkListing(t *testing.T, base string, want []string) {
	t.Helper()
	var got []string
	for cursor, more := "", true; more; {
		a := send(t, "GET "+base+"?encoding=base64&limit=7&cursor="+url.QueryEscape(cursor), "")
		var page keyPage
		if err := json.Unmarshal(a.body, &page); err != nil || page.Count != len(page.Keys) || page.HasMore != (page.Cursor != "") {
			t.Fatalf("page %v: %v", a, err)
		}
		for _, item := range page.Keys {
			key, err := base64.StdEncoding.DecodeString(item.Key)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(key))
		}
		cursor, more = page.Cursor, page.HasMore
	}
	if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("listed %.200q, want the sorted %.200q", got, want)
	}
}

// TestReplacedBytesAreTold: an answer in which bytes have become U+FFFD says so, and no other.
func TestReplacedBytesAreTold(t *testing.T) {
	node := openNode(t)
	seedKV(t, node)
	seedStreams(t, node)
	seedQueues(t, node)
	for key, value := range map[string]string{"real": "\ufffd", "spelt": `\ufffd`, "slash": `\\ufffd\`, "bad": "\\\xff", "half": "a\xc3"} {
		if _, err := node.KV("text").Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := node.Stream("text").Append(t.Context(), "s", stream.Message{Headers: map[string]string{"h": "\xff"}}); err != nil {
		t.Fatal(err)
	}
	h := New(node, Options{})
	for path, lossy := range map[string]bool{
		"/kv/namespaces/text/keys/real": false, "/kv/namespaces/text/keys/spelt": false, "/kv/namespaces/text/keys/slash": false,
		"/kv/namespaces/text/keys/bad": true, "/kv/namespaces/text/keys/half": true, "/kv/namespaces/text/keys/half?encoding=base64": false,
		"/kv/namespaces/text/keys": false, "/kv/namespaces/shop/keys": true, "/kv/namespaces/shop/keys?encoding=base64": false,
		"/namespaces/shop/kv": true, "/namespaces/shop/kv?encoding=base64": false, "/namespaces": false,
		"/streams/orders/messages?namespace=shop": true, "/streams/orders/messages?namespace=shop&encoding=base64": false,
		"/streams/s/messages?namespace=text": false, "/streams/s/messages?namespace=text&fields=all": true,
		"/queues/mail/messages?namespace=shop": true, "/queues/mail/messages?namespace=shop&encoding=base64": false,
		"/queues/mail/dlq?namespace=shop": true, "/queues/mail/dlq?namespace=shop&encoding=base64": false,
	} {
		got := get(h, "/api/v1"+path)
		if told := got.header.Get("X-Floe-Lossy"); got.status != 200 || (told == "true") != lossy || !lossy && told != "" {
			t.Errorf("GET %s = %v, X-Floe-Lossy %q, want %v", path, got, told, lossy)
		}
	}
}

// TestRawPathBytes: clients such as curl send what they should escape.
func TestRawPathBytes(t *testing.T) {
	node := openNode(t)
	server := serve(t, New(node, Options{}))
	for i, key := range []string{"a/é", "a/\xff", `a/"b"`, "a/|^`{}"} {
		value := fmt.Sprint(i)
		if _, err := node.KV("default").Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
		got := exchange(t, server, "GET /api/v1/kv/namespaces/default/keys/"+strings.ReplaceAll(key, "/", "%2F"), "")
		if got.status != 200 || !strings.Contains(string(got.body), `"value":"`+value+`"`) {
			t.Errorf("GET %q = %v", key, got)
		}
	}
}

func TestTTLCountsDown(t *testing.T) {
	node := openNode(t)
	h := newHandler(node, Options{})
	path := "/api/v1/kv/namespaces/default/keys/a"
	put := httptest.NewRequest("PUT", path, strings.NewReader(`{"value":"x","ttl_seconds":60}`))
	if got := record(h, put); got.status != 200 {
		t.Fatal(got)
	}
	entry, err := node.KV("default").Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []time.Duration{time.Minute, 1500 * time.Microsecond, 0, -time.Second} {
		h.now = func() time.Time { return entry.ExpiresAt.Add(-left) }
		var got keyDetail
		if err := json.Unmarshal(get(h, path).body, &got); err != nil {
			t.Fatal(err)
		}
		if want := max(0, left.Milliseconds()); got.TTLMillis == nil || *got.TTLMillis != want {
			t.Errorf("with %v left ttl_ms is %v, want %d", left, got.TTLMillis, want)
		}
	}
	if d := entry.ExpiresAt.Sub(entry.UpdatedAt); d != time.Minute {
		t.Errorf("the entry lives for %v, want 1m", d)
	}
}

func TestLargestValueInItsLongestSpelling(t *testing.T) {
	node := openNode(t)
	base := serve(t, New(node, Options{})) + "/api/v1/kv/namespaces/default/keys/a"
	limit := node.MaxValueSize()
	tests := []struct {
		name, query, value string
		status             int
	}{
		{"plain at the limit", "", strings.Repeat("x", limit), 200},
		{"escaped at the limit", "", strings.Repeat(`\u0000`, limit), 200},
		{"base64 at the limit", "?encoding=base64", base64.StdEncoding.EncodeToString(make([]byte, limit)), 200},
		{"plain over the limit", "", strings.Repeat("x", limit+1), 413},
		{"base64 over the limit", "?encoding=base64", base64.StdEncoding.EncodeToString(make([]byte, limit+1)), 413},
		{"body over the limit", "", strings.Repeat("x", longestSpelling*limit+bodyOverhead), 413},
	}
	for _, tt := range tests {
		got := send(t, "PUT "+base+tt.query, `{"value":"`+tt.value+`"}`)
		if got.status != tt.status {
			t.Errorf("%s: %v, want %d", tt.name, got, tt.status)
		}
		if tt.status == 413 {
			checkError(t, tt.name, got, 413, "exceeds")
		}
	}
}

// TestPreviews: the console's list of keys has all keys asked for, and reads no more values than a
// page may have.
func TestPreviews(t *testing.T) {
	node := openNode(t)
	large := strings.Repeat("é", 32<<10) // 64 KiB: a page has 4 MiB of values
	for i := range 80 {
		if _, err := node.KV("default").Put(t.Context(), fmt.Sprintf("large%02d", i), []byte(large)); err != nil {
			t.Fatal(err)
		}
	}
	a := get(New(node, Options{}), "/api/v1/console/kv/namespaces/default/keys?limit=79")
	var page keyRowPage
	if err := json.Unmarshal(a.body, &page); err != nil || len(page.Keys) != 79 || page.Cursor == "" {
		t.Fatalf("page %v: %v", a, err)
	}
	if p := page.Keys[0].Preview; p == nil || *p != large[:previewBytes] {
		t.Errorf("preview of the first key: %v", p)
	}
	if p := page.Keys[78].Preview; p != nil {
		t.Errorf("preview of the last key: %q", *p)
	}
}
