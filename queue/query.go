package queue

import (
	"bytes"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// The queries of the machine: arguments first, results after the blank line.

// statsQuery asks for one queue.
type statsQuery struct {
	namespace string
	name      string

	found bool
	stats Stats
}

// listQuery asks for queues with a prefix behind a name, in order of their names.
type listQuery struct {
	namespace string
	prefix    string
	after     string
	limit     int

	items []Stats
	more  bool
}

// peekQuery asks for messages behind a place.
type peekQuery struct {
	namespace   string
	name        string
	after       place // the zero place is before all
	limit       int
	maxBytes    int   // of payloads; the page ends with the one that exceeds it
	state       State // 0: all
	withoutBody bool

	found bool
	items []Message
	next  place // where to go on behind
	more  bool
}

// deadQuery asks for dead letters behind a seq.
type deadQuery struct {
	namespace   string
	name        string
	after       uint64
	limit       int
	maxBytes    int
	text        string
	withoutBody bool

	found bool
	items []Message
	next  uint64
	more  bool
}

func (*statsQuery) Machine() engine.MachineID { return engine.MachineQueue }
func (*listQuery) Machine() engine.MachineID  { return engine.MachineQueue }
func (*peekQuery) Machine() engine.MachineID  { return engine.MachineQueue }
func (*deadQuery) Machine() engine.MachineID  { return engine.MachineQueue }

// Query answers a query of the store.
func (m *machine) Query(v *engine.View, q engine.Query) error {
	switch q := q.(type) {
	case *statsQuery:
		return m.queryStats(v, q)
	case *listQuery:
		return m.queryList(v, q)
	case *peekQuery:
		return m.queryPeek(v, q)
	case *deadQuery:
		return m.queryDead(v, q)
	}
	return engine.Errorf(ErrInvalid, "queue: unknown query %T", q)
}

// lookUp reads the row of a queue.
func lookUp(v *engine.View, namespace, name string) (r record, found bool, err error) {
	ns, ok := v.Namespace(namespace)
	if !ok {
		return r, false, nil
	}
	b, ok, err := v.Get(queueKey(nil, ns, []byte(name)))
	if err != nil || !ok {
		return r, false, err
	}
	r, err = decodeRecord(b)
	return r, err == nil, err
}

func (m *machine) queryStats(v *engine.View, q *statsQuery) error {
	r, found, err := lookUp(v, q.namespace, q.name)
	if found {
		q.found, q.stats = true, r.public(q.name)
	}
	return err
}

func (r *record) public(name string) Stats {
	return Stats{
		Name: name, CreatedAt: time.UnixMilli(r.createdAt), Paused: r.paused, Settings: r.settings.public(), Ready: r.ready, Delayed: r.delayed,
		Inflight: r.inflight, Dead: r.dead, Bytes: r.bytes, Enqueued: r.enqueued, Duplicates: r.duplicates, Dequeued: r.deliveries,
		Acked: r.acked, Expired: r.expired, Purged: r.purged, Discarded: r.discarded,
	}
}

func (m *machine) queryList(v *engine.View, q *listQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	lower, upper, ok := key.Behind(queueKey(nil, ns, []byte(q.prefix)), queueKey(nil, ns, []byte(q.after)))
	if !ok {
		return nil
	}
	return scan(v, lower, upper, func(k, value []byte) (more bool, err error) {
		if len(q.items) == q.limit {
			q.more = true
			return false, nil
		}
		r, err := decodeRecord(value)
		q.items = append(q.items, r.public(string(k[nameAt:])))
		return true, err
	})
}

// scan calls f for the rows with lower <= key < upper while it returns true.
func scan(v *engine.View, lower, upper []byte, f func(k, value []byte) (more bool, err error)) error {
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	it, err := v.Iter(lower, upper)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; {
		if ok, err = f(it.Key(), it.Value()); ok {
			ok = it.Next()
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (m *machine) queryPeek(v *engine.View, q *peekQuery) error {
	v.Freeze()
	r, found, err := lookUp(v, q.namespace, q.name)
	if q.found = found; err != nil || !found {
		return err
	}
	delivered, err := v.Iter(append(messageKey(nil, 'l', r.gen, q.after), 0), key.PrefixEnd(numberKey(nil, 'l', r.gen)))
	if err != nil {
		return err
	}
	p := peek{q: q, view: v, name: q.name, now: v.Now(), delivered: delivered, known: delivered.First()}
	err = scan(v, append(messageKey(nil, 'm', r.gen, q.after), 0), key.PrefixEnd(numberKey(nil, 'm', r.gen)), p.row)
	if closeErr := delivered.Close(); err == nil {
		err = closeErr
	}
	return err
}

// peek walks over the messages of a queue and, beside them, over what is known of those that were delivered: both are in the same order.
type peek struct {
	q         *peekQuery
	view      *engine.View
	name      string
	now       int64
	delivered *engine.Iter
	known     bool // delivered is at a row
	payloads  int  // bytes of payloads and headers on the page
}

func (p *peek) row(k, value []byte) (more bool, err error) {
	q := p.q
	if len(q.items) == q.limit || p.payloads > q.maxBytes || q.next != (place{}) && p.view.Full() {
		q.more = true
		return false, nil
	}
	at, ok := placeAt(k, numberAt)
	w, err := decodeMessage(value)
	if err != nil || !ok {
		return false, err
	}
	q.next = at
	m := Message{
		Queue: p.name, Seq: at.seq, Priority: int(at.priority), State: Ready, MaxAttempts: int(w.maxAttempts), EnqueuedAt: time.UnixMilli(w.enqueuedAt),
		Size: len(w.payload),
	}
	available := w.availableAt
	l, delivered, err := p.lease(k)
	if err != nil {
		return false, err
	}
	if delivered {
		available = l.at
		m.Attempts, m.LastError = int(l.attempts), string(l.lastError)
	}
	switch {
	case delivered && l.flags&flagLeased != 0:
		m.State, m.LeaseUntil = Leased, time.UnixMilli(l.at)
	case available > p.now:
		m.State, m.AvailableAt = Delayed, time.UnixMilli(available)
	}
	if q.state != 0 && q.state != m.State {
		return true, nil
	}
	if m.Headers, err = engine.DecodeHeaders(w.headers); err != nil {
		return false, err
	}
	p.payloads += len(w.headers)
	if !q.withoutBody {
		m.Payload = bytes.Clone(w.payload)
		p.payloads += len(w.payload)
	}
	q.items = append(q.items, m)
	return true, nil
}

// lease returns the row 'l' of the message with the key k of its row 'm'.
func (p *peek) lease(k []byte) (w leaseRow, ok bool, err error) {
	for p.known && bytes.Compare(p.delivered.Key()[1:], k[1:]) < 0 {
		p.known = p.delivered.Next()
	}
	if !p.known || !bytes.Equal(p.delivered.Key()[1:], k[1:]) {
		return w, false, nil
	}
	w, err = decodeLease(p.delivered.Value())
	return w, true, err
}

func (m *machine) queryDead(v *engine.View, q *deadQuery) error {
	v.Freeze()
	r, found, err := lookUp(v, q.namespace, q.name)
	if q.found = found; err != nil || !found {
		return err
	}
	payloads := 0
	return scan(v, append(deadKey(nil, r.id, q.after), 0), key.PrefixEnd(numberKey(nil, 'x', r.id)), func(k, value []byte) (bool, error) {
		if len(q.items) == q.limit || payloads > q.maxBytes || q.next != 0 && v.Full() {
			q.more = true
			return false, nil
		}
		w, err := decodeDead(value)
		if err != nil {
			return false, err
		}
		if q.next = seqAt(k); !w.holds([]byte(q.text)) {
			return true, nil
		}
		m := w.public(q.name, q.next)
		if m.Headers, err = engine.DecodeHeaders(w.headers); err != nil {
			return false, err
		}
		payloads += len(w.headers)
		if !q.withoutBody {
			m.Payload = bytes.Clone(w.payload)
			payloads += len(w.payload)
		}
		q.items = append(q.items, m)
		return true, nil
	})
}

func (w *deadRow) public(name string, seq uint64) Message {
	return Message{
		Queue: name, Seq: seq, Priority: int(w.priority), State: Dead, Attempts: int(w.attempts), MaxAttempts: int(w.maxAttempts),
		EnqueuedAt: time.UnixMilli(w.enqueuedAt), DiedAt: time.UnixMilli(w.diedAt), LastError: string(w.lastError), Size: len(w.payload),
	}
}
