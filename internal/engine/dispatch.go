package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
)

// Dispatch delivers a shard's messages for one target. It is a step function for the shard's
// leader: it returns the next command to propose and receives the outcome. It keeps no essential
// state, so each leader starts with a new one.
//
//	ask the target for the last delivery -> settle what became of it -> deliver -> settle -> deliver ...
//
// A delivery whose outcome is unknown is requested again. Before the first delivery, the sender's
// own settlement has been applied here, and so has everything that earlier leaders did.
type Dispatch struct {
	x       *Executor
	target  ShardID
	state   dispatchState
	number  uint64        // of the last delivery that the target applied
	settle  []laneOutcome // its outcomes
	waiting []pendingLane // lanes in the order of their turns
	held    map[lane]hold // lanes from which the target accepts nothing for now
	last    []lane        // lanes of the current delivery in which not every message frees space

	seen    uint64 // the change count of the lanes when waiting was made
	young   bool   // waiting may lack lanes: a message was not durable, or a delivery has ended
	release int64  // time at which the first lane is released, or NoTimer
}

type dispatchState uint8

const (
	dispatchAsks dispatchState = iota
	dispatchSettles
	dispatchDelivers
)

type pendingLane struct {
	lane
	first LSN
}

// hold is how long a lane must pause.
type hold struct {
	until, pause int64 // ms
}

// Limits of the pause before a lane's next message is retried.
const (
	minHold = 20
	maxHold = 2000
)

// NewDispatch returns the Dispatch of a new leader for one target.
func (x *Executor) NewDispatch(target ShardID) *Dispatch {
	return &Dispatch{x: x, target: target, held: make(map[lane]hold), young: true}
}

// Step is the next proposal, to a shard that may be the sender's own.
type Step struct {
	Shard   ShardID
	Command Command
}

// Next returns the next step. If ok is false, until is the latest time to call it again, in ms by
// the clock of now. NoTimer means not before more messages are sent or become durable. Messages
// sent by entries behind raft index durable are not delivered.
func (d *Dispatch) Next(now int64, durable uint64) (s Step, until int64, ok bool, err error) {
	switch d.state {
	case dispatchAsks:
		return d.deliver(delivery{sender: d.x.shard}), 0, true, nil
	case dispatchSettles:
		c := codec.NewEncoder(nil)
		codeShard(&c, &d.target)
		codec.List(&c, &d.settle, func(c *codec.Coder, o *laneOutcome) { o.code(c) })
		return Step{d.x.shard, Command{Machine: machineEngine, Kind: kindSettle, Body: c.Encoded()}}, 0, true, nil
	}
	next := delivery{sender: d.x.shard, number: d.number + 1}
	for again := true; again && len(next.lanes) == 0 && err == nil; {
		again = len(d.waiting) > 0 // they may have nothing left
		until = d.gather(now)
		err = d.fill(&next, now, durable)
	}
	if err != nil || len(next.lanes) == 0 {
		return s, until, false, err
	}
	return d.deliver(next), until, true, nil
}

func (d *Dispatch) deliver(next delivery) Step {
	c := codec.NewEncoder(nil)
	next.code(&c)
	return Step{d.target, Command{Machine: machineEngine, Kind: kindDeliver, Body: c.Encoded()}}
}

// gather finds the lanes that have messages, once all known lanes have had their turn. It returns
// the earliest time at which a held lane is released.
func (d *Dispatch) gather(now int64) (until int64) {
	o := &d.x.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if changes := o.changes[d.target]; changes == d.seen && !d.young && d.release > now {
		return d.release
	} else if len(d.waiting) == 0 {
		d.seen, d.young = changes, false
	}
	until = NoTimer
	defer func() { d.release = until }()
	for l, h := range d.held {
		if _, ok := o.pending[l]; !ok {
			delete(d.held, l)
		} else if h.until > now {
			until = min(until, h.until)
		}
	}
	if len(d.waiting) > 0 {
		return until
	}
	for l, first := range o.pending {
		if l.target == d.target {
			d.waiting = append(d.waiting, pendingLane{l, first})
		}
	}
	slices.SortFunc(d.waiting, func(a, b pendingLane) int { return cmp.Compare(a.first, b.first) })
	return until
}

