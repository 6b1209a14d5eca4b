package transport

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// A stream begins with
//
//	-> hello       of a node with a seal
//	<- welcome, or why not
//	-> proof       of a node, none of a client
//	<- verdict     for a node: empty, or why not
//
// Between nodes both sides prove knowledge of the secret, by an HMAC-SHA256 over both hellos, each
// with a nonce. The proof does not protect the later frames: TLS is needed against an attacker who
// can change traffic. The opener comes first, with an HMAC over its hello. So a stranger gets no
// HMAC with which to test secrets, and does not learn the members.

// Roles of the opener of a stream.
const (
	roleClient uint8 = iota + 1
	roleNode
)

const (
	nonceBytes = 16
	proofBytes = sha256.Size
)

// Member is a node and its address.
type Member struct {
	ID   uint64
	Addr string
}

// hello is the first message of the opener of a stream.
type hello struct {
	version  uint64
	role     uint8
	to       uint64 // expected node, 0: any
	identity shard.Introduction
	shards   uint64 // of a node
	nonce    []byte
	key      auth.Secret // of a client
	seal     []byte      // of a node: an HMAC over all before

	grant *auth.Grant // not sent: the permissions of the key; nil: all
}

func (h *hello) code(c *codec.Coder) {
	c.Uvarint(&h.version)
	c.Byte(&h.role)
	c.Uvarint(&h.to)
	codeIntroduction(c, &h.identity)
	c.Uvarint(&h.shards)
	c.Bytes(&h.nonce)
	key := string(h.key)
	c.String(&key)
	h.key = auth.Secret(key)
	c.Bytes(&h.seal)
	if len(h.nonce) != nonceBytes {
		c.Fail("nonce has the wrong size")
	}
}

// welcome is the answer.
type welcome struct {
	identity shard.Introduction // for a client only the Identity
	shards   uint64
	maxValue uint64
	members  []Member
	nonce    []byte
	refusal  []byte // an error as encoded by engine.Wire: the stream ends here
	proof    []byte // for a node
}

func (w *welcome) code(c *codec.Coder) {
	w.codeUnproved(c)
	c.Bytes(&w.proof)
}

func (w *welcome) codeUnproved(c *codec.Coder) {
	codeIntroduction(c, &w.identity)
	c.Uvarint(&w.shards)
	c.Uvarint(&w.maxValue)
	codec.List(c, &w.members, func(c *codec.Coder, m *Member) {
		c.Uvarint(&m.ID)
		c.String(&m.Addr)
	})
	c.Bytes(&w.nonce)
	c.Bytes(&w.refusal)
	if w.shards < 1 || w.shards > shard.MaxShards || w.maxValue > shard.LargestMaxValue {
		c.Fail("shards or value size out of range")
	}
}

func codeIntroduction(c *codec.Coder, i *shard.Introduction) {
	codeIdentity(c, &i.Identity)
	c.String(&i.Cluster)
	codeShown(c, &i.Shown)
	codec.List(c, &i.Met, func(c *codec.Coder, m *shard.Meeting) {
		codeIdentity(c, &m.Identity)
		codeShown(c, &m.Shown)
	})
}

func codeShown(c *codec.Coder, all *[]shard.Shown) {
	codec.List(c, all, func(c *codec.Coder, s *shard.Shown) {
		c.Uvarint(&s.Node)
		codec.List(c, &s.Runs, (*codec.Coder).String)
	})
}

func codeIdentity(c *codec.Coder, i *shard.Identity) {
	c.Uvarint(&i.Node)
	c.String(&i.Directory)
	c.Uvarint(&i.Boot)
	c.String(&i.Run)
}

func encoded(code func(*codec.Coder)) []byte {
	c := codec.NewEncoder(nil)
	code(&c)
	return c.Encoded()
}

func decoded(what string, b []byte, code func(*codec.Coder)) error {
	c := codec.NewDecoder(b)
	code(&c)
	if err := c.Done(); err != nil {
		return fmt.Errorf("%w: %s: %w", errFrame, what, err)
	}
	return nil
}

// prove returns a side's proof of the secret.
func prove(secret []byte, side string, h *hello, w *welcome) []byte {
	m := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte(side), encoded(h.code), encoded(w.codeUnproved)} {
		m.Write(codec.AppendBytes(nil, part))
	}
	return m.Sum(nil)
}

// Sides of a proof, and the label of a seal.
const (
	openerSide   = "floe opener"
	listenerSide = "floe listener"
	sealSide     = "floe opener's hello"
)

// sealed returns the seal of a hello.
func (h *hello) sealed(secret []byte) []byte {
	bare := *h
	bare.seal = nil
	m := hmac.New(sha256.New, secret)
	m.Write(codec.AppendBytes(nil, []byte(sealSide)))
	m.Write(codec.AppendBytes(nil, encoded(bare.code)))
	return m.Sum(nil)
}

// errSecret refuses a node with a wrong cluster secret.
var errSecret = engine.Errorf(engine.ErrUnauthorized, "the other node does not have this cluster's secret")

