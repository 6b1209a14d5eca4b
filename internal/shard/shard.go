// Package shard runs shards: a raft group each over the node's shared log, whose committed entries an engine.Executor applies
// to the state in Pebble.
//
// A write takes this way: Host.Propose puts the command into the shard's bounded queue, where each namespace has its share; the
// shard's loop takes what waits, by turns of the namespaces, into one raft entry (core.Step); the host's logWriter appends entries of all shards with one write and one fsync; raft
// commits; the shard's applier runs the commands, commits the batch to Pebble and answers the callers. The stages overlap:
// while one entry is being applied the next is being appended and a third gathers commands.
package shard

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/raftlog"
)

// shard is one replica: the goroutines around a core and an executor.
type shard struct {
	host  *Host
	id    engine.ShardID
	log   *raftlog.Shard
	core  *core // guarded by stepMu
	exec  *engine.Executor
	clock shardClock

	mail mailbox

	queued      atomic.Int64 // proposals accepted and not finished
	queuedBytes atomic.Int64
	calls       atomic.Int64      // proposals and takes of users, ever
	shares      [shareCount]share // what namespaces have of them
	line        line

	pendingMu sync.Mutex // guards pending; nothing is called under it
	pending   map[uint64][]*proposal

	visibleLSN atomic.Uint64 // last LSN that queries see
	committed  atomic.Uint64 // index of the last entry that was given to be applied

	stepMu   sync.Mutex // guards the core and the fields below
	reserved uint64
	in       input         // the last one taken from the mailbox
	held     []*appendTask // a snapshot being installed and what follows it
	armed    int64         // when the loop will step at the latest

	leader       atomic.Uint64
	term         atomic.Uint64
	leading      atomic.Bool
	halted       atomic.Pointer[haltedError] // why the shard has stopped on this node; nil: it has not
	acknowledged atomic.Uint64               // what raft knows to be applied; it may still look at entries behind that

	hasLed bool          // guarded by stepMu
	led    chan struct{} // closed when this node leads for the first time

	readMu  sync.Mutex // guards waiting; nothing is called under it
	waiting []readable // whose index is not visible yet

	applyMu   sync.Mutex // guards applyWork
	applyWork []applyWork
	applyWake chan struct{}

	applyRun   sync.Mutex // guards the executor, for its one writer at a time, and the fields below
	applier    applier
	applySpare []applyWork

	through   bool // guarded by stepMu: the loop takes the round of the writer for the append of this step
	crowd     int  // guarded by stepMu: commands of the last appends, the latest counting most
	applyHere bool // guarded by stepMu: the loop applies what is committed in this step

	exports  exports
	courier  courier
	keeper   keeper
	comparer comparer // guarded by applyRun
}

// applyWork is what the applier does, in order: apply entries or install a snapshot.
type applyWork struct {
	apply   *applyTask
	install *appendTask
}

// mailbox gathers input for the loop.
type mailbox struct {
	mu     sync.Mutex
	in     input
	filled atomic.Bool
	wake   chan struct{} // capacity 1
}

func (m *mailbox) put(f func(*input)) {
	m.leave(f)
	m.poke()
}

// leave puts something in for whoever steps next.
func (m *mailbox) leave(f func(*input)) {
	m.mu.Lock()
	f(&m.in)
	m.filled.Store(true)
	m.mu.Unlock()
}

func (m *mailbox) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns what has gathered; the slices of the input it got before are used again.
func (m *mailbox) take(spare input) input {
	clear(spare.messages)
	clear(spare.responses)
	clear(spare.proposals)
	clear(spare.putOff)
	clear(spare.reads)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filled.Store(false)
	in := m.in
	m.in = input{
		messages: spare.messages[:0], reads: spare.reads[:0], responses: spare.responses[:0], proposals: spare.proposals[:0], reports: spare.reports[:0],
		putOff: spare.putOff[:0],
	}
	return in
}

// loop steps the core when something comes or time has passed.
func (s *shard) loop() {
	defer s.host.running.Done()
	defer s.guard()
	tick := time.NewTicker(s.host.cfg.TickInterval)
	defer tick.Stop()
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		ticks := 0
		select {
		case <-s.mail.wake:
		case <-due.C:
		case <-tick.C:
			ticks = 1
		case <-s.host.ctx.Done():
			return
		}
		if wake := s.advance(ticks); wake != engine.NoTimer {
			due.Reset(time.Duration(max(wake-s.clock.now(), 0)) * time.Millisecond)
		} else {
			due.Stop()
		}
	}
}

