package flow

import "github.com/floedb/floe/internal/document"

// Limits of definitions.
const (
	MaxSource      = document.MaxSource // bytes
	MaxSteps       = 1000               // steps of a definition
	MaxPlans       = 100
	MaxExecutors   = 100 // of a plan
	MaxBranches    = 1000
	MaxItems       = 10_000 // of a parallel step with each
	MaxTransitions = 100    // of a step
	MaxTerminals   = 100
	MaxAttributes  = 32
	MaxSignals     = 100 // that are declared
	MaxNames       = 100 // of a list of errors or signals
	MaxAttempts    = 1000
	MaxExpression  = 4 << 10 // bytes
	DefaultVisits  = 10_000  // steps that a run takes in a row, without a wait or a call that begins, before it is stopped
	DefaultSteps   = 100_000 // steps that a run takes in all
)

// Latest is what starts call the default version of a workflow.
const Latest = "latest"

// Definition is a workflow as it was read, checked and compiled. All times are ms.
type Definition struct {
	Name        string
	Version     string
	Description string
	Namespace   string // it is for; "": any
	Idempotency Idempotency
	Timeout     int64 // of a run; 0: none
	MaxVisits   int64 // steps that a run takes in a row, without a wait or a call that begins
	MaxSteps    int64 // steps that a run takes in all; 0: DefaultSteps
	RetainFor   int64 // how long ended runs are kept
	RetainRuns  int64 // and how many
	Input       *Schema
	Signals     []Signal // whose payloads are checked
	Attributes  []Attribute
	Output      *Template // of a run that completes; nil: the output of its last step
	Schedule    *Schedule
	Trigger     *Trigger
	Steps       []Step // the first is the one to start with
	Terminals   []Terminal
	Plans       []Plan
}

// Idempotency says whether starts need an idempotency key.
type Idempotency uint8

// The rules of idempotency.
const (
	IdempotencyOptional Idempotency = iota
	IdempotencyNone                 // a key is refused
	IdempotencyRequired
)

// StartStep is what the step to start with is called in paths and results.
const StartStep = "_start"

// Step is a step. Which of Call, Wait, Sleep and Parallel it is about, Kind says.
type Step struct {
	Name        string // StartStep of the first
	Kind        Kind
	When        *Expr // nil: always
	Call        Call
	Wait        Wait
	Sleep       Sleep
	Parallel    Parallel
	Compensate  *Call // nil: nothing is to be undone
	Transitions []Transition
}

// Kind is what a step does.
type Kind uint8

// The kinds of steps.
const (
	KindCall Kind = iota + 1
	KindWait
	KindSleep
	KindParallel
)

// Call is something that is run: by a step, a branch of a parallel one, an executor of a plan, or
// to compensate.
type Call struct {
	Target  Target
	Name    string    // of the action, plan or workflow
	Version string    // of the workflow; "": its default
	Plan    int       // of TargetPlan: its place in Definition.Plans
	Input   *Template // nil: the run's input; of compensate: {"input", "output"} of the step
	Retry   Retry
	Poll    *Poll
	Timeout int64 // of an attempt, from when it is asked for; 0: as the target says
}

// Target is what a Call runs.
type Target uint8

// The targets of calls.
const (
	TargetAction Target = iota + 1
	TargetPlan
	TargetWorkflow
)

// Retry says how often a call is tried.
type Retry struct {
	Attempts int64 // 0: as the target says
	Backoff  Backoff
	Within   int64 // ms from the first attempt, after which none begins; 0: no limit
}

// Backoff is the pause before an attempt.
type Backoff struct {
	Kind    BackoffKind
	Initial int64
	Max     int64 // 0: no limit
	Jitter  int64 // up to so much is added or taken away, see Backoff.Pause
}

// BackoffKind is how pauses grow.
type BackoffKind uint8

// The kinds of back-off.
const (
	BackoffFixed BackoffKind = iota
	BackoffLinear
	BackoffExponential
	BackoffExponentialJitter // between half and all of the exponential one, or with Jitter
)

