package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/floedb/floe/internal/test/machinetest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(floodEnv); text != "" {
		var f flood
		err := json.Unmarshal([]byte(text), &f)
		if err == nil {
			err = f.run(os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	machinetest.AtOnce(6)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if binDir != "" {
			os.RemoveAll(binDir)
		}
		os.Exit(code)
	}))
}

// run carries out one command line that ends by itself.
func run(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runWith(t, env, nil, args...)
}

// runWith is run with something on stdin.
func runWith(t *testing.T, env map[string]string, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), Process{Args: args, Stdin: stdin, Stdout: &out, Stderr: &errs, LookupEnv: lookup(env)})
	return code, out.String(), errs.String()
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, given := env[name]
		return v, given
	}
}

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		name   string
		args   string // by spaces
		env    map[string]string
		code   int
		stdout string // parts, by |
		stderr string // the whole
	}{
		{name: "no command", stdout: "Usage:|server|version"},
		{name: "help", args: "--help", stdout: "Usage:"},
		{name: "help of a command", args: "help server start", stdout: "--data-dir|--no-dashboard|FLOE_DATA_DIR|--peers|default 9000"},
		{name: "group", args: "server", stdout: "start"},
		{name: "version", args: "version", stdout: "floe 0."},
		{name: "version as a flag", args: "--version", stdout: "floe 0."},
		{name: "completion", args: "completion bash", stdout: "__floe"},
		{name: "completion for zsh", args: "completion zsh", stdout: "#compdef floe"},
		{name: "completion for fish", args: "completion fish", stdout: "complete -c floe"},
		{name: "version as JSON", args: "version -o json", stdout: "\"version\": \"0.|\"arch\": "},
		{name: "version in raw form", args: "version -o raw", stdout: "0.1.0\tgo1"},
		{name: "help of a group", args: "help kv", stdout: "Usage:|incr"},
		{name: "help of a group of groups", args: "help stream", stdout: "Usage:|group|trim"},
		{name: "group below a group", args: "stream group", stdout: "Usage:|pending|floe stream group"},
		{name: "dead letters", args: "queue dlq", stdout: "Usage:|requeue"},
		{name: "completion without a shell", args: "completion", stdout: "bash|zsh|fish"},
		{name: "help about nothing", args: "help bogus", code: 2,
			stderr: "floe: error: unknown command \"bogus\" of floe\nfloe: hint: see floe --help\n"},
		{name: "help about nothing in a group", args: "help kv gte", code: 2,
			stderr: "floe: error: unknown command \"gte\" of floe kv\nfloe: hint: did you mean floe kv get?\n"},
		{name: "completion for another shell", args: "completion nushell", code: 2,
			stderr: "floe: error: unknown command \"nushell\" of floe completion\nfloe: hint: see floe completion --help\n"},
		{name: "completion for two", args: "completion bash zsh", code: 2,
			stderr: "floe: error: unexpected argument \"zsh\"\nfloe: hint: see floe completion bash --help\n"},
		{name: "an argument with a dash", args: "kv set n -5", code: 2,
			stderr: "floe: error: unknown shorthand flag: '5' in -5\nfloe: hint: see floe kv set --help; put an argument that begins with " +
				"a dash after --\n"},
		{name: "a certificate alone", args: "server start --tls-cert c", code: 2,
			stderr: "floe: error: --tls-cert=c: is of no use without its key, --tls-key\nfloe: hint: see floe server start --help\n"},
		{name: "a key alone", args: "server start", env: map[string]string{"FLOE_TLS_KEY": "k"}, code: 2,
			stderr: "floe: error: FLOE_TLS_KEY=k: is of no use without its certificate, --tls-cert\nfloe: hint: see floe server start " +
				"--help\n"},
		{name: "a certificate of the metrics alone", args: "server start --no-dashboard --metrics-tls-cert c", code: 2,
			stderr: "floe: error: --metrics-tls-cert=c: is of no use without its key, --metrics-tls-key\nfloe: hint: see floe server " +
				"start --help\n"},
		{name: "authorities alone", args: "server start --tls-client-ca c", code: 2,
			stderr: "floe: error: --tls-client-ca=c: the node needs a certificate itself, --tls-cert\nfloe: hint: see floe server " +
				"start --help\n"},
		{name: "unknown command", args: "bogus", code: 2,
			stderr: "floe: error: unknown command \"bogus\" of floe\nfloe: hint: see floe --help\n"},
		{name: "mistyped command", args: "servr", code: 2,
			stderr: "floe: error: unknown command \"servr\" of floe\nfloe: hint: did you mean floe server?\n"},
		{name: "mistyped command of a group", args: "server strt", code: 2,
			stderr: "floe: error: unknown command \"strt\" of floe server\nfloe: hint: did you mean floe server start?\n"},
		{name: "unknown flag", args: "server start --colour red", code: 2,
			stderr: "floe: error: unknown flag: --colour\nfloe: hint: see floe server start --help\n"},
		{name: "mistyped flag", args: "kv set k v --tll 60s", code: 2,
			stderr: "floe: error: unknown flag: --tll\nfloe: hint: did you mean --ttl? see floe kv set --help\n"},
		{name: "flag without value", args: "server start --port", code: 2,
			stderr: "floe: error: flag needs an argument: --port\nfloe: hint: see floe server start --help\n"},
		{name: "unexpected argument", args: "server start now", code: 2,
			stderr: "floe: error: unexpected argument \"now\"\nfloe: hint: see floe server start --help\n"},
		{name: "version takes nothing", args: "version 1", code: 2,
			stderr: "floe: error: unexpected argument \"1\"\nfloe: hint: see floe version --help\n"},
		{name: "all bad values at once", code: 2,
			args: "server start --port 65536 --dashboard-port 65536 --node-id 0 --peers 1=x --secret-file= --shards 257 --durability " +
				"fast --log-level loud --log-format xml --bind here --dashboard-bind 1.2.3 --data-dir= --no-dashboard=perhaps",
			stderr: `floe: error: --data-dir=: is empty
floe: error: --shards=257: not a number of shards: it takes 1 to 256
floe: error: --durability=fast: not one of async, sync
floe: error: --port=65536: not a port: it takes 0 to 65535
floe: error: --bind=here: not an IP address
floe: error: --node-id=0: not a node id: it takes whole numbers from 1
floe: error: --peers=1=x: "x" of node 1 is not host:port
floe: error: --secret-file=: is empty
floe: error: --no-dashboard=perhaps: not one of 0, 1, false, true
floe: error: --dashboard-port=65536: not a port: it takes 0 to 65535
floe: error: --dashboard-bind=1.2.3: not an IP address
floe: error: --log-level=loud: not one of debug, error, info, warn
floe: error: --log-format=xml: not one of json, text
floe: hint: see floe server start --help
`},
		{name: "bad numbers", args: "server start --port 1e3 --shards 0 --dashboard-port -1", code: 2,
			stderr: `floe: error: --shards=0: not a number of shards: it takes 1 to 256
floe: error: --port=1e3: not a port: it takes 0 to 65535
floe: error: --dashboard-port=-1: not a port: it takes 0 to 65535
floe: hint: see floe server start --help
`},
		{name: "bad environment", args: "server start", env: map[string]string{"FLOE_SHARDS": "many", "FLOE_NO_DASHBOARD": "yes"}, code: 2,
			stderr: `floe: error: FLOE_SHARDS=many: not a number of shards: it takes 1 to 256
floe: error: FLOE_NO_DASHBOARD=yes: not one of 0, 1, false, true
floe: hint: see floe server start --help
`},
		{name: "flag goes before environment", args: "server start --shards 0", env: map[string]string{"FLOE_SHARDS": "many"}, code: 2,
			stderr: "floe: error: --shards=0: not a number of shards: it takes 1 to 256\nfloe: hint: see floe server start --help\n"},
		{name: "no port two above", args: "server start --port 65534", code: 2,
			stderr: "floe: error: --port=65534: the dashboard would be at port 65536, but ports end at 65535: choose one with " +
				"--dashboard-port\nfloe: hint: see floe server start --help\n"},
		{name: "a port twice", args: "server start --port 7000 --dashboard-port 7000", code: 2,
			stderr: "floe: error: --dashboard-port=7000: is the port for clients and other nodes already (--port=7000)\nfloe: hint: " +
				"see floe server start --help\n"},
		{name: "a node id alone", args: "server start --node-id 1 --secret-file s", code: 2,
			stderr: `floe: error: --node-id=1: is for a cluster, but there are no --peers
floe: error: --secret-file=s: is for a cluster, but there are no --peers
floe: hint: see floe server start --help
`},
		{name: "peers alone", args: "server start --peers 1=a:1,2=b:2,3=c:3", code: 2,
			stderr: `floe: error: --peers=1=a:1,2=b:2,3=c:3: a cluster needs a shared secret: --secret-file is missing
floe: error: --peers=1=a:1,2=b:2,3=c:3: which of them this node is has to be said with --node-id
floe: hint: see floe server start --help
`},
		{name: "not one of the peers", args: "server start --peers 1=a:1 --node-id 4", code: 2,
			stderr: "floe: error: --node-id=4: is not among them (--peers=1=a:1)\nfloe: hint: see floe server start --help\n"},
		{name: "a peer twice", args: "server start --peers 1=a:1,1=b:2 --node-id 1", code: 2,
			stderr: "floe: error: --peers=1=a:1,1=b:2: node 1 is listed twice\nfloe: hint: see floe server start --help\n"},
		{name: "a peer without id", args: "server start --peers a:1 --node-id 1", code: 2,
			stderr: "floe: error: --peers=a:1: \"a:1\" is not id=host:port\nfloe: hint: see floe server start --help\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := run(t, tc.env, strings.Fields(tc.args)...)
			if code != tc.code || stderr != tc.stderr {
				t.Errorf("floe %s: exit code %d, stderr\n%swant %d,\n%s", tc.args, code, stderr, tc.code, tc.stderr)
			}
			if (stdout == "") != (tc.stdout == "") {
				t.Errorf("floe %s: stdout\n%s", tc.args, stdout)
			}
			for part := range strings.SplitSeq(tc.stdout, "|") {
				if !strings.Contains(stdout, part) {
					t.Errorf("floe %s: stdout lacks %q:\n%s", tc.args, part, stdout)
				}
			}
		})
	}
}

