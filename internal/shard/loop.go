package shard

import (
	"runtime"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/raftlog"
)

// loop steps the core of a shard and starts the work that it requests: appends, applies, messages.
// Its goroutine steps when there is input in the mailbox or a timer is due. The goroutine of the
// log's writer also steps after each of its rounds (goOn), so that commands proposed in the
// meantime are in the next round.
//
// A single caller would wait for a goroutine to wake up at each stage. So the loop takes such a
// command through all stages itself (goThrough), if the writer and the applier are idle.
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

// run steps the core when input arrives or a timer is due.
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

// advance takes a step, and all following stages if the loop goes through.
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

// step passes the input of the mailbox to the core and starts the work that it requests. It returns
// the shard time at which it must be called again even without input, or NoTimer.
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

// maxThrough is the maximum number of commands that the loop takes through all stages itself. A
// single caller would wait for a goroutine to wake up at each stage, which takes longer than the
// work. With more callers, overlapping stages gain more.
const maxThrough = 2

// goesThrough reports whether an append holds all commands in flight, and only a few.
func (l *loop) goesThrough(out *output) bool {
	h := l.shard.host
	if !h.launched || len(h.cfg.Voters) > 1 || out.append == nil || out.append.snapshot != nil || len(l.held) > 0 || l.core.appends != 1 {
		return false
	}
	n := 0
	for _, e := range out.proposed {
		n += len(e.proposals)
	}
	// If many callers have just been answered, the first one to return is not alone.
	l.crowd = max(n, l.crowd/2)
	return n > 0 && l.crowd <= maxThrough && l.shard.admission.queued.Load() <= int64(n)
}

// goThrough writes the append of the last step to the log, commits it and applies it. It receives
// the result of step and, like step, returns when it must be called again.
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
	runtime.Gosched() // to the caller, which has the outcome
	return wakeAt
}

// carryOut starts the work that the core requests.
func (l *loop) carryOut(out output) {
	s := l.shard
	if out.changed {
		s.role.set(l.core)
		s.sender.poke()
		s.dutyRunner.poke()
	}
	if out.lost {
		s.exec.WakeAll() // waiting queries ask the next leader
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
	// The state must hold a snapshot before the log begins after it, so later appends must wait
	// too.
	if t.snapshot != nil || len(l.held) > 0 {
		l.held = append(l.held, t)
		if t.snapshot != nil && len(l.held) == 1 {
			l.queueApply(applyWork{install: t})
		}
		return
	}
	l.enqueueAppend(t)
}

// release continues the appends after an installed snapshot, up to the next snapshot.
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

// reserveAhead is the number of LSNs that an Async node reserves at a time. Commands in flight take
// at most half of them, because a command has at least ten bytes, and at most maxUncommitted bytes
// are in flight.
const reserveAhead = 1 << 24

// reserve keeps the durable high-water mark ahead of the assigned LSNs, so that those of a lost
// tail are never reused.
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
