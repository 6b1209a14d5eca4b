package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// three is a cluster of nodes in one process that communicate over the network.
type three struct {
	t     *testing.T
	peers []floe.Peer
	dirs  []string
	nodes []*floe.Node // nil: stopped

	failed [3]bool // at any time
	tls    *tls.Config

	shards int // 0: 4
}

const secret = "a secret of the tests"

func newThree(t *testing.T) *three {
	t.Helper()
	c := &three{t: t, nodes: make([]*floe.Node, 3)}
	c.open()
	return c
}

func (c *three) open() {
	c.t.Helper()
	for i := range c.nodes {
		c.peers = append(c.peers, floe.Peer{ID: uint64(i + 1), Addr: machinetest.FreeAddr(c.t)})
		c.dirs = append(c.dirs, c.t.TempDir())
	}
	c.t.Cleanup(func() {
		for i := range c.nodes {
			c.stop(i)
		}
		for i, dir := range c.dirs {
			if !c.failed[i] { // its directory is locked until the process ends
				verifyDir(c.t, nil, dir)
			}
		}
	})
	for i := range c.nodes {
		c.start(i)
	}
	c.settle()
}

func (c *three) config(i int) floe.Config {
	return floe.Config{DataDir: c.dirs[i], Shards: cmp.Or(c.shards, 4), NodeID: c.peers[i].ID, Peers: c.peers, Secret: []byte(secret),
		TLS: c.tls}
}

func (c *three) start(i int) *floe.Node {
	c.t.Helper()
	n, err := floe.Open(c.config(i))
	if err != nil {
		c.t.Fatalf("open node %d: %v", i+1, err)
	}
	c.nodes[i] = n
	return n
}

func (c *three) stop(i int) {
	c.t.Helper()
	n := c.nodes[i]
	if n == nil {
		return
	}
	c.nodes[i] = nil
	failed := n.Err() != nil
	c.failed[i] = c.failed[i] || failed
	if err := n.Close(); err != nil && !failed {
		c.t.Errorf("close node %d: %v", i+1, err)
	}
}

// await polls until done.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.Tick(10 * time.Millisecond); !done(); {
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// settle waits until all running nodes have leaders, spread evenly, and are connected to each
// other.
func (c *three) settle() {
	c.t.Helper()
	running := 0
	for _, n := range c.nodes {
		if n != nil {
			running++
		}
	}
	await(c.t, "leaders", func() bool {
		for _, n := range c.nodes {
			if n == nil {
				continue
			}
			s, err := n.Stats(c.t.Context())
			if err != nil || s.State != "ok" {
				return false
			}
			healthy := 0
			for _, other := range s.Nodes {
				if other.Status == "healthy" {
					healthy++
				}
			}
			if healthy != running || running == len(c.nodes) && !spread(s) {
				return false
			}
		}
		return true
	})
}

// spread reports whether the leaders of the shards are where they should be.
func spread(s floe.Stats) bool {
	for i, sh := range s.Shards {
		if sh.Leader != uint64(i%3+1) {
			return false
		}
	}
	return true
}

func (c *three) dial(addrs ...int) *floe.Client {
	c.t.Helper()
	var to []string
	for _, i := range addrs {
		to = append(to, c.peers[i].Addr)
	}
	client, err := floe.Dial(c.t.Context(), to)
	if err != nil {
		c.t.Fatalf("dial: %v", err)
	}
	c.t.Cleanup(func() { client.Close() })
	return client
}

// namespaces returns namespaces that together are in all four shards.
func namespaces() (names []string) {
	for i := range 8 {
		names = append(names, fmt.Sprint("ns", i))
	}
	return names
}

