package engine

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/wait"
)

// Take describes a blocking claim: a command that takes an item, such as a message, waits for it up
// to a limit.
type Take struct {
	Command Command
	Wait    time.Duration // maximum wait for an item; 0: no wait
	Waited  time.Duration // time it has already waited elsewhere, which counts for its turn
	Once    bool          // what it takes never comes back, so a take whose answer was lost must not be repeated; only the caller uses it
}

// After returns the take for another attempt after d. The end of its wait and its turn stay the
// same.
func (t Take) After(d time.Duration) Take {
	t.Wait, t.Waited = max(t.Wait-d, 0), t.Waited+d
	return t
}

// Any means that the number of available items is unknown.
const Any = wait.Any

// Taker is a Machine with commands that take items. They can wait for items at the shard's leader:
//
//   - a take that finds nothing is answered, or waits, without an entry in the log;
//   - a waiting take is proposed after the next command that may produce something for it, in the
//     same entry, and otherwise when its topic is notified;
//   - a take that still finds nothing returns to its place.
//
// So Takeable and Apply must agree: if Takeable promises items for a state, a take finds them in
// that state, or changes the result of Takeable.
type Taker interface {
	// Takeable returns the number of items available to a take: Any if it is unknown, 0 for none. A
	// take that has other work to do counts as one that finds items. It calls the View's wait
	// functions for all events that would change its answer: first for a topic shared by all takes
	// of the same items, and View.WakeAt for a time. most is the maximum number of items of the
	// take. If the take waits, Takeable may return 0 instead of an error that the object does not
	// exist yet. Errors are the take's answer.
	Takeable(v *View, cmd Command, waits bool) (n, most int, err error)
	// Took reports whether the outcome of a waiting take is its answer. Otherwise it found nothing.
	Took(kind uint8, result []byte, err error) bool
	Maker
}

// Sharer is a Taker that divides the available items among the takes that wait for the same topic.
type Sharer interface {
	// Share returns a take to apply when waiting takes, including itself, wait for its topic.
	Share(cmd Command, waiting int) Command
}

// Maker is a Machine with commands that produce items to take.
type Maker interface {
	// Makes calls made for each topic on which a command may produce items, with their maximum
	// number. It depends on the command alone: Apply notifies the topics of the items that became
	// available. For items that follow-ups of the command may produce, Made names the cause, see
	// Tx.Cause.
	Makes(cmd Command, made func(Made))
}

// Made describes items that a command may produce.
type Made struct {
	Topic  Topic
	N      int
	Within bool  // on each of the topics within Topic
	Cause  Topic // if not 0, items are produced where earlier commands of that cause did; if nothing is known of it, maybe within Topic
	Of     Slots // the kinds of the items, as far as the command tells
}

// Taking is a take at the leader of its shard. Package wait describes its states.
type Taking struct {
	Take
	Owner any // for the shard

	now   func() int64
	claim wait.Claim
}

// NewTaking returns a take that has arrived at a shard, where now returns the shard's time.
func NewTaking(ctx context.Context, t Take, now func() int64) *Taking {
	k := &Taking{Take: t, now: now}
	k.claim.Owner, k.claim.Blocking = k, t.Wait > 0
	k.claim.Init(ctx, now()-t.Waited.Milliseconds())
	return k
}

func takingOf(c *wait.Claim) *Taking { return c.Owner.(*Taking) }

// ReadyTake is a take to propose. If it is Answered, it gets the error, or no result without one.
type ReadyTake struct {
	*Taking
	Answered bool
	Err      error
}

// Parked reports whether takes wait in the shard.
func (x *Executor) Parked() bool { return x.hub.HasParked() }

// AppendTake appends the encoding of a take in flight.
func (x *Executor) AppendTake(dst []byte, k *Taking) []byte {
	cmd := k.Command
	if s, ok := x.machine(cmd.Machine).(Sharer); ok {
		cmd = s.Share(cmd, k.claim.Among())
	}
	return cmd.AppendTo(dst)
}

// Makes calls made for the items that a command may produce. The command has passed Check.
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

// look returns the machine's number of items available to a take.
func (x *Executor) look(k *Taking) (l wait.Look, err error) {
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
	l.WakeAt = NoTimer
	v := View{x: x, machine: k.Command.Machine, now: k.now, looked: &l, scan: scan{fault: x.checks.fault}}
	l.N, l.Most, err = t.Takeable(&v, k.Command, k.Wait > 0)
	v.release()
	if l.Most = max(l.Most, 1); ns == nil && !spread {
		l.WaitFor(TopicOf(machineEngine, name, nil)) // the namespace may be created as a spread one
	}
	return l, err
}

// Enter admits a take, which then waits or must be proposed. waits is false if it is answered, with
// the error or without a result. The returned takes must be proposed: the take itself, others, or
// both.
func (x *Executor) Enter(k *Taking) (ready []ReadyTake, waits bool, err error) {
	l, err := x.look(k)
	switch {
	case err != nil || k.Wait == 0 && l.N == 0:
		return nil, false, err
	case l.N != 0 && x.hub.Begin(&k.claim, &l):
		return []ReadyTake{{Taking: k}}, true, nil
	}
	return x.park(k, &l, nil)
}

