package queue

import (
	"github.com/floedb/floe/internal/key"
)

func (s *session) configure(settings settings) {
	s.changed = true
	s.settings = settings
	s.tellRoom()
	s.schedule(s.nextDue())
}

func (s *session) pause(paused bool) {
	if s.paused == paused {
		return
	}
	s.changed, s.paused = true, paused
	s.woken = s.ready
}

// purge removes all messages but the dead letters, by a new generation, and returns how many.
func (s *session) purge() int64 {
	n := s.held()
	if n == 0 {
		return 0
	}
	s.changed = true
	s.removeMessages()
	s.purged += n
	s.ready, s.delayed, s.inflight, s.bytes = 0, 0, 0, 0
	s.renew(uint64(s.tx.LSN()))
	return n
}

func (s *session) removeMessages() {
	if s.held() > 0 {
		s.deleteRows(s.gen, 'd', 'l', 'm', 'r')
	}
}

func (s *session) deleteRows(number uint64, kinds ...byte) {
	for _, kind := range kinds {
		prefix := numberKey(nil, kind, number)
		s.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
}

// delete removes the queue. Its dedup keys are forgotten by and by: they may be in the row cache, so they go one by one.
func (s *session) delete() {
	s.tellRoom()
	s.removeMessages()
	if s.dead > 0 {
		s.deleteRows(s.id, 'x', 'y')
	}
	s.unschedule()
	if s.nextDedup != never {
		s.tx.Set(numberKey(nil, 'g', s.id), nil)
		s.tx.Schedule(s.tx.Now(), graveToken(s.id))
	}
	s.tx.Delete(queueKey(nil, s.tx.Namespace(), s.name))
	s.tx.Count(countQueues, -1)
	s.release()
	s.m.queues.Remove(s.tx, s.id)
	s.saveLeases()
}
