package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
)

// TestKeys runs a node with keys as an operator would, the program itself with real sockets: from
// bootstrap to a key that is revoked under a follower.
func TestKeys(t *testing.T) {
	t.Parallel()
	path, dir := build(t), t.TempDir()
	admin := bootstrapBy(t, path, dir)
	if out, err := exec.Command(path, "server", "bootstrap", "--data-dir", dir).CombinedOutput(); exitCode(err) != exitConflict ||
		!strings.Contains(string(out), "already") {
		t.Errorf("a second bootstrap: %v\n%s", err, out)
	}
	s := startBy(t, binary(path, nil), "--data-dir", dir)
	if !strings.Contains(s.stdout, "keys       needed") {
		t.Errorf("start-up lines:\n%s", s.stdout)
	}
	mustCall(t, 401, "GET", s.url+"/api/v1/namespaces", "")
	mustCall(t, 200, "GET", s.url+"/health", "")
	if got := mustCall(t, 200, "GET", s.url+"/api/v1/auth/status", ""); got != `{"auth_enabled":true,"authenticated":false}`+"\n" {
		t.Errorf("status: %s", got)
	}
	var session struct{ Token string }
	if err := json.Unmarshal([]byte(mustCall(t, 200, "POST", s.url+"/api/v1/auth/session", `{"api_key":"`+admin+`"}`)),
		&session); err != nil {
		t.Fatal(err)
	}
	if status := callAs(t, session.Token, s.url+"/api/v1/namespaces"); status != 200 {
		t.Errorf("with a session: %d", status)
	}

	env := map[string]string{"FLOE_ADDR": s.addr}
	expectRun(t, env, exitUnauthorized, "kv", "list")
	expectRun(t, env, exitUnauthorized, "kv", "list", "--api-key", admin[:len(admin)-4]+"0000")
	env["FLOE_API_KEY"] = admin
	expectRun(t, env, 0, "kv", "set", "k", "v", "-n", "mine")
	var made keySummary
	if err := json.Unmarshal([]byte(expectRun(t, env, 0, "key", "create", "--role", "read", "--namespaces", "mine", "-o", "json")),
		&made); err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(made.Key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reader := map[string]string{"FLOE_ADDR": s.addr, "FLOE_API_KEY": "@" + keyFile}
	expectRun(t, reader, 0, "kv", "get", "k", "-n", "mine")
	expectRun(t, reader, exitUnauthorized, "kv", "set", "k", "w", "-n", "mine")
	expectRun(t, reader, exitUnauthorized, "kv", "get", "k", "-n", "other")
	expectRun(t, reader, exitUnauthorized, "key", "list")
	if got := expectRun(t, reader, 0, "ns", "list", "-o", "raw"); !strings.HasPrefix(got, "mine\t") || strings.Count(got, "\n") != 1 {
		t.Errorf("namespaces that a reader sees: %q", got)
	}

	// The stream ends, with everybody who follows it, when the key does.
	followed := make(chan int, 1)
	follower := exec.Command(path, "kv", "watch", "", "-n", "mine", "--addr", s.addr, "--api-key="+made.Key)
	out, err := follower.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = out.Read(make([]byte, 1)) // the first change: it follows
		followed <- 0
	}()
	for waiting := true; waiting; {
		expectRun(t, env, 0, "kv", "set", "k", "v", "-n", "mine")
		select {
		case <-followed:
			waiting = false
		default:
		}
	}
	if shown, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", follower.Process.Pid)); err == nil &&
		(strings.Contains(string(shown), made.Key[10:]) || !strings.Contains(string(shown), "--api-key=***")) {
		t.Errorf("the list of processes shows %q", shown)
	}
	rotated := filepath.Join(t.TempDir(), "rotated")
	expectRun(t, env, exitNotFound, "key", "rotate", "0000000000000000")
	expectRun(t, env, 0, "key", "rotate", made.ID, "--keep", "--out", rotated)
	reader["FLOE_API_KEY"] = "@" + rotated
	expectRun(t, reader, 0, "kv", "get", "k", "-n", "mine")
	expectRun(t, reader, exitUnauthorized, "kv", "set", "k", "w", "-n", "mine")
	before := admin
	// that of the command itself
	admin = strings.TrimSpace(expectRun(t, env, 0, "key", "rotate", strings.Split(admin, "_")[2], "-o", "raw"))
	expectRun(t, env, exitUnauthorized, "key", "list")
	env["FLOE_API_KEY"] = admin
	var passing keySummary
	if err := json.Unmarshal([]byte(expectRun(t, env, 0, "key", "create", "--role", "read", "--expires", "30d", "-o", "json")),
		&passing); err != nil {
		t.Fatal(err)
	}
	if lasts := time.UnixMilli(passing.ExpiresAt).Sub(time.UnixMilli(passing.CreatedAt)); lasts < 29*24*time.Hour ||
		lasts > 30*24*time.Hour {
		t.Errorf("a key for 30 days lasts %v", lasts)
	}
	if err := json.Unmarshal([]byte(expectRun(t, env, 0, "key", "rotate", passing.ID, "-o", "json")), &passing); err != nil {
		t.Fatal(err)
	}
	if lasts := time.UnixMilli(passing.ExpiresAt).Sub(time.UnixMilli(passing.CreatedAt)); lasts < 29*24*time.Hour ||
		lasts > 30*24*time.Hour {
		t.Errorf("in its place is one that lasts %v", lasts)
	}
	if got := expectRun(t, env, 0, "key", "list"); !strings.Contains(got, "EXPIRES") || !strings.Contains(got, "LAST USED") ||
		!strings.Contains(got, shownTime(time.UnixMilli(passing.ExpiresAt))) {
		t.Errorf("the list of keys:\n%s", got)
	}
	expectRun(t, env, 0, "key", "revoke", passing.ID)
	expectRun(t, env, exitUsage, "key", "create", "--role", "read", "--expires", "soon")
	expectRun(t, env, exitUsage, "key", "create", "--role", "read", "--expires", "2020-01-01T00:00:00Z")
	expectRun(t, env, 0, "key", "revoke", made.ID)
	if err := follower.Wait(); exitCode(err) != exitUnauthorized {
		t.Errorf("a follower whose key was revoked: %v", err)
	}
	reader["FLOE_API_KEY"] = "@" + keyFile
	expectRun(t, reader, exitUnauthorized, "kv", "get", "k", "-n", "mine")
	expectRun(t, env, exitConflict, "key", "revoke", strings.Split(admin, "_")[2])
	audit := expectRun(t, env, 0, "stream", "read", "audit-keys", "-n", "_system", "-o", "raw")
	if !strings.Contains(audit, "create key "+made.ID) || !strings.Contains(audit, "revoke key "+made.ID) {
		t.Errorf("the audit:\n%s", audit)
	}
	awaitAudit(t, env, `"key":"`+made.ID+`"`, `"action":"kv put"`, `"result":"not allowed"`)
	awaitAudit(t, env, `"action":"kv put"`, `"namespace":"mine"`, `"result":"ok"`)
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, secret := range []string{before, admin, made.Key, session.Token} {
		tail := secret[len(secret)-40:]
		if strings.Contains(s.stderr(), tail) || strings.Contains(audit, tail) {
			t.Error("a secret is in the log or in the audit")
		}
		grepFiles(t, dir, tail)
	}
}