// advance takes a step of the loop, and all that follow if it goes through.
func (s *shard) advance(ticks int) (wakeAt int64) {
	s.stepMu.Lock()
	defer s.stepMu.Unlock()
	s.armed = s.step(ticks)
	for s.through {
		s.armed = s.goThrough(s.armed)
	}
	return s.armed
}

// goOn takes a step after a round of the log's writer, in its goroutine.
func (s *shard) goOn() {
	if !s.mail.filled.Load() {
		return
	}
	defer s.guard()
	s.stepMu.Lock()
	defer s.stepMu.Unlock()
	s.mail.leave(func(in *input) { in.gather = true })
	wakeAt := s.step(0)
	s.through = false
	if wakeAt < s.armed {
		s.mail.poke()
	}
}

// hand puts something in that may wait for the end of a round, if one is under way: with few words to the core the rounds are
// large, those of followers too, whose disks are as busy as this one. It waits for this disk no longer than for the next tick or for
// what another node says: both wake the loop, so that one that hangs keeps nobody from what the others can commit.
func (s *shard) hand(f func(*input)) {
	s.mail.leave(f)
	if !s.host.writer.busy.Load() {
		s.mail.poke()
	}
}

// step lets the core take what has gathered in the mailbox and sets going what it asks for. It returns when, in shard
// time, it has to be called again even if nothing comes, or NoTimer.
func (s *shard) step(ticks int) (wakeAt int64) {
	if s.in = s.mail.take(s.in); s.in.installed {
		s.release()
	}
	if why := s.halted.Load(); why != nil {
		s.through = false
		s.carryOut(s.core.halt(s.in, why))
		return engine.NoTimer
	}
	s.in.ticks, s.in.nextDue = ticks, s.exec.NextDue()
	if ticks > 0 {
		s.exec.Remind()
	}
	out := s.core.Step(s.in)
	s.through = s.goesThrough(&out)
	s.carryOut(out)
	s.acknowledged.Store(s.core.rn.BasicStatus().Applied)
	s.dropUnused(s.in.messages)
	return s.core.wakeAt(s.exec.NextDue())
}

// maxThrough is how many commands at most are taken through all stages by the loop alone. A caller that is alone would wait for a
// goroutine to wake up at each stage, which takes longer than the work. With more callers, stages that overlap gain more.
const maxThrough = 2

// haltedError is why a shard has stopped.
type haltedError struct {
	shard engine.ShardID
	why   string
}

func (e *haltedError) Error() string { return fmt.Sprintf("shard %d is stopped: %s", e.shard, e.why) }
func (e *haltedError) Unwrap() error { return engine.ErrUnavailable }

// halt ends the shard on this node until that is opened again: it leads nothing, follows nobody, and answers only stale reads. The other shards go on.
func (s *shard) halt(why string) {
	if s.halted.CompareAndSwap(nil, &haltedError{s.id, why}) {
		s.host.log.Error("a shard is stopped", "shard", s.id, "reason", why)
		s.mail.poke()
	}
}

// goesThrough, asked by the loop, reports whether an append holds every command that is under way, and few of them.
func (s *shard) goesThrough(out *output) bool {
	if !s.host.launched || len(s.host.cfg.Voters) > 1 || out.append == nil || out.append.snapshot != nil || len(s.held) > 0 || s.core.appends != 1 {
		return false
	}
	n := 0
	for _, e := range out.proposed {
		n += len(e.proposals)
	}
	// Of many callers who have just been answered one comes back first: it is not alone.
	s.crowd = max(n, s.crowd/2)
	return n > 0 && s.crowd <= maxThrough && s.queued.Load() <= int64(n)
}

// goThrough writes the append of the last step to the log, commits it and applies it. Like step, whose result it is given, it returns
// when it has to be called again.
func (s *shard) goThrough(wakeAt int64) int64 {
	s.through = false
	taken, err := s.host.writer.tryRound()
	if err != nil {
		s.host.fail(err)
	}
	if !taken || err != nil {
		return wakeAt
	}
	s.applyHere = true
	wakeAt = s.step(0)
	s.applyHere = false
	if !s.applyRun.TryLock() {
		s.pokeApplier()
		return wakeAt
	}
	err = s.applyLocked()
	s.applyRun.Unlock()
	if err != nil {
		s.host.fail(err)
		return wakeAt
	}
	runtime.Gosched() // to the caller, who has the outcome
	return wakeAt
}

