package queue

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
)

// The rows of the machine. All integers in keys are big-endian. id is the LSN of the command that
// created the queue. gen is the LSN of the command that created or last purged it, so a purge drops
// all messages at once. prio is a u8, seq and the LSNs are u64.
//
//	'q' | ns u32 | name            the queue: settings, counters, low marks of its indexes (see record)
//	'm' | gen | prio | seq         a message that was ready when it was enqueued, written once (see messageRow)
//	'n' | gen | prio | seq         any other message: enqueued with a delay, or requeued from the dead letters (see messageRow)
//	'l' | gen | prio | seq         the lease of a message (see leaseRow)
//	'o' | gen | prio | seq         a message that was delivered before and is not leased (see leaseRow)
//	'r' | gen | prio | seq         a ready message that is not fresh -> nothing
//	'd' | gen | due | prio | seq   a message that is not ready before due (ms, as key.AppendInt64) -> nothing
//	'x' | id | seq                 a dead letter (see deadRow)
//	'y' | id | died | seq          the same by the time it became dead (ms) -> nothing
//	'k' | id | dedup key           a dedup key -> seq uvarint | until varint (ms)
//	'j' | id | until | dedup key   the same by its expiry (ms) -> nothing
//	'g' | id                       a deleted queue that has dedup keys left -> nothing
//	'i'                            number of leased messages in the shard -> uvarint
//
// A message is in one of four states, as its rows say:
//
//	fresh    'm', at or behind the mark of its lane: ready, never delivered, as it was enqueued
//	ready    'm' or 'n', 'r', and 'o' if it has been delivered
//	delayed  'm' or 'n', 'd', and 'o' likewise
//	leased   'm' or 'n', and 'l'
//
// Most messages are fresh and have only one row. Those of one priority are delivered in order of
// their seqs, and a seq is never used twice. So all rows 'm' of a priority before a mark were
// delivered, and all others are fresh (see lane). A search for fresh messages therefore never
// passes over delayed or delivered ones, however many there are.

// position is the position of a message in its queue. The message with the lowest position is next.
type position struct {
	priority uint8
	seq      uint64
}

// end is after all positions.
var end = position{math.MaxUint8, math.MaxUint64}

func (p position) less(q position) bool {
	return p.priority < q.priority || p.priority == q.priority && p.seq < q.seq
}

func (p position) next() position { return position{p.priority, p.seq + 1} }

func lesser(p, q position) position {
	if q.less(p) {
		return q
	}
	return p
}

// never is the time of events that do not happen.
const never = math.MaxInt64

// record is the value of the row 'q' of a queue.
type record struct {
	id, gen   uint64
	createdAt int64
	paused    bool
	settings  settings
	seq       uint64 // of the last message

	ready, delayed, inflight, dead int64 // messages in these states
	bytes                          int64 // payloads of those that are not dead

	enqueued, duplicates, deliveries, acked, expired, purged, discarded int64 // totals; expired counts leases

	// Low marks: no message of the index is before its mark, so a search for the first one does not
	// scan deleted rows.
	again                            position
	nextDelayed, nextDead, nextDedup int64

	timer int64 // when the queue's one timer is due; it may be early

	lanes []lane // by priority: one for each priority in use, not counting dead letters
}

// lane is the state of one priority of a queue. A queue that becomes empty drops its lanes.
type lane struct {
	priority uint8
	first    uint64 // rows 'm' with a lower seq were delivered, the others are fresh
}

func (l *lane) start() position { return position{l.priority, l.first} }

func byPriority(l lane, priority uint8) int { return cmp.Compare(l.priority, priority) }

// lane returns the lane of a priority, which must exist.
func (r *record) lane(priority uint8) *lane {
	i, _ := slices.BinarySearchFunc(r.lanes, priority, byPriority)
	return &r.lanes[i]
}

// addLane adds the lane of a priority for a message not yet added, unless it exists.
func (r *record) addLane(priority uint8) {
	if i, found := slices.BinarySearchFunc(r.lanes, priority, byPriority); !found {
		r.lanes = slices.Insert(r.lanes, i, lane{priority, r.seq + 1})
	}
}

// isFresh reports whether a message with a row 'm' is fresh.
func (r *record) isFresh(p position) bool {
	i, found := slices.BinarySearchFunc(r.lanes, p.priority, byPriority)
	return found && p.seq >= r.lanes[i].first
}

