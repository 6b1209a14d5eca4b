package shard

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
)

// Stepper is a Host without goroutines. Its caller takes every step, in any order in which the
// goroutines of a Host could. If clock, file system, transport and random numbers are functions of
// a seed, so is a run. It is for simulators and offline checks, and for use by one goroutine.
type Stepper struct{ host *Host }

// OpenStepper opens a host without goroutines. It has neither replayed the log into the
// state nor campaigned for election.
func OpenStepper(c Config) (*Stepper, error) {
	c.manual = true
	h, err := Open(c)
	if err != nil {
		return nil, err
	}
	s := &Stepper{h}
	_ = s.cleaned(nil) // a host that failed meanwhile reports it itself
	return s, nil
}

// Host returns the host, for calls that do not wait: statistics, and messages from other nodes.
func (s *Stepper) Host() *Host { return s.host }

// Shards returns the number of shards.
func (s *Stepper) Shards() int { return len(s.host.shards) }

// Campaign makes the shard campaign in its next Step, without waiting for the election timeout.
func (s *Stepper) Campaign(id engine.ShardID) {
	s.host.shards[id].mail.put(func(in *input) { in.campaign = true })
}

// Step passes the shard's core its input and the ticks of its election clock. It returns the latest
// shard time of the next call, or engine.NoTimer.
func (s *Stepper) Step(id engine.ShardID, ticks int) (wakeAt int64) {
	return s.host.shards[id].loop.step(ticks)
}

// Apply applies the committed entries of the shard.
func (s *Stepper) Apply(id engine.ShardID) error {
	return s.cleaned(s.host.shards[id].applier.applyQueued())
}

// cleaned returns when Pebble has removed its obsolete files, which it does in the background. The
// files present at a crash must not depend on timing.
func (s *Stepper) cleaned(err error) error {
	failed := s.host.unlessFailed(func() error {
		s.host.db.TestOnlyWaitForCleaning()
		return nil
	})
	if err == nil {
		err = failed
	}
	return err
}

// WriteLog writes the queued appends of all shards, and syncs the log if they must be durable now.
func (s *Stepper) WriteLog() error {
	_, err := s.host.writer.round()
	return err
}

// SyncLog syncs the log, as an Async host does from time to time.
func (s *Stepper) SyncLog() error { return s.host.writer.syncLate() }

// Flush makes the state durable.
func (s *Stepper) Flush() error { return s.cleaned(s.host.db.Flush()) }

// Compact rewrites all of the state.
func (s *Stepper) Compact() error {
	return s.cleaned(s.host.db.Compact(context.Background(), []byte{0}, []byte{0xff, 0xff, 0xff}, false))
}

// Truncate drops the part of the log that is in the durable state.
func (s *Stepper) Truncate() error { return s.host.truncate() }

// PrepareLog writes a spare file for the log, if it will soon need one.
func (s *Stepper) PrepareLog() error { return s.host.prepareLog(context.Background()) }

// Submit queues a command, as Propose does, and returns the ticket of its outcome.
func (s *Stepper) Submit(id engine.ShardID, cmd engine.Command) (*Ticket, error) {
	p, err := s.host.shards[id].submit(context.Background(), cmd)
	if err != nil {
		return nil, err
	}
	return &Ticket{p}, nil
}

// Take parks a take at this replica, or proposes it, as Host.Take does. Without a ticket, decided
// reports whether the state is the reason: the take is refused, or no item is available and it does
// not wait. Take does not check whether this replica still leads. Once the context is done, the
// take is not proposed.
func (s *Stepper) Take(ctx context.Context, id engine.ShardID, t engine.Take) (ticket *Ticket, decided bool, err error) {
	p, decided, err := s.host.shards[id].enterTake(ctx, t)
	if p == nil || err != nil {
		return nil, decided, err
	}
	return &Ticket{p}, false, nil
}

// Leave abandons a take. It reports whether the take has not been proposed; otherwise an outcome
// follows.
func (s *Stepper) Leave(id engine.ShardID, t *Ticket) bool {
	return s.host.shards[id].exec.Leave(t.p.take)
}

// Recall checks again for a take, if it is due.
func (s *Stepper) Recall(id engine.ShardID, t *Ticket) {
	if sh := s.host.shards[id]; sh.exec.WakeAt(t.p.take) <= sh.clock.now() {
		sh.proposeTakes(sh.exec.Recall(t.p.take))
	}
}

// Ticket is a command in flight.
type Ticket struct{ p *proposal }