// TestBootstrapRunning makes the key store of a node that runs: whoever was connected without a key
// is cut off.
func TestBootstrapRunning(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir())
	env := map[string]string{"FLOE_ADDR": s.addr}
	expectRun(t, env, 0, "kv", "set", "k", "v")
	_, port, _ := strings.Cut(s.addr, ":")
	dir := s.dataDir(t)
	admin := strings.TrimSpace(expectRun(t, nil, 0, "server", "bootstrap", "--data-dir", dir, "--port", port))
	expectRun(t, env, exitUnauthorized, "kv", "get", "k")
	env["FLOE_API_KEY"] = admin
	expectRun(t, env, 0, "kv", "get", "k")
	mustCall(t, 401, "GET", s.url+"/api/v1/namespaces", "")
	if stdout := expectRun(t, nil, exitConflict, "server", "bootstrap", "--data-dir", dir, "--port", port); stdout != "" {
		t.Errorf("a second bootstrap shows %q", stdout)
	}
	s.stop()
}

// TestBootstrapOfAPort: a port alone names the node that runs there, and no data directory is made
// beside it, also if nobody runs there.
func TestBootstrapOfAPort(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir())
	defer s.stop()
	_, port, _ := strings.Cut(s.addr, ":")
	here := t.TempDir()
	t.Chdir(here)
	admin := strings.TrimSpace(expectRun(t, nil, 0, "server", "bootstrap", "--port", port))
	expectRun(t, map[string]string{"FLOE_ADDR": s.addr}, exitUnauthorized, "kv", "get", "k")
	expectRun(t, map[string]string{"FLOE_ADDR": s.addr, "FLOE_API_KEY": admin}, 0, "kv", "set", "k", "v")
	expectRun(t, nil, exitConflict, "server", "bootstrap", "--port", port)
	_, port, _ = strings.Cut(machinetest.FreeAddr(t), ":")
	expectRun(t, nil, exitUnavailable, "server", "bootstrap", "--port", port)
	if made, err := os.ReadDir(here); err != nil || len(made) > 0 {
		t.Errorf("bootstrap of a port makes %v, %v", made, err)
	}
}

