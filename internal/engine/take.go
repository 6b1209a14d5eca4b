package engine

import (
	"context"
	"slices"
	"time"
)

// Take is a command that takes something, and how long it waits for it.
type Take struct {
	Command Command
	Wait    time.Duration // for something to take; 0: not at all
	Waited  time.Duration // how long it has waited elsewhere already: that counts for its turn
	Once    bool          // what it takes never comes back, so a take whose answer was lost must not be repeated; this stays with the caller
}

// After returns the take for another attempt, after a time: it waits no longer than it would have, and keeps its turn.
func (t Take) After(d time.Duration) Take {
	t.Wait, t.Waited = max(t.Wait-d, 0), t.Waited+d
	return t
}

// Any is how many takes are of use when nobody can tell.
const Any = -1

// Taker is a Machine with commands that take something, and can wait for it where the shard is led:
//
//   - what finds nothing is answered, or waits, without getting into the log;
//   - a take that waits is appended behind the next command that may have made something for it, in the same entry, and otherwise when its
//     topic is notified;
//   - one that has found nothing all the same goes back to its place.
//
// So Takeable and Apply have to agree: what Takeable promises for a state, a take finds in that state, or changes what Takeable says.
type Taker interface {
	// Takeable says whether a take would get something, or has something else to do: how much there is, Any if that is not known, 0 for nothing.
	// It calls the View's wait functions for what would change its answer, the first one being where those who take the same wait as well, and
	// View.WakeAt for a time that would. most is how much the take takes at most. waits is whether it waits: then it may say nothing where it
	// would be refused, because there is no such thing yet. Errors are the take's answer.
	Takeable(v *View, cmd Command, waits bool) (n, most int, err error)
	// Took reports whether the outcome of a take that waits is its answer; else there was nothing.
	Took(kind uint8, result []byte, err error) bool
	Maker
}

// Sharer is a Taker that lets takes which wait for the same share what there is.
type Sharer interface {
	// Share returns a take as it is to be carried out when so many wait where it does, itself included.
	Share(cmd Command, waiting int) Command
}

// Maker is a Machine with commands that make something to take.
type Maker interface {
	// Makes calls made for each topic on which a command may make something to take, with how much at most. It is a function of the command: Apply
	// notifies what in fact has become ready. Of what a command makes by its follow-ups it names the cause, see Tx.Cause.
	Makes(cmd Command, made func(Made))
}

// Made is something that a command may make to take.
type Made struct {
	Topic  Topic
	N      int
	Within bool  // on each of the topics within Topic
	Cause  Topic // if not 0, it is made where commands with that cause made something before; if nothing is known of it, maybe within Topic
	Of     Slots // the kinds that it can be of, as far as the command tells
}

// Taking is a take at the replica that leads its shard. It is parked, or under way: being decided about, about to be proposed, or in the log.
type Taking struct {
	Take
	Owner any // whose it is; for the shard

	ctx   context.Context
	now   func() int64
	moved chan struct{} // capacity 1

	w       waiter // this and the rest guarded by hub.mu
	state   takingState
	most    int   // how much it takes
	among   int   // how many waited where it did when it was sent on its way, itself included
	only    Slots // see View.Only
	wakeAt  int64 // see View.WakeAt
	line    *line // where that is spoken for
	leaving bool  // an answer is wanted even if there is nothing
}

type takingState uint8

const (
	underWay takingState = iota
	parked
	gone
)

// NewTaking returns a take that has come to a shard whose time is now.
func NewTaking(ctx context.Context, t Take, now func() int64) *Taking {
	k := &Taking{Take: t, ctx: ctx, now: now, moved: make(chan struct{}, 1), wakeAt: NoTimer}
	k.w = waiter{take: k, since: now() - t.Waited.Milliseconds()}
	return k
}

// ReadyTake is a take that is to be proposed or, if it is answered, gets the error, or nothing without one.
type ReadyTake struct {
	*Taking
	Answered bool
	Err      error
}

// Parked reports whether takes wait in the shard.
func (x *Executor) Parked() bool { return x.hub.parked.Load() > 0 }

// AppendTake appends the encoding of a take that is under way.
func (x *Executor) AppendTake(dst []byte, k *Taking) []byte {
	cmd := k.Command
	if s, ok := x.machine(cmd.Machine).(Sharer); ok {
		cmd = s.Share(cmd, k.among)
	}
	return cmd.AppendTo(dst)
}

