package ts

import (
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Limits of the rows that a shard caches.
const (
	maxMeasurements = 1 << 20   // of 100 bytes: one for each field, and some
	maxPrints       = 64 << 10  // rows of fingerprints, of a kilobyte each
	maxUnsealed     = 128 << 20 // unsealed bytes of blocks in a shard; beyond it writes are ErrBusy
)

// Triggers for sealing a measurement.
const (
	sealPoints = 1 << 20
	sealBytes  = 4 << 20
	sealAge    = 5 * 60 * 1000 // ms, see engine.Lead.Patience
)

// machine is the state machine of time series in one shard.
type machine struct {
	// Cached rows, owned by the applying goroutine.
	measurements *engine.Memory[measurementName, *open, struct{}]
	prints       *engine.Memory[printsPage, *[pageSeries]uint64, struct{}]

	unsealedBound int64 // maxUnsealed, except in tests
	calls         engine.Calls[*session]
	session       session
	buf, row      []byte
}

type measurementName struct {
	ns   uint32
	name string
}

type printsPage struct {
	inc  incarnation
	page uint32
}

// open is a measurement, read from its rows.
type open struct {
	inc incarnation
	measurement
	content content
	policy  policy
	numbers map[string]fieldID // of fields
}

func newMachine() engine.Machine {
	return &machine{
		measurements:  engine.NewMemory[measurementName, *open, struct{}](maxMeasurements, nil),
		prints:        engine.NewMemory[printsPage, *[pageSeries]uint64, struct{}](maxPrints, nil),
		unsealedBound: maxUnsealed,
		calls:         commands.NewCalls(),
	}
}

// Memories returns the caches of rows.
func (m *machine) Memories() []engine.Remembered {
	return []engine.Remembered{m.measurements, m.prints}
}

// Restore reads nothing, so opening takes the same time for a million series as for one.
func (m *machine) Restore(*engine.View) error { return nil }

// Apply applies a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	call, err := m.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	m.session = session{m, tx, string(call.Subject())}
	return call.Apply(&m.session)
}

// session is a command being applied.
type session struct {
	*machine
	tx   *engine.Tx
	name string // of the measurement; "" if the command is about no single one
}

// load returns a measurement, nil if it does not exist. Callers must touch it before changing it,
// and save it afterwards.
func (m *machine) load(tx *engine.Tx, name string) *open {
	at := measurementName{tx.Namespace(), name}
	if o, ok := m.measurements.Get(at); ok {
		return o
	}
	b, ok := tx.Get(nameKey(nil, rowName, at.ns, name))
	if !ok {
		return nil
	}
	o := &open{inc: incarnation(must(decodeCount(b)))}
	o.measurement = must(decodeMeasurement(m.existing(tx, incKey(nil, rowMeasurement, o.inc))))
	o.content = must(decodeContent(m.existing(tx, incKey(nil, rowContent, o.inc))))
	o.policy = m.loadPolicy(tx, name)
	o.numbers = make(map[string]fieldID, len(o.fields))
	for i, f := range o.fields {
		o.numbers[f.name] = fieldID(i)
	}
	m.measurements.Load(at, o, o.weight())
	return o
}

func (m *machine) existing(tx *engine.Tx, k []byte) []byte {
	b, ok := tx.Get(k)
	if !ok {
		panic(fmt.Sprintf("ts: missing row %x", k))
	}
	return b
}

func (m *machine) loadPolicy(tx *engine.Tx, name string) policy {
	b, ok := tx.Get(nameKey(nil, rowPolicy, tx.Namespace(), name))
	if !ok {
		return policy{next: 1}
	}
	return must(decodePolicy(b))
}

// exactly loads the measurement of a command about one incarnation. If it is not the current one,
// the command is refused.
func (s *session) exactly(inc incarnation) (*open, error) {
	o := s.load(s.tx, s.name)
	if o == nil || o.inc != inc {
		return nil, hasChanged(s.name)
	}
	return o, nil
}

