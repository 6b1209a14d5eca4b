package dashboard

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// TestTrustedProxies: behind a trusted proxy a request counts for the client that the proxy names,
// whatever the client has written before. Nobody else is believed.
func TestTrustedProxies(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.7/32")}
	for _, c := range []struct {
		trusted   []netip.Prefix
		peer      string
		forwarded []string
		want      string
	}{
		{nil, "10.0.0.1:1", []string{"198.51.100.1"}, "10.0.0.1"},
		{trusted, "203.0.113.1:1", []string{"198.51.100.1"}, "203.0.113.1"},
		{trusted, "10.0.0.1:1", nil, "10.0.0.1"},
		{trusted, "10.0.0.1:1", []string{""}, "10.0.0.1"},
		{trusted, "10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{trusted, "10.0.0.1:1", []string{"6.6.6.6, 198.51.100.1"}, "198.51.100.1"},
		{trusted, "10.0.0.1:1", []string{"6.6.6.6", "198.51.100.1 , 10.2.3.4"}, "198.51.100.1"},
		{trusted, "10.0.0.1:1", []string{"198.51.100.1", "192.0.2.7"}, "198.51.100.1"},
		{trusted, "10.0.0.1:1", []string{"6.6.6.6, unknown, 10.2.3.4"}, "10.2.3.4"},
		{trusted, "10.0.0.1:1", []string{"10.2.3.4, 10.2.3.5"}, "10.2.3.4"},
		{trusted, "10.0.0.1:1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{trusted, "[::ffff:10.0.0.1]:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{trusted, "[fd00::1%eth0]:1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{trusted, "[fd00::1]:1", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{trusted, "pipe", []string{"198.51.100.1"}, "pipe"},
	} {
		h := newHandler(openNode(t), Options{TrustedProxies: c.trusted})
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		for _, v := range c.forwarded {
			r.Header.Add("X-Forwarded-For", v)
		}
		if got := newInput(h, r, nil).from(); got != c.want {
			t.Errorf("from %s, forwarded for %q: %s, want %s", c.peer, c.forwarded, got, c.want)
		}
	}
}

// TestLocalUntilKeys: a node that has no keys yet serves other machines nothing but /health, unless
// that is asked for. With keys it makes no difference.
func TestLocalUntilKeys(t *testing.T) {
	node := openNode(t)
	ask := func(h http.Handler, path, from, local, forwarded, token string) int {
		r := request("GET", path, "", token)
		r.RemoteAddr = from
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		addr, err := net.ResolveTCPAddr("tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		return record(h, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))).status
	}
	closed := Options{LocalUntilKeys: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	handlers := map[string]http.Handler{"open": New(node, Options{}), "closed": New(node, closed), "metrics": NewExporter(node, closed)}
	for _, c := range []struct {
		handler, path, from, local, forwarded string
		want                                  int
	}{
		{"open", "/api/v1/namespaces", "192.0.2.1:1", "192.0.2.9:9002", "", 200},
		{"closed", "/api/v1/namespaces", "192.0.2.1:1", "192.0.2.9:9002", "", 403},
		{"closed", "/", "192.0.2.1:1", "192.0.2.9:9002", "", 403},
		{"closed", "/api/v1/auth/status", "192.0.2.1:1", "192.0.2.9:9002", "", 403},
		{"closed", "/health", "192.0.2.1:1", "192.0.2.9:9002", "", 200},
		{"closed", "/api/v1/namespaces", "192.0.2.9:1", "192.0.2.9:9002", "", 200},
		{"closed", "/api/v1/namespaces", "127.0.0.1:1", "127.0.0.1:9002", "", 200},
		{"closed", "/api/v1/namespaces", "[::1]:1", "[::1]:9002", "", 200},
		{"closed", "/api/v1/namespaces", "127.0.0.1:1", "127.0.0.1:9002", "192.0.2.1", 403},
		{"metrics", "/metrics", "192.0.2.1:1", "192.0.2.9:9001", "", 403},
		{"metrics", "/health", "192.0.2.1:1", "192.0.2.9:9001", "", 200},
		{"metrics", "/metrics", "127.0.0.1:1", "127.0.0.1:9001", "", 200},
	} {
		if got := ask(handlers[c.handler], c.path, c.from, c.local, c.forwarded, ""); got != c.want {
			t.Errorf("%+v: status %d", c, got)
		}
	}
	token := login(t, handlers["open"], bootstrap(t, node))
	if got := ask(handlers["closed"], "/api/v1/namespaces", "192.0.2.1:1", "192.0.2.9:9002", "", token); got != 200 {
		t.Errorf("from another machine with a key: status %d", got)
	}
}
