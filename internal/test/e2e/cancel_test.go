package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// calls are operations of every kind, in an existing namespace.
var calls = map[string]func(context.Context, database) error{
	"kv put":      func(ctx context.Context, d database) error { _, err := d.KV("ns").Put(ctx, "k", nil); return err },
	"kv get":      func(ctx context.Context, d database) error { _, err := d.KV("ns").Get(ctx, "k"); return err },
	"kv get many": func(ctx context.Context, d database) error { _, err := d.KV("ns").GetMany(ctx, "k", "l"); return err },
	"kv exists":   func(ctx context.Context, d database) error { _, err := d.KV("ns").Exists(ctx, "k"); return err },
	"kv incr":     func(ctx context.Context, d database) error { _, err := d.KV("ns").Incr(ctx, "n", 1); return err },
	"kv touch":    func(ctx context.Context, d database) error { return d.KV("ns").Touch(ctx, "k", time.Hour) },
	"kv history": func(ctx context.Context, d database) error {
		_, err := engine.Collect(d.KV("ns").History("k").All(ctx))
		return err
	},
	"kv delete": func(ctx context.Context, d database) error { _, err := d.KV("ns").Delete(ctx, "k"); return err },
	"kv lock": func(ctx context.Context, d database) error {
		_, err := d.KV("ns").TryLock(ctx, "lock", time.Hour)
		return err
	},
	"queue enqueue": func(ctx context.Context, d database) error {
		_, err := d.Queue("ns").Enqueue(ctx, "q", nil)
		return err
	},
	"queue dequeue": func(ctx context.Context, d database) error { _, err := d.Queue("ns").Dequeue(ctx, "q"); return err },
	"queue stats":   func(ctx context.Context, d database) error { _, err := d.Queue("ns").Get(ctx, "q"); return err },
	"queue purge":   func(ctx context.Context, d database) error { _, err := d.Queue("ns").Purge(ctx, "q"); return err },
	"stream append": func(ctx context.Context, d database) error {
		_, err := d.Stream("ns").Append(ctx, "s", stream.Message{})
		return err
	},
	"stream read":  func(ctx context.Context, d database) error { _, err := d.Stream("ns").Read(ctx, "s"); return err },
	"stream stats": func(ctx context.Context, d database) error { _, err := d.Stream("ns").Get(ctx, "s"); return err },
	"stream trim": func(ctx context.Context, d database) error {
		_, err := d.Stream("ns").Trim(ctx, "s", stream.MaxLen(1))
		return err
	},
	"group create": func(ctx context.Context, d database) error { return d.Stream("ns").Groups("s").Create(ctx, "g") },
	"group read": func(ctx context.Context, d database) error {
		_, err := d.Stream("ns").ReadGroup(ctx, "s", "g", "c")
		return err
	},
	"txn": func(ctx context.Context, d database) error {
		_, err := d.Txn("ns").Do(kv.PutOp("k", nil)).Commit(ctx)
		return err
	},
	"namespace": func(ctx context.Context, d database) error { _, err := d.Namespaces().Get(ctx, "ns"); return err },
}

// waits are operations that wait for something that does not happen, given a stream without
// appends.
var waits = map[string]func(context.Context, database) error{
	"kv wait": func(ctx context.Context, d database) error { _, err := d.KV("ns").Wait(ctx, "never"); return err },
	"kv wait change": func(ctx context.Context, d database) error {
		_, err := d.KV("ns").WaitChange(ctx, "never", 0)
		return err
	},
	"kv watch":     func(ctx context.Context, d database) error { return last(d.KV("ns").Watch(ctx, "never")) },
	"no namespace": func(ctx context.Context, d database) error { _, err := d.KV("never").Wait(ctx, "never"); return err },
	"queue dequeue": func(ctx context.Context, d database) error {
		_, err := d.Queue("ns").Dequeue(ctx, "never", queue.Wait(time.Hour))
		return err
	},
	"stream read": func(ctx context.Context, d database) error {
		_, err := d.Stream("ns").Read(ctx, "never", stream.Wait(time.Hour))
		return err
	},
	"stream follow": func(ctx context.Context, d database) error { return last(d.Stream("ns").Follow(ctx, "never")) },
	"group read": func(ctx context.Context, d database) error {
		_, err := d.Stream("ns").ReadGroup(ctx, "quiet", "g", "c", stream.Wait(time.Hour))
		return err
	},
}

// last returns the error that ends a sequence.
func last[T any](seq func(yield func(T, error) bool)) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

// valve is a connection to a node that can be shut.
type valve struct {
	addr string

	mu     sync.Mutex // guards what follows
	shut   bool       // data from the node is held back
	opened chan struct{}
	asked  chan struct{} // capacity 1: something was sent to the node while the valve was shut
}

func newValve(t *testing.T, to string) *valve {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &valve{addr: l.Addr().String(), opened: make(chan struct{}), asked: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		l.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { v.carry(ctx, client, to) })
		}
	})
	return v
}

func (v *valve) carry(ctx context.Context, client net.Conn, to string) {
	defer client.Close()
	node, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer node.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		client.Close()
		node.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() {
		defer cancel()
		_, _ = io.Copy(writer(func(b []byte) (int, error) {
			v.note()
			return node.Write(b)
		}), client)
	})
	both.Go(func() {
		defer cancel()
		_, _ = io.Copy(writer(func(b []byte) (int, error) {
			if err := v.pass(ctx); err != nil {
				return 0, err
			}
			return client.Write(b)
		}), node)
	})
	both.Wait()
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func (v *valve) note() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut {
		select {
		case v.asked <- struct{}{}:
		default:
		}
	}
}

