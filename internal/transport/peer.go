package transport

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// Host is the set of the node's own shards.
type Host interface {
	engine.Door
	shard.Receiver
	// QueryStale answers from the local replica, even if it lags.
	QueryStale(ctx context.Context, id engine.ShardID, q engine.Query) error
	// Leader returns the node that leads the shard, or 0 if unknown.
	Leader(id engine.ShardID) uint64
	// Leads reports whether this node leads the shard.
	Leads(id engine.ShardID) bool
	// MaxValue returns the size limit of values and payloads.
	MaxValue() int
	// Identity returns the identity of this node.
	Identity() shard.Identity
	// Introduce returns this node's introduction to another node. Confirmed records that the other
	// node remembers it.
	Introduce(to uint64) (shard.Introduction, error)
	Confirmed(node uint64)
	// ReadOnly reports whether the node's disk is full.
	ReadOnly() bool
	// Wall returns the node's wall clock in ms since the epoch. ObserveClock records that of
	// another node, with its uncertainty.
	Wall() int64
	ObserveClock(node uint64, wall, uncertain int64)
	// Meet checks the introduction of a node that has proved the secret. Errors: ErrConflict if it
	// differs from the node met before, ErrInvalid if the two do not belong together.
	Meet(other shard.Introduction) error
	// Fail stops the node permanently.
	Fail(err error)
	// Err returns the error that made the node fail, or nil.
	Err() error
}

// Config configures a Peer.
type Config struct {
	Node    uint64 // this node; 0: a client
	Wire    *engine.Wire
	Members []Member // the nodes of the cluster, including this one; nil: a single node, or a client
	Secret  []byte   // shared by all nodes
	TLS     *tls.Config
	Logger  *slog.Logger // nil: none
	Gate    *auth.Gate   // of a node: authenticates and authorizes clients; nil: any client may do anything
	// Changed is called for each change attempted by a client with a key; nil: no call. It must not
	// block, unless the command is about keys.
	Changed func(ctx context.Context, g *auth.Grant, from string, cmd engine.Command, err error)
	// Insecure accepts clients of other machines while there is no key store.
	Insecure bool
	Key      auth.Secret    // of a client: its API key; "": none
	Limits   *budget.Limits // for clients and other nodes; nil: the limits without a budget

	dial dialFunc // nil: the operating system's
}

// Peer is one end of the connections between nodes and clients. For a node it is the transport of
// its shards, the door to shards that other nodes lead, and the handler of its port. For a client
// it is the door to all shards.
type Peer struct {
	cfg   Config
	log   *slog.Logger
	host  Host
	stats func(context.Context) ([]byte, error)
	ready chan struct{} // closed when a host is attached

	ctx        context.Context
	cancel     context.CancelFunc
	mu         sync.Mutex // guards what follows; no I/O under it
	closed     bool
	disconnect func() // closes the connections of Serve; nil: not serving
	running    sync.WaitGroup
	opened     *crowd       // outgoing connections
	shareTold  atomic.Int64 // last log line about an address's share, in ns
	strangers  struct {     // log lines about streams of non-members
		sync.Mutex
		lines
	}
	accepted *crowd // connections accepted by Serve

	began time.Time // origin of the times sent to others

	draining context.Context // done when no further calls are accepted
	drain    context.CancelFunc
	doors    sync.WaitGroup // streams of calls; none is added once it drains

	limits   budget.Limits
	tally    *tally  // calls of all connections
	greeting *memory // for streams not welcomed yet
	frames   *memory // for large requests
	requests room    // for all requests of clients
	large    shares  // part of it, for large requests of each client
	readers  *engine.Readers
	answers  room // for answers not sent yet

	nodes map[uint64]*node // the others
}

