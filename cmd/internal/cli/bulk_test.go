package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBulk writes several batches, which end at a bad line, at a key of another shard's namespace,
// or when the user interrupts.
func TestBulk(t *testing.T) {
	t.Parallel()
	s := start(t, "--data-dir", t.TempDir(), "--shards", "4", "--max-value-size", "1KiB")
	defer s.stop()
	env := map[string]string{"FLOE_ADDR": s.addr}
	numbered := func(n int, line string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, line+"\n", i)
		}
		return b.String()
	}
	check := func(in string, code int, want string, args ...string) {
		t.Helper()
		got, stdout, stderr := runWith(t, env, strings.NewReader(in), args...)
		if got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("floe %v: exit code %d, want %d; printed\n%s%swant %q", args, got, code, stdout, stderr, want)
		}
	}
	check(numbered(1234, "%d"), exitOK, "numbers\t1234\n", "stream", "append", "numbers", "--lines", "-o", "raw")
	if _, stdout, _ := run(t, env, "stream", "read", "numbers", "--limit", "2000", "-o", "raw"); !strings.HasSuffix(stdout, "\t1233\n") {
		t.Errorf("read ends with %q", stdout[max(0, len(stdout)-50):])
	}
	check(numbered(700, "k%d\tv"), exitOK, "700\n", "kv", "set", "--lines", "-o", "raw")
	check(numbered(700, `{"payload":"%d","dedup_key":"d"}`), exitOK, "q\t700\t699\n", "queue", "enqueue", "q", "--ndjson", "-o", "raw")

	bad := numbered(1100, "b%d\tv") + "no tab\n" + numbered(5, "c%d\tv")
	check(bad, exitUsage, "floe: error: line 1101: has no tab between key and value\nfloe: hint: lines 1 to 1000 were written\n",
		"kv", "set", "--lines")
	check("", exitOK, "b999\t", "kv", "list", "--prefix", "b999", "-o", "raw")
	if _, stdout, _ := run(t, env, "kv", "list", "--prefix", "b10", "-o", "raw"); strings.Contains(stdout, "b1000") {
		t.Errorf("a part of the batch with the bad line was written:\n%s", stdout)
	}
	check("crlf\tv\r\n", exitOK, "1\n", "kv", "set", "--lines", "-o", "raw")
	check("", exitOK, `"value": "v",`, "kv", "get", "crlf", "-o", "json")
	for line, want := range map[string]string{
		"{\"key\":\"a\",\"value\":\"\xff\"}": "line 1: is not valid UTF-8", `{"key":"a","value":"\ud800"}`: "half a surrogate pair",
		`{"key":"a","value":"1","value":"2"}`: `member "value" is given twice`,
		`{"key":"a","vale":"1"}`:              `line 1: unknown member "vale" (did you mean "value"?)`,
		`{"key":"a","Value":"1"}`:             `unknown member "Value" (did you mean "value"?)`, `{"key":"a","value":null}`: `member "value" is null`,
		"null": "line 1: is not a JSON object", `{"key":"a","value":"1"}]`: "line 1: is not valid JSON: ",
	} {
		check(line, exitUsage, want, "kv", "set", "--ndjson")
	}
	check("\n{\"payload\":\"1\"}\r\n \t\r\n\n{\"payload\":\"2\"}\n\n", exitOK, "blanks\t2\n",
		"stream", "append", "blanks", "--ndjson", "-o", "raw")
	check(numbered(500, `{"payload":"%d"}`+"\n")+"\n[]", exitUsage, "line 1002: is ", "stream", "append", "blanks", "--ndjson")
	check(numbered(500, `{"payload":"%d"}`+"\n")+"[]", exitUsage, "hint: lines 1 to 999 were written",
		"stream", "append", "blanks", "--ndjson")
	check("\n{\"key\":\"a\",\"value\":\"\"}\n\n{\"key\":\"\",\"value\":\"\"}", exitUsage, "line 4: kv: key is empty",
		"kv", "set", "--ndjson")
	check(`{"payload":"1","headers":{"h":"1","h":"2"}}`, exitUsage, `member "headers": member "h" is given twice`,
		"stream", "append", "blanks", "--ndjson")
	check("a\n\nb\n", exitOK, "blanks\t3\n", "stream", "append", "blanks", "--lines", "-o", "raw")
	long := numbered(3, "%d") + strings.Repeat("x", 1025) + "\n"
	check(long, exitUsage, "line 4: 1025 bytes exceed the max_value_size of the node, 1024\nfloe: hint: nothing was written\n",
		"stream", "append", "long", "--lines")

	check("", exitOK, "", "ns", "create", "wide", "--spread")
	check(numbered(20, "k%d\tv"), exitOK, "20\n", "kv", "set", "--lines", "-n", "wide", "-o", "raw")
	check(numbered(3, "w%d\tv")+"\tv\n", exitUsage,
		"line 4: kv: key is empty\nfloe: hint: lines 1 to 3 were written\n", "kv", "set", "--lines", "-n", "wide")

	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte("one\ntwo"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("", exitOK, "f\t2\n", "stream", "append", "f", "--lines", "@"+file, "-o", "raw")
	check("", exitUnavailable, "no node answers",
		"stream", "append", "f", "--lines", "@"+file, "--addr", "127.0.0.1:1", "--timeout", "100ms")
}

// TestBulkFollows: lines are sent while the input has no more yet.
func TestBulkFollows(t *testing.T) {
	t.Parallel()
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
	defer s.stop()
	c := &console{t: t, env: map[string]string{"FLOE_ADDR": s.addr}}
	records := c.follow("stream read log --follow -o raw")
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	exited := make(chan int, 1)
	var stderr lockedBuffer
	go func() {
		exited <- Run(ctx, Process{Args: []string{"stream", "append", "log", "--lines"}, Stdin: in, Stdout: io.Discard, Stderr: &stderr,
			LookupEnv: lookup(c.env)})
	}()
	for _, line := range []string{"one", "two"} {
		if _, err := io.WriteString(out, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if got := records.next(); !strings.HasSuffix(got, "\t"+line) {
			t.Errorf("read %q, want %s", got, line)
		}
	}
	cancel()
	// The record may be there before the append returns.
	said := regexp.MustCompile(`^floe: error: interrupted(: line.*)?\nfloe: hint: (lines 1 to 2 were|line 1 was) written`)
	if code := <-exited; code != exitInterrupted || !said.MatchString(stderr.String()) {
		t.Errorf("interrupted: exit code %d, stderr\n%s", code, stderr.String())
	}
	out.Close()
	records.stop()
}

func TestBulkMeter(t *testing.T) {
	var b strings.Builder
	m := bulkMeter{to: &b, shown: true, size: 200}
	m.add(100, 7)
	m.end()
	if want := "\r\033[K[===============               ]  50%  7 lines\r\033[K"; b.String() != want {
		t.Errorf("showed %q, want %q", b.String(), want)
	}
}
