package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
)

func TestStart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, "--data-dir", dir)
	if want := "  data       " + dir + " (shards: 4, durability: sync)\n"; !strings.Contains(s.stdout, want) {
		t.Errorf("stdout lacks %q:\n%s", want, s.stdout)
	}
	if !strings.HasPrefix(s.addr, "127.0.0.1:") {
		t.Errorf("clients at %q; stdout\n%s", s.addr, s.stdout)
	}
	mustCall(t, 200, "GET", s.url+"/health", "")
	mustCall(t, 200, "PUT", s.url+keyPath("a/b"), `{"value":"hello"}`)
	if code := s.stop(); code != 0 {
		t.Fatalf("exit code %d, stderr\n%s", code, s.stderr())
	}
	s = start(t, "--data-dir", dir, "--durability", "async", "--log-format", "json")
	if got := mustCall(t, 200, "GET", s.url+keyPath("a/b"), ""); !strings.Contains(got, `"value":"hello"`) {
		t.Errorf("after a restart: %s", got)
	}
	if code := s.stop(); code != 0 || !strings.Contains(s.stderr(), `"msg":"stopping"`) {
		t.Errorf("exit code %d, stderr\n%s", code, s.stderr())
	}
}

func TestStartOffLoopback(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir(), "--dashboard-bind", "0.0.0.0", "--bind", "0.0.0.0")
	mustCall(t, 200, "GET", s.url+"/api/v1/namespaces", "") // from this machine
	if want := "floe: warning: there are no keys yet, so other machines are refused"; !strings.Contains(s.stderr(), want) ||
		strings.Contains(s.stderr(), "can reach") {
		t.Errorf("stderr lacks %q:\n%s", want, s.stderr())
	}
	s.stop()
	s = start(t, "--data-dir", t.TempDir(), "--dashboard-bind", "0.0.0.0", "--bind", "0.0.0.0", "--insecure")
	defer s.stop()
	mustCall(t, 200, "GET", s.url+"/health", "")
	for _, what := range []string{"the dashboard", "the port for clients"} {
		if want := "floe: warning: other machines can reach " + what; !strings.Contains(s.stderr(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, s.stderr())
		}
	}
}

func keyPath(key string) string {
	return "/api/v1/kv/namespaces/default/keys/" + strings.ReplaceAll(key, "/", "%2F")
}

// TestProcess runs the program as an operator would.
func TestProcess(t *testing.T) {
	t.Parallel()
	path := build(t)
	t.Run("drain under load", func(t *testing.T) { testDrain(t, path) })
	t.Run("overload", func(t *testing.T) { testOverload(t, path) })
	t.Run("killed in overload", func(t *testing.T) { testKilledInOverload(t, path) })
	t.Run("connections", func(t *testing.T) { testConnections(t, path) })
	t.Run("few files", func(t *testing.T) { testFewFiles(t, path) })
	t.Run("fairness", func(t *testing.T) { testFairness(t, path) })
	if *overloadFor > 0 {
		t.Run("capacity", func(t *testing.T) { testCapacity(t, path) })
		t.Run("memory", func(t *testing.T) { testMemory(t, path) })
	}
	t.Run("stuck client", func(t *testing.T) { testStuckClient(t, path) })
	t.Run("stuck cluster", func(t *testing.T) { testStuckCluster(t, path) })
	t.Run("second signal", func(t *testing.T) { testSecondSignal(t, path) })
	t.Run("locked directory", func(t *testing.T) { testLocked(t, path) })
	t.Run("read-only directory", func(t *testing.T) { testReadOnly(t, path) })
	t.Run("removed directory", func(t *testing.T) { testRemoved(t, path) })
	t.Run("failing disk", func(t *testing.T) { testFailingDisk(t, path) })
	t.Run("usage", func(t *testing.T) {
		if err := exec.Command(path, "bogus").Run(); exitCode(err) != exitUsage {
			t.Errorf("floe bogus: %v, want exit code 2", err)
		}
	})
}

