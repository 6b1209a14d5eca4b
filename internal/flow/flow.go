package flow

import "github.com/floedb/floe/internal/document"

// Limits of definitions.
const (
	MaxSource      = document.MaxSource // bytes
	MaxSteps       = 1000               // per definition
	MaxPlans       = 100
	MaxExecutors   = 100 // per plan
	MaxBranches    = 1000
	MaxItems       = 10_000 // of a parallel step with each
	MaxTransitions = 100    // per step
	MaxTerminals   = 100
	MaxAttributes  = 32
	MaxSignals     = 100 // declared
	MaxNames       = 100 // in a list of errors or signals
	MaxAttempts    = 1000
	MaxExpression  = 4 << 10 // bytes
	DefaultVisits  = 10_000  // maximum steps of a run in a row, without a wait or a call that begins; the run is then stopped
	DefaultSteps   = 100_000 // maximum steps of a run
)

// Latest is the version that starts use for a workflow's default version.
const Latest = "latest"

// Definition is a parsed, checked and compiled workflow. All times are in ms.
type Definition struct {
	Name        string
	Version     string
	Description string
	Namespace   string // namespace of the workflow; "": any
	Idempotency Idempotency
	Timeout     int64 // of a run; 0: none
	MaxVisits   int64 // maximum steps of a run in a row, without a wait or a call that begins
	MaxSteps    int64 // maximum steps of a run; 0: DefaultSteps
	RetainFor   int64 // retention of ended runs
	RetainRuns  int64 // number of ended runs to keep
	Input       *Schema
	Signals     []Signal // signals with checked payloads
	Attributes  []Attribute
	Output      *Template // of a completed run; nil: the output of its last step
	Schedule    *Schedule
	Trigger     *Trigger
	Steps       []Step // the first is the start step
	Terminals   []Terminal
	Plans       []Plan
}

// Idempotency is the rule for idempotency keys of starts.
type Idempotency uint8

// The rules for idempotency keys.
const (
	IdempotencyOptional Idempotency = iota
	IdempotencyNone                 // keys are rejected
	IdempotencyRequired
)

// StartStep is the name of the start step in paths and results.
const StartStep = "_start"

// Step is a step. Kind selects which of Call, Wait, Sleep and Parallel applies.
type Step struct {
	Name        string // StartStep for the first
	Kind        Kind
	When        *Expr // nil: always
	Call        Call
	Wait        Wait
	Sleep       Sleep
	Parallel    Parallel
	Compensate  *Call // nil: none
	Transitions []Transition
}

// Kind is the kind of a step.
type Kind uint8

// The kinds of steps.
const (
	KindCall Kind = iota + 1
	KindWait
	KindSleep
	KindParallel
)

// Call is a call made by a step, a branch of a parallel step, an executor of a plan, or a
// compensation.
type Call struct {
	Target  Target
	Name    string    // of the action, plan or workflow
	Version string    // of the workflow; "": its default version
	Plan    int       // for TargetPlan: index in Definition.Plans
	Input   *Template // nil: the run's input; for a compensation {"input", "output"} of the step
	Retry   Retry
	Poll    *Poll
	Timeout int64 // of an attempt, from its request on; 0: the target's timeout
}

// Target is the kind of a call's target.
type Target uint8

// The targets of calls.
const (
	TargetAction Target = iota + 1
	TargetPlan
	TargetWorkflow
)

// Retry is the retry policy of a call.
type Retry struct {
	Attempts int64 // 0: the target's
	Backoff  Backoff
	Within   int64 // ms after the first attempt, during which attempts may begin; 0: no limit
}

// Backoff is the pause before an attempt.
type Backoff struct {
	Kind    BackoffKind
	Initial int64
	Max     int64 // 0: no limit
	Jitter  int64 // maximum that is added or subtracted, see Backoff.Pause
}

// BackoffKind is the growth of the pauses.
type BackoffKind uint8

// The kinds of back-off.
const (
	BackoffFixed BackoffKind = iota
	BackoffLinear
	BackoffExponential
	BackoffExponentialJitter // between half and all of the exponential pause, or with Jitter
)

// Poll is the policy for repeating a call whose outcome is "pending".
type Poll struct {
	First    int64 // pause before the first poll
	Attempts int64
	Backoff  Backoff // of the following polls
}