// fill adds messages of the lanes whose turn it is. A lane that was held gets only one message,
// because it may be held again.
func (d *Dispatch) fill(next *delivery, now int64, durable uint64) error {
	count, size := 0, 0
	d.last = d.last[:0]
	for len(d.waiting) > 0 && count < maxDelivery && size < maxDeliveryBytes {
		l := d.waiting[0].lane
		d.waiting = d.waiting[1:]
		h, held := d.held[l]
		if held && h.until > now {
			continue
		}
		limit := maxDelivery - count
		if held {
			limit = 1
		}
		lm, bytes, err := d.read(l, limit, maxDeliveryBytes-size, durable)
		if err != nil {
			return err
		}
		if len(lm.messages) > 0 {
			next.lanes = append(next.lanes, lm)
			count, size = count+len(lm.messages), size+bytes
		}
	}
	return nil
}

// read reads the first messages of a lane: at least one, and more up to the limits.
func (d *Dispatch) read(l lane, limit, limitBytes int, durable uint64) (lm laneMessages, size int, err error) {
	lm = laneMessages{machine: l.machine, ns: l.ns, id: l.id}
	o := &d.x.outbox
	o.mu.Lock()
	first, ok := o.pending[l]
	o.mu.Unlock()
	if !ok {
		return lm, 0, nil
	}
	it, err := newIter(d.x.committed.db, d.x.rowKey(nil, machineEngine), outboxRow(nil, l, first), key.PrefixEnd(laneRow(nil, l)), nil)
	if err != nil {
		return lm, 0, err
	}
	grows := false
	for ok := it.First(); ok && len(lm.messages) < limit && (size < limitBytes || len(lm.messages) == 0); ok = it.Next() {
		s, err := decodeStored(it.Value())
		if err != nil {
			it.Close()
			return lm, 0, err
		}
		if s.index > durable {
			d.young = true
			break
		}
		_, n, err := parseOutboxRow(it.Key())
		if err != nil {
			it.Close()
			return lm, 0, err
		}
		c := d.x.table.encoded(s.command)
		grows = grows || c != nil && !c.Shrinks
		lm.messages = append(lm.messages, message{n, s.reply, slices.Clone(s.command)})
		size += len(s.command)
	}
	if grows {
		d.last = append(d.last, l)
	}
	return lm, size, it.Close()
}

// Done reports the outcome of the step that Next returned.
func (d *Dispatch) Done(result []byte, err error, now int64) {
	d.young = true // whatever the outcome, skipped lanes have their turn
	if d.state == dispatchSettles {
		if err == nil && len(result) == 1 && result[0] == 1 {
			d.state, d.settle = dispatchDelivers, nil
		}
		return
	}
	if err != nil {
		d.failed(err, now)
		return
	}
	var r receipt
	c := codec.NewDecoder(result)
	if r.code(&c); c.Done() != nil {
		d.state = dispatchAsks
		return
	}
	d.number, d.settle = r.number, r.outcomes
	for _, l := range r.outcomes {
		delete(d.held, d.laneOf(l.machine, l.ns, l.id))
	}
	for _, l := range r.refusals {
		d.hold(d.laneOf(l.machine, l.ns, l.id), now)
	}
	if d.state == dispatchAsks || len(d.settle) > 0 {
		d.state = dispatchSettles
	}
}

func (d *Dispatch) laneOf(m MachineID, ns uint32, id uint64) lane { return lane{d.target, m, ns, id} }

func (d *Dispatch) hold(l lane, now int64) {
	pause := min(max(2*d.held[l].pause, minHold), maxHold)
	d.held[l] = hold{now + pause, pause}
	d.release = 0
}

// failed handles a delivery without a receipt. A target whose disk is full accepts messages that
// free space.
func (d *Dispatch) failed(err error, now int64) {
	switch {
	case errors.Is(err, ErrReadOnly):
		for _, l := range d.last {
			d.hold(l, now)
		}
	case errors.Is(err, ErrUnknownOutcome), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err,
		ErrClosed):
		d.state = dispatchAsks
	}
}