func hasChanged(name string) error {
	return engine.Errorf(ErrConflict, "measurement %q has changed meanwhile", name)
}

// touch must be called before any change of the measurement.
func (m *machine) touch(tx *engine.Tx, o *open) {
	m.measurements.Change(tx, measurementName{o.ns, o.name}, o, struct{}{})
}

// weight is the weight of a measurement in memory.
func (o *open) weight() int { return 8 + len(o.fields) }

func (m *machine) saveContent(tx *engine.Tx, o *open) {
	m.buf, m.row = incKey(m.buf[:0], rowContent, o.inc), o.content.encode(m.row[:0])
	tx.Set(m.buf, m.row)
}

func (m *machine) saveMeasurement(tx *engine.Tx, o *open) {
	m.buf, m.row = incKey(m.buf[:0], rowMeasurement, o.inc), o.measurement.encode(m.row[:0])
	tx.Set(m.buf, m.row)
}

// found creates a measurement.
func (m *machine) found(tx *engine.Tx, name string) *open {
	o := &open{inc: incarnation(tx.Step()), content: newContent(), policy: m.loadPolicy(tx, name), numbers: make(map[string]fieldID)}
	o.measurement = measurement{ns: tx.Namespace(), name: name, createdAt: tx.Now(), partition: rawPartition}
	m.measurements.Replace(tx, measurementName{o.ns, name}, o, o.weight())
	tx.Insert(nameKey(nil, rowName, o.ns, name), encodeCount(nil, uint64(o.inc)))
	m.saveMeasurement(tx, o)
	m.armRetention(tx, o)
	if tx.Here(name) {
		tx.Count(countMeasurements, 1)
	} else {
		m.tellHome(tx, kindAnnounce, o)
	}
	return o
}

// deleteMeasurement removes a measurement with all its rows.
func (s *session) deleteMeasurement() error {
	o := s.load(s.tx, s.name)
	s.tx.Delete(nameKey(nil, rowPolicy, s.tx.Namespace(), s.name))
	if o == nil {
		if s.tx.Spread() {
			return nil // it is, or was, in another shard
		}
		return notFound(s.name)
	}
	s.remove(s.tx, o)
	return nil
}

// remove removes the shard's part of a measurement.
func (m *machine) remove(tx *engine.Tx, o *open) {
	m.touch(tx, o)
	for i := range ofIncarnation {
		prefix := incKey(nil, ofIncarnation[i], o.inc)
		tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	tx.Delete(nameKey(nil, rowName, o.ns, o.name))
	m.disarmRetention(tx, o)
	m.addUnsealed(tx, -o.content.blocks.bytes)
	if tx.Here(o.name) {
		tx.Count(countMeasurements, -1)
	} else {
		m.tellHome(tx, kindWithdraw, o)
	}
	tx.Count(countSeries, -int64(o.content.series))
	tx.Count(countPoints, -o.content.points)
	m.measurements.Remove(tx, measurementName{o.ns, o.name})
}

// unsealed returns the bytes of all unsealed blocks of the shard.
func (m *machine) unsealed(tx *engine.Tx) int64 {
	b, ok := tx.Get([]byte{rowUnsealed})
	if !ok {
		return 0
	}
	return int64(must(decodeCount(b)))
}

func (m *machine) addUnsealed(tx *engine.Tx, bytes int64) {
	if bytes != 0 {
		m.row = encodeCount(m.row[:0], uint64(m.unsealed(tx)+bytes))
		tx.Set([]byte{rowUnsealed}, m.row)
	}
}

// OnReply does nothing: messages between shards about policies and limits are only refused
// temporarily.
func (m *machine) OnReply(*engine.Tx, engine.Reply) {}

// maintenanceTopic wakes the duty.
func maintenanceTopic() engine.Topic {
	return engine.TopicOf(engine.MachineTS, "", []byte("maintenance"))
}
