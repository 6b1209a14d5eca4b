package engine

import "github.com/floedb/floe/internal/codec"

// MachineRow declares a kind of command that only other machines send. Its body B need not start with a
// name: often it is a record of another package, so a Coder codes it.
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

func (c *machineCall[S, B]) Apply(s S) ([]byte, error) { return c.row.Apply(s, &c.body) }
