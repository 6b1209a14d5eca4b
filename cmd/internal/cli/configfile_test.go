package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// config runs floe server config with a file.
func configOf(t *testing.T, file string, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "floe.toml")
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = run(t, env, append([]string{"server", "config", "--config", name}, args...)...)
	return code, stdout, strings.ReplaceAll(stderr, name, "floe.toml")
}

func TestConfigFile(t *testing.T) {
	const file = `listen_port = 7000 # a comment
shards = 2
cache_size = "64MiB"
[dashboard]
enabled = true
bind = "127.0.0.2"
cors_origins = ["https://ops.example.com"]
[log]
level = "warn"
`
	code, stdout, stderr := configOf(t, file, map[string]string{"FLOE_SHARDS": "3", "FLOE_LOG_LEVEL": "error"}, "--log-level", "debug")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, want := range []string{
		"listen_port = 7000 ", "shards = 3 ", "# FLOE_SHARDS\n", "dashboard_port = 7002 ", `cache_size = "64MiB"`, "floe.toml, line 3\n",
		`bind = "127.0.0.2"`, "enabled = true",
		`cors_origins = ["https://ops.example.com"]`, `level = "debug"`, "# --log-level\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the configuration lacks %q:\n%s", want, stdout)
		}
	}
	// What it prints is a configuration file for the same.
	again, printed, stderr := configOf(t, stdout, nil)
	if again != 0 || strip(printed) != strip(stdout) {
		t.Errorf("read again: exit code %d, %s\n%s\nwant\n%s", again, stderr, printed, stdout)
	}
}

// strip removes comments.
func strip(file string) (settings string) {
	for line := range strings.Lines(file) {
		setting, _, _ := strings.Cut(line, "#")
		if setting = strings.TrimSpace(setting); setting != "" {
			settings += setting + "\n"
		}
	}
	return settings
}

// TestBadConfigFile: whatever is wrong with a file is said with its line, all of it at once, before
// anything is opened.
func TestBadConfigFile(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"listen_prot = 1", "floe.toml:1: unknown key listen_prot: did you mean listen_port?"},
		{"\n[dashbord]\nenabled = true", "floe.toml:2: unknown table dashbord: did you mean dashboard?"},
		{"[dashboard]\n\nport = 1", "floe.toml:3: unknown key dashboard.port"},
		{"node_id = 1", "floe.toml:1: unknown key node_id: did you mean cluster.node_id?"},
		{"listen_port = \"9000\"", "floe.toml:1: listen_port: \"9000\" is not an integer"},
		{"listen_port = 70000", "floe.toml:1: listen_port = 70000: not a port"},
		{"listen_port = 7000\ndashboard_port = 7000", "floe.toml:2: dashboard_port = 7000: is the port for clients"},
		{"[dashboard]\nenabled = 1", "floe.toml:2: dashboard.enabled: 1 is not true or false"},
		{"[dashboard]\nhosts = \"a\"", "floe.toml:2: dashboard.hosts: \"a\" is not a list of strings"},
		{"cache_size = \"1EiB\"", "not a size"},
		{"cache_size = -1", "not a size"},
		{"a = \n", "floe.toml:1: column"},
		{"shards = 1\nshards = 2", "floe.toml:2: column"},
		{"[dashboard]\ntls_cert = \"c\"", "is of no use without its key"},
		{"[dashboard]\ncors_origins = [\"ops.example.com\"]", "origin"},
		{"[dashboard]\ntrusted_proxies = [\"10.0.0.0/33\"]", "neither an address nor a network"},
		{"[cluster]\nnode_id = 2", "is for a cluster, but there are no --peers"},
		{"port = 7000", "floe.toml:1: unknown key port: did you mean listen_port?"},
		{"listen_port = 9000.0", "floe.toml:1: listen_port: 9000.0 is not an integer"},
		{"sync_interval = 100", "floe.toml:1: sync_interval: 100 is not a string such as \"100ms\""},
		{"dashboard = true", "floe.toml:1: dashboard is a table: its keys go below one line with [dashboard]"},
		{"[[dashboard]]\nbind = \"::1\"", "floe.toml:1: dashboard is a table"},
		{"[shards]\nn = 1", "floe.toml:1: shards: a table is not an integer"},
		{"[dashboard]\nhosts = [\"https://ops.example.com\"]", "invalid host name or address \"https://ops.example.com\""},
		{"[metrics]\nhosts = [\"::1\", \"ops.example.com:9001\"]", "invalid host name or address \"ops.example.com:9001\""},
		{"[cluster]\npeers = [\"1=a:1\", \"2=a:1\"]", "nodes 1 and 2 have the same address, a:1"},
		{"[cluster]\npeers = [\"1=a:1\", \"2=a:2\", \"3=a:3\", \"4=a:4\", \"5=a:5\", \"6=a:6\", \"7=a:7\", \"8=a:8\"]",
			"a cluster has at most 7 nodes"},
		{"memory = \"512MiB\"\ncache_size = \"1GiB\"",
			"floe.toml:1: memory = \"512MiB\": the parts come to 1264 MiB with floe.toml:2: cache_size = \"1GiB\": make them smaller"},
		{"memory = \"64MiB\"\nshards = 256", "with floe.toml:2: shards = 256: make them smaller"},
	} {
		code, _, stderr := configOf(t, c.file, nil)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s, want %q", c.file, code, stderr, c.want)
		}
	}
	code, _, stderr := configOf(t, "x = 1\ny = 2\n[z]\n", nil)
	if code != exitUsage || strings.Count(stderr, "floe: error: ") != 3 || strings.Index(stderr, ":1:") > strings.Index(stderr, ":3:") {
		t.Errorf("three mistakes: exit code %d\n%s", code, stderr)
	}
	if code, _, _ := run(t, nil, "server", "config", "--config", "/nowhere/floe.toml"); code != exitUsage {
		t.Errorf("a file that there is not: exit code %d", code)
	}
	if code, _, stderr := run(t, nil, "server", "config", "--config", "/dev/zero"); code != exitUsage ||
		!strings.Contains(stderr, "is longer than 1048576 bytes") {
		t.Errorf("a file without end: exit code %d\n%s", code, stderr)
	}
	// Numbers are printed as TOML has them.
	if code, stdout, stderr := configOf(t, "", nil, "--shards", "007"); code != 0 || !strings.Contains(stdout, "\nshards = 7 ") {
		t.Errorf("--shards 007: exit code %d\n%s%s", code, stderr, stdout)
	}
}