// guard turns a panic into a failed host: a bug in floe must neither skip a command nor end a process that is not ours.
func (s *shard) guard() {
	if r := recover(); r != nil {
		err, ok := r.(error)
		if !ok {
			if isGuarded() {
				panic(r)
			}
			err = fmt.Errorf("%v", r)
		}
		s.host.fail(fmt.Errorf("shard %d at index %d: %w\n%s", s.id, s.exec.Visible(), err, debug.Stack()))
	}
}

func (s *shard) carryOut(out output) {
	if out.changed {
		s.leader.Store(s.core.leader)
		s.term.Store(s.core.term)
		s.leading.Store(s.core.isLeader)
		if s.core.isLeader && !s.hasLed {
			s.hasLed = true
			close(s.led)
		}
		s.courier.poke()
		s.keeper.poke()
	}
	if out.lost {
		s.exec.WakeAll() // queries that wait ask the next leader
		s.expel()
		s.abandon()
		s.unsettle()
	}
	for _, r := range out.unread {
		r.done <- s.notLeader()
	}
	s.admit(out.readable)
	for _, r := range out.refused {
		s.finish(r.p, engine.Outcome{Err: r.err})
		if r.p.take != nil {
			s.proposeTakes(s.exec.Drop(r.p.take))
		}
	}
	if len(out.proposed) > 0 {
		s.pendingMu.Lock()
		for _, e := range out.proposed {
			s.pending[e.sequence] = e.proposals
		}
		s.pendingMu.Unlock()
	}
	s.send(out.send)
	if out.append != nil {
		s.startAppend(out.append)
	}
	if out.apply != nil {
		if es := out.apply.entries; len(es) > 0 {
			s.committed.Store(es[len(es)-1].GetIndex())
		}
		s.queueApply(applyWork{apply: out.apply})
	}
}

// abandon ends the proposals in flight when leadership is lost: they may be applied by the next leader, or never.
func (s *shard) abandon() {
	s.pendingMu.Lock()
	pending := s.pending
	s.pending = make(map[uint64][]*proposal)
	s.pendingMu.Unlock()
	err := engine.Errorf(engine.ErrUnknownOutcome, "outcome unknown: shard %d: leadership was lost", s.id)
	for _, batch := range pending {
		for _, p := range batch {
			s.finish(p, engine.Outcome{Err: err})
			if p.take != nil {
				s.proposeTakes(s.exec.Drop(p.take))
			}
		}
	}
}

// finish answers the caller of a proposal.
func (s *shard) finish(p *proposal, o engine.Outcome) {
	if p.fire && o.Err == nil {
		s.mail.put(func(in *input) { in.fired = true })
	}
	if p.done == nil {
		return
	}
	share, size := p.share, p.size // the caller may use the proposal again
	p.done <- o
	// Behind the outcome: when nothing is queued, Close ends what still waits.
	s.leave(share, size)
}

func (s *shard) send(msgs []*raftpb.Message) {
	if s.host.cfg.Transport == nil || len(msgs) == 0 {
		return
	}
	plain := msgs[:0]
	for _, m := range msgs {
		if m.GetType() == raftpb.MsgSnap {
			s.sendSnapshot(m)
			continue
		}
		plain = append(plain, m)
	}
	s.host.cfg.Transport.Send(uint16(s.id), plain)
}

func (s *shard) startAppend(t *appendTask) {
	// The state has to hold a snapshot before the log begins behind it, and what follows in the log has to wait as well.
	if t.snapshot != nil || len(s.held) > 0 {
		s.held = append(s.held, t)
		if t.snapshot != nil && len(s.held) == 1 {
			s.queueApply(applyWork{install: t})
		}
		return
	}
	s.enqueueAppend(t)
}

// release lets the appends behind an installed snapshot go on, up to the next snapshot.
func (s *shard) release() {
	held := s.held
	s.held = nil
	s.enqueueAppend(held[0])
	for _, t := range held[1:] {
		s.startAppend(t)
	}
}

func (s *shard) enqueueAppend(t *appendTask) {
	a := s.queuedAppend(t)
	s.reserve(&t.update, &a)
	s.host.writer.enqueue(a)
	if !s.through {
		s.host.writer.poke()
	}
}

func (s *shard) queuedAppend(t *appendTask) queuedAppend {
	a := queuedAppend{mustSync: t.mustSync, done: func() { s.appended(t) }}
	if t.update.HardState != nil || len(t.update.Entries) > 0 || t.update.Reset != nil {
		a.update = &t.update
	}
	return a
}

