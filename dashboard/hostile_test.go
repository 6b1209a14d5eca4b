package dashboard

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/ts"
)

// exchange sends "METHOD target" with a body over a connection of its own, byte for byte, and
// returns the answer. With headers that say how long the body is, the connection is half closed
// behind it, so that more cannot come.
func exchange(t testing.TB, server, request, body string, header ...string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	length := fmt.Sprintf("Content-Length: %d", len(body))
	ownLength := len(header) > 0 && !slices.Contains(header, length)
	if len(header) == 0 {
		header = []string{length}
	}
	head := request + " HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(header, "\r\n") + "\r\n\r\n"
	if _, err := io.WriteString(conn, head+body); err != nil {
		t.Fatalf("%.200s: %v", request, err)
	}
	if ownLength { // what is promised does not come; a request that is whole would be taken for given up
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	return readAnswer(t, request, conn)
}

func readAnswer(t testing.TB, request string, conn net.Conn) answer {
	t.Helper()
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.200s: %v", request, err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%.200s: %v", request, err)
	}
	if res.Close { // ReadResponse takes the header out
		res.Header.Set("Connection", "close")
	}
	return answer{res.StatusCode, res.Header, got}
}

type hostileRow struct {
	request string // below /api/v1
	status  int
	text    string // of the error; what names the culprit
}

// byNetHTTP is the text of a row that net/http answers by itself.
const byNetHTTP = "net/http"

const inKeys = "/kv/namespaces/default/keys"

var hostileParameters = []hostileRow{
	{"GET " + inKeys + "?limit=0", 400, "limit is \"0\", it takes an integer from 1 to 1000"},
	{"GET " + inKeys + "?limit=-1", 400, "limit"},
	{"GET " + inKeys + "?limit=1001", 400, "limit"},
	{"GET " + inKeys + "?limit=9223372036854775808", 400, "limit"},
	{"GET " + inKeys + "?limit=1e3", 400, "limit"},
	{"GET " + inKeys + "?limit=0x10", 400, "limit"},
	{"GET " + inKeys + "?limit=1_0", 400, "limit"},
	{"GET " + inKeys + "?limit=+5", 400, "limit"},
	{"GET " + inKeys + "?limit=%2B5", 400, "limit"},
	{"GET " + inKeys + "?limit=%2010", 400, "limit"},
	{"GET " + inKeys + "?limit=%D9%A3", 400, "limit"}, // an Arabic digit
	{"GET " + inKeys + "?limit=1%00", 400, "limit"},
	{"GET " + inKeys + "?limit=", 400, "limit"},
	{"GET " + inKeys + "?limit", 400, "limit"},
	{"GET " + inKeys + "?limit=5&limit=5", 400, "limit is given 2 times"},
	{"GET " + inKeys + "?limit=1&limit=a", 400, "limit"},
	{"GET " + inKeys + "?prefix=a&prefix=b", 400, "prefix is given 2 times"},
	{"GET " + inKeys + "?encoding=hex", 400, "encoding is \"hex\", it takes utf8 or base64"},
	{"GET " + inKeys + "?encoding=", 400, "encoding"},
	{"GET " + inKeys + "?encoding=BASE64", 400, "encoding"},
	{"GET " + inKeys + "?cursor=%00", 400, "cursor"},
	{"GET " + inKeys + "?cursor=AQ", 400, "cursor"},
	{"GET " + inKeys + "?cursor=AQAAAABh", 400, "cursor"},
	{"GET " + inKeys + "?a=1;b=2", 400, "semicolon"},
	{"GET " + inKeys + "?prefix=%zz", 400, "%zz"},
	{"GET " + inKeys + "?prefix=%", 400, "%"},
	{"GET " + inKeys + "?namespace=other", 400, "contradicts"},
	{"GET " + inKeys + "?namespace=default&namespace=default", 400, "namespace is given 2 times"},
	{"GET " + inKeys + "?LIMIT=0&unknown=1&unknown=2", 200, ""},
	{"GET " + inKeys + "?offset=1", 400, "unknown parameter \"offset\""},
	{"GET " + inKeys + "?cursor=x&after=y", 400, "exclude each other"},
	{"GET " + inKeys + "?after=%3f&encoding=base64", 400, "parameter after is not base64"},
	{"GET /metrics?page=2", 400, "unknown parameter \"page\""},
	{"GET " + inKeys + "?prefix=%ff%00", 200, ""},
	{"GET " + inKeys + "?prefix=" + strings.Repeat("x", 16<<10), 400, "prefix of 16384 bytes exceeds 4096"},
	{"GET " + inKeys + "?" + strings.Repeat("x=1&", 9_999), 200, ""},
	{"GET " + inKeys + "?" + strings.Repeat("x=1&", 20_000), 400, "number of"},
	{"GET /namespaces?limit=0", 400, "limit"},
	{"GET /namespaces/default/kv?limit=1001", 400, "limit"},
	{"GET /namespaces/default/kv?after=%21&encoding=base64", 400, "after"},
	{"DELETE " + inKeys + "/a?dry_rn=true", 400, "unknown parameter \"dry_rn\": this endpoint takes namespace"},
	{"DELETE " + inKeys + "/a?encoding=base64", 400, "encoding"},
	{"DELETE " + inKeys + "/a?x;y", 400, "semicolon"},
}

