package kv

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Limits of the history of deleted keys: its age, and the number of deleted keys of a namespace in
// one shard.
const (
	tombstoneMillis = 24 * 60 * 60 * 1000
	maxTombstones   = 100_000
	maxForget       = 1000 // keys forgotten by one firing of the timer
)

// Timer tokens.
const (
	tokenExpire = 'e' // followed by the key
	tokenForget = 'f' // scheduled while the namespace has tombstones, and sometimes longer
)

// machine is the key-value state machine of one shard.
type machine struct {
	tombstones int64 // maximum per namespace
	recent     recentChanges
	calls      engine.Calls[*write] // this and the fields below belong to the applying goroutine
	write      write
	buf        []byte
	row        []byte
}

// Apply applies a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if cmd.Kind == kindPutMany {
		return m.putMany(tx, cmd.Body)
	}
	call, err := m.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	if err := checkKey(string(call.Subject())); err != nil {
		return nil, err
	}
	m.open(tx, call.Subject())
	return call.Apply(&m.write)
}

// write is the state of a key during a command.
type write struct {
	m   *machine
	tx  *engine.Tx
	key []byte
	cur row // its current version
}

func (m *machine) open(tx *engine.Tx, k []byte) { m.write = write{m, tx, k, m.load(tx, k)} }

// allows checks the condition against the current version. A tombstone counts as absent.
func (w *write) allows(g *guard) error {
	revision := w.cur.revision
	if w.cur.tombstone() {
		revision = 0
	}
	holds := true
	switch g.cond {
	case absent:
		holds = revision == 0
	case present:
		holds = revision != 0
	case atRevision:
		holds = revision == g.revision
	}
	if holds {
		return nil
	}
	return &ConflictError{Key: string(w.key), Revision: revision, Want: g.want()}
}

// finds is allows for a command that needs an existing key.
func (w *write) finds(g *guard) error {
	if err := w.allows(g); err != nil {
		return err
	}
	if w.cur.tombstone() || !w.cur.exists() {
		return notFound(string(w.key))
	}
	return nil
}

// load returns the current row of a key. If the key is due to expire, load expires it first, as its
// timer would.
func (m *machine) load(tx *engine.Tx, k []byte) row {
	m.buf = currentKey(m.buf[:0], tx.Namespace(), k)
	b, ok := tx.Get(m.buf)
	if !ok {
		return row{}
	}
	cur := mustDecode(b)
	if !cur.tombstone() && cur.expiredAt(tx.Now()) {
		cur = m.expire(tx, k, cur)
		tx.Step()
	}
	return cur
}

func mustDecode(b []byte) row {
	w, err := decodeRow(b)
	if err != nil {
		panic(err)
	}
	w.encoded = b
	return w
}

func (w *write) put(b *putBody) ([]byte, error) {
	if err := w.allows(&b.guard); err != nil {
		return nil, err
	}
	written := w.set(b.value, b.ttl)
	return codec.AppendUvarint(codec.AppendUvarint(make([]byte, 0, 12), written.Revision), written.Version), nil
}

// set writes a new value that expires after ttl ms. 0 means no expiry; keepTTL keeps the current
// one.
func (w *write) set(value []byte, ttl int64) Written {
	if ttl == keepTTL {
		return w.update(value)
	}
	next := row{value: value}
	if ttl > 0 {
		next.flags, next.expiresAt = flagExpires, w.tx.Now()+ttl
	}
	w.tx.Count(countSets, 1)
	return w.m.replace(w.tx, w.key, w.cur, next)
}

// update writes a new value and keeps the expiry.
func (w *write) update(value []byte) Written {
	w.tx.Count(countSets, 1)
	return w.m.replace(w.tx, w.key, w.cur, row{flags: w.cur.flags & flagExpires, expiresAt: w.cur.expiresAt, value: value})
}

func (w *write) incr(b *incrBody) (c Counted, err error) {
	if err := w.allows(&b.guard); err != nil {
		return c, err
	}
	var old int64
	present := w.cur.exists() && !w.cur.tombstone()
	if present {
		if old, err = strconv.ParseInt(string(w.cur.value), 10, 64); err != nil {
			return c, engine.Errorf(ErrInvalid, "kv: value of key %q is not a decimal integer", shown(string(w.key)))
		}
	}
	sum := old + b.delta
	if (sum > old) != (b.delta > 0) && b.delta != 0 {
		return c, engine.Errorf(ErrInvalid, "kv: key %q: %d + %d leaves the int64 range", shown(string(w.key)), old, b.delta)
	}
	if sum < b.min || sum > b.max {
		return c, &BoundError{Key: string(w.key), Value: old, Delta: b.delta, Min: b.min, Max: b.max}
	}
	c.Value = sum
	if value := strconv.AppendInt(nil, sum, 10); present {
		c.Written = w.update(value)
	} else {
		c.Written = w.set(value, b.ttl)
	}
	return c, nil
}