// TestRollingRestart stops and starts each node in turn, under load. Neither users of a node that
// stays nor those of a Client may notice.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	client := c.dial(0, 1, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writers sync.WaitGroup
	var acked [4]atomic.Int64
	for w := range acked {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				ns := namespaces()[i%8]
				if _, err := client.KV(ns).Incr(context.WithoutCancel(ctx), fmt.Sprint("counter", w), 1); err != nil {
					t.Errorf("incr through a client: %v", err)
					return
				}
				acked[w].Add(1)
			}
		})
	}
	for i := range 3 {
		before := acked[0].Load()
		c.stop(i % 3)
		for _, n := range c.nodes {
			if n == nil {
				continue
			}
			for _, ns := range namespaces() {
				if _, err := n.KV(ns).Put(t.Context(), "from a node", nil); err != nil {
					t.Errorf("put at a node, with node %d stopped: %v", i%3+1, err)
				}
			}
		}
		c.start(i % 3)
		c.settle()
		await(t, "writes", func() bool { return acked[0].Load() > before+100 || t.Failed() })
	}
	stop()
	writers.Wait()
	for w := range acked {
		for at, kvs := range []interface {
			KV(string, ...floe.AccessOption) *kv.Store
		}{client, c.nodes[0], c.nodes[1], c.nodes[2]} {
			sum := int64(0)
			for _, ns := range namespaces() {
				e, err := kvs.KV(ns).Get(t.Context(), fmt.Sprint("counter", w))
				if err != nil {
					t.Fatalf("get: %v", err)
				}
				var n int64
				fmt.Sscan(string(e.Value), &n)
				sum += n
			}
			if sum != acked[w].Load() {
				t.Errorf("counter %d is %d at %d, %d increments were acknowledged", w, sum, at, acked[w].Load())
			}
		}
	}
	t.Logf("%d increments", acked[0].Load()*int64(len(acked)))
}

// TestStopHandsOver stops and starts each node in turn, repeatedly. Once a node has closed, no
// other may consider it a leader: its shards were handed over before, and not returned. The test
// logs how often that took more than one election.
func TestStopHandsOver(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	led, contested := 0, 0
	for i := range 9 {
		stopped, other := i%3, c.nodes[(i+1)%3]
		before, err := other.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.stop(stopped)
		after, err := other.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for j, sh := range after.Shards {
			if sh.Leader == uint64(stopped+1) {
				t.Errorf("stop %d: shard %d is led by node %d, which has closed", i, j, sh.Leader)
			}
			if before.Shards[j].Leader == uint64(stopped+1) {
				led++
				if sh.Term != before.Shards[j].Term+1 || sh.Leader == 0 {
					contested++
				}
			}
		}
		c.start(stopped)
		c.settle()
	}
	t.Logf("%d leaderships were handed over, %d with more than one election", led, contested)
}