var hostilePaths = []hostileRow{
	{"GET " + inKeys + "/..%2F", 404, "not found"},
	{"GET " + inKeys + "/.", 404, "not found"},
	{"GET " + inKeys + "/..", 404, "not found"},
	{"GET " + inKeys + "/%2e%2e", 404, "not found"},
	{"GET " + inKeys + "/%00", 404, "not found"},
	{"GET " + inKeys + "/%ff", 404, "not found"},
	{"GET " + inKeys + "/a+b%20c;v=1%3F", 404, "not found"},
	{"GET " + inKeys + "/" + strings.Repeat("k", 4096), 404, "not found"},
	{"GET " + inKeys + "/" + strings.Repeat("k", 4097), 400, "4096"},
	{"GET " + inKeys + "/" + strings.Repeat("%ff", 4097) + "/history", 400, "4096"},
	{"DELETE " + inKeys + "/" + strings.Repeat("k", 4097), 400, "4096"},
	{"GET " + inKeys + "/", 404, "no endpoint"}, // a key of no bytes
	{"GET " + inKeys + "//", 404, "no endpoint"},
	{"GET " + inKeys + "//history", 404, "no endpoint"},
	{"GET " + inKeys + "/a/", 404, "no endpoint"},
	{"GET " + inKeys + "/a/b", 404, "no endpoint"},
	{"GET " + inKeys + "/a/history/", 404, "no endpoint"},
	{"GET " + inKeys + "/a/HISTORY", 404, "no endpoint"},
	{"GET /kv//namespaces", 404, "no endpoint"},
	{"GET /kv/namespaces//keys", 404, "no endpoint"},
	{"GET /kv/namespaces/", 404, "no endpoint"},
	{"GET /KV/namespaces", 404, "no endpoint"},
	{"GET /namespaces/./default", 404, "no endpoint"},
	{"GET /namespaces/../metrics", 404, "no endpoint"},
	{"POST /kv//namespaces", 404, "no endpoint"},
	{"GET /", 404, "no endpoint"},
	{"PUT /metrics", 405, "method PUT"},
	{"GET " + inKeys + "/%", 400, byNetHTTP},
	{"GET " + inKeys + "/%zz", 400, byNetHTTP},
	{"GET " + inKeys + "/a\x00b", 400, byNetHTTP},
}

var hostileNames = []hostileRow{
	{"GET /namespaces/" + strings.Repeat("n", 255), 404, "not found"},
	{"GET /namespaces/" + strings.Repeat("n", 256), 400, "255"},
	{"GET /namespaces/%00", 400, "control character"},
	{"GET /namespaces/a%0Ab", 400, "control character"},
	{"GET /namespaces/%E2%80%AE", 400, "U+202E"},
	{"GET /namespaces/%E2%80%A8", 400, "U+2028"},
	{"GET /namespaces/%ff", 400, "UTF-8"},
	{"GET /kv/namespaces/%ff/keys", 400, "UTF-8"},
	{"GET /kv/namespaces/%ff/keys/a", 400, "UTF-8"},
	{"GET /kv/namespaces/%ff/keys/a/history", 400, "UTF-8"},
	{"DELETE /kv/namespaces/%ff/keys/a", 400, "UTF-8"},
	{"GET /namespaces/%ff/streams", 400, "UTF-8"},
	{"GET /namespaces/%ff/queues", 400, "UTF-8"},
	{"GET /namespaces/%ff/kv", 400, "UTF-8"},
	{"GET /namespaces/%F0%9F%98%80", 404, "not found"},
	{"GET /namespaces/_system", 404, "not found"},
	{"GET /namespaces/%7Btag", 404, "not found"},
	{"GET /namespaces/a%2Fb", 404, "not found"},
}

// hostileRows are the tables of all topics.
var hostileRows = [][]hostileRow{hostileParameters, hostilePaths, hostileNames, hostileStreams, hostileQueues}

