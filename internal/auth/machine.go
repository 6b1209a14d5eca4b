package auth

import (
	"fmt"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/plant"
)

// Rows of the machine, in shard 0:
//
//	's'          store: revision uvarint (LSN of the last change) | keys uvarint | unrestricted admins among them uvarint
//	'k' | id     storedKey
//
// There is a key store when there is the first one. It never goes away, and keeps an admin key, so that nobody locks himself out.
const (
	rowStore = 's'
	rowKeys  = 'k'
)

// machine is the state machine of keys.
type machine struct{}

// Restore does nothing: the machine remembers nothing.
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

func keyRow(id string) []byte { return append([]byte{rowKeys}, id...) }

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

// Apply carries out a command.
func (machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if cmd.Kind == kindRevoke {
		return nil, revoke(tx, cmd)
	}
	return nil, create(tx, cmd)
}

func create(tx *engine.Tx, cmd engine.Command) error {
	c, err := decodeCreate(cmd)
	if err != nil {
		return err
	}
	s, exists := loadStore(tx)
	switch first := cmd.Kind == kindBootstrap; {
	case first && exists && !plant.On(plant.SecondStore):
		return errStore
	case !first && !exists:
		return errNoStore
	case first && c.key.Role != Admin:
		return engine.Errorf(engine.ErrInvalid, "the first key has to be an admin's")
	case s.keys >= MaxKeys:
		return engine.Errorf(engine.ErrBusy, "there are %d keys, the limit is %d: revoke some", s.keys, MaxKeys)
	}
	if _, there := tx.Get(keyRow(c.key.ID)); there {
		return engine.Errorf(engine.ErrExists, "there is a key %s already", c.key.ID)
	}
	k := storedKey{Key: c.key, proof: c.proof}
	k.Created = time.UnixMilli(tx.Now())
	tx.Set(keyRow(k.ID), encode(k.code))
	s.keys++
	if k.Role == Admin {
		s.admins++
	}
	s.save(tx)
	return nil
}

var errStore = engine.Errorf(engine.ErrExists, "there is a key store already: its admins create further keys")

var errNoStore = engine.Errorf(engine.ErrConflict, "there is no key store yet: make one with floe server bootstrap")

func revoke(tx *engine.Tx, cmd engine.Command) error {
	r, err := decodeRevoke(cmd)
	if err != nil {
		return err
	}
	s, exists := loadStore(tx)
	if !exists {
		return errNoStore
	}
	row, there := tx.Get(keyRow(r.id))
	if !there {
		return engine.Errorf(engine.ErrNotFound, "there is no key %.64q", r.id)
	}
	var k storedKey
	mustDecode(row, k.code)
	if k.Role == Admin {
		if s.admins == 1 && !plant.On(plant.LastAdminGoes) {
			return engine.Errorf(engine.ErrConflict, "%s is the last admin key: create another one first", k.ID)
		}
		if !plant.On(plant.AdminsStay) {
			s.admins--
		}
	}
	tx.Delete(keyRow(k.ID))
	s.keys--
	s.save(tx)
	return nil
}

// Query answers a keysQuery.
func (machine) Query(v *engine.View, query engine.Query) error {
	q, ok := query.(*keysQuery)
	if !ok {
		return fmt.Errorf("keys: unknown query %T", query)
	}
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
	q.exists, q.revision, q.keys = exists, 0, nil
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
	return it.Close()
}

// Verify reports rows that no commands can have made.
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
		if err := k.check(); err != nil || string(keyRow(k.ID)) != string(row) {
			a.Reportf("keys: row %q is of key %q: %v", row, k.ID, err)
		}
		keys++
		if k.Role == Admin {
			admins++
		}
		return nil
	})
	if err == nil && (keys != s.keys || admins != s.admins || exists && admins == 0) {
		a.Reportf("keys: %d keys, %d of admins; the store counts %d and %d", keys, admins, s.keys, s.admins)
	}
	return err
}
