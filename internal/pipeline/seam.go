package pipeline

import (
	"context"
	"slices"

	"github.com/floedb/floe/internal/expression"
)

// Problem is something that is wrong with a definition, or worth knowing.
type Problem struct {
	Line    int    // from 1
	Code    string // names the kind of problem for programs: unknown-key
	Warning bool   // the job can be run all the same
	Message string // names the thing, the value and what is allowed
}

// Job is what a definition says, with all defaults filled in.
type Job struct {
	Name        string
	Namespace   string // "" if the definition says none
	Parallelism int    // 1-64
	BatchSize   int    // records a tick reads at most, 1-10,000
	FailOnError bool   // on_error: fail
	StopAtEnd   bool   // stop_at: latest: the job is completed when it has read what there was when it was submitted
	MaxFuture   int64  // max_future_ms
	Sources     []Source
	Operators   []Operator
	Sinks       []Sink

	tags []string // by number
}

// Source is where records come from: of Stream and TS one is set.
type Source struct {
	Name      string // never ""; given or made up, and unique in the job
	Stream    *StreamSource
	TS        *TSSource
	EventTime string // path, "" for the time of the id
	Disorder  int64  // max_out_of_orderness_ms
	IdleAfter int64  // idle_timeout_ms; 0: a partition that has been read to its end is idle at once, never if negative

	private source
}

// source is what package pipeline keeps of a Source.
type source struct {
	time *expression.Path
}

// StreamSource is a stream of the job's namespace.
type StreamSource struct {
	Stream     string
	Partitions []int // ascending; nil: all
	Start      Start
	StartID    ID // of StartAt
}

// Start says where reading begins.
type Start uint8

// The places to start at.
const (
	StartEarliest Start = iota
	StartLatest
	StartAt // behind a record: the first read is the first with a greater id
)

// ID is that of a record of a stream.
type ID struct {
	Millis int64
	Seq    uint64
}

// TSSource is a field of a measurement.
type TSSource struct {
	Measurement, Field string
	Tags               []Tag // that a series has to have, in order of names
	Poll, Delay        int64 // ms
	Start              Start
}

// Tag is a name with a value: of a series, or a header of a record.
type Tag struct{ Name, Value string }

// Operator is one step of a job, as far as those need to know who keep its state.
type Operator struct {
	Name  string // given or made up, and unique in the job
	Named bool   // given: only then its state is found again by a changed definition
	Type  string // filter, map ...
	// Shape tells whether state of an operator of this name can be used by another definition of
	// it: equal strings, equal state. "" if it has none.
	Shape  string
	Keyed  bool   // its state is by key
	Source string // of join: the source that enters here
	// Lookup is the namespace that kv_lookup reads from, "" for the job's own.
	Lookup string
	Looks  string // of kv_lookup: how the key is made that it looks up

	private operator
}

// SinkKind says what a sink writes to.
type SinkKind uint8

// The kinds of sinks.
const (
	ToStream SinkKind = iota + 1
	ToKV
	ToQueue
	ToTS
)

// WriteMode says how a KV sink writes.
type WriteMode uint8

// The write modes of KV sinks.
const (
	Upsert    WriteMode = iota // the last write of a key in a tick may stand for all of them
	IfAbsent                   // a key that exists is left as it is
	Versioned                  // each write is one
)

// Sink is where records go to.
type Sink struct {
	Name      string // given or made up, and unique in the job
	Kind      SinkKind
	Namespace string // "" for the job's own
	Target    string // stream, queue or measurement; "" for KV
	Mode      WriteMode
	TTL       int64 // ms, of KV; 0: none
	Priority  uint8 // of queues
	Delay     int64 // ms, of queues

	private sink
}

// Origin says where a record comes from.
type Origin struct {
	Source    int // in Job.Sources; -1: an operator has made the record, as windows do
	Partition int
	Offset    uint64
	ID        ID // the time is that of its append
}

// Record is what flows through operators. Its bytes are not changed by anybody.
type Record struct {
	Key       []byte
	Value     []byte
	EventTime int64 // ms
	Headers   []Tag // in order of names
	Tags      TagSet
	Right     bool      // it is of the source that a join names
	json      jsonState // of Value
	Origin    Origin
}

// TagSet is a set of tags of a job, by their numbers in Program.Tags.
type TagSet uint32

// In returns the names of tags, of all that there are by their numbers.
func (s TagSet) In(all []string) (names []string) {
	for i, name := range all {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// TagsOf is the opposite of In. Names that there are no more are left out.
func TagsOf(names, all []string) (s TagSet) {
	for _, name := range names {
		if i := slices.Index(all, name); i >= 0 {
			s |= 1 << i
		}
	}
	return s
}

// Write is what a sink is to write of a record that has come to it.
type Write struct {
	Sink   int // in Job.Sinks
	Record Record
	Key    string // of the message of a stream, or of KV
	Point  Point  // of a sink to time series
}

// Point is what a sink to time series writes.
type Point struct {
	Time   int64
	Tags   []Tag // in order of names
	Fields []Field
}

// Field is a value of a point: float64, int64, string or bool.
type Field struct {
	Name  string
	Value any
}

// Failure is a record that an operator or a sink could not work with.
type Failure struct {
	Operator string // or source or sink: its name
	Reason   string
	Record   Record // as it came from its source, if that is known: raw bytes
}

// Counts are what an operator has done in a tick, and what it has dropped.
type Counts struct{ In, Out, Errors, Late, Dropped int64 }

// State is the keyed state of a job as a tick sees and changes it: bytes by keys, in their order.
// The first two bytes of a key are the number of the operator (big endian) that was given to
// Compile, so that all state of one can be dropped. Keys are at most 4 KiB long.
type State interface {
	// Get returns a value, nil if there is none. It must not be changed, and is valid until the
	// tick ends.
	Get(k []byte) ([]byte, error)
	// Put and Delete keep neither k nor v.
	Put(k, v []byte)
	Delete(k []byte)
	// DeleteRange removes all keys with lower <= key < upper.
	DeleteRange(lower, upper []byte)
	// Scan calls f with keys and values, lower <= key < upper, until f returns false. They are
	// valid during the call; f changes nothing.
	Scan(lower, upper []byte, f func(k, v []byte) bool) error
}

// Lookup answers kv_lookup: one value for each key, nil where there is none. An error holds the
// tick: nothing of it happens.
type Lookup func(ctx context.Context, namespace string, keys []string) ([][]byte, error)

// Limits bound what one tick makes. A tick looks before each window that it fires whether it has
// come to one of them; a batch of records may go beyond, and is then made smaller by the caller.
type Limits struct {
	Bytes, Rows int
}

// Progress is the progress of an input, such as a partition of a source. Watermarks are computed
// from it.
type Progress struct {
	Seen      bool  // it has had a record
	Newest    int64 // the greatest event time
	Arrived   int64 // ms: when the last record came
	CaughtUp  bool  // there is nothing behind that record now
	Disorder  int64
	IdleAfter int64

	Idle    bool  // it is, whatever the clock says
	Bounded bool  // it holds the watermark at Bound even if it is idle
	Bound   int64 // what will come of it has that event time at least, or is later
}