// wire is both directions of a stream.
type wire struct {
	r     *bufio.Reader
	w     io.Writer
	flush func() error
	abort func()      // ends it, including a write or read in progress
	slow  *time.Timer // aborts it if a frame that has begun stalls; nil: none has begun yet

	// Of a stream that was accepted:
	from    string          // address of the other end, without its port
	near    bool            // the other end is on this machine
	until   func(time.Time) // sets the deadline of reads; zero: none
	crowded error           // why a client is refused; nil: it is not
}

func (s *wire) write(b []byte) error {
	if _, err := s.w.Write(appendFrame(nil, wholeFrame, func(dst []byte) []byte { return append(dst, b...) })); err != nil {
		return err
	}
	return s.flush()
}

// hurry aborts the stream unless rest or hurry is called within writeTimeout.
func (s *wire) hurry() {
	switch {
	case s.abort == nil:
	case s.slow == nil:
		s.slow = time.AfterFunc(writeTimeout, s.abort)
	default:
		s.slow.Reset(writeTimeout)
	}
}

func (s *wire) rest() {
	if s.slow != nil {
		s.slow.Stop()
	}
}

// greet is the opener's side. It returns the listener's answer. If role is roleNode, the listener
// has proved the secret.
func (p *Peer) greet(s *wire, role uint8, to uint64) (*welcome, error) {
	h := hello{version: Version, role: role, to: to, nonce: p.nonce()}
	if role == roleClient {
		h.key = p.cfg.Key
	}
	if role == roleNode {
		var err error
		if h.identity, err = p.host.Introduce(to); err != nil {
			return nil, err
		}
		h.shards = uint64(p.host.Shards())
		h.seal = h.sealed(p.cfg.Secret)
	}
	if err := s.write(encoded(h.code)); err != nil {
		return nil, err
	}
	b, err := readFrame(s.r, nil, maxHello)
	if err != nil {
		return nil, err
	}
	w := new(welcome)
	if err := decoded("welcome", b, w.code); err != nil {
		return nil, err
	}
	known := role == roleNode && hmac.Equal(w.proof, prove(p.cfg.Secret, listenerSide, &h, w))
	if known {
		if err := p.sameMembers(w); err != nil {
			return nil, err
		}
	}
	switch {
	case w.refusal != nil:
		err := p.cfg.Wire.DecodeError(w.refusal)
		if known {
			err = &refusedError{node: w.identity.Node, reason: err}
		}
		return nil, err
	case role == roleClient:
		return w, nil
	case !known:
		return nil, errSecret
	}
	if to != 0 && w.identity.Node != to {
		return nil, engine.Errorf(engine.ErrInvalid, "node %d answered, expected node %d", w.identity.Node, to)
	}
	if w.shards != uint64(p.host.Shards()) {
		return nil, unequal(w.identity.Node, w.shards, p)
	}
	if err := p.host.Meet(w.identity); err != nil {
		return nil, err
	}
	if err := s.write(prove(p.cfg.Secret, openerSide, &h, w)); err != nil {
		return nil, err
	}
	verdict, err := readFrame(s.r, nil, maxHello)
	if err != nil {
		return nil, err
	}
	if len(verdict) > 0 {
		return nil, &refusedError{node: w.identity.Node, reason: p.cfg.Wire.DecodeError(verdict)}
	}
	p.host.Confirmed(w.identity.Node)
	return w, nil
}

// refusedError is the refusal of this node by a node that has proved the secret.
type refusedError struct {
	node   uint64
	reason error
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("node %d refuses this node: %v", e.node, e.reason)
}

func (e *refusedError) Unwrap() error { return e.reason }

// foreignError reports a node that has the secret but belongs to another cluster.
type foreignError struct {
	node         uint64
	theirs, ours []uint64
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("node %d is in a cluster of the nodes %v, this one in a cluster of %v", e.node, e.theirs, e.ours)
}

// Unwrap makes the error match ErrInvalid.
func (e *foreignError) Unwrap() error { return engine.ErrInvalid }

// sameMembers returns a foreignError if a node is in a cluster of other nodes. Their addresses may
// differ.
func (p *Peer) sameMembers(w *welcome) error {
	theirs, ours := memberIDs(w.members), memberIDs(p.cfg.Members)
	if slices.Equal(theirs, ours) {
		return nil
	}
	return &foreignError{w.identity.Node, theirs, ours}
}

func memberIDs(members []Member) (ids []uint64) {
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}

// errUnproved is the refusal of a node that left after the welcome.
var errUnproved = engine.Errorf(engine.ErrUnauthorized,
	"it closed the connection without proving that it has the cluster's secret: it has another secret, or its log says why it "+
		"refuses this node")

