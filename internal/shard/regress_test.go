package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"weak"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// Each test here names a bug that was found by reading.

// until waits for a condition, within the test's time.
func until(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, ctx.Err())
		}
	}
}

// leaderOf waits for a node, not the given one, that leads the shard.
func (c *cluster) leaderOf(ctx context.Context, shard engine.ShardID, not uint64) (leader uint64) {
	c.t.Helper()
	until(ctx, c.t, "a leader", func() bool {
		for id := uint64(1); id <= 3; id++ {
			if h := c.host(id); id != not && h != nil && h.Leads(shard) {
				leader = id
			}
		}
		return leader != 0
	})
	return leader
}

// TestAsyncIsSyncWithSeveralVoters: a voter that forgets its acknowledgements breaks raft.
func TestAsyncIsSyncWithSeveralVoters(t *testing.T) {
	c, err := Config{Durability: Async, Voters: []uint64{1, 2, 3}}.withDefaults()
	if err != nil || c.Durability != Sync {
		t.Errorf("with three voters the durability is %v, %v; want sync", c.Durability, err)
	}
}

// filter drops messages.
type filter struct {
	Transport
	drop *atomic.Pointer[func(m *raftpb.Message) bool]
}

func (f filter) Send(shard uint16, msgs []*raftpb.Message) {
	var keep []*raftpb.Message
	for _, m := range msgs {
		if d := f.drop.Load(); d != nil && (*d)(m) {
			continue
		}
		keep = append(keep, m)
	}
	f.Transport.Send(shard, keep)
}

// TestNewLeaderAnswersOnlyWhatItHasApplied: the message that announced a commit was lost, and the
// next leader did not know of it yet.
func TestNewLeaderAnswersOnlyWhatItHasApplied(t *testing.T) {
	var drop atomic.Pointer[func(m *raftpb.Message) bool]
	c := newCluster(t, 1, func(c *Config) { c.Transport = filter{c.Transport, &drop} })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ns := homed(0)
	add := toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(ns)
	if _, err := c.Propose(ctx, 0, add); err != nil {
		t.Fatal(err)
	}
	c.settle(ctx)
	leader := c.leaderOf(ctx, 0, 0)
	// The message that announces the commit to followers is lost ...
	noCommit := func(m *raftpb.Message) bool {
		return m.GetFrom() == leader && (m.GetType() == raftpb.MsgApp && len(m.GetEntries()) == 0 || m.GetType() == raftpb.MsgHeartbeat)
	}
	drop.Store(&noCommit)
	if _, err := c.host(leader).Propose(ctx, 0, add); err != nil {
		t.Fatal(err)
	}
	// ... the leader is cut off, and the next one's appends are slow.
	c.net.Isolate(leader)
	slow := func(m *raftpb.Message) bool { return m.GetType() == raftpb.MsgApp }
	drop.Store(&slow)
	next := c.leaderOf(ctx, 0, leader)
	q := toy.Counter{Namespace: ns, Name: "a"}
	asked, cancelAsked := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancelAsked()
	if err := c.host(next).Query(asked, 0, &q); err == nil && q.Value != 2 {
		t.Errorf("the new leader answers %d; 2 was acknowledged", q.Value)
	}
	drop.Store(nil)
	c.net.Heal()
	q = toy.Counter{Namespace: ns, Name: "a"}
	if err := c.Query(ctx, 0, &q); err != nil || q.Value != 2 {
		t.Errorf("after the faults the counter is %d, %v; want 2", q.Value, err)
	}
}

// TestIsolatedLeaderDoesNotAnswer: an isolated leader still believes for a while that it leads,
// although another node already writes.
func TestIsolatedLeaderDoesNotAnswer(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, 1, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	ns := homed(0)
	add := toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(ns)
	for want := int64(1); want <= 10; want++ {
		old := c.leaderOf(ctx, 0, 0)
		c.net.Isolate(old)
		next := c.leaderOf(ctx, 0, old)
		for {
			_, err := c.host(next).Propose(ctx, 0, add)
			if err == nil {
				break
			}
			// A busy machine may elect once more before the proposal arrives: it was then not made.
			if !errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrUnknownOutcome) {
				t.Fatal(err)
			}
			next = c.leaderOf(ctx, 0, old)
		}
		q := toy.Counter{Namespace: ns, Name: "a"}
		asked, cancelAsked := context.WithTimeout(ctx, 50*time.Millisecond)
		if err := c.host(old).Query(asked, 0, &q); err == nil && q.Value != want {
			t.Errorf("the isolated leader answers %d, %d was acknowledged", q.Value, want)
		}
		cancelAsked()
		c.net.Heal()
		// It may get the leadership back at any time: its applied index shows that it has followed.
		until(ctx, t, "the old leader to step down", func() bool { return c.host(old).Applied(0) >= c.host(next).Applied(0) })
	}
}

