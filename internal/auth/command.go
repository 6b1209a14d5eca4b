package auth

import (
	"crypto/sha256"
	"time"
	"unicode/utf8"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands.
const (
	kindBootstrap uint8 = iota + 1 // creates the key store with a first key
	kindCreate
	kindRevoke
	kindEnd  // ends a session before it expires
	kindUsed // records when keys were used
	kindMake // records which namespaces a key is about to create
)

// The commands of keys. Ending a session is allowed on a full disk, because it writes few rows and
// has the effect of a revocation.
var (
	bootstrap = &engine.CommandRow[*change, storedKey, engine.Nothing]{
		Kind: kindBootstrap, Name: "bootstrap", From: engine.FromUsers, Body: (*storedKey).fields, Check: (*storedKey).check,
		Run: (*change).bootstrap,
	}
	create = &engine.CommandRow[*change, storedKey, engine.Nothing]{
		Kind: kindCreate, Name: "create key", From: engine.FromUsers, Body: (*storedKey).fields, Check: (*storedKey).check,
		Run: (*change).create,
	}
	revoke = &engine.CommandRow[*change, engine.Nothing, engine.Nothing]{
		Kind: kindRevoke, Name: "revoke key", From: engine.FromUsers, Shrinks: true, Run: (*change).revoke,
	}
	end = &engine.CommandRow[*change, endBody, engine.Nothing]{
		Kind: kindEnd, Name: "end session", From: engine.FromUsers, Shrinks: true, Body: (*endBody).code, Run: (*change).end,
	}
	used = &engine.CommandRow[*change, usedBody, engine.Nothing]{
		Kind: kindUsed, Name: "keys used", From: engine.FromUsers, Route: func(*usedBody) string { return "" }, Body: (*usedBody).code,
		Run: (*change).used,
	}
	makes = &engine.CommandRow[*change, makeBody, engine.Nothing]{
		Kind: kindMake, Name: "namespaces of a key", From: engine.FromUsers, Body: (*makeBody).code, Run: (*change).makes,
	}
)

var commands = engine.Declare(engine.MachineKeys, "key", checkID, bootstrap, create, revoke, end, used, makes)

// fields codes a new key without its ID.
func (k *storedKey) fields(f *codec.Fields) {
	k.codeFields(f)
	c := f.Binary()
	switch {
	case c == nil:
		f.Time("expires_at_ms", &k.Expires)
	case c.More(!k.Expires.IsZero()):
		if c.Time(&k.Expires); k.Expires.IsZero() {
			c.Fail("key that expires at no time")
		}
	case c.Reading():
		k.Expires = time.Time{}
	}
}

// codeFields codes the fields of every key except its ID.
func (k *storedKey) codeFields(f *codec.Fields) {
	f.Text("name", &k.Name)
	codec.Enum(f, "role", &k.Role, roleNames)
	codec.ListOf(f, "namespaces", &k.Namespaces, codec.Text)
	f.Hex("secret_hash", k.proof.hash[:])
	f.Hex("public_key", k.proof.public[:])
}

// codeTime codes a time that may be zero. The zero time has two encodings; codeTime rejects the
// longer one.
func codeTime(f *codec.Fields, name string, t *time.Time) {
	c := f.Binary()
	if c == nil {
		f.Time(name, t)
		return
	}
	before := c.Left()
	if c.Time(t); t.IsZero() && before-c.Left() > 1 {
		c.Fail("zero time with milliseconds")
	}
}

// endBody ends a session of a key.
type endBody struct {
	hash [sha256.Size]byte // of the token
	ends time.Time         // when the session would have ended
}

func (e *endBody) code(f *codec.Fields) {
	f.Hex("token_hash", e.hash[:])
	codeTime(f, "ends_at_ms", &e.ends)
}

// usedBody records when keys were used.
type usedBody struct{ keys []use }

// use is the time at which a key was used.
type use struct {
	id string
	at time.Time
}

func (u *usedBody) code(f *codec.Fields) {
	codec.ListOf(f, "keys", &u.keys, func(one *use, f *codec.Fields) {
		f.Text("id", &one.id)
		if codeTime(f, "at_ms", &one.at); f.Checking() && !utf8.ValidString(one.id) {
			f.Refuse(engine.Errorf(engine.ErrInvalid, "key: id %.64q is not valid UTF-8", one.id))
		}
	}, codec.Range{Max: MaxKeys})
}

// makeBody lists the namespaces that a key is about to create.
type makeBody struct{ namespaces []string }

func (m *makeBody) code(f *codec.Fields) {
	codec.ListOf(f, "namespaces", &m.namespaces, func(ns *string, f *codec.Fields) {
		if codec.Text(ns, f); f.Checking() {
			f.Refuse(engine.CheckWritable(*ns))
		}
	}, codec.Range{Max: MaxMade})
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

// Primitive returns the table of the key machine.
func Primitive() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineKeys, Name: "keys", New: newMachine, Global: true, Commands: commands.Types(),
		Queries: []engine.QueryType{engine.QueryRow(queryKeys, "keys", (*machine).queryKeys)},
	}
}

const queryKeys uint8 = 1

// keysQuery returns all keys.
type keysQuery struct {
	wait bool   // wait for a change
	not  uint64 // the revision to wait past
	used bool   // include Key.Used

	// Results.
	exists   bool // whether there is a key store
	revision uint64
	keys     []storedKey // by id
	ended    [][sha256.Size]byte
}

// storedKey is a key as stored.
type storedKey struct {
	Key
	proof proof
}

// code codes a row: key | proof | created (time) | expires (time), omitted if it never expires.
func (k *storedKey) code(c *codec.Coder) {
	k.codeKey(c)
	if c.More(!k.Expires.IsZero()) {
		c.Time(&k.Expires)
	}
}

func (k *storedKey) codeKey(c *codec.Coder) {
	c.String(&k.ID)
	c.String(&k.Name)
	c.Byte((*uint8)(&k.Role))
	codec.List(c, &k.Namespaces, (*codec.Coder).String)
	codeBytes(c, k.proof.hash[:])
	codeBytes(c, k.proof.public[:])
	c.Time(&k.Created)
}

func codeBytes(c *codec.Coder, b []byte) {
	for i := range b {
		c.Byte(&b[i])
	}
}

// codeAnswer codes a key in an answer.
func (k *storedKey) codeAnswer(f *codec.Fields) {
	f.Text("id", &k.ID)
	k.codeFields(f)
	f.Time("created_at_ms", &k.Created)
	f.Time("expires_at_ms", &k.Expires)
	f.Time("used_at_ms", &k.Used)
}

// Machine returns engine.MachineKeys.
func (*keysQuery) Machine() engine.MachineID { return engine.MachineKeys }

// Kind returns the query's kind within the machine.
func (*keysQuery) Kind() uint8 { return queryKeys }

// Arguments codes the arguments of the query.
func (q *keysQuery) Arguments(f *codec.Fields) {
	f.Bool("wait", &q.wait)
	f.Uvarint("not_revision", &q.not)
	f.Bool("with_use", &q.used)
}

// Results codes the answer.
func (q *keysQuery) Results(f *codec.Fields) {
	f.Bool("exists", &q.exists)
	f.Uvarint("revision", &q.revision)
	codec.ListOf(f, "keys", &q.keys, (*storedKey).codeAnswer)
	codec.ListOf(f, "ended_sessions", &q.ended, func(hash *[sha256.Size]byte, f *codec.Fields) { f.Hex("", hash[:]) })
}