// welcome is the listener's side. If it has received the opener's hello, it returns that even with
// an error.
func (p *Peer) welcome(ctx context.Context, s *wire, nodesOnly bool) (*hello, error) {
	b, err := readFrame(s.r, nil, maxHello)
	if err != nil {
		return nil, err
	}
	h := new(hello)
	if err := decoded("hello", b, h.code); err != nil {
		return nil, err
	}
	w := welcome{shards: uint64(p.host.Shards()), maxValue: uint64(p.host.MaxValue()), nonce: p.nonce()}
	known := h.role == roleNode && len(p.cfg.Secret) > 0 && hmac.Equal(h.seal, h.sealed(p.cfg.Secret))
	refusal := p.judge(h, nodesOnly, known)
	if refusal == nil && h.role == roleNode {
		w.identity, refusal = p.host.Introduce(h.identity.Node)
	}
	if refusal == nil && h.role == roleClient {
		refusal = s.crowded
	}
	if refusal == nil && h.role == roleClient && p.cfg.Gate != nil {
		h.grant, refusal = p.enterGate(ctx, h.key, s)
	}
	if refusal != nil {
		w.refusal = p.cfg.Wire.AppendError(nil, refusal)
	}
	if known || refusal == nil { // a stranger learns only why it is refused
		w.identity.Identity, w.members = p.host.Identity(), p.cfg.Members
	}
	if known {
		w.proof = prove(p.cfg.Secret, listenerSide, h, &w)
	}
	if err := s.write(encoded(w.code)); err != nil || refusal != nil {
		return h, errors.Join(refusal, err)
	}
	if h.role == roleClient {
		return h, nil
	}
	proof, err := readFrame(s.r, nil, proofBytes)
	if errors.Is(err, errFrame) {
		return h, err
	}
	if err != nil {
		return h, errUnproved
	}
	verdict := errSecret
	if hmac.Equal(proof, prove(p.cfg.Secret, openerSide, h, &w)) {
		verdict = p.receive(h)
	}
	if verdict != nil {
		return h, errors.Join(verdict, s.write(p.cfg.Wire.AppendError(nil, verdict)))
	}
	return h, s.write(nil)
}

// enterGate determines the permissions of a client.
func (p *Peer) enterGate(ctx context.Context, key auth.Secret, s *wire) (*auth.Grant, error) {
	if grant := p.cfg.Gate.Wait(); grant != nil {
		return grant, nil
	}
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	grant, err := p.cfg.Gate.Enter(ctx, key, s.from, s.near)
	if err == nil && grant.IsOpen() && !s.near && !p.cfg.Insecure {
		return nil, engine.Errorf(engine.ErrUnauthorized,
			"this node has no API keys and accepts only clients on its own machine: create keys there with floe server bootstrap, or "+
				"start it with --insecure")
	}
	return grant, err
}

// receive checks a node that has proved the secret.
func (p *Peer) receive(h *hello) error {
	if h.shards != uint64(p.host.Shards()) {
		return unequal(h.identity.Node, h.shards, p)
	}
	if n := p.nodes[h.identity.Node]; n != nil && n.isElsewhere(h.identity.Run) {
		return engine.Errorf(engine.ErrInUse,
			"node %d is already connected from another process: two nodes have the same id, or copies of one data directory",
			h.identity.Node)
	}
	if err := p.host.Meet(h.identity); err != nil {
		return err
	}
	p.host.Confirmed(h.identity.Node) // the other node has met this one before its own proof
	return nil
}

// unequal returns the refusal of a node with a different number of shards, because the shards of
// the two do not correspond.
func unequal(node, shards uint64, p *Peer) error {
	return engine.Errorf(engine.ErrInvalid, "node %d has %d shards and node %d has %d: all nodes of a cluster need the same number", node,
		shards, p.cfg.Node, p.host.Shards())
}

// judge returns the reason if an opener is refused before it has sent a proof, or nil.
func (p *Peer) judge(h *hello, nodesOnly, known bool) error {
	self := p.cfg.Node
	switch {
	case h.version != Version:
		return engine.Errorf(engine.ErrInvalid, "protocol version %d, this node speaks %d", h.version, Version)
	case h.role != roleClient && h.role != roleNode:
		return engine.Errorf(engine.ErrInvalid, "unknown role %d", h.role)
	case h.role == roleNode && len(p.cfg.Secret) > 0 && !known:
		return errSecret
	case h.to != 0 && h.to != self:
		return engine.Errorf(engine.ErrInvalid, "this is node %d, not %d", self, h.to)
	case nodesOnly && h.role != roleNode:
		return engine.Errorf(engine.ErrUnauthorized, "only nodes of the cluster are permitted")
	case h.role == roleNode && len(p.cfg.Secret) == 0:
		return engine.Errorf(engine.ErrUnauthorized, "node %d is not in a cluster", self)
	case h.role == roleNode && p.member(h.identity.Node) == nil:
		return engine.Errorf(engine.ErrUnauthorized, "node %d is not a member of this cluster", h.identity.Node)
	case h.role == roleNode && h.identity.Node == self:
		return engine.Errorf(engine.ErrInvalid, "two nodes have the id %d", self)
	}
	return nil
}