// TestQueryEndsWithLeadership: a query that waits on a deposed leader must move to the next one.
func TestQueryEndsWithLeadership(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, 1, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	old := c.leaderOf(ctx, 0, 0)
	answered := make(chan error, 1)
	go func() { answered <- c.host(old).Query(ctx, 0, &toy.Counter{Namespace: homed(0), Name: "a", Min: 2}) }()
	until(ctx, t, "a waiting query", func() bool { return stats(t, c.host(old)).Waiting > 0 })
	c.net.Isolate(old)
	if err := <-answered; !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("the query ended with %v, want ErrUnavailable", err)
	}
	c.net.Heal()
}

// TestQuietShardDoesNotKeepTheLog: the few entries that one shard keeps for followers used to keep
// the segments of all.
func TestQuietShardDoesNotKeepTheLog(t *testing.T) {
	cfg := config(vfs.NewMem())
	cfg.KeepEntries, cfg.SegmentBytes, cfg.MaxLogBytes, cfg.MemTableBytes = 10_000, 64<<10, 1<<20, 1<<20
	h := open(t, cfg)
	defer closeHost(t, h)
	ns := homed(0)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 1000 {
				cmd := toy.Command{Kind: toy.Add, Name: "a", Delta: 1, Target: strings.Repeat("x", 900)}.In(ns)
				if _, err := h.Propose(context.Background(), 0, cmd); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	must(t, h.db.Flush())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// Raft may process the application of the last entries only now.
	until(ctx, t, "the log to be truncated", func() bool {
		must(t, h.truncate())
		return h.ual.Size() < 4*cfg.MaxLogBytes
	})
}

// TestClosedUnderLoadIsDefinite: a command that Close did not wait for used to have an unknown
// outcome, and so did one that had just been applied.
func TestClosedUnderLoadIsDefinite(t *testing.T) {
	noLeaks(t)
	for range 30 {
		h := open(t, config(vfs.NewMem()))
		var callers sync.WaitGroup
		begun := make(chan struct{}, 8)
		for range cap(begun) {
			callers.Go(func() {
				for first := true; ; first = false {
					cmd := toy.Command{Kind: toy.Add, Name: "n", Delta: 1}.In(homed(0))
					if _, err := h.Propose(context.Background(), 0, cmd); err != nil {
						if !errors.Is(err, engine.ErrClosed) || errors.Is(err, engine.ErrUnknownOutcome) {
							t.Errorf("Propose at a host that is closed = %v, want ErrClosed, for certain", err)
						}
						return
					}
					if first {
						begun <- struct{}{}
					}
				}
			})
		}
		for range cap(begun) {
			<-begun
		}
		closeHost(t, h)
		callers.Wait()
	}
}

// stuck accepts snapshots and never reads them.
type stuck struct {
	Transport
	began chan struct{}
	once  *sync.Once
}

func (s stuck) SendSnapshot(shard uint16, msg *raftpb.Message, body io.ReadCloser, done func(error)) {
	s.once.Do(func() { close(s.began) })
}

// TestCloseWhileSendingSnapshot: a peer that did not read used to keep the node from closing.
func TestCloseWhileSendingSnapshot(t *testing.T) {
	began := make(chan struct{})
	var once sync.Once
	c := newCluster(t, 1, func(c *Config) {
		c.MemTableBytes, c.SegmentBytes, c.KeepEntries = 256<<10, 64<<10, 20
		c.Transport = stuck{c.Transport, began, &once}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	w := workload{door: c, rng: rand.New(rand.NewPCG(1, 2))}
	w.create(ctx, t)
	c.stop(3)
	w.run(ctx, t, 300)
	c.flushAll()
	c.start(3)
	select {
	case <-began:
	case <-ctx.Done():
		t.Fatal("no snapshot")
	}
	for id := uint64(1); id <= 2; id++ {
		c.stop(id) // hung
	}
}

// noTables cannot create tables of the state database.
type noTables struct {
	vfs.FS
	on *atomic.Bool
}

func (f noTables) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && f.on.Load() {
		return nil, syscall.EIO
	}
	return f.FS.Create(name, c)
}

// TestOpenOnFailingDisk: when the disk fails during the replay, Pebble's goroutines never end, and
// Open used to wait for them.
func TestOpenOnFailingDisk(t *testing.T) {
	fsys := vfs.NewCrashableMem()
	h := open(t, config(fsys))
	ns := homed(0)
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := range 300 {
				cmd := toy.Command{Kind: toy.Add, Name: fmt.Sprintf("%d-%d-%s", g, i, strings.Repeat("x", 900)), Delta: 1}.In(ns)
				if _, err := h.Propose(context.Background(), 0, cmd); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	left := fsys.CrashClone(vfs.CrashCloneCfg{})
	closeHost(t, h)
	var on atomic.Bool
	on.Store(true)
	c := config(noTables{left, &on})
	c.MemTableBytes = 256 << 10
	if h, err := Open(c); err == nil { // hung
		t.Error("Open on a disk that fails = nil, want its error")
		closeHost(t, h)
	} else if !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("Open on a disk that fails = %v, want the cause", err)
	}
}

// TestDueTimerWaitsForAppends: with a timer due and the disk busy the loop used to spin.
func TestDueTimerWaitsForAppends(t *testing.T) {
	s := newStepper(t)
	s.lead()
	for range maxAppends {
		s.step(input{proposals: proposals(1, 10)})
	}
	s.due = s.clock.wall - 1
	s.step(input{})
	if wake := s.core.wakeAt(s.due); wake <= s.core.clock.now() && !s.core.firing {
		t.Errorf("nothing can be proposed before an append is done, but the loop is to wake at once (%d)", wake)
	}
}

// nowhere loses all messages.
type nowhere struct{}

func (nowhere) Send(uint16, []*raftpb.Message) {}

func (nowhere) SendSnapshot(_ uint16, _ *raftpb.Message, body io.ReadCloser, done func(error)) {
	body.Close()
	done(io.EOF)
}

// onLog calls f for each log line.
type onLog struct{ f func(msg, all string) }

func (o onLog) Enabled(context.Context, slog.Level) bool { return true }
func (o onLog) Handle(_ context.Context, r slog.Record) error {
	all := r.Message
	r.Attrs(func(a slog.Attr) bool { all += " " + a.String(); return true })
	o.f(r.Message, all)
	return nil
}
func (o onLog) WithAttrs([]slog.Attr) slog.Handler { return o }
func (o onLog) WithGroup(string) slog.Handler      { return o }

// TestStaleTailBehindSnapshot: a crash in the middle of installing a snapshot, with uncommitted
// entries in the log that reach past it.
func TestStaleTailBehindSnapshot(t *testing.T) {
	h1, err := Open(config(vfs.NewMem()))
	must(t, err)
	for i := range 10 {
		cmd := toy.Command{Kind: toy.Add, Name: fmt.Sprintf("c%d", i), Delta: 1}.In(homed(0))
		if _, err := h1.Propose(context.Background(), 0, cmd); err != nil {
			t.Fatal(err)
		}
	}
	at, err := engine.ReadApplied(h1.db, 0)
	must(t, err)
	var snap bytes.Buffer
	rows, _, err := h1.shards[0].stateRows()
	must(t, err)
	must(t, writeSnapshot(&snap, rows))
	must(t, rows.Close())
	closeHost(t, h1)

	fs3 := vfs.NewCrashableMem()
	var left *vfs.MemFS
	installed := make(chan struct{})
	cfg := Config{Dir: "node", Shards: 2, FS: fs3, NodeID: 3, Voters: []uint64{1, 2, 3}, Transport: nowhere{}, TickInterval: time.Hour,
		Primitives: []engine.Primitive{toy.Primitive()}}
	c3 := cfg
	c3.Logger = slog.New(onLog{func(msg, _ string) {
		if msg == "installed snapshot" {
			left = fs3.CrashClone(vfs.CrashCloneCfg{})
			close(installed)
		}
	}})
	h := open(t, c3)
	var es []*raftpb.Entry
	for i := uint64(1); i <= at.Index+20; i++ { // entries of term 1 that are never committed
		es = append(es, &raftpb.Entry{Index: new(i), Term: new(uint64(1)), Type: raftpb.EntryNormal.Enum()})
	}
	h.Receive(0, []*raftpb.Message{{Type: raftpb.MsgApp.Enum(), From: new(uint64(1)), To: new(uint64(3)), Term: new(uint64(1)),
		Entries: es}})
	until(t.Context(), t, "the tail", func() bool { return h.shards[0].log.Durable() >= at.Index+20 })
	must(t, h.ReceiveSnapshot(0, &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(2)), To: new(uint64(3)),
		Term: new(uint64(7)),
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(at.Index), Term: new(at.Term),
			ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}}}}, &snap))
	<-installed
	closeHost(t, h)

	cfg.FS = left
	h, err = Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer closeHost(t, h)
	log := h.shards[0].log
	term, _ := log.Term(at.Index)
	if term != at.Term {
		t.Errorf("the state is at (%d, term %d), the log has term %d there and goes on to %d with what was never committed", at.Index,
			at.Term, term, log.LastIndex())
	}
}

