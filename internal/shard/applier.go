package shard

import (
	"fmt"
	"runtime"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
)

// applier applies committed entries to the state and installs snapshots. It runs in its own
// goroutine, or in the loop's if the loop goes through.
type applier struct {
	shard *shard
	queue applyQueue

	mu       sync.Mutex  // guards all below, and writing with the executor
	work     []applyWork // taken from the queue
	outcomes []engine.Outcome
	answers  []answer // outcomes published with the next commit
	putOff   []*proposal
	comparer comparer
}

// applyQueue is the work of the applier, in order.
type applyQueue struct {
	wake chan struct{} // capacity 1

	mu  sync.Mutex // guards all; nothing is called under it
	all []applyWork
}

// applyWork is entries to apply or a snapshot to install.
type applyWork struct {
	apply   *applyTask
	install *appendTask
}

func (q *applyQueue) put(w applyWork) {
	q.mu.Lock()
	q.all = append(q.all, w)
	q.mu.Unlock()
}

func (q *applyQueue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the queued work. The queue reuses spare.
func (q *applyQueue) take(spare []applyWork) []applyWork {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.all
	q.all = spare[:0]
	return all
}

// run applies committed entries, unless the loop has done it.
func (a *applier) run() {
	s := a.shard
	defer s.host.running.Done()
	defer s.guard()
	for {
		select {
		case <-a.queue.wake:
		case <-s.host.ctx.Done():
			return
		}
		if err := a.applyQueued(); err != nil {
			s.host.fail(err)
			return
		}
	}
}

// applyQueued does the queued work, in order.
func (a *applier) applyQueued() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.applyLocked()
}

func (a *applier) applyLocked() error {
	s := a.shard
	if s.host.cfg.watch != nil {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	a.work = a.queue.take(a.work)
	for _, w := range a.work {
		var err error
		if w.install != nil {
			err = s.install(w.install)
		} else {
			err = a.apply(w.apply)
		}
		if err != nil {
			return err
		}
	}
	clear(a.work)
	return nil
}

// maxApplyBytes bounds the writes collected before a commit to Pebble.
const maxApplyBytes = 4 << 20

type answer struct {
	proposals []*proposal
	from      int // first of their outcomes
}

func (a *applier) apply(t *applyTask) error {
	s := a.shard
	last := uint64(0) // own entry
	for _, e := range t.entries {
		if e.GetType() != raftpb.EntryNormal {
			return fmt.Errorf("shard %d: entry %d is a change of membership, which this version does not support", s.id, e.GetIndex())
		}
		from := len(a.outcomes)
		var header engine.Entry
		header, a.outcomes = s.exec.Apply(e.GetTerm(), e.GetIndex(), e.GetData(), a.outcomes)
		if header.Origin == s.host.cfg.NodeID {
			if p := s.pending.take(header.Sequence); p != nil {
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
	s.post(func(in *input) {
		in.responses = append(in.responses, t.responses...)
		in.applied = max(in.applied, last)
	})
	return nil
}

// commit makes the applied entries visible and then answers.
func (a *applier) commit() error {
	s := a.shard
	if err := s.exec.Commit(); err != nil {
		return err
	}
	applied := s.exec.Applied()
	s.progress.visibleLSN.Store(uint64(applied.LSN))
	s.clock.observe(applied.Stamp)
	s.dutyRunner.applied(applied.Term)
	s.admitVisible()
	for _, ans := range a.answers {
		for i, p := range ans.proposals {
			if o := a.outcomes[ans.from+i]; o.Err == engine.ErrPutOff { // exactly this: it is never a cause
				p.makes = nil // the takes behind it follow it again, or are notified
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
	if err := a.comparer.applied(); err != nil {
		return err
	}
	if len(s.exec.PendingTargets()) > 0 {
		s.sender.poke()
	}
	return nil
}

// returnPutOff returns the commands that had no room in their entries to the core, which proposes
// them again before all others. Their callers keep waiting.
func (a *applier) returnPutOff() {
	if len(a.putOff) == 0 {
		return
	}
	a.shard.post(func(in *input) { in.putOff = append(in.putOff, a.putOff...) })
	clear(a.putOff)
	a.putOff = a.putOff[:0]
}
