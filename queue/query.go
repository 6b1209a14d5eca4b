package queue

import (
	"bytes"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// The queries of the machine: arguments first, results after the blank line.

// statsQuery queries one queue.
type statsQuery struct {
	namespace string
	name      string

	found bool
	stats Stats
}

// listQuery lists queues with a prefix, after a name, in order of their names.
type listQuery struct {
	namespace string
	prefix    string
	after     string
	limit     int

	items []Stats
	more  bool
}

// peekQuery queries messages after a position.
type peekQuery struct {
	namespace   string
	name        string
	after       position // the zero position is before all
	limit       int
	maxBytes    int   // of payloads; the page ends with the one that exceeds it
	state       State // 0: all
	withoutBody bool

	found bool
	items []Message
	next  position // position after which to continue
	more  bool
}

// deadQuery queries dead letters after a seq.
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

// messageQuery queries a message by its seq.
type messageQuery struct {
	namespace string
	name      string
	seq       uint64

	found bool      // the queue exists
	items []Message // the message, or none
}

func (*statsQuery) Machine() engine.MachineID { return engine.MachineQueue }
func (*listQuery) Machine() engine.MachineID  { return engine.MachineQueue }
func (*peekQuery) Machine() engine.MachineID  { return engine.MachineQueue }
func (*deadQuery) Machine() engine.MachineID  { return engine.MachineQueue }

func (*messageQuery) Machine() engine.MachineID { return engine.MachineQueue }

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
		Name: name, CreatedAt: time.UnixMilli(r.createdAt), Paused: r.paused, Settings: r.settings.public(), Ready: r.ready,
		Delayed:  r.delayed,
		Inflight: r.inflight, Dead: r.dead, Bytes: r.bytes, Enqueued: r.enqueued, Duplicates: r.duplicates, Dequeued: r.deliveries,
		Acked: r.acked, Expired: r.expired, Purged: r.purged, Discarded: r.discarded,
	}
}

func (m *machine) queryList(v *engine.View, q *listQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	read := func(k, value []byte) (Stats, bool, error) {
		r, err := decodeRecord(value)
		return r.public(string(k[nameAt:])), true, err
	}
	var err error
	q.items, q.more, err = engine.ListRows(v, queueKey(nil, ns, []byte(q.prefix)), queueKey(nil, ns, []byte(q.after)), q.limit, read)
	return err
}

func (m *machine) queryPeek(v *engine.View, q *peekQuery) error {
	v.Freeze()
	r, found, err := lookUp(v, q.namespace, q.name)
	if q.found = found; err != nil || !found {
		return err
	}
	p := peek{q: q, view: v, name: q.name, now: v.Now(), record: &r}
	return p.walk()
}

// peek walks over the messages of a queue, which have rows of two kinds. In parallel it walks over
// the rows of delivered messages, which are in the same order.
type peek struct {
	q        *peekQuery
	view     *engine.View
	name     string
	now      int64
	record   *record
	rows     [4]rows // of the kinds 'm', 'n', 'l' and 'o'
	payloads int     // bytes of payloads and headers on the page
}

// rows are the rows of one kind, from a given start.
type rows struct {
	it *engine.Iter
	ok bool // positioned at a row
}

// has moves to a message and reports whether it has a row.
func (r *rows) has(message []byte) bool {
	for r.ok && bytes.Compare(r.it.Key()[1:], message) < 0 {
		r.ok = r.it.Next()
	}
	return r.ok && bytes.Equal(r.it.Key()[1:], message)
}

func (p *peek) walk() (err error) {
	for i, kind := range []byte("mnlo") {
		r := &p.rows[i]
		r.it, err = p.view.Iter(append(messageKey(nil, kind, p.record.gen, p.q.after), 0),
			key.PrefixEnd(numberKey(nil, kind, p.record.gen)))
		if err != nil {
			break
		}
		r.ok = r.it.First()
	}
	for more := err == nil; more; {
		more, err = p.next()
	}
	for _, r := range p.rows {
		if r.it == nil {
			break
		}
		if closeErr := r.it.Close(); err == nil {
			err = closeErr
		}
	}
	return err
}

// next processes the next message.
func (p *peek) next() (more bool, err error) {
	m, n := &p.rows[0], &p.rows[1]
	switch {
	case !m.ok && !n.ok:
		return false, nil
	case !m.ok || n.ok && bytes.Compare(n.it.Key()[1:], m.it.Key()[1:]) < 0:
		m = n
	}
	if more, err = p.row(m.it.Key()[1:], m.it.Value()); more {
		m.ok = m.it.Next()
	}
	return more, err
}

