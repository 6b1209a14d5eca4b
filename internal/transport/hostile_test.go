package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
)

// stream is a stream that a test writes to message by message.
type stream struct {
	t *testing.T
	wire
	in   *io.PipeWriter
	body io.Closer
}

func (r *rig) stream(client *http.Client, path string) *stream {
	r.t.Helper()
	in, out := io.Pipe()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.addr+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		out.Close()
		cancel()
		resp.Body.Close()
	})
	return &stream{t: r.t, wire: wire{r: newReader(resp.Body), w: out, flush: func() error { return nil }, abort: cancel}, in: out,
		body: resp.Body}
}

// ends waits for the node to end the stream.
func (s *stream) ends(what string) {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, s.r); done <- err }()
	select {
	case <-done:
	case <-time.After(3 * greetTimeout):
		s.t.Errorf("%s: the stream is still open", what)
	}
}

func testHello(change func(*hello)) []byte {
	h := hello{version: Version, role: roleClient, nonce: make([]byte, nonceBytes)}
	if change != nil {
		change(&h)
	}
	return encoded(h.code)
}

func asNode(h *hello) {
	h.role, h.identity = roleNode, shard.Introduction{Identity: shard.Identity{Node: 2, Directory: "d", Boot: 1, Run: "r"}}
}

// TestHostileOpening sends openings that no honest node or client would send.
func TestHostileOpening(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	honest := r.dial()
	client := r.http()
	wrongVersion := testHello(func(h *hello) { h.version = 99 })
	for name, c := range map[string]struct {
		path string
		sent []byte
	}{
		"empty frame":              {pathDoor, frameOf(nil)},
		"frame of 2 GiB":           {pathDoor, []byte{0xff, 0xff, 0xff, 0x7f, 1, 2, 3, 4, 5, 6}},
		"hello too long":           {pathDoor, frameOf(make([]byte, maxHello+1))},
		"random":                   {pathDoor, frameOf([]byte("GET / HTTP/1.1\r\n\r\n"))},
		"overlong varint":          {pathDoor, frameOf(bytes.Repeat([]byte{0x80}, 40))},
		"request before hello":     {pathDoor, frameOf((&request{kind: askStats, id: 1}).appendTo(nil))},
		"unknown version":          {pathDoor, frameOf(wrongVersion)},
		"unknown role":             {pathDoor, frameOf(testHello(func(h *hello) { h.role = 7 }))},
		"for another node":         {pathDoor, frameOf(testHello(func(h *hello) { h.to = 3 }))},
		"short nonce":              {pathDoor, frameOf(testHello(func(h *hello) { h.nonce = h.nonce[1:] }))},
		"client on raft":           {pathRaft, frameOf(testHello(nil))},
		"client on snapshot":       {pathSnapshot, frameOf(testHello(nil))},
		"node that is no member":   {pathRaft, frameOf(testHello(func(h *hello) { asNode(h); h.identity.Node = 9 }))},
		"node with the same id":    {pathRaft, frameOf(testHello(func(h *hello) { asNode(h); h.identity.Node = 1 }))},
		"node without proof":       {pathRaft, append(frameOf(testHello(asNode)), frameOf(nil)...)},
		"node with a false proof":  {pathRaft, append(frameOf(testHello(asNode)), frameOf(make([]byte, proofBytes))...)},
		"node at the door, false":  {pathDoor, append(frameOf(testHello(asNode)), frameOf(make([]byte, proofBytes))...)},
		"proof that is too long":   {pathRaft, append(frameOf(testHello(asNode)), frameOf(make([]byte, proofBytes+1))...)},
		"nothing":                  {pathDoor, nil},
		"hello as a node, no more": {pathRaft, frameOf(testHello(asNode))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := r.stream(client, c.path)
			s.t = t
			if _, err := s.in.Write(c.sent); err != nil && len(c.sent) > 0 {
				t.Logf("write: %v", err)
			}
			s.ends(name)
		})
	}
	t.Cleanup(func() { r.well(honest) })
}

// open performs the handshake as a client, or as node 2 with the secret.
func (s *stream) open(role uint8) {
	s.t.Helper()
	p := New(Config{Wire: testWire(), Members: testMembers, Secret: testSecret})
	defer p.Close()
	p.host = fakeHost{}
	if _, err := p.greet(&s.wire, role, 1); err != nil {
		s.t.Fatalf("handshake: %v", err)
	}
}

// fakeHost is node 2 as far as the handshake is concerned.
type fakeHost struct{ Host }

