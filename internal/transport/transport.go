package transport

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/shard"
)

var _ shard.Transport = (*Peer)(nil)

// maxRaftWaiting bounds the bytes of messages waiting for a node. Raft repeats lost messages, and
// has at most this much in flight for a shard.
const maxRaftWaiting = 32 << 20

// Kinds of frames on the way to a node.
const (
	frameMessage byte = iota + 1
	frameLife         // a sign of life, and a request for the time
	frameTime         // the answer
	frameLeaving      // the node is about to stop
	frameMark         // behind a large message
	framePassed       // the answer: the large message has arrived
)

// raftStream carries raft messages and other notices to another node:
//
//	message u8 | shard uvarint | message (protobuf)
//	life u8    | when it was sent, by the sender's own time, uvarint ns | whether the sender's disk is full, u8
//	time u8    | the same time | the wall clock of who answers, varint ms
//	leaving u8
//	mark u8    | number of the message, uvarint
//	passed u8  | the same
//
// Messages that cannot be sent are dropped. Entries have their own stream and connection. On a slow
// path, or one that drops large packets, a heartbeat must not wait behind the entries of any shard.
type raftStream struct {
	node   *node
	path   string
	client *http.Client
	out    *outbox // of the current or next stream; guarded by node.mu, as are the fields below
	open   bool
}

// transfer tracks the large messages in flight to another node, guarded by node.mu. Until raft has
// a follower's position, it sends the same entries with each answer to a heartbeat. On a path
// slower than that, nothing else would ever arrive.
type transfer struct {
	sent     uint64    // messages
	arrived  uint64    // last arrived one
	since    time.Time // when the last one arrived
	underWay map[uint16]largeAppend
}

// largeAppend is the last large message for a shard.
type largeAppend struct {
	term, index, last uint64
	out               *outbox // the message is lost with its stream
	number            uint64
}

// largeMessage is the minimum size of a message that is not repeated before it has arrived.
const largeMessage = 16 << 10

// largeAnswer is how long raft's answer to a large message may take after its arrival, because its
// entries are synced first.
const largeAnswer = 500 * time.Millisecond

// Send queues messages on the streams of their target nodes.
func (p *Peer) Send(id uint16, msgs []*raftpb.Message) {
	for _, m := range msgs {
		n := p.nodes[m.GetTo()]
		if n == nil {
			continue
		}
		// Messages that do not fit, or cannot be encoded, are lost, as raft allows.
		switch {
		case m.GetType() != raftpb.MsgApp:
			_ = n.pulse.current().send(messageFrame(id, m))
		case proto.Size(m) < largeMessage:
			_ = n.raft.current().send(messageFrame(id, m))
		default:
			n.sendLarge(id, m)
		}
	}
}

func messageFrame(id uint16, m *raftpb.Message) func([]byte) []byte {
	return func(dst []byte) []byte {
		dst = codec.AppendUvarint(append(dst, frameMessage), uint64(id))
		dst, _ = proto.MarshalOptions{}.MarshalAppend(dst, m)
		return dst
	}
}

