package dashboard

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

// TestTrustedProxies: behind a trusted proxy a request counts for the client that the proxy names, whatever the client has written before. Nobody else is believed.
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
