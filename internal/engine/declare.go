package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/floedb/floe/internal/codec"
)

// CommandRow declares one kind of command of a primitive. B is its body, R its result, and S the
// object that the machine opens by name before it applies the command. In the log a body is the
// name (uvarint length, bytes) followed by the fields of B. A result is the fields of R. A row must
// be passed to Declare before use.
//
//	var pause = &engine.CommandRow[*session, pauseBody, engine.Nothing]{
//		Kind: kindPause, Name: "pause", From: engine.FromUsers, Body: (*pauseBody).code, Run: (*session).pause,
//	}
type CommandRow[S, B, R any] struct {
	Kind    uint8
	Name    string
	From    Senders
	Shrinks bool // see CommandType
	Unnamed bool // bodies have no name in front; Op, Make, Do and Send take a route instead

	// Body codes the fields of the body; nil means it has none. Ranges are checked when a body is
	// built or decoded.
	Body func(b *B, f *codec.Fields)
	// Check validates what ranges cannot express. It is optional, like all fields below, except
	// that one of Apply, Run and Encoded is required.
	Check func(b *B) error
	// Admit validates a body from another process, beyond what the functions that build bodies here
	// ensure.
	Admit func(b *B) error
	// Named validates the name, if necessary against the body. The default is the function passed
	// to Declare.
	Named func(b *B, name string) error
	// Route returns the route of an unnamed command, from its body. The default is the name.
	Route func(b *B) string
	// Limit validates commands sent by users. Commands of other machines may exceed it.
	Limit func(b *B) error
	// Payload returns the size of the largest value or payload in bytes, which max_value_size
	// bounds.
	Payload func(b *B) int
	// Reset empties a body for reuse and keeps its memory. By default the body is zeroed.
	Reset func(b *B)
	// Size estimates the encoded size of the body in bytes. The default suits small bodies.
	Size func(b *B) int
	// Limited stores max_value_size in a body that carries it; see Op.Limited.
	Limited func(b *B, maxPayload int)
	// Makes returns the maximum number of items that the command can make available to takers
	// waiting on its name; see Maker.
	Makes func(b *B) int
	// Apply executes the command.
	Apply func(s S, b *B) (R, error)
	// Run is Apply for a command that returns nothing.
	Run func(s S, b *B) error
	// Encoded is Apply for a command that encodes its own result.
	Encoded func(s S, b *B) ([]byte, error)
	// Result codes the fields of the result; nil means it has none.
	Result func(r *R, f *codec.Fields)

	of        *declared
	kept      sync.Pool // of *call[S, B, R]
	decodeAny func(result []byte) (any, error)
}

// Nothing is the type of an empty body or result.
type Nothing = struct{}

// declared holds the data shared by the rows of a primitive.
type declared struct {
	machine   MachineID
	primitive string
	checkName func(string) error
}

// RawRow declares a kind of command that only other machines send and whose body the machine
// decodes itself.
type RawRow[S any] struct {
	Kind    uint8
	Name    string
	From    Senders
	Shrinks bool
	AtHome  bool
}

func (r RawRow[S]) join(*declared) CommandType {
	return CommandType{Kind: r.Kind, Name: r.Name, From: r.From, Shrinks: r.Shrinks, AtHome: r.AtHome}
}

func (r RawRow[S]) newCall() Call[S]                   { return nil }
func (r RawRow[S]) makes(Command) (name []byte, n int) { return nil, 0 }

// Row is a CommandRow or a RawRow.
type Row[S any] interface {
	join(d *declared) CommandType
	newCall() Call[S]
	makes(cmd Command) (name []byte, n int)
}

// CommandRows are commands of a primitive, ordered by kind. Kinds are consecutive, beginning with
// that of the first row.
type CommandRows[S any] struct {
	rows  []Row[S]
	types []CommandType
}

// place returns the index of a kind's row, or false if the kind is unknown.
func (c *CommandRows[S]) place(kind uint8) (i int, ok bool) {
	i = int(kind) - int(c.types[0].Kind)
	return i, i >= 0 && i < len(c.rows)
}

