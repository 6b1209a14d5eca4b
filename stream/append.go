package stream

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// append applies an append command.
func (s *session) append(b *appendBody) ([]byte, error) {
	if err := s.open(&b.target); err != nil {
		return nil, err
	}
	return s.appendHere(b)
}

// appendHere appends messages whose partitions are all in this shard.
func (s *session) appendHere(b *appendBody) ([]byte, error) {
	m, tx, st, o := s.m, s.tx, s.st, &b.options
	partitions := 1
	if st != nil {
		partitions = st.partitions
		if result, err := m.repeated(tx, st, o); result != nil || err != nil {
			return result, err
		}
	}
	if o.partition > partitions {
		return nil, noSuchPartition(s.name, partitions, o.partition-1)
	}
	to, err := s.place(b, partitions)
	if err != nil {
		return nil, err
	}
	if err := s.expect(o, to); err != nil {
		return nil, err
	}
	if st == nil {
		st = m.found(tx, s.name, 1, policy{})
	}
	m.appendTo(tx, st, b.messages, to)
	result := encodeAppended(&m.appended)
	if o.producer != "" {
		m.remember(tx, st, o)
	}
	return result, nil
}

// place returns the partition of each message.
func (s *session) place(b *appendBody, partitions int) ([]int, error) {
	m, tx, st, unkeyed := s.m, s.tx, s.st, 0
	if st != nil {
		unkeyed = st.turn
		for range partitions - 1 {
			if here(tx, s.name, unkeyed) {
				break
			}
			unkeyed = (unkeyed + 1) % partitions
		}
	}
	to := slices.Grow(m.to[:0], len(b.messages))[:len(b.messages)]
	m.to = to
	for i, msg := range b.messages {
		k, _, err := split(msg)
		if err != nil {
			return nil, err
		}
		to[i] = partitionOf(k, b.options.partition, unkeyed, partitions)
		if partitions > 1 && !here(tx, s.name, to[i]) {
			return nil, elsewhere(s.name, to[i])
		}
	}
	return to, nil
}

// expect checks the condition of an append.
func (s *session) expect(o *appendOptions, to []int) error {
	if !o.expect {
		return nil
	}
	for _, p := range to {
		if p != to[0] {
			return engine.Errorf(ErrInvalid, "stream %q: IfLastID with messages for partitions %d and %d", s.name, to[0], p)
		}
	}
	return compareLast(s.st, s.name, to[0], o.lastID)
}

func compareLast(st *stream, name string, p int, want ID) error {
	last := ID{}
	if st != nil {
		last = st.parts[p].lastID
	}
	if last == want {
		return nil
	}
	return &ConflictError{Stream: name, Partition: p, LastID: last,
		Reason: fmt.Sprintf("the last id of partition %d is %v, want %v", p, last, want)}
}

func (s *session) checkLast(b *lastBody) error {
	if err := s.open(&b.target); err != nil {
		return err
	}
	partitions := 1
	if s.st != nil {
		partitions = s.st.partitions
	}
	if b.partition >= partitions {
		return noSuchPartition(s.name, partitions, b.partition)
	}
	if partitions > 1 && !here(s.tx, s.name, b.partition) {
		return elsewhere(s.name, b.partition)
	}
	return compareLast(s.st, s.name, b.partition, b.id)
}

func elsewhere(name string, p int) error {
	return engine.Errorf(ErrInvalid, "stream %q: partition %d is in another shard of the spread namespace: give the name a {tag}", name, p)
}