// park gives a take its places and checks the state once more, because a change between the check
// and the parking woke no take. waits is false if the take must be answered, with the error or
// without a result.
func (x *Executor) park(k *Taking, l *wait.Look, ready []ReadyTake) (_ []ReadyTake, waits bool, err error) {
	for {
		if waits, err := x.hub.Park(&k.claim, l); !waits {
			return ready, false, subscribed(err)
		}
		now, err := x.look(k)
		switch {
		case err != nil && x.hub.Unpark(&k.claim):
			return ready, false, err
		case err != nil: // another goroutine has pulled it: its outcome is the answer
			return ready, true, nil
		case !x.hub.Fits(&k.claim, &now):
			if !x.hub.Unpark(&k.claim) {
				return ready, true, nil
			}
			l = &now
			continue
		case now.N == Any:
			if x.hub.Pull(&k.claim) {
				ready = append(ready, ReadyTake{Taking: k})
			}
		case now.N > 0:
			ready = x.evaluate(wait.Wakeup{Topic: now.Topics[0], N: wait.MaxClaims}, ready)
		}
		return ready, true, nil
	}
}

// again parks a take that was in flight, or answers it.
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

// Leave is for a caller that stops waiting. It returns false if the take is in flight, which is
// then answered even if it finds nothing.
func (x *Executor) Leave(k *Taking) bool { return x.hub.Abandon(&k.claim) }

// Expel removes all waiting takes and returns them, because this replica may no longer serve them.
func (x *Executor) Expel() []*Taking { return takings(x.hub.Expel()) }

func takings(claims []*wait.Claim) []*Taking {
	all := make([]*Taking, len(claims))
	for i, c := range claims {
		all[i] = takingOf(c)
	}
	return all
}

// Pull marks the first takes that wait for produced items as in flight: as many as there are items
// for, but at most limit.
func (x *Executor) Pull(m Made, limit int) []*Taking {
	var few [16]*wait.Claim
	if m.Cause != 0 && x.Parked() {
		return takings(x.pullCaused(few[:0], m, limit))
	}
	return takings(x.hub.PullProduced(few[:0], wait.Wakeup{Topic: m.Topic, N: m.N, Within: m.Within, Of: m.Of}, limit))
}

// Settle reports whether the outcome of a take that has been applied is its answer. Otherwise the
// take waits again, or Ready returns it. Settle is for the goroutine that applies.
func (x *Executor) Settle(k *Taking, o Outcome) (answered bool) {
	t := x.machine(k.Command.Machine).(Taker)
	x.noteDue(x.hub.End(&k.claim))
	if k.Wait == 0 || t.Took(k.Command.Kind, o.Result, o.Err) {
		return true
	}
	x.batch.ready = x.again(k, x.batch.ready)
	return false
}

// noteDue records a wake-up for Ready.
func (x *Executor) noteDue(w wait.Wakeup) {
	if w.Topic != 0 && x.hub.HasParked() {
		x.batch.due = wait.Merge(x.batch.due, w)
	}
}

// Ready returns the takes that have items to take after the last Commit and Settles. It is for the
// goroutine that applies.
func (x *Executor) Ready() []ReadyTake {
	for _, w := range x.batch.due {
		x.batch.ready = x.evaluate(w, x.batch.ready)
	}
	x.batch.due = x.batch.due[:0]
	ready := x.batch.ready
	x.batch.ready = nil
	return ready
}

// Drop ends a take that should have been proposed but has not entered the log. It returns the takes
// that have items to take instead.
func (x *Executor) Drop(k *Taking) []ReadyTake { return x.evaluate(x.hub.End(&k.claim), nil) }

// Recall checks the state for a take whose wake-up time has come; see View.WakeAt.
func (x *Executor) Recall(k *Taking) []ReadyTake {
	if !x.hub.Unpark(&k.claim) {
		return nil
	}
	return x.again(k, nil)
}

// WakeAt returns the shard time at which to call Recall, or NoTimer.
func (x *Executor) WakeAt(k *Taking) int64 { return x.hub.WakeAt(&k.claim) }

// Moved receives a value when WakeAt has changed.
func (k *Taking) Moved() <-chan struct{} { return k.claim.Moved() }

// evaluate appends the takes that have items to take on a topic, in order, and marks them as in
// flight. With N > 0 it ends at the first take that has none.
func (x *Executor) evaluate(w wait.Wakeup, ready []ReadyTake) []ReadyTake {
	if w.Topic == 0 || !x.hub.HasParked() {
		return ready
	}
	if w.Within {
		for _, t := range x.hub.Children(w.Topic) {
			ready = x.evaluate(wait.Wakeup{Topic: t, N: w.N, Of: w.Of}, ready)
		}
		return ready
	}
	if w.N < 0 {
		for _, c := range x.hub.ParkedOn(w, wait.MaxClaims) {
			_, _, ready = x.lookParked(w, takingOf(c), ready)
		}
		return ready
	}
	for more := true; more && w.N > 0; {
		first := x.hub.ParkedOn(w, 1)
		if len(first) == 0 {
			break
		}
		var pulled int
		pulled, more, ready = x.lookParked(w, takingOf(first[0]), ready)
		w.N -= pulled
	}
	return ready
}

// lookParked checks the state for a parked take. If items are available, it marks up to w.N takes
// of the line as in flight. The take keeps its place meanwhile, so that other goroutines that
// evaluate can find it. more is whether there may be items for the next one.
func (x *Executor) lookParked(w wait.Wakeup, k *Taking, ready []ReadyTake) (pulled int, more bool, _ []ReadyTake) {
	l, err := x.look(k)
	switch {
	case err != nil || !x.hub.Fits(&k.claim, &l):
		if x.hub.Unpark(&k.claim) {
			ready = x.again(k, ready)
		}
		return 0, true, ready
	case l.N == 0:
		return 0, false, ready
	case l.N == Any || w.N < 0:
		if x.hub.Pull(&k.claim) {
			return 1, true, append(ready, ReadyTake{Taking: k})
		}
		return 0, true, ready
	}
	var few [16]*wait.Claim
	all := x.hub.PullFirst(few[:0], w, l.N)
	for _, c := range all {
		ready = append(ready, ReadyTake{Taking: takingOf(c)})
	}
	return len(all), len(all) > 0, ready
}
