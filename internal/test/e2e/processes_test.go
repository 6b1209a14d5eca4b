package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// memberEnv makes the test binary run as a node of a cluster, until its standard input ends.
const memberEnv = "FLOE_EXERCISE_MEMBER"

var failoversFlag = flag.Int("failovers", 1, "how many leaders TestProcesses kills")

// member is the configuration passed to such a process.
type member struct {
	Dir    string
	ID     uint64
	Peers  []floe.Peer
	Listen string // for a single node
	Calm   bool   // its duties wait as long as those of nodes outside of tests
}

func runMember(text string) error {
	var m member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	if m.Calm {
		shard.SpeedUpDuties(1)
	}
	n, err := floe.Open(m.config())
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return n.Close()
}

func (m member) config() floe.Config {
	if m.Listen != "" {
		return floe.Config{DataDir: m.Dir, Shards: 3, Listen: m.Listen}
	}
	return floe.Config{DataDir: m.Dir, Shards: 3, NodeID: m.ID, Peers: m.Peers, Secret: []byte(secret)}
}

// processes is a cluster of three processes, or a single node in one.
type processes struct {
	t       *testing.T
	members []member
	cmds    []*exec.Cmd // nil: killed
}

func newProcesses(t *testing.T) *processes {
	var members []member
	var peers []floe.Peer
	for i := range 3 {
		peers = append(peers, floe.Peer{ID: uint64(i + 1), Addr: machinetest.FreeAddr(t)})
	}
	for _, p := range peers {
		members = append(members, member{Dir: t.TempDir(), ID: p.ID, Peers: peers})
	}
	return startProcesses(t, members)
}

func newProcess(t *testing.T) *processes {
	return startProcesses(t, []member{{Dir: t.TempDir(), Listen: machinetest.FreeAddr(t)}})
}

// newCalmProcess is newProcess for tests that need the duty intervals of a real node.
func newCalmProcess(t *testing.T) *processes {
	return startProcesses(t, []member{{Dir: t.TempDir(), Listen: machinetest.FreeAddr(t), Calm: true}})
}

func startProcesses(t *testing.T, members []member) *processes {
	c := &processes{t: t, members: members, cmds: make([]*exec.Cmd, len(members))}
	t.Cleanup(func() {
		for i := range c.cmds {
			c.kill(i)
		}
		rows := int64(0)
		for _, m := range members {
			rows += verifyDir(t, nil, m.Dir)
		}
		t.Logf("%d rows of what was killed are sound", rows)
	})
	for i := range c.cmds {
		c.start(i)
	}
	return c
}

func (c *processes) start(i int) {
	c.t.Helper()
	text, err := json.Marshal(c.members[i])
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		c.t.Fatalf("node %d says %q, %v", i+1, line, err)
	}
	c.cmds[i] = cmd
}

func (c *processes) kill(i int) {
	if cmd := c.cmds[i]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c.cmds[i] = nil
	}
}

func (c *processes) signal(i int, s os.Signal) {
	c.t.Helper()
	if err := c.cmds[i].Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *processes) addrs() (addrs []string) {
	for _, p := range c.members[0].Peers {
		addrs = append(addrs, p.Addr)
	}
	if len(addrs) == 0 {
		addrs = []string{c.members[0].Listen}
	}
	return addrs
}

func (c *processes) client() *floe.Client {
	c.t.Helper()
	client, err := floe.Dial(c.t.Context(), c.addrs())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { client.Close() })
	return client
}

// leader returns the node that leads a shard, according to the client.
func leader(t *testing.T, client *floe.Client, shard int) (i int) {
	t.Helper()
	await(t, "a leader", func() bool {
		s, err := client.Stats(t.Context())
		if err == nil && s.State == "ok" {
			i = int(s.Shards[shard].Leader) - 1
			return i >= 0
		}
		return false
	})
	return i
}

// counting is a set of writers that record the answers they get.
type counting struct {
	t      *testing.T
	client *floe.Client
	stop   chan struct{}
	run    sync.WaitGroup

	counters []*counter
	watched  atomic.Int64 // events
}

type counter struct {
	namespace, key string
	acked, unknown atomic.Int64
	refused        atomic.Int64

	mu   sync.Mutex // guards last and gap
	last time.Time  // time of the last acknowledgement
	gap  time.Duration
}

// count runs a writer for each namespace.
func count(t *testing.T, client *floe.Client) *counting {
	c := &counting{t: t, client: client, stop: make(chan struct{})}
	for i, ns := range namespaces() {
		one := &counter{namespace: ns, key: fmt.Sprint("counter", i), last: time.Now()}
		c.counters = append(c.counters, one)
		c.run.Go(func() { c.write(one) })
		c.run.Go(func() { c.watch(one) })
	}
	return c
}

// watch checks that a watch shows every increment once and in order, whatever happens to the nodes.
func (c *counting) watch(one *counter) {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	last, anew := int64(0), true // a snapshot shows the present value
	for ctx.Err() == nil {
		for e, err := range c.client.KV(one.namespace).Watch(ctx, one.key) {
			if err != nil {
				// Without a quorum a watch is refused like any other read. The next one begins with
				// a snapshot.
				if ctx.Err() == nil && !errors.Is(err, floe.ErrUnavailable) {
					c.t.Errorf("watch of %s: %v", one.key, err)
					return
				}
				break
			}
			if e.Type == kv.EventCompacted {
				anew = true
				continue
			}
			var n int64
			fmt.Sscan(string(e.Value), &n)
			if n != last+1 && !anew {
				c.t.Errorf("watch of %s shows %d after %d", one.key, n, last)
				return
			}
			last, anew = n, false
			c.watched.Add(1)
		}
		anew = true
	}
}

