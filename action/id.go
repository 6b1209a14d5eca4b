package action

import (
	"encoding/base32"
	"encoding/binary"
	"strings"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

const idPrefix = "run-"

// idEncoding uses only digits and lower-case letters.
var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// runLocation is the content of a RunID: shard | action | run | tag (uvarints). The shard has the
// namespace of the action.
type runLocation struct {
	shard engine.ShardID
	protocol.Ref
}

func (p *runLocation) code(c *codec.Coder) {
	c.Uint16((*uint16)(&p.shard))
	p.Ref.Code(c)
}

func (p runLocation) id() RunID {
	var bytes, text [64]byte
	b := binary.AppendUvarint(bytes[:0], uint64(p.shard)) // as code does
	b = binary.AppendUvarint(binary.AppendUvarint(b, p.Action), p.Run)
	b = binary.BigEndian.AppendUint16(b, p.Tag)
	return RunID(idEncoding.AppendEncode(append(text[:0], idPrefix...), b))
}

// parse reads an id. Errors: ErrInvalid.
func (id RunID) parse() (runLocation, error) {
	if text, ok := strings.CutPrefix(string(id), idPrefix); ok {
		if b, err := idEncoding.DecodeString(text); err == nil {
			if p, err := decode(b, (*runLocation).code); err == nil && p.id() == id {
				return p, nil
			}
		}
	}
	return runLocation{}, engine.Errorf(ErrInvalid, "action: invalid run id %.64q", string(id))
}
