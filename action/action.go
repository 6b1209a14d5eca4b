package action

import (
	"time"

	"github.com/floedb/floe/internal/engine"
)

// The errors of the store, the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the action, run, worker or schedule does not exist
	// the action is disabled, the run has ended or belongs to another attempt, or an idempotency
	// key was used with another input
	ErrConflict = engine.ErrConflict
	ErrInvalid  = engine.ErrInvalid // an argument is malformed or out of range
)

// Status is the state of a run.
type Status uint8

// The states of a run. The last four are final.
const (
	Pending   Status = iota + 1 // waiting for its time, a worker, or a limit of its action
	Running                     // taken by a worker
	Completed                   // the handler returned a result
	Failed                      // the last attempt failed
	Cancelled                   // see Store.Cancel
	TimedOut                    // the last attempt exceeded the action's timeout
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

// ParseStatus returns the state with the given name. Errors: ErrInvalid.
func ParseStatus(name string) (Status, error) {
	for s := Pending; s <= TimedOut; s++ {
		if statusNames[s] == name {
			return s, nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "action: unknown run state %q, expected pending, running, completed, failed, cancelled or timed_out",
		name)
}

// The default outcomes of runs.
const (
	OutcomeSuccess   = "success"
	OutcomeFailure   = "failure"
	OutcomeTimeout   = "timeout"
	OutcomeCancelled = "cancelled"
)

// The error codes that floe itself assigns to runs.
const (
	CodeTimeout        = "timeout"          // an attempt exceeded the action's timeout
	CodeWorkerLost     = "worker_lost"      // the worker's process has been silent for 30 s
	CodePanic          = "panic"            // the handler panicked; the message contains the stack
	CodeOutputTooLarge = "output_too_large" // the handler's result exceeds the value size limit
	CodeBadOutput      = "bad_output"       // the handler's result cannot be encoded as JSON
	CodeBadInput       = "bad_input"        // the input does not fit the handler's input type
	CodeNoHandler      = "no_handler"       // the worker has no handler for the action
	CodeExpired        = "expired"          // no worker started the run in time, see Expire
)

// Rate limits how many runs of an action start: Limit per Per, with bursts of up to Burst. The zero
// value means no limit.
type Rate struct {
	Limit int
	Per   time.Duration
	Burst int // 0 means Limit
}

// Type is the type of an action.
type Type string

// TypeUser is the type of a registered action.
const TypeUser Type = "user"

// Info describes an action and counts its runs.
type Info struct {
	Name        string
	Type        Type
	Owner       string
	Description string
	Version     int // number of registrations
	Enabled     bool
	CreatedAt   time.Time
	UpdatedAt   time.Time // time of the last registration, Enable or Disable

	Timeout          time.Duration // of one attempt
	MaxAttempts      int           // total attempts of a run
	BackoffMin       time.Duration // see Backoff
	BackoffMax       time.Duration
	RetainFor        time.Duration // retention of ended runs
	RetainRuns       int           // maximum number of retained ended runs
	MaxRunning       int           // 0: no limit
	MaxRunningPerKey int           // 0: no limit
	Rate             Rate

	Workers int // workers that have a handler for the action
	Runs    RunCounts
	Latency Latency
}

// RunCounts counts all runs ever made, including those no longer retained:
//
//	Total = Pending + Running + Completed + Failed + Cancelled + TimedOut
type RunCounts struct {
	Total, Pending, Running, Completed, Failed, Cancelled, TimedOut int64
}

// Latency is the duration of the last attempts of completed runs.
type Latency struct {
	Count   int64         // completed runs
	Average time.Duration // over all completed runs
	P99     time.Duration // over the completed ones of the last 1,024 retained ended runs
}

// RunID identifies a run; it includes the namespace and the shard. It is opaque.
type RunID string

// Run is one invocation of an action. The caller may keep its bytes.
type Run struct {
	ID             RunID
	Action         string
	Status         Status
	Priority       int
	Attempt        int // current or last attempt; 0 if no worker has taken the run yet
	MaxAttempts    int
	Input          []byte // JSON
	Output         []byte // of a completed run: the handler's result, as JSON unless it returned bytes; nil if none
	Outcome        string // of an ended run: success, failure, timeout, cancelled, or the handler's own name
	Error          string // of the last failed attempt, unless the run has completed; or the reason of cancellation
	Code           string // of that error, see Code; "" if it has none
	Source         string // origin of the invocation, such as "api" or "schedule:nightly"
	Labels         map[string]string
	ConcurrencyKey string
	IdempotencyKey string
	WorkerID       string // worker that has the run or had it last
	CreatedAt      time.Time
	AvailableAt    time.Time // of a pending run: the earliest start
	StartedAt      time.Time // start of the current or last attempt; zero if none
	CompletedAt    time.Time // end of the run; zero if it has not ended
	Cancelling     bool      // cancelled, but not yet confirmed by its worker
}

// Duration returns the duration of the last attempt of an ended run.
func (r *Run) Duration() time.Duration {
	if r.StartedAt.IsZero() || r.CompletedAt.IsZero() {
		return 0
	}
	return r.CompletedAt.Sub(r.StartedAt)
}

// Invoked is the result of an invocation.
type Invoked struct {
	Run       RunID
	LSN       uint64 // log sequence number of the call
	Duplicate bool   // the IdempotencyKey was used before with the same input: Run is the earlier run
}