// TestFailedNodeTakesNoMessages: messages used to accumulate for a loop that had ended.
func TestFailedNodeTakesNoMessages(t *testing.T) {
	h := open(t, config(vfs.NewMem()))
	defer h.Close()
	h.fail(errors.New("told to"))
	h.running.Wait()
	for range 1000 {
		h.Receive(0, []*raftpb.Message{{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(2)), Term: new(uint64(9))}})
	}
	mail := &h.shards[0].mail
	mail.mu.Lock() // the log's writer may still be in its last step
	defer mail.mu.Unlock()
	if n := len(mail.in.messages); n > 0 {
		t.Errorf("%d messages are kept for a loop that has ended", n)
	}
}

// TestUselessSnapshotsAreRemoved: tables of snapshots that raft ignored used to stay until the next
// start.
func TestUselessSnapshotsAreRemoved(t *testing.T) {
	good := exported(t, 10)
	fsys := vfs.NewMem()
	h := open(t, config(fsys))
	defer closeHost(t, h)
	before, err := fsys.List("node/state")
	must(t, err)
	for range 5 {
		msg := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(1)),
			Snapshot: &raftpb.Snapshot{
				Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(1)), Term: new(uint64(1)),
					ConfState: &raftpb.ConfState{Voters: []uint64{1}}},
			}}
		must(t, h.ReceiveSnapshot(0, msg, bytes.NewReader(good)))
	}
	if _, err := h.Propose(context.Background(), 0, engine.Skip(0)); err != nil {
		t.Fatal(err)
	}
	after, err := fsys.List("node/state")
	must(t, err)
	if len(after) > len(before) {
		t.Errorf("%d files more than before: %v", len(after)-len(before), after)
	}
}

// TestClosedHostIsGarbage: a pool inside the host used to keep all of it, with state and log, for
// two more collections. The kept memory delayed the next collection, so a process that opened hosts
// one after the other took more and more memory.
func TestClosedHostIsGarbage(t *testing.T) {
	const hosts = 8
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var closed []weak.Pointer[Host]
	for range hosts {
		h := open(t, config(vfs.NewMem()))
		if _, err := h.Propose(context.Background(), 0, engine.Skip(0)); err != nil {
			t.Fatal(err)
		}
		closeHost(t, h)
		closed = append(closed, weak.Make(h))
	}
	runtime.GC()
	kept := 0
	for _, h := range closed {
		if h.Value() != nil {
			kept++
		}
	}
	if kept > hosts/2 { // the stack, or a stopped timer, may still hold the latest
		t.Errorf("%d of %d closed hosts are still held", kept, hosts)
	}
}
