package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/cmd/internal/stress"
	"github.com/floedb/floe/kv"
)

var overloadFor = flag.Duration("overload", 0, "how long TestProcess measures capacity, and memory under load; 0: not at all")

// testOverload asks much more of a server than it takes at a time, at both ports. What is beyond is
// refused, with the time to try again or as busy, and nothing else; what was acknowledged is there;
// and afterwards the server is as before.
func testOverload(t *testing.T, path string) {
	s := startBy(t, binary(path, nil), "--data-dir", t.TempDir(), "--memory", "256MiB", "--max-requests", "1", "--max-in-flight", "8")
	var acked, refused atomic.Int64
	var all sync.WaitGroup
	const callers, calls = 32, 20
	for id := range callers {
		c := client(t)
		all.Go(func() {
			for i := range calls {
				key := fmt.Sprintf("http-%d-%d", id, i)
				resp, err := put(c, s.url, key)
				switch {
				case err != nil:
					t.Errorf("PUT %s: %v", key, err)
				case resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "":
					refused.Add(1)
				case resp.StatusCode == http.StatusOK:
					acked.Add(1)
					mustBeThere(t, c, s, key)
				default:
					t.Errorf("PUT %s: status %d, Retry-After %q", key, resp.StatusCode, resp.Header.Get("Retry-After"))
				}
			}
		})
	}
	all.Wait()
	t.Logf("HTTP: %d acknowledged, %d refused", acked.Load(), refused.Load())
	if acked.Load() == 0 || refused.Load() == 0 {
		t.Errorf("HTTP: %d acknowledged, %d refused: want both", acked.Load(), refused.Load())
	}
	acked.Store(0)
	refused.Store(0)
	db, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := db.KV("default")
	for id := range 10 * callers {
		all.Go(func() {
			for i := range calls {
				key := fmt.Sprintf("port-%d-%d", id, i)
				switch _, err := store.Put(t.Context(), key, []byte("v")); {
				case err == nil:
					acked.Add(1)
					if _, err := get(t.Context(), store, key); err != nil {
						t.Errorf("%s was acknowledged: %v", key, err)
					}
				case errors.Is(err, floe.ErrBusy) && !errors.Is(err, floe.ErrUnknownOutcome):
					refused.Add(1)
				default:
					t.Errorf("put %s: %v", key, err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("port: %d acknowledged, %d refused", acked.Load(), refused.Load())
	if acked.Load() == 0 || refused.Load() == 0 {
		t.Errorf("port: %d acknowledged, %d refused: want both", acked.Load(), refused.Load())
	}
	if _, err := store.Put(t.Context(), "after", nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if metrics := mustCall(t, 200, "GET", s.scrape, ""); !strings.Contains(metrics, `floe_limit_size{limit="calls"} 8`) ||
		!strings.Contains(metrics, `floe_limit_used{limit="calls"} 0`) {
		t.Error("the metrics do not say what the limit is, and that nothing of it is used")
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d, stderr\n%s", code, s.stderr())
	}
}

// get reads a key, however busy the node is.
func get(ctx context.Context, store *kv.Store, key string) (kv.Entry, error) {
	for {
		e, err := store.Get(ctx, key)
		if !errors.Is(err, floe.ErrBusy) {
			return e, err
		}
	}
}

// put writes a key over HTTP.
func put(c *http.Client, url, key string) (*http.Response, error) {
	req, err := http.NewRequest("PUT", url+keyPath(key), strings.NewReader(`{"value":"v"}`))
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, errors.Join(err, resp.Body.Close())
}

// mustBeThere reads a key over HTTP, however busy the node is.
func mustBeThere(t *testing.T, c *http.Client, s *running, key string) {
	t.Helper()
	for {
		switch status, answer, err := call(c, "GET", s.url+keyPath(key), ""); {
		case err == nil && status == http.StatusTooManyRequests:
			continue
		case err != nil || status != http.StatusOK:
			t.Errorf("%s was acknowledged: status %d, %v, %s", key, status, err, answer)
		}
		return
	}
}

// testConnections opens more connections than a server has room for: who comes too late is told so,
// /health goes on, and all is well when they have gone.
func testConnections(t *testing.T, path string) {
	const limit = 8
	s := startBy(t, binary(path, nil), "--data-dir", t.TempDir(), "--max-connections", strconv.Itoa(limit))
	defer s.stop()
	var idle []net.Conn
	open := func(addr string, n int) {
		for range n {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, conn)
		}
	}
	addr := strings.TrimPrefix(s.url, "http://")
	open(addr, limit)
	c := client(t)
	awaitStatus(t, c, s.url+"/api/v1/namespaces", http.StatusTooManyRequests)
	awaitStatus(t, c, s.url+"/health", http.StatusOK)
	open(strings.TrimSuffix(strings.TrimPrefix(s.scrape, "http://"), "/metrics"), limit)
	awaitStatus(t, c, s.scrape, http.StatusTooManyRequests)
	awaitStatus(t, c, strings.TrimSuffix(s.scrape, "metrics")+"health", http.StatusOK)
	open(s.addr, limit)
	env := map[string]string{"FLOE_ADDR": s.addr}
	for late := time.Now().Add(patience); ; {
		code, _, stderr := run(t, env, "kv", "list", "--timeout", "3s")
		if code == exitUnavailable && strings.Contains(stderr, "connections are open to this node, the limit is 8") {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("a client beyond the limit: exit code %d, stderr\n%s", code, stderr)
		}
	}
	for _, conn := range idle {
		conn.Close()
	}
	awaitStatus(t, c, s.url+"/api/v1/namespaces", http.StatusOK)
	for late := time.Now().Add(patience); ; {
		if code, _, stderr := run(t, env, "kv", "list"); code == 0 {
			break
		} else if time.Now().After(late) {
			t.Fatalf("when the others have gone: exit code %d, stderr\n%s", code, stderr)
		}
	}
}

// testFewFiles opens more idle connections to each port than the server may have files open: it
// goes on writing for those that came before, whatever the state database opens meanwhile, says
// that the limit is low, and takes others when the strangers have gone.
func testFewFiles(t *testing.T, path string) {
	const files, strangers = 512, 600
	limited := func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files)}, cmd.Args...)
		cmd.Path = "/bin/sh"
	}
	s := startBy(t, binary(path, limited), "--data-dir", t.TempDir())
	defer s.stop()
	early, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	written := 0
	write := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for range 20 {
			if _, err := early.KV("default").Put(ctx, strconv.Itoa(written), make([]byte, 256<<10)); err != nil {
				t.Fatalf("put %d: %v\n%s", written, err, s.stderr())
			}
			written++
		}
	}
	write()
	var idle []net.Conn
	defer func() {
		for _, conn := range idle {
			conn.Close()
		}
	}()
	for _, addr := range []string{s.addr, strings.TrimPrefix(s.url, "http://"),
		strings.TrimSuffix(strings.TrimPrefix(s.scrape, "http://"), "/metrics")} {
		for range strangers {
			conn, err := net.DialTimeout("tcp", addr, time.Second)
			if err != nil {
				break // its queue is full
			}
			idle = append(idle, conn)
		}
		write()
	}
	if len(idle) < files {
		t.Fatalf("%d idle connections, want more than %d", len(idle), files)
	}
	if text := s.stderr(); !strings.Contains(text, "ulimit -n") || strings.Contains(text, "too many open files") {
		t.Errorf("the log:\n%s\nwant advice on the limit, and no file that could not be opened", text)
	}
	for _, conn := range idle {
		conn.Close()
	}
	c := client(t)
	awaitStatus(t, c, s.url+"/health", http.StatusOK)
	awaitStatus(t, c, s.url+"/api/v1/namespaces", http.StatusOK)
	late, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range written {
		if e, err := late.KV("default").Get(ctx, strconv.Itoa(i)); err != nil || len(e.Value) != 256<<10 {
			t.Fatalf("get %d: %d bytes, %v", i, len(e.Value), err)
		}
	}
}

func awaitStatus(t *testing.T, c *http.Client, url string, want int) {
	t.Helper()
	for late := time.Now().Add(patience); ; {
		status, answer, err := call(c, "GET", url, "")
		if err == nil && status == want {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("GET %s: status %d, %v, %s, want %d", url, status, err, answer, want)
		}
	}
}

// testCapacity measures what a server bears at each port: first with as many callers as it serves
// at a time, then with twice and four times as many calls a second as that made.
func testCapacity(t *testing.T, path string) {
	s := startBy(t, binary(path, nil), "--data-dir", t.TempDir(), "--memory", "512MiB", "--max-requests", "32", "--max-in-flight", "44",
		"--dashboard-port", "0")
	defer s.stop()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}, Timeout: patience}
	db, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for port, of := range callersAt(t.Context(), s.url, c, db) {
		t.Run(port, func(t *testing.T) {
			call := of("default")
			// In turns: what else the machine does is then in all of them.
			var closed, twice, fourTimes offered
			part := *overloadFor / rounds
			for range rounds {
				one := offer(call, 32, 0, part)
				capacity := float64(one.of[succeeded]) / part.Seconds()
				closed.add(one)
				twice.add(offer(call, 256, 2*capacity, part))
				fourTimes.add(offer(call, 512, 4*capacity, part))
			}
			t.Logf("capacity: %v", closed)
			begun := time.Now()
			again := offer(call, 16, 0, time.Second)
			t.Logf("a second later: %v, after %v", again, time.Since(begun)-time.Second)
			for times, o := range map[int]offered{2: twice, 4: fourTimes} {
				t.Logf("at %d times the capacity: %v", times, o)
				if o.of[succeeded]*10 < closed.of[succeeded]*8 || o.of[failed] > 0 {
					t.Errorf("goodput at %d times the capacity is %d of %d, %d answers are neither success nor busy", times,
						o.of[succeeded], closed.of[succeeded], o.of[failed])
				}
			}
			if resident := residentMiB(t, s); resident > 512 {
				t.Errorf("the server took %d MiB of 512", resident)
			}
			if again.of[refused] > 0 {
				t.Errorf("a second later %d are refused", again.of[refused])
			}
		})
	}
}