// Wait is a wait for a signal.
type Wait struct {
	Type      string
	Timeout   int64  // 0: none
	OnTimeout string // outcome of a timeout, default "timeout"; a step or terminal named here has a transition for it
	Schema    *Schema
}

// Sleep is a pause.
type Sleep struct {
	For   int64
	Until *Path // a time in ms or RFC 3339; nil: For
}

// Parallel is a set of concurrent calls: Branches, or one call per element of an array.
type Parallel struct {
	Branches []Branch
	Each     *Path // path of the array; nil: Branches
	Body     Call  // for each element
	Any      int64 // number of successes that suffices; 0: all
	Most     int64 // concurrency limit; 0: none
}

// Branch is a named branch.
type Branch struct {
	Name string
	Call Call
}

// Transition maps an outcome to a place.
type Transition struct {
	Outcome string
	To      Place
}

// Place is the target of a transition: a step, or, for a negative n, terminal ^n.
type Place int

// The terminals that every definition has. They precede its own.
const (
	TerminalCompleted = iota
	TerminalFailed
	TerminalCancelled
	TerminalTimedOut
	builtInTerminals
)

// Terminal is an end state of a workflow.
type Terminal struct {
	Name   string
	Status Status
	Output *Template // nil: Definition.Output
}

// Status is the state of a run. The numbers are part of stored formats.
type Status uint8

// The states of runs.
const (
	Pending Status = iota + 1
	Running
	Waiting
	Completed
	Failed
	Cancelled
	TimedOut
)

// Signal is a declared signal.
type Signal struct {
	Type   string
	Schema *Schema
}

// Attribute is a search attribute of runs.
type Attribute struct {
	Name string
	Kind AttributeKind
	From Path
}

// AttributeKind is the type of an Attribute.
type AttributeKind uint8

// The types of attributes.
const (
	AttributeString AttributeKind = iota + 1
	AttributeNumber
	AttributeTimestamp // ms or RFC 3339
)

// Schedule starts runs at times given by Cron or Every.
type Schedule struct {
	Cron         string
	Zone         string
	Every        int64
	Most         int64 // maximum active runs of the schedule; beyond it a tick is skipped and counted; 0: no limit
	CatchUp      uint8 // a cron.CatchUp
	CatchUpLimit int64
	Input        []byte // JSON; nil: none
	Paused       bool
}

// Trigger starts runs for the records of a stream.
type Trigger struct {
	Stream    string
	Namespace string // of the stream; "": the workflow's namespace
	Group     string
	Mode      string // of the group, such as shared or exclusive
	Batch     int64  // records per run
	Wait      int64  // maximum wait for a full batch
	Start     string // start position of a new group: latest or earliest
	Most      int64  // maximum active runs of the trigger; 0: no limit
}

// Plan is a choice of executors.
type Plan struct {
	Name      string
	Selection Selection
	Executors []Executor // by descending priority, then in the order of the definition
	Health    Health
	Cache     *Cache
	Fallback  *Fallback
	Retryable []string // error codes or outcomes that are retried; others proceed to the next executor; empty: all are retried
	Fatal     []string // error codes or outcomes that end the plan
}

// Selection is the strategy by which a plan orders its executors.
type Selection uint8

// The selections.
const (
	SelectStatic Selection = iota
	SelectRoundRobin
	SelectRandom
	SelectHealth
)

// Executor is one of the executors of a plan.
type Executor struct {
	Name     string
	Call     Call // of an action or a workflow
	Priority int64
	Breaker  *Breaker
	Rates    []Rate // all must be kept
	Async    bool   // tracking: wait up to TrackFor for a "pending" outcome
	TrackFor int64
}

// Breaker is a circuit breaker for an executor.
type Breaker struct {
	Failures int64 // in a row until it opens
	Cooldown int64
	Probes   int64 // concurrent calls while half open
}

// Rate is a rate limit: Limit calls per Per.
type Rate struct{ Limit, Per int64 }

// Health configures the health of executors: successes and failures are counted in windows, and
// older windows decay.
type Health struct {
	Window     int64
	Decay      int64 // in 1/65536: factor for both counts at the end of a window
	MinSamples int64 // below this number an executor counts as healthy
}

// Cache caches the outputs of successful calls.
type Cache struct {
	TTL          int64
	Key          KeyTemplate
	InvalidateOn []string // signal types
}

// Fallback is the output when all executors have failed (exhausted), or after the first error.
type Fallback struct {
	Value    *Template
	AnyError bool
}
