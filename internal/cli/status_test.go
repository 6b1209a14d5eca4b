package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestServerStatus(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir(), "--shards", "2")
	defer s.stop()
	env := map[string]string{"FLOE_ADDR": s.addr}
	var stats serverStats
	mustDecode(t, env, &stats, "server", "status", "-o", "json")
	if stats.State != "ok" || stats.Version == "" || stats.NumShards != 2 || stats.Disk.FreeBytes == 0 || stats.UptimeSeconds > 60 ||
		time.Since(time.UnixMilli(stats.StartedAt)) > time.Minute || !strings.HasPrefix(stats.Uptime, "0d 0h ") {
		t.Errorf("server status: %+v", stats)
	}
	for format, parts := range map[string]string{"table": "state        ok\n|uptime       |disk free    |read-only    false\n", "raw": "state\tok\n|read-only\tfalse\n"} {
		code, stdout, stderr := run(t, env, "server", "status", "-o", format)
		for part := range strings.SplitSeq(parts, "|") {
			if code != 0 || !strings.Contains(stdout, part) {
				t.Errorf("server status -o %s: exit code %d, stdout lacks %q\n%s%s", format, code, part, stdout, stderr)
			}
		}
	}
}

// mustDecode runs a command that prints one JSON document.
func mustDecode(t *testing.T, env map[string]string, into any, args ...string) {
	t.Helper()
	code, stdout, stderr := run(t, env, args...)
	if code != 0 {
		t.Fatalf("floe %v: exit code %d, stderr\n%s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), into); err != nil {
		t.Fatalf("floe %v: %v\n%s", args, err, stdout)
	}
}

// TestNoQuorum asks a node that is left alone: it says how it is, and why it can do nothing.
func TestNoQuorum(t *testing.T) {
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1", "--port", port, "--node-id", "1",
		"--peers", fmt.Sprintf("1=%s,2=%s,3=%s", addr, freeAddr(t), freeAddr(t)), "--secret-file", secretFile(t))
	env := map[string]string{"FLOE_ADDR": addr}
	for _, tc := range []struct{ args, stdout, stderr string }{
		{args: "cluster status", stdout: "3     unhealthy  active\n\nSHARD  LEADER  TERM  APPLIED\n0      none    "},
		{args: "server status -o raw", stdout: "\nstate\tno quorum\n"},
		{args: "kv get k --timeout 100ms", stderr: "none is known)\nfloe: hint: floe cluster status shows"},
		{args: "kv set k v", stderr: "none is known)\nfloe: hint: floe cluster status shows which nodes answer and which shards have a leader\n"},
	} {
		code, stdout, stderr := run(t, env, strings.Fields(tc.args)...)
		if (code != 0) != (tc.stderr != "") || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
			t.Errorf("floe %s: exit code %d, stdout\n%sstderr\n%swant %q, %q", tc.args, code, stdout, stderr, tc.stdout, tc.stderr)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d, stderr\n%s", code, s.stderr())
	}
}

// secretFile returns a file with what the nodes of a cluster know each other by.
func secretFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte("\n a secret of the tests \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestCluster starts three nodes and finds them all from any of them.
func TestCluster(t *testing.T) {
	secret := secretFile(t)
	addrs := []string{freeAddr(t), freeAddr(t), freeAddr(t)}
	peers := fmt.Sprintf("1=%s,2=%s,3=%s", addrs[0], addrs[1], addrs[2])
	for i, addr := range addrs {
		_, port, _ := net.SplitHostPort(addr)
		s := start(t, "--data-dir", t.TempDir(), "--shards", "3", "--port", port,
			"--node-id", strconv.Itoa(i+1), "--peers", peers, "--secret-file", secret)
		defer func() {
			if code := s.stop(); code != 0 {
				t.Errorf("node %d: exit code %d, stderr\n%s", i+1, code, s.stderr())
			}
		}()
		if want := fmt.Sprintf("  clients    %s\n  cluster    node %d of 3\n", addr, i+1); !strings.Contains(s.stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, s.stdout)
		}
	}
	for i, addr := range addrs {
		awaitHealthy(t, map[string]string{"FLOE_ADDR": addr}, len(addrs))
		key := strconv.Itoa(i)
		if code, _, stderr := run(t, nil, "kv", "set", key, "v"+key, "--addr", addr); code != 0 {
			t.Errorf("set at node %d: exit code %d, stderr\n%s", i+1, code, stderr)
		}
	}
	for i := range addrs {
		key := strconv.Itoa(i)
		code, stdout, stderr := run(t, nil, "kv", "get", key, "--addr", freeAddr(t)+","+addrs[2-i])
		if code != 0 || stdout != "v"+key {
			t.Errorf("get %s at node %d: exit code %d, %q, stderr\n%s", key, 3-i, code, stdout, stderr)
		}
	}
	code, stdout, stderr := run(t, nil, "cluster", "status", "--addr", addrs[0])
	if want := "NODE  STATUS   ROLE\n1     healthy  active\n2     healthy  active\n3     healthy  active\n\nSHARD  LEADER  TERM  APPLIED\n0      "; code != 0 || !strings.HasPrefix(stdout, want) {
		t.Errorf("cluster status: exit code %d, stdout\n%sstderr\n%s", code, stdout, stderr)
	}
	code, stdout, stderr = run(t, nil, "cluster", "status", "--addr", addrs[0], "-o", "raw")
	if want := "node\t1\thealthy\tactive\n"; code != 0 || !strings.HasPrefix(stdout, want) || strings.Count(stdout, "\nshard\t") != 3 {
		t.Errorf("cluster status -o raw: exit code %d, stdout\n%sstderr\n%s", code, stdout, stderr)
	}
}

// awaitHealthy asks for the status of a cluster until all nodes are healthy and all shards have leaders.
func awaitHealthy(t *testing.T, env map[string]string, nodes int) {
	t.Helper()
	deadline := time.After(patience)
	for tick := time.Tick(20 * time.Millisecond); ; {
		var stats clusterStats
		mustDecode(t, env, &stats, "cluster", "status", "-o", "json")
		leaders := 0
		for _, sh := range stats.Shards {
			if sh.Leader != 0 && sh.Term != 0 && sh.Applied != 0 {
				leaders++
			}
		}
		healthy := slices.DeleteFunc(slices.Clone(stats.Nodes), func(n nodeStats) bool { return n.Status != "healthy" })
		if len(healthy) == nodes && leaders == stats.NumShards && stats.State == "ok" {
			return
		}
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("cluster status: %+v", stats)
		}
	}
}