// callersAt returns, for each port of a server, who writes there to a namespace.
func callersAt(ctx context.Context, url string, c *http.Client, db *floe.Client) map[string]func(namespace string) caller {
	return map[string]func(string) caller{
		"http": func(namespace string) caller {
			return func(key string) outcome {
				status, _, err := call(c, "PUT", url+"/api/v1/kv/namespaces/"+namespace+"/keys/"+key, `{"value":"v"}`)
				switch {
				case err == nil && status == http.StatusOK:
					return succeeded
				case err == nil && status == http.StatusTooManyRequests:
					return refused
				}
				return failed
			}
		},
		"client port": func(namespace string) caller {
			store := db.KV(namespace)
			return func(key string) outcome {
				_, err := store.Put(ctx, key, []byte("v"))
				switch {
				case err == nil:
					return succeeded
				case errors.Is(err, floe.ErrBusy):
					return refused
				}
				return failed
			}
		},
	}
}

// testFairness has 256 callers of one namespace, in a process of their own, write as fast as they
// can beside a few of another one, at each port. With -overload it measures what is left to those
// few: a fourth of what they do alone at least, through the client port. Over HTTP that is told
// only: they wait for a processor in each of several steps there, which their rivals and the server
// want too. Without -overload it only looks that all are answered, and those few too;
// TestRequestsOfNamespaces and TestTurns do the counting.
func testFairness(t *testing.T, path string) {
	s := startBy(t, binary(path, nil), "--data-dir", t.TempDir(), "--shards", "1", "--max-requests", "64")
	defer s.stop()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}, Timeout: patience}
	defer c.CloseIdleConnections()
	db, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	last, few := 100*time.Millisecond, []int{1}
	if *overloadFor > 0 {
		last, few = *overloadFor/rounds, []int{1, 16}
	}
	for port, of := range callersAt(t.Context(), s.url, c, db) {
		for _, n := range few {
			t.Run(fmt.Sprintf("%s/%d", port, n), func(t *testing.T) {
				other := of("other")
				var alone, beside offered
				var crowd [outcomes]int64
				turns := 1
				if *overloadFor > 0 {
					turns = rounds
				}
				for range turns { // what else the machine does is then in both
					alone.add(offer(other, n, 0, last))
					rivals := startFlood(t, flood{URL: s.url, Addr: s.addr, Port: port, Callers: 256})
					beside.add(offer(other, n, 0, last))
					for i, n := range rivals() {
						crowd[i] += n
					}
				}
				share := float64(beside.of[succeeded]) / float64(max(alone.of[succeeded], 1))
				t.Logf("alone: %v", alone)
				t.Logf("beside 256: %v, %.0f %%", beside, 100*share)
				t.Logf("the 256: %d succeeded, %d refused, %d else", crowd[succeeded], crowd[refused], crowd[failed])
				if alone.of[failed]+beside.of[failed]+crowd[failed] > 0 {
					t.Error("some answers are neither success nor busy")
				}
				if beside.of[succeeded] == 0 || crowd[succeeded] == 0 || *overloadFor > 0 && port != "http" && share < 0.25 {
					t.Errorf("beside 256 callers of another namespace %d make %.0f %% of what they make alone, want 25 %%", n, 100*share)
				}
			})
		}
	}
}

