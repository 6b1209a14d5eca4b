package cli

import (
	"io"
	"strings"
	"testing"
)

// TestEnvDefaults: variables count unless a flag is given.
func TestEnvDefaults(t *testing.T) {
	t.Parallel()
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
	defer s.stop()
	env := map[string]string{"FLOE_ADDR": s.addr, "FLOE_NAMESPACE": "shop", "FLOE_OUTPUT": "raw", "FLOE_TIMEOUT": "7s"}
	for _, tc := range []struct {
		args, want string
		code       int
	}{
		{args: "kv set k v", want: "k\t1\t1\n"},
		{args: "kv get k", want: "v"},
		{args: "kv get k -n default", code: exitNotFound},
		{args: "kv set k w -o json", want: `"namespace": "shop"`},
		{args: "__complete kv get -n ", want: "default\nshop\n:4\n"},
		{args: "__complete kv get -n sh", want: "shop\n:4\n"},
		{args: "__complete queue dequeue ", want: ":4\n"},
		{args: "action register mail --timeout 3s -o raw", want: "mail"},
	} {
		code, stdout, stderr := run(t, env, strings.Split(tc.args, " ")...)
		if code != tc.code || !strings.Contains(stdout, tc.want) {
			t.Errorf("floe %s: exit code %d, printed\n%s%swant %q", tc.args, code, stdout, stderr, tc.want)
		}
	}
	for name, value := range map[string]string{"FLOE_NAMESPACE": "", "FLOE_OUTPUT": "yaml", "FLOE_TIMEOUT": "fast"} {
		code, _, stderr := run(t, map[string]string{"FLOE_ADDR": s.addr, name: value}, "kv", "get", "k", "-n", "shop")
		if want := name + "=" + value + ": "; value != "" && (code != exitUsage || !strings.Contains(stderr, want)) {
			t.Errorf("exit code %d, stderr\n%swant %q", code, stderr, want)
		}
		if value == "" && code != exitOK {
			t.Errorf("%s is empty: exit code %d, %s", name, code, stderr)
		}
	}
}

func TestMisspeltEnv(t *testing.T) {
	for entry, want := range map[string]string{
		"FLOE_ADRR=h:1": "FLOE_ADDR", "FLOE_APIKEY=x": "FLOE_API_KEY", "FLOE_NAME_SPACE=x": "FLOE_NAMESPACE",
		"FLOE_DATADIR=x": "FLOE_DATA_DIR", "FLOEADDR=x": "FLOE_ADDR",
		"FLOE_ADDR=h:1": "", "FLOE_LOCK_TOKEN=3": "", "FLOE_TLS_CLIENT_CA=x": "", "FLOE_DATA_DIR=x": "",
		"FLOE_PORT=tcp://10.0.0.1:9000": "", "FLOE_PORT_9000_TCP_ADDR=10.0.0.1": "", "FLOE_SERVICE_PORT_DASHBOARD=1": "",
		"FLOE_DASHBOARD_PORT_9002_TCP=tcp://10.0.0.1:9002": "", "FLOE_SOMETHING_ELSE=1": "", "PATH=/bin": "", "FLOE_URL=http://a": "",
	} {
		var stderr strings.Builder
		code := Run(t.Context(), Process{Args: []string{"version"}, Stdout: io.Discard, Stderr: &stderr, LookupEnv: lookup(nil),
			Environ: []string{entry}})
		if code != exitOK || (want == "") != (stderr.Len() == 0) || !strings.HasSuffix(stderr.String(), want+"?\n") && want != "" {
			t.Errorf("%s: exit code %d, stderr %q, want %s", entry, code, &stderr, want)
		}
	}
}