// New returns a Peer that is not connected to anything yet.
func New(c Config) *Peer {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Peer{
		cfg: c, log: c.Logger, began: time.Now(), ready: make(chan struct{}), limits: budget.Default(), nodes: make(map[uint64]*node),
	}
	if c.Limits != nil {
		p.limits = *c.Limits
	}
	l := &p.limits
	p.opened, p.accepted = newCrowd(maxConnections, 2*pingAfter), newCrowd(l.Connections+latecomers(l.Connections), 4*pingAfter)
	p.accepted.share, p.accepted.strange, p.accepted.crowds = budget.AddressShare(l.Connections), greetTimeout, p.tellShare
	p.opened.met = p.accepted.learn
	greeted := int64(min(max(l.Connections, 64), maxGreeted)) * maxHello
	p.greeting = newMemory(greeted, greeted/shareOf)
	p.tally, p.frames = newTally("this node", l.Calls, min(l.Waits, maxAllWaits)), newMemory(l.Requests,
		min(l.Requests/shareOf, l.Proposals/2))
	p.large.limit = l.Requests / 2
	p.requests.limit, p.answers.limit, p.readers = l.Requests, l.Answers, engine.NewReaders(l.Answers)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.draining, p.drain = context.WithCancel(context.Background())
	for _, m := range c.Members {
		if m.ID != c.Node {
			p.nodes[m.ID] = p.newNode(m)
			p.accepted.learn(m.Addr)
			p.accepted.reserved += placesOfNode
		}
	}
	return p
}

// Attach gives the Peer the shards of its node, and the function that encodes the answer to
// Client.Stats. Before Attach, calls wait and messages to be sent are lost.
func (p *Peer) Attach(h Host, stats func(context.Context) ([]byte, error)) {
	p.host, p.stats = h, stats
	close(p.ready)
	for _, n := range p.nodes {
		p.spawn(n.pulse.run)
		p.spawn(n.raft.run)
	}
	if len(p.nodes) > 0 {
		p.spawn(p.beat)
	}
}

// StatsOf returns the encoded statistics of a node; 0 is this node. Errors: ErrNotFound if no node
// has this id; ErrUnavailable if it does not answer.
func (p *Peer) StatsOf(ctx context.Context, id uint64) ([]byte, error) {
	if id == 0 || id == p.cfg.Node {
		return p.stats(ctx)
	}
	n := p.nodes[id]
	if n == nil {
		return nil, engine.Errorf(engine.ErrNotFound, "the cluster has no node %d", id)
	}
	b, err := n.link.call(ctx, request{kind: askStats, shard: id})
	if err != nil {
		return nil, fmt.Errorf("node %d: %w", id, repeatable(err))
	}
	return b, nil
}

// Traffic returns the traffic of accepted connections.
func (p *Peer) Traffic() shard.Traffic { return p.accepted.traffic() }

// Drain makes the Peer reject new calls. It reports to callers which of their calls were not
// accepted.
func (p *Peer) Drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drain()
}

// enter admits a stream of calls, which ends with doors.Done, unless the Peer is draining.
func (p *Peer) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining.Err() != nil {
		return false
	}
	p.doors.Add(1)
	return true
}

// farewell is how long Close waits until the answers to accepted calls have been sent.
const farewell = time.Second

// Close ends all streams and returns when all goroutines have ended. The host must be closed first,
// so that all calls have ended.
func (p *Peer) Close() {
	p.Drain()
	done := make(chan struct{})
	go func() {
		p.doors.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(farewell):
	}
	p.mu.Lock()
	p.closed = true
	disconnect := p.disconnect
	p.mu.Unlock()
	p.cancel()
	p.opened.closeAll()
	if disconnect != nil {
		disconnect()
	}
	p.running.Wait()
	<-done
}

// spawn runs f, unless the Peer is closing.
func (p *Peer) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.running.Add(1)
	go func() {
		defer p.running.Done()
		f()
	}()
	return true
}

func (p *Peer) nonce() []byte {
	b := make([]byte, nonceBytes)
	_, _ = rand.Read(b) // never fails
	return b
}

