package workflow

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/rawjson"
)

// MaxAttributeBytes is the maximum length of a search attribute's string.
const MaxAttributeBytes = 255

// Search attributes in keys: name (key.AppendString) | type u8 | value, ordered by value.

// appendAttribute appends an attribute with its value.
func appendAttribute(dst []byte, name string, value any) []byte {
	dst = key.AppendString(dst, []byte(name))
	switch v := value.(type) {
	case string:
		return key.AppendString(append(dst, byte(flow.AttributeString)), []byte(v))
	case float64:
		return key.AppendUint64(append(dst, byte(flow.AttributeNumber)), orderedFloat(v))
	case time.Time:
		return key.AppendInt64(append(dst, byte(flow.AttributeTimestamp)), v.UnixMilli())
	}
	panic("workflow: an attribute of no type")
}

// orderedFloat maps numbers to integers of the same order; -0 is 0.
func orderedFloat(v float64) uint64 {
	b := math.Float64bits(v + 0)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

func floatOf(ordered uint64) float64 {
	if ordered>>63 != 0 {
		return math.Float64frombits(ordered &^ (1 << 63))
	}
	return math.Float64frombits(^ordered)
}

// parseAttribute decodes the output of appendAttribute.
func parseAttribute(s string) (name string, value any, ok bool) {
	b, rest, ok := key.CutString([]byte(s))
	if !ok || len(rest) == 0 {
		return "", nil, false
	}
	name = string(b)
	kind, rest := flow.AttributeKind(rest[0]), rest[1:]
	switch {
	case kind == flow.AttributeString:
		v, rest, ok := key.CutString(rest)
		return name, string(v), ok && len(rest) == 0
	case kind == flow.AttributeNumber && len(rest) == 8:
		return name, floatOf(binary.BigEndian.Uint64(rest)), true
	case kind == flow.AttributeTimestamp && len(rest) == 8:
		return name, time.UnixMilli(key.Int64(rest)), true
	}
	return "", nil, false
}

func attributeKey(dst []byte, ns uint32, attribute string, run uint64) []byte {
	return key.AppendUint64(append(namespaceKey(dst, rowAttribute, ns), attribute...), run)
}

// setAttributes sets the search attributes of a starting run. Errors: ErrInvalid for a value of the
// wrong type.
func (l *live) setAttributes() error {
	for i := range l.def.Attributes {
		a := &l.def.Attributes[i]
		value, err := l.attribute(a)
		if err != nil {
			return err
		}
		if value != nil {
			l.setAttribute(a.Name, value)
		}
	}
	return nil
}

// setAttribute sets an attribute that the run does not have yet.
func (l *live) setAttribute(name string, value any) {
	s := string(appendAttribute(nil, name, value))
	l.attributes = append(l.attributes, s)
	l.tx.Set(attributeKey(nil, l.tx.Namespace(), s, l.run), nil)
}

// attribute returns the value of an attribute, nil if the run has none.
func (l *live) attribute(a *flow.Attribute) (value any, err error) {
	raw := a.From.Append(nil, l)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	ok := false
	switch a.Kind {
	case flow.AttributeString:
		var s string
		if s, ok = rawjson.Text(raw); ok && len(s) > MaxAttributeBytes {
			return nil, engine.Errorf(ErrInvalid, "search attribute %q: %d bytes exceed %d", a.Name, len(s), MaxAttributeBytes)
		}
		value = s
	case flow.AttributeNumber:
		value, ok = rawjson.Number(raw)
	case flow.AttributeTimestamp:
		var ms int64
		ms, ok = rawjson.Time(raw)
		value = time.UnixMilli(ms)
	}
	if !ok {
		return nil, engine.Errorf(ErrInvalid, "search attribute %q: %.64q is no %s", a.Name, raw, attributeKinds[a.Kind])
	}
	return value, nil
}

var attributeKinds = [...]string{flow.AttributeString: "string", flow.AttributeNumber: "number", flow.AttributeTimestamp: "timestamp"}
