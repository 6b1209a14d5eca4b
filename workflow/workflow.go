package workflow

import (
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
)

// The errors of the store; the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the workflow, version or run does not exist
	// the workflow is disabled or has active runs, the run has ended, or an idempotency key was
	// used with another input
	ErrConflict = engine.ErrConflict
	ErrExists   = engine.ErrExists  // the version exists with another definition, or the run's id
	ErrInvalid  = engine.ErrInvalid // an argument is malformed or out of its limits
	ErrBusy     = engine.ErrBusy    // too many signals of the run wait
)

// Status is where a run is in its life.
type Status uint8

// The states of a run. The last four are final.
const (
	Pending   Status = iota + 1 // its first step has not begun
	Running                     // an action, a child or branches of it run, or what it has done is compensated
	Waiting                     // for a signal, a time, or the next attempt of a step
	Completed                   // it has come to a terminal that says so
	Failed                      // see Run.Error
	Cancelled                   // see Store.Cancel
	TimedOut                    // it has taken longer than its definition allows
)

var statusNames = [...]string{
	Pending: "pending", Running: "running", Waiting: "waiting", Completed: "completed", Failed: "failed", Cancelled: "cancelled",
	TimedOut: "timed_out",
}

// String returns the name of the state: pending, running, waiting, completed, failed, cancelled or
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
	return 0, engine.Errorf(ErrInvalid, "workflow: %.64q is no state of a run: %s", name, strings.Join(statusNames[Pending:], ", "))
}

// The outcomes of steps that nobody named otherwise.
const (
	OutcomeSuccess          = "success"
	OutcomeFailure          = "failure"
	OutcomeTimeout          = "timeout"           // falls back to failure
	OutcomePending          = "pending"           // of an action that is not done yet: it is polled, see poll in a definition
	OutcomeSkipped          = "skipped"           // when was false; falls back to success
	OutcomeCancelled        = "cancelled"         // somebody else has cancelled the action's run, or the child; falls back to failure
	OutcomeFailed           = "failed"            // of a child; falls back to failure
	OutcomeTimedOut         = "timed_out"         // of a child; falls back to failure
	OutcomeExhausted        = "exhausted"         // of a plan, all of whose executors have failed; falls back to failure
	OutcomeTargetNotFound   = "target_not_found"  // falls back to execution_failure, and that to failure
	OutcomeTargetDisabled   = "target_disabled"   // likewise
	OutcomeExecutionFailure = "execution_failure" // the call could not be made; falls back to failure
	// the result exceeds MaxOutput, or what the node takes (action.CodeOutputTooLarge); falls back
	// to failure
	OutcomeOutputTooLarge = "output_too_large"
)

// Limits.
const (
	MaxDefinition     = flow.MaxSource
	MaxOutput         = 1 << 20 // bytes of a step's output
	MaxSignals        = 1000    // pending signals of a run
	MaxSignalBytes    = 1 << 20 // their payloads together
	MaxSignalType     = 255     // bytes
	MaxIdempotencyKey = 1024    // bytes
	MaxReason         = 1024    // bytes
	MaxEvents         = 1 << 20 // of a run's history: a run that comes to more is stopped, and what it has done is compensated
	MaxRunID          = 255     // bytes
	MaxDepth          = 32      // children of children
	MaxVersions       = 10_000  // of a workflow, that can be started
)

// Info is a workflow. Its slices are the caller's to keep.
type Info struct {
	Name        string
	Version     string // the default one: the newest
	Description string
	Enabled     bool
	CreatedAt   time.Time
	UpdatedAt   time.Time // of the last version, Enable or Disable
	Steps       []string  // their names, that of the first is "_start"
	Terminals   []string  // its own, without the ones that every workflow has
	Plans       []string
	StartStep   string
	HasSchedule bool
	HasTrigger  bool
	Schedule    *ScheduleInfo // nil if it has none
	Trigger     *TriggerInfo  // nil if it has none
	Runs        RunCounts
}

// RunCounts says what has become of all runs that ever were, also of those that are not kept any
// more:
//
//	Total = Active + Completed + Failed + Cancelled + TimedOut
type RunCounts struct {
	Total, Active, Completed, Failed, Cancelled, TimedOut int64
}

// RunID names a run. One that floe makes begins with "wfr-"; namespace and shard are in it, and it
// is opaque.
type RunID string