// sendLarge sends entries, unless the same ones are in flight. Without a stream they are dropped.
// If they were queued, a returning node would receive them first, refuse them because it lacks
// earlier lost entries, and then get all of them again.
func (n *node) sendLarge(id uint16, m *raftpb.Message) {
	es := m.GetEntries()
	l := largeAppend{term: m.GetTerm(), index: m.GetIndex(), last: m.GetIndex() + uint64(len(es))}
	n.mu.Lock()
	if !n.raft.open {
		n.mu.Unlock()
		return
	}
	t := &n.transfer
	l.out = n.raft.out
	before := t.underWay[id]
	if before.out == l.out && before.term == l.term && before.index == l.index && before.last == l.last {
		coming := before.number > t.arrived
		if coming || before.number == t.arrived && time.Since(t.since) < largeAnswer {
			n.mu.Unlock()
			if coming {
				_ = l.out.sendSmall(mark(before.number)) // the answer to the last mark may be lost
			}
			return
		}
	}
	t.sent++
	l.number = t.sent
	t.underWay[id] = l
	n.mu.Unlock()
	if l.out.send(messageFrame(id, m)) == nil {
		_ = l.out.sendSmall(mark(l.number))
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.underWay[id].number == l.number {
		delete(t.underWay, id)
	}
}

// mark returns the frame sent behind a large message.
func mark(number uint64) func([]byte) []byte {
	return func(dst []byte) []byte { return codec.AppendUvarint(append(dst, frameMark), number) }
}

// passed records that a large message has arrived.
func (n *node) passed(number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := &n.transfer; number > t.arrived && number <= t.sent {
		t.arrived, t.since = number, time.Now()
	}
}

func (s *raftStream) current() *outbox {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	return s.out
}

// beat sends a sign of life, which may be lost.
func (s *raftStream) beat() {
	sent := time.Since(s.node.peer.began)
	full := s.node.peer.host.ReadOnly()
	_ = s.current().send(func(dst []byte) []byte {
		return codec.AppendBool(codec.AppendUvarint(append(dst, frameLife), uint64(sent)), full)
	})
}

// tellTime answers a sign of life.
func (s *raftStream) tellTime(sent uint64) {
	wall := s.node.peer.host.Wall()
	_ = s.current().send(func(dst []byte) []byte {
		return codec.AppendVarint(codec.AppendUvarint(append(dst, frameTime), sent), wall)
	})
}

// compareTime processes the answer. The other clock was read at some moment of the round trip.
func (n *node) compareTime(sent uint64, wall int64) {
	trip := time.Since(n.peer.began) - time.Duration(min(sent, math.MaxInt64))
	if trip < 0 {
		return // not of this run
	}
	half := (trip / 2).Milliseconds()
	n.peer.host.ObserveClock(n.member.ID, wall+half, half)
}

func (s *raftStream) renew() {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.out = newOutbox(maxRaftWaiting)
}

// run keeps a stream open until the Peer is closed.
func (s *raftStream) run() {
	p := s.node.peer
	var pace pacer
	for p.ctx.Err() == nil {
		lasted, err := s.once()
		if p.ctx.Err() != nil {
			return
		}
		p.disowned(s.node, err)
		s.renew()
		if lasted > maxPause {
			pace = pacer{}
		}
		s.node.cut(s, err, pace.pause == maxPause || isRefusal(err))
		pace.failed(err)
		wait(p.ctx, pace.pause)
	}
}

// once opens a stream and writes to it until it ends. The other side sends nothing after the
// handshake, so any result of a read is the end. It returns how long the stream was open.
func (s *raftStream) once() (lasted time.Duration, err error) {
	p := s.node.peer
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	stream, _, end, err := p.open(ctx, s.client, p.url(s.node.member.Addr)+s.path, roleNode, s.node.member.ID)
	if err != nil {
		return 0, err
	}
	defer end()
	began := time.Now()
	s.node.opened(s)
	s.node.pulse.beat()
	out := s.current()
	ended := make(chan struct{})
	if !p.spawn(func() {
		defer close(ended)
		_, err := stream.r.ReadByte()
		out.end(fmt.Errorf("stream ended: %w", orEOF(err)))
	}) {
		return 0, errEnded
	}
	stop := context.AfterFunc(p.ctx, func() { out.end(errEnded) })
	defer stop()
	err = out.run(stream)
	end()
	<-ended
	return time.Since(began), err
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// receiveRaft receives the messages of a stream.
func (p *Peer) receiveRaft(s *wire, from uint64) error {
	var buf []byte
	for {
		var err error
		if buf, err = readFrame(s.r, buf, maxRaft); err != nil {
			return err
		}
		if len(buf) == 0 {
			return fmt.Errorf("%w: it is empty", errFrame)
		}
		n := p.nodes[from]
		if buf[0] != frameMessage {
			if err := n.hear(buf[0], buf[1:]); err != nil {
				return err
			}
			continue
		}
		id, m, err := decodeMessage(buf[1:], from, p.cfg.Node)
		if err != nil {
			return err
		}
		n.seen()
		if m.GetType() == raftpb.MsgReadIndex {
			continue // a leader alone asks for reads, and this is of one that has just ceased to be one: the read is lost there
		}
		p.host.Receive(id, []*raftpb.Message{m})
	}
}

// hear processes a frame other than a raft message.
func (n *node) hear(kind byte, b []byte) error {
	r := codec.NewReader(b)
	switch kind {
	case frameLife:
		if sent, full := r.Uvarint(), r.Bool(); r.Done() == nil {
			n.lives(full)
			n.pulse.tellTime(sent)
		}
	case frameMark:
		if number := r.Uvarint(); r.Done() == nil {
			_ = n.pulse.current().send(func(dst []byte) []byte { return codec.AppendUvarint(append(dst, framePassed), number) })
		}
	case framePassed:
		if number := r.Uvarint(); r.Done() == nil {
			n.passed(number)
		}
	case frameTime:
		if sent, wall := r.Uvarint(), r.Varint(); r.Done() == nil {
			n.seen()
			n.compareTime(sent, wall)
		}
	case frameLeaving:
		if r.Done() == nil {
			n.leaves()
		}
	default:
		return fmt.Errorf("%w: of kind %d", errFrame, kind)
	}
	if err := r.Done(); err != nil {
		return fmt.Errorf("%w: of kind %d: %w", errFrame, kind, err)
	}
	return nil
}

// decodeMessage reads a message, which must be from the sending node, for this one.
func decodeMessage(b []byte, from, to uint64) (id uint16, m *raftpb.Message, err error) {
	r := codec.NewReader(b)
	wide := r.Uvarint()
	m = new(raftpb.Message)
	if err := r.Err(); err != nil || wide > math.MaxUint16 {
		return 0, nil, fmt.Errorf("%w: message for shard %d: %v", errFrame, wide, err)
	}
	if err := proto.Unmarshal(r.Rest(), m); err != nil {
		return 0, nil, fmt.Errorf("%w: message: %w", errFrame, err)
	}
	if m.GetFrom() != from || m.GetTo() != to {
		return 0, nil, fmt.Errorf("%w: message from node %d to node %d, on a stream from %d to %d", errFrame, m.GetFrom(), m.GetTo(), from,
			to)
	}
	if !wellFormed(m) {
		return 0, nil, fmt.Errorf("%w: message of type %v", errFrame, m.GetType())
	}
	return uint16(wide), m, nil
}

// wellFormed reports whether the message may be passed to raft, which would panic on messages that
// it only accepts from itself, or that lack required fields.
func wellFormed(m *raftpb.Message) bool {
	switch m.GetType() {
	case raftpb.MsgReadIndex:
		return true
	case raftpb.MsgHeartbeatResp:
		// It contains the number of a read, if there was one.
		if n := len(m.GetContext()); n != 0 && n != 8 {
			return false
		}
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgHeartbeat,
		raftpb.MsgTimeoutNow, raftpb.MsgTransferLeader:
	default:
		return false
	}
	for i, e := range m.GetEntries() {
		if e == nil || e.GetIndex() != m.GetIndex()+uint64(i)+1 {
			return false
		}
	}
	return m.Snapshot == nil || m.GetSnapshot().GetMetadata().GetIndex() == 0
}

// SendSnapshot streams a snapshot of a shard: a frame with shard uvarint | message, then the rows
// in their own format up to the end of the stream. The answer is a frame: empty, or the error.
func (p *Peer) SendSnapshot(id uint16, m *raftpb.Message, body io.ReadCloser, done func(error)) {
	n := p.nodes[m.GetTo()]
	ok := n != nil && p.spawn(func() {
		err := n.sendSnapshot(id, m, body)
		body.Close()
		done(err)
	})
	if !ok {
		body.Close()
		done(errEnded)
	}
}

func (n *node) sendSnapshot(id uint16, m *raftpb.Message, body io.Reader) error {
	p := n.peer
	select {
	case n.sending <- struct{}{}:
		defer func() { <-n.sending }()
	case <-p.ctx.Done():
		return errEnded
	}
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	s, _, end, err := p.open(ctx, n.snapshots, p.url(n.member.Addr)+pathSnapshot, roleNode, n.member.ID)
	if err != nil {
		return err
	}
	defer end()
	announcement, err := proto.MarshalOptions{}.MarshalAppend(codec.AppendUvarint(nil, uint64(id)), m)
	if err != nil {
		return err
	}
	if err := s.write(announcement); err != nil {
		return err
	}
	if _, err := io.Copy(s.w, body); err != nil {
		return err
	}
	if c, ok := s.w.(io.Closer); ok {
		c.Close()
	}
	verdict, err := readFrame(s.r, nil, maxHello)
	if err != nil {
		return err
	}
	if len(verdict) > 0 {
		return p.cfg.Wire.DecodeError(verdict)
	}
	return nil
}

// receiveSnapshot is the receiver of SendSnapshot.
func (p *Peer) receiveSnapshot(s *wire, from uint64) error {
	b, err := readFrame(s.r, nil, maxHello)
	if err != nil {
		return err
	}
	r := codec.NewReader(b)
	id := r.Uvarint()
	m := new(raftpb.Message)
	if err := r.Err(); err != nil || id > math.MaxUint16 {
		return fmt.Errorf("%w: snapshot of shard %d: %v", errFrame, id, err)
	}
	if err := proto.Unmarshal(r.Rest(), m); err != nil {
		return fmt.Errorf("%w: snapshot: %w", errFrame, err)
	}
	if m.GetType() != raftpb.MsgSnap || m.GetFrom() != from || m.GetTo() != p.cfg.Node || len(m.GetEntries()) > 0 {
		return fmt.Errorf("%w: message of type %v from node %d to node %d announces a snapshot", errFrame, m.GetType(), m.GetFrom(),
			m.GetTo())
	}
	p.nodes[from].seen()
	if err := p.host.ReceiveSnapshot(uint16(id), m, s.r); err != nil {
		return s.write(p.cfg.Wire.AppendError(nil, err))
	}
	return s.write(nil)
}
