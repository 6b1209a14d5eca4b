package queue_test

import (
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
)

// drawDead draws an operation that requeues or deletes a dead letter.
func (m *model) drawDead(name string) modelOp {
	seq := uint64(1 + m.rng.IntN(5))
	if q := m.queues[name]; q != nil {
		if dead := q.in(queue.Dead); len(dead) > 0 {
			seq = dead[m.rng.IntN(len(dead))].m.Seq
		}
	}
	requeue := m.rng.IntN(3) > 0
	op := queue.DeleteDeadOp(name, seq)
	if requeue {
		op = queue.RequeueOp(name, seq)
	}
	return modelOp{name: fmt.Sprintf("dead letter %s %d, requeue: %v", name, seq, requeue), op: op, apply: func() (any, error) {
		q := m.queues[name]
		if q == nil || q.messages[seq] == nil || q.messages[seq].m.State != queue.Dead {
			return nil, queue.ErrNotFound
		}
		msg := q.messages[seq]
		if !requeue {
			delete(q.messages, seq)
			q.stats.Discarded++
			return nil, nil
		}
		if q.full(&msg.m) {
			return nil, queue.ErrBusy
		}
		msg.m.State, msg.m.Attempts, msg.m.LastError, msg.m.DiedAt, msg.after = queue.Ready, 0, "", time.Time{}, 0
		return nil, nil
	}}
}

// drawDelete draws an operation that deletes a message by its seq, in any state.
func (m *model) drawDelete(name string) modelOp {
	seq := uint64(m.rng.IntN(5))
	if q := m.queues[name]; q != nil && m.rng.IntN(10) > 0 {
		seq = uint64(m.rng.IntN(int(q.seq) + 2))
	}
	return modelOp{name: fmt.Sprintf("delete %s %d", name, seq), op: queue.DeleteMessageOp(name, seq), apply: func() (any, error) {
		q := m.queues[name]
		if q == nil || q.messages[seq] == nil {
			return nil, queue.ErrNotFound
		}
		switch q.messages[seq].m.State {
		case queue.Leased:
			return nil, queue.ErrConflict
		case queue.Dead:
			q.stats.Discarded++
		default:
			q.stats.Purged++
		}
		delete(q.messages, seq)
		return nil, nil
	}}
}

func (m *model) drawAdmin(name string) modelOp {
	n := m.rng.IntN(10)
	if n < 5 {
		return m.drawConfigure(name)
	}
	op := []engine.Operation{queue.PauseOp(name), queue.ResumeOp(name), queue.ResumeOp(name), queue.PurgeOp(name),
		queue.DeleteOp(name)}[n-5]
	return modelOp{name: fmt.Sprintf("admin %d %s", n, name), op: op, apply: func() (any, error) {
		q := m.queues[name]
		if q == nil {
			return nil, queue.ErrNotFound
		}
		switch n {
		case 5, 6, 7:
			q.paused = n == 5
		case 8:
			removed := int64(0)
			for _, msg := range q.in(queue.Ready, queue.Delayed, queue.Leased) {
				removed++
				delete(q.messages, msg.m.Seq)
			}
			q.stats.Purged += removed
			return removed, nil
		case 9:
			delete(m.queues, name)
		}
		return nil, nil
	}}
}

func (m *model) drawConfigure(name string) modelOp {
	var s queue.Settings
	if m.rng.IntN(2) == 0 {
		s.MaxLen = int64(1 + m.rng.IntN(10))
	}
	if m.rng.IntN(3) == 0 {
		s.MaxBytes = int64(1 + m.rng.IntN(3000))
	}
	s.MaxAttempts = m.rng.IntN(4)
	s.BackoffMin = []time.Duration{0, queue.NoBackoff, 100 * time.Millisecond}[m.rng.IntN(3)]
	if m.rng.IntN(2) == 0 {
		s.DeadRetention = time.Duration(1+m.rng.IntN(5000)) * time.Millisecond
	}
	s.DedupWindow = time.Duration(m.rng.IntN(2)) * time.Second
	return modelOp{name: fmt.Sprintf("configure %s %+v", name, s), op: queue.ConfigureOp(name, s), apply: func() (any, error) {
		m.open(name).settings = filled(s)
		return nil, nil
	}}
}