// Declare returns the commands of a primitive. checkName validates their names.
func Declare[S any](m MachineID, primitive string, checkName func(string) error, rows ...Row[S]) *CommandRows[S] {
	d := &declared{m, primitive, checkName}
	c := &CommandRows[S]{rows: rows}
	for _, r := range rows {
		c.types = append(c.types, r.join(d))
	}
	return c
}

// Types returns the commands for the primitive's table. The caller may modify the slice.
func (c *CommandRows[S]) Types() []CommandType { return slices.Clone(c.types) }

// Makes returns a command's name and the maximum number of items that it can make available to
// takers waiting on that name, 0 if it is malformed. The name aliases the body.
func (c *CommandRows[S]) Makes(cmd Command) (name []byte, n int) {
	i, ok := c.place(cmd.Kind)
	if !ok {
		return nil, 0
	}
	return c.rows[i].makes(cmd)
}

// Calls decodes the commands that one machine applies, reusing the memory of each kind.
type Calls[S any] struct {
	of    *CommandRows[S]
	calls []Call[S]
}

// NewCalls returns the Calls of one machine.
func (c *CommandRows[S]) NewCalls() Calls[S] {
	calls := Calls[S]{of: c}
	for _, r := range c.rows {
		calls.calls = append(calls.calls, r.newCall())
	}
	return calls
}

// Read decodes and validates a command. The call aliases its body and is valid until the next Read.
func (c Calls[S]) Read(cmd Command) (Call[S], error) {
	i, ok := c.of.place(cmd.Kind)
	if !ok || c.calls[i] == nil {
		return nil, unknownCommand(cmd)
	}
	return c.calls[i], c.calls[i].read(cmd.Body)
}

// Call is a decoded command.
type Call[S any] interface {
	read(body []byte) error
	// Subject returns the command's name, which aliases the body.
	Subject() []byte
	// Apply executes the command and returns its encoded result.
	Apply(s S) ([]byte, error)
}

type call[S, B, R any] struct {
	row    *CommandRow[S, B, R]
	name   []byte
	body   B
	result R      // see Decode
	out    []byte // the encoded result, before it is copied
}

func (c *call[S, B, R]) Subject() []byte { return c.name }

func (c *call[S, B, R]) Apply(s S) ([]byte, error) {
	result, err := c.apply(s)
	c.row.empty(&c.body) // it aliases the command
	return result, err
}

func (c *call[S, B, R]) apply(s S) ([]byte, error) {
	r := c.row
	switch {
	case r.Run != nil:
		return nil, r.Run(s, &c.body)
	case r.Encoded != nil:
		return r.Encoded(s, &c.body)
	}
	var err error
	c.result, err = r.Apply(s, &c.body)
	encode := err == nil && r.Result != nil
	if encode {
		c.out = codec.EncodeFields(c.out[:0], &c.result, r.Result)
	}
	if c.result = *new(R); !encode {
		return nil, err
	}
	result := slices.Clone(c.out)
	if cap(c.out) > maxKept {
		c.out = nil
	}
	return result, nil
}

// maxKept bounds the buffer that is kept for encoding results of one kind of command, in bytes.
const maxKept = 1 << 20

// read decodes a body. It empties the previous one first, since optional fields would keep their
// values.
func (c *call[S, B, R]) read(b []byte) (err error) {
	r := c.row
	r.empty(&c.body)
	in := codec.NewReader(b)
	if !r.Unnamed {
		c.name = in.Bytes()
	}
	if r.Body == nil || in.Err() != nil {
		err = in.Done()
	} else {
		err = codec.DecodeFields(in.Rest(), &c.body, r.Body)
	}
	switch {
	case err == nil:
		return r.check(&c.body, true)
	case errors.Is(err, codec.ErrCorrupt):
		return Errorf(ErrMalformed, "%s: command: %v", r.of.primitive, err)
	}
	return r.refusal(err)
}

// check validates a body that was built here or decoded.
func (r *CommandRow[S, B, R]) check(b *B, decoded bool) error {
	if r.Body != nil {
		if err := codec.CheckFields(b, decoded, r.Body); err != nil {
			return r.refusal(err)
		}
	}
	if r.Check != nil {
		return r.Check(b)
	}
	return nil
}