// Makes calls made for what a command may make to take; it has passed Check.
func (x *Executor) Makes(cmd Command, made func(Made)) {
	if cmd.Machine != machineEngine {
		if t, ok := x.machine(cmd.Machine).(Maker); ok {
			t.Makes(cmd, made)
		}
		return
	}
	if cmd.Kind != kindTxn {
		return
	}
	parts, _, err := decodeTxn(cmd.Body, cmd.Namespace)
	for i := 0; i < len(parts) && err == nil; i++ {
		parts[i].Namespace = cmd.Namespace
		x.Makes(parts[i], made)
	}
}

// looked is what a look has found, or what is to be waited for.
type looked struct {
	n, most int
	only    Slots
	topics  []Topic
	known   map[Topic]bool // the same, if they are more than fewTopics: a worker may have a thousand names
	parent  Topic
	wakeAt  int64
}

const fewTopics = 16

func (l *looked) waitFor(t Topic) {
	if l.known == nil && slices.Contains(l.topics, t) || l.known[t] {
		return
	}
	l.topics = append(l.topics, t)
	switch {
	case l.known != nil:
		l.known[t] = true
	case len(l.topics) > fewTopics:
		l.known = make(map[Topic]bool, 2*len(l.topics))
		for _, t := range l.topics {
			l.known[t] = true
		}
	}
}

// look asks the machine what there is to take.
func (x *Executor) look(k *Taking) (l looked, err error) {
	t, ok := x.machine(k.Command.Machine).(Taker)
	if !ok {
		return l, Errorf(ErrInvalid, "machine %d has no takes", k.Command.Machine)
	}
	name, spread := k.Command.Namespace, k.Command.Spread
	ns := x.dir.visible(name)
	home := HomeShard(name, x.shards) == x.shard
	if ns == nil && spread == home || ns != nil && ns.spread != spread {
		return l, errMisrouted
	}
	l.wakeAt = NoTimer
	v := View{x: x, machine: k.Command.Machine, now: k.now, looked: &l}
	l.n, l.most, err = t.Takeable(&v, k.Command, k.Wait > 0)
	v.release()
	if l.most = max(l.most, 1); ns == nil && !spread {
		l.waitFor(TopicOf(machineEngine, name, nil)) // it may come to be a spread one
	}
	return l, err
}

// Enter decides about a take: it waits, or it is to be proposed, or there is nothing and it does not wait. What is returned is to be
// proposed: the take itself, others, or both.
func (x *Executor) Enter(k *Taking) (ready []ReadyTake, waits bool, err error) {
	l, err := x.look(k)
	switch {
	case err != nil || k.Wait == 0 && l.n == 0:
		return nil, false, err
	case l.n != 0 && x.hub.begin(k, &l):
		return []ReadyTake{{Taking: k}}, true, nil
	}
	return x.park(k, &l, nil)
}

// park gives a take its places, and looks once more: what came between looking and parking has woken nobody. waits is false if the take is to
// be answered, with the error or with nothing.
func (x *Executor) park(k *Taking, l *looked, ready []ReadyTake) (_ []ReadyTake, waits bool, err error) {
	for {
		if waits, err := x.hub.park(k, l); !waits {
			return ready, false, err
		}
		now, err := x.look(k)
		switch {
		case err != nil && x.hub.unpark(k):
			return ready, false, err
		case err != nil: // somebody has sent it on its way: its outcome is the answer
			return ready, true, nil
		case !x.hub.fits(k, &now):
			if !x.hub.unpark(k) {
				return ready, true, nil
			}
			l = &now
			continue
		case now.n == Any:
			if x.hub.pull(k) {
				ready = append(ready, ReadyTake{Taking: k})
			}
		case now.n > 0:
			ready = x.evaluate(wake{topic: now.topics[0], n: maxTakes}, ready)
		}
		return ready, true, nil
	}
}

// maxTakes is more than can wait.
const maxTakes = MaxWaiters + 1

// again parks a take that was under way, or answers it.
func (x *Executor) again(k *Taking, ready []ReadyTake) []ReadyTake {
	l, err := x.look(k)
	waits := false
	if err == nil {
		ready, waits, err = x.park(k, &l, ready)
	}
	if !waits {
		ready = append(ready, ReadyTake{Taking: k, Answered: true, Err: err})
	}
	return ready
}

// Leave is for a caller who does not wait any more. It reports whether the take is gone. If not it is under way, and answered whether or not it
// finds something.
func (x *Executor) Leave(k *Taking) bool { return x.hub.abandon(k) }

// Expel makes all takes that wait leave, and returns them: this replica may no longer serve them.
func (x *Executor) Expel() []*Taking { return x.hub.expel() }

