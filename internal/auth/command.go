package auth

import (
	"crypto/sha256"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands.
const (
	kindBootstrap uint8 = iota + 1 // makes the key store, with a first key
	kindCreate
	kindRevoke
	kindEnd  // ends a session before its time
	kindUsed // notes when keys were used
	kindMake // notes which namespaces a key is about to create
)

// createCommand is the body of kindBootstrap and kindCreate.
type createCommand struct {
	key   Key // but for Created
	proof proof
}

func (c *createCommand) code(e *codec.Coder) {
	c.codeKey(e)
	if e.More(!c.key.Expires.IsZero()) {
		e.Time(&c.key.Expires)
	}
}

// codeKey codes what every key has.
func (c *createCommand) codeKey(e *codec.Coder) {
	e.String(&c.key.ID)
	e.String(&c.key.Name)
	role := uint8(c.key.Role)
	e.Byte(&role)
	c.key.Role = Role(role)
	codec.List(e, &c.key.Namespaces, (*codec.Coder).String)
	c.proof.code(e)
}

func (p *proof) code(c *codec.Coder) {
	for _, part := range [][]byte{p.hash[:], p.public[:]} {
		for i := range part {
			c.Byte(&part[i])
		}
	}
}

// revokeCommand is the body of kindRevoke.
type revokeCommand struct{ id string }

func (r *revokeCommand) code(c *codec.Coder) { c.String(&r.id) }

// endCommand is the body of kindEnd.
type endCommand struct {
	id   string            // of the key
	hash [sha256.Size]byte // of the token
	ends time.Time         // when the session would have ended
}

func (e *endCommand) code(c *codec.Coder) {
	c.String(&e.id)
	codeHash(c, &e.hash)
	c.Time(&e.ends)
}

func codeHash(c *codec.Coder, hash *[sha256.Size]byte) {
	for i := range hash {
		c.Byte(&hash[i])
	}
}

// usedCommand is the body of kindUsed.
type usedCommand struct{ keys []use }

// use says when a key was used.
type use struct {
	id string
	at time.Time
}

func (u *usedCommand) code(c *codec.Coder) {
	codec.List(c, &u.keys, func(c *codec.Coder, one *use) {
		c.String(&one.id)
		c.Time(&one.at)
	})
}

// makeCommand is the body of kindMake.
type makeCommand struct {
	id         string
	namespaces []string
}

func (m *makeCommand) code(c *codec.Coder) {
	c.String(&m.id)
	codec.List(c, &m.namespaces, (*codec.Coder).String)
}

func encode(code func(*codec.Coder)) []byte {
	c := codec.NewEncoder(nil)
	code(&c)
	return c.Encoded()
}

func decode(b []byte, code func(*codec.Coder)) error {
	c := codec.NewDecoder(b)
	code(&c)
	return c.Done()
}

func command(kind uint8, code func(*codec.Coder)) engine.Command {
	return engine.Command{Machine: engine.MachineKeys, Kind: kind, Body: encode(code)}
}

func decodeCreate(cmd engine.Command) (c createCommand, err error) {
	if err := decode(cmd.Body, c.code); err != nil {
		return c, engine.Errorf(engine.ErrMalformed, "key: command: %v", err)
	}
	return c, c.key.check()
}

func decodeRevoke(cmd engine.Command) (r revokeCommand, err error) {
	if err := decode(cmd.Body, r.code); err != nil {
		return r, engine.Errorf(engine.ErrMalformed, "key: command: %v", err)
	}
	return r, nil
}

func decodeEnd(cmd engine.Command) (e endCommand, err error) {
	if err := decode(cmd.Body, e.code); err != nil {
		return e, engine.Errorf(engine.ErrMalformed, "session: command: %v", err)
	}
	return e, nil
}

func decodeUsed(cmd engine.Command) (u usedCommand, err error) {
	if err := decode(cmd.Body, u.code); err != nil {
		return u, engine.Errorf(engine.ErrMalformed, "keys used: command: %v", err)
	}
	if len(u.keys) > MaxKeys {
		return u, engine.Errorf(engine.ErrInvalid, "keys used: %d keys, the limit is %d", len(u.keys), MaxKeys)
	}
	return u, nil
}

func decodeMake(cmd engine.Command) (m makeCommand, err error) {
	if err := decode(cmd.Body, m.code); err != nil {
		return m, engine.Errorf(engine.ErrMalformed, "namespaces of a key: command: %v", err)
	}
	if len(m.namespaces) > MaxMade {
		return m, engine.Errorf(engine.ErrInvalid, "namespaces of a key: %d of them, the limit is %d", len(m.namespaces), MaxMade)
	}
	for _, ns := range m.namespaces {
		if err := engine.CheckWritable(ns); err != nil {
			return m, err
		}
	}
	return m, nil
}

func admit(cmd engine.Command, _ int) (err error) {
	switch cmd.Kind {
	case kindMake:
		_, err = decodeMake(cmd)
	case kindRevoke:
		_, err = decodeRevoke(cmd)
	case kindEnd:
		_, err = decodeEnd(cmd)
	case kindUsed:
		_, err = decodeUsed(cmd)
	default:
		_, err = decodeCreate(cmd)
	}
	return err
}

// Primitive is the table of the machine of keys.
func Primitive() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineKeys, Name: "keys", New: func() engine.Machine { return machine{} }, Global: true,
		Commands: []engine.CommandType{
			{Kind: kindBootstrap, Name: "bootstrap", From: engine.FromUsers, Admit: admit},
			{Kind: kindCreate, Name: "create key", From: engine.FromUsers, Admit: admit},
			{Kind: kindRevoke, Name: "revoke key", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindEnd, Name: "end session", From: engine.FromUsers, Admit: admit, Shrinks: true}, // a few rows, as good as a revocation
			{Kind: kindUsed, Name: "keys used", From: engine.FromUsers, Admit: admit},
			{Kind: kindMake, Name: "namespaces of a key", From: engine.FromUsers, Admit: admit},
		},
		Queries: []engine.QueryType{{Kind: queryKeys, Name: "keys", New: engine.NewQuery[keysQuery]}},
	}
}

