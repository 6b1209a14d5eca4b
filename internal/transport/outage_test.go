package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// pipes is an in-memory network that uses the time of a synctest bubble.
type pipes struct {
	mu    sync.Mutex // guards ports
	ports map[string]*port
}

// port is a listener.
type port struct {
	of    *pipes
	addr  string
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{ports: make(map[string]*port)} }

func (p *pipes) listen(addr string) net.Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &port{of: p, addr: addr, conns: make(chan net.Conn), ended: make(chan struct{})}
	p.ports[addr] = l
	return l
}

func (p *pipes) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	p.mu.Lock()
	l := p.ports[addr]
	p.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if l == nil {
		return nil, refused
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.ended:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *port) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *port) Close() error {
	l.once.Do(func() {
		close(l.ended)
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		if l.of.ports[l.addr] == l {
			delete(l.of.ports, l.addr)
		}
	})
	return nil
}

func (l *port) Addr() net.Addr { return &net.UnixAddr{Name: l.addr} }

// TestOutages stops the client's node, once for longer than any patience and once briefly.
// Long-running calls continue until their ctx ends, and so do plain calls.
func TestOutages(t *testing.T) {
	for name, outage := range map[string]time.Duration{"short": time.Millisecond, "longer than patience": 3 * patience, "long": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testOutage(t, outage) })
		})
	}
}

func testOutage(t *testing.T, outage time.Duration) {
	network, fsys := newPipes(), vfs.NewMem()
	r := openRigAt(t, network.listen("node:1"), fsys)
	defer func() { r.close() }()
	c, err := Dial(t.Context(), Config{Wire: testWire(), dial: network.dial}, []string{"node:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, store := t.Context(), engine.StoreOf[kv.Store](engine.NewRouter(c), "outage", 0)
	if _, err := store.Put(ctx, "there", nil); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	call := func(name string, f func() error) {
		calls.Go(func() {
			if err := f(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	watched := make(chan kv.Event)
	call("watch", func() error {
		seen := 0
		for e, err := range store.Watch(ctx, "") {
			if err != nil {
				return err
			}
			watched <- e
			if seen++; seen == 3 {
				break
			}
		}
		return nil
	})
	if e := <-watched; e.Key != "there" {
		t.Errorf("the watch begins with %+v", e)
	}
	call("wait", func() error { _, err := store.Wait(ctx, "after"); return err })
	call("change", func() error { _, err := store.WaitChange(ctx, "after", 0); return err })
	call("namespace that does not exist", func() error {
		_, err := engine.StoreOf[kv.Store](engine.NewRouter(c), "new", 0).Wait(ctx, "k")
		return err
	})
	synctest.Wait()
	r.close()
	began := time.Now()
	for _, ns := range []string{"outage", "other"} {
		store := engine.StoreOf[kv.Store](engine.NewRouter(c), ns, 0)
		call("put meanwhile", func() error { _, err := store.Put(ctx, "plain", nil); return err })
	}
	call("get meanwhile", func() error { _, err := store.Get(ctx, "there"); return err })
	call("watch begun meanwhile", func() error {
		for _, err := range store.Watch(ctx, "") {
			return err
		}
		return nil
	})
	call("get with a deadline", func() error {
		short, cancel := context.WithTimeout(ctx, outage/2)
		defer cancel()
		if _, err := store.Get(short, "there"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrUnavailable) {
			return fmt.Errorf("%w, want that its time is over and nothing else", err)
		}
		if took := time.Since(began); took != outage/2 {
			return fmt.Errorf("it ended after %v, want %v", took, outage/2)
		}
		return nil
	})
	wait(ctx, outage)
	synctest.Wait()
	r = openRigAt(t, network.listen("node:1"), fsys)
	if e := <-watched; e.Key != "plain" {
		t.Errorf("the watch goes on with %+v", e)
	}
	for _, ns := range []string{"outage", "new"} {
		if _, err := engine.StoreOf[kv.Store](engine.NewRouter(c), ns, 0).Put(ctx, map[string]string{"outage": "after", "new": "k"}[ns],
			nil); err != nil {
			t.Errorf("put in %s after the outage: %v", ns, err)
		}
	}
	if e := <-watched; e.Key != "after" {
		t.Errorf("the watch ends with %+v", e)
	}
	calls.Wait()
}

// TestRefusedForLong: if a node answers but cannot help, plain calls return an error once patience
// is over, while a wait continues. A period of silence restarts the count.
func TestRefusedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Wire: testWire()})
		defer p.Close()
		unled := &engine.NotLeaderError{}
		began := time.Now()
		err := p.untilLed(t.Context(), enduranceOf(t.Context()), func(*trip) error { return unled })
		if took := time.Since(began); !errors.Is(err, engine.ErrUnavailable) || took < patience || took > patience+maxRetry {
			t.Errorf("a plain call without a leader: %v after %v, want ErrUnavailable after %v", err, took, patience)
		}
		lasting, cancel := context.WithTimeout(engine.Lasting(t.Context()), time.Hour)
		defer cancel()
		if err := p.untilLed(lasting, enduranceOf(lasting), func(*trip) error { return unled }); !errors.Is(err,
			context.DeadlineExceeded) || errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("a wait without a leader: %v, want that its time is over and nothing else", err)
		}
		began = time.Now()
		err = p.untilLed(t.Context(), answers, func(*trip) error {
			if took := time.Since(began); took > time.Second && took < time.Minute {
				return &notSentError{reason: errSilent}
			}
			return unled
		})
		if took := time.Since(began); !errors.Is(err, engine.ErrUnavailable) || took < time.Minute+patience {
			t.Errorf("a plain call that meets a silent node: %v after %v, want ErrUnavailable after %v", err, took, time.Minute+patience)
		}
		// A query that has waited at a node has the whole patience to find the next one.
		for _, stay := range []time.Duration{patience - time.Second, time.Hour} {
			began = time.Now()
			tries := 0
			err := p.untilLed(t.Context(), everyFailure, func(trip *trip) error {
				if tries++; tries == 1 {
					trip.left = time.Now()
					wait(t.Context(), stay)
				}
				return unled
			})
			if took := time.Since(began); !errors.Is(err, engine.ErrUnavailable) || took < stay+patience {
				t.Errorf("a query that has waited for %v: %v after %v, want ErrUnavailable %v later", stay, err, took, patience)
			}
		}
	})
}