// Pull makes the first takes that wait for what has been made be under way: as many as it can be of use for, but at most limit.
func (x *Executor) Pull(m Made, limit int) []*Taking {
	if m.Cause != 0 && x.Parked() {
		return x.pullCaused(m, limit)
	}
	return x.hub.pullFor(m, limit)
}

// Settle is told the outcome of a take that has been applied, in the goroutine that applies. It reports whether that is its answer; else the
// take waits again, or Ready returns it.
func (x *Executor) Settle(k *Taking, o Outcome) (answered bool) {
	t := x.machine(k.Command.Machine).(Taker)
	x.noteDue(x.hub.end(k))
	if k.Wait == 0 || t.Took(k.Command.Kind, o.Result, o.Err) {
		return true
	}
	x.ready = x.again(k, x.ready)
	return false
}

// noteDue notes that who waits on a topic is to be looked at.
func (x *Executor) noteDue(w wake) {
	if w.topic == 0 || x.hub.parked.Load() == 0 {
		return
	}
	// Commands of one batch notify the same topics over and over.
	for i := len(x.due) - 1; i >= max(0, len(x.due)-8); i-- {
		if d := &x.due[i]; d.topic == w.topic && d.within == w.within {
			if d.n += w.n; w.n < 0 || d.n-w.n < 0 {
				d.n = -1
			}
			d.of = d.of.with(&w.of)
			return
		}
	}
	x.due = append(x.due, w)
}

// Ready returns the takes that have something to take after the last Commit and Settles. It is for the goroutine that applies.
func (x *Executor) Ready() []ReadyTake {
	for _, w := range x.due {
		x.ready = x.evaluate(w, x.ready)
	}
	x.due = x.due[:0]
	ready := x.ready
	x.ready = nil
	return ready
}

// Drop is told of a take that was to be proposed and has not got into the log. It returns those that have something to take instead.
func (x *Executor) Drop(k *Taking) []ReadyTake { return x.evaluate(x.hub.end(k), nil) }

// Recall looks again on behalf of a take whose time has come, see View.WakeAt.
func (x *Executor) Recall(k *Taking) []ReadyTake {
	if !x.hub.unpark(k) {
		return nil
	}
	return x.again(k, nil)
}

// WakeAt returns the shard time at which Recall is to be called, NoTimer if there is none.
func (x *Executor) WakeAt(k *Taking) int64 { return x.hub.wakeAt(k) }

// Moved is sent to when WakeAt has changed.
func (k *Taking) Moved() <-chan struct{} { return k.moved }

// evaluate returns takes that have something to take on a topic, in their order. They are under way from now on. With n > 0 it ends when the
// first one has nothing.
func (x *Executor) evaluate(w wake, ready []ReadyTake) []ReadyTake {
	if w.topic == 0 || x.hub.parked.Load() == 0 {
		return ready
	}
	if w.within {
		for _, t := range x.hub.children(w.topic) {
			ready = x.evaluate(wake{topic: t, n: w.n, of: w.of}, ready)
		}
		return ready
	}
	if w.n < 0 {
		for _, k := range x.hub.parkedOn(w, maxTakes) {
			_, _, ready = x.lookParked(w, k, ready)
		}
		return ready
	}
	for more := true; more && w.n > 0; {
		first := x.hub.parkedOn(w, 1)
		if len(first) == 0 {
			break
		}
		var pulled int
		pulled, more, ready = x.lookParked(w, first[0], ready)
		w.n -= pulled
	}
	return ready
}

// lookParked looks at a take and, if there is something for it and those behind it, at up to w.n of them. What is looked at keeps its place
// meanwhile: another goroutine that evaluates has to find it there. more is whether there may be something for the next one.
func (x *Executor) lookParked(w wake, k *Taking, ready []ReadyTake) (pulled int, more bool, _ []ReadyTake) {
	l, err := x.look(k)
	switch {
	case err != nil || !x.hub.fits(k, &l):
		if x.hub.unpark(k) {
			ready = x.again(k, ready)
		}
		return 0, true, ready
	case l.n == 0:
		return 0, false, ready
	case l.n == Any || w.n < 0:
		if x.hub.pull(k) {
			return 1, true, append(ready, ReadyTake{Taking: k})
		}
		return 0, true, ready
	}
	all := x.hub.pullFirst(w, l.n)
	for _, k := range all {
		ready = append(ready, ReadyTake{Taking: k})
	}
	return len(all), len(all) > 0, ready
}
