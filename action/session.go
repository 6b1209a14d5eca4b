package action

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// A session represents a process that takes runs in a shard for all its workers in a namespace. It
// holds its runs as long as it sends heartbeats. After 30 s of silence, by a monotonic clock, its
// attempts fail and its runs are retried by other workers. Heartbeats exist only in the memory of
// the shard's leader. They cause no writes, and a new leader gives every session a new lease.
//
//	process                                      shard (its leader)
//	worker --.
//	worker --+-- pool -- link ---- open -------> session: groups of handlers and labels
//	worker --'             |------ take -------> waits, up to an hour, until a run is ready
//	                       |<----- runs -------- attempts begin; they are rows of the session
//	              handlers |------ work -------> ends of attempts; may take the next runs
//	                       |------ heartbeat --> renews the lease and compares the held runs; no write
//	                       '<----- cancelled --- runs whose handlers have to stop
//
// There is one link and one session for each shard that has actions of the namespace. The workers
// of a process share them. A worker also sends reports to the registry (see internal/workers).
//
// A polling worker (see internal/workers) has its own session as long as it holds a run. It sends
// no heartbeats; its attempts end by their time limits.

// open opens a session or replaces the groups of an open one.
func (w *work) open(c *openBody) (uint64, error) {
	tx := w.tx
	var s *session
	if c.session != 0 {
		if s = w.session(c.session); s == nil || s.self {
			return 0, noSession(c.session)
		}
	} else {
		s = &session{id: uint64(tx.LSN()), sessionRow: sessionRow{ns: tx.Namespace(), timer: never, openedAt: tx.Now()}}
		w.sessions = append(w.sessions, s)
		tx.Notify(sessionsTopic(), -1)
	}
	s.process, s.groups, s.changed = c.process, c.groups, true
	return s.id, nil
}

// session returns a session of the namespace, nil if it does not exist. On the first call of a
// command for a session it ends the attempts that have exceeded their time limits.
func (w *work) session(id uint64) *session {
	for _, s := range w.sessions {
		if s.id == id {
			return s
		}
	}
	b, ok := w.tx.Get(numberKey(nil, rowSession, id))
	if !ok {
		return nil
	}
	s := &session{id: id, sessionRow: must(decode(b, (*sessionRow).code))}
	if s.ns != w.tx.Namespace() {
		return nil
	}
	w.sessions = append(w.sessions, s)
	if s.timer <= w.tx.Now() {
		w.timeOut(s)
	}
	return s
}

// sessionOf returns the session of a command. A polling worker that wants runs gets a new one if
// needed.
func (w *work) sessionOf(c *workBody) (*session, error) {
	s, err := w.named(c.session, c.self)
	if err != nil && (c.session != 0 || len(c.wants) == 0) {
		return nil, err
	}
	if s == nil {
		s = &session{
			id:         uint64(w.tx.LSN()),
			sessionRow: sessionRow{ns: w.tx.Namespace(), process: c.self, self: true, timer: never, openedAt: w.tx.Now()},
		}
	}
	if c.session == 0 && len(c.wants) > 0 {
		s.groups = []group{c.group}
	}
	return s, nil
}

// named returns the session with the given number, or the session of a polling worker.
func (w *work) named(id uint64, self string) (*session, error) {
	if id != 0 {
		if s := w.session(id); s != nil && !s.self {
			return s, nil
		}
		return nil, noSession(id)
	}
	b, ok := w.tx.Get(namedKey(nil, rowSelf, w.tx.Namespace(), self))
	if ok {
		number, _ := binary.Uvarint(b)
		if s := w.session(number); s != nil && !s.dropped {
			return s, nil
		}
	}
	return nil, engine.Errorf(ErrConflict, "worker %q has no run", self)
}

// keepSelf stores the session of a polling worker that holds runs, and drops one that holds none.
func (w *work) keepSelf(s *session) {
	k := namedKey(nil, rowSelf, w.tx.Namespace(), s.process)
	known := slices.Contains(w.sessions, s)
	switch {
	case s.held > 0 && !known:
		w.sessions = append(w.sessions, s)
		s.changed = true
		w.tx.Set(k, binary.AppendUvarint(nil, s.id))
	case s.held == 0 && known:
		w.tx.Delete(k)
		w.dropSession(s)
	}
}

