package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/plant"
)

// patience is how long tests wait for what must happen.
const patience = 30 * time.Second

// running is a server that has said that it is ready, in this process or its own.
type running struct {
	url    string // of the dashboard
	scrape string // of the metrics
	addr   string // for clients
	stdout string // until it was ready
	signal func(os.Signal)
	exited <-chan int
	stderr func() string
}

// stop asks the server to stop and returns its exit code.
func (r *running) stop() int {
	r.signal(syscall.SIGTERM)
	return r.wait()
}

// wait returns the exit code, or -1 if none exists in time.
func (r *running) wait() int {
	select {
	case code := <-r.exited:
		return code
	case <-time.After(patience):
		return -1
	}
}

// launch begins to run a command line. It may end with an error, or print that it is ready.
type launch func(t *testing.T, args []string, stdout io.WriteCloser, stderr io.Writer) (signal func(os.Signal), exited <-chan int)

// inProcess launches in this process; every signal is one that asks it to stop.
func inProcess(t *testing.T, args []string, stdout io.WriteCloser, stderr io.Writer) (func(os.Signal), <-chan int) {
	return as(Process{LookupEnv: lookup(nil)})(t, args, stdout, stderr)
}

// as is inProcess with an environment and hangups.
func as(p Process) launch {
	return func(t *testing.T, args []string, stdout io.WriteCloser, stderr io.Writer) (func(os.Signal), <-chan int) {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		p.Args, p.Stdout, p.Stderr = args, stdout, stderr
		exited := make(chan int, 1)
		go func() {
			defer stdout.Close()
			exited <- Run(ctx, p)
		}()
		return func(os.Signal) { cancel() }, exited
	}
}

// binary launches a process of the program at path; wrap may change the command.
func binary(path string, wrap func(*exec.Cmd)) launch {
	return func(t *testing.T, args []string, stdout io.WriteCloser, stderr io.Writer) (func(os.Signal), <-chan int) {
		t.Helper()
		cmd := exec.Command(path, args...)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		if wrap != nil {
			wrap(cmd)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan int, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer stdout.Close()
			_ = cmd.Wait() // the code says it all
			exited <- cmd.ProcessState.ExitCode()
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // most have ended
			<-ended
		})
		return func(s os.Signal) { _ = cmd.Process.Signal(s) }, exited
	}
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	return startBy(t, inProcess, args...)
}

// startBy starts a server on free ports and waits until it is ready.
func startBy(t *testing.T, by launch, args ...string) *running {
	t.Helper()
	args = slices.Concat([]string{"server", "start", "--port", "0", "--dashboard-port", "0", "--metrics-port", "0"}, args)
	out, stdout := io.Pipe()
	var stderr lockedBuffer
	r := &running{stderr: stderr.String}
	r.signal, r.exited = by(t, args, stdout, &stderr)
	lines := bufio.NewScanner(out)
	for r.url == "" && lines.Scan() {
		r.stdout += lines.Text() + "\n"
		if _, addr, found := strings.Cut(lines.Text(), "clients    "); found {
			r.addr = addr
		}
		if _, url, found := strings.Cut(lines.Text(), "metrics    "); found {
			r.scrape = url
		}
		if _, url, found := strings.Cut(lines.Text(), "dashboard  "); found && url != "off" {
			r.url = url
		}
	}
	if r.url == "" {
		t.Fatalf("start %v: exit code %d, stderr\n%s", args, r.wait(), r.stderr())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the server
	return r
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// build returns the path of the program.
func build(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built compiles the program once for all tests, into binDir.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "floe-cli")
	if err != nil {
		return "", err
	}
	binDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // a test runs it as another user
		return "", err
	}
	path := filepath.Join(dir, "floe")
	args := append([]string{"build", "-o", path, "-ldflags=-w"}, plant.BuildFlags()...)
	if out, err := exec.Command("go", append(args, "../../../cmd/floe")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// binDir is removed when all tests have ended.
var binDir string

// client is an HTTP client that leaves nothing behind.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// call makes a request and returns status and body.
func call(c *http.Client, method, url, body string) (status int, answer string, err error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// mustCall fails the test unless the status is as wanted, and returns the body.
func mustCall(t *testing.T, want int, method, url, body string) string {
	t.Helper()
	status, answer, err := call(client(t), method, url, body)
	if err != nil || status != want {
		t.Fatalf("%s %s: status %d, %v, want %d; body %s", method, url, status, err, want, answer)
	}
	return answer
}

// newRequest makes a request with a session token.
func newRequest(method, url, token string) (*http.Request, error) {
	req, err := http.NewRequest(method, url, nil)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, err
}