func (w *write) delete(g *guard) (Written, error) {
	if err := w.finds(g); err != nil {
		return Written{}, err
	}
	w.tx.Count(countDeletes, 1)
	return w.m.replace(w.tx, w.key, w.cur, row{flags: flagTombstone}), nil
}

// touch changes the expiry of the current version in place.
func (w *write) touch(b *touchBody) (Written, error) {
	if err := w.finds(&b.guard); err != nil {
		return Written{}, err
	}
	m, tx, cur := w.m, w.tx, w.cur
	m.unscheduleExpiry(tx, w.key, &cur)
	cur.flags, cur.expiresAt = cur.flags&^flagExpires, 0
	if b.ttl > 0 {
		cur.flags, cur.expiresAt = cur.flags|flagExpires, tx.Now()+b.ttl
	}
	m.scheduleExpiry(tx, w.key, &cur)
	m.setCurrent(tx, w.key, &cur)
	return cur.written(), nil
}

func (m *machine) expire(tx *engine.Tx, k []byte, cur row) row {
	m.replace(tx, k, cur, row{flags: flagTombstone | flagExpired})
	b, _ := tx.Get(currentKey(m.buf[:0], tx.Namespace(), k))
	return mustDecode(b)
}

// replace is the only way a key gets a new version. The caller sets the value, flags and expiry of
// next; the rest is derived from cur. It keeps history, timers, tombstones, counters and watchers
// consistent.
func (m *machine) replace(tx *engine.Tx, k []byte, cur, next row) Written {
	next.revision, next.version, next.previous = uint64(tx.LSN()), cur.version+1, cur.revision
	next.term, next.updatedAt = tx.Term(), tx.Now()

	if cur.exists() {
		m.buf = historyKey(m.buf[:0], tx.Namespace(), k, cur.version)
		tx.Insert(m.buf, cur.encoded)
	}
	if next.version > MaxVersions {
		m.buf = historyKey(m.buf[:0], tx.Namespace(), k, next.version-MaxVersions)
		tx.Delete(m.buf)
	}
	m.leave(tx, k, &cur)
	m.enter(tx, k, &next)
	m.setCurrent(tx, k, &next)
	tx.Changed(k)
	return next.written()
}

func (m *machine) setCurrent(tx *engine.Tx, k []byte, w *row) {
	m.buf, m.row = currentKey(m.buf[:0], tx.Namespace(), k), w.encode(m.row[:0])
	tx.Set(m.buf, m.row)
}

// leave removes the state that accompanies a version when it is replaced.
func (m *machine) leave(tx *engine.Tx, k []byte, cur *row) {
	switch {
	case !cur.exists():
	case cur.tombstone():
		m.buf = deadKey(m.buf[:0], tx.Namespace(), cur.revision)
		tx.Delete(m.buf)
		tx.Count(countDead, -1)
	default:
		m.unscheduleExpiry(tx, k, cur)
		tx.Count(countKeys, -1)
		tx.Count(countBytes, -int64(len(k)+len(cur.value)))
	}
}

// enter adds the state that accompanies a version when it becomes current.
func (m *machine) enter(tx *engine.Tx, k []byte, next *row) {
	if !next.tombstone() {
		m.scheduleExpiry(tx, k, next)
		tx.Count(countKeys, 1)
		tx.Count(countBytes, int64(len(k)+len(next.value)))
		return
	}
	dead := tx.Counted(countDead)
	if dead == 0 {
		m.scheduleForget(tx, next.updatedAt+tombstoneMillis)
	}
	if dead >= m.tombstones {
		m.forget(tx, 1, next.updatedAt)
	}
	m.buf = deadKey(m.buf[:0], tx.Namespace(), next.revision)
	tx.Insert(m.buf, append(codec.AppendVarint(nil, next.updatedAt), k...))
	tx.Count(countDead, 1)
}

// scheduleForget sets the namespace's timer if it is not set. Otherwise keys that are created and
// deleted repeatedly would each leave a timer.
func (m *machine) scheduleForget(tx *engine.Tx, due int64) {
	m.buf = forgetTimerKey(m.buf[:0], tx.Namespace())
	if _, set := tx.Get(m.buf); set {
		return
	}
	tx.Set(m.buf, nil)
	tx.Schedule(due, []byte{tokenForget})
}

func (m *machine) scheduleExpiry(tx *engine.Tx, k []byte, w *row) {
	if w.flags&flagExpires != 0 {
		tx.ScheduleNew(w.expiresAt, append([]byte{tokenExpire}, k...))
	}
}