// TestNoQuorum: with one node of three left, writes and reads are refused within a bounded time,
// and Stale reads still succeed.
func TestNoQuorum(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	client := c.dial(0, 1, 2)
	for _, ns := range namespaces() {
		if _, err := client.KV(ns).Put(t.Context(), "k", []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "replicas", func() bool {
		return !slices.ContainsFunc(namespaces(), func(ns string) bool {
			_, err := c.nodes[0].KV(ns, floe.Stale()).Get(t.Context(), "k")
			return err != nil
		})
	})
	c.stop(1)
	c.stop(2)
	var calls sync.WaitGroup
	for name, call := range map[string]func() error{
		"put at the node":       func() error { _, err := c.nodes[0].KV("ns1").Put(t.Context(), "k", nil); return err },
		"put through a client":  func() error { _, err := client.KV("ns1").Put(t.Context(), "k", nil); return err },
		"get at the node":       func() error { _, err := c.nodes[0].KV("ns1").Get(t.Context(), "k"); return err },
		"get through a client":  func() error { _, err := client.KV("ns1").Get(t.Context(), "k"); return err },
		"txn through a client":  func() error { _, err := client.Txn("ns1").Do(kv.PutOp("k", nil)).Commit(t.Context()); return err },
		"create of a namespace": func() error { return client.Namespaces().Create(t.Context(), "new") },
	} {
		calls.Go(func() {
			if err := call(); !errors.Is(err, floe.ErrUnavailable) { // without a deadline in the context
				t.Errorf("%s without a quorum: %v, want ErrUnavailable", name, err)
			}
		})
	}
	calls.Wait()
	for _, ns := range namespaces() {
		if e, err := c.nodes[0].KV(ns, floe.Stale()).Get(t.Context(), "k"); err != nil || string(e.Value) != "v" {
			t.Errorf("stale get at the node: %q, %v", e.Value, err)
		}
		if e, err := client.KV(ns, floe.Stale()).Get(t.Context(), "k"); err != nil || string(e.Value) != "v" {
			t.Errorf("stale get through a client: %q, %v", e.Value, err)
		}
	}
	if s, err := client.Stats(t.Context()); err != nil || s.State != "no quorum" {
		t.Errorf("stats without a quorum: %q, %v", s.State, err)
	}
	c.stop(0)
	c.start(0)
	c.staleAlone()
	c.staleOverHTTP("")
	c.start(1)
	c.settle()
	if _, err := client.KV("ns1").Put(t.Context(), "k", []byte("again")); err != nil {
		t.Errorf("put with a quorum again: %v", err)
	}
}

// staleAlone lets a client, with or without a key, read from the first node, which has started
// without the others.
func (c *three) staleAlone(opts ...floe.DialOption) {
	c.t.Helper()
	client, err := floe.Dial(c.t.Context(), []string{c.peers[0].Addr}, opts...)
	if err != nil {
		c.t.Fatalf("dial: %v", err)
	}
	defer client.Close()
	for _, ns := range namespaces() {
		await(c.t, "stale reads of a node that has begun without a quorum", func() bool {
			e, err := client.KV(ns, floe.Stale()).Get(c.t.Context(), "k")
			return err == nil && string(e.Value) == "v"
		})
		if e, err := c.nodes[0].KV(ns, floe.Stale()).Get(c.t.Context(), "k"); err != nil || string(e.Value) != "v" {
			c.t.Errorf("stale get at the node: %q, %v", e.Value, err)
		}
	}
	if _, err := client.KV("ns1").Put(c.t.Context(), "k", nil); !errors.Is(err, floe.ErrUnavailable) {
		c.t.Errorf("put at a node that has begun without a quorum: %v, want ErrUnavailable", err)
	}
}

// staleOverHTTP lets the dashboard of the first node, which has started without the others, answer
// reads with stale=true.
func (c *three) staleOverHTTP(key string) {
	c.t.Helper()
	h, token := dashboard.New(c.nodes[0], dashboard.Options{}), ""
	ask := func(method, target, body string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, "/api/v1"+target, strings.NewReader(body)), httptest.NewRecorder()
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		h.ServeHTTP(w, r)
		return w
	}
	if key != "" {
		if got := ask("GET", "/kv/namespaces/ns1/keys/k?stale=true", ""); got.Code != http.StatusUnauthorized {
			c.t.Errorf("a stale read without a token: %d %s", got.Code, got.Body)
		}
		var session struct{ Token string }
		if got := ask("POST", "/auth/session", fmt.Sprintf(`{"api_key":%q}`, key)); got.Code != http.StatusOK ||
			json.Unmarshal(got.Body.Bytes(), &session) != nil {
			c.t.Fatalf("a session: %d %s", got.Code, got.Body)
		}
		token = session.Token
	}
	for target, want := range map[string]string{"/kv/namespaces/ns1/keys/k?stale=true": `"value":"v"`,
		"/kv/namespaces/ns1/keys?stale": `"key":"k"`, "/namespaces?stale=1": `"ns1"`} {
		if got := ask("GET", target, ""); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), want) {
			c.t.Errorf("GET %s: %d %s", target, got.Code, got.Body)
		}
	}
	var refusals sync.WaitGroup
	for request, want := range map[string]int{
		"GET /kv/namespaces/ns1/keys/k": http.StatusServiceUnavailable, "GET /kv/namespaces/ns1/keys/k?stale=maybe": 0,
		"DELETE /kv/namespaces/ns1/keys/k?stale=true": 0,
	} {
		refusals.Go(func() { // they take a while
			method, target, _ := strings.Cut(request, " ")
			if got := ask(method, target, ""); got.Code != want &&
				(want != 0 || got.Code != http.StatusBadRequest && got.Code != http.StatusServiceUnavailable) {
				c.t.Errorf("%s: %d %s, want %d, or a refusal", request, got.Code, got.Body, want)
			}
		})
	}
	refusals.Wait()
}

// TestNoQuorumWithKeys: a node that has started without the others uses the keys that it has
// stored. It answers stale reads with a valid key, and refuses all others.
func TestNoQuorumWithKeys(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	_, key, err := c.nodes[0].Keys().Bootstrap(t.Context())
	c.must(err)
	for _, ns := range namespaces() {
		_, err := c.nodes[0].KV(ns).Put(t.Context(), "k", []byte("v"))
		c.must(err)
	}
	await(t, "replicas", func() bool {
		known, err := c.nodes[0].Keys().Enabled(t.Context())
		return err == nil && known && !slices.ContainsFunc(namespaces(), func(ns string) bool {
			_, err := c.nodes[0].KV(ns, floe.Stale()).Get(t.Context(), "k")
			return err != nil
		})
	})
	for i := range c.nodes {
		c.stop(i)
	}
	c.start(0)
	c.staleAlone(floe.APIKey(key))
	c.staleOverHTTP(key)
	for name, opts := range map[string][]floe.DialOption{"no key": nil, "a wrong key": {floe.APIKey(key[:len(key)-8] + "00000000")}} {
		client, err := floe.Dial(t.Context(), []string{c.peers[0].Addr}, opts...)
		if err == nil {
			_, err = client.KV("ns1", floe.Stale()).Get(t.Context(), "k")
			client.Close()
		}
		if !errors.Is(err, floe.ErrUnauthorized) {
			t.Errorf("a stale get with %s: %v, want ErrUnauthorized", name, err)
		}
	}
}