func TestHostileRequests(t *testing.T) {
	for _, m := range mounts {
		t.Run("mount="+m.prefix+"/", func(t *testing.T) {
			node := openNode(t)
			seedHostile(t, node)
			server := serve(t, m.mount(New(node, Options{})))
			for _, rows := range hostileRows {
				for _, row := range rows {
					method, target, _ := strings.Cut(row.request, " ")
					row.check(t, server+m.prefix, exchange(t, server, method+" "+m.prefix+"/api/v1"+target, ""))
				}
			}
		})
	}
}

func (row hostileRow) check(t *testing.T, base string, got answer) {
	t.Helper()
	switch {
	case got.status == 200 && row.status == 200:
	case row.text == byNetHTTP:
		if got.status != row.status {
			t.Errorf("%.200s = %v, want %d", row.request, got, row.status)
		}
	case row.status == 404 && row.text == "not found" && strings.Contains(row.request, "/keys/"):
		if got.status != 404 || !strings.Contains(string(got.body), `"found":false`) {
			t.Errorf("%.200s = %v, want a missing key", row.request, got)
		}
	default:
		checkError(t, fmt.Sprintf("%.200s", row.request), got, row.status, row.text)
	}
	if health := send(t, "GET "+base+"/health", ""); health.status != 200 {
		t.Fatalf("after %.200s: GET /health = %v", row.request, health)
	}
}

var hostileBodies = []struct {
	body   string
	status int
	text   string
}{
	{"", 400, "empty"},
	{" \r\n", 400, "empty"},
	{"null", 400, "not a JSON object"},
	{"[]", 400, "not a JSON object"},
	{`"value"`, 400, "not a JSON object"},
	{"1", 400, "not a JSON object"},
	{"{}", 400, `lacks the member "value"`},
	{"{", 400, "not valid JSON"},
	{"{}x", 400, "not valid JSON at byte 3"},
	{`{"value":"x"}{"value":"y"}`, 400, "not valid JSON"},
	{`{"value":"x"`, 400, "not valid JSON"},
	{`{"value":"x",}`, 400, "not valid JSON"},
	{`{'value':'x'}`, 400, "not valid JSON"},
	{`{"value":"x"} // yes`, 400, "not valid JSON"},
	{`{"value":NaN}`, 400, "not valid JSON"},
	{"{\"value\":\"a\nb\"}", 400, "not valid JSON"},
	{`{"value":"x","value":"y"}`, 400, `"value" twice`},
	{`{"value":"x","v\u0061lue":"y"}`, 400, `"value" twice`},
	{`{"value":"x","nx":true,"nx":true}`, 400, `"nx" twice`},
	{`{"value":"x","ttl":5}`, 400, `unknown member "ttl": it takes value, ttl_seconds, nx`},
	{`{"Value":"x"}`, 400, "value"},
	{`{"value":"x","NX":true}`, 400, `unknown member "NX"`},
	{`{"value":null}`, 400, `"value"`},
	{`{"value":1}`, 400, `"value"`},
	{`{"value":["x"]}`, 400, `"value"`},
	{`{"value":{"x":1}}`, 400, `"value"`},
	{`{"value":"x","ttl_seconds":-1}`, 400, `"ttl_seconds" of the body is -1, it takes an integer from 0 to 3153600000`},
	{`{"value":"x","ttl_seconds":3153600001}`, 400, "ttl_seconds"},
	{`{"value":"x","ttl_seconds":18446744073709551616}`, 400, "ttl_seconds"},
	{`{"value":"x","ttl_seconds":1e400}`, 400, "ttl_seconds"},
	{`{"value":"x","ttl_seconds":1e3}`, 400, "ttl_seconds"},
	{`{"value":"x","ttl_seconds":1.0}`, 400, "ttl_seconds"},
	{`{"value":"x","ttl_seconds":"60"}`, 400, "ttl_seconds"},
	{`{"value":"x","ttl_seconds":null}`, 400, "ttl_seconds"},
	{`{"value":"x","ttl_seconds":true}`, 400, "ttl_seconds"},
	{`{"value":"x","nx":1}`, 400, `"nx"`},
	{`{"value":"x","nx":"true"}`, 400, `"nx"`},
	{`{"value":"x","nx":null}`, 400, `"nx"`},
	{"\xef\xbb\xbf" + `{"value":"x"}`, 400, "byte order mark"},
	{"\xff\xfe{\x00}\x00", 400, "UTF-8"},
	{"{\x00}\x00", 400, "not valid JSON"},
	{"{\"value\":\"\xff\"}", 400, "UTF-8"},
	{"{\"value\":\"\xed\xa0\x80\"}", 400, "UTF-8"},
	{`{"value":"\ud800"}`, 400, "surrogate"},
	{`{"value":"\udc00\ud800"}`, 400, "surrogate"},
	{`{"value":"\ud800\u0041"}`, 400, "surrogate"},
	{`{"value":"\ud800x\udc00"}`, 400, "surrogate"},
	{`{"\ud800":"x"}`, 400, "surrogate"},
	{`{"value":"\ud83d\ude00 \\ud800 \u0000"}`, 200, ""},
	{"{\"value\":\"\u2028\ufffd\"}", 200, ""},
	{`{"value":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + "}", 400, "deeper than 128"},
	{`{"value":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + "}", 400, "must be a string"},
	{`{"value":"x"` + manyMembers(64) + "}", 400, "more than 64 members"},
	{`{"value":"x"` + manyMembers(63) + "}", 400, "unknown member"},
	{strings.Repeat("[", 50_000), 400, "not valid JSON"},
	{strings.Repeat(`{"a":`, 50_000), 400, "not valid JSON"},
	{"\x1f\x8b\x08\x00\x00\x00\x00\x00", 400, "UTF-8"}, // gzip, which nothing here decodes
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":1`, i)
	}
	return b.String()
}

