package auth

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands.
const (
	kindBootstrap uint8 = iota + 1 // makes the key store, with a first key
	kindCreate
	kindRevoke
)

// createCommand is the body of kindBootstrap and kindCreate.
type createCommand struct {
	key   Key // but for Created
	proof proof
}

func (c *createCommand) code(e *codec.Coder) {
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

func admit(cmd engine.Command, _ int) (err error) {
	if cmd.Kind == kindRevoke {
		_, err = decodeRevoke(cmd)
	} else {
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
		},
		Queries: []engine.QueryType{{Kind: queryKeys, Name: "keys", New: engine.NewQuery[keysQuery]}},
	}
}

const queryKeys uint8 = 1

// keysQuery asks for all keys.
type keysQuery struct {
	wait bool   // until something has changed
	not  uint64 // since this revision

	// Results.
	exists   bool // there is a key store
	revision uint64
	keys     []storedKey // by id
}

// storedKey is a key as the state has it.
type storedKey struct {
	Key
	proof proof
}

// code codes a row: key | created (time) | proof.
func (k *storedKey) code(c *codec.Coder) {
	create := createCommand{key: k.Key, proof: k.proof}
	created := k.Created
	create.code(c)
	c.Time(&created)
	k.Key, k.proof = create.key, create.proof
	k.Created = created
}

// Machine returns engine.MachineKeys.
func (*keysQuery) Machine() engine.MachineID { return engine.MachineKeys }

// Kind tells the query from other ones of the machine.
func (*keysQuery) Kind() uint8 { return queryKeys }

// Arguments codes what the query asks for.
func (q *keysQuery) Arguments(c *codec.Coder) {
	c.Bool(&q.wait)
	c.Uvarint(&q.not)
}

// Results codes the answer.
func (q *keysQuery) Results(c *codec.Coder) {
	c.Bool(&q.exists)
	c.Uvarint(&q.revision)
	codec.List(c, &q.keys, func(c *codec.Coder, k *storedKey) { k.code(c) })
}
