package pipeline

import (
	"context"
	"slices"

	"github.com/floedb/floe/internal/expression"
)

// Problem is an error or a warning about a definition.
type Problem struct {
	Line    int    // from 1
	Code    string // kind of problem, such as unknown-key, for programs
	Warning bool   // the job can run regardless
	Message string // the thing, the value and the allowed values
}

// Job is a parsed definition with defaults filled in.
type Job struct {
	Name        string
	Namespace   string // "" if not given
	Parallelism int    // 1-64
	BatchSize   int    // maximum records per tick, 1-10,000
	FailOnError bool   // on_error: fail
	StopAtEnd   bool   // stop_at: latest: the job completes after the records that existed when it was submitted
	MaxFuture   int64  // max_future_ms
	Sources     []Source
	Operators   []Operator
	Sinks       []Sink

	tags []string // by number
}

// Source is an input of a job. Either Stream or TS is set.
type Source struct {
	Name      string // never ""; given or generated, and unique in the job
	Stream    *StreamSource
	TS        *TSSource
	EventTime string // path, "" for the time of the ID
	Disorder  int64  // max_out_of_orderness_ms
	IdleAfter int64  // idle_timeout_ms; 0: a partition read to its end is idle at once; negative: never idle

	private source
}

// source is the private part of a Source.
type source struct {
	time *expression.Path
}

// StreamSource is a stream of the job's namespace.
type StreamSource struct {
	Stream     string
	Partitions []int // sorted; nil: all
	Start      Start
	StartID    ID // for StartAt
}

// Start is the position at which reading begins.
type Start uint8

// The start positions.
const (
	StartEarliest Start = iota
	StartLatest
	StartAt // after StartID: at the first record with a greater ID
)

// ID is the ID of a stream record.
type ID struct {
	Millis int64
	Seq    uint64
}

// TSSource is a field of a measurement.
type TSSource struct {
	Measurement, Field string
	Tags               []Tag // required of the series, sorted by name
	Poll, Delay        int64 // ms
	Start              Start
}

// Tag is a name with a value: a tag of a series or a header of a record.
type Tag struct{ Name, Value string }

// Operator is a step of a job. Its fields are those needed to manage its state.
type Operator struct {
	Name  string // given or generated, and unique in the job
	Named bool   // Name was given; only then can a changed definition find the state
	Type  string // filter, map ...
	// Shape identifies the layout of the state: another definition can use the state of an operator
	// with the same name and Shape. It is "" if the operator has no state.
	Shape  string
	Keyed  bool   // state is by key
	Source string // of a join: the source that enters here
	// Lookup is the namespace that kv_lookup reads, "" for the job's.
	Lookup string
	Looks  string // of kv_lookup: definition of the key

	private operator
}

// SinkKind is the kind of a sink's target.
type SinkKind uint8

// The kinds of sinks.
const (
	ToStream SinkKind = iota + 1
	ToKV
	ToQueue
	ToTS
)

// WriteMode is the write mode of a KV sink.
type WriteMode uint8

// The write modes of KV sinks.
const (
	Upsert    WriteMode = iota // writes of a key in a tick may be merged into the last one
	IfAbsent                   // keep an existing value
	Versioned                  // write each record
)

// Sink is an output of a job.
type Sink struct {
	Name      string // given or generated, and unique in the job
	Kind      SinkKind
	Namespace string // "" for the job's
	Target    string // stream, queue or measurement; "" for KV
	Mode      WriteMode
	TTL       int64 // ms, of KV; 0: none
	Priority  uint8 // of queues
	Delay     int64 // ms, of queues

	private sink
}

// Origin is the origin of a record.
type Origin struct {
	Source    int // index in Job.Sources; -1: made by an operator, such as a window
	Partition int
	Offset    uint64
	ID        ID // its time is the time of the append
}

// Record is a record passing through operators. Its bytes must not be changed.
type Record struct {
	Key       []byte
	Value     []byte
	EventTime int64 // ms
	Headers   []Tag // sorted by name
	Tags      TagSet
	Right     bool      // from the second source of a join
	json      jsonState // of Value
	Origin    Origin
}

// TagSet is a set of a job's tags, by their numbers in Program.Tags.
type TagSet uint32

// In returns the names of the tags. all lists all names by number.
func (s TagSet) In(all []string) (names []string) {
	for i, name := range all {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// TagsOf is the inverse of In. It ignores unknown names.
func TagsOf(names, all []string) (s TagSet) {
	for _, name := range names {
		if i := slices.Index(all, name); i >= 0 {
			s |= 1 << i
		}
	}
	return s
}

// Write is a sink's write of a record.
type Write struct {
	Sink   int // index in Job.Sinks
	Record Record
	Key    string // of the stream message, or of KV
	Point  Point  // for a time series sink
}

// Point is a point for a time series sink.
type Point struct {
	Time   int64
	Tags   []Tag // sorted by name
	Fields []Field
}

// Field is a field of a point: float64, int64, string or bool.
type Field struct {
	Name  string
	Value any
}

// Failure is a record that an operator or a sink failed to process.
type Failure struct {
	Operator string // name of the operator, source or sink
	Reason   string
	Record   Record // raw bytes as read from the source, if known
}

// Counts are an operator's counts in a tick.
type Counts struct{ In, Out, Errors, Late, Dropped int64 }

// State is the keyed state of a job as a tick reads and changes it: a sorted map of bytes. The
// first two bytes of a key are the number of the operator that was passed to Compile, big endian,
// so that the state of one operator can be dropped. Keys have at most 4 KiB.
type State interface {
	// Get returns a value, nil if none exists. It must not be changed and is valid until the end
	// of the tick.
	Get(k []byte) ([]byte, error)
	// Put and Delete do not keep k or v.
	Put(k, v []byte)
	Delete(k []byte)
	// DeleteRange removes all keys with lower <= key < upper.
	DeleteRange(lower, upper []byte)
	// Scan calls f with keys and values, lower <= key < upper, until f returns false. They are
	// valid during the call; f must not change the state.
	Scan(lower, upper []byte, f func(k, v []byte) bool) error
}

// Lookup reads the values of kv_lookup, one per key, nil for a missing one. An error stops the
// tick, which then has no effect.
type Lookup func(ctx context.Context, namespace string, keys []string) ([][]byte, error)

// Limits bound the output of a tick. A tick checks them before it fires a window. A batch of
// records may exceed them; the caller then uses smaller batches.
type Limits struct {
	Bytes, Rows int
}

// Progress is the progress of an input, such as a partition of a source. Watermarks are computed
// from it.
type Progress struct {
	Seen      bool  // it had a record
	Newest    int64 // maximum event time
	Arrived   int64 // arrival of the last record, ms
	CaughtUp  bool  // no records follow the last one at present
	Disorder  int64
	IdleAfter int64

	Idle    bool  // idle regardless of the clock
	Bounded bool  // limits the watermark to Bound even if idle
	Bound   int64 // minimum event time of further records, except late ones
}
