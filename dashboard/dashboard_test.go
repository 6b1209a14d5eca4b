package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openNode opens a node in memory for a test.
func openNode(t testing.TB) *floe.Node {
	t.Helper()
	node, err := floe.Open(floe.Config{MaxValueSize: 64 << 10, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return node
}

// dial returns a client of a node.
func dial(t testing.TB, node *floe.Node) *floe.Client {
	t.Helper()
	client, err := floe.Dial(t.Context(), []string{node.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// mounts are the ways in which a host serves a handler: the prefix that clients put before a path,
// and what the host does.
var mounts = []struct {
	prefix string
	mount  func(http.Handler) http.Handler
}{
	{"", func(h http.Handler) http.Handler { return h }},
	{"/admin/floe", func(h http.Handler) http.Handler { return http.StripPrefix("/admin/floe", h) }},
}

// serve starts a server for the handler and returns its address, "http://127.0.0.1:port".
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(conforming(t, h))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return server.URL
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, bytes.TrimSpace(a.body)) }

// send sends "METHOD url" with a body and headers given as name, value, ...
func send(t testing.TB, request, body string, header ...string) answer {
	t.Helper()
	method, target, _ := strings.Cut(request, " ")
	req, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	return answer{res.StatusCode, res.Header, got}
}

// record passes a request straight to the handler.
func record(h http.Handler, r *http.Request) answer {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.Bytes()}
}

func get(h http.Handler, target string) answer {
	return record(h, httptest.NewRequest("GET", target, nil))
}

// checkError fails unless the answer has the status and the body {"error": "..."} with the text in
// it.
func checkError(t testing.TB, what string, got answer, status int, text string) {
	t.Helper()
	var body map[string]string
	if err := json.Unmarshal(got.body, &body); err != nil || len(body) != 1 {
		t.Errorf("%s = %v, want an error body only (%v)", what, got, err)
	}
	if got.status != status || !strings.Contains(body["error"], text) {
		t.Errorf("%s = %v, want status %d and an error with %q", what, got, status, text)
	}
}

// backend is a node whose Stats do what a test wants.
type backend struct {
	floe.DB
	stats func(context.Context) (floe.Stats, error)
}

func (b backend) Stats(ctx context.Context) (floe.Stats, error) { return b.stats(ctx) }

func TestErrorToStatus(t *testing.T) {
	tests := []struct {
		err    error
		status int
		text   string
	}{
		{floe.ErrInvalid, 400, "invalid argument"},
		{floe.ErrUnauthorized, 401, "unauthorized"},
		{floe.ErrNotFound, 404, "not found"},
		{floe.ErrConflict, 409, "conflict"},
		{floe.ErrExists, 409, "already exists"},
		{floe.ErrBusy, 429, "busy"},
		{floe.ErrUnavailable, 503, "unavailable"},
		{floe.ErrUnknownOutcome, 503, "outcome unknown"},
		{floe.ErrClosed, 503, "closed"},
		{context.Canceled, 503, "interrupted"},
		{context.DeadlineExceeded, 503, "deadline"},
		{floe.ErrReadOnly, 503, "read-only: unavailable"},
		{engine.Errorf(floe.ErrBusy, "shard 3: 1024 proposals wait"), 429, "shard 3: 1024 proposals wait"},
		{&floe.TxnError{Index: 1, Err: floe.ErrConflict}, 409, "operation 1"},
		{fmt.Errorf("list: %w", floe.ErrUnavailable), 503, "list: unavailable"},
		{errors.New("disk /secret/path is on fire"), 500, "internal error"},
	}
	node := openNode(t)
	for _, tt := range tests {
		h := New(backend{node, func(context.Context) (floe.Stats, error) { return floe.Stats{}, tt.err }}, Options{})
		got := get(h, "/api/v1/cluster/stats")
		checkError(t, fmt.Sprintf("error %q", tt.err), got, tt.status, tt.text)
		if wait := got.header.Get("Retry-After"); (wait != "") != (tt.status == 429 || tt.status == 503) {
			t.Errorf("error %q: Retry-After is %q", tt.err, wait)
		}
	}
}

// TestErrorsNameNoAddresses: what is answered when a node cannot be reached does not say where it
// is.
func TestErrorsNameNoAddresses(t *testing.T) {
	node := openNode(t)
	for text, want := range map[string]string{
		"no connection: dial tcp 10.1.2.3:9000: connect: connection refused": "no connection: dial tcp a node: connect: " +
			"connection refused",
		"read tcp [fe80::1%eth0]:5000->[2001:db8::7]:9000: reset":      "read tcp a node->a node: reset",
		"dial tcp: lookup db-2.internal on 10.0.0.53:53: no such host": "dial tcp: a node: no such host",
		"db-2.internal:9000 answers nothing":                           "a node answers nothing",
		"shard 3: node 1 is not its leader (no leader is known)":       "shard 3: node 1 is not its leader (no leader is known)",
		"stream \"orders\": at 12:30:05 the outcome is unknown: shard 1, index 77": "stream \"orders\": at 12:30:05 the outcome is " +
			"unknown: shard 1, index 77",
	} {
		h := New(backend{node, func(context.Context) (floe.Stats, error) {
			return floe.Stats{}, engine.Errorf(engine.ErrUnavailable, "%s", text)
		}}, Options{})
		var body struct{ Error string }
		got := get(h, "/api/v1/cluster/stats")
		if err := json.Unmarshal(got.body, &body); err != nil || got.status != 503 || body.Error != want {
			t.Errorf("%s is answered as %v, want %s", text, got, want)
		}
	}
}

func TestPanicIsLoggedAnd500(t *testing.T) {
	var log bytes.Buffer
	broken := backend{openNode(t), func(context.Context) (floe.Stats, error) { panic("a bug in floe") }}
	h := New(broken, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	checkError(t, "GET /api/v1/metrics", get(h, "/api/v1/metrics"), 500, "internal error")
	if !strings.Contains(log.String(), "a bug in floe") || !strings.Contains(log.String(), "dashboard_test.go") {
		t.Errorf("log is %q, want the panic with its stack", log.String())
	}
	if got := get(h, "/api/v1/kv/namespaces"); got.status != 200 {
		t.Errorf("after the panic: %v", got)
	}
}

func TestPanicAfterTheAnswerBeganBreaksOff(t *testing.T) {
	h := newHandler(openNode(t), Options{})
	out := &reply{ResponseWriter: httptest.NewRecorder(), request: httptest.NewRequest("GET", "/", nil), traffic: h.traffic}
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("recovered %v, want http.ErrAbortHandler", got)
		}
	}()
	defer h.recoverPanic(out)
	h.send(out, 200, "half of it")
	panic("a bug in floe")
}

func TestHealth(t *testing.T) {
	tests := []struct {
		state  string
		err    error
		status int
		want   string
	}{
		{"ok", nil, 200, `{"status":"ok"}`},
		{"starting", nil, 503, `{"status":"starting"}`},
		{"stopping", nil, 503, `{"status":"stopping"}`},
		{"no quorum", nil, 503, `{"status":"no quorum"}`},
		{"failed", nil, 503, `{"status":"failed"}`},
		{"", floe.ErrClosed, 503, `{"status":"stopping"}`},
		{"", errors.New("no connection"), 503, `{"status":"unavailable"}`},
	}
	node := openNode(t)
	for _, tt := range tests {
		h := New(backend{node, func(context.Context) (floe.Stats, error) { return floe.Stats{State: floe.NodeState(tt.state)}, tt.err }},
			Options{})
		got := get(h, "/health")
		if got.status != tt.status || string(bytes.TrimSpace(got.body)) != tt.want {
			t.Errorf("state %q, error %v: GET /health = %v, want %d %s", tt.state, tt.err, got, tt.status, tt.want)
		}
	}
}

// TestHealthNamesProblem: /health gives the reason if a node has stopped a shard, or serves with
// a wrong clock. It hides why a node has failed, because that names files.
func TestHealthNamesProblem(t *testing.T) {
	for state, want := range map[string]string{
		"replicas differ": `{"status":"replicas differ","problem":"own"}`, "ok": `{"status":"ok","problem":"own"}`,
		"failed": `{"status":"failed"}`,
	} {
		stats := floe.Stats{Node: 2, State: floe.NodeState(state),
			Nodes: []floe.NodeStats{{ID: "1", Problem: "of another one"}, {ID: "2", Problem: "own"}}}
		h := New(backend{openNode(t), func(context.Context) (floe.Stats, error) { return stats, nil }}, Options{})
		if got := get(h, "/health"); string(bytes.TrimSpace(got.body)) != want {
			t.Errorf("GET /health = %v, want %s", got, want)
		}
	}
}

func TestHealthOnFullDisk(t *testing.T) {
	full := floe.Stats{State: "ok", Disk: floe.DiskStats{ReadOnly: true}}
	h := New(backend{openNode(t), func(context.Context) (floe.Stats, error) { return full, nil }}, Options{})
	const want = `{"status":"ok","read_only":true}`
	if got := get(h, "/health"); got.status != 200 || string(bytes.TrimSpace(got.body)) != want {
		t.Errorf("GET /health = %v, want 200 %s: a restart would not help", got, want)
	}
}

func TestClosedNode(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if got := get(h, "/health"); got.status != 503 {
		t.Errorf("GET /health = %v, want 503", got)
	}
	for _, path := range []string{
		"/api/v1/namespaces", "/api/v1/metrics", "/api/v1/kv/namespaces/default/keys", "/api/v1/kv/namespaces/default/keys/a",
		"/api/v1/streams",
		"/api/v1/streams/s", "/api/v1/streams/s/messages", "/api/v1/streams/s/groups/g", "/api/v1/queues", "/api/v1/queues/q",
		"/api/v1/queues/q/dlq",
	} {
		checkError(t, "GET "+path, get(h, path), 503, "closed")
	}
	put := httptest.NewRequest("PUT", "/api/v1/kv/namespaces/default/keys/a", strings.NewReader(`{"value":"x"}`))
	checkError(t, "PUT", record(h, put), 503, "closed")
}

func TestCanceledRequestIs503(t *testing.T) {
	h := New(openNode(t), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	put := httptest.NewRequest("PUT", "/api/v1/kv/namespaces/default/keys/a", strings.NewReader(`{"value":"x"}`))
	got := record(h, put.WithContext(ctx))
	text := string(got.body)
	if got.status != 503 || !strings.Contains(text, "interrupted") && !strings.Contains(text, "cannot check API keys yet") {
		t.Errorf("PUT with a canceled context = %v, want 503", got)
	}
}

func TestTooManyRequests(t *testing.T) {
	node := openNode(t)
	entered, release := make(chan bool), make(chan bool)
	var blocked atomic.Bool
	h := New(backend{node, func(ctx context.Context) (floe.Stats, error) {
		if blocked.CompareAndSwap(false, true) {
			entered <- true
			<-release
		}
		return node.Stats(ctx)
	}}, Options{MaxConcurrent: 1})

	slow := make(chan answer)
	go func() { slow <- get(h, "/api/v1/cluster/stats") }()
	<-entered
	got := get(h, "/api/v1/namespaces")
	checkError(t, "second request", got, 429, "the limit is 1")
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After = %q, want 1", got.header.Get("Retry-After"))
	}
	if got := get(h, "/health"); got.status != 200 {
		t.Errorf("GET /health = %v, want 200: it is exempt", got)
	}
	close(release)
	if got := <-slow; got.status != 200 {
		t.Errorf("first request = %v, want 200", got)
	}
	if got := get(h, "/api/v1/namespaces"); got.status != 200 {
		t.Errorf("request after the first = %v, want 200", got)
	}
}

func TestBodiesInMemoryAreBounded(t *testing.T) {
	h := newHandler(openNode(t), Options{})
	h.maxHeld = 1000
	put := func(size int) answer {
		body := fmt.Sprintf(`{"value":%q}`, strings.Repeat("x", size))
		return record(h, httptest.NewRequest("PUT", "/api/v1/kv/namespaces/default/keys/a", strings.NewReader(body)))
	}
	h.traffic.held.Add(900) // bodies of other requests
	checkError(t, "PUT of 200 bytes", put(200), 429, "the limit is 1000")
	if got := put(50); got.status != 200 {
		t.Errorf("PUT of 50 bytes = %v", got)
	}
	if held := h.traffic.held.Load(); held != 900 {
		t.Errorf("held = %d after the requests, want 900", held)
	}
}

func TestTraffic(t *testing.T) {
	base := serve(t, New(openNode(t), Options{}))
	body := `{"value":"x"}`
	sent := len(send(t, "PUT "+base+"/api/v1/kv/namespaces/default/keys/a", body).body)
	send(t, "HEAD "+base+"/api/v1/namespaces", "")
	var got clusterStats
	if err := json.Unmarshal(send(t, "GET "+base+"/api/v1/cluster/stats", "").body, &got); err != nil {
		t.Fatal(err)
	}
	if got.BytesReceived != int64(len(body)) || got.BytesSent != int64(sent) || got.ActiveConnections != 1 {
		t.Errorf("received %d, sent %d, active %d; want %d, %d, 1", got.BytesReceived, got.BytesSent, got.ActiveConnections, len(body),
			sent)
	}
}

// TestTrafficOfThePort: what goes over the node's own port is traffic too.
func TestTrafficOfThePort(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	look := func() (got clusterStats, counters serverMetrics) {
		t.Helper()
		var all metrics
		if err := errors.Join(json.Unmarshal(get(h, "/api/v1/cluster/stats").body, &got),
			json.Unmarshal(get(h, "/api/v1/metrics").body, &all)); err != nil {
			t.Fatal(err)
		}
		return got, all.Server
	}
	before, _ := look()
	value := bytes.Repeat([]byte("x"), 10_000)
	client := dial(t, node)
	if _, err := client.KV("default").Put(t.Context(), "k", value); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is written is counted behind it, and before more is written
		if _, err := client.KV("default").Get(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	after, counters := look()
	if n := after.BytesReceived - before.BytesReceived; n < 10_000 {
		t.Errorf("bytes_received has grown by %d, a client sent 10,000", n)
	}
	if n := after.BytesSent - before.BytesSent; n < 10_000 {
		t.Errorf("bytes_sent has grown by %d, a client received 10,000", n)
	}
	if after.ActiveConnections <= before.ActiveConnections || counters.Connections != after.ActiveConnections {
		t.Errorf("active_connections were %d, are %d with a client, connections are %d", before.ActiveConnections, after.ActiveConnections,
			counters.Connections)
	}
	if counters.BytesReceived < after.BytesReceived || counters.BytesSent < after.BytesSent {
		t.Errorf("metrics have %+v, cluster stats %+v", counters, after)
	}
}

func TestUptime(t *testing.T) {
	tests := []struct {
		d    time.Duration
		want string
	}{
		{-time.Hour, "0d 0h 0m"},
		{59 * time.Second, "0d 0h 0m"},
		{61 * time.Minute, "0d 1h 1m"},
		{24*time.Hour - time.Second, "0d 23h 59m"},
		{1000*24*time.Hour + 5*time.Hour + 7*time.Minute, "1000d 5h 7m"},
	}
	for _, tt := range tests {
		if got := uptime(tt.d); got != tt.want {
			t.Errorf("uptime(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestMethods(t *testing.T) {
	h := New(openNode(t), Options{})
	tests := []struct {
		request string
		status  int
		allow   string
	}{
		{"POST /health", 405, "GET, HEAD, OPTIONS"},
		{"DELETE /api/v1/namespaces", 405, "GET, HEAD, OPTIONS, POST"},
		{"POST /api/v1/kv/namespaces/a/keys/b", 405, "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"},
		{"TRACE /api/v1/metrics", 405, "GET, HEAD, OPTIONS"},
		{"OPTIONS /api/v1/namespaces", 204, "GET, HEAD, OPTIONS, POST"},
		{"POST /api/v1/nowhere", 404, ""},
		{"OPTIONS /api/v1/nowhere", 404, ""},
		{"HEAD /api/v1/namespaces", 200, ""},
		{"HEAD /api/v1/kv/namespaces/a/keys/b", 404, ""},
	}
	for _, tt := range tests {
		method, path, _ := strings.Cut(tt.request, " ")
		got := record(h, httptest.NewRequest(method, path, nil))
		if got.status != tt.status || got.header.Get("Allow") != tt.allow {
			t.Errorf("%s = %v, Allow %q; want %d, %q", tt.request, got, got.header.Get("Allow"), tt.status, tt.allow)
		}
		switch {
		case method == "HEAD" && len(got.body) > 0:
			t.Errorf("%s has a body: %v", tt.request, got)
		case method != "HEAD" && tt.status >= 400:
			checkError(t, tt.request, got, tt.status, "")
		}
	}
}

func TestEscapedPath(t *testing.T) {
	tests := []struct{ path, rawPath, want string }{
		{"/a/b", "", "/a/b"},
		{"/a/b", "/a%2Fb", "/a%2Fb"},
		{"/a/é", "/a%2Fé", "/a%2Fé"}, // URL.EscapedPath would be /a/%C3%A9
		{"/a b%", "", "/a%20b%25"},
		{"/changed", "/a%2Fb", "/changed"},
		{"/%zz", "/%zz", "/%25zz"},
		{"", "", ""},
	}
	for _, tt := range tests {
		if got := escapedPath(&url.URL{Path: tt.path, RawPath: tt.rawPath}); got != tt.want {
			t.Errorf("escapedPath(%q, %q) = %q, want %q", tt.path, tt.rawPath, got, tt.want)
		}
	}
}

func TestCrossOrigin(t *testing.T) {
	h := New(openNode(t), Options{})
	tests := []struct {
		name, method string
		header       http.Header
		status       int
	}{
		{"script without browser headers", "PUT", nil, 200},
		{"same origin", "PUT", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://example.com"}}, 200},
		{"other site", "PUT", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://evil.example"}}, 403},
		{"other port of the same site", "PUT", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"old browser, other origin", "PUT", http.Header{"Origin": {"http://evil.example"}}, 403},
		{"old browser, sandboxed frame", "PUT", http.Header{"Origin": {"null"}}, 403},
		{"delete from another site", "DELETE", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"read from another site", "GET", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 200},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(tt.method, "/api/v1/kv/namespaces/default/keys/a", strings.NewReader(`{"value":"x"}`))
		if tt.header != nil {
			r.Header = tt.header
		}
		got := record(h, r)
		if got.status != tt.status {
			t.Errorf("%s: %s = %v, want %d", tt.name, tt.method, got, tt.status)
		}
		if tt.status == 403 {
			checkError(t, tt.name, got, 403, "cross-origin")
		}
	}
}

func TestHost(t *testing.T) {
	h := New(openNode(t), Options{LoopbackOnly: true, Hosts: []string{"Floe.Example", "fd00::1"}})
	tests := []struct {
		host   string
		status int
	}{
		{"localhost", 200}, {"LocalHost:9002", 200}, {"localhost.", 200},
		{"127.0.0.1:9002", 200}, {"127.1.2.3", 200}, {"[::1]:9002", 200}, {"[::ffff:127.0.0.1]", 200},
		{"floe.example:80", 200}, {"FLOE.EXAMPLE", 200}, {"[fd00::1]:9002", 200},
		{"evil.example", 421}, {"localhost.evil.example", 421}, {"127.0.0.1.evil.example:9002", 421},
		{"192.168.1.7", 421}, {"0.0.0.0", 421}, {"[::]", 421}, {"", 421}, {"sub.floe.example", 421},
	}
	for _, tt := range tests {
		for _, request := range []string{"GET /health", "GET /api/v1/namespaces", "DELETE /api/v1/kv/namespaces/a/keys/b"} {
			method, path, _ := strings.Cut(request, " ")
			r := httptest.NewRequest(method, path, nil)
			r.Host = tt.host
			got := record(h, r)
			status := tt.status
			if path == "/health" { // a probe may come by any name, and changes nothing
				status = 200
			}
			if (got.status == 421) != (status == 421) {
				t.Errorf("%s with Host %q = %v, want %d", request, tt.host, got, status)
			}
			if status == 421 {
				checkError(t, "Host "+tt.host, got, 421, "unknown host")
			}
		}
	}
	r := httptest.NewRequest("GET", "/health", nil)
	r.Host = "evil.example"
	if got := record(New(openNode(t), Options{}), r); got.status != 200 {
		t.Errorf("without LoopbackOnly: %v, want 200", got)
	}
}

// failingBody fails as a connection does.
type failingBody struct{}

func (failingBody) Read([]byte) (int, error) {
	return 0, &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 9000}, Err: os.ErrDeadlineExceeded}
}

// TestBodyErrorNamesNoAddress: what is answered when a body does not come says why, and not between
// which addresses.
func TestBodyErrorNamesNoAddress(t *testing.T) {
	h := New(openNode(t), Options{})
	out := httptest.NewRecorder()
	h.ServeHTTP(out, httptest.NewRequest("POST", "/api/v1/queues/q?namespace=default", failingBody{}))
	if body := out.Body.String(); out.Code != http.StatusBadRequest || !strings.Contains(body, "read body: i/o timeout") ||
		strings.Contains(body, "10.1.2.3") {
		t.Errorf("%d, %s", out.Code, body)
	}
}
