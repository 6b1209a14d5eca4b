// Package feed is how duties of other machines read the records of streams, and values of keys, in their own shard and as of one moment: packages stream
// and kv do it, and nobody else knows how their rows look. Nothing here decides anything.
package feed

import (
	"fmt"

	"github.com/floedb/floe/internal/engine"
)

// Stream is a stream as a view sees it.
type Stream struct {
	ID         uint64 // of two streams of one name the later has the greater one
	Partitions []Partition
	reader     Reader
}

// Partition is what a partition holds: the records with offsets First to Last, which are without gaps; none if First is Last + 1.
type Partition struct {
	Here        bool // it is in this shard; of others nothing is known
	First, Last uint64
	LastID      ID // of the last record that it ever had, zero if there was none
}

// ID is that of a record.
type ID struct {
	Millis int64
	Seq    uint64
}

// Compare returns -1, 0 or 1 as the ID comes before, is, or comes behind another.
func (id ID) Compare(other ID) int {
	switch {
	case id == other:
		return 0
	case id.Millis < other.Millis || id.Millis == other.Millis && id.Seq < other.Seq:
		return -1
	}
	return 1
}

// Record is a record. Its bytes are changed by nobody, and may be kept.
type Record struct {
	ID      ID
	Offset  uint64
	LSN     uint64 // of the command that appended it
	Key     string
	Headers map[string]string
	Payload []byte
}

// Reader reads the records of one stream.
type Reader interface {
	// Read calls f with the records of a partition, which is here, from an offset on that it has, until f returns false. f does not keep what it points to.
	Read(partition int, from uint64, f func(*Record) bool) error
	// Find returns the offset of the first record for which behind is true, that of Last + 1 if there is none: of those before it is false for all. The
	// record has neither key, headers nor payload.
	Find(partition int, behind func(*Record) bool) (uint64, error)
}

// Read is Reader.Read.
func (s *Stream) Read(partition int, from uint64, f func(*Record) bool) error {
	return s.reader.Read(partition, from, f)
}

// Find is Reader.Find.
func (s *Stream) Find(partition int, behind func(*Record) bool) (uint64, error) {
	return s.reader.Find(partition, behind)
}

// Opener is what the machine of streams is.
type Opener interface {
	// OpenFeed returns a stream that a view of the machine's rows sees, nil if there is none.
	OpenFeed(v *engine.View, namespace, name string) (*Stream, Reader, error)
}

// Open returns a stream of a namespace that a view of another machine sees, nil if there is none. It is good for as long as the view is.
func Open(v *engine.View, namespace, name string) (*Stream, error) {
	beside, m := v.Beside(engine.MachineStream)
	o, ok := m.(Opener)
	if !ok {
		return nil, fmt.Errorf("feed: machine %d has no streams", engine.MachineStream)
	}
	s, r, err := o.OpenFeed(beside, namespace, name)
	if s != nil {
		s.reader = r
	}
	return s, err
}

// Topic is woken by every append to a stream, and when it is made or deleted.
func Topic(namespace, name string) engine.Topic {
	return engine.TopicOf(engine.MachineStream, namespace, []byte(name))
}

// RoomTopic is woken when a queue that is bounded has got room, or other bounds.
func RoomTopic(namespace, name string) engine.Topic {
	return engine.TopicOf(engine.MachineQueue, namespace, []byte("\x00room "+name))
}

// Roomer is what the machine of queues is.
type Roomer interface {
	// RoomOf returns the room of a queue that a view of the machine's rows sees.
	RoomOf(v *engine.View, namespace, name string) (Room, error)
}

// Room is how many messages, and bytes of them, a queue takes: no end of them if it has no bounds, or does not exist.
type Room struct {
	Messages, Bytes       int64 // until it is full
	MaxMessages, MaxBytes int64 // when it is empty
}

// RoomOf returns the room of a queue that a view of another machine sees.
func RoomOf(v *engine.View, namespace, name string) (Room, error) {
	beside, m := v.Beside(engine.MachineQueue)
	queues, ok := m.(Roomer)
	if !ok {
		return Room{}, fmt.Errorf("feed: machine %d has no queues", engine.MachineQueue)
	}
	return queues.RoomOf(beside, namespace, name)
}

// KindPour is the command of engine.MachineStream that appends messages to the partitions of a stream, in whichever shards those are; its body is that of an append.
const KindPour uint8 = 28

// KindPutMany is the command of engine.MachineKV that puts several keys: bodies of puts, each behind its length (uvarint).
const KindPutMany uint8 = 8

// Valuer is what the machine of keys is.
type Valuer interface {
	// ValueOf returns the value of a key at a time (ms) that a view of the machine's rows sees, nil if there is none.
	ValueOf(v *engine.View, namespace string, key []byte, now int64) ([]byte, error)
}

// Values returns the values of keys of a namespace that a view of another machine sees, nil where there is none.
func Values(v *engine.View, namespace string, keys []string) ([][]byte, error) {
	beside, m := v.Beside(engine.MachineKV)
	values, ok := m.(Valuer)
	if !ok {
		return nil, fmt.Errorf("feed: machine %d has no keys", engine.MachineKV)
	}
	all, now := make([][]byte, len(keys)), v.Now()
	for i, k := range keys {
		var err error
		if all[i], err = values.ValueOf(beside, namespace, []byte(k), now); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Samples asks for the points of a field of a measurement whose series carry some tags, from one time (ms) up to another, which is excluded.
type Samples struct {
	Namespace, Measurement, Field string
	Tags                          map[string]string
	From, To                      int64
}

// Sample is a point.
type Sample struct {
	Time  int64 // ms
	Value float64
	Tags  [][2]string // of its series, in order of names
}

// Sampler is what the machine of time series is.
type Sampler interface {
	// SamplesOf returns the points that a view of the machine's rows sees, in no order; more says that there are others. A measurement that does not exist has none.
	SamplesOf(v *engine.View, s *Samples) (found []Sample, more bool, err error)
	// LateOf counts the points before From that were written behind an LSN, as far as they have not been sealed since.
	LateOf(v *engine.View, s *Samples, since uint64) (int64, error)
}

// Read returns the points that a view of another machine sees, in no order; more says that there are others.
func (s *Samples) Read(v *engine.View) (found []Sample, more bool, err error) {
	beside, samples, err := sampler(v)
	if err != nil {
		return nil, false, err
	}
	return samples.SamplesOf(beside, s)
}

// Late counts the points before From that were written behind an LSN: they come too late for whoever has read up to there. Those that have been sealed since
// are not seen.
func (s *Samples) Late(v *engine.View, since uint64) (int64, error) {
	beside, samples, err := sampler(v)
	if err != nil {
		return 0, err
	}
	return samples.LateOf(beside, s, since)
}

func sampler(v *engine.View) (*engine.View, Sampler, error) {
	beside, m := v.Beside(engine.MachineTS)
	samples, ok := m.(Sampler)
	if !ok {
		return nil, nil, fmt.Errorf("feed: machine %d has no time series", engine.MachineTS)
	}
	return beside, samples, nil
}