func (v *valve) pass(ctx context.Context) error {
	v.mu.Lock()
	shut, opened := v.shut, v.opened
	v.mu.Unlock()
	if !shut {
		return nil
	}
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *valve) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = true
	select {
	case <-v.asked:
	default:
	}
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = false
	close(v.opened)
	v.opened = make(chan struct{})
}

// onlyEnded checks that a call failed because its ctx ended, and only for that reason.
func onlyEnded(t *testing.T, stage, name string, ctx context.Context, err error) {
	t.Helper()
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, floe.ErrUnavailable) {
		t.Errorf("%s %s: %v, want only that its ctx has ended (%v)", name, stage, err, ctx.Err())
	}
}

// TestEndedContext ends the ctx of a call at each stage. The error must be that of the ctx only,
// and the client must keep its connection.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	node, err := floe.Open(floe.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	v := newValve(t, node.Addr().String())
	client, err := floe.Dial(t.Context(), []string{v.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for name, call := range calls { // after this the client has each namespace and its location
		if err := call(t.Context(), client); err != nil && errors.Is(err, floe.ErrUnavailable) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := client.Stream("ns").Create(t.Context(), "quiet"); err != nil {
		t.Fatal(err)
	}
	before := waitingAt(t, node)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls {
		onlyEnded(t, "before it begins", name, done, call(done, client))
		onlyEnded(t, "at a node, before it begins", name, done, call(done, node))
	}
	for name, wait := range waits {
		onlyEnded(t, "before it begins", name, done, wait(done, client))
		for at, d := range map[string]database{"client": client, "node": node} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- wait(ctx, d) }()
			await(t, "a waiter: "+name, func() bool { return waitingAt(t, node) > before })
			cancel()
			onlyEnded(t, "while it waits at a "+at, name, ctx, <-ended)
			await(t, "the end of the waiter", func() bool { return waitingAt(t, node) == before })
		}
	}
	for name, call := range calls {
		v.close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- call(ctx, client) }()
		<-v.asked
		cancel()
		onlyEnded(t, "that was sent", name, ctx, <-ended)
		v.open()
		if _, err := client.KV("ns").Put(t.Context(), "after", nil); err != nil {
			t.Errorf("put after %s: %v", name, err)
		}
	}
}

func waitingAt(t *testing.T, node *floe.Node) int {
	t.Helper()
	s, err := node.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Waiting
}

// TestEndedContextWithoutNode ends the ctx of a call that has no connection, including Dial.
func TestEndedContextWithoutNode(t *testing.T) {
	t.Parallel()
	node, err := floe.Open(floe.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.KV("ns").Put(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	v := newValve(t, node.Addr().String())
	client, err := floe.Dial(t.Context(), []string{v.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	v.close()
	for _, at := range []string{node.Addr().String(), v.addr} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		if at == v.addr {
			go func() {
				_, err := floe.Dial(ctx, []string{at})
				ended <- err
			}()
			<-v.asked
			cancel()
			onlyEnded(t, "to a node that says nothing", "dial", ctx, <-ended)
		}
		cancel()
		_, err := floe.Dial(ctx, []string{at})
		onlyEnded(t, "before it begins", "dial", ctx, err)
	}
	v.open()
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for _, table := range []map[string]func(context.Context, database) error{calls, waits} {
		for name, call := range table {
			for end, in := range map[string]func() (context.Context, context.CancelFunc){
				"cancelled": func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(50*time.Millisecond, cancel)
					return ctx, cancel
				},
				"overdue": func() (context.Context, context.CancelFunc) {
					return context.WithTimeout(t.Context(), 50*time.Millisecond)
				},
			} {
				running.Go(func() {
					ctx, cancel := in()
					defer cancel()
					onlyEnded(t, "without a node, "+end, name, ctx, call(ctx, client))
				})
			}
		}
	}
	running.Wait()
}

// TestEndedContextInCluster ends the ctx of calls that a node forwards to the leader, and of calls
// without a leader.
func TestEndedContextInCluster(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	follower := c.dial(0)
	if err := c.nodes[0].Stream("ns").Create(t.Context(), "quiet"); err != nil {
		t.Fatal(err)
	}
	waiting := func() (n int) {
		for _, node := range c.nodes {
			n += waitingAt(t, node)
		}
		return n
	}
	before := waiting()
	for name, wait := range waits {
		for _, d := range []database{follower, c.nodes[0], c.nodes[1], c.nodes[2]} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- wait(ctx, d) }()
			await(t, "a waiter: "+name, func() bool { return waiting() > before })
			cancel()
			onlyEnded(t, "passed on", name, ctx, <-ended)
			await(t, "the end of the waiter", func() bool { return waiting() == before })
		}
	}
	c.stop(1)
	c.stop(2)
	var running sync.WaitGroup
	for name, call := range calls {
		for _, d := range []database{follower, c.nodes[0]} {
			running.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := call(ctx, d)
				if errors.Is(err, floe.ErrUnknownOutcome) && ctx.Err() == nil {
					return // it was proposed before the leader noticed that it had lost the others
				}
				onlyEnded(t, "without a leader", name, ctx, err)
			})
		}
	}
	running.Wait()
}
