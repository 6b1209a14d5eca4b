package ts

import (
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// In a spread namespace a measurement is counted at its home, the shard of its name, also if it has no series there: whatever other shard makes a part of
// it announces that, and withdraws it when the part is deleted. Both travel in one lane, so that an announcement which arrives when all has been
// deleted is withdrawn soon, and leaves nothing behind.

// homeCommand is the body of what a shard tells the home of a measurement.
type homeCommand struct {
	name string
	announcement
}

func (h *homeCommand) code(c *codec.Coder) {
	c.String(&h.name)
	h.announcement.code(c)
}

func (m *machine) tellHome(tx *engine.Tx, kind uint8, o *open) {
	h := homeCommand{o.name, announcement{tx.Shard(), o.inc}}
	cmd := engine.Command{
		Machine: engine.MachineTS, Kind: kind, Spread: true, Namespace: tx.NamespaceName(), Body: encode(nil, &h, (*homeCommand).code),
	}
	tx.Send(engine.Message{Command: cmd, Name: o.name})
}

// announced makes a measurement at its home, unless it is there.
func (m *machine) announced(tx *engine.Tx, body []byte) error {
	h, err := decodeBody(body, (*homeCommand).code)
	if err != nil {
		return err
	}
	o := m.load(tx, h.name)
	if o == nil {
		o = m.found(tx, h.name)
	}
	m.touch(tx, o)
	o.elsewhere = append(o.elsewhere, h.announcement)
	m.saveMeasurement(tx, o)
	return nil
}

// withdrawn removes a measurement from its home that is nowhere else any more, and has never been here.
func (m *machine) withdrawn(tx *engine.Tx, body []byte) error {
	h, err := decodeBody(body, (*homeCommand).code)
	if err != nil {
		return err
	}
	o := m.load(tx, h.name)
	if o == nil {
		return nil
	}
	i := slices.Index(o.elsewhere, h.announcement)
	if i < 0 {
		return nil // it was made anew since
	}
	m.touch(tx, o)
	if o.elsewhere = slices.Delete(o.elsewhere, i, i+1); len(o.elsewhere) == 0 && o.hollow() {
		m.remove(tx, o)
		return nil
	}
	m.saveMeasurement(tx, o)
	return nil
}

// hollow reports whether nothing of the measurement was ever written here.
func (o *open) hollow() bool { return o.content.nextSeries == 0 }
