package ts

import (
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// In a spread namespace a measurement is counted at its home, the shard of its name, even if it has
// no series there. Any other shard that creates a part announces it to the home, and withdraws it
// when the part is deleted. Both messages use one lane, so an announcement that arrives after the
// deletion is soon withdrawn.

// fields codes an announcement, the body of a shard's message to the home of a measurement.
func (a *announcement) fields(f *codec.Fields) {
	codec.Narrow(f, "shard", &a.shard)
	f.Uvarint("incarnation", (*uint64)(&a.inc))
}

func (m *machine) tellHome(tx *engine.Tx, kind uint8, o *open) {
	body := codec.EncodeFields(codec.AppendString(nil, o.name), &announcement{tx.Shard(), o.inc}, (*announcement).fields)
	cmd := engine.Command{Machine: engine.MachineTS, Kind: kind, Spread: true, Namespace: tx.NamespaceName(), Body: body}
	tx.Send(engine.Message{Command: cmd, Name: o.name})
}

// announced creates a measurement at its home, unless it exists.
func (s *session) announced(a *announcement) error {
	o := s.load(s.tx, s.name)
	if o == nil {
		o = s.found(s.tx, s.name)
	}
	s.touch(s.tx, o)
	o.elsewhere = append(o.elsewhere, *a)
	s.saveMeasurement(s.tx, o)
	return nil
}

// withdrawn removes a measurement from its home if no shard has a part of it.
func (s *session) withdrawn(a *announcement) error {
	o := s.load(s.tx, s.name)
	if o == nil {
		return nil
	}
	i := slices.Index(o.elsewhere, *a)
	if i < 0 {
		return nil // it has been recreated since
	}
	s.touch(s.tx, o)
	if o.elsewhere = slices.Delete(o.elsewhere, i, i+1); len(o.elsewhere) == 0 && o.hollow() {
		s.remove(s.tx, o)
		return nil
	}
	s.saveMeasurement(s.tx, o)
	return nil
}

// hollow reports whether the measurement was never written to in this shard.
func (o *open) hollow() bool { return o.content.nextSeries == 0 }
