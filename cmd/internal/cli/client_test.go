package cli

import (
	"bufio"
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

	"github.com/cockroachdb/datadriven"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
)

// TestClient runs the scripts of testdata/scripts, each against a server of its own, of one shard,
// or four if its name ends in -spread. The golden part is written anew with -rewrite.
func TestClient(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		shards := "1"
		if strings.HasSuffix(path, "-spread.txt") {
			shards = "4"
		}
		s := start(t, "--data-dir", t.TempDir(), "--shards", shards)
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
	t     *testing.T
	env   map[string]string
	dir   string   // DIR in a line
	names []string // IDs and receipts, by the numbers that a script has for them: ID1, ID2, ...
}

// volatile matches what is different in each run.
var volatile = regexp.MustCompile(`20\d\d-\d\d-\d\dT[\d:.]+Z|("(?:term|reads|\w+_at|timestamp_ms|id_ms|ttl_ms|ack_deadline|lag_ms|last_seen|lease_until|deadline)": |"records_processed": \d+,\s+"bytes": )\d+`)

// named matches the IDs of records and runs, and the receipts that a dequeue prints. Scripts have
// names for them, since they are different in each run.
var (
	recordName  = regexp.MustCompile(`\b\d{13}-\d+\b|\b(?:run|wfr)-[0-9a-v]+\b|\b(?:job|sp)-[0-9A-Z]{26}\b`)
	receiptName = regexp.MustCompile(`(?m)^\d+-\d+\b|"receipt": "\d+-\d+"`)
)

// name gives names to what an output has for the first time, and returns it with all of them.
func (c *console) name(args []string, stdout string) string {
	found := recordName.FindAllString(stdout, -1)
	if slices.Contains(args, "dequeue") {
		for _, receipt := range receiptName.FindAllString(stdout, -1) {
			found = append(found, strings.Trim(strings.TrimPrefix(receipt, `"receipt": `), `"`))
		}
	}
	for _, name := range found {
		if !slices.Contains(c.names, name) {
			c.names = append(c.names, name)
		}
	}
	return c.withNames(stdout)
}

func (c *console) withNames(text string) string {
	for i, name := range c.names {
		short := fmt.Sprintf("ID%d", i+1)
		// The columns behind stay where they are.
		text = regexp.MustCompile(`\b`+name+`  `).ReplaceAllString(text, fmt.Sprintf("%-*s  ", len(name), short))
		text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(text, short)
	}
	return text
}

// named puts the IDs and receipts back in.
func (c *console) named(line string) string {
	return regexp.MustCompile(`\bID\d+\b`).ReplaceAllStringFunc(line, func(name string) string {
		var n int
		if _, err := fmt.Sscanf(name, "ID%d", &n); err != nil || n < 1 || n > len(c.names) {
			c.t.Errorf("floe %s: nothing has the name %s yet", line, name)
			return name
		}
		return c.names[n-1]
	})
}

// typed returns a line and what it printed. A line may begin with "echo TEXT |".
func (c *console) typed(line string) string {
	var stdin io.Reader
	command := line
	if text, found := strings.CutPrefix(line, "echo "); found {
		text, command, _ = strings.Cut(text, " | ")
		stdin = strings.NewReader(strings.ReplaceAll(text, "DIR", c.dir) + "\n")
	}
	var args []string
	for word := range strings.FieldsSeq(c.named(strings.ReplaceAll(command, "DIR", c.dir))) {
		args = append(args, strings.Trim(word, "'"))
	}
	code, stdout, stderr := runWith(c.t, c.env, stdin, args...)
	shown := "> " + line + "\n" + c.name(args, stdout)
	if !strings.HasSuffix(shown, "\n") {
		shown += "|\n" // the line does not end
	}
	shown += c.withNames(stderr)
	if code != 0 {
		shown += fmt.Sprintf("exit code %d\n", code)
	}
	if strings.Contains(line, "-o json") && code == 0 {
		if err := oneDocument(stdout); err != nil {
			c.t.Errorf("floe %s: %v\n%s", line, err, stdout)
		}
	}
	shown = strings.ReplaceAll(shown, c.dir, "DIR")
	shown = strings.ReplaceAll(strings.ReplaceAll(shown, "\x00", "<00>"), "\xff", "<ff>")
	return volatile.ReplaceAllString(shown, "${1}NOW")
}

