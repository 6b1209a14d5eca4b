package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/codec"
)

// Dutiful is a Machine with duties: work of the shard's leader that is too long, too slow or not
// deterministic enough for Apply.
type Dutiful interface {
	Duties() []Duty
}

// Duty is one duty. Run is called when this replica leads the shard and has applied everything that
// earlier leaders committed. It continues until ctx is done, which is when the replica no longer
// leads. The duties of a shard run concurrently.
//
// There is one pattern: compute from a View, then Propose the result with its precondition. Apply
// checks the precondition and stores the result, or refuses an outdated proposal. A duty keeps no
// essential state: it may end at any point, and the next leader's duty repeats the work. If Run
// returns before ctx is done it is called again, after a pause if it returned an error.
type Duty struct {
	Name string
	Run  func(ctx context.Context, lead *Lead) error
}

// LeadDoor is the access of a Lead to the replica that leads a shard in a term.
type LeadDoor interface {
	// Now returns the shard's time, ms.
	Now() int64
	// Propose makes the shard apply a command. It waits while the shard is busy. Errors are those
	// of Door.
	Propose(ctx context.Context, cmd Command) ([]byte, error)
	// Sleep returns when wake has a value, when Now reaches until (NoTimer: never), or with the
	// error of ctx.
	Sleep(ctx context.Context, wake <-chan struct{}, until int64) error
}

// Lead is a duty's access to the leading replica during one term. It is for one goroutine.
type Lead struct {
	x       *Executor
	machine MachineID
	term    uint64
	door    LeadDoor
}

// LedDuty is a duty with everything it needs to run.
type LedDuty struct {
	Duty
	Machine string
	Lead    *Lead
}

// String returns the name of the duty for messages.
func (d *LedDuty) String() string { return d.Machine + " " + d.Name }

// Dutiful reports whether any machine has duties.
func (x *Executor) Dutiful() bool {
	for _, m := range x.machines {
		if _, ok := m.(Dutiful); ok {
			return true
		}
	}
	return false
}

// Duties returns the duties of all machines, for a term of this replica. Each gets its own door.
func (x *Executor) Duties(term uint64, door func() LeadDoor) (all []LedDuty) {
	for id, m := range x.machines {
		d, ok := m.(Dutiful)
		if !ok {
			continue
		}
		for _, duty := range d.Duties() {
			all = append(all, LedDuty{duty, x.table.byID[id].Name, &Lead{x: x, machine: MachineID(id), term: term, door: door()}})
		}
	}
	return all
}

// Shard returns the shard.
func (l *Lead) Shard() ShardID { return l.x.shard }

// Shards returns the number of shards.
func (l *Lead) Shards() int { return l.x.shards }

// Term returns the term in which the duty runs.
func (l *Lead) Term() uint64 { return l.term }

// Now returns the shard's present time in ms since the epoch.
func (l *Lead) Now() int64 { return l.door.Now() }

// Mono returns the time of a monotonic clock of this process; see View.Mono.
func (l *Lead) Mono() int64 {
	if mono := l.mono(); mono != nil {
		return mono()
	}
	return l.door.Now()
}

func (l *Lead) mono() func() int64 {
	if d, ok := l.door.(interface{ Mono() int64 }); ok {
		return d.Mono
	}
	return nil
}

// Calls returns the number of writes that users sent to the shard since the node started, 0 if they
// are not counted. These writes wait for the proposals of a duty.
func (l *Lead) Calls() int64 {
	if c, ok := l.door.(interface{ Calls() int64 }); ok {
		return c.Calls()
	}
	return 0
}

// Patience returns how long a duty waits, or gathers input, given its normal wait in ms. Tests
// shorten it, see Config.DutySpeedup.
func (l *Lead) Patience(ms int64) int64 { return ms / l.x.dutySpeedup }

// Awaited reports whether a query or a take waits for a topic now.
func (l *Lead) Awaited(t Topic) bool { return l.x.hub.Awaited(t) }

