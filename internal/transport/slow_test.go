package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestSlowFollower: a follower is far behind, on a link that takes longer for one message of
// entries than many heartbeats. It gets each entry about once, and heartbeats meanwhile. The leader
// used to resend the same entries with the answer to each heartbeat, and nothing else got through.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	c := &trio{t: t, keep: 1000}
	c.open()
	store := c.dial()
	c.put(store, "begin", nil)
	c.stop(2)
	const values, size = 48, 32 << 10
	for i := range values {
		c.put(store, fmt.Sprint("large/", i), make([]byte, size))
	}
	var mu sync.Mutex           // guards passed
	passed := make(map[int]int) // bytes by connection
	c.proxy.change(func(conn int) tamper {
		slow := throttle(256 << 10)
		return func(ctx context.Context, up bool, b []byte) ([]byte, bool) {
			if up {
				mu.Lock()
				passed[conn] += len(b)
				mu.Unlock()
			}
			return slow(ctx, up, b)
		}
	})
	l, err := net.Listen("tcp", c.addrs[2])
	if err != nil {
		t.Fatal(err)
	}
	c.start(2, l)
	stale := engine.StoreOf[kv.Store](engine.NewRouter(c.rigs[2].peer.StaleDoor()), "trio", 0)
	await(t, "node 3", func() bool {
		_, err := stale.Get(t.Context(), fmt.Sprint("large/", values-1))
		return err == nil
	})
	mu.Lock()
	defer mu.Unlock()
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	t.Logf("%v bytes for %d bytes of values, %d messages with entries and %d heartbeats", passed, values*size, c.seen.kinds[raftpb.MsgApp],
		c.seen.kinds[raftpb.MsgHeartbeat])
	for conn, bytes := range passed {
		if bytes > 2*values*size {
			t.Errorf("%d bytes were sent on connection %d for %d bytes of values", bytes, conn, values*size)
		}
	}
	if n := c.seen.kinds[raftpb.MsgHeartbeat]; n < 10 {
		t.Errorf("%d heartbeats came meanwhile", n)
	}
	if c.seen.taken > 0 {
		t.Error("a snapshot was taken")
	}
}

// slowWay is the link of a connection of pipes: buffers of a megabyte each way, which drain at the
// given number of bytes per second.
type slowWay struct {
	net.Conn
	down, up atomic.Int64
}

// dialSlow opens a connection with a slow link. Both ends see its end.
func (p *pipes) dialSlow(ctx context.Context, network, addr string, rate int64) (*slowWay, error) {
	far, err := p.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	here, near := net.Pipe()
	w := &slowWay{Conn: here}
	life, end := context.WithCancel(context.Background())
	context.AfterFunc(life, func() {
		near.Close()
		far.Close()
	})
	carry := func(dst, src net.Conn, rate *atomic.Int64) {
		buffer := make(chan []byte, 1024)
		go func() {
			defer close(buffer)
			defer end()
			for {
				b := make([]byte, 1<<10)
				n, err := src.Read(b)
				if err != nil {
					return
				}
				buffer <- b[:n]
			}
		}()
		go func() {
			for b := range buffer {
				for len(b) > 0 && life.Err() == nil {
					n, pause := len(b), time.Hour
					if rate := rate.Load(); rate > 0 {
						n = int(min(max(rate/10, 1), int64(n)))
						pause = time.Duration(n) * time.Second / time.Duration(rate)
					}
					wait(life, pause)
					_, _ = dst.Write(b[:n]) // after the end no peer reads it
					b = b[n:]
				}
			}
		}()
	}
	w.down.Store(rate)
	w.up.Store(rate)
	carry(near, far, &w.down)
	carry(far, near, &w.up)
	return w, nil
}