func TestHostileBodies(t *testing.T) {
	node := openNode(t)
	server := serve(t, New(node, Options{}))
	for _, row := range hostileBodies {
		key := url.PathEscape(fmt.Sprintf("%.100s", row.body))
		request := "PUT /api/v1/kv/namespaces/bodies/keys/k" + key
		got := exchange(t, server, request, row.body)
		if row.status == 200 {
			if got.status != 200 {
				t.Errorf("PUT %.100q = %v, want 200", row.body, got)
			}
			continue
		}
		hostileRow{request, row.status, row.text}.check(t, server, got)
		if stored := send(t, "GET "+server+strings.TrimPrefix(request, "PUT "), ""); stored.status != 404 {
			t.Errorf("PUT %.100q stored something: %v", row.body, stored)
		}
	}
	for _, body := range []string{`{"name":1}`, `{"name":"a\u0000b"}`, `{"name":"\u202e"}`, `{"name":"` + strings.Repeat("n", 256) + `"}`,
		`{"name":"a","shards":2}`, "[]"} {
		checkError(t, "POST "+body, exchange(t, server, "POST /api/v1/namespaces", body), 400, "")
	}
}

// TestBodyWithoutEnd: a body that is too large, or says so, is refused without being read to its
// end.
func TestBodyWithoutEnd(t *testing.T) {
	h := newHandler(openNode(t), Options{MaxBodyBytes: 64 << 10})
	server := serve(t, h)
	const request = "PUT /api/v1/kv/namespaces/default/keys/a"

	t.Run("claimed length", func(t *testing.T) {
		got := exchange(t, server, request, `{"value":"`, "Content-Length: 99999999999")
		checkError(t, request, got, 413, "65536 bytes")
		if n := h.traffic.received.Load(); n != 0 {
			t.Errorf("%d bytes were read", n)
		}
	})
	t.Run("one byte over", func(t *testing.T) {
		got := exchange(t, server, request, strings.Repeat("x", 64<<10+1))
		checkError(t, request, got, 413, "65536 bytes")
	})
	t.Run("chunks without end", func(t *testing.T) {
		for _, request := range []string{request, "PUT /api/v1/nowhere", "PUT /api/v1/metrics",
			"DELETE /api/v1/kv/namespaces/default/keys/a"} {
			got := endlessChunks(t, server, request)
			if got.status < 400 || got.status >= 500 || got.header.Get("Connection") != "close" {
				t.Errorf("%s = %v, Connection %q; want it refused", request, got, got.header.Get("Connection"))
			}
		}
		// io.ReadAll may ask for a whole buffer more than the limit.
		if n := h.traffic.received.Load(); n > 3*64<<10 {
			t.Errorf("%d bytes were read, the limit is %d", n, 64<<10)
		}
	})
	t.Run("truncated", func(t *testing.T) {
		got := exchange(t, server, request, `{"value":"x"}`, "Content-Length: 100")
		checkError(t, request, got, 400, "read body: unexpected EOF")
	})
	t.Run("broken chunk", func(t *testing.T) {
		got := exchange(t, server, request, "zz\r\n", "Transfer-Encoding: chunked")
		checkError(t, request, got, 400, "read body")
	})
	if got := send(t, "GET "+server+"/health", ""); got.status != 200 {
		t.Errorf("GET /health = %v", got)
	}
	if held := h.traffic.held.Load(); held != 0 {
		t.Errorf("%d bytes are held after all requests", held)
	}
}