// heldBy returns the number of runs that a polling worker holds.
func heldBy(v *engine.View, ns uint32, worker string) (int, error) {
	b, ok, err := v.Get(namedKey(nil, rowSelf, ns, worker))
	if err != nil || !ok {
		return 0, err
	}
	number, _ := binary.Uvarint(b)
	if b, ok, err = v.Get(numberKey(nil, rowSession, number)); err != nil || !ok {
		return 0, err
	}
	s, err := decode(b, (*sessionRow).code)
	return int(s.held), err
}

// dropSession removes a session that holds no runs.
func (w *work) dropSession(s *session) {
	w.tx.Delete(numberKey(nil, rowSession, s.id))
	w.tx.Halt(&s.timer, tokenSession, s.id)
	if !s.self {
		w.tx.Notify(sessionTopic(w.tx.NamespaceName(), s.id), -1)
	}
	s.dropped = true
}

// scheduleSession sets the session's timer to at, unless it is due earlier.
func (w *work) scheduleSession(s *session, at int64) {
	s.changed = w.tx.Advance(&s.timer, at, tokenSession, s.id) || s.changed
}

// timeOut ends the session's attempts that exceeded their time limits, and sets its timer for the
// next one. A session holds at most 1,000 runs.
func (w *work) timeOut(s *session) {
	w.tx.Halt(&s.timer, tokenSession, s.id)
	s.changed = true
	next := int64(never)
	more := w.eachHeld(s, func(ref protocol.Ref, h held) {
		if h.deadline > w.tx.Now() {
			next = min(next, h.deadline)
			return
		}
		w.lose(s, ref, CodeTimeout, "the attempt has exceeded its time limit")
	})
	if more {
		next = w.tx.Now()
	}
	if s.self && s.held == 0 {
		w.tx.Delete(namedKey(nil, rowSelf, w.tx.Namespace(), s.process))
		w.dropSession(s)
		return
	}
	if next != never {
		w.scheduleSession(s, next)
	}
}

// eachHeld calls f for the runs of a session until the command is full. It reports whether there
// are more.
func (w *work) eachHeld(s *session, f func(ref protocol.Ref, h held)) (more bool) {
	prefix := numberKey(nil, rowHeld, s.id)
	it := w.tx.Iter(prefix, key.PrefixEnd(prefix))
	defer func() { mustClose(it) }()
	for ok := it.First(); ok; ok = it.Next() {
		if w.crowded() {
			return true
		}
		k := it.Key()
		ref := protocol.Ref{Action: numberOf(k), Run: lastOf(k)}
		f(ref, must(decode(it.Value(), (*held).code)))
	}
	return false
}

// lose ends an attempt that has no result from its worker, because it timed out or its session was
// lost.
func (w *work) lose(s *session, ref protocol.Ref, code, message string) {
	a, st := w.attemptOf(s, ref, 0, 0)
	switch {
	case st == nil:
		panic("action: a session has a run that is not its own")
	case st.status != Running:
		a.confirm(s, ref, st, code != CodeTimeout)
		return
	}
	a.letGo(s, ref, st)
	w.count(s, a, true)
	st.code, st.message = code, message
	if st.flags&flagNotify != 0 && st.attempts < st.maxAttempts {
		st.flags |= flagSuspect // this attempt may have had effects, whatever the error of the next one says
	}
	status := Failed
	if code == CodeTimeout {
		status = TimedOut
	}
	a.fail(ref, st, true, -1, status)
}

// close ends a session and releases its runs; their attempts do not count.
func (w *work) close(c *sessionBody) (more bool, err error) {
	s, err := w.named(c.session, c.self)
	if c.session == 0 && w.m.workers.Forget(w.tx, c.self) && err != nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	more = w.eachHeld(s, func(ref protocol.Ref, _ held) {
		if w.settle(s, &end{ref: ref, how: released}) == overtaken {
			panic("action: a session has a run that is not its own")
		}
	})
	w.ended(s, more)
	return more, nil
}

// expire ends a session that sent no heartbeat within its lease. Its attempts fail.
func (w *work) expire(c *sessionBody) (more bool, err error) {
	s := w.session(c.session)
	if s == nil {
		return false, noSession(c.session)
	}
	more = w.eachHeld(s, func(ref protocol.Ref, _ held) {
		w.lose(s, ref, CodeWorkerLost, "its worker was silent for 30 s")
	})
	w.ended(s, more)
	return more, nil
}

// ended removes a session that holds no more runs. If more is set, the caller repeats the command.
func (w *work) ended(s *session, more bool) {
	if !more && !s.dropped {
		if s.self {
			w.tx.Delete(namedKey(nil, rowSelf, w.tx.Namespace(), s.process))
		}
		w.dropSession(s)
	}
}