func FuzzConfigFile(f *testing.F) {
	f.Add("listen_port = 7000\n[dashboard]\nbind = \"127.0.0.1\"\n")
	f.Add("dashboard = {enabled = false, x = [1, 2]}\na.b.c = 1979-05-27")
	f.Add("[[dashboard]]\n[log.level]\n\"quoted key\" = '''\nx'''")
	f.Fuzz(func(t *testing.T, text string) {
		for _, err := range parseConfigFile("floe.toml", []byte(text)).bad {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
		}
	})
}

// TestFilesBeforeAnything: a file that a server is told of and that is missing or wrong is found
// before anything is made or listens.
func TestFilesBeforeAnything(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("too short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--peers 1=127.0.0.1:3 --node-id 1 --secret-file nowhere":  "--secret-file=nowhere: open nowhere",
		"--peers 1=127.0.0.1:3 --node-id 1 --secret-file " + short: "holds 9 bytes, a secret has at least 16",
		"--tls-cert nowhere --tls-key nowhere":                     "--tls-cert=nowhere, --tls-key=nowhere: open nowhere",
		"--dashboard-tls-cert nowhere --dashboard-tls-key nowhere": "--dashboard-tls-cert=nowhere, --dashboard-tls-key=nowhere: " +
			"open nowhere",
		"--metrics-tls-cert nowhere --metrics-tls-key nowhere --port 0": "--metrics-tls-cert=nowhere, --metrics-tls-key=nowhere: open " +
			"nowhere",
	} {
		dir := filepath.Join(t.TempDir(), "data")
		code, _, stderr := run(t, nil, append([]string{"server", "start", "--data-dir", dir, "--dashboard-port", "1", "--metrics-port",
			"2"}, strings.Fields(args)...)...)
		if code != exitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %q", args, code, stderr, want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the data directory was made", args)
		}
	}
}
