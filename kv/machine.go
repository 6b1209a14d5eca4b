package kv

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/plant"
)

// How long the history of a deleted key stays, and for how many deleted keys of a namespace in one shard.
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
	tombstones int64 // that a namespace keeps at most
	recent     recentChanges
	buf        []byte // of the applying goroutine
	row        []byte // likewise
}

// Apply carries out a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if cmd.Kind == kindPutMany {
		return m.putMany(tx, cmd.Body)
	}
	c, err := decodeCommand(cmd.Kind, cmd.Body)
	if err != nil {
		return nil, err
	}
	cur := m.load(tx, c.key)
	if err := c.check(&cur); err != nil {
		return nil, err
	}
	switch cmd.Kind {
	case kindCheck:
		return nil, nil
	case kindPut:
		return m.put(tx, &c, cur), nil
	case kindIncr:
		return m.incr(tx, &c, cur)
	case kindJSONSet:
		return m.jsonSet(tx, &c, cur)
	}
	if cur.tombstone() || !cur.exists() {
		return nil, notFound(string(c.key))
	}
	switch cmd.Kind {
	case kindDelete:
		return m.delete(tx, &c, cur), nil
	case kindTouch:
		return m.touch(tx, &c, cur), nil
	case kindJSONDelete:
		return m.jsonDelete(tx, &c, cur)
	}
	panic(fmt.Sprintf("kv: unknown command kind %d", cmd.Kind))
}

// check compares the condition with the present row; a tombstone counts as absent.
func (c *command) check(cur *row) error {
	revision := cur.revision
	if cur.tombstone() {
		revision = 0
	}
	holds := true
	switch c.o.cond {
	case absent:
		holds = revision == 0
	case present:
		holds = revision != 0
	case atRevision:
		holds = revision == c.o.revision || plant.On(plant.AnyRevision) && revision != 0
	}
	if holds {
		return nil
	}
	return &ConflictError{Key: string(c.key), Revision: revision, Want: c.o.want()}
}

// load returns the present row of a key. A key whose time has come expires first, as its timer would have done.
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

func (m *machine) put(tx *engine.Tx, c *command, cur row) []byte {
	if c.o.ttlMillis == keepTTL {
		return encodeWritten(m.update(tx, c.key, cur, c.value))
	}
	next := row{value: c.value}
	if c.o.ttlMillis > 0 {
		next.flags, next.expiresAt = flagExpires, tx.Now()+c.o.ttlMillis
	}
	tx.Count(countSets, 1)
	return encodeWritten(m.replace(tx, c.key, cur, next))
}

// update writes a new value and keeps the expiry.
func (m *machine) update(tx *engine.Tx, k []byte, cur row, value []byte) Written {
	tx.Count(countSets, 1)
	return m.replace(tx, k, cur, row{flags: cur.flags & flagExpires, expiresAt: cur.expiresAt, value: value})
}

func (m *machine) incr(tx *engine.Tx, c *command, cur row) ([]byte, error) {
	var old int64
	present := cur.exists() && !cur.tombstone()
	if present {
		var err error
		if old, err = strconv.ParseInt(string(cur.value), 10, 64); err != nil {
			return nil, engine.Errorf(ErrInvalid, "kv: value of key %q is not a decimal integer", shown(string(c.key)))
		}
	}
	sum := old + c.delta
	if (sum > old) != (c.delta > 0) && c.delta != 0 {
		return nil, engine.Errorf(ErrInvalid, "kv: key %q: %d + %d leaves the int64 range", shown(string(c.key)), old, c.delta)
	}
	if sum < c.o.minV || sum > c.o.maxV {
		return nil, &BoundError{Key: string(c.key), Value: old, Delta: c.delta, Min: c.o.minV, Max: c.o.maxV}
	}
	c.value = strconv.AppendInt(nil, sum, 10)
	if present {
		m.update(tx, c.key, cur, c.value)
	} else {
		m.put(tx, c, cur)
	}
	return codec.AppendVarint(nil, sum), nil
}

func (m *machine) delete(tx *engine.Tx, c *command, cur row) []byte {
	tx.Count(countDeletes, 1)
	return encodeWritten(m.replace(tx, c.key, cur, row{flags: flagTombstone}))
}

func (m *machine) expire(tx *engine.Tx, k []byte, cur row) row {
	m.replace(tx, k, cur, row{flags: flagTombstone | flagExpired})
	b, _ := tx.Get(currentKey(m.buf[:0], tx.Namespace(), k))
	return mustDecode(b)
}

// touch changes the expiry of the present version in place.
func (m *machine) touch(tx *engine.Tx, c *command, cur row) []byte {
	m.unscheduleExpiry(tx, c.key, &cur)
	cur.flags, cur.expiresAt = cur.flags&^flagExpires, 0
	if c.o.ttlMillis > 0 {
		cur.flags, cur.expiresAt = cur.flags|flagExpires, tx.Now()+c.o.ttlMillis
	}
	if !plant.On(plant.EternalExpiry) {
		m.scheduleExpiry(tx, c.key, &cur)
	}
	m.setCurrent(tx, c.key, &cur)
	return encodeWritten(cur.written())
}

// replace is the one way in which a key gets a new version: next's value, flags and expiry are given, the rest follows
// from cur. It keeps history, timers, tombstones, counters and watchers in step.
func (m *machine) replace(tx *engine.Tx, k []byte, cur, next row) Written {
	next.revision, next.version, next.previous = uint64(tx.LSN()), cur.version+1, cur.revision
	next.term, next.updatedAt = tx.Term(), tx.Now()

	if cur.exists() && !plant.On(plant.LostVersion) {
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

// leave undoes what stands beside a version that stops being the present one.
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

// enter does what has to stand beside a version that becomes the present one.
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

// scheduleForget sets the namespace's timer, if it is not set: a key that comes and goes must not leave a timer each time.
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

// forget removes tombstones of keys deleted up to the given time, at most limit and until the command is Full, oldest first, with the keys' histories.
// It returns when the oldest one left was deleted, 0 if none is left.
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

// forgotten returns the highest revision of a tombstone that was forgotten, and none is left in front of it: looking for the oldest one
// from there on never walks over the remains of others.
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

// oldestVersion returns the first version that the history still holds.
func oldestVersion(newest uint64) uint64 {
	if newest <= MaxVersions {
		return 1
	}
	return newest - MaxVersions + 1
}

// Restore forgets what was in memory: it is rebuilt by use.
func (m *machine) Restore(v *engine.View) error {
	lsn, err := v.LSN()
	if err != nil {
		return err
	}
	m.recent.reset(lsn)
	return nil
}

// Committed remembers what changed, for watchers, and wakes those who wait.
func (m *machine) Committed(changes []engine.Change, wake engine.Waker) {
	if plant.On(plant.MissedChange) && len(changes) > 1 {
		changes = changes[1:]
	}
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
