package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Rows of the machine, in shard 0:
//
//	's'                store: revision uvarint (LSN of the last change) | keys uvarint | admins among them that never expire uvarint
//	'k' | id           storedKey
//	'u' | id           when the key was used: ms uvarint; none before the first use. Not a change: it wakes no waiters
//	'n' | id | name    a namespace that the key has created, or was about to; empty
//	'x' | id | hash    session of a key that was ended before its time, by the hash of its token: when it would have ended, ms uvarint
//
// The key store exists once the first key has been created. It is permanent and always has an admin
// key that never expires, so that administrators cannot lock themselves out.
const (
	rowStore = 's'
	rowKeys  = 'k'
	rowUsed  = 'u'
	rowMade  = 'n'
	rowEnded = 'x'
)

// machine is the state machine of keys.
type machine struct{ calls engine.Calls[*change] }

func newMachine() engine.Machine { return &machine{commands.NewCalls()} }

// Restore does nothing: the machine has no state in memory.
func (machine) Restore(*engine.View) error { return nil }

// OnTimer panics: the machine sets no timers.
func (machine) OnTimer(*engine.Tx, []byte) { panic("keys: a timer") }

// store is the row of the key store.
type store struct{ revision, keys, admins uint64 }

func (s *store) code(c *codec.Coder) {
	c.Uvarint(&s.revision)
	c.Uvarint(&s.keys)
	c.Uvarint(&s.admins)
}

func keyRow(id string) []byte  { return append([]byte{rowKeys}, id...) }
func usedRow(id string) []byte { return append([]byte{rowUsed}, id...) }

// rowsOf returns the bounds of a key's rows of one kind. All IDs have the same length.
func rowsOf(kind byte, id string) (lower, upper []byte) {
	lower = append([]byte{kind}, id...)
	return lower, key.PrefixEnd(lower)
}

// ms is a row with a time, in ms since the epoch.
type ms uint64

func (m *ms) code(c *codec.Coder) { c.Uvarint((*uint64)(m)) }

func changed() engine.Topic { return engine.TopicOf(engine.MachineKeys, "", nil) }

func loadStore(tx *engine.Tx) (s store, exists bool) {
	row, exists := tx.Get([]byte{rowStore})
	if exists {
		mustDecode(row, s.code)
	}
	return s, exists
}

func mustDecode(row []byte, code func(*codec.Coder)) {
	if err := decode(row, code); err != nil {
		panic(fmt.Sprintf("keys: row: %v", err))
	}
}

func (s *store) save(tx *engine.Tx) {
	s.revision = uint64(tx.LSN())
	tx.Set([]byte{rowStore}, encode(s.code))
	tx.Notify(changed(), -1)
}

// Apply applies a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	call, err := m.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	return call.Apply(&change{tx, string(call.Subject())})
}

// change is a command that is being applied.
type change struct {
	tx *engine.Tx
	id string // of the key
}

func (c *change) bootstrap(k *storedKey) error { return c.add(k, true) }
func (c *change) create(k *storedKey) error    { return c.add(k, false) }

// add adds a key; first means that it creates the key store.
func (c *change) add(k *storedKey, first bool) error {
	tx := c.tx
	if err := checkID(c.id); err != nil {
		return err
	}
	s, exists := loadStore(tx)
	switch {
	case first && exists:
		return errStore
	case !first && !exists:
		return errNoStore
	case first && k.Role != Admin:
		return engine.Errorf(engine.ErrInvalid, "the first key must have the role admin")
	case first && !k.Expires.IsZero():
		return engine.Errorf(engine.ErrInvalid, "the first key cannot expire")
	case !k.Expires.IsZero() && k.Expires.UnixMilli() <= tx.Now():
		return engine.Errorf(engine.ErrInvalid, "key: expiry %s is not in the future", k.Expires.UTC().Format(time.RFC3339))
	case s.keys >= MaxKeys:
		return engine.Errorf(engine.ErrBusy, "there are %d keys, the limit is %d: revoke some", s.keys, MaxKeys)
	}
	if _, there := tx.Get(keyRow(c.id)); there {
		return engine.Errorf(engine.ErrExists, "there is a key %s already", c.id)
	}
	k.ID, k.Created = c.id, time.UnixMilli(tx.Now())
	tx.Set(keyRow(k.ID), encode(k.code))
	s.keys++
	if k.lasting() {
		s.admins++
	}
	s.save(tx)
	return nil
}

var errStore = engine.Errorf(engine.ErrExists, "a key store already exists: create further keys with an admin key")

var errNoStore = engine.Errorf(engine.ErrConflict, "no key store yet: create one with floe server bootstrap")