// refusal wraps the error of a field as ErrInvalid of the primitive.
func (r *CommandRow[S, B, R]) refusal(err error) error {
	if refused := (*Error)(nil); errors.As(err, &refused) {
		return err
	}
	return Errorf(ErrInvalid, "%s: %v", r.of.primitive, err)
}

func (r *CommandRow[S, B, R]) newCall() Call[S] { return &call[S, B, R]{row: r} }

// decode calls f with a decoded body, which f must not retain. Errors: ErrMalformed, ErrInvalid.
func (r *CommandRow[S, B, R]) decode(body []byte, f func(name []byte, b *B)) error {
	c := r.take()
	err := c.read(body)
	if err == nil {
		f(c.name, &c.body)
	}
	r.giveBack(c)
	return err
}

// Read decodes a command that is not being applied. The result aliases its body. Errors:
// ErrMalformed, ErrInvalid.
func (r *CommandRow[S, B, R]) Read(cmd Command) (name []byte, b B, err error) {
	c := call[S, B, R]{row: r}
	err = c.read(cmd.Body)
	return c.name, c.body, err
}

func (r *CommandRow[S, B, R]) makes(cmd Command) (name []byte, n int) {
	if r.Makes == nil {
		return nil, 0
	}
	if r.decode(cmd.Body, func(of []byte, b *B) { name, n = of, r.Makes(b) }) != nil {
		return nil, 0
	}
	return name, n
}

func (r *CommandRow[S, B, R]) join(d *declared) CommandType {
	r.of = d
	r.Unnamed = r.Unnamed || r.Route != nil
	r.decodeAny = func(result []byte) (any, error) {
		decoded, err := r.Decode(result)
		if r.Result == nil {
			return nil, err
		}
		return decoded, err
	}
	t := CommandType{Kind: r.Kind, Name: r.Name, From: r.From, Shrinks: r.Shrinks}
	if r.From&FromUsers != 0 {
		t.Admit = r.admit
	}
	t.Fields = func() []codec.Field {
		if r.Body == nil {
			return nil
		}
		return codec.Describe(func(f *codec.Fields) { r.Body(new(B), f) })
	}
	t.Show, t.Parse = r.show, r.parse
	return t
}

// admit validates a command that a user sent from another process.
func (r *CommandRow[S, B, R]) admit(cmd Command, maxPayload int) (err error) {
	bad := r.decode(cmd.Body, func(name []byte, b *B) {
		if err = r.limit(b, maxPayload); err == nil {
			err = r.checkName(b, string(name))
		}
		if err == nil && r.Admit != nil {
			err = r.Admit(b)
		}
	})
	if bad != nil {
		return bad
	}
	return err
}

func (r *CommandRow[S, B, R]) checkName(b *B, name string) error {
	switch {
	case r.Unnamed:
		return nil
	case r.Named != nil:
		return r.Named(b, name)
	}
	return r.of.checkName(name)
}

func (r *CommandRow[S, B, R]) limit(b *B, maxPayload int) error {
	if r.Payload != nil {
		if err := CheckPayload(r.Payload(b), maxPayload); err != nil {
			return err
		}
	}
	if r.Limit != nil {
		return r.Limit(b)
	}
	return nil
}

// show appends a command's body as JSON.
func (r *CommandRow[S, B, R]) show(dst []byte, cmd Command, encode64 bool) (_ []byte, err error) {
	err = r.decode(cmd.Body, func(_ []byte, b *B) {
		dst, _ = codec.AppendJSON(dst, encode64, func(f *codec.Fields) {
			if r.Body != nil {
				r.Body(b, f)
			}
		})
	})
	return dst, err
}

// parse returns the operation that JSON describes.
func (r *CommandRow[S, B, R]) parse(name string, src []byte, decode64 bool) Op {
	b := new(B)
	err := codec.ReadJSON(src, decode64, func(f *codec.Fields) {
		if r.Body != nil {
			r.Body(b, f)
		}
	})
	if err != nil {
		return r.Op(name, *b, r.refusal(err))
	}
	return r.Make(name, func(body *B) error {
		if *body = *b; r.Admit == nil {
			return nil
		}
		if err := r.check(body, false); err != nil {
			return err
		}
		return r.Admit(body)
	})
}