// flood is what callers in a process of their own do until their input ends.
type flood struct {
	URL, Addr, Port string
	Callers         int
}

const floodEnv = "FLOE_TEST_FLOOD"

// startFlood starts a flood, and returns when its first call has succeeded. What it returns ends it
// and tells what became of its calls since then.
func startFlood(t *testing.T, f flood) (end func() [outcomes]int64) {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), floodEnv+"="+string(text)), os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := json.NewDecoder(stdout)
	var begun [outcomes]int64
	if err := told.Decode(&begun); err != nil {
		t.Fatalf("the flood did not begin: %v", err)
	}
	return func() (made [outcomes]int64) {
		stdin.Close()
		if err := errors.Join(told.Decode(&made), cmd.Wait()); err != nil {
			t.Errorf("the flood: %v", err)
		}
		return made
	}
}

// run is the process of a flood.
func (f flood) run(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db, err := floe.Dial(ctx, []string{f.Addr})
	if err != nil {
		return err
	}
	defer db.Close()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: f.Callers}, Timeout: patience}
	call := callersAt(ctx, f.URL, c, db)[f.Port]("flood")
	for o := refused; o != succeeded; {
		if o = call("first"); o == failed {
			return errors.New("the first call has failed")
		}
	}
	told := json.NewEncoder(out)
	if err := told.Encode([outcomes]int64{}); err != nil {
		return err
	}
	var of [outcomes]atomic.Int64
	var all sync.WaitGroup
	var over atomic.Bool
	for id := range f.Callers {
		all.Go(func() {
			for i := 0; !over.Load(); i++ {
				of[call(fmt.Sprintf("%d-%d", id, i%100))].Add(1)
			}
		})
	}
	_, err = io.Copy(io.Discard, in)
	over.Store(true)
	all.Wait()
	var made [outcomes]int64
	for i := range of {
		made[i] = of[i].Load()
	}
	return errors.Join(err, told.Encode(made))
}