// Outcome returns the outcome of the command, once, when it is known.
func (t *Ticket) Outcome() (engine.Outcome, bool) {
	select {
	case o := <-t.p.done:
		return o, true
	default:
		return engine.Outcome{}, false
	}
}

// Read requests a linearizable read, and returns the ticket of its permission.
func (s *Stepper) Read(id engine.ShardID) *ReadTicket {
	sh := s.host.shards[id]
	r := &read{done: make(chan error, 1)}
	sh.mail.put(func(in *input) { in.reads = append(in.reads, r) })
	return &ReadTicket{r}
}

// ReadTicket is a read in flight.
type ReadTicket struct{ r *read }

// Ready reports whether the read is decided. With a nil error, Query sees everything that was
// acknowledged before Read.
func (t *ReadTicket) Ready() (ready bool, err error) {
	select {
	case err := <-t.r.done:
		return true, err
	default:
		return false, nil
	}
}

// Query answers from this replica's state, even if another node leads. It does not wait: a query
// that would wait fails with context.Canceled.
func (s *Stepper) Query(id engine.ShardID, q engine.Query) error {
	sh := s.host.shards[id]
	return sh.exec.Query(context.Background(), q, engine.Replica{Now: sh.clock.now, Mono: sh.clock.mono, NoWait: true})
}

// NewDispatch returns the dispatch of messages from one shard to another, for one term in which
// this node leads the first.
func (s *Stepper) NewDispatch(id, target engine.ShardID) *engine.Dispatch {
	return s.host.shards[id].exec.NewDispatch(target)
}

// Duties returns the duties of the shard's machines for a term in which this node leads, each with
// its own door. Start them once State has their term.
func (s *Stepper) Duties(id engine.ShardID, term uint64, door func() engine.LeadDoor) []engine.LedDuty {
	return s.host.shards[id].exec.Duties(term, door)
}

// ShardState is the state of a replica.
type ShardState struct {
	Leads        bool
	Leader, Term uint64
	Applied      engine.Applied
	First, Last  uint64           // entries in the log
	Durable      uint64           // last entry of the log that would survive a power failure
	NextDue      int64            // shard time of the next timer, or engine.NoTimer
	Targets      []engine.ShardID // shards with messages waiting for them
	DutyTerm     uint64           // the term in which this node runs the shard's duties; 0: it does not
	Installing   bool             // the state holds a snapshot, and the log does not start behind it yet
}

// State returns the state of the shard's replica.
func (s *Stepper) State(id engine.ShardID) ShardState {
	sh := s.host.shards[id]
	return ShardState{
		Leads: sh.loop.core.isLeader, Leader: sh.loop.core.leader, Term: sh.loop.core.term, Applied: sh.exec.Applied(),
		First: sh.log.FirstIndex(), Last: sh.log.LastIndex(), Durable: sh.log.Durable(),
		DutyTerm: sh.dutyRunner.steppedTerm(), NextDue: sh.exec.NextDue(), Targets: sh.exec.PendingTargets(),
		Installing: sh.exec.Applied().Index > sh.log.LastIndex(),
	}
}

// Now returns the shard's time.
func (s *Stepper) Now(id engine.ShardID) int64 { return s.host.shards[id].clock.now() }

// Entry returns an entry of the shard's log.
func (s *Stepper) Entry(id engine.ShardID, index uint64) (*raftpb.Entry, error) {
	es, err := s.host.shards[id].log.Entries(index, index+1, 0)
	if err != nil {
		return nil, err
	}
	return es[0], nil
}

// WriteState writes all rows of the shard, in order, in the form of a snapshot. Equal replicas
// write equal bytes.
func (s *Stepper) WriteState(id engine.ShardID, dst io.Writer) error {
	rows, _, err := s.host.shards[id].stateRows()
	if err != nil {
		return err
	}
	if err := writeSnapshot(dst, rows); err != nil {
		rows.Close()
		return err
	}
	return rows.Close()
}

// Crash changes nothing but releases the lock, as the end of a process does. To simulate a power
// failure, clone the file system first.
func (s *Stepper) Crash() error {
	for _, sh := range s.host.shards {
		sh.exports.close()
	}
	if err := errors.Join(s.host.release(), s.host.db.Close()); err != nil {
		return fmt.Errorf("close state: %w", err)
	}
	return s.host.lock.Close()
}

// Close closes the host as Host.Close does.
func (s *Stepper) Close() error { return s.host.Close() }
