package ts

import (
	"errors"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
	"github.com/floedb/floe/internal/points/line"
)

// batch is one batch of points to write: points of any measurements and series, in order of
// arrival.
//
// A series that is not in the cache is looked up in its shard, by the hash of its tags. If it does
// not exist, it is defined with its first points. Points refused because a cached series is stale
// are sent again, with definitions; see flush.
type batch struct {
	store *Store
	now   int64 // time of points without one, ms

	measurements []batchMeasurement
	byName       map[string]int
	series       []batchSeries
	byKey        map[string]int32
	rows         []batchRow
	values       []batchValue
	patient      bool       // temporary refusals are not final: flush returns ErrBusy
	fieldsBefore int        // number of fields of its measurement before the point begun last
	held         *line.Line // read for the next batch, as this one has no room for its fields; valid until the scanner moves
	shards       int        // of the node if the namespace is spread, else 0
	pending      int        // rows neither written nor refused

	result  *Result
	encoder points.Encoder
	scanner line.Scanner
}

type batchMeasurement struct {
	name    string
	fields  []field
	numbers map[string]uint16
	err     error // why none of its points can be written
}

type batchSeries struct {
	key         string
	measurement int32
	member      *member // nil: unknown
	tags        tagList // if it is unknown
	hash        [hashLen]byte
	fingerprint uint64
	shard       engine.ShardID
	identified  bool  // everything but member is known
	err         error // why none of its points can be written
}

// batchRow is a point.
type batchRow struct {
	series   int32
	at       int // the caller's index or line number
	time     int64
	from, to int32 // its values
	done     bool
}

type batchValue struct {
	field    uint16
	exponent uint8 // notDecimal: bits are those of a float64
	bits     int64 // a mantissa
}

const notDecimal = 0xff

// newBatch returns an empty batch. The caller must release it.
func (s *Store) newBatch(result *Result) *batch {
	b, _ := s.batches.Get().(*batch)
	if b == nil {
		b = &batch{store: s, byName: make(map[string]int), byKey: make(map[string]int32)}
	}
	b.result, b.now, b.held, b.patient = result, time.Now().UnixMilli(), nil, false
	return b
}

// release keeps the memory of the batch for reuse, unless it is too large.
func (b *batch) release() {
	b.reset()
	if b.result = nil; cap(b.values) <= 4*maxBatch && cap(b.series) <= maxBatch {
		b.store.batches.Put(b)
	}
}

// reset drops all points, and keeps memory.
func (b *batch) reset() {
	clear(b.byName)
	clear(b.byKey)
	clear(b.series)
	clear(b.measurements)
	b.measurements, b.series, b.rows, b.values, b.pending = b.measurements[:0], b.series[:0], b.rows[:0], b.values[:0], 0
}

// measurement returns the index of a measurement.
func (b *batch) measurement(name string) int32 {
	if i, ok := b.byName[name]; ok {
		return int32(i)
	}
	b.byName[name] = len(b.measurements)
	b.measurements = append(b.measurements, batchMeasurement{name: name, numbers: make(map[string]uint16), err: checkMeasurement(name)})
	return int32(len(b.measurements) - 1)
}

// member returns the index of a series by its key; false if it is not in the cache.
func (b *batch) member(key []byte) (int32, bool) {
	if i, ok := b.byKey[string(key)]; ok {
		return i, true
	}
	m := b.store.cache.get(key)
	if m == nil {
		return 0, false
	}
	i := int32(len(b.series))
	b.byKey[m.key] = i
	b.series = append(b.series, batchSeries{key: m.key, measurement: b.measurement(m.measurement), member: m, shard: m.shard})
	return i, true
}

// newSeries adds a series that is not in the cache.
func (b *batch) newSeries(key, measurement string, tags tagList, err error) int32 {
	i := int32(len(b.series))
	b.byKey[key] = i
	s := batchSeries{key: key, tags: tags, err: err}
	if s.err == nil {
		s.measurement = b.measurement(measurement)
		if s.err = b.measurements[s.measurement].err; s.err == nil {
			s.err = tags.check()
		}
	}
	b.series = append(b.series, s)
	return i
}

// field returns the number of a field in the batch, or an error if the measurement would have too
// many.
func (m *batchMeasurement) field(name []byte, kind FieldType, guess int) (uint16, error) {
	if guess < len(m.fields) && m.fields[guess].name == string(name) {
		return uint16(guess), nil
	}
	if n, ok := m.numbers[string(name)]; ok {
		return n, nil
	}
	if err := checkField(string(name)); err != nil {
		return 0, err
	}
	if len(m.fields) == MaxFields {
		return 0, &fullError{tooManyFieldsError(m.name, string(name))}
	}
	n := uint16(len(m.fields))
	m.fields = append(m.fields, field{string(name), kind})
	m.numbers[string(name)] = n
	return n, nil
}

// fullError reports that the batch has no room for the fields of a point. The measurement may still
// have room, because other points of the batch may be refused.
type fullError struct{ error }

func (e *fullError) Unwrap() error { return e.error }

// full reports whether a point is refused only because of earlier points in the batch.
func (b *batch) full(err error) bool {
	_, full := errors.AsType[*fullError](err)
	return full && b.pending > 0
}

func tooManyFieldsError(measurement, name string) error {
	return engine.Errorf(ErrInvalid, "measurement %q has %d fields, the limit: there is no room for %q", measurement, MaxFields, name)
}

// begin starts a point. The caller then adds its values and calls end. begin returns an error if
// the series cannot be written.
func (b *batch) begin(at int, series int32, time int64) error {
	if err := b.series[series].err; err != nil {
		return err
	}
	if time < minTime || time > maxTime {
		return engine.Errorf(ErrInvalid, "ts: time %d ms is out of range", time)
	}
	b.rows = append(b.rows, batchRow{series: series, at: at, time: time, from: int32(len(b.values))})
	b.fieldsBefore = len(b.measurements[b.series[series].measurement].fields)
	return nil
}

// Bounds of times, in ms since the epoch.
const (
	minTime = points.MinTime
	maxTime = points.MaxTime
)

// abandon discards the current point and the fields it added, so that they do not use up room.
func (b *batch) abandon() {
	last := len(b.rows) - 1
	m := &b.measurements[b.series[b.rows[last].series].measurement]
	for _, f := range m.fields[b.fieldsBefore:] {
		delete(m.numbers, f.name)
	}
	m.fields = m.fields[:b.fieldsBefore]
	b.values = b.values[:b.rows[last].from]
	b.rows = b.rows[:last]
}

// end ends a point.
func (b *batch) end() {
	b.rows[len(b.rows)-1].to = int32(len(b.values))
	b.pending++
}

// refuse records a refused point.
func (b *batch) refuse(at int, err error) {
	b.result.Refused++
	if len(b.result.Errors) < MaxErrors {
		b.result.Errors = append(b.result.Errors, PointError{At: at, Err: err})
	}
}

func (b *batch) refuseRow(i int32, err error) {
	b.rows[i].done = true
	b.pending--
	b.refuse(b.rows[i].at, err)
}
