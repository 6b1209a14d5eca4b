package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	testrig "github.com/floedb/floe/internal/test/machinetest" // this package has a type named rig
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

// trio is three nodes with one shard. The others reach node 3 through a proxy. The log is so small
// that node 3 needs a snapshot after an absence.
type trio struct {
	t     *testing.T
	addrs [3]string
	fs    [3]vfs.FS
	rigs  [3]*rig // nil: away
	proxy *proxy
	seen  *observed // node 3

	refused atomic.Int64 // refused snapshots
	keep    uint64       // log entries kept for followers, 0: 10
	clocks  [3]shard.Clock
	log     [3]*slog.Logger
}

func newTrio(t *testing.T) *trio {
	c := &trio{t: t}
	c.open()
	return c
}

func (c *trio) open() {
	t := c.t
	t.Helper()
	var listeners [3]net.Listener
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if listeners[i], c.addrs[i] = l, l.Addr().String(); c.fs[i] == nil {
			c.fs[i] = vfs.NewMem()
		}
	}
	c.proxy = newProxy(t, c.addrs[2], nil)
	t.Cleanup(func() {
		for i := range c.rigs {
			c.stop(i)
		}
	})
	for i, l := range listeners {
		c.start(i, l)
	}
}

func (c *trio) start(i int, l net.Listener) {
	c.t.Helper()
	var members []Member
	for j, addr := range c.addrs {
		if j == 2 && i != 2 {
			addr = c.proxy.addr
		}
		members = append(members, Member{uint64(j + 1), addr})
	}
	r := &rig{t: c.t, addr: c.addrs[i], fs: c.fs[i]}
	r.peer = New(Config{Node: uint64(i + 1), Wire: testWire(), Members: members, Secret: testSecret})
	host, err := shard.Open(shard.Config{
		Dir: "node", FS: r.fs, Shards: 1, NodeID: uint64(i + 1), Voters: []uint64{1, 2, 3}, Transport: r.peer, Door: r.peer.Door(),
		Alive: r.peer.Alive, Full: r.peer.Full,
		Primitives: []engine.Primitive{engine.TableOf[kv.Store](), toy.Primitive()}, MemTableBytes: 256 << 10, SegmentBytes: 64 << 10,
		MaxLogBytes: 128<<10 + int64(c.keep)<<20, KeepEntries: max(c.keep, 10),
		MaxValue: shard.LargestMaxValue, Clocks: true, Clock: c.clocks[i], Logger: c.log[i],
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := host.Identify(); err != nil {
		c.t.Fatal(err)
	}
	r.host = host
	seen := &observed{Host: host, refused: &c.refused, kinds: make(map[raftpb.MessageType]int)}
	if i == 2 {
		c.seen = seen
	}
	r.peer.Attach(seen, func(context.Context) ([]byte, error) { return []byte("{}"), nil })
	r.peer.Serve(l)
	c.rigs[i] = r
}

func (c *trio) stop(i int) {
	if r := c.rigs[i]; r != nil {
		c.rigs[i] = nil
		r.close()
	}
}

// term returns the term of the shard, 0 unless node 1 leads it. Node 1 is where the leadership
// moves when all is well.
func (c *trio) term() uint64 {
	s, err := c.rigs[0].host.Stats()
	if err != nil || s.Shards[0].Leader != 1 {
		return 0
	}
	return s.Shards[0].Term
}

// fall takes node 3 away while more is written than the log keeps, and returns when it is back. how
// returns the tamper of later connections to it.
func (c *trio) fall(store *kv.Store, how func(int) tamper) {
	c.t.Helper()
	c.put(store, "begin", nil)
	c.stop(2)
	value, rng := make([]byte, 32<<10), rand.NewChaCha8([32]byte{})
	for i := range 40 {
		_, _ = rng.Read(value)
		c.put(store, fmt.Sprint("large/", i), value)
	}
	c.proxy.change(how)
	l, err := net.Listen("tcp", c.addrs[2])
	if err != nil {
		c.t.Fatal(err)
	}
	c.start(2, l)
}

// put writes key, and retries while the outcome is unknown: leadership may move during any call,
// because a node was stopped or because the machine is busy.
func (c *trio) put(store *kv.Store, key string, value []byte, o ...kv.PutOption) {
	c.t.Helper()
	_, err := store.Put(c.t.Context(), key, value, o...)
	for errors.Is(err, engine.ErrUnknownOutcome) {
		_, err = store.Put(c.t.Context(), key, value, o...)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// level waits until node 3 has the same state as the others.
func (c *trio) level(store *kv.Store) {
	c.t.Helper()
	c.put(store, "end", []byte("e"))
	stale := engine.StoreOf[kv.Store](engine.NewRouter(c.rigs[2].peer.StaleDoor()), "trio", 0)
	await(c.t, "node 3", func() bool { _, err := stale.Get(c.t.Context(), "end"); return err == nil })
	for i := range 40 {
		key := fmt.Sprint("large/", i)
		want, err := store.Get(c.t.Context(), key)
		if err != nil {
			c.t.Fatal(err)
		}
		if got, err := stale.Get(c.t.Context(), key); err != nil || string(got.Value) != string(want.Value) {
			c.t.Errorf("node 3 has %d bytes of %s, %v, want the %d of the others", len(got.Value), key, err, len(want.Value))
		}
	}
	if err := c.rigs[2].host.Err(); err != nil {
		c.t.Errorf("node 3 has failed: %v", err)
	}
}

// observed is a host that records what it receives.
type observed struct {
	*shard.Host
	refused *atomic.Int64

	mu      sync.Mutex // guards the fields below
	reason  error      // of the last refusal
	taken   int
	kinds   map[raftpb.MessageType]int
	longest time.Duration // longest time that a snapshot took to arrive
	heard   int           // messages of a leader since the latest snapshot began to arrive
	beside  int           // of these, the most that came before a snapshot was accepted
}

func (o *observed) Receive(id uint16, msgs []*raftpb.Message) {
	o.mu.Lock()
	for _, m := range msgs {
		if m.GetType() != raftpb.MsgApp || len(m.GetEntries()) > 0 {
			o.kinds[m.GetType()]++
		}
		if m.GetType() == raftpb.MsgHeartbeat || m.GetType() == raftpb.MsgApp {
			o.heard++
		}
	}
	o.mu.Unlock()
	o.Host.Receive(id, msgs)
}

func (o *observed) ReceiveSnapshot(id uint16, m *raftpb.Message, body io.Reader) error {
	began := time.Now()
	o.mu.Lock()
	o.heard = 0
	o.mu.Unlock()
	err := o.Host.ReceiveSnapshot(id, m, body)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.longest = max(o.longest, time.Since(began))
	if err != nil {
		o.reason = err
		o.refused.Add(1)
	} else {
		o.taken++
		o.beside = max(o.beside, o.heard)
	}
	return err
}

func (c *trio) dial() *kv.Store {
	c.t.Helper()
	d, err := Dial(c.t.Context(), Config{Wire: testWire()}, []string{c.addrs[0], c.addrs[1]})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(d.Close)
	await(c.t, "a leader", func() bool { return c.term() > 0 })
	return engine.StoreOf[kv.Store](engine.NewRouter(d), "trio", 0)
}

// TestSlowSnapshot sends a snapshot over a connection so slow that it takes longer than several
// elections: heartbeats continue meanwhile. The test counts them, because on a busy machine there
// may be an election all the same.
func TestSlowSnapshot(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	store := c.dial()
	c.fall(store, func(int) tamper { return throttle(500 << 10) })
	await(t, "the snapshot", func() bool {
		c.seen.mu.Lock()
		defer c.seen.mu.Unlock()
		return c.seen.taken > 0
	})
	c.level(store)
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	t.Logf("a snapshot took %v, node 3 had %d messages of its leader meanwhile", c.seen.longest.Round(time.Millisecond), c.seen.beside)
	if c.seen.longest < 2*time.Second || c.seen.beside < 4 {
		t.Error("want a snapshot that takes more than two seconds, and heartbeats beside it")
	}
}

// TestDamagedSnapshotStream flips a bit of snapshots in transit and truncates them: they are
// refused and leave nothing behind, and the next one is accepted.
func TestDamagedSnapshotStream(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	store := c.dial()
	var damaged atomic.Int64
	const times = 3
	from := testrig.Seed(t)
	c.fall(store, func(conn int) tamper {
		rng := rand.New(rand.NewPCG(from, uint64(conn))) // for one direction
		next := func() int { return 64<<10 + rng.IntN(900<<10) }
		at := next() // only snapshots, and their replacements, are as large
		return func(_ context.Context, up bool, b []byte) ([]byte, bool) {
			if !up {
				return b, false
			}
			if at -= len(b); at >= 0 {
				return b, false
			}
			here := len(b) + at
			at = next()
			if c.refused.Load() >= times {
				return b, false
			}
			if damaged.Add(1)%2 == 0 {
				return b[:here], true
			}
			b[here] ^= 1 << rng.IntN(8)
			return b, false
		}
	})
	await(t, "the snapshot", func() bool {
		c.seen.mu.Lock()
		defer c.seen.mu.Unlock()
		return c.seen.taken > 0 && c.refused.Load() >= times
	})
	c.level(store)
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	t.Logf("damaged %d times, %d snapshots refused, %d taken; the last: %v", damaged.Load(), c.refused.Load(), c.seen.taken, c.seen.reason)
	await(t, "the removal of spools", func() bool {
		names, err := c.fs[2].List("node/state")
		return err == nil && !strings.Contains(strings.Join(names, " "), "snapshot-")
	})
}
