package transport

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestClientsLeaveNothing closes clients with calls in flight: net/http used to keep a connection
// whose stream had just ended.
func TestClientsLeaveNothing(t *testing.T) {
	r := newRig(t)
	r.well(r.dial())
	before := goleak.IgnoreCurrent()
	for range 100 {
		c, err := Dial(t.Context(), Config{Wire: testWire()}, []string{r.addr})
		if err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				if _, err := engine.StoreOf[kv.Store](engine.NewRouter(c), "well", 0).Wait(t.Context(), "never"); !errors.Is(err,
					engine.ErrClosed) {
					t.Errorf("wait while the client is closed: %v, want ErrClosed", err)
				}
			})
		}
		_, _ = c.Stats(t.Context())
		c.Close()
		calls.Wait()
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// TestCloseWhileOthersArrive closes a node while doors are opened: under the race detector it shows
// whether Close waits for all of them.
func TestCloseWhileOthersArrive(t *testing.T) {
	for range 20 {
		r := newRig(t)
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				p := New(Config{Wire: testWire()})
				defer p.Close()
				l := &link{peer: p, client: newClient(nil, nil, p.opened), addr: r.addr, role: roleClient}
				_, _ = l.call(t.Context(), request{kind: askStats})
			})
		}
		r.close()
		clients.Wait()
	}
}

// TestCloseWithHalfASnapshot closes a node that is receiving a stalled snapshot.
func TestCloseWithHalfASnapshot(t *testing.T) {
	r := newRig(t)
	s := r.stream(r.http(), pathSnapshot)
	s.open(roleNode)
	m, err := proto.Marshal(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(1)),
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(99)), Term: new(uint64(1))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(append(codec.AppendUvarint(nil, 0), m...)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.Write([]byte("floesnp1")); err != nil {
		t.Fatal(err)
	}
	await(t, "the spool", func() bool {
		names, err := r.fs.List("node/state")
		return err != nil || strings.Contains(strings.Join(names, " "), "snapshot-")
	})
	r.close() // does not wait for the rest
}

// TestSomethingElseAnswers dials a server that is not floe: its response used to make the opener of
// a stream call nil.
func TestSomethingElseAnswers(t *testing.T) {
	t.Parallel()
	addr := serveHTTP2(t, http.NotFound)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a dial that tries again ends with it
	defer cancel()
	if _, err := Dial(ctx, Config{Wire: testWire()}, []string{addr}); !errors.Is(err, ErrWebServer) ||
		errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial: %v, want %v at once", err, ErrWebServer)
	}
}

// TestDashboardAnswers dials a port that says that it does not speak the protocol: it is not tried
// again.
func TestDashboardAnswers(t *testing.T) {
	t.Parallel()
	addr := serveHTTP2(t, Unspoken(http.HandlerFunc(http.NotFound)).ServeHTTP)
	if _, err := Dial(t.Context(), Config{Wire: testWire()}, []string{addr}); !errors.Is(err, ErrWebServer) ||
		!errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("dial: %v, want %q", err, ErrWebServer)
	}
}

// TestCallsCountUntilTheyEnd: a cancel asks a call to end, which a command may not do before it is
// committed. Until then the call counts.
func TestCallsCountUntilTheyEnd(t *testing.T) {
	v := &visitor{peer: New(Config{Wire: testWire()}), tally: newTally("this connection", 2, 1), calls: make(map[uint64]context.CancelFunc)}
	ctx, err := v.begin(t.Context(), &request{id: 1}, maxTaken-10, false)
	if err != nil {
		t.Fatal(err)
	}
	v.cancel(1)
	if ctx.Err() == nil {
		t.Error("the call is not cancelled")
	}
	if _, err := v.begin(t.Context(), &request{id: 2}, 20, false); !errors.Is(err, engine.ErrBusy) {
		t.Errorf("a call beyond the bytes of all: %v, want ErrBusy", err)
	}
	v.end(&request{id: 1}, maxTaken-10, false)
	if _, err := v.begin(t.Context(), &request{id: 3}, 20, false); err != nil {
		t.Errorf("a call when the large one has ended: %v", err)
	}
	v.end(&request{id: 3}, 20, false)
}

// TestRequestOverTheLimit: an oversized request is refused before it is sent. The node would end
// the stream, with all calls on it.
func TestRequestOverTheLimit(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	cmd := engine.CreateNamespace("large", false)
	cmd.Body = make([]byte, 64<<10+maxRequest)
	if _, err := c.Propose(t.Context(), 0, cmd); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("propose: %v, want ErrInvalid", err)
	}
	r.well(c)
}