// reserveAhead is how many LSNs an Async node reserves at a time. What is in flight never takes more than half of them: a
// command has at least ten bytes and at most maxUncommitted bytes are in flight.
const reserveAhead = 1 << 24

// reserve keeps the durable high-water mark ahead of the LSNs given out, so that those of a lost tail are never used again.
func (s *shard) reserve(u *raftlog.Update, a *queuedAppend) {
	if s.host.cfg.Durability != Async || a.update == nil {
		return
	}
	if lsn := max(s.visibleLSN.Load(), uint64(s.core.skipTo)); lsn+reserveAhead/2 >= s.reserved {
		s.reserved = lsn + reserveAhead
		u.Reserve, a.mustSync = s.reserved, true
	}
}

// appended delivers the responses of an append: to peers, and to the core itself.
func (s *shard) appended(t *appendTask) {
	own := t.responses
	if len(s.host.cfg.Voters) > 1 {
		var others []*raftpb.Message
		if own, others = s.sorted(t.responses); len(others) > 0 {
			s.send(others)
		}
	}
	s.hand(func(in *input) {
		in.responses = append(in.responses, own...)
		if t.entries {
			in.appended++
		}
	})
}

// sorted tells messages to the core itself from those to peers.
func (s *shard) sorted(all []*raftpb.Message) (own, others []*raftpb.Message) {
	for _, m := range all {
		if m.GetTo() == s.host.cfg.NodeID {
			own = append(own, m)
		} else {
			others = append(others, m)
		}
	}
	return own, others
}

func (s *shard) queueApply(w applyWork) {
	s.applyMu.Lock()
	s.applyWork = append(s.applyWork, w)
	s.applyMu.Unlock()
	if !s.applyHere {
		s.pokeApplier()
	}
}

func (s *shard) pokeApplier() {
	select {
	case s.applyWake <- struct{}{}:
	default:
	}
}

// applyLoop applies what is committed, unless the loop has done it.
func (s *shard) applyLoop() {
	defer s.host.running.Done()
	defer s.guard()
	for {
		select {
		case <-s.applyWake:
		case <-s.host.ctx.Done():
			return
		}
		if err := s.applyQueued(); err != nil {
			s.host.fail(err)
			return
		}
	}
}

// applyQueued does the work that has been queued, in order.
func (s *shard) applyQueued() error {
	s.applyRun.Lock()
	defer s.applyRun.Unlock()
	return s.applyLocked()
}

