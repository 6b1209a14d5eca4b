package cli

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSettingsReach: what a configuration file says is what the ports do. It is named by the
// environment, and a flag goes before it.
func TestSettingsReach(t *testing.T) {
	name := filepath.Join(t.TempDir(), "node.toml")
	const file = `max_value_size = "2KiB"
shards = 3
[dashboard]
hosts = ["ops.example.com"]
cors_origins = ["https://ops.example.com"]
trusted_proxies = ["10.0.0.0/8", "fd00::1"]
[metrics]
hosts = ["prometheus.example.com"]
objects = 7
[limits]
max_connections = 55
max_in_flight = 33
max_waiting = 44
[log]
format = "json"
`
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startBy(t, as(Process{LookupEnv: lookup(map[string]string{"FLOE_CONFIG": name})}), "--data-dir", t.TempDir(), "--shards", "2")
	if !strings.Contains(s.stdout, "(shards: 2, ") {
		t.Errorf("the flag does not go before the file:\n%s", s.stdout)
	}
	c := client(t)
	ask := func(method, url, host, origin string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if origin != "" {
			req.Header.Set("Origin", origin)
			req.Header.Set("Access-Control-Request-Method", "PUT")
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp
	}
	const dashboard, metrics, foreign = "ops.example.com:9002", "prometheus.example.com", "evil.example.com"
	for _, r := range []struct {
		url, host string
		want      int
	}{
		{s.url + "/api/v1/namespaces", dashboard, 200}, {s.url + "/api/v1/namespaces", metrics, 421}, {s.url + "/api/v1/namespaces",
			foreign, 421}, {s.url + "/health", foreign, 200},
		{s.scrape, metrics, 200}, {s.scrape, dashboard, 421}, {s.scrape, foreign, 421},
	} {
		if resp := ask("GET", r.url, r.host, ""); resp.StatusCode != r.want {
			t.Errorf("GET %s as %s: status %d, want %d", r.url, r.host, resp.StatusCode, r.want)
		}
	}
	for origin, want := range map[string]string{"https://ops.example.com": "https://ops.example.com", "https://evil.example.com": ""} {
		if got := ask("OPTIONS", s.url+keyPath("k"), "localhost", origin).Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("pages of %s: allowed is %q, want %q", origin, got, want)
		}
	}
	mustCall(t, 200, "PUT", s.url+keyPath("k"), `{"value":"`+strings.Repeat("x", 2048)+`"}`)
	if status, answer, err := call(c, "PUT", s.url+keyPath("k"), `{"value":"`+strings.Repeat("x", 2049)+`"}`); err != nil ||
		status/100 != 4 || !strings.Contains(answer, "2 KiB") && !strings.Contains(answer, "2048") {
		t.Errorf("a value of 2049 bytes: status %d, %v, %s", status, err, answer)
	}
	text := mustCall(t, 200, "GET", s.scrape, "")
	for _, want := range []string{
		"floe_metrics_objects_limit 7\n", `floe_limit_size{limit="connections"} 55` + "\n", `floe_limit_size{limit="calls"} 33` +
			"\n", `floe_limit_size{limit="waits"} 44` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	if code := s.stop(); code != 0 || !strings.Contains(s.stderr(), `{"time":`) {
		t.Errorf("exit code %d, stderr\n%s", code, s.stderr())
	}
}
