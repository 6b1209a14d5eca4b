package cli

import (
	"net"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	s := start(t, "--data-dir", t.TempDir())
	port := func(url string) string {
		_, address, _ := strings.Cut(url, "://")
		address, _, _ = strings.Cut(address, "/")
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	_, clients, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	of := func(args ...string) []string { return append([]string{"server", "health"}, args...) }
	for _, tc := range []struct {
		args           []string
		code           int
		stdout, stderr string // stderr in parts, by |
	}{
		{of("--metrics-port", port(s.scrape)), 0, "ok\n", ""},
		{of("--metrics-port", port(s.scrape), "--metrics-bind", "0.0.0.0"), 0, "ok\n", ""},
		{of("--no-metrics", "--dashboard-port", port(s.url)), 0, "ok\n", ""},
		{of("--no-metrics", "--no-dashboard"), exitFailure, "", "serves no health checks|hint: enable the metrics"},
		{of("--metrics-port", "0"), exitUnavailable, "", "no node answers at http://127.0.0.1:0/health|hint: start the node"},
		{of("--port", "9000", "--metrics-port", clients), exitUnavailable, "", "error: "},
		{of("--metrics-port", "x"), exitUsage, "", "not a port"},
	} {
		code, stdout, stderr := run(t, nil, tc.args...)
		if code != tc.code || stdout != tc.stdout {
			t.Errorf("%v: exit code %d, %q, %s, want %d, %q", tc.args, code, stdout, stderr, tc.code, tc.stdout)
		}
		for part := range strings.SplitSeq(tc.stderr, "|") {
			if !strings.Contains(stderr, part) {
				t.Errorf("%v: stderr lacks %q:\n%s", tc.args, part, stderr)
			}
		}
	}
	// The dashboard is no port for clients.
	code, _, stderr := run(t, nil, "kv", "get", "k", "--addr", "127.0.0.1:"+port(s.url))
	if code != exitUnavailable || !strings.Contains(stderr, "it is an HTTP server, such as the dashboard, and not the port for clients") {
		t.Errorf("kv get from the dashboard: exit code %d, %s", code, stderr)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