func (m *machine) unscheduleExpiry(tx *engine.Tx, k []byte, w *row) {
	if w.flags&flagExpires != 0 {
		tx.Unschedule(w.expiresAt, append([]byte{tokenExpire}, k...))
	}
}

// OnTimer expires a key or forgets old tombstones.
func (m *machine) OnTimer(tx *engine.Tx, token []byte) {
	switch token[0] {
	case tokenExpire:
		k := token[1:]
		b, ok := tx.Get(currentKey(m.buf[:0], tx.Namespace(), k))
		if !ok {
			return
		}
		if cur := mustDecode(b); !cur.tombstone() && cur.expiredAt(tx.Now()) {
			m.expire(tx, k, cur)
		}
	case tokenForget:
		tx.Delete(forgetTimerKey(nil, tx.Namespace()))
		if next := m.forget(tx, maxForget, tx.Now()-tombstoneMillis); next != 0 {
			m.scheduleForget(tx, max(next+tombstoneMillis, tx.Now()))
		}
	default:
		panic(fmt.Sprintf("kv: unknown timer token %q", token))
	}
}

// Leave forgets all tombstones.
func (m *machine) Leave(tx *engine.Tx) (found bool) {
	if _, _, found = tx.First(deadPrefix(nil, tx.Namespace()), key.PrefixEnd(deadPrefix(nil, tx.Namespace()))); found {
		m.forget(tx, maxForget, math.MaxInt64)
	}
	return found
}

// forget removes the tombstones of keys deleted up to the given time, and the keys' histories. It
// starts with the oldest and stops after limit keys or when the command is Full. It returns the
// deletion time of the oldest tombstone left, or 0 if none is left.
func (m *machine) forget(tx *engine.Tx, limit int, deletedBefore int64) (next int64) {
	ns := tx.Namespace()
	forgotten := m.forgotten(tx)
	from, upper := deadKey(nil, ns, forgotten+1), key.PrefixEnd(deadPrefix(nil, ns))
	done := 0
	for ; ; done++ {
		dead, v, ok := tx.First(from, upper)
		if !ok {
			break
		}
		r := codec.NewReader(v)
		deletedAt, k := r.Varint(), r.Rest()
		if deletedAt > deletedBefore || done == limit || done > 0 && tx.Full() {
			next = deletedAt
			break
		}
		forgotten = binary.BigEndian.Uint64(dead[len(dead)-8:])
		from = deadKey(from[:0], ns, forgotten+1)
		m.forgetKey(tx, k, dead)
	}
	if done > 0 {
		tx.Set(forgottenKey(nil, ns), codec.AppendUvarint(nil, forgotten))
	}
	return next
}

// forgotten returns the highest revision of any forgotten tombstone. All remaining tombstones come
// after it, so a search from there does not scan deleted rows.
func (m *machine) forgotten(tx *engine.Tx) uint64 {
	b, ok := tx.Get(forgottenKey(nil, tx.Namespace()))
	if !ok {
		return 0
	}
	r := codec.NewReader(b)
	n := r.Uvarint()
	if err := r.Done(); err != nil {
		panic(fmt.Sprintf("kv: row of forgotten tombstones: %v", err))
	}
	return n
}

func (m *machine) forgetKey(tx *engine.Tx, k, dead []byte) {
	ns := tx.Namespace()
	b, ok := tx.Get(currentKey(nil, ns, k))
	if !ok {
		panic(fmt.Sprintf("kv: tombstone of %q has no row", k))
	}
	cur := mustDecode(b)
	for v := oldestVersion(cur.version); v < cur.version; v++ {
		tx.Delete(historyKey(nil, ns, k, v))
	}
	tx.Delete(currentKey(nil, ns, k))
	tx.Delete(dead)
	tx.Count(countDead, -1)
}

// oldestVersion returns the first version still in the history.
func oldestVersion(newest uint64) uint64 {
	if newest <= MaxVersions {
		return 1
	}
	return newest - MaxVersions + 1
}

// Restore drops the state in memory, which is rebuilt on use.
func (m *machine) Restore(v *engine.View) error {
	lsn, err := v.LSN()
	if err != nil {
		return err
	}
	m.recent.reset(lsn)
	return nil
}

// Committed records changes for watchers, and wakes waiting queries.
func (m *machine) Committed(changes []engine.Change, wake engine.Waker) {
	m.recent.add(changes)
	if len(changes) > 0 {
		defer m.recent.tell(changes[len(changes)-1].LSN)
	}
	if !wake.Waiting() {
		return
	}
	for i := range changes {
		c := &changes[i]
		wake.Notify(keyTopic(c.Name, c.Key), -1)
		wake.Changed(c)
	}
}

func keyTopic(namespace string, k []byte) engine.Topic {
	return engine.TopicOf(engine.MachineKV, namespace, k)
}