// settings are Settings in stored form: in ms, and with defaults filled in.
type settings struct {
	maxLen, maxBytes       int64 // 0: no bound
	maxAttempts            int64
	backoffMin, backoffMax int64 // 0: none
	deadRetention          int64 // 0: for ever
	dedupWindow            int64
}

func (s *settings) code(c *codec.Coder) {
	for _, v := range [...]*int64{&s.maxLen, &s.maxBytes, &s.maxAttempts, &s.backoffMin, &s.backoffMax, &s.deadRetention, &s.dedupWindow} {
		c.Varint(v)
	}
}

// newRecord returns the row of a queue being created. It reuses the memory of another queue's
// lanes.
func newRecord(id uint64, now int64, lanes []lane) record {
	return record{
		lanes: lanes[:0], id: id, gen: id, createdAt: now, settings: defaultSettings, again: end, nextDelayed: never, nextDead: never,
		nextDedup: never, timer: never,
	}
}

// held returns the number of messages that count towards the limit.
func (r *record) held() int64 { return r.ready + r.delayed + r.inflight }

// code codes the row: version u8 | paused u8 | all further fields in order, as varints. A priority
// is a u8, and lanes are a list preceded by its length.
func (r *record) code(c *codec.Coder) {
	version := byte(1)
	if c.Byte(&version); version != 1 {
		c.Fail(fmt.Sprintf("queue row of version %d", version))
	}
	c.Bool(&r.paused)
	c.Uvarint(&r.id)
	c.Uvarint(&r.gen)
	c.Varint(&r.createdAt)
	r.settings.code(c)
	c.Uvarint(&r.seq)
	for _, v := range [...]*int64{
		&r.ready, &r.delayed, &r.inflight, &r.dead, &r.bytes, &r.enqueued, &r.duplicates, &r.deliveries, &r.acked, &r.expired, &r.purged,
		&r.discarded,
	} {
		c.Varint(v)
	}
	r.again.code(c)
	for _, v := range [...]*int64{&r.nextDelayed, &r.nextDead, &r.nextDedup, &r.timer} {
		codeTime(c, v)
	}
	r.codeLanes(c)
}

func (r *record) codeLanes(c *codec.Coder) {
	n := uint64(len(r.lanes))
	if c.Uvarint(&n); c.Reading() {
		if n > MaxPriority+1 {
			c.Fail(fmt.Sprintf("%d lanes", n))
			return
		}
		r.lanes = slices.Grow(r.lanes[:0], int(n))[:n]
	}
	for i := range r.lanes {
		l := &r.lanes[i]
		c.Byte(&l.priority)
		c.Uvarint(&l.first)
		if i > 0 && l.priority <= r.lanes[i-1].priority {
			c.Fail("lanes out of order")
		}
	}
}

func (p *position) code(c *codec.Coder) {
	c.Byte(&p.priority)
	c.Uvarint(&p.seq)
}

// codeTime codes a time in ms. The value never takes one byte.
func codeTime(c *codec.Coder, t *int64) {
	v := uint64(*t) + 1
	if *t == never {
		v = 0
	}
	if c.Uvarint(&v); !c.Reading() {
		return
	}
	if *t = int64(v - 1); v == 0 {
		*t = never
	} else if v > never {
		c.Fail("time out of range")
	}
}

func decodeRecord(b []byte) (q record, err error) {
	err = q.decode(b)
	return q, err
}

// decode decodes a row into the record and reuses the memory of its lanes.
func (r *record) decode(b []byte) error {
	c := codec.NewDecoder(b)
	r.code(&c)
	if err := c.Done(); err != nil {
		return fmt.Errorf("queue row: %w", err)
	}
	return nil
}

func (r *record) encode(dst []byte) []byte {
	c := codec.NewEncoder(dst)
	r.code(&c)
	return c.Encoded()
}

// flagIndexed marks a message that has never been fresh: its row is of kind 'n'.
const flagIndexed = 1

// kindOf returns the kind of the row of a message with these flags.
func kindOf(flags uint8) byte {
	if flags&flagIndexed != 0 {
		return 'n'
	}
	return 'm'
}

// flagHeaders marks a message that has headers.
const flagHeaders = 2