// appendTo appends encoded messages to the partitions in to, and stores their positions in
// m.appended.
func (m *machine) appendTo(tx *engine.Tx, st *stream, messages [][]byte, to []int) {
	m.touch(tx, st)
	appended := slices.Grow(m.appended[:0], len(messages))[:len(messages)]
	m.appended = appended
	for i, msg := range messages {
		p := &st.parts[to[i]]
		s := stored{id: st.nextID(tx.Now(), to[i]), lsn: uint64(tx.LSN()), before: p.bytes, message: msg}
		p.last++
		p.lastID = s.id
		p.bytes += uint64(len(msg))
		st.newest = s.id
		m.buf, m.row = recordKey(m.buf[:0], st.gen, to[i], p.last), s.encode(m.row[:0])
		tx.Insert(m.buf, m.row)
		appended[i] = Appended{ID: s.id, Partition: to[i], Offset: p.last, LSN: s.lsn}
	}
	for i, p := range to {
		if i == 0 || p != to[i-1] {
			m.shorten(tx, st, p)
			m.savePartition(tx, st, p)
			if len(st.subscriptions) > 0 {
				m.noteAppended(tx, st, p, appended[i].Offset)
			}
		}
	}
	st.turn = (to[len(to)-1] + 1) % st.partitions
	if st.policy.maxAge > 0 && st.timer == 0 {
		m.setTimer(tx, st, tx.Now()+st.policy.maxAge)
		m.save(tx, st)
	}
	if cap(m.row) > maxBuffer {
		m.row = nil
	}
	topic := streamTopic(tx.NamespaceName(), st.name)
	tx.Notify(topic, -1)
	tx.NotifyWithin(topic, len(messages), slotsOf(messages, appended))
}

// slotsOf returns the key slots of messages. For messages without a key they depend on the offsets.
func slotsOf(messages [][]byte, appended []Appended) engine.Slots {
	of := engine.NoSlots()
	for i, msg := range messages {
		of.Add(uint8(slotOf(keyHash(msg, appended[i].Offset))))
	}
	return of
}

// nextID returns the ID of the next record of a partition. It is greater than the ID of any record
// of the stream in this shard. So a reader of all partitions misses no record when it continues
// after an ID.
func (st *stream) nextID(now int64, p int) ID {
	n := uint64(st.partitions)
	if now > st.newest.Millis {
		return ID{now, uint64(p)}
	}
	return ID{st.newest.Millis, (st.newest.Seq/n+1)*n + uint64(p)}
}

// repeated returns the stored result if the append is a repeat, otherwise nil.
func (m *machine) repeated(tx *engine.Tx, st *stream, o *appendOptions) ([]byte, error) {
	if o.producer == "" {
		return nil, nil
	}
	b, ok := tx.Get(producerKey(nil, st.gen, o.producer))
	if !ok {
		return nil, nil
	}
	p := must(decodeProducer(b))
	for _, a := range p.appends {
		if a.sequence == o.sequence {
			return append([]byte(nil), a.result...), nil
		}
	}
	if last := p.appends[0].sequence; o.sequence < last {
		return nil, &ConflictError{Stream: st.name, Partition: -1, Reason: fmt.Sprintf(
			"sequence number %d of producer %q is behind its last one, %d, and not among its last %d", o.sequence, o.producer, last,
			len(p.appends))}
	}
	return nil, nil
}

// remember stores a producer's append, so that a repeat is detected.
func (m *machine) remember(tx *engine.Tx, st *stream, o *appendOptions) {
	for i := range m.appended {
		m.appended[i].Duplicate = true
	}
	k := producerKey(nil, st.gen, o.producer)
	p := producerRow{used: tx.Now(), due: tx.Now() + producerMillis, appends: []producerAppend{{o.sequence, encodeAppended(&m.appended)}}}
	if b, ok := tx.Get(k); ok {
		old := must(decodeProducer(b))
		p.due = old.due
		p.appends = append(p.appends, old.appends[:min(len(old.appends), maxRepeats-1)]...)
	} else {
		tx.Schedule(p.due, producerToken(st.gen, o.producer))
	}
	tx.Set(k, p.encode())
}

// producerToken is the token of the timer that forgets a producer: the key of its row.
func producerToken(gen uint64, producer string) []byte {
	return append(key.AppendUint64([]byte{tokenProducer}, gen), producer...)
}

// onProducer forgets a producer unless it has appended since the timer was set. The token is its
// row's key.
func (m *machine) onProducer(tx *engine.Tx, k []byte) {
	b, ok := tx.Get(k)
	if !ok {
		return
	}
	p := must(decodeProducer(b))
	if p.due = p.used + producerMillis; p.due > tx.Now() {
		tx.Set(k, p.encode())
		tx.Schedule(p.due, k)
		return
	}
	tx.Delete(k)
}