// View calls f with a frozen view of the state, which f must not keep. Like a Machine's Query, f
// returns ErrWait if there is nothing to do yet. Before that, it calls View.WaitOn for topics and
// View.WakeAt for a time. It is then called again with a new view when one of them occurs.
// Notifications during f are not lost. View returns f's error, or that of ctx.
func (l *Lead) View(ctx context.Context, f func(v *View) error) error {
	s := scan{ctx: ctx, endless: true, fault: l.x.checks.fault}
	v := View{x: l.x, machine: l.machine, now: l.door.Now, mono: l.mono(), scan: s, duty: true}
	defer func() {
		if v.waiter != nil {
			l.x.hub.Unsubscribe(v.waiter)
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		topics := v.topics()
		v.wakeAt = NoTimer
		v.scan.rows, v.scan.bytes = 0, 0
		v.stamp = l.x.published.stamp.Load()
		v.Freeze()
		err := f(&v)
		v.release()
		if v.scan.err != nil {
			return v.scan.err
		}
		if !errors.Is(err, ErrWait) {
			return err
		}
		// A change between the read and the subscription to a topic woke no waiter, so read once
		// more.
		if v.topics() > topics {
			continue
		}
		if err := l.sleep(ctx, &v); err != nil {
			return err
		}
	}
}

func (l *Lead) sleep(ctx context.Context, v *View) error {
	var wake <-chan struct{}
	if v.waiter != nil {
		wake = v.waiter.Woken()
	} else if v.wakeAt == NoTimer {
		panic(fmt.Sprintf("shard %d: a duty of machine %d waits for nothing", l.x.shard, l.machine))
	}
	return l.door.Sleep(ctx, wake, v.wakeAt)
}

// topics returns how many topics the view is subscribed to.
func (v *View) topics() int {
	if v.waiter == nil {
		return 0
	}
	return v.waiter.Topics()
}

// Propose makes the shard apply a command of the machine, one that leaders may send, if this
// replica still leads in the same term. It returns the result once it is visible. Errors: the
// command's refusal; ErrConflict if another term has begun, in which case the command had no
// effect; ErrReadOnly; ErrUnknownOutcome and ctx's error, after which the next view shows the
// outcome.
func (l *Lead) Propose(ctx context.Context, cmd Command) ([]byte, error) {
	cmd.Machine = l.machine
	if err := l.x.table.sent(cmd, FromLeaders); err != nil {
		panic(fmt.Sprintf("shard %d: a duty of machine %d: %v", l.x.shard, l.machine, err))
	}
	return l.door.Propose(ctx, Fenced(l.term, cmd))
}

// Fenced returns a command that is refused in every term except one: term uvarint | command.
func Fenced(term uint64, cmd Command) Command {
	return Command{Machine: machineEngine, Kind: kindFenced, Body: cmd.AppendTo(codec.AppendUvarint(nil, term))}
}

func decodeFenced(body []byte) (term uint64, cmd Command, err error) {
	r := codec.NewReader(body)
	term = r.Uvarint()
	rest := r.Rest()
	if err := r.Err(); err != nil {
		return 0, cmd, Errorf(ErrMalformed, "duty: %v", err)
	}
	if cmd, err = DecodeCommand(rest); err != nil {
		return 0, cmd, Errorf(ErrMalformed, "duty: %v", err)
	}
	return term, cmd, nil
}

func (tx *Tx) applyFenced(body []byte) ([]byte, error) {
	term, cmd, err := decodeFenced(body)
	if err != nil {
		return nil, err
	}
	if err := tx.known(cmd, FromLeaders); err != nil {
		return nil, err
	}
	if term != tx.term {
		return nil, Errorf(ErrConflict, "overtaken: the duty is one of term %d, this is term %d", term, tx.term)
	}
	if err := tx.admit(cmd); err != nil {
		return nil, err
	}
	return tx.run(cmd)
}
