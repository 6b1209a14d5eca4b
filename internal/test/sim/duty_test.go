package sim

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// duty is a coroutine that runs a duty of one leader in one term. It continues for a while after
// the term, like a goroutine that has not been cancelled yet. Its proposals must be refused then,
// even if the same node leads again and has started the duties of the next term.
type duty struct {
	sim    *sim
	node   *node
	host   *shard.Stepper
	shard  engine.ShardID
	term   uint64
	cancel context.CancelFunc

	ready func() bool // condition to continue
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	deaf  time.Duration // when it learns that its term has ended; 0: it has not ended
	over  bool
}

// keepDuties starts the duties of leaders, and continues them.
func (s *sim) keepDuties() {
	for _, n := range s.nodes {
		if !n.runs() {
			continue
		}
		for id := range s.plan.shards {
			s.beginDuties(n, engine.ShardID(id))
		}
	}
	kept := s.duties[:0]
	for _, d := range s.duties {
		if d.goOn(); !d.over {
			kept = append(kept, d)
		}
	}
	clear(s.duties[len(kept):])
	s.duties = kept
}

func (s *sim) beginDuties(n *node, id engine.ShardID) {
	term := n.host.State(id).DutyTerm
	r := route{sender: n.host, term: term, source: id}
	if term == 0 || s.dutiful[r] {
		return
	}
	s.dutiful[r] = true
	var begun []*duty
	led := n.host.Duties(id, term, func() engine.LeadDoor {
		d := &duty{sim: s, node: n, host: n.host, shard: id, term: term}
		begun = append(begun, d)
		return d
	})
	for i, d := range begun {
		d.begin(led[i])
		s.counts["duty"]++
	}
	s.duties = append(s.duties, begun...)
}

func (d *duty) begin(led engine.LedDuty) {
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	d.next, d.stop = iter.Pull(func(yield func(struct{}) bool) {
		d.yield = yield
		d.do(ctx, &led)
	})
}

// do runs the duty until its term ends, restarting it after an error.
func (d *duty) do(ctx context.Context, led *engine.LedDuty) {
	for {
		err := led.Run(ctx, led.Lead)
		if ctx.Err() != nil {
			return
		}
		known := []error{engine.ErrConflict, engine.ErrUnavailable, engine.ErrUnknownOutcome, engine.ErrBusy}
		if err != nil && !slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) }) {
			d.sim.failf("node %d: shard %d: duty %v: %w", d.node.id, d.shard, led, err)
			return
		}
		if d.Sleep(ctx, nil, d.Now()+10) != nil {
			return
		}
	}
}

// goOn runs the next step of the duty if its condition holds.
func (d *duty) goOn() {
	s := d.sim
	switch leads := d.node.host == d.host && d.host.State(d.shard).DutyTerm == d.term; {
	case d.node.host != d.host:
		d.end()
		return
	case leads:
	case d.deaf == 0:
		d.deaf = s.now + 1 + s.random(3*time.Second)
	case d.deaf <= s.now:
		d.cancel()
	}
	if !d.node.runs() || d.ready != nil && !d.ready() {
		return
	}
	d.ready = nil
	if _, ok := d.next(); !ok {
		d.over = true
	}
}

// end ends the duty with its process.
func (d *duty) end() {
	d.cancel()
	d.stop()
	d.over = true
}

// await yields until ready, or until the duty's term ends.
func (d *duty) await(ctx context.Context, ready func() bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.ready = func() bool { return ctx.Err() != nil || ready() }
	if !d.yield(struct{}{}) {
		return context.Canceled
	}
	return ctx.Err()
}

// Now returns the shard's time; see engine.LeadDoor.
func (d *duty) Now() int64 { return d.host.Now(d.shard) }

// Propose passes the command to the duty's node; see engine.LeadDoor.
func (d *duty) Propose(ctx context.Context, cmd engine.Command) ([]byte, error) {
	ticket, err := d.host.Submit(d.shard, cmd)
	if err != nil {
		return nil, err
	}
	d.node.open++
	var o engine.Outcome
	known := false
	ended := func() bool {
		if o, known = ticket.Outcome(); known {
			d.node.open--
		}
		return known
	}
	if err := d.await(ctx, ended); err != nil && !known {
		d.sim.orphans = append(d.sim.orphans, orphan{d.node, d.host, ended})
		return nil, err
	}
	if o.Err == nil {
		d.sim.counts["duty done"]++
	}
	return o.Result, o.Err
}

// Sleep is documented in engine.LeadDoor.
func (d *duty) Sleep(ctx context.Context, wake <-chan struct{}, until int64) error {
	return d.await(ctx, func() bool {
		select {
		case <-wake:
			return true
		default:
			return d.Now() >= until
		}
	})
}
