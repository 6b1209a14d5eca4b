package action

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// body encodes the body of a command, including invalid ones.
func body[B, R any](row *engine.CommandRow[*work, B, R], name string, b B) []byte {
	var dst []byte
	if !row.Unnamed {
		dst = codec.AppendString(nil, name)
	}
	return codec.EncodeFields(dst, &b, row.Body)
}

// read decodes the body of a command without a name.
func read[B, R any](row *engine.CommandRow[*work, B, R], b []byte) (B, error) {
	_, v, err := row.Read(engine.Command{Kind: row.Kind, Body: b})
	return v, err
}

// command returns an operation with any body.
func command(kind uint8, route string, body []byte) engine.Op {
	return engine.Op{Command: engine.Command{Machine: engine.MachineAction, Kind: kind, Body: body}, Route: route}
}

// admit validates a command of another process.
func admit(cmd engine.Command, maxPayload int) error {
	return commandTypes()[cmd.Kind-1].Admit(cmd, maxPayload)
}