// sessionError is the ErrConflict of a session that does not exist or has ended. Users never see
// it.
type sessionError struct{ session uint64 }

func noSession(id uint64) error { return &sessionError{id} }

func (e *sessionError) Error() string { return "action: the worker's process was silent for too long" }

// Unwrap returns ErrConflict.
func (e *sessionError) Unwrap() error { return ErrConflict }

func (e *sessionError) code(c *codec.Coder) { c.Uvarint(&e.session) }

// sessionsTopic is notified when a session is opened.
func sessionsTopic() engine.Topic {
	return engine.TopicOf(engine.MachineAction, "", []byte("sessions"))
}

// recordHeartbeat records the monotonic time of a session's heartbeat. Queries call it on the
// leader.
func (m *machine) recordHeartbeat(session uint64, mono int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heartbeats[session] = mono
}

// startTerm sets the lease for a term of this replica. It drops the heartbeats of earlier terms.
func (m *machine) startTerm(term uint64, lease int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease = lease
	if m.term != term {
		m.term, m.next = term, 0
		clear(m.heartbeats)
	}
}

// startCheck records that the duty checks the sessions. If the check is much later than planned,
// the node itself was suspended and received no heartbeats. Every session then gets a new lease, as
// at the start of a term.
func (m *machine) startCheck(mono int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next > 0 && mono-m.next > haltMillis {
		clear(m.heartbeats)
	}
	m.next = mono
}

// planCheck records the time of the duty's next check; 0: when a session is opened.
func (m *machine) planCheck(until int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = until
}

// silentSince returns the time of a session's last heartbeat. Without one in this term, it is the
// first check.
func (m *machine) silentSince(session uint64, mono int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.heartbeats[session]; !known {
		m.heartbeats[session] = mono
	}
	return m.heartbeats[session]
}

// leaseNow returns the current lease of sessions in ms.
func (m *machine) leaseNow() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(m.lease, leaseMillis)
}

// dropHeartbeats removes the heartbeats of sessions that no longer exist.
func (m *machine) dropHeartbeats(sessions map[uint64]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.heartbeats {
		if !sessions[id] {
			delete(m.heartbeats, id)
		}
	}
}

// Duties returns the leader's duties for the machine.
func (m *machine) Duties() []engine.Duty {
	return []engine.Duty{{Name: "sessions", Run: m.watchSessions}, {Name: dutySchedule, Run: schedules.Watch}, m.workers.Duty()}
}

// watchSessions is the duty that ends sessions whose lease is over.
func (m *machine) watchSessions(ctx context.Context, lead *engine.Lead) error {
	m.startTerm(lead.Term(), max(lead.Patience(leaseMillis), leastLease))
	for {
		var silent uint64
		var namespace string
		var spread bool
		err := lead.View(ctx, func(v *engine.View) (err error) {
			silent, namespace, err = m.silent(v)
			spread = err == nil && v.Spread(namespace)
			return err
		})
		if err != nil {
			return err
		}
		cmd := engine.Command{Kind: kindExpire, Namespace: namespace, Spread: spread,
			Body: codec.EncodeFields(nil, &sessionBody{session: silent}, (*sessionBody).code)}
		if _, err := lead.Propose(ctx, cmd); err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// silent returns a session whose lease is over, or waits for the first lease to end.
func (m *machine) silent(v *engine.View) (session uint64, namespace string, err error) {
	if err := v.WaitOn(sessionsTopic()); err != nil {
		return 0, "", err
	}
	it, err := v.Iter([]byte{rowSession}, []byte{rowSession + 1})
	if err != nil {
		return 0, "", err
	}
	m.startCheck(v.Mono())
	all, next := make(map[uint64]bool), int64(0)
	for ok := it.First(); ok; ok = it.Next() {
		s, err := decode(it.Value(), (*sessionRow).code)
		if err != nil {
			return 0, "", errors.Join(err, it.Close())
		}
		id := lastOf(it.Key())
		all[id] = true
		if s.self {
			continue
		}
		left := m.silentSince(id, v.Mono()) + m.leaseNow() - v.Mono()
		if left > 0 {
			v.WakeAt(v.Now() + left)
			if at := v.Mono() + left; next == 0 || at < next {
				next = at
			}
			continue
		}
		name, ok := v.NamespaceName(s.ns)
		if !ok {
			continue
		}
		return id, name, it.Close()
	}
	if err := it.Close(); err != nil {
		return 0, "", err
	}
	m.dropHeartbeats(all)
	m.planCheck(next)
	return 0, "", engine.ErrWait
}