func (fakeHost) Identity() shard.Identity {
	return shard.Identity{Node: 2, Directory: "d", Boot: 1, Run: "r"}
}
func (h fakeHost) Introduce(uint64) (shard.Introduction, error) {
	return shard.Introduction{Identity: h.Identity(), Shown: []shard.Shown{{Node: 1, Runs: []string{"q", "r"}}}}, nil
}
func (fakeHost) Meet(shard.Introduction) error { return nil }
func (fakeHost) Confirmed(uint64)              {}
func (fakeHost) Shards() int                   { return 2 }

// partsOf returns the frames of a large message.
func partsOf(b []byte) []byte {
	out := newOutbox(len(b))
	out.begin(func() {})
	_ = out.sendLarge(len(b), func(dst []byte) []byte { return append(dst, b...) })
	out.end(nil) // no end confirms
	var frames []byte
	for over := false; !over; {
		b, over, _ = out.take()
		frames = append(frames, b...)
	}
	out.discard()
	return frames
}

func (s *stream) ask(q request) answer {
	s.t.Helper()
	var err error
	if b := q.appendTo(nil); isLarge(len(b)) {
		_, err = s.w.Write(partsOf(b))
	} else {
		err = s.write(b)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	kind, b, err := s.readFrame(nil, smallFrame)
	for err == nil && kind == gotFrame {
		kind, b, err = s.readFrame(nil, smallFrame)
	}
	if err != nil {
		s.t.Fatalf("no answer: %v", err)
	}
	a, err := decodeAnswer(b)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// TestHostileRequests sends, as a client, requests that a client may not make.
func TestHostileRequests(t *testing.T) {
	r := newRig(t)
	honest := r.dial()
	client := r.http()
	s := r.stream(client, pathDoor)
	s.open(roleClient)
	in := func(cmd engine.Command, ns string) []byte { cmd.Namespace = ns; return cmd.AppendTo(nil) }
	large := engine.OpOf(kv.PutOp("k", make([]byte, 64<<10+1))).Command
	put := engine.OpOf(kv.PutOp("k", nil)).Command
	id := uint64(0)
	for name, q := range map[string]request{
		"fire":                {kind: askPropose, body: in(engine.Fire(), "ns")},
		"skip":                {kind: askPropose, body: in(engine.Skip(1<<60), "ns")},
		"delivery":            {kind: askPropose, body: in(engine.Command{Kind: 3}, "ns")},
		"settle":              {kind: askPropose, body: in(engine.Command{Kind: 4}, "ns")},
		"value over the max":  {kind: askPropose, body: in(large, "ns")},
		"system namespace":    {kind: askPropose, body: in(put, "_system")},
		"no namespace":        {kind: askPropose, body: in(put, "")},
		"shard out of range":  {kind: askPropose, shard: 2, body: in(put, "ns")},
		"shard far out":       {kind: askQuery, shard: 1 << 60, body: engine.AppendQuery(nil, &engine.NamespaceQuery{Name: "a"})},
		"malformed command":   {kind: askPropose, body: []byte{1, 2}},
		"command version":     {kind: askPropose, body: []byte{9, 1, 1, 0, 0}},
		"unknown machine":     {kind: askPropose, body: in(engine.Command{Machine: 14, Kind: 1}, "ns")},
		"unknown query":       {kind: askQuery, body: []byte{1, 99}},
		"malformed query":     {kind: askQuery, body: []byte{1, 1, 0xff}},
		"stats of nobody":     {kind: askStats, shard: 1 << 60},
		"query without limit": {kind: askQuery, body: engine.AppendQuery(nil, &engine.NamespacesQuery{Limit: 1 << 40})},
	} {
		id++
		q.id = id
		a := s.ask(q)
		if err := testWire().DecodeError(a.body); !a.refused || !strings.Contains(fmt.Sprintf("%T", err), "Error") || a.id != id {
			t.Errorf("%s: answer %+v, %v", name, a, err)
		}
	}
	// A cancel of an unknown call is not an error; an id that decreases is.
	if err := s.write((&request{kind: askCancel, id: 12345}).appendTo(nil)); err != nil {
		t.Fatal(err)
	}
	if a := s.ask(request{kind: askStats, id: id + 1}); a.refused || string(a.body) != "{}" {
		t.Errorf("stats: %+v", a)
	}
	if err := s.write((&request{kind: askStats, id: 1}).appendTo(nil)); err != nil {
		t.Fatal(err)
	}
	s.ends("an id that goes back")
	r.well(honest)
}

// tap records everything written.
type tap struct {
	io.Writer
	written bytes.Buffer
}

func (w *tap) Write(b []byte) (int, error) {
	w.written.Write(b)
	return w.Writer.Write(b)
}

// TestReplayedOpening replays the bytes with which an honest node opened a stream.
func TestReplayedOpening(t *testing.T) {
	r := newRig(t)
	client := r.http()
	for _, path := range []string{pathRaft, pathPulse, pathSnapshot, pathDoor} {
		honest := r.stream(client, path)
		heard := &tap{Writer: honest.w}
		honest.w = heard
		honest.open(roleNode)

		replay := r.stream(client, path)
		if _, err := replay.in.Write(heard.written.Bytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := readFrame(replay.r, nil, maxHello); err != nil {
			t.Fatalf("%s: no welcome: %v", path, err)
		}
		verdict, err := readFrame(replay.r, nil, maxHello)
		if err != nil || !errors.Is(testWire().DecodeError(verdict), engine.ErrUnauthorized) {
			t.Errorf("%s: the verdict is %q, %v, want ErrUnauthorized", path, verdict, err)
		}
		replay.ends("replayed on " + path)
	}
	r.well(r.dial())
}

// TestTooManyWait makes more calls wait on one stream than allowed.
func TestTooManyWait(t *testing.T) {
	r := newRig(t)
	honest := r.dial()
	client := r.http()
	s := r.stream(client, pathDoor)
	s.open(roleClient)
	wait := engine.AppendQuery(nil, &engine.NamespaceQuery{Name: "never", Wait: true})
	shardID := uint64(engine.HomeShard("never", 2))
	for id := range uint64(maxInFlight) {
		if err := s.write((&request{kind: askQuery, id: id + 1, shard: shardID, body: wait}).appendTo(nil)); err != nil {
			t.Fatal(err)
		}
	}
	a := s.ask(request{kind: askQuery, id: maxInFlight + 1, shard: shardID, body: wait})
	if err := testWire().DecodeError(a.body); a.id != maxInFlight+1 || !a.refused || !strings.Contains(err.Error(), "calls are under way") {
		t.Errorf("answer %d, %v; want the last one refused", a.id, err)
	}
	r.well(honest)
}

// TestHostileNode sends, as a node that knows the secret, messages that raft cannot handle.
func TestHostileNode(t *testing.T) {
	r := newRig(t)
	honest := r.dial()
	client := r.http()
	message := func(change func(*raftpb.Message)) []byte {
		m := &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(1))}
		change(m)
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return append(codec.AppendUvarint(nil, 0), b...)
	}
	typed := func(k raftpb.MessageType) []byte { return message(func(m *raftpb.Message) { m.Type = k.Enum() }) }
	for name, b := range map[string][]byte{
		"random":          []byte("\x00random"),
		"of another node": message(func(m *raftpb.Message) { m.From = new(uint64(3)) }),
		"for another":     message(func(m *raftpb.Message) { m.To = new(uint64(3)) }),
		"campaign":        typed(raftpb.MsgHup),
		"proposal":        typed(raftpb.MsgProp),
		"append of ours":  typed(raftpb.MsgStorageAppend),
		"apply of ours":   typed(raftpb.MsgStorageApply),
		"snapshot":        typed(raftpb.MsgSnap),
		"hole": message(func(m *raftpb.Message) {
			m.Type, m.Index = raftpb.MsgApp.Enum(), new(uint64(5))
			m.Entries = []*raftpb.Entry{{Index: new(uint64(9)), Term: new(uint64(1))}}
		}),
		"shard 70000": append(codec.AppendUvarint(nil, 70000), 1),
	} {
		s := r.stream(client, pathRaft)
		s.open(roleNode)
		if err := s.write(b); err != nil {
			t.Fatal(err)
		}
		s.ends(name)
	}
	r.well(honest)
}

// TestHostileBytes connects with bytes that are not HTTP/2, half-open connections, and a thousand
// silent ones.
func TestHostileBytes(t *testing.T) {
	r := newRig(t)
	honest := r.dial()
	rng := rand.New(rand.NewPCG(1, 2))
	const conns = 1000
	idle := make([]net.Conn, 0, conns)
	for i := range conns {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
		if i%2 == 0 {
			b := make([]byte, rng.IntN(200))
			for j := range b {
				b[j] = byte(rng.Uint32())
			}
			_, _ = c.Write(b)
		}
	}
	r.well(honest)
	for _, c := range idle {
		c.Close()
	}
	for _, method := range []string{"GET / HTTP/1.1", "POST " + pathDoor + " HTTP/1.1"} {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "%s\r\nHost: floe\r\n\r\n", method)
		_ = c.SetDeadline(time.Now().Add(2 * greetTimeout))
		if b, _ := io.ReadAll(c); bytes.HasPrefix(b, []byte("HTTP/1.1 200")) {
			t.Errorf("%s is answered with %q", method, b)
		}
		c.Close()
	}
	r.well(honest)
}