// following is a command that runs until it is stopped.
type following struct {
	c      *console
	line   string
	lines  *bufio.Scanner
	cancel context.CancelFunc
	exited <-chan int
}

// follow starts a command that runs until it is stopped.
func (c *console) follow(line string) *following {
	ctx, cancel := context.WithCancel(c.t.Context())
	out, stdout := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		defer stdout.Close()
		exited <- Run(ctx, Process{Args: strings.Fields(line), Stdout: stdout, Stderr: io.Discard, LookupEnv: lookup(c.env)})
	}()
	return &following{c, line, bufio.NewScanner(out), cancel, exited}
}

// next returns the next line that it prints.
func (f *following) next() string {
	f.c.t.Helper()
	if !f.lines.Scan() {
		f.c.t.Fatalf("floe %s: ended with exit code %d, %v", f.line, <-f.exited, f.lines.Err())
	}
	return f.lines.Text()
}

// stop ends it. It must have printed nothing more.
func (f *following) stop() {
	f.c.t.Helper()
	f.cancel()
	if code := <-f.exited; code != exitOK || f.lines.Scan() {
		f.c.t.Errorf("floe %s: stopped with exit code %d, printed %q", f.line, code, f.lines.Text())
	}
}

// oneDocument returns an error unless text is one JSON document and nothing else.
func oneDocument(text string) error {
	var document any
	return json.Unmarshal([]byte(text), &document)
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	free, other := machinetest.FreeAddr(t), machinetest.FreeAddr(t)
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
		{args: "kv get k --addr " + free, code: 5,
			stderr: "floe: error: no node answers at " + free + ": connect: connection refused\n|hint: start one with floe server start"},
		{args: "kv set k v --timeout 100ms", env: free, code: 5, stderr: "no node answers at " + free + ": "},
		{args: "kv get k --timeout 100ms", env: silent.Addr().String(), code: 5,
			stderr: "no node answers at " + silent.Addr().String() + ": |; or allow more than 100ms with --timeout\n"},
		{args: "kv watch k --timeout 100ms", env: free, code: 5, stderr: "no node answers at " + free + ": "},
		{args: "stream read k --follow --timeout 100ms", env: free, code: 5, stderr: "no node answers at " + free + ": "},
		{args: "queue dequeue k --wait 1m --timeout 100ms", env: free, code: 5, stderr: "no node answers at " + free + ": "},
		{args: "cluster status --timeout 100ms --addr " + free + " --addr " + other, env: "never:1", code: 5,
			stderr: "no node answers at " + free + ", " + other + ": "},
		{args: "server status --timeout 100ms --addr " + free + "," + other, code: 5,
			stderr: "no node answers at " + free + ", " + other + ": "},
		{args: "ns list", env: "here", code: 2,
			stderr: "floe: error: FLOE_ADDR=here: \"here\" is not host:port\nfloe: hint: see floe ns list --help\n"},
	} {
		code, stdout, stderr := run(t, map[string]string{"FLOE_ADDR": tc.env}, strings.Fields(tc.args)...)
		if code != tc.code || stdout != "" {
			t.Errorf("floe %s: exit code %d, want %d; stdout %q", tc.args, code, tc.code, stdout)
		}
		for part := range strings.SplitSeq(tc.stderr, "|") {
			if !strings.Contains(stderr, part) {
				t.Errorf("floe %s: stderr lacks %q:\n%s", tc.args, part, stderr)
			}
		}
	}
}