func (p *Peer) member(id uint64) *Member {
	i := slices.IndexFunc(p.cfg.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &p.cfg.Members[i]
}

// disowned fails the node if the error of a stream shows that the other node's cluster refuses it.
// It also fails the node if so many others are in a cluster of other nodes that there is no quorum
// without them.
func (p *Peer) disowned(n *node, err error) {
	var refused *refusedError
	if errors.As(err, &refused) && errors.Is(err, engine.ErrConflict) {
		p.host.Fail(err)
	}
	var foreign *foreignError
	if !errors.As(err, &foreign) {
		return
	}
	n.foreign.Store(true)
	others := 0
	for _, n := range p.nodes {
		if n.foreign.Load() {
			others++
		}
	}
	if most := len(p.cfg.Members); others > most-(most/2+1) {
		p.host.Fail(fmt.Errorf("%d of the other nodes were started with different --peers: %w", others, err))
	}
}

// node is the connection to another node of the cluster.
type node struct {
	peer   *Peer
	member Member
	link   link
	raft   raftStream // entries
	pulse  raftStream // everything else

	foreign   atomic.Bool // it was last seen in a cluster of other nodes
	snapshots *http.Client
	sending   chan struct{} // capacity: concurrent snapshots

	mu    sync.Mutex     // guards what follows; no I/O under it
	heard time.Time      // last sign of life
	here  map[string]int // open streams of raft messages, by run
	left  bool           // it has announced leaving, and has not returned
	full  bool           // its disk is full, as reported by it
	reach reach

	transfer transfer
}

// snapshotsAtOnce bounds the snapshots in flight to one node, because each takes disk and memory
// there.
const snapshotsAtOnce = 2

func (p *Peer) newNode(m Member) *node {
	n := &node{peer: p, member: m, here: make(map[string]int), snapshots: newClient(p.cfg.TLS, p.cfg.dial, p.opened),
		sending: make(chan struct{}, snapshotsAtOnce)}
	n.link = link{peer: p, client: newClient(p.cfg.TLS, p.cfg.dial, p.opened), addr: m.Addr, role: roleNode, node: m.ID}
	n.raft = raftStream{node: n, path: pathRaft, client: newClient(p.cfg.TLS, p.cfg.dial, p.opened), out: newOutbox(maxRaftWaiting)}
	n.pulse = raftStream{node: n, path: pathPulse, client: newClient(p.cfg.TLS, p.cfg.dial, p.opened), out: newOutbox(maxRaftWaiting)}
	n.transfer.underWay = make(map[uint16]largeAppend)
	return n
}

// enter records a stream opened by a run of the node, until leave is called.
func (n *node) enter(run string) (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.here[run]++
	n.left, n.reach.refused = false, ""
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.here[run]--; n.here[run] == 0 {
			delete(n.here, run)
		}
	}
}

// isElsewhere reports whether another run of the node is connected, not just a remnant of one.
func (n *node) isElsewhere(run string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	others := len(n.here)
	if n.here[run] > 0 {
		others--
	}
	return others > 0 && time.Since(n.heard) < aliveTime
}

func (n *node) seen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = time.Now()
	if n.reach.told == silent {
		n.reach.told = ""
	}
}

// aliveTime is how long a node counts as alive after a sign of life. It may miss one beat.
const aliveTime = 3 * time.Second

// beatInterval is the interval of a node's signs of life, in addition to raft messages, which two
// followers do not send to each other.
const beatInterval = time.Second

// beat sends signs of life to the other nodes until this one has failed or the Peer is closed.
func (p *Peer) beat() {
	t := time.NewTicker(beatInterval)
	defer t.Stop()
	for p.host.Err() == nil {
		for _, n := range p.nodes {
			n.pulse.beat()
			n.listen()
		}
		select {
		case <-t.C:
		case <-p.ctx.Done():
			return
		}
	}
}

// Alive reports whether this node has recently received anything from another node.
func (p *Peer) Alive(id uint64) bool {
	n := p.nodes[id]
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Since(n.heard) < aliveTime && !n.left
}

// Full reports whether another node has reported that its disk is full.
func (p *Peer) Full(id uint64) bool {
	n := p.nodes[id]
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.full
}

// lives records a sign of life, and whether the node's disk is full.
func (n *node) lives(full bool) {
	n.seen()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.full = full
}

// leaves records that the node has announced that it will stop.
func (n *node) leaves() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left = true
}

// Leave notifies the other nodes that this one is about to stop, so that they do not transfer
// leadership to it.
func (p *Peer) Leave() {
	for _, n := range p.nodes {
		_ = n.pulse.current().sendSmall(func(dst []byte) []byte { return append(dst, frameLeaving) })
	}
}