// TestSlowLink moves values of a megabyte both ways, each of which takes longer than any tolerated
// silence. They arrive, and so do concurrent small calls, within a time limit of their own.
func TestSlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		r := openRigFor(t, network.listen("node:1"), vfs.NewMem(), 1<<20)
		defer r.close()
		dial := func(ctx context.Context, of, addr string) (net.Conn, error) {
			return network.dialSlow(ctx, of, addr, 200_000)
		}
		c, err := Dial(t.Context(), Config{Wire: testWire(), dial: dial}, []string{"node:1"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		store, value := engine.StoreOf[kv.Store](engine.NewRouter(c), "slow", 0), bytes.Repeat([]byte("value"), 200_000)
		if _, err := store.Put(t.Context(), "small", nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var large, small sync.WaitGroup
		for i := range 3 {
			large.Go(func() {
				key := fmt.Sprint("large/", i)
				if _, err := store.Put(t.Context(), key, value); err != nil {
					t.Errorf("put of a large value: %v", err)
				}
				if e, err := store.Get(t.Context(), key); err != nil || !bytes.Equal(e.Value, value) {
					t.Errorf("get of a large value: %d bytes, %v", len(e.Value), err)
				}
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		calls, slowest := 0, time.Duration(0)
		small.Go(func() {
			for ; ctx.Err() == nil; calls++ {
				began := time.Now()
				short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				_, err := store.Put(short, "small", nil)
				cancel()
				if slowest = max(slowest, time.Since(began)); err != nil {
					t.Errorf("a small call: %v after %v", err, time.Since(began))
				}
			}
		})
		large.Wait()
		cancel()
		small.Wait()
		t.Logf("3 MB each way in %v; beside them %d small calls, each within %v", time.Since(began), calls, slowest)
		if n := r.peer.Traffic().BytesReceived; n > 5<<20 {
			t.Errorf("%d bytes were sent for 3 MB", n)
		}
	})
}

// TestDeadLink silences a link completely or almost, in either direction: a call on it detects this
// in time, and is retried.
func TestDeadLink(t *testing.T) {
	const fast = 1 << 30
	for name, c := range map[string]struct {
		down, up int64 // bytes per second
		within   time.Duration
	}{
		"silent":             {0, 0, 3 * pingAfter},
		"deaf":               {fast, 0, 3 * pingAfter},
		"a byte a second":    {1, fast, pongTimeout + 3*pingAfter},
		"a byte a second up": {fast, 1, pongTimeout + 3*pingAfter},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newPipes()
				r := openRigAt(t, network.listen("node:1"), vfs.NewMem())
				defer r.close()
				var way *slowWay
				dial := func(ctx context.Context, of, addr string) (conn net.Conn, err error) {
					way, err = network.dialSlow(ctx, of, addr, fast)
					return way, err
				}
				d, err := Dial(t.Context(), Config{Wire: testWire(), dial: dial}, []string{"node:1"})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				store := engine.StoreOf[kv.Store](engine.NewRouter(d), "dead", 0)
				if _, err := store.Put(t.Context(), "k", make([]byte, 60<<10)); err != nil {
					t.Fatal(err)
				}
				way.down.Store(c.down)
				way.up.Store(c.up)
				began := time.Now()
				_, err = store.Get(t.Context(), "k")
				if took := time.Since(began); err != nil || took < pingAfter || took > c.within {
					t.Errorf("get: %v after %v, want nil within %v", err, took, c.within)
				}
			})
		})
	}
}

// TestFarContext: the error of a ctx that ended at the other side is not a ctx error here,
// whichever way it arrives.
func TestFarContext(t *testing.T) {
	for _, far := range []error{context.Canceled, context.DeadlineExceeded} {
		s := idleSession(100)
		_, err := s.open(answer{refused: true, body: testWire().AppendError(nil, far)})
		if err = ambiguous(err); isContextual(err) || !errors.Is(err, engine.ErrUnknownOutcome) {
			t.Errorf("a call that ended with %v there: %v, want ErrUnknownOutcome alone", far, err)
		}
		s.fail(far)
		if _, err := s.call(t.Context(), request{kind: askPropose}); isContextual(err) || !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("a call on a session that ended with %v: %v, want ErrUnavailable alone", far, err)
		}
	}
}

// TestDroppedStream: a node that ends a stream because of data it read there does not answer the
// calls that this ends, or they would count as refused.
func TestDroppedStream(t *testing.T) {
	r := newRig(t)
	s := r.stream(r.http(), pathDoor)
	s.open(roleClient)
	query := engine.AppendQuery(nil, &engine.NamespaceQuery{Name: "never", Wait: true})
	if err := s.write((&request{kind: askQuery, id: 1, shard: uint64(engine.HomeShard("never", 2)),
		body: query}).appendTo(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.Write(make([]byte, frameHead)); err != nil {
		t.Fatal(err)
	}
	if b, err := readFrame(s.r, nil, maxAnswer); err == nil {
		a, _ := decodeAnswer(b)
		t.Errorf("the stream goes on with an answer: %v", testWire().DecodeError(a.body))
	}
	if _, err := io.Copy(io.Discard, s.r); err == nil {
		t.Log("the stream ended cleanly")
	}
}
