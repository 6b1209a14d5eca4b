package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// idleSession is a session that sends nothing.
func idleSession(limit int) *session {
	return &session{
		room: newMemory(maxWaiting/2, maxWaiting/2),
		peer: New(Config{Wire: testWire()}), welcome: &welcome{maxValue: 1000}, out: newOutbox(limit), cancel: func() {},
		calls: make(map[uint64]call), ended: make(chan struct{}),
	}
}

// TestOutboxFull: a call without room in the outbox is refused for certain; a call that is given up
// is still cancelled at the other side.
func TestOutboxFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := idleSession(100)
		first := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := s.call(ctx, request{kind: askPropose, body: make([]byte, 200)})
			first <- err
		}()
		synctest.Wait()
		full := len(s.out.buf)
		_, err := s.call(t.Context(), request{kind: askPropose, body: []byte("b")})
		if !errors.Is(err, engine.ErrBusy) || errors.Is(err, engine.ErrUnavailable) || errors.Is(ambiguous(err), engine.ErrUnknownOutcome) {
			t.Errorf("call with a full outbox: %v, want ErrBusy alone", err)
		}
		if nowhere(err) {
			t.Errorf("%v is tried again", err)
		}
		if len(s.out.buf) != full || len(s.calls) != 1 {
			t.Errorf("%d bytes and %d calls wait, want %d and 1", len(s.out.buf), len(s.calls), full)
		}
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) || errors.Is(ambiguous(err), engine.ErrUnavailable) {
			t.Errorf("call that is given up: %v, want that its ctx has ended and nothing else", err)
		}
		b, err := readFrame(newReader(bytes.NewReader(s.out.buf[full:])), nil, 100)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := decodeRequest(b); err != nil || q.kind != askCancel || q.id != 1 {
			t.Errorf("sent %+v, %v, want the cancel of call 1", q, err)
		}
	})
}

// TestAnswersWithoutRoom: a dropped answer would be waited for, so the stream ends.
func TestAnswersWithoutRoom(t *testing.T) {
	v := &visitor{peer: New(Config{Wire: testWire()}), out: newOutbox(100), calls: make(map[uint64]context.CancelFunc)}
	v.answer(1, make([]byte, 200), nil)
	v.goodBye() // has room
	if v.out.err != nil {
		t.Fatalf("the stream has ended: %v", v.out.err)
	}
	v.answer(2, nil, nil)
	if !errors.Is(v.out.err, engine.ErrBusy) {
		t.Errorf("the stream goes on without an answer: %v", v.out.err)
	}
}

// TestReaderThatTakesNothing: a reader that takes nothing is dropped after some time; a slow one is
// not.
func TestReaderThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		out := newOutbox(maxWaiting)
		ended := make(chan error, 1)
		go func() {
			ended <- out.run(&wire{w: w, flush: func() error { return nil }, abort: func() { w.CloseWithError(errEnded) }})
		}()
		if err := out.send(func(b []byte) []byte { return append(b, make([]byte, 4*writePart)...) }); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			wait(t.Context(), writeTimeout*9/10)
			if _, err := io.ReadFull(r, make([]byte, writePart)); err != nil {
				t.Fatalf("a slow reader is given up: %v", err)
			}
		}
		began := time.Now()
		if err := <-ended; err == nil || time.Since(began) > writeTimeout {
			t.Errorf("run ends with %v after %v, want %v", err, time.Since(began), writeTimeout)
		}
	})
}

// TestCloseWithReaderThatTakesNothing requests more than fits into the window and reads none of it:
// the node closes all the same.
func TestCloseWithReaderThatTakesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	honest := r.dial()
	store := engine.StoreOf[kv.Store](engine.NewRouter(honest), "large", 0)
	if _, err := store.Put(t.Context(), "k", make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	client := r.http()
	s := r.stream(client, pathDoor)
	s.open(roleClient)
	var get []byte
	spy := &spyDoor{Door: honest, seen: func(q engine.Query) { get = engine.AppendQuery(nil, q) }}
	if _, err := engine.StoreOf[kv.Store](engine.NewRouter(spy), "large", 0).Get(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	for id := range uint64(400) {
		if err := s.write((&request{kind: askQuery, id: id + 1, shard: uint64(engine.HomeShard("large", 2)),
			body: get}).appendTo(nil)); err != nil {
			t.Fatal(err)
		}
	}
	r.well(honest)
	r.close() // does not wait for the reader
}

// spyDoor observes the calls that pass it.
type spyDoor struct {
	engine.Door
	seen func(engine.Query)
}

func (d *spyDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	d.seen(q)
	return d.Door.Query(ctx, id, q)
}

// TestLargeValuesQueue: large values that exceed the room of a connection or of a shard's queue
// wait for their turn: none is copied only to be refused.
func TestLargeValuesQueue(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := openRigFor(t, l, vfs.NewMem(), 2<<20)
	t.Cleanup(r.close)
	store := engine.StoreOf[kv.Store](engine.NewRouter(r.dial()), "large", 2<<20)
	value := make([]byte, 2<<20)
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			if _, err := store.Put(t.Context(), fmt.Sprint(i%4), value); err != nil {
				t.Errorf("put %d: %v", i, err)
			}
		})
	}
	callers.Wait()
}
