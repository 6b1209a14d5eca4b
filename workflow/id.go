package workflow

import (
	"encoding/base32"
	"strings"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

const idPrefix = "wfr-"

// idEncoding uses only digits and lower-case letters.
var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// runLocation is the content of a RunID that floe assigned.
type runLocation struct {
	shard     engine.ShardID
	run       uint64
	tag       uint16
	namespace string
}

func (p *runLocation) code(c *codec.Coder) {
	c.Uint16((*uint16)(&p.shard))
	c.Uvarint(&p.run)
	high, low := byte(p.tag>>8), byte(p.tag)
	c.Byte(&high)
	c.Byte(&low)
	p.tag = uint16(high)<<8 | uint16(low)
	c.String(&p.namespace)
}

func (p runLocation) id() RunID {
	return RunID(idPrefix + idEncoding.EncodeToString(encode(nil, &p, (*runLocation).code)))
}

// own reports whether the id has the form of ids that floe assigns.
func (id RunID) own() bool { return strings.HasPrefix(string(id), idPrefix) }

// parse parses an id that floe assigned. Errors: ErrInvalid.
func (id RunID) parse() (p runLocation, err error) {
	if text, ok := strings.CutPrefix(string(id), idPrefix); ok {
		if b, err := idEncoding.DecodeString(text); err == nil {
			if p, err := decode(b, (*runLocation).code); err == nil && p.id() == id {
				return p, nil
			}
		}
	}
	return runLocation{}, engine.Errorf(ErrInvalid, "workflow: %.64q is not a run id", string(id))
}

// Namespace returns the namespace of the run. ok is false for an id that the caller of Start chose,
// because it does not contain the namespace.
func (id RunID) Namespace() (namespace string, ok bool) {
	p, err := id.parse()
	return p.namespace, err == nil
}

// checkRunID returns an error for an invalid id chosen by a caller.
func checkRunID(id string) error {
	switch {
	case len(id) > MaxRunID:
		return engine.Errorf(ErrInvalid, "workflow: run id of %d bytes exceeds %d", len(id), MaxRunID)
	case RunID(id).own():
		return engine.Errorf(ErrInvalid, "workflow: run id %.64q: the prefix %s is reserved", id, idPrefix)
	}
	return engine.CheckName("run id", id)
}