// RunInfo is a run as it is listed.
type RunInfo struct {
	ID          RunID
	Workflow    string
	Version     string
	Status      Status
	TriggeredBy string    // api, schedule, trigger:<stream> or workflow:<run of the parent>
	CurrentStep string    // "" if it has ended
	StartedAt   time.Time //
	CompletedAt time.Time // zero if it has not ended
	Error       string    // why it has failed: names step, outcome, attempt and cause
	Code        string    // of the error of the action that has made it fail, or ""
	Events      int64     // of its history

	// CompensationsFailed says how many visits to steps could not be compensated, since the run was
	// retried last: what they have done is still there.
	CompensationsFailed int64

	IdempotencyKey string
	Parent         RunID
	Attributes     map[string]any // search attributes: string, float64 or time.Time
}

// Duration returns how long an ended run has taken.
func (r *RunInfo) Duration() time.Duration {
	if r.CompletedAt.IsZero() {
		return 0
	}
	return r.CompletedAt.Sub(r.StartedAt)
}

// Run is a run with all that is known of it. Its bytes are the caller's to keep.
type Run struct {
	RunInfo
	Input   []byte // JSON
	Output  []byte // JSON, nil unless it has ended with one
	Waits   string // for what, in words; "" if it has ended
	Due     time.Time
	Steps   []StepResult    // in the order in which they ended first
	Signals []PendingSignal // not yet consumed, oldest first
}

// StepResult is the last visit to a step.
type StepResult struct {
	Step        string
	Outcome     string
	Output      []byte // JSON
	Error       string
	Code        string
	Attempts    int
	StartedAt   time.Time
	CompletedAt time.Time
}

// PendingSignal is a signal that was sent and that no step has taken.
type PendingSignal struct {
	Type       string
	Payload    []byte // JSON
	ReceivedAt time.Time
}

// Event is an entry of a run's history.
type Event struct {
	Type    EventType
	Step    string // "" if it is about none
	At      time.Time
	Attempt int    // 0 if that makes no sense
	Outcome string // likewise
	Detail  string // an error, the run of an action or a child, a time; for people
}

// EventType says what an Event is about.
type EventType uint8

// The types of events.
const (
	WorkflowStarted EventType = iota + 1
	StepStarted
	StepCompleted
	StepRetry
	StepSkipped
	WaitingForSignal
	SignalReceived
	SignalMatched
	SignalTimeout
	AwaitingAction
	ActionCompleted
	ActionNotFound
	ActionDisabled
	TimerStarted
	TimerFired
	ChildStarted
	ChildCompleted
	CompensationStarted
	CompensationCompleted
	PlanExecutorStart
	PlanExecutorSuccess
	PlanExecutorRetry
	PlanExecutorExhausted
	PlanBreakerSkip
	PlanCacheHit
	PlanFallback
	WorkflowCompleted
	WorkflowFailed
	WorkflowCancelled
	WorkflowTimedOut
	PollScheduled
	PollExhausted
	AwaitingChild
	ChildNotFound
	PlanNotFound
	CompensationFailed
	WorkflowRetried
	eventEnd
)

var eventNames = [...]string{
	WorkflowStarted: "workflow_started", StepStarted: "step_started", StepCompleted: "step_completed", StepRetry: "step_retry",
	StepSkipped:      "step_skipped",
	WaitingForSignal: "waiting_for_signal", SignalReceived: "signal_received", SignalMatched: "signal_matched",
	SignalTimeout:  "signal_timeout",
	AwaitingAction: "awaiting_action", ActionCompleted: "action_completed", ActionNotFound: "action_not_found",
	ActionDisabled: "action_disabled",
	TimerStarted:   "timer_started", TimerFired: "timer_fired", ChildStarted: "child_started", ChildCompleted: "child_completed",
	CompensationStarted: "compensation_started", CompensationCompleted: "compensation_completed", PlanExecutorStart: "plan_executor_start",
	PlanExecutorSuccess: "plan_executor_success", PlanExecutorRetry: "plan_executor_retry",
	PlanExecutorExhausted: "plan_executor_exhausted",
	PlanBreakerSkip:       "plan_breaker_skip", PlanCacheHit: "plan_cache_hit", PlanFallback: "plan_fallback",
	WorkflowCompleted: "workflow_completed",
	WorkflowFailed:    "workflow_failed", WorkflowCancelled: "workflow_cancelled", WorkflowTimedOut: "workflow_timed_out",
	PollScheduled: "poll_scheduled",
	PollExhausted: "poll_exhausted", AwaitingChild: "awaiting_child", ChildNotFound: "child_not_found", PlanNotFound: "plan_not_found",
	CompensationFailed: "compensation_failed", WorkflowRetried: "workflow_retried",
}

// String returns the name of the type, such as "step_completed".
func (t EventType) String() string {
	if t < 1 || t >= eventEnd {
		return "unknown"
	}
	return eventNames[t]
}
