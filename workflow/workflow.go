package workflow

import (
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
)

// The errors of the store, the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the workflow, version or run does not exist
	// the workflow is disabled or has active runs, the run has ended, or an idempotency key was
	// used with another input
	ErrConflict = engine.ErrConflict
	ErrExists   = engine.ErrExists  // the version exists with another definition, or a run has the id
	ErrInvalid  = engine.ErrInvalid // an argument is malformed or out of range
	ErrBusy     = engine.ErrBusy    // the run has too many pending signals
)

// Status is the state of a run.
type Status uint8

// The states of a run. The last four are final.
const (
	Pending   Status = iota + 1 // its first step has not started
	Running                     // an action, child or branch is running, or the run is compensating
	Waiting                     // for a signal, a time, or the next attempt of a step
	Completed                   // reached a terminal with this status
	Failed                      // see Run.Error
	Cancelled                   // see Store.Cancel
	TimedOut                    // exceeded the timeout of its definition
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

// ParseStatus returns the state with the given name. Errors: ErrInvalid.
func ParseStatus(name string) (Status, error) {
	for s := Pending; s <= TimedOut; s++ {
		if statusNames[s] == name {
			return s, nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "workflow: unknown run state %.64q, expected one of %s", name,
		strings.Join(statusNames[Pending:], ", "))
}

// The default outcomes of steps.
const (
	OutcomeSuccess          = "success"
	OutcomeFailure          = "failure"
	OutcomeTimeout          = "timeout"           // falls back to failure
	OutcomePending          = "pending"           // the action is not done yet and is polled, see poll in a definition
	OutcomeSkipped          = "skipped"           // when was false; falls back to success
	OutcomeCancelled        = "cancelled"         // an action's run or a child was cancelled by another caller; falls back to failure
	OutcomeFailed           = "failed"            // of a child; falls back to failure
	OutcomeTimedOut         = "timed_out"         // of a child; falls back to failure
	OutcomeExhausted        = "exhausted"         // all executors of a plan have failed; falls back to failure
	OutcomeTargetNotFound   = "target_not_found"  // falls back to execution_failure, and that to failure
	OutcomeTargetDisabled   = "target_disabled"   // likewise
	OutcomeExecutionFailure = "execution_failure" // the call could not be made; falls back to failure
	// the result exceeds MaxOutput or the limit of the node (action.CodeOutputTooLarge); falls back
	// to failure
	OutcomeOutputTooLarge = "output_too_large"
)

// The terminals of every workflow; see Transition. Definitions may also use floe.Completed and so
// on. The prefix flo, also in $.flo.run_id, comes from Flo, whose definitions floe reads.
const (
	TerminalCompleted = "flo.Completed"
	TerminalFailed    = "flo.Failed"
	TerminalCancelled = "flo.Cancelled"
	TerminalTimedOut  = "flo.TimedOut"
)

// Limits.
const (
	MaxDefinition     = flow.MaxSource
	MaxOutput         = 1 << 20 // bytes of a step's output
	MaxSignals        = 1000    // pending signals of a run
	MaxSignalBytes    = 1 << 20 // total size of their payloads
	MaxSignalType     = 255     // bytes
	MaxIdempotencyKey = 1024    // bytes
	MaxReason         = 1024    // bytes
	MaxEvents         = 1 << 20 // of a run's history; a run that reaches it is stopped and compensated
	MaxRunID          = 255     // bytes
	MaxDepth          = 32      // children of children
	MaxVersions       = 10_000  // startable versions of a workflow
)

// Info describes a workflow. The caller may keep its slices.
type Info struct {
	Name        string
	Version     string // default version: the newest, unless Versions.SetDefault has chosen another
	Description string
	Enabled     bool
	CreatedAt   time.Time
	UpdatedAt   time.Time // time of the last version, Enable or Disable
	Steps       []string  // step names; the first is "_start"
	Terminals   []string  // defined terminals, without the built-in ones
	Plans       []string
	StartStep   string
	HasSchedule bool
	HasTrigger  bool
	Schedule    *ScheduleInfo // nil if none
	Trigger     *TriggerInfo  // nil if none
	Runs        RunCounts
}

// RunCounts counts all runs ever made, including those no longer retained:
//
//	Total = Active + Completed + Failed + Cancelled + TimedOut
type RunCounts struct {
	Total, Active, Completed, Failed, Cancelled, TimedOut int64
}

// RunID identifies a run. An id assigned by floe begins with "wfr-", includes the namespace and the
// shard, and is opaque.
type RunID string

// RunInfo is a run in a listing.
type RunInfo struct {
	ID          RunID
	Workflow    string
	Version     string
	Status      Status
	TriggeredBy string    // api, schedule, trigger:<stream> or workflow:<parent run>
	CurrentStep string    // "" if the run has ended
	StartedAt   time.Time //
	CompletedAt time.Time // zero if the run has not ended
	Error       string    // reason of failure: names step, outcome, attempt and cause
	Code        string    // error code of the action that failed the run, or ""
	Events      int64     // number of events in its history

	// CompensationsFailed is the number of visits to steps that could not be compensated since the
	// last retry of the run; their effects remain.
	CompensationsFailed int64

	IdempotencyKey string
	Parent         RunID
	Attributes     map[string]any // search attributes: string, float64 or time.Time
}

// Duration returns the duration of an ended run.
func (r *RunInfo) Duration() time.Duration {
	if r.CompletedAt.IsZero() {
		return 0
	}
	return r.CompletedAt.Sub(r.StartedAt)
}

// Run is a run with all its data. The caller may keep its bytes.
type Run struct {
	RunInfo
	Input   []byte // JSON
	Output  []byte // JSON; nil unless the run has ended with an output
	Waits   string // what it waits for, in words; "" if it has ended
	Due     time.Time
	Steps   []StepResult    // in the order of their first ends
	Signals []PendingSignal // not yet consumed, oldest first
}

// StepResult is the result of the last visit to a step.
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

// PendingSignal is a signal that no step has consumed.
type PendingSignal struct {
	Type       string
	Payload    []byte // JSON
	ReceivedAt time.Time
}

// Event is an entry of a run's history.
type Event struct {
	Type    EventType
	Step    string // "" if not about a step
	At      time.Time
	Attempt int    // 0 if not applicable
	Outcome string // "" if not applicable
	Detail  string // an error, the run of an action or a child, or a time, for display
}

// EventType is the type of an Event.
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