// Poll says how a call is repeated whose outcome is "pending".
type Poll struct {
	First    int64 // pause before the first
	Attempts int64
	Backoff  Backoff // of the following
}

// Wait is a wait for a signal.
type Wait struct {
	Type      string
	Timeout   int64  // 0: none
	OnTimeout string // the outcome then; "timeout" by default. A step or terminal that is named there has a transition for it
	Schema    *Schema
}

// Sleep is a pause.
type Sleep struct {
	For   int64
	Until *Path // a time in ms or RFC 3339; nil: For
}

// Parallel is a number of calls at the same time: Branches, or one for each element of an array.
type Parallel struct {
	Branches []Branch
	Each     *Path // to the array; nil: Branches
	Body     Call  // for each element
	Any      int64 // so many successes are enough; 0: all
	Most     int64 // at the same time; 0: no limit
}

// Branch is a named branch.
type Branch struct {
	Name string
	Call Call
}

// Transition is where an outcome leads.
type Transition struct {
	Outcome string
	To      Place
}

// Place is where a transition leads: to a step, or with a negative number n to terminal ^n.
type Place int

// The terminals that every definition has, in front of its own.
const (
	TerminalCompleted = iota
	TerminalFailed
	TerminalCancelled
	TerminalTimedOut
	builtInTerminals
)

// Terminal is an end.
type Terminal struct {
	Name   string
	Status Status
	Output *Template // nil: as Definition.Output
}

// Status is the state of a run. The numbers are part of formats.
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

// Attribute is something runs are searched by.
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

// Schedule starts runs at times. Cron or Every.
type Schedule struct {
	Cron         string
	Zone         string
	Every        int64
	Most         int64 // runs of it that are active at a time: at this number a tick is skipped and counted; 0: no limit
	CatchUp      uint8 // a cron.CatchUp
	CatchUpLimit int64
	Input        []byte // JSON; nil: none
	Paused       bool
}

// Trigger starts runs for records of a stream.
type Trigger struct {
	Stream    string
	Namespace string // of the stream; "": that of the workflow
	Group     string
	Mode      string // of the group: shared, exclusive ...
	Batch     int64  // records of a run
	Wait      int64  // for so long a batch is waited for
	Start     string // where a new group begins: latest or earliest
	Most      int64  // runs of it that are active at a time; 0: no limit
}

// Plan is a choice of executors.
type Plan struct {
	Name      string
	Selection Selection
	Executors []Executor // ordered by priority, the highest first, and then as written
	Health    Health
	Cache     *Cache
	Fallback  *Fallback
	Retryable []string // codes or outcomes of errors after which the next attempt follows, after others it is the next executor; empty: all
	Fatal     []string // codes or outcomes of errors that end the plan
}

// Selection is how a plan orders its executors.
type Selection uint8

// The selections.
const (
	SelectStatic Selection = iota
	SelectRoundRobin
	SelectRandom
	SelectHealth
)

// Executor is one way to carry out a plan.
type Executor struct {
	Name     string
	Call     Call // of an action or a workflow
	Priority int64
	Breaker  *Breaker
	Rates    []Rate // all have to be kept
	Async    bool   // tracking: a "pending" outcome is waited for, for TrackFor
	TrackFor int64
}

// Breaker keeps off an executor that fails.
type Breaker struct {
	Failures int64 // in a row, after which it opens
	Cooldown int64
	Probes   int64 // at the same time when half open
}

// Rate allows so many calls in a time.
type Rate struct{ Limit, Per int64 }

// Health is how the health of executors is kept: successes and failures of a window, older ones
// fading.
type Health struct {
	Window     int64
	Decay      int64 // in 1/65536: by what both counts are multiplied when a window ends
	MinSamples int64 // before which an executor counts as healthy
}

// Cache remembers outputs of successes.
type Cache struct {
	TTL          int64
	Key          KeyTemplate
	InvalidateOn []string // types of signals
}

// Fallback is the output when all executors have failed (exhausted), or after the first error.
type Fallback struct {
	Value    *Template
	AnyError bool
}