const queryKeys uint8 = 1

// keysQuery asks for all keys.
type keysQuery struct {
	wait bool   // until something has changed
	not  uint64 // since this revision
	used bool   // with Key.Used

	// Results.
	exists   bool // there is a key store
	revision uint64
	keys     []storedKey // by id
	ended    [][sha256.Size]byte
}

// storedKey is a key as the state has it.
type storedKey struct {
	Key
	proof proof
}

// code codes a row: key | proof | created (time) | expires (time), unless it never does.
func (k *storedKey) code(c *codec.Coder) {
	k.codeKey(c)
	if c.More(!k.Expires.IsZero()) {
		c.Time(&k.Expires)
	}
}

func (k *storedKey) codeKey(c *codec.Coder) {
	create := createCommand{key: k.Key, proof: k.proof}
	create.codeKey(c)
	k.Key, k.proof = create.key, create.proof
	c.Time(&k.Created)
}

// codeAnswer codes a key of an answer.
func (k *storedKey) codeAnswer(c *codec.Coder) {
	k.codeKey(c)
	c.Time(&k.Expires)
	c.Time(&k.Used)
}

// Machine returns engine.MachineKeys.
func (*keysQuery) Machine() engine.MachineID { return engine.MachineKeys }

// Kind tells the query from other ones of the machine.
func (*keysQuery) Kind() uint8 { return queryKeys }

// Arguments codes what the query asks for.
func (q *keysQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.wait)
	c.Uvarint(&q.not)
	c.Bool(&q.used)
}

// Results codes the answer.
func (q *keysQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.exists)
	c.Uvarint(&q.revision)
	codec.List(c, &q.keys, func(c *codec.Coder, k *storedKey) { k.codeAnswer(c) })
	codec.List(c, &q.ended, codeHash)
}