// endlessChunks sends a body that goes on until the server closes the connection.
func endlessChunks(t *testing.T, server, request string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		_, err := io.WriteString(conn, request+" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
		for chunk := "1000\r\n" + strings.Repeat(" ", 0x1000) + "\r\n"; err == nil; {
			_, err = io.WriteString(conn, chunk)
		}
	}()
	defer func() {
		conn.Close()
		<-done
	}()
	return readAnswer(t, request, conn)
}

// FuzzRequestTarget: no path and no query makes the handler panic, redirect or answer anything but
// JSON.
func FuzzRequestTarget(f *testing.F) {
	for _, rows := range hostileRows {
		for _, row := range rows {
			_, target, _ := strings.Cut(row.request, " ")
			if path, query, _ := strings.Cut("/api/v1"+target, "?"); len(target) < 1000 {
				f.Add(path, query)
			}
		}
	}
	f.Add("http://localhost:9002", "")
	node := openNode(f)
	seedHostile(f, node)
	h := New(node, Options{})
	f.Fuzz(func(t *testing.T, path, query string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || len(path)+len(query) > 64<<10 {
			return
		}
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			r := httptest.NewRequest(method, "/", strings.NewReader(`{"value":"x"}`))
			r.RequestURI, r.URL.Path, r.URL.RawPath, r.URL.RawQuery = path, u.Path, u.RawPath, query
			got := record(h, r)
			if got.status >= 300 && got.status < 400 || got.status >= 500 {
				t.Errorf("%s %q ? %q = %v", method, path, query, got)
			}
			isPage := (u.Path == "/" || u.Path == "") && method == "GET"
			if got.header.Get("Content-Type") != "application/json; charset=utf-8" && !isPage {
				t.Errorf("%s %q ? %q is %q", method, path, query, got.header.Get("Content-Type"))
			}
		}
	})
}

// TestLargeReadsWaitForMemory: so many requests read much at a time as their memory allows. Some
// more wait until those have ended, such as the panels of a page on a small node, of which most
// were refused; any more get 429 at once. Small ones are served.
func TestLargeReadsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory, slots, panels, places = 128 << 20, 2, 8, 14
		node, err := floe.Open(floe.Config{Shards: 1, Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		limits := budget.Divide(memory, 1)
		h := New(node, Options{MaxConcurrent: limits.HTTPRequests, MaxHeldBytes: limits.HTTPBodies}).(*handler)
		var lines strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&lines, "m f=%d %d\n", i*i%7919, i)
		}
		if _, err := node.TS("default").WriteLine(t.Context(), strings.NewReader(lines.String()), ts.Milliseconds); err != nil {
			t.Fatal(err)
		}
		var ends []func()
		for range slots {
			ctx, end := h.readers.Begin(t.Context())
			if _, err := node.TS("default").Query(ctx, "m[0..2000]"); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		answers := make(chan answer, places+1)
		ask := func(n int) {
			for range n {
				go func() {
					answers <- record(h, request("POST", floqlPath, "m[0..2000]", ""))
				}()
			}
			synctest.Wait()
		}
		ask(panels)
		<-time.After(5 * time.Second)
		synctest.Wait()
		if len(answers) > 0 {
			t.Fatalf("a panel did not wait for memory: %v", <-answers)
		}
		ask(places - panels)
		ask(1)
		if len(answers) != 1 {
			t.Fatalf("%d requests are answered, want the one that is too many", len(answers))
		}
		if got := <-answers; got.status != 429 || got.header.Get("Retry-After") == "" {
			t.Errorf("a request too many: %v, want 429 with Retry-After", got)
		}
		if got := record(h, request("GET", "/api/v1/kv/namespaces/default/keys", "", "")); got.status != 200 {
			t.Errorf("a small one: %v, want 200", got)
		}
		for _, end := range ends {
			end()
		}
		for range places {
			if got := <-answers; got.status != 200 {
				t.Errorf("with memory: %v", got)
			}
		}
	})
}

// TestConnect: the handler is no proxy, and says so. The path of such a request is empty, as that
// of the mount is.
func TestConnect(t *testing.T) {
	r := httptest.NewRequest("CONNECT", "/", nil)
	r.URL = &url.URL{Host: "example.com:443"}
	checkError(t, "CONNECT", record(New(openNode(t), Options{}), r), 405, "no proxy")
}
