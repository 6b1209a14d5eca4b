package action

import (
	"time"

	"github.com/floedb/floe/internal/engine"
)

// The errors of the store; the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the action, run, worker or schedule does not exist
	// the action is disabled, the run has ended or is another attempt's, or an idempotency key was
	// used with another input
	ErrConflict = engine.ErrConflict
	ErrInvalid  = engine.ErrInvalid // an argument is malformed or out of its limits
)

// Status is where a run is in its life.
type Status uint8

// The states of a run. The last four are final.
const (
	Pending   Status = iota + 1 // waits for its time, for a worker, or for a limit of its action
	Running                     // a worker has it
	Completed                   // its handler has returned a result
	Failed                      // its last attempt has failed
	Cancelled                   // see Store.Cancel
	TimedOut                    // its last attempt has taken longer than the action's timeout
)

var statusNames = [...]string{
	Pending: "pending", Running: "running", Completed: "completed", Failed: "failed", Cancelled: "cancelled", TimedOut: "timed_out",
}

// String returns the name of the state: pending, running, completed, failed, cancelled or
// timed_out.
func (s Status) String() string {
	if s < Pending || s > TimedOut {
		return "unknown"
	}
	return statusNames[s]
}

// Final reports whether a run in this state has ended.
func (s Status) Final() bool { return s >= Completed && s <= TimedOut }

// ParseStatus returns the state with a name. Errors: ErrInvalid.
func ParseStatus(name string) (Status, error) {
	for s := Pending; s <= TimedOut; s++ {
		if statusNames[s] == name {
			return s, nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "action: %q is no state of a run: pending, running, completed, failed, cancelled or timed_out",
		name)
}

// The outcomes of runs that nobody named otherwise.
const (
	OutcomeSuccess   = "success"
	OutcomeFailure   = "failure"
	OutcomeTimeout   = "timeout"
	OutcomeCancelled = "cancelled"
)

// The codes of errors that floe itself gives to runs.
const (
	CodeTimeout        = "timeout"          // an attempt took longer than the action's timeout
	CodeWorkerLost     = "worker_lost"      // the worker's process has been silent for 30 s
	CodePanic          = "panic"            // the handler panicked; the message has its stack
	CodeOutputTooLarge = "output_too_large" // the handler's result exceeds the limit of values
	CodeBadOutput      = "bad_output"       // the handler's result has no JSON
	CodeBadInput       = "bad_input"        // the input does not fit the type that the handler takes
	CodeNoHandler      = "no_handler"       // the worker has no handler for the action
	CodeExpired        = "expired"          // no worker has begun the run in its time, see Expire
)

// Rate bounds how many runs of an action are begun: Limit in each time of Per, Burst of them at
// once. The zero value is no bound.
type Rate struct {
	Limit int
	Per   time.Duration
	Burst int // 0 means Limit
}

// Type is the type of an action.
type Type string

// TypeUser is the type of an action that was registered.
const TypeUser Type = "user"

// Info is an action with what has become of its runs.
type Info struct {
	Name        string
	Type        Type
	Owner       string
	Description string
	Version     int // counts registrations
	Enabled     bool
	CreatedAt   time.Time
	UpdatedAt   time.Time // of the last registration, Enable or Disable

	Timeout          time.Duration // of an attempt
	MaxAttempts      int           // attempts of a run in all
	BackoffMin       time.Duration // see Backoff
	BackoffMax       time.Duration
	RetainFor        time.Duration // how long ended runs are kept
	RetainRuns       int           // how many of them, at most
	MaxRunning       int           // 0: no limit
	MaxRunningPerKey int           // 0: no limit
	Rate             Rate

	Workers int // that have a handler for it
	Runs    RunCounts
	Latency Latency
}

// RunCounts says what has become of all runs that ever were, also of those that are not kept any
// more:
//
//	Total = Pending + Running + Completed + Failed + Cancelled + TimedOut
type RunCounts struct {
	Total, Pending, Running, Completed, Failed, Cancelled, TimedOut int64
}

// Latency says how long the last attempts of completed runs took.
type Latency struct {
	Count   int64         // completed runs
	Average time.Duration // over all of them
	P99     time.Duration // over those of the last 1,024 ended runs that are kept
}

// RunID names a run: namespace and shard are in it. It is opaque.
type RunID string

// Run is one invocation of an action. Its bytes are the caller's to keep.
type Run struct {
	ID             RunID
	Action         string
	Status         Status
	Priority       int
	Attempt        int // the present or last one; 0 if no worker has had it yet
	MaxAttempts    int
	Input          []byte // JSON
	Output         []byte // of a completed run: what the handler returned, JSON unless that were other bytes; nil if nothing
	Outcome        string // of an ended run: success, failure, timeout, cancelled, or what the handler named
	Error          string // of the last attempt that failed, unless the run has completed; or why it was cancelled
	Code           string // of that error, see Code; "" if it has none
	Source         string // who invoked it, such as "api" or "schedule:nightly"
	Labels         map[string]string
	ConcurrencyKey string
	IdempotencyKey string
	WorkerID       string // that has it, or had it last
	CreatedAt      time.Time
	AvailableAt    time.Time // of a pending run: when it can be begun
	StartedAt      time.Time // when the present or last attempt began; zero if none has
	CompletedAt    time.Time // when it ended; zero if it has not
	Cancelling     bool      // it was cancelled, and its worker has not confirmed that
}

// Duration returns how long the last attempt of an ended run took.
func (r *Run) Duration() time.Duration {
	if r.StartedAt.IsZero() || r.CompletedAt.IsZero() {
		return 0
	}
	return r.CompletedAt.Sub(r.StartedAt)
}

// Invoked says which run an invocation has made.
type Invoked struct {
	Run       RunID
	LSN       uint64 // log sequence number of the call
	Duplicate bool   // the IdempotencyKey was used before, with the same input: Run is that of then
}
