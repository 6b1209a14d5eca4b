package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Client is the door to a node or a cluster from another process. It calls the leader of a shard if
// the leader is known and reachable. Otherwise it calls any node, which forwards the call.
type Client struct {
	peer     *Peer
	http     *http.Client
	shards   int
	maxValue int

	mu      sync.Mutex       // guards what follows; no I/O under it
	links   map[string]*link // by address
	addrs   []string         // the given ones in the order of attempts, then learned ones
	home    int              // index of the address to call if no better one is known
	members map[uint64]string
	leaders []uint64 // by shard, 0: not known
}

var _ engine.Door = (*Client)(nil)

// Dial returns a Client when one of the nodes has answered. Errors: ErrUnavailable with the reason
// for each node; ctx's error; ErrUnauthorized.
func Dial(ctx context.Context, c Config, addrs []string) (*Client, error) {
	p := New(c)
	d := &Client{peer: p, http: newClient(c.TLS, c.dial, p.opened), links: make(map[string]*link), addrs: slices.Clone(addrs)}
	if err := d.arrive(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// arrive tries the addresses repeatedly until one answers or patience is over.
func (d *Client) arrive(ctx context.Context) error {
	return d.peer.untilLed(ctx, everyFailure, func(t *trip) error { return d.tryAll(ctx, t.by) })
}

// nextTry is how long an address may be silent before the next one is also tried.
const nextTry = 250 * time.Millisecond

// tryAll tries each address once the previous ones have failed or are silent, and uses the first
// answer.
func (d *Client) tryAll(ctx context.Context, by time.Time) error {
	type result struct {
		i   int
		s   *session
		err error
	}
	d.mu.Lock()
	addrs := d.addrs // another attempt may have just added addresses
	d.mu.Unlock()
	results := make(chan result, len(addrs))
	begun := 0
	next := func() {
		if i := begun; i < len(addrs) {
			begun++
			go func() {
				s, err := d.link(addrs[i]).get(ctx, by)
				results <- result{i, s, err}
			}()
		}
	}
	tick := time.NewTicker(nextTry)
	defer tick.Stop()
	next()
	reasons := make([]error, len(addrs))
	for ended := 0; ended < len(addrs); {
		select {
		case <-tick.C:
			next()
		case r := <-results:
			if r.err == nil {
				d.learn(r.i, r.s.welcome)
				return nil
			}
			ended++
			reasons[r.i] = r.err
			next()
		}
	}
	return unreachable(addrs, reasons)
}

// unreachable returns the error that no address answers, with the reasons.
func unreachable(addrs []string, reasons []error) error {
	var all error
	final := true
	for i, err := range reasons {
		var overdue *overdueError
		if errors.As(err, &overdue) {
			err = overdue.waited
		}
		var notSent *notSentError
		if errors.As(err, &notSent) {
			err = notSent.reason
		}
		final = final && isFinal(err)
		if err = fmt.Errorf("%s: %w", addrs[i], err); all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	if final {
		return &finalError{all}
	}
	return &notSentError{reason: all}
}

// learn adopts what the node at an address reported about the cluster.
func (d *Client) learn(home int, w *welcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.home = home
	d.shards, d.maxValue = int(w.shards), int(w.maxValue)
	d.leaders = make([]uint64, w.shards)
	d.members = make(map[uint64]string)
	for _, m := range w.members {
		d.members[m.ID] = m.Addr
		if !slices.Contains(d.addrs, m.Addr) {
			d.addrs = append(d.addrs, m.Addr)
		}
	}
}

func (d *Client) link(addr string) *link {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.linkLocked(addr)
}

func (d *Client) linkLocked(addr string) *link {
	l := d.links[addr]
	if l == nil {
		l = &link{peer: d.peer, client: d.http, addr: addr, role: roleClient}
		d.links[addr] = l
	}
	return l
}

// Close ends all connections and returns when all goroutines have ended.
func (d *Client) Close() { d.peer.Close() }

// Shards returns the number of shards.
func (d *Client) Shards() int { return d.shards }

// MaxValue returns the limit for values and payloads.
func (d *Client) MaxValue() int { return d.maxValue }

// Propose makes the shard apply a command; see engine.Door.
func (d *Client) Propose(ctx context.Context, id engine.ShardID, cmd engine.Command) (result []byte, err error) {
	q := request{kind: askPropose, shard: uint64(id), body: cmd.AppendTo(nil)}
	err = d.untilAnswered(ctx, func(t *trip) error {
		var err error
		q.trip = t
		result, err = d.ask(ctx, id, q)
		return err
	})
	return result, ambiguous(err)
}

// Query sends a query to the leader of the shard; see engine.Door.
func (d *Client) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	return d.query(ctx, id, q, d.ask)
}

func (d *Client) query(ctx context.Context, id engine.ShardID, q engine.Query,
	ask func(context.Context, engine.ShardID, request) ([]byte, error)) error {
	r := request{kind: askQuery, shard: uint64(id), body: engine.AppendQuery(nil, q)}
	return d.untilAnswered(ctx, func(t *trip) error {
		r.trip = t
		results, err := ask(ctx, id, r)
		if err != nil {
			return repeatable(err)
		}
		return engine.DecodeResults(q, results)
	})
}

func (d *Client) untilAnswered(ctx context.Context, attempt func(*trip) error) error {
	return d.peer.own(d.peer.untilLed(ctx, enduranceOf(ctx), attempt))
}

// ask makes one attempt.
func (d *Client) ask(ctx context.Context, id engine.ShardID, q request) ([]byte, error) {
	d.mu.Lock()
	leader := d.leaders[id]
	home := d.linkLocked(d.addrs[d.home])
	at := home
	if leader != 0 {
		at = d.linkLocked(d.members[leader])
	}
	d.mu.Unlock()
	q.flags |= flagDirect
	result, err := at.call(ctx, q)
	if err == nil || ctx.Err() != nil {
		return result, err
	}
	var notLeader *engine.NotLeaderError
	var notSent *notSentError
	var lost *lostError
	switch {
	case errors.As(err, &lost):
		// Another node may lead by now, and the next connection to this one may also hang.
		d.follow(id, 0)
		if at == home {
			d.leave(home)
		}
		return nil, err
	case errors.As(err, &notLeader):
		if d.follow(id, notLeader.Leader) {
			return nil, err
		}
		if at == home && notLeader.Leader == 0 {
			d.leave(home) // it may be cut off from the nodes that know the leader
			return nil, err
		}
	case errors.As(err, &notSent):
		// It cannot be reached from here, but perhaps it can from other nodes.
		d.follow(id, 0)
		if at == home {
			d.leave(home)
			return nil, err
		}
	default:
		return nil, err
	}
	q.flags &^= flagDirect
	return d.askOf(ctx, home, q)
}

// follow notes the leader of a shard. It reports whether to call the leader, which is false if it
// was recently unreachable.
func (d *Client) follow(id engine.ShardID, leader uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	addr, known := d.members[leader]
	if known && d.linkLocked(addr).isDown() {
		known = false
	}
	if !known {
		leader = 0
	}
	d.leaders[id] = leader
	return known
}

// leave makes the next address the home, if the failed one still is the home. It prefers one that
// is not known to be down.
func (d *Client) leave(home *link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.linkLocked(d.addrs[d.home]) != home {
		return
	}
	n := len(d.addrs)
	next := (d.home + 1) % n
	for i := range n {
		if at := (d.home + 1 + i) % n; !d.linkLocked(d.addrs[at]).isDown() {
			next = at
			break
		}
	}
	d.home = next
}

// askHome makes one attempt at the home node.
func (d *Client) askHome(ctx context.Context, _ engine.ShardID, q request) ([]byte, error) {
	return d.askOf(ctx, d.homeLink(), q)
}

func (d *Client) homeLink() *link {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.linkLocked(d.addrs[d.home])
}

// askOf makes one attempt at home, and leaves it if it cannot help.
func (d *Client) askOf(ctx context.Context, home *link, q request) ([]byte, error) {
	result, err := home.call(ctx, q)
	d.judge(ctx, home, err)
	return result, err
}

// judge leaves a home that is unreachable or has no leader.
func (d *Client) judge(ctx context.Context, home *link, err error) {
	var notLeader *engine.NotLeaderError
	var notSent *notSentError
	var lost *lostError
	if (errors.As(err, &notLeader) || errors.As(err, &notSent) || errors.As(err, &lost)) && ctx.Err() == nil {
		d.leave(home)
	}
}

// Stats returns the statistics of a node.
func (d *Client) Stats(ctx context.Context) (stats []byte, err error) {
	err = d.untilAnswered(ctx, func(t *trip) error {
		var err error
		stats, err = d.askHome(ctx, 0, request{kind: askStats, trip: t})
		return repeatable(err)
	})
	return stats, err
}

// StatsOf returns the statistics of a node, if the called node can reach it.
func (d *Client) StatsOf(ctx context.Context, node uint64) (stats []byte, err error) {
	err = d.untilAnswered(ctx, func(t *trip) error {
		home := d.homeLink()
		s, err := home.get(ctx, t.by)
		if err == nil {
			stats, err = s.call(ctx, request{kind: askStats, shard: node, trip: t}) // a refusal concerns the other node
		}
		d.judge(ctx, home, err)
		return repeatable(err)
	})
	return stats, err
}

// StaleDoor returns a Door whose queries are answered from the replica of any reachable node, even
// if it lags.
func (d *Client) StaleDoor() engine.Door { return staleClient{d} }

type staleClient struct{ *Client }

func (d staleClient) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	if _, ok := q.(engine.LeaderQuery); ok {
		return d.Client.Query(ctx, id, q)
	}
	return d.query(ctx, id, q, func(ctx context.Context, id engine.ShardID, r request) ([]byte, error) {
		r.flags |= flagStale
		return d.askHome(ctx, id, r)
	})
}