func (c *change) revoke(_ *engine.Nothing) error {
	tx := c.tx
	s, exists := loadStore(tx)
	if !exists {
		return errNoStore
	}
	row, there := tx.Get(keyRow(c.id))
	if !there {
		return engine.Errorf(engine.ErrNotFound, "there is no key %.64q", c.id)
	}
	var k storedKey
	mustDecode(row, k.code)
	if k.lasting() {
		if s.admins == 1 {
			return engine.Errorf(engine.ErrConflict, "%s is the last admin key that never expires: create another one first", k.ID)
		}
		s.admins--
	}
	tx.Delete(keyRow(k.ID))
	if _, there := tx.Get(usedRow(k.ID)); there {
		tx.Delete(usedRow(k.ID))
	}
	for _, kind := range []byte{rowMade, rowEnded} {
		lower, upper := rowsOf(kind, k.ID)
		if _, _, there := tx.First(lower, upper); there {
			tx.DeleteMany(lower, upper)
		}
	}
	s.keys--
	s.save(tx)
	return nil
}

// lasting reports whether the key is an admin key that never expires.
func (k *Key) lasting() bool { return k.Role == Admin && k.Expires.IsZero() }

// end records that a session was ended. It removes the records of expired sessions.
func (c *change) end(e *endBody) error {
	tx := c.tx
	s, exists := loadStore(tx)
	if _, there := tx.Get(keyRow(c.id)); !exists || !there || e.ends.UnixMilli() <= tx.Now() {
		return nil // it has expired already
	}
	lower, upper := rowsOf(rowEnded, c.id)
	row := append(append([]byte(nil), lower...), e.hash[:]...)
	if _, there := tx.Get(row); there {
		return nil
	}
	var over [][]byte
	it, n := tx.Iter(lower, upper), 0
	for ok := it.First(); ok; ok = it.Next() {
		var ends ms
		mustDecode(it.Value(), ends.code)
		if n++; int64(ends) <= tx.Now() {
			over = append(over, append([]byte(nil), it.Key()...))
		}
	}
	it.Close()
	if n-len(over) >= MaxEnded {
		return engine.Errorf(engine.ErrBusy,
			"session: %d sessions of key %s were ended, the limit is %d: the first of them are forgotten when their time is over", MaxEnded,
			c.id, MaxEnded)
	}
	for _, row := range over {
		tx.Delete(row)
	}
	ends := ms(e.ends.UnixMilli())
	tx.Set(row, encode(ends.code))
	s.save(tx)
	return nil
}

// used records when keys were used, keeping the latest time of each. Times of a node whose clock is
// ahead are capped at now.
func (c *change) used(u *usedBody) error {
	tx := c.tx
	for _, one := range u.keys {
		if _, there := tx.Get(keyRow(one.id)); !there {
			continue
		}
		at, had := ms(max(min(one.at.UnixMilli(), tx.Now()), 0)), ms(0)
		if row, there := tx.Get(usedRow(one.id)); there {
			mustDecode(row, had.code)
		}
		if at > had {
			tx.Set(usedRow(one.id), encode(at.code))
		}
	}
	return nil
}

// makes records namespaces that a key is about to create, all or none. A namespace that is already
// recorded does not count again, even if it was never created.
func (c *change) makes(m *makeBody) error {
	tx := c.tx
	if _, there := tx.Get(keyRow(c.id)); !there {
		return engine.Errorf(engine.ErrUnauthorized, "there is no key %.64q", c.id)
	}
	lower, upper := rowsOf(rowMade, c.id)
	made := make(map[string]bool)
	it := tx.Iter(lower, upper)
	for ok := it.First(); ok; ok = it.Next() {
		made[string(it.Key()[len(lower):])] = true
	}
	it.Close()
	for _, ns := range m.namespaces {
		if made[ns] {
			continue
		}
		if made[ns] = true; len(made) > MaxMade {
			return madeAll(c.id, ns)
		}
		tx.Set(append(slices.Clip(lower), ns...), nil)
	}
	return nil
}

