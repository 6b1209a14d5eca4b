package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestBench(t *testing.T) {
	t.Parallel()
	s := start(t, "--data-dir", t.TempDir())
	defer s.stop()
	env := map[string]string{"FLOE_ADDR": s.addr}
	for _, where := range []string{"", " --embedded", " --durability async --data-dir " + t.TempDir()} {
		out := expectRun(t, env, 0, strings.Fields("bench kv-put queue --for 500ms --clients 4 --keys 10 -o json"+where)...)
		var results []benchResult
		if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != 2 {
			t.Fatalf("bench%s: %v\n%s", where, err, out)
		}
		for _, r := range results {
			if r.Calls == 0 || r.Failed > 0 || r.P50 <= 0 || r.P99 < r.P50 || r.Max <= 0 {
				t.Errorf("bench%s: %+v", where, r)
			}
		}
	}
	if out := expectRun(t, env, 0, "bench", "kv-get", "--for", "20ms", "--keys", "10"); !strings.HasPrefix(out, "LOAD") ||
		!strings.Contains(out, "kv-get") {
		t.Errorf("as a table:\n%s", out)
	}
	// A key that may only read has none of its calls done.
	keyed := start(t, "--data-dir", t.TempDir())
	defer keyed.stop()
	_, port, _ := strings.Cut(keyed.addr, ":")
	admin := strings.TrimSpace(expectRun(t, nil, 0, "server", "bootstrap", "--data-dir", keyed.dataDir(t), "--port", port))
	reader := strings.TrimSpace(expectRun(t, map[string]string{"FLOE_ADDR": keyed.addr, "FLOE_API_KEY": admin}, 0, "key", "create",
		"--role", "read", "-o", "raw"))
	as := map[string]string{"FLOE_ADDR": keyed.addr, "FLOE_API_KEY": reader}
	expectRun(t, as, exitUnavailable, "bench", "kv-put", "--for", "50ms", "--keys", "10")
	for _, bad := range []string{"bench kv-pit", "bench --clients 0", "bench --keys -1", "bench --for 0s", "bench --durability never",
		"bench --durability async",
		"bench --embedded --data-dir x", "bench kv-put --for 20ms --value-size 1048577"} {
		expectRun(t, env, exitUsage, strings.Fields(bad)...)
	}
}
