package engine

import "github.com/floedb/floe/internal/codec"

// MachineRow declares a kind of command that only other machines send. Its body B has no name in
// front. A Coder codes it, because it is often a record of another package.
type MachineRow[S, B any] struct {
	Kind    uint8
	Name    string
	From    Senders
	Shrinks bool

	// Body codes the body.
	Body func(b *B, c *codec.Coder)
	// Apply executes the command and returns its encoded result.
	Apply func(s S, b *B) ([]byte, error)

	of *declared
}

func (r *MachineRow[S, B]) join(d *declared) CommandType {
	r.of = d
	return CommandType{Kind: r.Kind, Name: r.Name, From: r.From, Shrinks: r.Shrinks}
}

func (r *MachineRow[S, B]) newCall() Call[S]                   { return &machineCall[S, B]{row: r} }
func (r *MachineRow[S, B]) makes(Command) (name []byte, n int) { return nil, 0 }

type machineCall[S, B any] struct {
	row  *MachineRow[S, B]
	in   codec.Coder
	body B
}

func (c *machineCall[S, B]) read(b []byte) error {
	c.in, c.body = codec.NewDecoder(b), *new(B)
	c.row.Body(&c.body, &c.in)
	if err := c.in.Done(); err != nil {
		return Errorf(ErrMalformed, "%s: command: %v", c.row.of.primitive, err)
	}
	return nil
}

func (c *machineCall[S, B]) Subject() []byte { return nil }

func (c *machineCall[S, B]) Apply(s S) ([]byte, error) {
	result, err := c.row.Apply(s, &c.body)
	c.in, c.body = codec.Coder{}, *new(B) // do not retain the command
	return result, err
}

// NewCommand returns a command that a machine sends, with an unchecked body; see CommandRow. A
// machine cannot use the row, because the row refers to the function that sends the command, which
// would be an initialization cycle.
func NewCommand[B any](m MachineID, kind uint8, name string, b *B, code func(*B, *codec.Fields), size int) Command {
	body := codec.AppendString(make([]byte, 0, len(name)+3+size), name)
	return Command{Machine: m, Kind: kind, Body: codec.EncodeFields(body, b, code)}
}
