package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestClient runs the scripts of testdata, each against a server of its own. The golden part is written anew with -rewrite.
func TestClient(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
		defer s.stop()
		c := &console{t: t, env: map[string]string{"FLOE_ADDR": s.addr}, dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(c.dir, "payload"), []byte("from a file,\nin bytes: \x00\xff\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			var all strings.Builder
			for line := range strings.Lines(d.Input) {
				all.WriteString(c.typed(strings.TrimSpace(line)))
			}
			return all.String()
		})
	})
}

// console runs command lines as a person would type them.
type console struct {
	t   *testing.T
	env map[string]string
	dir string // DIR in a line
}

// volatile matches what is different in each run.
var volatile = regexp.MustCompile(`20\d\d-\d\d-\d\dT[\d:.]+Z|("(?:updated_at|timestamp_ms|created_at|ttl_ms|term)": )\d+`)

// typed returns a line and what it printed. A line may begin with "echo TEXT |".
func (c *console) typed(line string) string {
	var stdin io.Reader
	command := line
	if text, found := strings.CutPrefix(line, "echo "); found {
		text, command, _ = strings.Cut(text, " | ")
		stdin = strings.NewReader(strings.ReplaceAll(text, "DIR", c.dir) + "\n")
	}
	var args []string
	for word := range strings.FieldsSeq(strings.ReplaceAll(command, "DIR", c.dir)) {
		args = append(args, strings.Trim(word, "'"))
	}
	code, stdout, stderr := runWith(c.t, c.env, stdin, args...)
	shown := "> " + line + "\n" + stdout
	if !strings.HasSuffix(shown, "\n") {
		shown += "|\n" // the line does not end
	}
	shown += stderr
	if code != 0 {
		shown += fmt.Sprintf("exit code %d\n", code)
	}
	if slices.Contains(args, "json") && code == 0 {
		if err := oneDocument(stdout); err != nil {
			c.t.Errorf("floe %s: %v\n%s", line, err, stdout)
		}
	}
	shown = strings.ReplaceAll(shown, c.dir, "DIR")
	shown = strings.ReplaceAll(strings.ReplaceAll(shown, "\x00", "<00>"), "\xff", "<ff>")
	return volatile.ReplaceAllString(shown, "${1}NOW")
}

// oneDocument returns an error unless text is one JSON document and nothing else.
func oneDocument(text string) error {
	var document any
	return json.Unmarshal([]byte(text), &document)
}

func TestNoServer(t *testing.T) {
	free, other := freeAddr(t), freeAddr(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, tc := range []struct {
		args   string
		env    string // FLOE_ADDR
		code   int
		stderr string // parts, by |
	}{
		{args: "kv get k --addr " + free, code: 1,
			stderr: "floe: error: no node answers at " + free + ": connect: connection refused\n|hint: start one with floe server start"},
		{args: "kv set k v --timeout 100ms", env: free, code: 1, stderr: "no node answers at " + free + ": "},
		{args: "kv get k --timeout 100ms", env: silent.Addr().String(), code: 1, stderr: "no node answers at " + silent.Addr().String() + ": "},
		{args: "kv watch k --timeout 100ms", env: free, code: 1, stderr: "no node answers at " + free + ": "},
		{args: "cluster status --timeout 100ms --addr " + free + " --addr " + other, env: "never:1", code: 1, stderr: "no node answers at " + free + ", " + other + ": "},
		{args: "server status --timeout 100ms --addr " + free + "," + other, code: 1, stderr: "no node answers at " + free + ", " + other + ": "},
		{args: "ns list", env: "here", code: 2, stderr: "floe: error: FLOE_ADDR=here: \"here\" is not host:port\nfloe: hint: see floe ns list --help\n"},
	} {
		begun := time.Now()
		code, stdout, stderr := run(t, map[string]string{"FLOE_ADDR": tc.env}, strings.Fields(tc.args)...)
		if code != tc.code || stdout != "" || time.Since(begun) > 8*time.Second {
			t.Errorf("floe %s: exit code %d after %v, want %d within 8 s; stdout %q", tc.args, code, time.Since(begun), tc.code, stdout)
		}
		for part := range strings.SplitSeq(tc.stderr, "|") {
			if !strings.Contains(stderr, part) {
				t.Errorf("floe %s: stderr lacks %q:\n%s", tc.args, part, stderr)
			}
		}
	}
}

// freeAddr returns an address at which nothing listens just now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestPayload has what stdin may be besides text.
func TestPayload(t *testing.T) {
	env := map[string]string{"FLOE_ADDR": freeAddr(t)}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if code, _, stderr := runWith(t, env, null, "kv", "set", "k"); code != exitUsage || !strings.Contains(stderr, "VALUE is missing\nfloe: hint: give it as an argument, as @file or on stdin") {
		t.Errorf("nothing on stdin: exit code %d, stderr\n%s", code, stderr)
	}
	long := io.LimitReader(zeros{}, maxPayloadBytes+1)
	if code, _, stderr := runWith(t, env, long, "kv", "set", "k"); code != exitFailure || !strings.Contains(stderr, "VALUE: is longer than 16777216 bytes") {
		t.Errorf("too much on stdin: exit code %d, stderr\n%s", code, stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never, end := io.Pipe()
	defer end.Close()
	var stderr strings.Builder
	code := Run(ctx, Process{Args: []string{"kv", "set", "k", "-"}, Stdin: never, Stdout: io.Discard, Stderr: &stderr, LookupEnv: lookup(env)})
	if code != exitFailure || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("interrupted while reading stdin: exit code %d, stderr\n%s", code, &stderr)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"kv w":                   "watch\t",
		"kv get -o ":             "table\nraw\njson\n",
		"server status --output": "--output\t",
		"server status -o ":      "table\nraw\njson\n",
		"kv get k":               ":4\n", // no files
		"kv get --tls-ca ":       ":0\n", // files
		"kv get --addr ":         ":4\n",
		"server start ":          ":4\n",

		"server start --log-level ": "debug\ninfo\nwarn\nerror\n:4\n",
		"server start --durability": "--durability\t",
		"server start --data-dir ":  ":16\n", // directories
		"server start --tls-cert ":  ":0\n",
		"server start --port ":      ":4\n",
		"server verify ":            ":16\n",
		"server verify -o ":         "table\nraw\njson\n",
		"version -o ":               "table\nraw\njson\n",
		"help kv g":                 "get\t",
		"completion ":               "bash\t",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if code, stdout, stderr := run(t, nil, args...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("complete %q: exit code %d, stdout\n%swant %q; stderr\n%s", line, code, stdout, want, stderr)
		}
	}
}