func TestConfig(t *testing.T) {
	cluster := map[string]string{
		"FLOE_PEERS": "2=10.0.0.2:9010, 3=[fd00::3]:9020,4=four.example:9030", "FLOE_SECRET_FILE": "secret",
	}
	kubernetes := map[string]string{"FLOE_PORT": "tcp://10.0.0.1:9000"}
	for _, tc := range []struct {
		args          string
		env           map[string]string
		listenAddr    string // "": 127.0.0.1:9000
		dashboardAddr string
		local         bool
	}{
		{args: "", dashboardAddr: "127.0.0.1:9002", local: true},
		{args: "--port 7000", listenAddr: "127.0.0.1:7000", dashboardAddr: "127.0.0.1:7002", local: true},
		{args: "--port 0", listenAddr: "127.0.0.1:0", dashboardAddr: "127.0.0.1:0", local: true},
		{args: "--port 0 --dashboard-port 7000", listenAddr: "127.0.0.1:0", dashboardAddr: "127.0.0.1:7000", local: true},
		{args: "--dashboard-port 0", dashboardAddr: "127.0.0.1:0", local: true},
		{args: "--port 65535 --dashboard-port 1 --no-metrics", listenAddr: "127.0.0.1:65535", dashboardAddr: "127.0.0.1:1", local: true},
		{args: "--dashboard-bind ::1", dashboardAddr: "[::1]:9002", local: true},
		{args: "--dashboard-bind localhost", dashboardAddr: "localhost:9002", local: true},
		{args: "--dashboard-bind 0.0.0.0", dashboardAddr: "0.0.0.0:9002"},
		{args: "--bind 0.0.0.0", listenAddr: "0.0.0.0:9000", dashboardAddr: "127.0.0.1:9002", local: true},
		{args: "--port 7000", env: map[string]string{"FLOE_PORT": "8000"}, listenAddr: "127.0.0.1:7000", dashboardAddr: "127.0.0.1:7002",
			local: true},
		{env: map[string]string{"FLOE_PORT": "8000", "FLOE_DASHBOARD_BIND": "127.0.0.2"}, listenAddr: "127.0.0.1:8000",
			dashboardAddr: "127.0.0.2:8002", local: true},
		{env: map[string]string{"FLOE_PORT": ""}, dashboardAddr: "127.0.0.1:9002", local: true},
		{env: kubernetes, dashboardAddr: "127.0.0.1:9002", local: true},
		{args: "--node-id 2", env: cluster, listenAddr: "10.0.0.2:9010", dashboardAddr: "127.0.0.1:9012", local: true},
		{args: "--node-id 3", env: cluster, listenAddr: "[fd00::3]:9020", dashboardAddr: "127.0.0.1:9022", local: true},
		{args: "--node-id 4", env: cluster, listenAddr: "four.example:9030", dashboardAddr: "127.0.0.1:9032", local: true},
		{args: "--node-id 4 --bind 0.0.0.0", env: cluster, listenAddr: "0.0.0.0:9030", dashboardAddr: "127.0.0.1:9032", local: true},
		{args: "--node-id 4 --port 7000", env: cluster, listenAddr: "four.example:7000", dashboardAddr: "127.0.0.1:7002", local: true},
	} {
		p := Process{LookupEnv: lookup(tc.env)}
		cmd := startCommand(p)
		if err := cmd.ParseFlags(strings.Fields(tc.args)); err != nil {
			t.Fatal(err)
		}
		c, err := readConfig(cmd, p)
		if err != nil {
			t.Errorf("%q with %v: %v", tc.args, tc.env, err)
			continue
		}
		if want := cmp.Or(tc.listenAddr, "127.0.0.1:9000"); c.listenAddr() != want {
			t.Errorf("%q with %v: listens at %s, want %s", tc.args, tc.env, c.listenAddr(), want)
		}
		if local := isLocal(c.dashboardBind); c.dashboardAddr() != tc.dashboardAddr || local != tc.local {
			t.Errorf("%q with %v: dashboard at %s, local %v, want %s, %v", tc.args, tc.env, c.dashboardAddr(), local, tc.dashboardAddr,
				tc.local)
		}
	}
}

