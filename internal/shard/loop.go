package shard

import (
	"runtime"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/raftlog"
)

// loop steps the core of a shard and sets going what it asks for: appends, applies, messages. Its
// goroutine steps when the mailbox has something or time has passed. The goroutine of the log's
// writer steps after each of its rounds (goOn), so that what was proposed meanwhile is in the next
// one.
//
// A caller that is alone would wait for a goroutine to wake up at each stage. So the loop takes the
// command of one through all stages itself (goThrough), if the writer and the applier are idle.
type loop struct {
	shard *shard

	mu        sync.Mutex // guards all below; held also while goThrough writes and applies
	core      *core
	in        input         // the last one taken from the mailbox
	held      []*appendTask // a snapshot being installed and what follows it
	armed     int64         // shard time of the next step at the latest
	reserved  uint64        // last LSN that is reserved, with Async
	through   bool          // the loop takes the writer's round for the append of this step
	crowd     int           // commands of the last appends, the latest counting most
	applyHere bool          // the loop applies what this step commits
}

// run steps the core when something comes or time has passed.
func (l *loop) run() {
	s := l.shard
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
		if wake := l.advance(ticks); wake != engine.NoTimer {
			due.Reset(time.Duration(max(wake-s.clock.now(), 0)) * time.Millisecond)
		} else {
			due.Stop()
		}
	}
}

// advance takes a step of the loop, and all that follow if it goes through.
func (l *loop) advance(ticks int) (wakeAt int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = l.step(ticks)
	for l.through {
		l.armed = l.goThrough(l.armed)
	}
	return l.armed
}

// goOn takes a step after a round of the log's writer, in its goroutine.
func (l *loop) goOn() {
	s := l.shard
	if !s.mail.filled.Load() {
		return
	}
	defer s.guard()
	l.mu.Lock()
	defer l.mu.Unlock()
	s.mail.leave(func(in *input) { in.gather = true })
	wakeAt := l.step(0)
	l.through = false
	if wakeAt < l.armed {
		s.mail.poke()
	}
}

// step lets the core take what has gathered in the mailbox and sets going what it asks for. It
// returns when, in shard time, it has to be called again even if nothing comes, or NoTimer.
func (l *loop) step(ticks int) (wakeAt int64) {
	s := l.shard
	if l.in = s.mail.take(l.in); l.in.installed {
		l.release()
	}
	if why := s.role.halted.Load(); why != nil {
		l.through = false
		l.carryOut(l.core.halt(l.in, why))
		return engine.NoTimer
	}
	l.in.ticks, l.in.nextDue = ticks, s.exec.NextDue()
	if ticks > 0 {
		s.exec.Remind()
	}
	out := l.core.Step(l.in)
	l.through = l.goesThrough(&out)
	l.carryOut(out)
	s.progress.acknowledged.Store(l.core.rn.BasicStatus().Applied)
	l.dropUnused(l.in.messages)
	return l.core.wakeAt(s.exec.NextDue())
}

// maxThrough is how many commands at most are taken through all stages by the loop alone. A caller
// that is alone would wait for a goroutine to wake up at each stage, which takes longer than the
// work. With more callers, stages that overlap gain more.
const maxThrough = 2

// goesThrough, asked by the loop, reports whether an append holds every command that is under way,
// and few of them.
func (l *loop) goesThrough(out *output) bool {
	h := l.shard.host
	if !h.launched || len(h.cfg.Voters) > 1 || out.append == nil || out.append.snapshot != nil || len(l.held) > 0 || l.core.appends != 1 {
		return false
	}
	n := 0
	for _, e := range out.proposed {
		n += len(e.proposals)
	}
	// Of many callers who have just been answered one comes back first: it is not alone.
	l.crowd = max(n, l.crowd/2)
	return n > 0 && l.crowd <= maxThrough && l.shard.admission.queued.Load() <= int64(n)
}

// goThrough writes the append of the last step to the log, commits it and applies it. Like step,
// whose result it is given, it returns when it has to be called again.
func (l *loop) goThrough(wakeAt int64) int64 {
	s := l.shard
	l.through = false
	taken, err := s.host.writer.tryRound()
	if err != nil {
		s.host.fail(err)
	}
	if !taken || err != nil {
		return wakeAt
	}
	l.applyHere = true
	wakeAt = l.step(0)
	l.applyHere = false
	a := &s.applier
	if !a.mu.TryLock() {
		a.queue.poke()
		return wakeAt
	}
	err = a.applyLocked()
	a.mu.Unlock()
	if err != nil {
		s.host.fail(err)
		return wakeAt
	}
	runtime.Gosched() // to the caller, who has the outcome
	return wakeAt
}

// carryOut sets going what the core asks for.
func (l *loop) carryOut(out output) {
	s := l.shard
	if out.changed {
		s.role.set(l.core)
		s.sender.poke()
		s.dutyRunner.poke()
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
	s.pending.add(out.proposed)
	s.send(out.send)
	if out.append != nil {
		l.startAppend(out.append)
	}
	if out.apply != nil {
		if es := out.apply.entries; len(es) > 0 {
			s.progress.committed.Store(es[len(es)-1].GetIndex())
		}
		l.queueApply(applyWork{apply: out.apply})
	}
}

func (l *loop) startAppend(t *appendTask) {
	// The state has to hold a snapshot before the log begins behind it, and what follows in the log
	// has to wait as well.
	if t.snapshot != nil || len(l.held) > 0 {
		l.held = append(l.held, t)
		if t.snapshot != nil && len(l.held) == 1 {
			l.queueApply(applyWork{install: t})
		}
		return
	}
	l.enqueueAppend(t)
}

// release lets the appends behind an installed snapshot go on, up to the next snapshot.
func (l *loop) release() {
	held := l.held
	l.held = nil
	l.enqueueAppend(held[0])
	for _, t := range held[1:] {
		l.startAppend(t)
	}
}

func (l *loop) enqueueAppend(t *appendTask) {
	w := l.shard.host.writer
	a := l.shard.queuedAppend(t)
	l.reserve(&t.update, &a)
	w.enqueue(a)
	if !l.through {
		w.poke()
	}
}

// reserveAhead is how many LSNs an Async node reserves at a time. What is in flight never takes
// more than half of them: a command has at least ten bytes and at most maxUncommitted bytes are in
// flight.
const reserveAhead = 1 << 24

// reserve keeps the durable high-water mark ahead of the LSNs given out, so that those of a lost
// tail are never used again.
func (l *loop) reserve(u *raftlog.Update, a *queuedAppend) {
	s := l.shard
	if s.host.cfg.Durability != Async || a.update == nil {
		return
	}
	if lsn := max(s.progress.visibleLSN.Load(), uint64(l.core.skipTo)); lsn+reserveAhead/2 >= l.reserved {
		l.reserved = lsn + reserveAhead
		u.Reserve, a.mustSync = l.reserved, true
	}
}

func (l *loop) queueApply(w applyWork) {
	q := &l.shard.applier.queue
	q.put(w)
	if !l.applyHere {
		q.poke()
	}
}
