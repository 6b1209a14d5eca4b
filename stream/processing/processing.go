package processing

import (
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// The errors of the store; the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the job or savepoint does not exist
	ErrConflict = engine.ErrConflict // the job is in a state that does not allow it, or has been changed meanwhile
	ErrInvalid  = engine.ErrInvalid  // an argument is malformed or out of its limits
)

// Status is where a job is in its life.
type Status uint8

// The states of a job. Cancelled is final; all others but Running can be restored.
const (
	Running   Status = iota + 1
	Stopped          // by Stop
	Cancelled        // by Cancel; it is listed for seven days more
	Failed           // see Job.Reason
	Completed        // it has read what it was to read, see stop_at
)

var statusNames = [...]string{Running: "RUNNING", Stopped: "STOPPED", Cancelled: "CANCELLED", Failed: "FAILED", Completed: "COMPLETED"}

// String returns RUNNING, STOPPED, CANCELLED, FAILED or COMPLETED.
func (s Status) String() string {
	if s < Running || s > Completed {
		return "UNKNOWN"
	}
	return statusNames[s]
}

// ParseStatus returns the state with a name, in any case. Errors: ErrInvalid.
func ParseStatus(name string) (Status, error) {
	for s := Running; s <= Completed; s++ {
		if statusNames[s] == strings.ToUpper(name) {
			return s, nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "processing: %q is no state of a job: %s", name, strings.Join(statusNames[Running:], ", "))
}

// Limits.
const (
	MaxDefinition  = 256 << 10 // bytes
	MaxParallelism = 64
	MaxSavepoints  = 100 // of a job; the oldest goes when there is one more
	maxReason      = 1024
)

// How long a cancelled job is listed, and what is in its stream of errors kept.
const (
	listedMillis   = 7 * 24 * 60 * 60 * 1000
	errorRetention = 7 * 24 * time.Hour
)

// ErrorStream returns the name of the stream to which a job writes records that it could not work
// with: the raw bytes, with headers that say why.
func ErrorStream(job string) string { return job + ".errors" }

// Job is a job as it stands.
type Job struct {
	ID        JobID
	Name      string
	Namespace string
	Status    Status
	Reason    string // why it has failed, or is held up
	// it has something to do and can not now, see Reason: it waits for a sink, a source or a
	// lookup, or is tried again after an error
	Held        bool
	Parallelism int
	BatchSize   int
	CreatedAt   time.Time
	EndedAt     time.Time // when it ceased to run; zero while it does
	Metrics     Metrics
}

// Metrics are figures of a job. Counters never go back; what belongs to the present is 0 while it
// does not run.
type Metrics struct {
	RecordsIn     int64 // read from sources
	RecordsOut    int64 // written by sinks
	Errors        int64 // records that went to the stream of errors
	Late          int64 // records that came too late for a window
	Dropped       int64 // records that an operator dropped because it can not work with them
	Missed        int64 // records that were trimmed before they were read, and points of series that came when later ones had been read
	RecordsBehind int64 // records of streams that were not read yet when the job last looked
	InPerSecond   float64
	OutPerSecond  float64
	LastReadCount int           // of the last tick, at most BatchSize
	Idle          time.Duration // since the job last looked for records
	Watermark     time.Time     // zero if there is none
	Lag           time.Duration // of the watermark
	LatencyLast   time.Duration // of the last tick that has read records
	LatencyAvg    time.Duration
	LatencyMax    time.Duration
	Operators     []OperatorMetrics
	Backlog       int64 // bytes that wait: for sinks and operators in other shards, and buffered before operators

	latencySum, ticks int64
}

// OperatorMetrics are figures of an operator.
type OperatorMetrics struct {
	Name                           string
	In, Out, Errors, Late, Dropped int64
}

// Savepoint is a copy of the state of a job between two ticks.
type Savepoint struct {
	ID               SavepointID
	CreatedAt        time.Time
	Complete         bool  // else it is being made
	RecordsProcessed int64 // that the job had read
	Bytes            int64
}