func exitCode(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// testDrain stops a server under load: every request gets its result or 503, and what was
// acknowledged is there afterwards.
func testDrain(t *testing.T, path string) {
	dir := t.TempDir()
	s := startBy(t, binary(path, nil), "--data-dir", dir)
	const clients = 16
	var answered atomic.Int64
	warm := make(chan struct{})
	written := make([]int, clients)
	var load sync.WaitGroup
	for id := range clients {
		c := client(t)
		load.Go(func() {
			for {
				status, answer, err := call(c, "PUT", s.url+keyPath(fmt.Sprintf("%d/%d", id, written[id])), `{"value":"v"}`)
				if status != http.StatusOK {
					checkRefusal(t, status, answer, err)
					return
				}
				written[id]++
				if answered.Add(1) == 50*clients {
					close(warm)
				}
			}
		})
	}
	<-warm
	begun := time.Now()
	if code := s.stop(); code != 0 {
		t.Fatalf("exit code %d, stderr\n%s", code, s.stderr())
	}
	t.Logf("%d writes, drained in %v", answered.Load(), time.Since(begun))
	load.Wait()

	s = startBy(t, binary(path, nil), "--data-dir", dir)
	c := client(t)
	for id, n := range written {
		for i := range n {
			if status, answer, err := call(c, "GET", s.url+keyPath(fmt.Sprintf("%d/%d", id, i)), ""); status != http.StatusOK {
				t.Fatalf("acknowledged key %d/%d: status %d, %v, %s", id, i, status, err, answer)
			}
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("second stop: exit code %d", code)
	}
}

// checkRefusal checks how the load of a stopping server ended for one client: it received a
// refusal, or could not connect.
func checkRefusal(t *testing.T, status int, answer string, err error) {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return
	}
	if status != http.StatusServiceUnavailable {
		t.Errorf("while stopping: status %d, %v, %s", status, err, answer)
	}
}

// stick leaves a server with a request whose body does not come, and returns when it is being
// served.
func stick(t *testing.T, s *running) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	// That the server asks for the body shows that it serves the request.
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", keyPath("k"))
	buf := make([]byte, 64)
	if n, err := conn.Read(buf); err != nil || !strings.Contains(string(buf[:n]), "100 Continue") {
		t.Fatalf("read: %q, %v", buf[:n], err)
	}
	return conn
}

func testStuckClient(t *testing.T, path string) {
	t.Parallel()
	s := startBy(t, binary(path, nil), "--data-dir", t.TempDir())
	stick(t, s)
	s.signal(syscall.SIGTERM)
	awaitStopping(t, s)
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d, want 0; stderr\n%s", code, s.stderr())
	}
}

// testStuckCluster stops a leader while the other nodes hang: no node takes over, its pending
// writes have no outcome, and a client is stuck.
func testStuckCluster(t *testing.T, path string) {
	t.Parallel()
	if most := graceTime + cutTime + closeTime; most >= stopTime {
		t.Errorf("the drain may take %v, the promise is %v", most, stopTime)
	}
	addrs := []string{machinetest.FreeAddr(t), machinetest.FreeAddr(t), machinetest.FreeAddr(t)}
	peers := fmt.Sprintf("1=%s,2=%s,3=%s", addrs[0], addrs[1], addrs[2])
	secret := secretFile(t)
	var nodes []*running
	for i, addr := range addrs {
		_, port, _ := net.SplitHostPort(addr)
		nodes = append(nodes, startBy(t, binary(path, nil), "--data-dir", t.TempDir(), "--shards", "1", "--port", port,
			"--node-id", strconv.Itoa(i+1), "--peers", peers, "--secret-file", secret))
	}
	leader := awaitHealthy(t, map[string]string{"FLOE_ADDR": addrs[0]}, 3).Shards[0].Leader
	s := nodes[leader-1]
	for i, other := range nodes {
		if uint64(i+1) != leader {
			other.signal(syscall.SIGSTOP)
		}
	}
	stick(t, s)
	var load sync.WaitGroup
	defer load.Wait()
	for range 8 {
		c := client(t)
		load.Go(func() { _, _, _ = call(c, "PUT", s.url+keyPath("k"), `{"value":"v"}`) })
		load.Go(func() { run(t, nil, "kv", "set", "k", "v", "--addr", s.addr) })
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d, want 0; stderr\n%s", code, s.stderr())
	}
}

// awaitStopping polls /health until it says stopping; until the signal has arrived it may say ok.
func awaitStopping(t *testing.T, s *running) {
	t.Helper()
	c := client(t)
	for {
		switch status, answer, err := call(c, "GET", s.url+"/health", ""); {
		case err != nil:
			t.Fatalf("/health of a stopping server: %v", err)
		case status == http.StatusServiceUnavailable && answer == `{"status":"stopping"}`+"\n":
			return
		case status != http.StatusOK:
			t.Fatalf("/health of a stopping server: %d %s", status, answer)
		}
	}
}

func testSecondSignal(t *testing.T, path string) {
	s := startBy(t, binary(path, nil), "--data-dir", t.TempDir())
	stick(t, s)
	s.signal(os.Interrupt)
	awaitStopping(t, s)
	s.signal(os.Interrupt)
	if code := s.wait(); code != exitInterrupted { // a drain to its end exits with 0
		t.Errorf("exit code %d after the second signal, want 130", code)
	}
}