func (*machine) queryKeys(v *engine.View, q *keysQuery) error {
	if v.Shard() != engine.GlobalShard {
		return engine.Errorf(engine.ErrInvalid, "keys: they are in shard %d, not %d", engine.GlobalShard, v.Shard())
	}
	if q.wait {
		if err := v.WaitApart(changed()); err != nil {
			return err
		}
	}
	v.Freeze()
	row, exists, err := v.Get([]byte{rowStore})
	if err != nil {
		return err
	}
	q.exists, q.revision, q.keys, q.ended = exists, 0, nil, nil
	if exists {
		var s store
		if err := decode(row, s.code); err != nil {
			return fmt.Errorf("keys: row: %w", err)
		}
		q.revision = s.revision
	}
	if q.wait && q.revision <= q.not {
		return engine.ErrWait
	}
	it, err := v.Iter([]byte{rowKeys}, []byte{rowKeys + 1})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		var k storedKey
		if err := decode(it.Value(), k.code); err != nil {
			it.Close()
			return fmt.Errorf("keys: row: %w", err)
		}
		q.keys = append(q.keys, k)
	}
	if err := it.Close(); err != nil {
		return err
	}
	if q.used {
		return q.readUsed(v)
	}
	return q.readEnded(v)
}

func (q *keysQuery) readUsed(v *engine.View) error {
	for i := range q.keys {
		row, there, err := v.Get(usedRow(q.keys[i].ID))
		if err != nil {
			return err
		}
		if there {
			var at ms
			if err := decode(row, at.code); err != nil {
				return fmt.Errorf("keys: row: %w", err)
			}
			q.keys[i].Used = time.UnixMilli(int64(at))
		}
	}
	return nil
}

func (q *keysQuery) readEnded(v *engine.View) error {
	it, err := v.Iter([]byte{rowEnded}, []byte{rowEnded + 1})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		var hash [sha256.Size]byte
		copy(hash[:], it.Key()[1+2*idBytes:])
		q.ended = append(q.ended, hash)
	}
	return it.Close()
}

// Verify reports invalid rows.
func (machine) Verify(a *engine.Audit) error {
	var s store
	row, exists, err := a.Get([]byte{rowStore})
	if err != nil {
		return err
	}
	if exists {
		if err := decode(row, s.code); err != nil {
			a.Reportf("keys: store row: %v", err)
			return nil
		}
	}
	var keys, admins uint64
	err = a.Scan([]byte{rowKeys}, []byte{rowKeys + 1}, func(row, value []byte) error {
		var k storedKey
		if err := decode(value, k.code); err != nil {
			a.Reportf("keys: row %q: %v", row, err)
			return nil
		}
		if err := errors.Join(checkID(k.ID), k.check()); err != nil || string(keyRow(k.ID)) != string(row) {
			a.Reportf("keys: row %q is of key %q: %v", row, k.ID, err)
		}
		keys++
		if k.lasting() {
			admins++
		}
		return nil
	})
	if err == nil {
		err = verifyTimes(a)
	}
	if err == nil {
		err = verifyMade(a)
	}
	if err == nil && (keys != s.keys || admins != s.admins || exists && admins == 0) {
		a.Reportf("keys: %d keys, %d of admins; the store counts %d and %d", keys, admins, s.keys, s.admins)
	}
	return err
}

// verifyTimes reports malformed rows of uses and ended sessions, and rows of missing keys.
func verifyTimes(a *engine.Audit) error {
	for _, kind := range []struct {
		first  byte
		what   string
		length int
	}{{rowUsed, "use", 1 + 2*idBytes}, {rowEnded, "ended session", 1 + 2*idBytes + sha256.Size}} {
		err := a.Scan([]byte{kind.first}, []byte{kind.first + 1}, func(row, value []byte) error {
			var at ms
			if err := decode(value, at.code); err != nil || len(row) != kind.length {
				a.Reportf("keys: row of a %s %q: %d bytes, want %d, %v", kind.what, row, len(row), kind.length, err)
				return nil
			}
			_, there, err := a.Get(keyRow(string(row[1 : 1+2*idBytes])))
			if err == nil && !there {
				a.Reportf("keys: row of a %s %q: there is no such key", kind.what, row)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyMade reports invalid rows of created namespaces, and rows of missing keys.
func verifyMade(a *engine.Audit) error {
	const id = 2 * idBytes
	counts := make(map[string]int)
	err := a.Scan([]byte{rowMade}, []byte{rowMade + 1}, func(row, value []byte) error {
		if len(row) <= 1+id || len(value) > 0 || engine.CheckWritable(string(row[1+id:])) != nil {
			a.Reportf("keys: row of a namespace %q: value of %d bytes", row, len(value))
			return nil
		}
		of := string(row[1 : 1+id])
		if counts[of]++; counts[of] > 1 {
			return nil
		}
		_, there, err := a.Get(keyRow(of))
		if err == nil && !there {
			a.Reportf("keys: row of a namespace %q: there is no such key", row)
		}
		return err
	})
	for of, n := range counts {
		if n > MaxMade {
			a.Reportf("keys: key %s has created %d namespaces, the limit is %d", of, n, MaxMade)
		}
	}
	return err
}