// row processes a message, given the key of its row without the kind, and the value.
func (p *peek) row(message, value []byte) (more bool, err error) {
	q := p.q
	if len(q.items) == q.limit || p.payloads > q.maxBytes || q.next != (position{}) && p.view.Full() {
		q.more = true
		return false, nil
	}
	at, ok := placeAt(message, numberAt-1)
	w, err := decodeMessage(value)
	if err != nil || !ok {
		return false, err
	}
	q.next = at
	var l *leaseRow
	leased := p.rows[2].has(message)
	if leased || p.rows[3].has(message) {
		known := &p.rows[3]
		if leased {
			known = &p.rows[2]
		}
		row, err := decodeLease(known.it.Value())
		if err != nil {
			return false, err
		}
		l = &row
	}
	m := w.public(p.name, at, l, leased, p.now)
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

// public returns a message without its payload and headers. l is its row 'l' if it is leased,
// otherwise its row 'o', or nil.
func (w *messageRow) public(name string, at position, l *leaseRow, leased bool, now int64) Message {
	m := Message{
		Queue: name, Seq: at.seq, Priority: int(at.priority), State: Ready, MaxAttempts: int(w.maxAttempts),
		EnqueuedAt: time.UnixMilli(w.enqueuedAt),
		Size:       len(w.payload),
	}
	available := w.availableAt
	if l != nil {
		available = l.at
		m.Attempts, m.LastError = int(l.attempts), string(l.lastError)
	}
	switch {
	case leased:
		m.State, m.LeaseUntil = Leased, time.UnixMilli(l.at)
	case available > now:
		m.State, m.AvailableAt = Delayed, time.UnixMilli(available)
	}
	return m
}

// queryMessage finds a message by its seq. Its priority is unknown: it is in one of the queue's
// lanes, or is a dead letter.
func (m *machine) queryMessage(v *engine.View, q *messageQuery) error {
	v.Freeze()
	r, found, err := lookUp(v, q.namespace, q.name)
	if q.found = found; err != nil || !found {
		return err
	}
	get := func(k []byte) (value []byte, ok bool) {
		if err == nil {
			value, ok, err = v.Get(k)
		}
		return value, ok
	}
	var headers, payload []byte
	if value, ok := get(deadKey(nil, r.id, q.seq)); ok {
		var w deadRow
		if w, err = decodeDead(value); err == nil {
			q.items, headers, payload = []Message{w.public(q.name, q.seq)}, w.headers, w.payload
		}
	} else if p, value, ok := r.find(q.seq, get); ok {
		var w messageRow
		var l *leaseRow
		if w, err = decodeMessage(value); err == nil {
			headers, payload = w.headers, w.payload
		}
		row, leased := get(messageKey(nil, 'l', r.gen, p))
		known := leased
		if !leased {
			row, known = get(messageKey(nil, 'o', r.gen, p))
		}
		if known && err == nil {
			l = new(leaseRow)
			*l, err = decodeLease(row)
		}
		if err == nil {
			q.items = []Message{w.public(q.name, p, l, leased, v.Now())}
		}
	}
	if err == nil && len(q.items) > 0 {
		q.items[0].Payload = bytes.Clone(payload)
		q.items[0].Headers, err = engine.DecodeHeaders(headers)
	}
	return err
}

// find finds the row of a message that is not dead, with two lookups for each priority in use.
func (r *record) find(seq uint64, get func(k []byte) ([]byte, bool)) (p position, row []byte, ok bool) {
	if seq == 0 || seq > r.seq {
		return position{}, nil, false
	}
	for _, l := range r.lanes {
		p = position{l.priority, seq}
		for _, kind := range []byte("mn") {
			if row, ok = get(messageKey(nil, kind, r.gen, p)); ok {
				return p, row, true
			}
		}
	}
	return position{}, nil, false
}

func (m *machine) queryDead(v *engine.View, q *deadQuery) error {
	v.Freeze()
	r, found, err := lookUp(v, q.namespace, q.name)
	if q.found = found; err != nil || !found {
		return err
	}
	payloads := 0
	return v.Scan(append(deadKey(nil, r.id, q.after), 0), key.PrefixEnd(numberKey(nil, 'x', r.id)), func(k, value []byte) (bool, error) {
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
