package engine

import "github.com/floedb/floe/internal/codec"

// NewCommand returns a command that a machine sends, with a body that is not checked; see CommandRow. A machine does not use the row for that: the row refers to
// the function that sends the command.
func NewCommand[B any](m MachineID, kind uint8, name string, b *B, code func(*B, *codec.Fields), size int) Command {
	body := codec.AppendString(make([]byte, 0, len(name)+3+size), name)
	return Command{Machine: m, Kind: kind, Body: codec.EncodeFields(body, b, code)}
}
