package shard

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
)

// Stepper is a Host without goroutines: whoever holds it takes every step, in any order that the
// goroutines of a Host could take them. With a clock, a file system, a transport and random numbers
// that are functions of a seed, a run is one too. It is for simulators and offline checks, and for
// one goroutine.
type Stepper struct{ host *Host }

// OpenStepper opens a host that does nothing by itself. It has neither brought the state forward
// from the log nor stood for election.
func OpenStepper(c Config) (*Stepper, error) {
	c.manual = true
	h, err := Open(c)
	if err != nil {
		return nil, err
	}
	s := &Stepper{h}
	_ = s.cleaned(nil) // a host that has failed meanwhile says so itself
	return s, nil
}

// Host returns the host, for what does not wait: figures, and what other nodes send.
func (s *Stepper) Host() *Host { return s.host }

// Shards returns the number of shards.
func (s *Stepper) Shards() int { return len(s.host.shards) }

// Campaign makes the shard stand for election in its next Step, without waiting for the election
// timeout.
func (s *Stepper) Campaign(id engine.ShardID) {
	s.host.shards[id].mail.put(func(in *input) { in.campaign = true })
}

// Step lets the shard's core take its input, and the ticks of its election clock. It returns the
// shard time by which it has to be called again at the latest, or engine.NoTimer.
func (s *Stepper) Step(id engine.ShardID, ticks int) (wakeAt int64) {
	return s.host.shards[id].loop.step(ticks)
}

// Apply carries out what the shard has committed.
func (s *Stepper) Apply(id engine.ShardID) error {
	return s.cleaned(s.host.shards[id].applier.applyQueued())
}

// cleaned returns when Pebble has removed the files it has no use for, which it does in the
// background: a crash must not find more of them or less, depending on its luck.
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

// WriteLog writes what all shards want in the log, and syncs it if it has to be durable now.
func (s *Stepper) WriteLog() error {
	_, err := s.host.writer.round()
	return err
}

// SyncLog syncs what is in the log, as an Async host does from time to time.
func (s *Stepper) SyncLog() error { return s.host.writer.syncLate() }

// Flush makes the state durable.
func (s *Stepper) Flush() error { return s.cleaned(s.host.db.Flush()) }

// Compact rewrites all of the state.
func (s *Stepper) Compact() error {
	return s.cleaned(s.host.db.Compact(context.Background(), []byte{0}, []byte{0xff, 0xff, 0xff}, false))
}

// Truncate forgets the part of the log that the durable state holds.
func (s *Stepper) Truncate() error { return s.host.truncate() }

// PrepareLog writes a file for the log to go on in, if it will soon need one.
func (s *Stepper) PrepareLog() error { return s.host.prepareLog(context.Background()) }

// Submit queues a command, as Propose does, and returns where its outcome will be found.
func (s *Stepper) Submit(id engine.ShardID, cmd engine.Command) (*Ticket, error) {
	p, err := s.host.shards[id].submit(context.Background(), cmd)
	if err != nil {
		return nil, err
	}
	return &Ticket{p}, nil
}

// Take parks a take at this replica, or proposes it, as Host.Take does. Without a ticket, decided
// says that the state is why: the take is refused, or there is nothing and it does not wait.
// Whether this replica still leads is not asked. When the context is done the take is not proposed
// any more.
func (s *Stepper) Take(ctx context.Context, id engine.ShardID, t engine.Take) (ticket *Ticket, decided bool, err error) {
	p, decided, err := s.host.shards[id].enterTake(ctx, t)
	if p == nil || err != nil {
		return nil, decided, err
	}
	return &Ticket{p}, false, nil
}

// Leave gives a take up. It reports whether it has not been proposed; else its outcome is to be
// expected.
func (s *Stepper) Leave(id engine.ShardID, t *Ticket) bool {
	return s.host.shards[id].exec.Leave(t.p.take)
}

// Recall looks again on behalf of a take, if it is time to.
func (s *Stepper) Recall(id engine.ShardID, t *Ticket) {
	if sh := s.host.shards[id]; sh.exec.WakeAt(t.p.take) <= sh.clock.now() {
		sh.proposeTakes(sh.exec.Recall(t.p.take))
	}
}

// Ticket is a command on its way.
type Ticket struct{ p *proposal }

// Outcome returns what became of the command, once, when that is known.
func (t *Ticket) Outcome() (engine.Outcome, bool) {
	select {
	case o := <-t.p.done:
		return o, true
	default:
		return engine.Outcome{}, false
	}
}

// Read asks for a linearizable read, and returns where the permission will be found.
func (s *Stepper) Read(id engine.ShardID) *ReadTicket {
	sh := s.host.shards[id]
	r := &read{done: make(chan error, 1)}
	sh.mail.put(func(in *input) { in.reads = append(in.reads, r) })
	return &ReadTicket{r}
}

// ReadTicket is a read on its way.
type ReadTicket struct{ r *read }

// Ready reports whether the read is decided: with a nil error, Query sees everything that was
// acknowledged before Read.
func (t *ReadTicket) Ready() (ready bool, err error) {
	select {
	case err := <-t.r.done:
		return true, err
	default:
		return false, nil
	}
}

// Query answers from this replica's state, whoever leads. It does not wait: a query that would
// fails with context.Canceled.
func (s *Stepper) Query(id engine.ShardID, q engine.Query) error {
	sh := s.host.shards[id]
	return sh.exec.Query(context.Background(), q, engine.Replica{Now: sh.clock.now, Mono: sh.clock.mono, NoWait: true})
}

// NewDispatch returns what delivers the messages of one shard to another, for the time for which
// this node leads the first in one term.
func (s *Stepper) NewDispatch(id, target engine.ShardID) *engine.Dispatch {
	return s.host.shards[id].exec.NewDispatch(target)
}

// Duties returns the duties of the shard's machines for a term in which this node leads, each with
// a door of its own. They are to be begun once State says so.
func (s *Stepper) Duties(id engine.ShardID, term uint64, door func() engine.LeadDoor) []engine.LedDuty {
	return s.host.shards[id].exec.Duties(term, door)
}

// ShardState is where a replica stands.
type ShardState struct {
	Leads        bool
	Leader, Term uint64
	Applied      engine.Applied
	First, Last  uint64           // entries in the log
	Durable      uint64           // last entry of the log that would survive a power failure
	NextDue      int64            // shard time of the next timer, or engine.NoTimer
	Targets      []engine.ShardID // shards that messages wait for
	DutyTerm     uint64           // the term in which this node does the duties of the shard, 0: it does not
	Installing   bool             // the state holds a snapshot that the log does not begin behind yet
}

// State returns where the shard's replica stands.
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

// WriteState writes all rows of the shard, in order, in the form of a snapshot: equal replicas
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

// Crash leaves everything as it is, but gives up its lock, as the end of a process does. What a
// power failure leaves is for a clone of the file system to tell, made before.
func (s *Stepper) Crash() error {
	for _, sh := range s.host.shards {
		sh.exports.close()
	}
	if err := errors.Join(s.host.release(), s.host.db.Close()); err != nil {
		return fmt.Errorf("close state: %w", err)
	}
	return s.host.lock.Close()
}

// Close ends the host as Host.Close does.
func (s *Stepper) Close() error { return s.host.Close() }
