package protocol

// The reads in this file are for duties: they read rows of another machine in their own shard, as
// of their view. The machine that owns the rows implements the interfaces.

import (
	"fmt"

	"github.com/floedb/floe/internal/engine"
)

// Stream is the state of a stream in a view.
type Stream struct {
	ID         uint64 // a stream that is created again under the same name gets a greater one
	Partitions []Partition
	reader     RecordReader
}

// Partition is the state of a partition. It has the records with offsets First to Last without
// gaps, or none if First is Last + 1.
type Partition struct {
	Here        bool // in this shard; else the other fields are not set
	First, Last uint64
	LastID      RecordID // of the newest record it ever had, zero without one
}

// RecordID is the id of a record.
type RecordID struct {
	Millis int64
	Seq    uint64
}

// Compare returns -1, 0 or 1 if the id is before, equal to or after another.
func (id RecordID) Compare(other RecordID) int {
	switch {
	case id == other:
		return 0
	case id.Millis < other.Millis || id.Millis == other.Millis && id.Seq < other.Seq:
		return -1
	}
	return 1
}

// Record is a record of a stream. Its bytes are immutable and may be kept.
type Record struct {
	ID      RecordID
	Offset  uint64
	LSN     uint64 // of the command that appended it
	Key     string
	Headers map[string]string
	Payload []byte
}

// RecordReader reads the records of one stream.
type RecordReader interface {
	// Read calls f with the records of a partition in this shard, starting at an existing offset,
	// until f returns false. f must not keep the pointer.
	Read(partition int, from uint64, f func(*Record) bool) error
	// Find returns the offset of the first record for which behind is true, or Last + 1. behind
	// must be false for all earlier records. The record passed to it has no key, headers or
	// payload.
	Find(partition int, behind func(*Record) bool) (uint64, error)
}

// Read is RecordReader.Read.
func (s *Stream) Read(partition int, from uint64, f func(*Record) bool) error {
	return s.reader.Read(partition, from, f)
}

// Find is RecordReader.Find.
func (s *Stream) Find(partition int, behind func(*Record) bool) (uint64, error) {
	return s.reader.Find(partition, behind)
}

// StreamOpener is implemented by engine.MachineStream.
type StreamOpener interface {
	// OpenStream returns a stream of a view of the machine's rows, nil if it does not exist.
	OpenStream(v *engine.View, namespace, name string) (*Stream, RecordReader, error)
}

// OpenStream returns a stream, nil if it does not exist. v is a view of another machine and must
// outlive the stream.
func OpenStream(v *engine.View, namespace, name string) (*Stream, error) {
	beside, m := v.Beside(engine.MachineStream)
	o, ok := m.(StreamOpener)
	if !ok {
		return nil, fmt.Errorf("machine %d has no streams", engine.MachineStream)
	}
	s, r, err := o.OpenStream(beside, namespace, name)
	if s != nil {
		s.reader = r
	}
	return s, err
}

// StreamTopic is notified by each append to a stream, and when it is created or deleted.
func StreamTopic(namespace, name string) engine.Topic {
	return engine.TopicOf(engine.MachineStream, namespace, []byte(name))
}

// QueueRoomTopic is notified when a bounded queue has room again or its bounds change.
func QueueRoomTopic(namespace, name string) engine.Topic {
	return engine.TopicOf(engine.MachineQueue, namespace, []byte("\x00room "+name))
}

// RoomReader is implemented by engine.MachineQueue.
type RoomReader interface {
	// ReadRoom returns the room of a queue in a view of the machine's rows.
	ReadRoom(v *engine.View, namespace, name string) (QueueRoom, error)
}

// QueueRoom is the number of messages and bytes that a queue accepts, math.MaxInt64 if it has no
// bounds or does not exist.
type QueueRoom struct {
	Messages, Bytes       int64 // until it is full
	MaxMessages, MaxBytes int64 // when it is empty
}

// ReadRoom returns the room of a queue. v is a view of another machine.
func ReadRoom(v *engine.View, namespace, name string) (QueueRoom, error) {
	beside, m := v.Beside(engine.MachineQueue)
	queues, ok := m.(RoomReader)
	if !ok {
		return QueueRoom{}, fmt.Errorf("machine %d has no queues", engine.MachineQueue)
	}
	return queues.ReadRoom(beside, namespace, name)
}

// ValueReader is implemented by engine.MachineKV.
type ValueReader interface {
	// ReadValue returns the value of a key in a view of the machine's rows, nil if it does not
	// exist or has expired. now is in ms.
	ReadValue(v *engine.View, namespace string, key []byte, now int64) ([]byte, error)
}

// ReadValues returns the values of keys, nil for each key that does not exist. v is a view of
// another machine.
func ReadValues(v *engine.View, namespace string, keys []string) ([][]byte, error) {
	beside, m := v.Beside(engine.MachineKV)
	values, ok := m.(ValueReader)
	if !ok {
		return nil, fmt.Errorf("machine %d has no keys", engine.MachineKV)
	}
	all, now := make([][]byte, len(keys)), v.Now()
	for i, k := range keys {
		var err error
		if all[i], err = values.ReadValue(beside, namespace, []byte(k), now); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Samples selects the points of a field with From <= time < To (ms) in the series of a measurement
// that have all Tags.
type Samples struct {
	Namespace, Measurement, Field string
	Tags                          map[string]string
	From, To                      int64
}

// Sample is a point.
type Sample struct {
	Time  int64 // ms
	Value float64
	Tags  [][2]string // of its series, in order of their names
}

// SampleReader is implemented by engine.MachineTS.
type SampleReader interface {
	// ReadSamples returns points of a view of the machine's rows in no particular order, and
	// whether there are more. A measurement that does not exist has none.
	ReadSamples(v *engine.View, s *Samples) (found []Sample, more bool, err error)
	// CountLate counts the points before From that were written after an LSN and are not sealed.
	CountLate(v *engine.View, s *Samples, since uint64) (int64, error)
}

// Read returns points in no particular order, and whether there are more. v is a view of another
// machine.
func (s *Samples) Read(v *engine.View) (found []Sample, more bool, err error) {
	beside, samples, err := sampler(v)
	if err != nil {
		return nil, false, err
	}
	return samples.ReadSamples(beside, s)
}

// Late counts the points before From that were written after since, the LSN of the caller's last
// read, and are therefore late. Sealed points are not counted.
func (s *Samples) Late(v *engine.View, since uint64) (int64, error) {
	beside, samples, err := sampler(v)
	if err != nil {
		return 0, err
	}
	return samples.CountLate(beside, s, since)
}

func sampler(v *engine.View) (*engine.View, SampleReader, error) {
	beside, m := v.Beside(engine.MachineTS)
	samples, ok := m.(SampleReader)
	if !ok {
		return nil, nil, fmt.Errorf("machine %d has no time series", engine.MachineTS)
	}
	return beside, samples, nil
}
