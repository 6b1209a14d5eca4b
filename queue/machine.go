package queue

import (
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// maxInflight is the maximum number of leased messages in a shard. Each takes about 150 bytes of
// memory on every replica.
const maxInflight = 1_000_000

// Timer tokens.
const (
	tokenQueue = 'q' // followed by the name
	tokenGrave = 'g' // followed by the id (u64) of a deleted queue
)

// machine is the queue state machine of one shard.
type machine struct {
	queues      *engine.Memory[uint64, *memory, change] // by id
	leases      map[uint64]*leases                      // by gen: of the queues that have leases, including those not in memory
	inflight    int64                                   // total number of leases
	maxInflight int64
	limits      limits
	calls       engine.Calls[*session] // owned by the applying goroutine, as are the fields below
	session     session
	buf         []byte // of keys
	row         []byte // of values
}

// Memories returns the caches of rows.
func (m *machine) Memories() []engine.Remembered { return []engine.Remembered{m.queues} }

// Restore reads the leases. The rest of a queue is read when it is used.
func (m *machine) Restore(v *engine.View) error {
	b, ok, err := v.Get([]byte{'i'})
	if err != nil {
		return err
	}
	m.inflight = 0
	if ok {
		if m.inflight, err = decodeCount(b); err != nil {
			return fmt.Errorf("queue: row of leases: %w", err)
		}
	}
	return m.restoreLeases(v)
}

// Apply applies a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	call, err := m.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	s, err := m.open(tx, call.Subject(), cmd.Kind == kindEnqueue || cmd.Kind == kindConfigure)
	switch {
	case err != nil:
		return nil, err
	case s == nil && cmd.Kind == kindDequeue:
		return nil, nil
	case s == nil:
		return nil, notFound(string(call.Subject()))
	}
	result, err := call.Apply(s)
	if err != nil {
		return nil, err
	}
	if cmd.Kind != kindDelete {
		s.save()
	}
	return result, nil
}

// session is the state of a queue during a command.
type session struct {
	record
	m       *machine
	tx      *engine.Tx
	name    []byte
	memory  *memory
	woken   int64 // messages that became ready
	leases  int64 // of the shard, before
	held0   int64 // messages in the queue, before
	bytes0  int64 // likewise
	changed bool
}

// open opens a queue or creates it, or returns nil if it does not exist. It processes due items
// first, as the timer would.
func (m *machine) open(tx *engine.Tx, name []byte, create bool) (*session, error) {
	m.buf = queueKey(m.buf[:0], tx.Namespace(), name)
	b, ok := tx.Get(m.buf)
	if !ok && !create {
		return nil, nil
	}
	s := &m.session
	*s = session{m: m, tx: tx, name: name, leases: m.inflight, record: record{lanes: s.lanes[:0]}}
	if !ok {
		return s, s.create()
	}
	must(0, s.record.decode(b))
	s.held0, s.bytes0 = s.held(), s.bytes
	if s.memory, ok = m.queues.Get(s.id); !ok {
		s.memory = m.load(&s.record)
	}
	if s.timer <= tx.Now() {
		s.catchUp()
	}
	return s, nil
}

func (s *session) create() error {
	if err := checkName(string(s.name)); err != nil {
		return err
	}
	s.changed = true
	s.record = newRecord(uint64(s.tx.LSN()), s.tx.Now(), s.lanes)
	s.renew(s.id)
	s.tx.Count(countQueues, 1)
	return nil
}

// renew starts a new, empty generation of the queue.
func (s *session) renew(gen uint64) {
	s.gen, s.lanes, s.record.again, s.nextDelayed = gen, s.lanes[:0], end, never
	s.release()
	s.memory = s.m.newMemory(&s.record)
	s.m.queues.Replace(s.tx, s.id, s.memory, s.memory.footprint())
}

// release ends the leases in memory, whose rows are removed.
func (s *session) release() {
	if s.memory != nil {
		s.note(change{kind: released})
		s.m.inflight -= int64(s.memory.leases.len())
		delete(s.m.leases, s.memory.gen)
	}
}

// note records a change in memory.
func (s *session) note(c change) { s.m.queues.Change(s.tx, s.id, s.memory, c) }

// save writes the queue's row, if anything has changed, and wakes waiters for the messages that
// became ready.
func (s *session) save() {
	if !s.changed {
		return
	}
	if s.held() == 0 {
		s.lanes = s.lanes[:0]
	}
	m := s.m
	m.buf, m.row = queueKey(m.buf[:0], s.tx.Namespace(), s.name), s.record.encode(m.row[:0])
	s.tx.Set(m.buf, m.row)
	s.saveLeases()
	m.queues.Weigh(s.id, s.memory.footprint())
	if s.woken > 0 && !s.paused {
		s.wake(s.woken)
	}
	if bounded := s.settings.maxLen > 0 || s.settings.maxBytes > 0; bounded && (s.held() < s.held0 || s.bytes < s.bytes0) {
		s.tellRoom()
	}
}

// saveLeases writes the number of leases in the shard, if it has changed.
func (s *session) saveLeases() {
	if n := s.m.inflight; n != s.leases {
		s.m.row = codec.AppendUvarint(s.m.row[:0], uint64(n))
		s.tx.Set([]byte{'i'}, s.m.row)
	}
}

func (s *session) wake(n int64) {
	s.tx.Notify(topicOf(s.tx.NamespaceName(), s.name), int(n))
}

// topicOf is the topic of waiters for messages of a queue.
func topicOf(namespace string, name []byte) engine.Topic {
	return engine.TopicOf(engine.MachineQueue, namespace, name)
}

// schedule makes the queue's timer fire at a time or earlier.
func (s *session) schedule(at int64) {
	if at >= s.timer {
		return
	}
	token := append(append(s.m.buf[:0], tokenQueue), s.name...)
	if s.timer != never {
		s.tx.Unschedule(s.timer, token)
	}
	s.tx.ScheduleNew(at, token)
	s.m.buf, s.timer = token, at
}

// unschedule removes the queue's timer.
func (s *session) unschedule() {
	if s.timer != never {
		s.m.buf = append(append(s.m.buf[:0], tokenQueue), s.name...)
		s.tx.Unschedule(s.timer, s.m.buf)
		s.timer = never
	}
}

// enter adds a ready message to an index. With a row, which is copied, that is the index of fresh
// messages; with nil it is the other one.
func (s *session) enter(p position, row []byte) {
	s.ready++
	s.woken++
	w, kind := &s.memory.again, putAgain
	if row == nil {
		s.record.again = lesser(s.record.again, p)
		s.m.buf = messageKey(s.m.buf[:0], 'r', s.gen, p)
		s.tx.Insert(s.m.buf, nil)
	} else {
		w, kind = &s.memory.fresh, putFresh
	}
	if w.wants(p) {
		w.put(w.item(p, row))
	}
	// Note it even if the window did not want it: a later fill, possibly by the same command, would
	// include it.
	s.note(change{kind: kind, item: item{at: p}})
}
