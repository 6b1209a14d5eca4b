package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// bootstrap makes the key store of a node and returns the first key.
func bootstrap(t testing.TB, node *floe.Node) string {
	t.Helper()
	_, key, err := node.Keys().Bootstrap(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newKey makes a key.
func newKey(t testing.TB, node *floe.Node, role floe.Role, opts ...floe.KeyOption) (id, key string) {
	t.Helper()
	k, key, err := node.Keys().Create(t.Context(), role, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return k.ID, key
}

// login opens a session over HTTP and returns its token.
func login(t testing.TB, h http.Handler, key string) string {
	t.Helper()
	got := record(h, httptest.NewRequest("POST", "/api/v1/auth/session", strings.NewReader(fmt.Sprintf(`{"api_key":%q}`, key))))
	var body struct{ Token string }
	if err := json.Unmarshal(got.body, &body); err != nil || got.status != 200 || body.Token == "" {
		t.Fatalf("session: %v, %v", got, err)
	}
	return body.Token
}

// request is one with a token, "" for none.
func request(method, target, body, token string) *http.Request {
	ctx := context.Background()
	if strings.Contains(target, "/watch") { // it ends only if the client leaves
		left, cancel := context.WithCancel(ctx)
		time.AfterFunc(100*time.Millisecond, cancel)
		ctx = left
	}
	r := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// authContract are the rows that need a key store; key is its admin's.
func authContract(key string) []contractRow {
	return []contractRow{
		{"GET /api/v1/auth/status", "/api/v1/auth/status", "", 200, fields{"auth_enabled": is{true}, "authenticated": is{false}}},
		{"POST /api/v1/auth/session", "/api/v1/auth/session", `{"api_key":"` + key + `"}`, 200, fields{"token": text}},
		{"POST /api/v1/auth/session", "/api/v1/auth/session", `{"api_key":"floe_sk_0123456789abcdef_00"}`, 401, failure},
		{"POST /api/v1/auth/session", "/api/v1/auth/session", `{}`, 400, failure},
		{"POST /api/v1/auth/session", "/api/v1/auth/session", `{"api_key":null}`, 400, failure},
		{"POST /api/v1/auth/session", "/api/v1/auth/session", `{"api_key":"` + strings.Repeat("x", maxSessionBody) + `"}`, 413, failure},
		{"DELETE /api/v1/auth/session", "/api/v1/auth/session", "", 401, failure},
		{"GET /api/v1/namespaces", "/api/v1/namespaces", "", 401, failure},
		{"GET /health", "/health", "", 200, fields{"status": is{"ok"}}},
	}
}

// openContract are the rows of these endpoints without a key store.
var openContract = []contractRow{
	{"GET /api/v1/auth/status", "/api/v1/auth/status", "", 200, fields{"auth_enabled": is{false}, "authenticated": is{true}}},
	{"POST /api/v1/auth/session", "/api/v1/auth/session", `{"api_key":"any"}`, 401, failure},
	{"DELETE /api/v1/auth/session", "/api/v1/auth/session", "", 200, fields{"ok": is{true}}},
}

// TestRoles: each endpoint is for the roles that testdata/roles.txt says, generated from the route
// table: one that is not in the file fails, whoever adds it says there what its callers need.
func TestRoles(t *testing.T) {
	wanted := readRolesOf(t, "testdata/roles.txt")
	node := openNode(t)
	h := New(node, Options{})
	bootstrap(t, node)
	tokens := map[string]string{"none": ""}
	for _, role := range []floe.Role{floe.RoleRead, floe.RoleWrite, floe.RoleAdmin} {
		_, key := newKey(t, node, role)
		tokens[string(role)] = login(t, h, key)
	}
	_, elsewhere := newKey(t, node, floe.RoleWrite, floe.ForNamespaces("elsewhere"))
	tokens["elsewhere"] = login(t, h, elsewhere)
	rank := map[string]int{"none": 0, "public": 0, "read": 1, "write": 2, "admin": 3}
	for _, rt := range allRoutes() {
		name := rt.method + " " + rt.path
		want, ok := wanted[name]
		if !ok {
			t.Errorf("%s is not in testdata/roles.txt: say there which role it is for, public, read, write or admin", name)
			continue
		}
		delete(wanted, name)
		target := strings.NewReplacer(":namespace", "private", ":seq", "1", ":id", "x").Replace(rt.path)
		target = strings.ReplaceAll(target, ":", "")
		for who, token := range tokens {
			if who == "elsewhere" {
				continue
			}
			if name == "DELETE "+sessionPath {
				token = "" // it would end the session
			}
			got := record(h, request(rt.method, target, "{}", token))
			switch denied := got.status == 401 || got.status == 403; {
			case rt.path == sessionPath: // refuses the body, which has no key, or the token
			case who == "none" && want != "public" && got.status != 401:
				t.Errorf("%s without a token: %v, want 401", name, got)
			case who != "none" && rank[who] < rank[want] && got.status != 403:
				t.Errorf("%s with the role %s: %v, want 403", name, who, got)
			case rank[who] >= rank[want] && denied:
				t.Errorf("%s with the role %s: %v, want it to be served", name, who, got)
			case got.status == 500:
				t.Errorf("%s with the role %s: %v", name, who, got)
			}
		}
		if strings.Contains(rt.path, ":") || rt.role() == floe.RoleWrite {
			got := record(h, request(rt.method, target+"?namespace=private", "{}", tokens["elsewhere"]))
			if got.status/100 == 2 {
				t.Errorf("%s in a namespace that the key is not for: %v", name, got)
			}
		}
	}
	for name := range wanted {
		t.Errorf("testdata/roles.txt has %s, which is no endpoint", name)
	}
}

// readRolesOf returns what a file of roles says.
func readRolesOf(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	roles := make(map[string]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 || roles[words[1]+" "+words[2]] != "" {
			t.Fatalf("%s: %q is not role, method and path, or there twice", name, lines.Text())
		}
		roles[words[1]+" "+words[2]] = words[0]
	}
	return roles
}

// TestNamespacesOfKeys: a key that is for one namespace shows and changes nothing of another one,
// however it is named.
func TestNamespacesOfKeys(t *testing.T) {
	node := openNode(t)
	seed(t, node)
	h := New(node, Options{})
	bootstrap(t, node)
	_, key := newKey(t, node, floe.RoleWrite, floe.ForNamespaces("mine"))
	token := login(t, h, key)
	if got := record(h, request("PUT", "/api/v1/kv/namespaces/mine/keys/a", `{"value":"b"}`, token)); got.status != 200 {
		t.Errorf("a write to its own namespace: %v", got)
	}
	for _, escape := range []string{
		"GET /api/v1/kv/namespaces/default/keys/a", "GET /api/v1/streams?namespace=default", "GET /api/v1/queues?namespace=default",
		"GET /api/v1/namespaces/default",
		"PUT /api/v1/kv/namespaces/default/keys/a", "GET /api/v1/kv/namespaces/_system/keys", "POST /api/v1/queues/q?namespace=default",
		"POST /api/v1/queues/q?namespace=other",
		"GET /api/v1/timeseries/floql?q=cpu&namespace=default", "POST /api/v1/namespaces",
	} {
		method, target, _ := strings.Cut(escape, " ")
		body := `{"value":"b"}`
		if target == "/api/v1/namespaces" {
			body = `{"name":"other"}`
		}
		if strings.Contains(target, "floql") {
			target, body = strings.ReplaceAll(target, "q=cpu", "q=cpu%5B1h%5D"), ""
		}
		checkError(t, escape, record(h, request(method, target, body, token)), 403, "namespace")
	}
	// Requests that name no namespace are about its own, and ids are looked for there.
	for _, own := range []string{"POST /api/v1/queues/q", "GET /api/v1/streams", "GET /api/v1/timeseries/floql?q=cpu%5B1h%5D"} {
		method, target, _ := strings.Cut(own, " ")
		if got := record(h, request(method, target, "", token)); got.status != 200 {
			t.Errorf("%s without a namespace: %v", own, got)
		}
	}
	if s, err := node.Queue("mine").Get(t.Context(), "q"); err != nil || s.Ready != 1 {
		t.Errorf("the queue of the key's namespace: %+v, %v, want a message", s, err)
	}
	for _, target := range []string{"GET /api/v1/workers/w%2F1", "GET /api/v1/workflow/runs/three", "DELETE /api/v1/workflow/runs/three",
		"POST /api/v1/workflow/runs/three/signal?signal=other"} {
		method, target, _ := strings.Cut(target, " ")
		checkError(t, target, record(h, request(method, target, "", token)), 404, "not found")
	}
	_, key = newKey(t, node, floe.RoleWrite, floe.ForNamespaces("mine", "shop"))
	if got := record(h, request("POST", "/api/v1/workflow/runs/three/signal?signal=other", "", login(t, h, key))); got.status != 200 {
		t.Errorf("a run in one of the namespaces of a key is not found: %v", got)
	}
	// D4: so is a job, whose id says where it is, by each route; a key for several namespaces names
	// none either. Of a job in another one a key does not learn that it is there.
	jobs := strings.NewReplacer("{job}", seededIDs["{job}"], "{stopped}", seededIDs["{stopped}"])
	_, key = newKey(t, node, floe.RoleWrite, floe.ForNamespaces("pipes"))
	_, several := newKey(t, node, floe.RoleWrite, floe.ForNamespaces("default", "pipes", "mine"))
	_, reader := newKey(t, node, floe.RoleRead, floe.ForNamespaces("pipes"))
	owner, owners, reads := login(t, h, key), login(t, h, several), login(t, h, reader)
	for _, route := range []string{
		"GET /api/v1/processing/jobs/{job}", "GET /api/v1/console/processing/jobs/{job}", "GET /api/v1/processing/jobs/{stopped}",
		"PUT /api/v1/processing/jobs/{job}/stop",
		"DELETE /api/v1/processing/jobs/{job}",
	} {
		method, target, _ := strings.Cut(jobs.Replace(route), " ")
		checkError(t, route+" with a key of another namespace", record(h, request(method, target, "", token)), 404, "not found")
		if got := record(h, request(method, target, "", reads)); method != "GET" {
			checkError(t, route+" with a key that reads", got, 403, "role")
		} else if got.status != 200 {
			t.Errorf("%s with a key of its namespace that reads: %v", route, got)
		}
		for who, token := range map[string]string{"its namespace": owner, "several": owners} {
			if got := record(h, request(method, target, "", token)); got.status != 200 {
				t.Errorf("%s with a key of %s: %v", route, who, got)
			}
		}
	}
	// What a definition sets going may work in other namespaces.
	definition := `{"name":"w","version":"1","start":{"waitForSignal":{"type":"a"},"transitions":{"success":"flo.Completed"}}}`
	checkError(t, "a workflow", record(h, request("POST", "/api/v1/workflow/definitions?namespace=mine", definition, token)), 403, "reach")
	got := record(h, request("GET", "/api/v1/namespaces", "", token))
	if got.status != 200 || strings.Contains(string(got.body), `"default"`) || !strings.Contains(string(got.body), `"mine"`) {
		t.Errorf("the namespaces that it sees: %v", got)
	}
}

// TestSessions: tokens that are malformed, changed, of another cluster or of a revoked key are
// refused; so is everything of a key once it is revoked, a request that is under way too.
func TestSessions(t *testing.T) {
	node, other := openNode(t), openNode(t)
	h := New(node, Options{})
	admin := login(t, h, bootstrap(t, node))
	foreign := login(t, New(other, Options{}), bootstrap(t, other))
	id, key := newKey(t, node, floe.RoleRead)
	token := login(t, h, key)
	if got := record(h, request("GET", "/api/v1/namespaces", "", token)); got.status != 200 {
		t.Fatalf("a good token: %v", got)
	}
	for name, bad := range map[string]string{
		"none": "", "a word": "x", "the key itself": key, "of another cluster": foreign, "cut": token[:len(token)-2], "longer": token +
			"AA",
		"changed": token[:20] + "A" + token[21:], "changed signature": token[:len(token)-5] + "AAAAA",
	} {
		if bad == token {
			continue
		}
		got := record(h, request("GET", "/api/v1/namespaces", "", bad))
		checkError(t, "token: "+name, got, 401, "token")
		if got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("token: %s: no challenge in %v", name, got.header)
		}
	}
	if err := node.Keys().Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	checkError(t, "a token of a revoked key", record(h, request("GET", "/api/v1/namespaces", "", token)), 401, "")
	checkError(t, "a session of a revoked key",
		record(h, httptest.NewRequest("POST", "/api/v1/auth/session", strings.NewReader(`{"api_key":"`+key+`"}`))), 401, "wrong")
	if got := record(h, request("GET", "/api/v1/auth/status", "", admin)); string(got.body) != `{"auth_enabled":true,"authenticated":true}`+
		"\n" {
		t.Errorf("status with a token: %v", got)
	}
	checkError(t, "an unknown path without a token", get(h, "/api/v1/nothing"), 401, "")
	if got := get(h, "/health"); got.status != 200 {
		t.Errorf("health: %v", got)
	}
	if got := record(h, request("GET", "/api/v1/console/me", "", admin)); !strings.Contains(string(got.body),
		`"role":"admin","namespaces":null,"expires_at":1`) {
		t.Errorf("what the session may do: %v", got)
	}
}

// TestSignOut: the token of a session that was ended is good for nothing, also at a dashboard that
// is for reading only; another one of the key is.
func TestSignOut(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{ReadOnly: true})
	bootstrap(t, node)
	_, key := newKey(t, node, floe.RoleRead, floe.KeyExpires(time.Now().Add(time.Hour)))
	token := login(t, h, key)
	if got := record(h, request("DELETE", "/api/v1/auth/session", "", token)); got.status != 200 || string(got.body) != `{"ok":true}`+"\n" {
		t.Fatalf("sign out: %v", got)
	}
	checkError(t, "after signing out", record(h, request("GET", "/api/v1/namespaces", "", token)), 401, "token")
	checkError(t, "sign out again", record(h, request("DELETE", "/api/v1/auth/session", "", token)), 401, "token")
	if got := record(h, request("GET", "/api/v1/namespaces", "", login(t, h, key))); got.status != 200 {
		t.Errorf("with another session: %v", got)
	}
}

// TestBruteForce: after ten wrong keys within a minute the eleventh from an address is 429; a right
// one never is.
func TestBruteForce(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	key := bootstrap(t, node)
	attempt := func(from, key string) answer {
		r := httptest.NewRequest("POST", "/api/v1/auth/session", strings.NewReader(`{"api_key":"`+key+`"}`))
		r.RemoteAddr = from
		return record(h, r)
	}
	wrong := key[:len(key)-4] + "0000"
	for i := range 10 {
		checkError(t, fmt.Sprintf("wrong key %d", i+1), attempt("192.0.2.1:1000", wrong), 401, "wrong")
	}
	got := attempt("192.0.2.1:2000", wrong)
	checkError(t, "the next attempt", got, 429, "too many")
	if got.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	if got := attempt("192.0.2.1:2000", key); got.status != 200 {
		t.Errorf("the right key behind them: %v", got)
	}
	if got := attempt("192.0.2.2:1000", key); got.status != 200 {
		t.Errorf("another address: %v", got)
	}
}

// auditEntries returns a function that returns the entries of a stream of the audit one by one, as
// they come, and adds them to all as they are written.
func auditEntries(t *testing.T, node *floe.Node, name string, all *string) func() floe.AuditEntry {
	t.Helper()
	next, stop := iter.Pull2(node.Stream("_system").Follow(t.Context(), name, stream.FromBeginning()))
	t.Cleanup(stop)
	return func() (e floe.AuditEntry) {
		t.Helper()
		r, err, ok := next()
		if err != nil || !ok {
			t.Fatal(err, ok)
		}
		if err := json.Unmarshal(r.Payload, &e); err != nil {
			t.Fatal(err)
		}
		*all += string(r.Payload)
		return e
	}
}

// TestSlowSessions: clients that never end the body of a request for a session take no place of
// those who have one, and no place of others who ask for one.
func TestSlowSessions(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{MaxConcurrent: 2})
	key := bootstrap(t, node)
	token := login(t, h, key)
	began := make(chan bool)
	var slow sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 8 {
		in, out := io.Pipe()
		slow.Go(func() {
			record(h, httptest.NewRequest("POST", "/api/v1/auth/session", in))
		})
		go func() {
			_, _ = out.Write([]byte(`{"api_key":`))
			began <- true
			<-ctx.Done()
			out.CloseWithError(ctx.Err())
		}()
	}
	for range 8 {
		<-began
	}
	if got := record(h, request("GET", "/api/v1/namespaces", "", token)); got.status != 200 {
		t.Errorf("a good token: %v", got)
	}
	login(t, h, key)
	cancel()
	slow.Wait()
}

// TestAuditOfRequests: what keys are used to change is noted, with who, what, when and what came of
// it; what they read is not.
func TestAuditOfRequests(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{})
	admin := login(t, h, bootstrap(t, node))
	id, key := newKey(t, node, floe.RoleRead, floe.KeyName("reader"))
	reader := login(t, h, key)
	record(h, request("PUT", "/api/v1/kv/namespaces/shop/keys/a", `{"value":"payload"}`, admin))
	record(h, request("GET", "/api/v1/kv/namespaces/shop/keys/a", "", admin))
	record(h, request("DELETE", "/api/v1/kv/namespaces/shop/keys/a", "", reader))
	record(h, request("DELETE", "/api/v1/kv/namespaces/shop/keys/a?api_key="+key, "", admin))
	all := ""
	next := auditEntries(t, node, floe.AuditStream, &all)
	byAction := make(map[string]floe.AuditEntry)
	for range 3 { // in any order: refusals are written about a second later
		e := next()
		byAction[e.Action] = e
	}
	const path = " /api/v1/kv/namespaces/shop/keys/a"
	put, refused := byAction["PUT"+path], byAction["DELETE"+path]
	if _, ok := byAction["DELETE"+path+"?api_key=***"]; !ok {
		t.Errorf("a key in a URL is not hidden: %v", byAction)
	}
	nextKey := auditEntries(t, node, floe.AuditKeysStream, &all)
	if first, second := nextKey(), nextKey(); !strings.HasPrefix(first.Action, "bootstrap") || !strings.HasPrefix(second.Action, "create") {
		t.Errorf("changes of keys: %+v, %+v", first, second)
	}
	if put.Result != "ok" || put.Namespace != "shop" || put.From == "" || put.At == 0 || put.Role != "admin" {
		t.Errorf("a write: %+v", put)
	}
	if refused.Key != id || refused.Name != "reader" || refused.Result != "not allowed" || refused.Count != 1 {
		t.Errorf("a refusal: %+v", refused)
	}
	for _, secret := range []string{admin, reader, key, "payload"} {
		if strings.Contains(all, secret) {
			t.Errorf("the audit has what it must not: %s", all)
		}
	}
}

// TestCORS: pages of configured origins may call, others may not; nobody may by default.
func TestCORS(t *testing.T) {
	node := openNode(t)
	h := New(node, Options{CORSOrigins: []string{"https://ops.example.com"}})
	for origin, want := range map[string]string{"https://ops.example.com": "https://ops.example.com", "https://evil.example.com": ""} {
		r := httptest.NewRequest("OPTIONS", "/api/v1/namespaces", nil)
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		got := record(h, r)
		if allowed := got.header.Get("Access-Control-Allow-Origin"); allowed != want || want != "" && got.status != 204 {
			t.Errorf("preflight of %s: %d, allows %q", origin, got.status, allowed)
		}
		r = httptest.NewRequest("POST", "/api/v1/namespaces", strings.NewReader(`{"name":"n"}`))
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if got := record(h, r); (got.status == 200) != (want != "") {
			t.Errorf("write of %s: %v", origin, got)
		}
	}
}