// TestNodeThatForgotIsRefused restarts a node with a wiped directory, and with an older copy of it.
// It must be refused, because it could vote twice.
func TestNodeThatForgotIsRefused(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(c *three, dir string){
		"wiped": func(c *three, dir string) { c.must(os.RemoveAll(dir)) },
		"older": func(c *three, dir string) {
			old := c.t.TempDir()
			c.must(os.CopyFS(old+"/copy", os.DirFS(dir)))
			c.start(2)
			c.settle()
			c.stop(2)
			c.must(os.RemoveAll(dir))
			c.must(os.Rename(old+"/copy", dir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newThree(t)
			c.stop(2)
			forget(c, c.dirs[2])
			// Not only at its first start: a supervisor restarts it repeatedly, and each start
			// counts.
			for range 3 {
				n := c.start(2)
				await(t, "refusal", func() bool { return n.Err() != nil })
				c.stop(2)
			}
			n := c.start(2)
			await(t, "refusal", func() bool { return n.Err() != nil })
			if err := n.Err(); !errors.Is(err, floe.ErrConflict) || !strings.Contains(err.Error(), "data directory") {
				t.Errorf("the node fails with %v, want ErrConflict about its data directory", err)
			}
			if _, err := n.KV("ns").Put(t.Context(), "k", nil); !errors.Is(err, floe.ErrUnavailable) {
				t.Errorf("put at the refused node: %v, want ErrUnavailable", err)
			}
			for i, n := range c.nodes[:2] {
				if _, err := n.KV("ns").Put(t.Context(), "k", nil); err != nil {
					t.Errorf("put at node %d: %v", i+1, err)
				}
			}
		})
	}
}

func (c *three) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// putAnyway puts a key, repeating the call while the leader moves, which may happen at any time on
// a busy machine.
func putAnyway(t *testing.T, store *kv.Store) (err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err = store.Put(ctx, "k", nil)
		if err == nil || ctx.Err() != nil || !errors.Is(err, floe.ErrUnavailable) && !errors.Is(err, floe.ErrUnknownOutcome) {
			return err
		}
	}
}

// TestWrongSecret: a node with a different secret takes no part and does no harm.
func TestWrongSecret(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	c.stop(2)
	conf := c.config(2)
	conf.Secret = []byte("another secret of the tests")
	n, err := floe.Open(conf)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if _, err := n.KV("ns").Put(t.Context(), "k", nil); !errors.Is(err, floe.ErrUnavailable) {
		t.Errorf("put at a node with another secret: %v, want ErrUnavailable", err)
	}
	for i, n := range c.nodes[:2] {
		if err := putAnyway(t, n.KV("ns")); err != nil {
			t.Errorf("put at node %d: %v", i+1, err)
		}
	}
	if err := c.nodes[0].Err(); err != nil {
		t.Errorf("node 1 has failed: %v", err)
	}
}

// TestForeignPeers: a node that was started with other peers than its cluster reports that and
// fails, because it might wait forever. The cluster continues.
func TestForeignPeers(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	four, five := floe.Peer{ID: 4, Addr: machinetest.FreeAddr(t)}, floe.Peer{ID: 5, Addr: machinetest.FreeAddr(t)}
	stranger := func(name string, id uint64, peers ...floe.Peer) { // one after the other: they would refuse each other too
		n, err := floe.Open(floe.Config{DataDir: t.TempDir(), Shards: 4, NodeID: id, Peers: peers, Secret: []byte(secret)})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		await(t, name, func() bool { return n.Err() != nil })
		if err := n.Err(); !errors.Is(err, floe.ErrInvalid) ||
			!strings.Contains(err.Error(), "is in a cluster of the nodes [1 2 3], this one in a cluster of [") {
			t.Errorf("%s: the node fails with %v", name, err)
		}
	}
	stranger("no member", 4, c.peers[0], c.peers[1], four)
	stranger("more of them", 5, append(slices.Clone(c.peers), four, five)...)
	for i, n := range c.nodes {
		if err := putAnyway(t, n.KV("ns")); err != nil || n.Err() != nil {
			t.Errorf("put at node %d: %v, %v", i+1, err, n.Err())
		}
	}
}
