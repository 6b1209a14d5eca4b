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

// duty is a coroutine that does a duty of one leader in one term. It goes on for a while when that
// is over, as a goroutine does that has not heard of it: what it proposes then has to be refused,
// also if the same node leads again and has begun the duties of the next term.
type duty struct {
	sim    *sim
	node   *node
	host   *shard.Stepper
	shard  engine.ShardID
	term   uint64
	cancel context.CancelFunc

	ready func() bool // what it waits for
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	deaf  time.Duration // when it hears that its time is over; 0: it is not
	over  bool
}

// keepDuties begins the duties of leaders, and lets them go on.
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

// do does the duty until its time is over, again after an error.
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

// goOn lets the duty do its next step, if what it waits for has come.
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

// await gives control back until ready, or the duty's time is over.
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

// Propose hands the command to the node that the duty is one of; see engine.LeadDoor.
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

// Sleep is described with engine.LeadDoor.
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