// TestStartRefused has what is only wrong with the world.
func TestStartRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	takenNumber := taken.Addr().(*net.TCPAddr).Port
	takenPort := strconv.Itoa(takenNumber)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(short, []byte(" short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := t.TempDir()
	if err := os.WriteFile(filepath.Join(newer, "FORMAT"), []byte(`{"floe_format":1000}`), 0o600); err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	if s := start(t, "--data-dir", made, "--shards", "2"); s.stop() != 0 {
		t.Fatalf("create directory: %s", s.stderr())
	}
	for _, tc := range []struct {
		args   []string
		stderr string // parts, by |
	}{
		{[]string{"--dashboard-port", takenPort},
			"--dashboard-port=" + takenPort + ": |address already in use|hint: another node may be running: stop it, or choose another " +
				"port with --dashboard-port"},
		{[]string{"--no-metrics", "--port", strconv.Itoa(takenNumber - 2)},
			"--dashboard-port=" + takenPort + ": |address already in use|or choose other ports with --port, which metrics and"},
		{[]string{"--dashboard-bind", "192.0.2.1"}, "192.0.2.1:0|hint: choose an address of this machine with --dashboard-bind"},
		{[]string{"--no-dashboard", "--no-metrics", "--port", takenPort},
			"--port=" + takenPort + ": |address already in use|hint: another node may be running: stop it, or choose another port with " +
				"--port"},
		{[]string{"--no-dashboard", "--bind", "192.0.2.1"}, "192.0.2.1:0|hint: choose an address of this machine with --bind"},
		{[]string{"--no-dashboard", "--node-id", "1", "--peers", "1=127.0.0.1:1,2=127.0.0.1:2", "--secret-file", file + "2"},
			"--secret-file=|no such file"},
		{[]string{"--no-dashboard", "--node-id", "1", "--peers", "1=127.0.0.1:1,2=127.0.0.1:2", "--secret-file", short},
			"holds 5 bytes, a secret has at least 16"},
		{[]string{"--no-dashboard", "--tls-cert", file, "--tls-key", file}, "--tls-cert=" + file + ", --tls-key=" + file + ": "},
		{[]string{"--no-dashboard", "--data-dir", file}, "--data-dir=" + file + ": |not a directory|hint: choose another directory"},
		{[]string{"--no-dashboard", "--data-dir", filepath.Join(file, "below")}, "not a directory"},
		{[]string{"--no-dashboard", "--data-dir", filepath.Dir(file)},
			"the directory is not empty and has no data of floe; it holds file|hint: choose another directory"},
		{[]string{"--no-dashboard", "--data-dir", newer}, "has format 1000|use a newer floe"},
		{[]string{"--no-dashboard", "--data-dir", made, "--shards", "3"},
			"--shards=3: |was created with 2 shards, not 3|hint: omit --shards"},
	} {
		code, stdout, stderr := run(t, map[string]string{"FLOE_DATA_DIR": t.TempDir()},
			append([]string{"server", "start", "--port", "0"}, tc.args...)...)
		if code != exitFailure || stdout != "" {
			t.Errorf("start %v: exit code %d, want 1; stdout %q", tc.args, code, stdout)
		}
		for part := range strings.SplitSeq(tc.stderr, "|") {
			if !strings.Contains(stderr, part) {
				t.Errorf("start %v: stderr lacks %q:\n%s", tc.args, part, stderr)
			}
		}
	}
}

func TestStartWithoutDashboard(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := Run(ctx, Process{
		Args: []string{"server", "start", "--port", "0", "--no-dashboard"}, Stdout: &out, Stderr: &errs,
		LookupEnv: lookup(map[string]string{"FLOE_DATA_DIR": t.TempDir()}),
	})
	if code != 0 || !strings.Contains(out.String(), "dashboard  off") {
		t.Errorf("start: exit code %d, stdout\n%sstderr\n%s", code, &out, &errs)
	}
}
