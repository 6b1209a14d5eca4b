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
		"listen_port = 7000 ", "shards = 3 ", "# FLOE_SHARDS\n", "dashboard_port = 7002 ", `cache_size = "64MiB"`, "floe.toml, line 3\n", `bind = "127.0.0.2"`, "enabled = true",
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

// TestBadConfigFile: whatever is wrong with a file is said with its line, all of it at once, before anything is opened.
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
		{"[cluster]\nnode_id = 2", "is for a cluster, but there are no --peers"},
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