// TestTakeForGoodIsNotRepeated: a waiting take is repeated if its answer was lost, here or on the
// way from another node. A take without acknowledgement is not. The records it had received used to
// be lost without an error.
func TestTakeForGoodIsNotRepeated(t *testing.T) {
	p := newRig(t).peer
	for _, lost := range []error{&lostError{io.ErrUnexpectedEOF}, &unknownError{io.ErrUnexpectedEOF}} {
		for _, once := range []bool{false, true} {
			attempts := 0
			_, err := p.untilTaken(t.Context(), everyFailure, engine.Take{Wait: time.Minute, Once: once},
				func(engine.Take, *trip) ([]byte, error) {
					if attempts++; attempts == 1 {
						return nil, lost
					}
					return nil, nil
				})
			if once && (attempts != 1 || !errors.Is(err, engine.ErrUnknownOutcome)) {
				t.Errorf("%v of a take for good: %d attempts, %v, want one and ErrUnknownOutcome", lost, attempts, err)
			}
			if !once && (attempts != 2 || err != nil) {
				t.Errorf("%v of a take: %d attempts, %v, want another one", lost, attempts, err)
			}
		}
	}
}

// TestTakeThatHardlyWaits: a take whose time ends before any node was asked gets the available
// records, like one that does not wait.
func TestTakeThatHardlyWaits(t *testing.T) {
	result, err := newRig(t).peer.untilTaken(t.Context(), everyFailure, engine.Take{Wait: 1},
		func(engine.Take, *trip) ([]byte, error) { return []byte("taken"), nil })
	if string(result) != "taken" || err != nil {
		t.Errorf("a take that waits for 1 ns: %q, %v", result, err)
	}
}

// TestTakeWithoutALeader: like every other call, a waiting take is refused if there was no leader
// for the whole patience, unless its caller continues through outages. If its time ends earlier,
// its result is empty. It keeps its turn: the next leader receives how long it has waited.
func TestTakeWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Wire: testWire()})
		defer p.Close()
		unled := func(engine.Take, *trip) ([]byte, error) { return nil, &engine.NotLeaderError{} }
		for _, c := range []struct {
			endurance endurance
			wait      time.Duration
			want      error
			after     time.Duration
		}{
			{everyFailure, 0, engine.ErrUnavailable, patience},
			{everyFailure, time.Hour, engine.ErrUnavailable, patience},
			{everyFailure, time.Second, nil, time.Second},
			{enduranceOf(engine.Lasting(t.Context())), time.Hour, nil, time.Hour},
		} {
			began := time.Now()
			result, err := p.untilTaken(t.Context(), c.endurance, engine.Take{Wait: c.wait}, unled)
			if took := time.Since(began); !errors.Is(err, c.want) || result != nil || took < c.after || took > c.after+2*maxRetry {
				t.Errorf("a take that waits for %v, endurance %v: %q, %v after %v, want %v after %v", c.wait, c.endurance, result, err,
					took, c.want, c.after)
			}
		}
		led := time.Now().Add(3 * time.Second)
		result, err := p.untilTaken(t.Context(), everyFailure, engine.Take{Wait: time.Minute, Waited: time.Second},
			func(k engine.Take, _ *trip) ([]byte, error) {
				if time.Now().Before(led) {
					return unled(k, nil)
				}
				if k.Wait+k.Waited != time.Minute+time.Second || k.Waited < 4*time.Second {
					t.Errorf("the next leader is told that the take waits for %v, and has waited for %v", k.Wait, k.Waited)
				}
				return []byte("taken"), nil
			})
		if string(result) != "taken" || err != nil {
			t.Errorf("a take that waits for a leader: %q, %v", result, err)
		}
	})
}