func testLocked(t *testing.T, path string) {
	dir := t.TempDir()
	s := startBy(t, binary(path, nil), "--data-dir", dir)
	out, err := exec.Command(path, "server", "start", "--port", "0", "--no-dashboard", "--data-dir", dir).CombinedOutput()
	if exitCode(err) != exitFailure || !strings.Contains(string(out), "is in use by another node") ||
		!strings.Contains(string(out), "floe: hint: stop the other node") {
		t.Errorf("start on a locked directory: %v\n%s", err, out)
	}
	mustCall(t, 200, "GET", s.url+"/health", "")
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// testReadOnly takes away the right to write. Root has it everywhere, so it becomes somebody else.
func testReadOnly(t *testing.T, path string) {
	dir := t.TempDir()
	cmd := exec.Command(path, "server", "start", "--port", "0", "--no-dashboard", "--data-dir", dir)
	if os.Geteuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		chmod(t, filepath.Dir(filepath.Dir(path)), 0o755)
		chmod(t, filepath.Dir(dir), 0o755)
	}
	chmod(t, dir, 0o555)
	out, err := cmd.CombinedOutput()
	if want := "--data-dir=" + dir + ": "; exitCode(err) != exitFailure || !strings.Contains(string(out), want) ||
		!strings.Contains(string(out), "cannot create a file: permission denied") ||
		!strings.Contains(string(out), "or give this user write access") {
		t.Errorf("start in a directory without write permission: %v\n%s", err, out)
	}
}

func chmod(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

// testRemoved removes the data directory: the exit code keeps supervisors from starting the node
// again in an empty one.
func testRemoved(t *testing.T, path string) {
	dir := filepath.Join(t.TempDir(), "data")
	s := startBy(t, binary(path, nil), "--data-dir", dir)
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(); code != exitRemoved || !strings.Contains(s.stderr(), "was removed while the node was running") {
		t.Errorf("exit code %d, want %d; stderr\n%s", code, exitRemoved, s.stderr())
	}
	want := fmt.Sprintf("\nRestartPreventExitStatus=%d %d\n", exitUsage, exitRemoved)
	if !strings.Contains(deployed(t, "floe.service"), want) {
		t.Errorf("the unit lacks %q", want)
	}
}

// testFailingDisk makes writes fail by a limit on the size of files: the node stops serving and the
// process ends by itself.
func testFailingDisk(t *testing.T, path string) {
	limited := func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", `ulimit -f 4096; exec "$0" "$@"`, path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
	s := startBy(t, binary(path, limited), "--data-dir", t.TempDir())
	c := client(t)
	value := fmt.Sprintf(`{"value":%q}`, strings.Repeat("x", 512<<10))
	for status := http.StatusOK; status == http.StatusOK; {
		var answer string
		var err error
		status, answer, err = call(c, "PUT", s.url+keyPath("k"), value)
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Fatalf("write: status %d, %v, %s", status, err, answer)
		}
	}
	if code := s.wait(); code != exitFailure || !strings.Contains(s.stderr(), "floe: error: node has failed: ") {
		t.Errorf("exit code %d, want 1; stderr\n%s", code, s.stderr())
	}
}

func TestBodyDeadline(t *testing.T) {
	s, read := echo(t, deadlines{body: 50 * time.Millisecond, write: patience})
	conn := dial(t, s)
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("body that does not come: %v, want a timeout", err)
	}
}

// TestLongPoll has a handler that answers long after the body deadline: the request must not be
// cancelled by it.
func TestLongPoll(t *testing.T) {
	const body = 20 * time.Millisecond
	s := serveOn(t, deadlines{body: body, write: patience}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		select {
		case <-time.After(5 * body):
			fmt.Fprint(w, "answer")
		case <-r.Context().Done():
			t.Error("the wait was cancelled")
		}
	})
	if got := mustCall(t, 200, "POST", s, "x"); got != "answer" {
		t.Errorf("long poll: %q", got)
	}
}

func TestWriteDeadline(t *testing.T) {
	wrote := make(chan error, 1)
	s := serveOn(t, deadlines{body: patience, write: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(make([]byte, 64<<20)) // more than any socket buffers
		wrote <- err
	})
	conn := dial(t, s)
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("answer that is not read: %v, want a timeout", err)
	}
}

// echo serves a handler that tells how reading the body ended.
func echo(t *testing.T, d deadlines) (url string, read <-chan error) {
	ended := make(chan error, 1)
	return serveOn(t, d, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ended <- err
	}), ended
}

func serveOn(t *testing.T, d deadlines, h http.HandlerFunc) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: d.wrap(h), ReadHeaderTimeout: patience}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-ended })
	return "http://" + l.Addr().String()
}

func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
