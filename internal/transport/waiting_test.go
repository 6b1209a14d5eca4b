package transport

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestWaitingEndsWithItsCaller: queries waiting at the node end when their caller cancels, closes,
// or is cut off.
func TestWaitingEndsWithItsCaller(t *testing.T) {
	r := newRig(t)
	honest := r.dial()
	r.well(honest)
	const waiting = 100
	waits := func(n int) func() bool {
		return func() bool {
			s, err := r.host.Stats()
			return err != nil || s.Waiting == n
		}
	}
	p := newProxy(t, r.addr, nil)
	for name, end := range map[string]func(cancel func(), c *Client){
		"gives up":   func(cancel func(), _ *Client) { cancel() },
		"goes away":  func(_ func(), c *Client) { c.Close() },
		"is cut off": func(_ func(), c *Client) { p.close() },
	} {
		addr := r.addr
		if name == "is cut off" {
			addr = p.addr
		}
		c, err := Dial(t.Context(), Config{Wire: testWire()}, []string{addr})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiters sync.WaitGroup
		for range waiting {
			waiters.Go(func() { _, _ = engine.StoreOf[kv.Store](engine.NewRouter(c), "well", 0).Wait(ctx, "never") })
		}
		await(t, "waiters", waits(waiting))
		end(cancel, c)
		await(t, "the end of the waiters of one who "+name, waits(0))
		cancel()
		waiters.Wait()
		c.Close()
	}
	r.well(honest)
}

// rawWait is the query of kv that waits for a key, with names that no floe client sends.
type rawWait struct {
	namespace, key string
	after          uint64
	exists         bool
}

func (*rawWait) Machine() engine.MachineID { return engine.MachineKV }
func (*rawWait) Kind() uint8               { return 4 }
func (*rawWait) Results(*codec.Fields)     {}
func (q *rawWait) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.key)
	c.Uvarint(&q.after)
	c.Bool(&q.exists)
}

// TestWaitingHoldsNoFrames: waiting queries release the memory of their frames, however large they
// are. One client gets no more than its share of the rest, so others are served. The name of a
// namespace is bounded.
func TestWaitingHoldsNoFrames(t *testing.T) {
	l := budget.Default()
	l.Requests = 4 << 20
	r := newRig(t)
	r.peer.frames, r.peer.large.limit = newMemory(l.Requests, l.Requests/shareOf), l.Requests/2
	r.peer.requests.limit = l.Requests
	s := r.stream(r.http(), pathDoor)
	s.open(roleClient)
	const size = 60 << 10 // below the rig's maximum request size
	large := func(id uint64, q *rawWait) []byte {
		return partsOf((&request{kind: askQuery, id: id, shard: uint64(engine.HomeShard("n", 2)),
			body: engine.AppendQuery(nil, q)}).appendTo(nil))
	}
	go func() { // confirmations must be read, or no further parts are accepted
		_, _ = s.in.Write(large(1, &rawWait{namespace: strings.Repeat("n", size), key: "k", exists: true}))
		for id := range uint64(100) {
			if _, err := s.in.Write(large(id+2, &rawWait{namespace: "n", key: strings.Repeat("k", size), exists: true})); err != nil {
				return
			}
		}
	}()
	busy := 0
	for {
		kind, b, err := s.readFrame(nil, maxAnswer)
		if err != nil {
			t.Fatal(err)
		}
		if kind == gotFrame {
			continue
		}
		a, err := decodeAnswer(b)
		if err != nil || !a.refused {
			t.Fatalf("answer %+v, %v", a, err)
		}
		err = testWire().DecodeError(a.body)
		if a.id == 1 {
			if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "exceeds 255") {
				t.Errorf("a namespace of %d bytes: %v", size, err)
			}
			continue
		}
		if busy++; !errors.Is(err, engine.ErrBusy) {
			t.Fatalf("query %d: %v", a.id, err)
		}
		if a.id == 101 {
			break
		}
	}
	if most := 100 - int(l.Requests/2)/size; busy < most || busy > most+2 {
		t.Errorf("%d of 100 queries of %d bytes are refused, want about %d", busy, size, most)
	}
	r.peer.frames.mu.Lock()
	used := r.peer.frames.used
	r.peer.frames.mu.Unlock()
	if used != 0 {
		t.Errorf("queries that wait hold %d bytes of frames", used)
	}
	r.well(r.dial())
}
