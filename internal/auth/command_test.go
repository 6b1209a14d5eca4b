package auth

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// commandOf returns a command with an arbitrary body.
func commandOf[B, R any](row *engine.CommandRow[*change, B, R], id string, b B) engine.Command {
	var body []byte
	if row.Route == nil {
		body = codec.AppendString(nil, id)
	}
	if row.Body != nil {
		body = codec.EncodeFields(body, &b, row.Body)
	}
	return engine.Command{Machine: engine.MachineKeys, Kind: row.Kind, Body: body}
}

func withKey(row *engine.CommandRow[*change, storedKey, engine.Nothing], k Key) engine.Command {
	return commandOf(row, k.ID, storedKey{Key: k})
}