// testKilledInOverload kills a server that refuses most of what it is asked: what it acknowledged
// is there when it is back.
func testKilledInOverload(t *testing.T, path string) {
	dir := t.TempDir()
	s := startBy(t, binary(path, nil), "--data-dir", dir, "--max-requests", "1", "--max-in-flight", "8")
	db, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	var acked []string
	var busy atomic.Int64
	enough := make(chan struct{})
	note := func(key string) {
		mu.Lock()
		defer mu.Unlock()
		if acked = append(acked, key); len(acked) == 400 {
			close(enough)
		}
	}
	const callers = 64
	for id := range callers {
		c := client(t)
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("http-%d-%d", id, i)
				switch resp, err := put(c, s.url, key); {
				case err != nil:
				case resp.StatusCode == http.StatusOK:
					note(key)
				case resp.StatusCode == http.StatusTooManyRequests:
					busy.Add(1)
				}
			}
		})
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("port-%d-%d", id, i)
				switch _, err := db.KV("default").Put(ctx, key, []byte("v")); {
				case err == nil:
					note(key)
				case errors.Is(err, floe.ErrBusy) && !errors.Is(err, floe.ErrUnknownOutcome):
					busy.Add(1)
				}
			}
		})
	}
	<-enough
	s.signal(syscall.SIGKILL)
	s.wait()
	cancel()
	all.Wait()
	t.Logf("%d acknowledged, %d refused", len(acked), busy.Load())
	if busy.Load() == 0 {
		t.Error("nothing was refused")
	}
	s = startBy(t, binary(path, nil), "--data-dir", dir)
	defer s.stop()
	c := client(t)
	for _, key := range acked {
		mustBeThere(t, c, s, key)
	}
}

