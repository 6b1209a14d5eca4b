package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
)

func TestServerStatus(t *testing.T) {
	t.Parallel()
	before := time.Now().Truncate(time.Millisecond)
	s := start(t, "--data-dir", t.TempDir(), "--shards", "2")
	defer s.stop()
	env := map[string]string{"FLOE_ADDR": s.addr}
	var stats serverStats
	mustDecode(t, env, &stats, "server", "status", "-o", "json")
	if stats.State != "ok" || stats.Version == "" || stats.NumShards != 2 || stats.Disk.FreeBytes == 0 ||
		time.UnixMilli(stats.StartedAt).Before(before) || time.UnixMilli(stats.StartedAt).After(time.Now()) ||
		!strings.HasPrefix(stats.Uptime, "0d 0h ") {
		t.Errorf("server status: %+v", stats)
	}
	for format, parts := range map[string]string{"table": "state        ok\n|uptime       |disk free    |read-only    false\n",
		"raw": "state\tok\n|read-only\tfalse\n"} {
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
	if code != 0 && (code != exitUnavailable || !strings.Contains(stderr, "no leader of shard")) {
		t.Fatalf("floe %v: exit code %d, stderr\n%s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), into); err != nil {
		t.Fatalf("floe %v: %v\n%s", args, err, stdout)
	}
}

// TestNoQuorum asks a node that is left alone: it says how it is, and why it can do nothing.
func TestNoQuorum(t *testing.T) {
	t.Parallel()
	addr := machinetest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1", "--port", port, "--node-id", "1",
		"--peers", fmt.Sprintf("1=%s,2=%s,3=%s", addr, machinetest.FreeAddr(t), machinetest.FreeAddr(t)), "--secret-file", secretFile(t))
	env := map[string]string{"FLOE_ADDR": addr}
	if strings.Contains(s.stdout, "ready") || !strings.Contains(s.stdout, "waits for other nodes") {
		t.Errorf("it says, alone:\n%s", s.stdout)
	}
	for _, tc := range []struct{ args, stdout, stderr string }{
		{args: "cluster status -o raw", stdout: "\tunhealthy\t0\t-\t-\nshard\t0\tnone\t", stderr: "error: no leader of shard 0\n"},
		{args: "cluster status -o raw", stdout: "\nproblem\t2\t1\tit cannot be reached at ", stderr: "error: no leader of shard 0\n"},
		{args: "server status -o raw", stdout: "\nstate\tno quorum\n"},
		// On a busy machine the time ends before there is a connection, and the hint is another
		// one.
		{args: "kv get k --timeout 100ms", stderr: "with --timeout"},
		{args: "kv set k v",
			stderr: "no leader is known)\nfloe: hint: floe cluster status shows which nodes answer and which shards have a leader\n"},
	} {
		code, stdout, stderr := run(t, env, strings.Fields(tc.args)...)
		if want := map[bool]int{true: exitUnavailable}[tc.stderr != ""]; code != want || !strings.Contains(stdout, tc.stdout) ||
			!strings.Contains(stderr, tc.stderr) {
			t.Errorf("floe %s: exit code %d, stdout\n%sstderr\n%swant %q, %q", tc.args, code, stdout, stderr, tc.stdout, tc.stderr)
		}
	}
	// What the replica has is answered all the same: that there is no such key.
	for _, args := range []string{"kv get k --stale", "kv list --stale"} {
		want := map[string]int{"kv get k --stale": exitNotFound}[args]
		if code, stdout, stderr := run(t, env, strings.Fields(args)...); code != want {
			t.Errorf("floe %s: exit code %d, want %d, stdout\n%sstderr\n%s", args, code, want, stdout, stderr)
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

// TestClusterCommands starts three nodes and finds them all from any of them.
func TestClusterCommands(t *testing.T) {
	t.Parallel()
	secret := secretFile(t)
	addrs := []string{machinetest.FreeAddr(t), machinetest.FreeAddr(t), machinetest.FreeAddr(t)}
	peers := fmt.Sprintf("1=%s,2=%s,3=%s", addrs[0], addrs[1], addrs[2])
	var nodes []*running
	for i, addr := range addrs {
		_, port, _ := net.SplitHostPort(addr)
		s := start(t, "--data-dir", t.TempDir(), "--shards", "3", "--port", port,
			"--node-id", strconv.Itoa(i+1), "--peers", peers, "--secret-file", secret)
		nodes = append(nodes, s)
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
		code, stdout, stderr := run(t, nil, "kv", "get", key, "--addr", machinetest.FreeAddr(t)+","+addrs[2-i])
		if code != 0 || stdout != "v"+key {
			t.Errorf("get %s at node %d: exit code %d, %q, stderr\n%s", key, 3-i, code, stdout, stderr)
		}
	}
	defer func() {
		for i, s := range nodes[:2] {
			if code := s.stop(); code != 0 {
				t.Errorf("node %d: exit code %d, stderr\n%s", i+1, code, s.stderr())
			}
		}
	}()
	s := nodes[2]
	if code := s.stop(); code != 0 {
		t.Errorf("node 3: exit code %d, stderr\n%s", code, s.stderr())
	}
	for i, addr := range addrs[:2] {
		env := map[string]string{"FLOE_ADDR": addr}
		stats := awaitHealthy(t, env, 2)
		if stats.Node != uint64(i+1) || stats.Nodes[0].Leads+stats.Nodes[1].Leads != 3 || stats.Nodes[2].Leads != 0 ||
			stats.Nodes[2].Status != "unhealthy" {
			t.Errorf("cluster status of node %d, with node 3 stopped: %+v", i+1, stats)
		}
		for i, n := range stats.Nodes {
			if n.Addr != addrs[i] || (n.Version != "") != (i < 2) {
				t.Errorf("node %d: %+v, it is at %s", i+1, n, addrs[i])
			}
		}
		for _, sh := range stats.Shards {
			if len(sh.Replicas) != 2 || sh.Replicas[0].Node != 1 || sh.Replicas[1].Node != 2 || sh.Commit < sh.Replicas[1].Applied {
				t.Errorf("shard %+v, want a replica on node 1 and one on node 2", sh)
			}
		}
		code, stdout, stderr := run(t, env, "cluster", "status")
		for _, want := range []string{
			"^NODE  ADDRESS +STATUS +LEADS  UPTIME  COMMANDS/S\n1     127.0.0.1:\\d+  healthy +\\d      \\d+s +\\d",
			"\n3     127.0.0.1:\\d+  unhealthy  0      -       -\n\nSHARD  LEADER  TERM  COMMIT  APPLIED BY 1  APPLIED BY 2  APPLIED " +
				"BY 3\n0      [12]       \\d+ +\\d+ +\\d+ +\\d+ +-\n1 ",
		} {
			if code != 0 || !regexp.MustCompile(want).MatchString(stdout) {
				t.Errorf("cluster status: exit code %d, stdout\n%swant %s, stderr\n%s", code, stdout, want, stderr)
			}
		}
		code, stdout, stderr = run(t, env, "cluster", "status", "-o", "raw")
		if want := "node\t1\t" + addrs[0] + "\thealthy\t"; code != 0 || !strings.HasPrefix(stdout, want) ||
			strings.Count(stdout, "\nshard\t") != 3 {
			t.Errorf("cluster status -o raw: exit code %d, stdout\n%sstderr\n%s", code, stdout, stderr)
		}
	}
	// With one address that answers nothing, and one of a node that is not there, the third one is
	// asked.
	awaitHealthy(t, map[string]string{"FLOE_ADDR": machinetest.FreeAddr(t) + "," + addrs[2] + "," + addrs[1]}, 2)
}

// awaitHealthy asks for the status of a cluster until that many nodes are healthy and all shards
// have leaders.
func awaitHealthy(t *testing.T, env map[string]string, nodes int) clusterStats {
	t.Helper()
	deadline := time.After(patience)
	for tick := time.Tick(20 * time.Millisecond); ; {
		var stats clusterStats
		mustDecode(t, env, &stats, "cluster", "status", "-o", "json")
		leaders := 0
		for _, sh := range stats.Shards {
			if sh.Leader != 0 && sh.Term != 0 && sh.Commit != 0 {
				leaders++
			}
		}
		healthy := slices.DeleteFunc(slices.Clone(stats.Nodes), func(n nodeStats) bool { return n.Status != "healthy" })
		if len(healthy) == nodes && leaders == stats.NumShards && stats.State == "ok" {
			return stats
		}
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("cluster status: %+v", stats)
		}
	}
}
