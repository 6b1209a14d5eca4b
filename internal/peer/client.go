package peer

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

// Client is the door to a node or a cluster from another process. It asks the leader of a shard where it knows it and can reach it, else
// any node, which passes on what it is asked.
type Client struct {
	peer     *Peer
	http     *http.Client
	shards   int
	maxValue int

	mu      sync.Mutex       // guards what follows; no I/O under it
	links   map[string]*link // by address
	addrs   []string         // to begin with, in the order in which they are tried
	home    int              // of them, the one that is asked if nobody better is known
	members map[uint64]string
	leaders []uint64 // by shard, 0: not known
}

var _ engine.Door = (*Client)(nil)

// Dial returns a Client when one of the nodes has answered. Errors: ErrUnavailable with why each did not; ctx's; ErrUnauthorized.
func Dial(ctx context.Context, c Config, addrs []string) (*Client, error) {
	p := New(c)
	d := &Client{peer: p, http: newClient(c.TLS, p.opened), links: make(map[string]*link), addrs: slices.Clone(addrs)}
	if err := d.arrive(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// arrive asks the addresses, and again, until one answers or patience is over.
func (d *Client) arrive(ctx context.Context) error {
	return d.peer.untilLed(ctx, func(by time.Time) error { return d.tryAll(ctx, by) })
}

// nextTry is how long an address may be silent before the one behind it is asked as well.
const nextTry = 250 * time.Millisecond

// tryAll asks each address when those before have failed or are silent, and takes the first answer.
func (d *Client) tryAll(ctx context.Context, by time.Time) error {
	type result struct {
		i   int
		s   *session
		err error
	}
	results := make(chan result, len(d.addrs))
	begun := 0
	next := func() {
		if i := begun; i < len(d.addrs) {
			begun++
			go func() {
				s, err := d.link(d.addrs[i]).get(ctx, by)
				results <- result{i, s, err}
			}()
		}
	}
	tick := time.NewTicker(nextTry)
	defer tick.Stop()
	next()
	reasons := make([]error, len(d.addrs))
	for ended := 0; ended < len(d.addrs); {
		select {
		case <-tick.C:
			next()
		case r := <-results:
			if r.err == nil {
				d.home = r.i
				d.learn(r.s.welcome)
				return nil
			}
			ended++
			reasons[r.i] = r.err
			next()
		}
	}
	return d.nobody(reasons)
}

// nobody says why no address answers.
func (d *Client) nobody(reasons []error) error {
	var all error
	final := true
	for i, err := range reasons {
		var notSent *notSentError
		if errors.As(err, &notSent) {
			err = notSent.reason
		}
		final = final && isFinal(err)
		if err = fmt.Errorf("%s: %w", d.addrs[i], err); all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	if final {
		return &finalError{all}
	}
	return &notSentError{all}
}

func (d *Client) learn(w *welcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shards, d.maxValue = int(w.shards), int(w.maxValue)
	d.leaders = make([]uint64, w.shards)
	d.members = make(map[uint64]string)
	for _, m := range w.members {
		d.members[m.ID] = m.Addr
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
	err = d.peer.untilLed(ctx, func(by time.Time) error {
		var err error
		q.by = by
		result, err = d.ask(ctx, id, q)
		return err
	})
	return result, ambiguous(d.peer.own(err))
}

// Query asks the leader of the shard; see engine.Door.
func (d *Client) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	return d.query(ctx, id, q, d.ask)
}

func (d *Client) query(ctx context.Context, id engine.ShardID, q engine.Query, ask func(context.Context, engine.ShardID, request) ([]byte, error)) error {
	r := request{kind: askQuery, shard: uint64(id), body: engine.AppendQuery(nil, q)}
	return d.peer.own(d.peer.untilLed(ctx, func(by time.Time) error {
		r.by = by
		results, err := ask(ctx, id, r)
		if err != nil {
			return repeatable(err)
		}
		return engine.DecodeResults(q, results)
	}))
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
	if err == nil {
		return result, nil
	}
	var notLeader *engine.NotLeaderError
	var notSent *notSentError
	var lost *lostError
	switch {
	case errors.As(err, &lost) && ctx.Err() == nil:
		// Somebody else may lead by now, and the next connection there may hang as well.
		d.follow(id, 0)
		if at == home {
			d.leave(home)
		}
	case errors.As(err, &notLeader):
		if d.follow(id, notLeader.Leader) {
			break
		}
		q.flags &^= flagDirect
		return home.call(ctx, q)
	case errors.As(err, &notSent) && at != home:
		// It can not be reached from here, perhaps by others.
		d.follow(id, 0)
		q.flags &^= flagDirect
		return home.call(ctx, q)
	case errors.As(err, &notSent):
		d.leave(home)
	}
	return nil, err
}

// follow notes the leader of a shard. It reports whether that may be asked: not if it could not be reached a moment ago.
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

// leave makes the next address the home, if it still is the one that has failed.
func (d *Client) leave(home *link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.linkLocked(d.addrs[d.home]) == home {
		d.home = (d.home + 1) % len(d.addrs)
	}
}

// askHome makes one attempt at whichever node is near.
func (d *Client) askHome(ctx context.Context, _ engine.ShardID, q request) ([]byte, error) {
	d.mu.Lock()
	home := d.linkLocked(d.addrs[d.home])
	d.mu.Unlock()
	result, err := home.call(ctx, q)
	var notSent *notSentError
	var lost *lostError
	if errors.As(err, &notSent) || errors.As(err, &lost) && ctx.Err() == nil {
		d.leave(home)
	}
	return result, err
}

// Stats returns what a node says about itself.
func (d *Client) Stats(ctx context.Context) (stats []byte, err error) {
	err = d.peer.untilLed(ctx, func(by time.Time) error {
		var err error
		stats, err = d.askHome(ctx, 0, request{kind: askStats, by: by})
		return repeatable(err)
	})
	return stats, d.peer.own(err)
}

// StatsOf returns what a node says about itself, if the one that is asked can reach it.
func (d *Client) StatsOf(ctx context.Context, node uint64) (stats []byte, err error) {
	err = d.peer.untilLed(ctx, func(by time.Time) error {
		d.mu.Lock()
		home := d.linkLocked(d.addrs[d.home])
		d.mu.Unlock()
		s, err := home.get(ctx, by)
		if err == nil {
			stats, err = s.call(ctx, request{kind: askStats, shard: node}) // a refusal is about the other node
		}
		var notSent *notSentError
		var lost *lostError
		if errors.As(err, &notSent) || errors.As(err, &lost) && ctx.Err() == nil {
			d.leave(home)
		}
		return repeatable(err)
	})
	return stats, d.peer.own(err)
}

// StaleDoor returns a Door whose queries are answered by whichever replica is near, as it is.
func (d *Client) StaleDoor() engine.Door { return staleClient{d} }

type staleClient struct{ *Client }

func (d staleClient) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	return d.query(ctx, id, q, func(ctx context.Context, id engine.ShardID, r request) ([]byte, error) {
		r.flags |= flagStale
		return d.askHome(ctx, id, r)
	})
}