// messageRow is the value of a row 'm' or 'n':
//
//	version u8 | flags u8 | enqueued at varint (ms) | max attempts uvarint | available at varint (ms, if indexed) |
//	headers (uvarint length, bytes, if there are any; see engine.AppendHeaders) | payload
type messageRow struct {
	flags       uint8
	enqueuedAt  int64
	maxAttempts int64
	availableAt int64 // if it was enqueued with a delay
	headers     []byte
	payload     []byte
}

// bytes returns the size of payload and headers, which limits count.
func (w *messageRow) bytes() int64 { return int64(len(w.headers) + len(w.payload)) }

func (w *messageRow) encode(dst []byte) []byte {
	flags := w.flags &^ flagHeaders
	if len(w.headers) > 0 {
		flags |= flagHeaders
	}
	dst = codec.AppendVarint(append(dst, 1, flags), w.enqueuedAt)
	dst = codec.AppendUvarint(dst, uint64(w.maxAttempts))
	if flags&flagIndexed != 0 {
		dst = codec.AppendVarint(dst, w.availableAt)
	}
	if flags&flagHeaders != 0 {
		dst = codec.AppendBytes(dst, w.headers)
	}
	return append(dst, w.payload...)
}

// decodeMessage reads a row 'm' or 'n'; its payload aliases b.
func decodeMessage(b []byte) (w messageRow, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	w.flags, w.enqueuedAt, w.maxAttempts = r.Byte(), r.Varint(), int64(r.Uvarint())
	if w.flags&flagIndexed != 0 {
		w.availableAt = r.Varint()
	}
	if w.flags&flagHeaders != 0 {
		w.headers = r.Bytes()
	}
	w.payload = r.Rest()
	if err := r.Err(); err != nil {
		return w, fmt.Errorf("queue message row: %w", err)
	}
	if version != 1 || w.flags > flagIndexed|flagHeaders || w.maxAttempts < 1 || w.flags&flagHeaders != 0 && len(w.headers) == 0 {
		return w, fmt.Errorf("queue message row: %w: version %d, flags %#x, %d attempts", codec.ErrCorrupt, version, w.flags, w.maxAttempts)
	}
	return w, nil
}

// leaseRow is the value of a row 'l' or 'o':
//
//	version u8 | flags u8 | attempts | max attempts | bytes of payload and headers | LSN of the delivery (uvarints) | at varint (ms) | last error
//
// flags are flagIndexed or none. at is when the lease ends, or, for a message that is not leased,
// when it is ready again. A message whose first delivery was released has 0 attempts.
type leaseRow struct {
	flags       uint8
	attempts    int64
	maxAttempts int64
	size        int64
	lsn         uint64
	at          int64
	lastError   []byte
}

func (w *leaseRow) encode(dst []byte) []byte {
	dst = codec.AppendUvarint(append(dst, 1, w.flags), uint64(w.attempts))
	dst = codec.AppendUvarint(dst, uint64(w.maxAttempts))
	dst = codec.AppendUvarint(dst, uint64(w.size))
	dst = codec.AppendUvarint(dst, w.lsn)
	dst = codec.AppendVarint(dst, w.at)
	return append(dst, w.lastError...)
}

// decodeLease reads a row 'l' or 'o'; its last error aliases b.
func decodeLease(b []byte) (w leaseRow, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	w.flags, w.attempts, w.maxAttempts, w.size = r.Byte(), int64(r.Uvarint()), int64(r.Uvarint()), int64(r.Uvarint())
	w.lsn, w.at, w.lastError = r.Uvarint(), r.Varint(), r.Rest()
	if err := r.Err(); err != nil {
		return w, fmt.Errorf("queue lease row: %w", err)
	}
	if version != 1 || w.flags > flagIndexed || w.attempts < 0 || w.maxAttempts < 1 || w.size < 0 {
		return w, fmt.Errorf("queue lease row: %w: version %d, flags %#x, %d attempts", codec.ErrCorrupt, version, w.flags, w.attempts)
	}
	return w, nil
}

// deadRow is the value of a row 'x':
//
//	version u8 | priority u8 | enqueued at varint | died at varint (ms) | attempts uvarint | max attempts uvarint |
//	last error, headers (uvarint length, bytes) | payload
type deadRow struct {
	priority    uint8
	enqueuedAt  int64
	diedAt      int64
	attempts    int64
	maxAttempts int64
	lastError   []byte
	headers     []byte
	payload     []byte
}