type outcome int

const (
	succeeded outcome = iota
	refused
	failed
	outcomes
)

// caller writes a key.
type caller func(key string) outcome

type offered struct {
	of   [outcomes]int64
	took stress.Histogram // what succeeded
}

// rounds is in how many parts capacity is measured.
const rounds = 8

func (o *offered) add(p offered) {
	for i, n := range p.of {
		o.of[i] += n
	}
	o.took.Merge(&p.took)
}

func (o offered) String() string {
	return fmt.Sprintf("%d succeeded, %d refused, %d else; p50 %v, p99 %v", o.of[succeeded], o.of[refused], o.of[failed],
		o.took.Quantile(0.5), o.took.Quantile(0.99))
}

// offer makes calls for a time: perSecond of them, whatever becomes of them, or 0: each caller the
// next one when the last has ended.
func offer(call caller, callers int, perSecond float64, last time.Duration) (sum offered) {
	var calls atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	end := time.Now().Add(last)
	for id := range callers {
		all.Go(func() {
			pace := time.Duration(0)
			if perSecond > 0 {
				pace = time.Duration(float64(callers) / perSecond * float64(time.Second))
			}
			next := time.NewTimer(pace * time.Duration(id) / time.Duration(callers))
			defer next.Stop()
			var own offered
			for time.Now().Before(end) {
				if pace > 0 {
					<-next.C
					next.Reset(pace)
				}
				begun := time.Now()
				o := call(strconv.FormatInt(calls.Add(1)%10_000, 10))
				if own.of[o]++; o == succeeded {
					own.took.Add(time.Since(begun))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(own)
		})
	}
	all.Wait()
	return sum
}

// residentMiB returns the memory of the server, as its metrics have it.
func residentMiB(t *testing.T, s *running) int64 {
	t.Helper()
	status, text, err := call(client(t), "GET", s.scrape, "")
	if err != nil || status != http.StatusOK {
		t.Logf("metrics: status %d, %v", status, err) // a scrape has its time, and a machine that is in use may take longer
	}
	for line := range strings.Lines(text) {
		if number, found := strings.CutPrefix(line, "process_resident_memory_bytes "); found {
			f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err == nil {
				return int64(f) >> 20
			}
		}
	}
	return 0
}

// testMemory puts a mixed load with large values on a server with 512 MiB, and looks that it stays
// within.
func testMemory(t *testing.T, path string) {
	s := startBy(t, binary(path, nil), "--data-dir", t.TempDir(), "--memory", "512MiB")
	defer s.stop()
	db, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var ok, busy, other atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), *overloadFor)
	defer cancel()
	var all sync.WaitGroup
	note := func(err error) {
		switch {
		case ctx.Err() != nil:
		case err == nil:
			ok.Add(1)
		case errors.Is(err, floe.ErrBusy):
			busy.Add(1)
		default:
			other.Add(1)
			t.Log(err)
		}
	}
	large := make([]byte, 512<<10)
	for id := range 256 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, err := db.KV("default").Put(ctx, fmt.Sprintf("%d-%d", id, i%8), large)
				note(err)
				_, err = db.Queue("default").Enqueue(ctx, "q", large[:64<<10])
				note(err)
				_, err = db.KV("default").Page(ctx, kv.Limit(100))
				note(err)
				_, err = db.Queue("default").Dequeue(ctx, "q")
				note(err)
			}
		})
	}
	most := int64(0)
	watch := time.NewTicker(200 * time.Millisecond)
	defer watch.Stop()
	for ctx.Err() == nil {
		select {
		case <-watch.C:
			most = max(most, residentMiB(t, s))
		case <-ctx.Done():
		}
	}
	all.Wait()
	t.Logf("%d succeeded, %d busy, %d else; resident memory at most %d MiB", ok.Load(), busy.Load(), other.Load(), most)
	if most > 512 {
		t.Errorf("the server took %d MiB of 512", most)
	}
}