func (c *counting) write(one *counter) {
	s := c.client.KV(one.namespace)
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		_, err := s.Incr(c.t.Context(), one.key, 1)
		switch {
		case err == nil:
			one.acked.Add(1)
			one.ack()
		case errors.Is(err, floe.ErrUnknownOutcome):
			one.unknown.Add(1)
		case errors.Is(err, floe.ErrUnavailable):
			one.refused.Add(1)
		default:
			c.t.Errorf("incr: %v", err)
			return
		}
	}
}

func (one *counter) ack() {
	one.mu.Lock()
	defer one.mu.Unlock()
	now := time.Now()
	one.gap = max(one.gap, now.Sub(one.last))
	one.last = now
}

// flow waits until every writer has had a later write acknowledged.
func (c *counting) flow() {
	c.t.Helper()
	var before []int64
	for _, one := range c.counters {
		before = append(before, one.acked.Load())
	}
	await(c.t, "writes in all shards", func() bool {
		for i, one := range c.counters {
			if one.acked.Load() < before[i]+2 {
				return false
			}
		}
		return true
	})
}

// gap returns the longest time that a writer went without an acknowledgement since the last call.
func (c *counting) gap() (longest time.Duration) {
	for _, one := range c.counters {
		one.mu.Lock()
		longest = max(longest, one.gap)
		one.gap = 0
		one.mu.Unlock()
	}
	return longest
}

// audit compares all counters with the answers to their writers.
func (c *counting) audit() {
	close(c.stop)
	c.run.Wait()
	var acked, unknown, refused int64
	for _, one := range c.counters {
		e, err := c.client.KV(one.namespace).Get(c.t.Context(), one.key)
		if err != nil {
			c.t.Errorf("get %s: %v", one.key, err)
			continue
		}
		var n int64
		if _, err := fmt.Sscan(string(e.Value), &n); err != nil {
			c.t.Errorf("%s is %q", one.key, e.Value)
		}
		if a, u := one.acked.Load(), one.unknown.Load(); n < a || n > a+u {
			c.t.Errorf("%s is %d, %d increments were acknowledged and %d are in doubt", one.key, n, a, u)
		}
		acked, unknown, refused = acked+one.acked.Load(), unknown+one.unknown.Load(), refused+one.refused.Load()
	}
	c.t.Logf("%d increments acknowledged, %d in doubt, %d refused, %d watched", acked, unknown, refused, c.watched.Load())
	if c.watched.Load() < acked/2 {
		c.t.Error("hardly anything was watched")
	}
}

// TestProcesses kills and stops nodes that are processes, under load. No acknowledged write may be
// lost, and writes must soon continue without the node.
func TestProcesses(t *testing.T) {
	t.Parallel()
	failovers := *failoversFlag
	if testing.Short() {
		failovers = 1
	}
	c := newProcesses(t)
	client := c.client()
	if err := client.Namespaces().Create(t.Context(), linearSpace, floe.Spread()); err != nil {
		t.Fatal(err)
	}
	history := &linear{t: t, history: check.NewHistory(), start: time.Now(), stop: make(chan struct{}), patient: true}
	history.history.Dir = t.ArtifactDir()
	history.store = func(int) *kv.Store { return c.client().KV(linearSpace) }
	var clients sync.WaitGroup
	history.run(t.Context(), machinetest.Seed(t), &clients)
	load := count(t, client)
	load.flow()
	load.gap()

	var gaps []time.Duration
	for range failovers {
		i := leader(t, client, 0)
		c.kill(i)
		load.flow()
		gaps = append(gaps, load.gap())
		c.start(i)
		load.flow()
		load.gap()
	}
	slices.Sort(gaps)
	median, worst := gaps[len(gaps)/2], gaps[len(gaps)-1]
	t.Logf("killed %d leaders: without writes for %v in the median, %v at worst", failovers, median.Round(time.Millisecond),
		worst.Round(time.Millisecond))

	i := leader(t, client, 1)
	c.signal(i, syscall.SIGSTOP)
	pause := time.After(5 * time.Second)
	load.flow()
	t.Logf("stopped a leader for 5 s: without writes for %v", load.gap().Round(time.Millisecond))
	<-pause
	c.signal(i, syscall.SIGCONT)
	load.flow()

	first, second := leader(t, client, 0), leader(t, client, 1)
	if second == first {
		second = (first + 1) % 3
	}
	c.kill(first)
	c.kill(second)
	refused := load.counters[0].refused.Load()
	await(t, "a refusal", func() bool { return load.counters[0].refused.Load() > refused })
	c.start(first)
	load.flow()
	c.start(second)
	load.flow()
	load.audit()
	close(history.stop)
	clients.Wait()
	history.readAll(t.Context())
	if err := history.history.Check(); err != nil {
		t.Error(err)
	}
	t.Logf("%d operations on %d keys are linearizable, %d writes in doubt", history.history.Operations(), history.keys(),
		history.doubts.Load())
}