// Op returns an operation with a body. A non-nil err, from the caller's validation, becomes the
// operation's error.
func (r *CommandRow[S, B, R]) Op(name string, b B, err error) Op {
	c := r.take()
	kept := c.body // what b refers to belongs to the caller and must not be reused
	op := r.make(name, &c.body, func(body *B) error {
		*body = b
		return err
	})
	c.body = kept
	r.giveBack(c)
	return op
}

// Make is Op for a body that fill builds in reused memory. An error of fill becomes the operation's
// error.
func (r *CommandRow[S, B, R]) Make(name string, fill func(b *B) error) Op {
	c := r.take()
	op := r.make(name, &c.body, fill)
	r.giveBack(c)
	return op
}

func (r *CommandRow[S, B, R]) make(name string, b *B, fill func(b *B) error) Op {
	op := Op{Command: Command{Machine: r.of.machine, Kind: r.Kind}, Route: name, Decode: r.decodeAny}
	if r.Named == nil {
		op.Err = r.checkName(b, name)
	}
	if op.Err == nil {
		op.Err = fill(b)
	}
	if op.Err == nil && r.Named != nil {
		op.Err = r.Named(b, name)
	}
	if op.Err == nil {
		op.Err = r.check(b, false)
	}
	if op.Err == nil && r.Route != nil {
		op.Route = r.Route(b)
	}
	if op.Err == nil && r.Limit != nil {
		op.Err = r.Limit(b)
	}
	if op.Err == nil && r.Payload != nil {
		op.Payload = r.Payload(b)
	}
	switch {
	case op.Err != nil:
	case r.Limited != nil:
		unlimited := *b
		op.Limited = func(maxPayload int) []byte {
			limited := unlimited
			r.Limited(&limited, maxPayload)
			return r.encode(name, &limited)
		}
	default:
		op.Command.Body = r.encode(name, b)
	}
	return op
}

func (r *CommandRow[S, B, R]) encode(name string, b *B) []byte {
	size := bodyRoom
	if r.Size != nil {
		size = r.Size(b)
	}
	body := make([]byte, 0, len(name)+3+size)
	if !r.Unnamed {
		body = codec.AppendString(body, name)
	}
	if r.Body != nil {
		body = codec.EncodeFields(body, b, r.Body)
	}
	return body
}

// bodyRoom is enough for most bodies without a payload.
const bodyRoom = 32

// Do proposes the operation to the shard of the name. Errors: those of Propose.
func (r *CommandRow[S, B, R]) Do(ctx context.Context, s *Scope, name string, b B, err error) (R, error) {
	return Propose(ctx, s, r.Op(name, b, err), r.Decode)
}

// Send is Do for a body that fill builds; see Make.
func (r *CommandRow[S, B, R]) Send(ctx context.Context, s *Scope, name string, fill func(b *B) error) (R, error) {
	return Propose(ctx, s, r.Make(name, fill), r.Decode)
}

// Decode decodes a result, which it aliases.
func (r *CommandRow[S, B, R]) Decode(result []byte) (decoded R, err error) {
	if r.Result == nil {
		in := codec.NewReader(result)
		return decoded, in.Done()
	}
	c := r.take()
	err = codec.DecodeFields(result, &c.result, r.Result)
	decoded = c.result
	r.giveBack(c)
	return decoded, err
}

// take returns an empty call from the pool. giveBack returns it there.
func (r *CommandRow[S, B, R]) take() *call[S, B, R] {
	if c, ok := r.kept.Get().(*call[S, B, R]); ok {
		return c
	}
	return &call[S, B, R]{row: r}
}

func (r *CommandRow[S, B, R]) empty(b *B) {
	if r.Reset != nil {
		r.Reset(b)
	} else {
		*b = *new(B)
	}
}

func (r *CommandRow[S, B, R]) giveBack(c *call[S, B, R]) {
	r.empty(&c.body)
	c.name, c.result = nil, *new(R)
	r.kept.Put(c)
}