// dataDir returns the data directory as the start-up lines have it.
func (r *running) dataDir(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(r.stdout, "data       ")
	dir, _, found := strings.Cut(after, " (")
	if !found {
		t.Fatalf("start-up lines:\n%s", r.stdout)
	}
	return dir
}

func bootstrapBy(t *testing.T, path, dir string) (key string) {
	t.Helper()
	out, err := exec.Command(path, "server", "bootstrap", "--data-dir", dir).Output()
	key = strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(key, "floe_sk_") {
		t.Fatalf("bootstrap: %v, %q", err, out)
	}
	return key
}

// expectRun runs a command line, which has to end with the exit code, and returns what it printed.
func expectRun(t *testing.T, env map[string]string, want int, args ...string) string {
	t.Helper()
	code, stdout, stderr := run(t, env, args...)
	if code != want {
		t.Fatalf("floe %v: exit code %d, want %d\n%s%s", args, code, want, stdout, stderr)
	}
	return stdout
}

func callAs(t *testing.T, token, url string) int {
	t.Helper()
	req, err := newRequest("GET", url, token)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// grepFiles fails if a file below dir holds a text.
func grepFiles(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if strings.Contains(string(b), text) {
			t.Errorf("%s holds a secret", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitAudit waits until an entry of the audit has all parts: what clients do is written about a
// second later.
func awaitAudit(t *testing.T, env map[string]string, parts ...string) {
	t.Helper()
	audit := ""
	for late := time.Now().Add(patience); time.Now().Before(late); {
		audit = expectRun(t, env, 0, "stream", "read", "audit", "-n", "_system", "-o", "raw", "--tail", "--limit", "1000")
		for line := range strings.Lines(audit) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return
			}
		}
	}
	t.Errorf("no entry of the audit has %q:\n%s", parts, audit)
}

// lostOutput takes some bytes, and then fails as a full disk does.
type lostOutput struct{ room int }

func (o *lostOutput) Write(p []byte) (int, error) {
	n := min(len(p), o.room)
	if o.room -= n; n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// TestBootstrapShowsFirst: if the new key cannot be shown, no key store is created, so no client
// is locked out.
func TestBootstrapShowsFirst(t *testing.T) {
	dir := t.TempDir()
	for _, output := range []string{"table", "json", "raw"} {
		var stderr strings.Builder
		code := Run(t.Context(), Process{
			Args: []string{"server", "bootstrap", "--data-dir", dir, "--shards", "1", "-o", output}, Stdout: &lostOutput{20},
			Stderr: &stderr, LookupEnv: lookup(nil),
		})
		if code != exitFailure || !strings.Contains(stderr.String(), "no key store was created, because its key could not be shown: ") {
			t.Errorf("-o %s: exit code %d\n%s", output, code, stderr.String())
		}
	}
	expectRun(t, nil, 0, "server", "bootstrap", "--data-dir", dir)
	if stdout := expectRun(t, nil, exitConflict, "server", "bootstrap", "--data-dir", dir); stdout != "" {
		t.Errorf("a second bootstrap shows %q", stdout)
	}
}

// TestKeysInFiles: with --out a key is in a new file that only its owner can read, and not in the
// output. A file that exists stays as it is, and no key is made.
func TestKeysInFiles(t *testing.T) {
	dir, keys := t.TempDir(), t.TempDir()
	admin, reader := filepath.Join(keys, "admin"), filepath.Join(keys, "reader")
	if err := os.WriteFile(reader, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	expectRun(t, nil, exitFailure, "server", "bootstrap", "--data-dir", dir, "--out", reader)
	if out := expectRun(t, nil, 0, "server", "bootstrap", "--data-dir", dir, "--out", admin); out != "" {
		t.Errorf("bootstrap shows %q", out)
	}
	s := start(t, "--data-dir", dir)
	defer s.stop()
	env := map[string]string{"FLOE_ADDR": s.addr, "FLOE_API_KEY": "@" + admin}
	expectRun(t, env, exitFailure, "key", "create", "--role", "read", "--out", reader)
	if b, err := os.ReadFile(reader); err != nil || string(b) != "mine" {
		t.Errorf("the file that was there is %q, %v", b, err)
	}
	expectRun(t, env, exitUsage, "key", "create", "--role", "read", "--namespaces", strings.Repeat("x", 256), "--out", reader+"2")
	if _, err := os.Stat(reader + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key that was refused leaves its file: %v", err)
	}
	out := expectRun(t, env, 0, "key", "create", "--role", "read", "--out", reader+"3", "-o", "json")
	for _, name := range []string{admin, reader + "3"} {
		b, err := os.ReadFile(name)
		info, statErr := os.Stat(name)
		if err != nil || statErr != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(string(b), "floe_sk_") ||
			strings.Contains(out, strings.TrimSpace(string(b))) {
			t.Errorf("%s: %v, %v, mode %v, shown: %s", name, err, statErr, info.Mode(), out)
		}
		env["FLOE_API_KEY"] = "@" + name
		expectRun(t, env, 0, "kv", "list")
	}
	if list := expectRun(t, map[string]string{"FLOE_ADDR": s.addr, "FLOE_API_KEY": "@" + admin}, 0, "key", "list", "-o",
		"raw"); strings.Count(list, "\n") != 2 {
		t.Errorf("there are other keys:\n%s", list)
	}
	var stderr strings.Builder
	for mode, warns := range map[fs.FileMode]bool{0o600: false, 0o640: true, 0o604: true} {
		stderr.Reset()
		if err := os.Chmod(admin, mode); err != nil {
			t.Fatal(err)
		}
		warnOfReaders(&stderr, admin)
		if strings.Contains(stderr.String(), "others can read "+admin) != warns {
			t.Errorf("mode %v: %q", mode, stderr.String())
		}
	}
}

// TestBadKeys: what cannot be a key, or its role, is refused where it is given.
func TestBadKeys(t *testing.T) {
	expectRun(t, nil, exitUsage, "key", "create", "--role", "reed")
	expectRun(t, nil, exitUnauthorized, "kv", "list", "--addr", "127.0.0.1:1", "--api-key", strings.Repeat("x", 2000))
}