// TestPayload has what stdin may be besides text.
func TestPayload(t *testing.T) {
	env := map[string]string{"FLOE_ADDR": machinetest.FreeAddr(t)}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if code, _, stderr := runWith(t, env, null, "kv", "set", "k"); code != exitUsage ||
		!strings.Contains(stderr, "VALUE is missing\nfloe: hint: give it as an argument, as @file or on stdin") {
		t.Errorf("nothing on stdin: exit code %d, stderr\n%s", code, stderr)
	}
	long := io.LimitReader(zeros{}, maxPayloadBytes+1)
	if code, _, stderr := runWith(t, env, long, "kv", "set", "k"); code != exitFailure ||
		!strings.Contains(stderr, "VALUE: is longer than 16777216 bytes") {
		t.Errorf("too much on stdin: exit code %d, stderr\n%s", code, stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never, end := io.Pipe()
	defer end.Close()
	var stderr strings.Builder
	code := Run(ctx, Process{Args: []string{"kv", "set", "k", "-"}, Stdin: never, Stdout: io.Discard, Stderr: &stderr,
		LookupEnv: lookup(env)})
	if code != exitInterrupted || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("interrupted while reading stdin: exit code %d, stderr\n%s", code, &stderr)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestCompletionOfNames asks a node for the names of what it has.
func TestCompletionOfNames(t *testing.T) {
	t.Parallel()
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
	defer s.stop()
	c := &console{t: t, env: map[string]string{"FLOE_ADDR": s.addr}, dir: t.TempDir()}
	definition := `{"name":"order","version":"1","start":{"sleep":{"ms":3600000},"transitions":{"success":"flo.Completed"}}}`
	for _, line := range []string{
		"echo " + definition + " | workflow create -f -", "stream append orders a", "stream append other a -n second",
		"stream group read orders billing ann", "queue enqueue mail a",
		"queue enqueue bills a --max-attempts 1", "workflow start order --run-id o-1",
	} {
		c.typed(line)
	}
	c.typed("queue dequeue bills -o raw")
	c.typed(fmt.Sprintf("queue nack bills ID%d --to-dlq", len(c.names)))
	for line, want := range map[string]string{
		"stream read ":                                          "orders\n:4\n",
		"stream read o":                                         "orders\n:4\n",
		"stream read m":                                         ":4\n",
		"stream read orders ":                                   ":4\n",
		"stream read -n second ":                                "other\n:4\n",
		"stream append orders ":                                 ":4\n",
		"stream create ":                                        ":4\n",
		"stream group read orders ":                             "billing\n:4\n",
		"stream group read orders billing ":                     "ann\n:4\n",
		"stream group read nobody ":                             ":4\n",
		"stream group seek orders billing ":                     "beginning\nend\n:4\n",
		"stream group create orders x --mode ":                  "shared\nexclusive\nkey_shared\n:4\n",
		"queue dequeue ":                                        "bills\nmail\n:4\n",
		"queue dlq requeue bills ":                              "1\n:4\n",
		"workflow start ":                                       "order\n:4\n",
		"workflow delete x":                                     ":4\n",
		"workflow history ":                                     "o-1\n:4\n",
		"workflow signal o-1 ":                                  ":4\n",
		"workflow runs --workflow ":                             "order\n:4\n",
		"workflow runs --status ":                               "pending\nrunning\nwaiting\ncompleted\nfailed\ncancelled\ntimed_out\n:4\n",
		"workflow create -f ":                                   ":0\n",
		"queue peek mail --state ":                              "ready\ndelayed\nleased\n:4\n",
		"queue dequeue --addr " + machinetest.FreeAddr(t) + " ": ":4\n",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if code, stdout, _ := run(t, c.env, args...); code != 0 || stdout != want {
			t.Errorf("complete %q: exit code %d, stdout\n%swant %q", line, code, stdout, want)
		}
	}
	// More names than a shell is offered at a time: what has been typed chooses among all of them.
	client, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, prefix := range []string{"a", "z"} {
		txn := client.Txn("many")
		for i := range 600 {
			txn.Do(queue.EnqueueOp(fmt.Sprintf("%s%03d", prefix, i), nil))
		}
		if _, err := txn.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, stdout, _ := run(t, c.env, "__complete", "queue", "dequeue", "-n", "many", "z59"); strings.Count(stdout, "z59") != 10 {
		t.Errorf("complete a queue behind more than a page of others: %q, want ten names", stdout)
	}
	if _, stdout, _ := run(t, c.env, "__complete", "stream", "group", "ack", "orders", "billing", ""); stdout != c.names[0]+"\n:4\n" {
		t.Errorf("complete the ID of a pending record: %q, want %s", stdout, c.names[0])
	}
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