func (w *deadRow) encode(dst []byte) []byte {
	dst = codec.AppendVarint(append(dst, 1, w.priority), w.enqueuedAt)
	dst = codec.AppendVarint(dst, w.diedAt)
	dst = codec.AppendUvarint(dst, uint64(w.attempts))
	dst = codec.AppendUvarint(dst, uint64(w.maxAttempts))
	dst = codec.AppendBytes(dst, w.lastError)
	dst = codec.AppendBytes(dst, w.headers)
	return append(dst, w.payload...)
}

// decodeDead reads a row 'x', which its slices alias.
func decodeDead(b []byte) (w deadRow, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	w.priority, w.enqueuedAt, w.diedAt = r.Byte(), r.Varint(), r.Varint()
	w.attempts, w.maxAttempts, w.lastError, w.headers, w.payload = int64(r.Uvarint()), int64(r.Uvarint()), r.Bytes(), r.Bytes(), r.Rest()
	if err := r.Err(); err != nil {
		return w, fmt.Errorf("queue dead letter row: %w", err)
	}
	if version != 1 || w.attempts < 0 || w.maxAttempts < 1 {
		return w, fmt.Errorf("queue dead letter row: %w: version %d, %d attempts", codec.ErrCorrupt, version, w.attempts)
	}
	return w, nil
}

func encodeDedup(dst []byte, seq uint64, until int64) []byte {
	return codec.AppendVarint(codec.AppendUvarint(dst, seq), until)
}

func decodeDedup(b []byte) (seq uint64, until int64, err error) {
	r := codec.NewReader(b)
	seq, until = r.Uvarint(), r.Varint()
	if err := r.Done(); err != nil {
		return 0, 0, fmt.Errorf("queue dedup row: %w", err)
	}
	return seq, until, nil
}

// nameAt is the offset of the name in the key of a row 'q'. numberAt is the offset of the part
// after id or gen in other keys.
const (
	nameAt   = 5
	numberAt = 9
)

func queuePrefix(dst []byte, ns uint32) []byte { return key.AppendUint32(append(dst, 'q'), ns) }

func queueKey(dst []byte, ns uint32, name []byte) []byte {
	return append(queuePrefix(dst, ns), name...)
}

// numberKey is the key, or the common prefix of the keys, of the rows of a kind that belong to an
// id or gen.
func numberKey(dst []byte, kind byte, number uint64) []byte {
	return key.AppendUint64(append(dst, kind), number)
}

func (p position) append(dst []byte) []byte { return key.AppendUint64(append(dst, p.priority), p.seq) }

func messageKey(dst []byte, kind byte, gen uint64, p position) []byte {
	return p.append(numberKey(dst, kind, gen))
}

// placeBytes is the length of a position in a key.
const placeBytes = 9

// placeAt reads the position at the end of a key. ok is false unless the key consists of n bytes
// and a position.
func placeAt(k []byte, n int) (p position, ok bool) {
	if len(k) != n+placeBytes {
		return position{}, false
	}
	return position{k[n], binary.BigEndian.Uint64(k[n+1:])}, true
}

func delayedKey(dst []byte, gen uint64, due int64, p position) []byte {
	return p.append(dueKey(dst, 'd', gen, due))
}

// dueKey is the prefix of keys in an index by time.
func dueKey(dst []byte, kind byte, number uint64, due int64) []byte {
	return key.AppendInt64(numberKey(dst, kind, number), due)
}

// dueAt is the offset of the part after the time in the key of an index by time.
const dueAt = numberAt + 8

func deadKey(dst []byte, id, seq uint64) []byte {
	return key.AppendUint64(numberKey(dst, 'x', id), seq)
}

func diedKey(dst []byte, id uint64, died int64, seq uint64) []byte {
	return key.AppendUint64(dueKey(dst, 'y', id, died), seq)
}

func dedupKey(dst []byte, id uint64, k []byte) []byte { return append(numberKey(dst, 'k', id), k...) }

func dedupEndKey(dst []byte, id uint64, until int64, k []byte) []byte {
	return append(dueKey(dst, 'j', id, until), k...)
}

// decodeCount decodes the number of messages leased in the shard.
func decodeCount(b []byte) (int64, error) {
	r := codec.NewReader(b)
	n := int64(r.Uvarint())
	return n, r.Done()
}