func (s *shard) applyLocked() error {
	if s.host.cfg.watch != nil {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	s.applyMu.Lock()
	work := s.applyWork
	s.applyWork = s.applySpare[:0]
	s.applyMu.Unlock()
	for _, w := range work {
		var err error
		if w.install != nil {
			err = s.install(w.install)
		} else {
			err = s.applier.apply(w.apply)
		}
		if err != nil {
			return err
		}
	}
	clear(work)
	s.applySpare = work
	return nil
}

// maxApplyBytes bounds the writes that gather before they are committed to Pebble.
const maxApplyBytes = 4 << 20

// applier carries out applyTasks.
type applier struct {
	shard    *shard
	outcomes []engine.Outcome
	answers  []answer // outcomes that become known with the next commit
	putOff   []*proposal
}

type answer struct {
	proposals []*proposal
	from      int // first of their outcomes
}

func (a *applier) apply(t *applyTask) error {
	s := a.shard
	last := uint64(0) // own entry
	for _, e := range t.entries {
		if e.GetType() != raftpb.EntryNormal {
			return fmt.Errorf("shard %d: entry %d is a change of membership, which this version does not know", s.id, e.GetIndex())
		}
		from := len(a.outcomes)
		var header engine.Entry
		header, a.outcomes = s.exec.Apply(e.GetTerm(), e.GetIndex(), e.GetData(), a.outcomes)
		if header.Origin == s.host.cfg.NodeID {
			if p := s.takePending(header.Sequence); p != nil {
				a.answers = append(a.answers, answer{p, from})
				last = header.Sequence
			}
		}
		if s.exec.Pending() > maxApplyBytes {
			if err := a.commit(); err != nil {
				return err
			}
		}
	}
	if err := a.commit(); err != nil {
		return err
	}
	s.hand(func(in *input) {
		in.responses = append(in.responses, t.responses...)
		in.applied = max(in.applied, last)
	})
	return nil
}

// commit makes what was applied visible and then answers.
func (a *applier) commit() error {
	s := a.shard
	if err := s.exec.Commit(); err != nil {
		return err
	}
	applied := s.exec.Applied()
	s.visibleLSN.Store(uint64(applied.LSN))
	s.clock.observe(applied.Stamp)
	s.keeper.applied(applied.Term)
	s.admitVisible()
	for _, ans := range a.answers {
		for i, p := range ans.proposals {
			if o := a.outcomes[ans.from+i]; o.Err == engine.ErrPutOff { // exactly this: it is nobody's reason
				p.makes = nil // the takes behind it come after it again, or are notified
				a.putOff = append(a.putOff, p)
			} else {
				s.conclude(p, o)
			}
		}
	}
	a.returnPutOff()
	s.proposeTakes(s.exec.Ready())
	clear(a.outcomes)
	clear(a.answers)
	a.outcomes, a.answers = a.outcomes[:0], a.answers[:0]
	if err := s.comparer.applied(); err != nil {
		return err
	}
	if len(s.exec.PendingTargets()) > 0 {
		s.courier.poke()
	}
	return nil
}

// returnPutOff gives the core the commands that found no room in their entries, to propose them again before all others. Their callers go on waiting.
func (a *applier) returnPutOff() {
	if len(a.putOff) == 0 {
		return
	}
	a.shard.hand(func(in *input) { in.putOff = append(in.putOff, a.putOff...) })
	clear(a.putOff)
	a.putOff = a.putOff[:0]
}

func (s *shard) takePending(sequence uint64) []*proposal {
	s.pendingMu.Lock()
	defer s.pendingMu.Unlock()
	p := s.pending[sequence]
	delete(s.pending, sequence)
	return p
}

// propose queues a command and waits for its outcome.
func (s *shard) propose(ctx context.Context, cmd engine.Command) ([]byte, error) {
	p, err := s.submit(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return s.outcome(ctx, p)
}

// outcome waits for that of a proposal.
func (s *shard) outcome(ctx context.Context, p *proposal) ([]byte, error) {
	select {
	case o := <-p.done:
		s.host.recycle(p)
		return o.Result, o.Err
	case <-ctx.Done():
		return nil, ctx.Err() // it may be applied all the same
	case <-s.host.ctx.Done():
	}
	// The host stops: an outcome may have come just before.
	select {
	case o := <-p.done:
		return o.Result, o.Err
	default:
		return nil, s.unknown(s.host.stopError())
	}
}

// keepProposal is the largest buffer that a proposal keeps for the next one.
const keepProposal = 4 << 10

// recycle takes a proposal whose outcome has been received: nobody else knows it any more.
func (h *Host) recycle(p *proposal) {
	p.ctx, p.namespace, p.share, p.lane = nil, "", nil, nil
	if cap(p.data) <= keepProposal {
		h.proposals.Put(p)
	}
}

func (h *Host) newProposal() *proposal {
	if p, ok := h.proposals.Get().(*proposal); ok {
		return p
	}
	return &proposal{done: make(chan engine.Outcome, 1)}
}

// submit queues a command, unless the queue is full.
func (s *shard) submit(ctx context.Context, cmd engine.Command) (*proposal, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.halted.Load(); err != nil {
		return nil, err
	}
	if err := s.exec.Check(cmd); err != nil {
		return nil, err
	}
	if err := s.host.space.admit(ctx, s.exec, cmd); err != nil {
		return nil, err
	}
	p := s.host.newProposal()
	p.ctx, p.namespace, p.share, p.size = ctx, cmd.Namespace, s.shareOf(cmd.Namespace), int64(cmd.Size())
	if err := s.enterInTurn(p); err != nil {
		return nil, err
	}
	p.data = cmd.AppendTo(slices.Grow(p.data[:0], cmd.Size()))
	if p.makes = p.makes[:0]; s.exec.Parked() {
		s.exec.Makes(cmd, func(m engine.Made) { p.makes = append(p.makes, m) })
	}
	s.hand(func(in *input) { in.proposals = append(in.proposals, p) })
	return p, nil
}

// unknown is the error of a write that nobody waits for any more: it matches ErrUnknownOutcome and the reason.
func (s *shard) unknown(reason error) error {
	return &unknownOutcome{shard: s.id, reason: reason}
}

type unknownOutcome struct {
	shard  engine.ShardID
	reason error
}

func (e *unknownOutcome) Error() string {
	return fmt.Sprintf("outcome unknown: shard %d: %v", e.shard, e.reason)
}

func (e *unknownOutcome) Unwrap() []error { return []error{engine.ErrUnknownOutcome, e.reason} }
