package processing

import (
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

// The errors of the store; the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the job or savepoint does not exist
	ErrConflict = engine.ErrConflict // the job is in a state that does not allow the call, or was changed concurrently
	ErrInvalid  = engine.ErrInvalid  // an argument is malformed or out of range
)

// Status is the state of a job in its life cycle.
type Status uint8

// The states of a job. Cancelled is final; all others but Running can be restored.
const (
	Running   Status = iota + 1
	Stopped          // by Stop
	Cancelled        // by Cancel; it stays listed for seven days
	Failed           // see Job.Reason
	Completed        // it has read all its input, see stop_at
)

var statusNames = [...]string{Running: "RUNNING", Stopped: "STOPPED", Cancelled: "CANCELLED", Failed: "FAILED", Completed: "COMPLETED"}

// String returns RUNNING, STOPPED, CANCELLED, FAILED or COMPLETED.
func (s Status) String() string {
	if s < Running || s > Completed {
		return "UNKNOWN"
	}
	return statusNames[s]
}

// ParseStatus parses the name of a state, in any case. Errors: ErrInvalid.
func ParseStatus(name string) (Status, error) {
	for s := Running; s <= Completed; s++ {
		if statusNames[s] == strings.ToUpper(name) {
			return s, nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "processing: unknown job state %q, expected one of %s", name,
		strings.Join(statusNames[Running:], ", "))
}

// Limits.
const (
	MaxDefinition  = 256 << 10 // bytes
	MaxParallelism = 64
	MaxSavepoints  = 100 // of a job; creating another one deletes the oldest
	maxReason      = 1024
)

// How long a cancelled job stays listed, and the retention of its error stream.
const (
	listedMillis   = 7 * 24 * 60 * 60 * 1000
	errorRetention = 7 * 24 * time.Hour
)

// ErrorStream returns the name of a job's error stream. It holds the records that the job could not
// process, as raw bytes with headers that give the reason.
func ErrorStream(job string) string { return job + ".errors" }

// Job is the current state of a job.
type Job struct {
	ID        JobID
	Name      string
	Namespace string
	Status    Status
	Reason    string // why it has failed or is held up
	// the record that failed the job, see on_error; nil if it has not failed or the reason is not a
	// record
	Failure *Failure
	// the job has work that it cannot do now: it waits for a sink, a source or a lookup, or retries
	// after an error (see Reason)
	Held        bool
	Parallelism int
	BatchSize   int
	CreatedAt   time.Time
	EndedAt     time.Time // when it ended; zero while it runs
	Metrics     Metrics
}

// Failure describes a record that failed a job with on_error: fail. The job stopped before the
// record, and reads it again when it is restored.
type Failure struct {
	Operator    string // the operator, source or sink that failed
	Reason      string
	Source      string // of the record; "" if an operator made the record, such as a window: then it has no position
	Stream      string // that the source reads, "" if it reads a measurement
	Measurement string
	Partition   int
	RecordID    stream.ID // of a point: its time, and its index among the points read together
	Offset      uint64    // in the partition; of a point: its time, ms
}

// Metrics are the metrics of a job. Counters never decrease; gauges are 0 while the job does not
// run.
type Metrics struct {
	RecordsIn     int64 // read from sources
	RecordsOut    int64 // written by sinks
	Errors        int64 // records written to the error stream
	Late          int64 // records too late for a window
	Dropped       int64 // records dropped because an operator could not process them
	Missed        int64 // records trimmed before they were read, and points written after later ones had been read
	RecordsBehind int64 // unread records of streams when the job last looked
	InPerSecond   float64
	OutPerSecond  float64
	LastReadCount int           // of the last tick, at most BatchSize
	Idle          time.Duration // since the job last looked for records
	Watermark     time.Time     // zero if the job has none
	Lag           time.Duration // of the watermark
	LatencyLast   time.Duration // of the last tick that read records
	LatencyAvg    time.Duration
	LatencyMax    time.Duration
	Operators     []OperatorMetrics
	Backlog       int64 // bytes waiting: for sinks and operators in other shards, and buffered before operators

	latencySum, ticks int64
}

// OperatorMetrics are the metrics of an operator.
type OperatorMetrics struct {
	Name                           string
	In, Out, Errors, Late, Dropped int64
}

// Savepoint is a copy of the state of a job between two ticks.
type Savepoint struct {
	ID               SavepointID
	CreatedAt        time.Time
	Complete         bool  // false while it is being made
	RecordsProcessed int64 // that the job had read by then
	Bytes            int64
}
