package workflow

import (
	"time"

	"github.com/floedb/floe/internal/document"
)

// Definition is the definition of a workflow as a Go value. YAML returns it as text for Create and
// Validate, which check it like a hand-written one. The page docs/reference/workflow.md describes
// the keys and their values.
//
// A zero field means the default. Durations are rounded up to whole milliseconds. Templates and
// schemas are free-form JSON: any value that encoding/json can write, or a json.RawMessage. nil
// means no template; json.RawMessage("null") is a template that renders null.
//
//	order := workflow.Definition{
//		Name: "order",
//		Start: workflow.Step{
//			Do:         workflow.Call{Target: "@actions/charge", Timeout: time.Minute},
//			Compensate: &workflow.Call{Target: "@actions/refund"},
//			Transitions: []workflow.Transition{
//				{On: "success", To: "approve"}, {On: "failure", To: workflow.TerminalFailed},
//			},
//		},
//		Steps: []workflow.Step{{
//			Name:        "approve",
//			Do:          workflow.WaitFor{Signal: "approval", Timeout: time.Hour},
//			Transitions: []workflow.Transition{{On: "success", To: workflow.TerminalCompleted}},
//		}},
//	}
//	_, err := flows.Create(ctx, order.YAML())
type Definition struct {
	Name        string
	Version     string // "" means 1
	Description string
	Namespace   string        // namespace that the workflow is restricted to; "" means any
	Idempotency Idempotency   // of starts; "" means IdempotencyOptional
	Timeout     time.Duration // of a run; 0 means none
	MaxSteps    int           // step visits of a run; 0 means 100,000
	Retention   Retention
	InputSchema any      // schema for inputs of runs; nil means any input
	Signals     []Signal // with the schemas of their payloads; other signals are accepted too
	Attributes  []Attribute
	Schedule    *ScheduleSpec
	Trigger     *Trigger
	Output      any    // template of a completed run; nil means the output of its last step
	Start       Step   // the first step, without Name: paths call it _start
	Steps       []Step // the other steps
	Terminals   []Terminal
	Plans       []Plan
}

// Idempotency is whether a start needs an idempotency key.
type Idempotency string

// The values of Idempotency.
const (
	IdempotencyOptional Idempotency = "optional"
	IdempotencyRequired Idempotency = "required"
	IdempotencyNone     Idempotency = "none" // starts with a key are rejected
)

// AttributeType is the type of a search attribute.
type AttributeType string

// The types of attributes.
const (
	AttributeString    AttributeType = "string"
	AttributeNumber    AttributeType = "number"
	AttributeTimestamp AttributeType = "timestamp"
)

// CatchUp selects which ticks run after an outage, among those that came due while no node could
// start runs.
type CatchUp string

// The values of CatchUp.
const (
	CatchUpOne  CatchUp = "one" // the latest
	CatchUpNone CatchUp = "none"
	CatchUpAll  CatchUp = "all" // up to CatchUpLimit
)

// Retention is how long ended runs are kept: at least 10 s.
type Retention struct {
	For  time.Duration // 0 means 30 days, negative no time
	Runs int           // maximum number of ended runs; 0 means 10,000, negative none
}

// Signal declares a signal.
type Signal struct {
	Type        string
	Description string
	Schema      any // schema for payloads; nil means any payload
}

// Attribute is a search attribute of runs, taken from their input.
type Attribute struct {
	Name string
	Type AttributeType // "" means AttributeString
	From string        // path, such as $.input.customer_id
}

// ScheduleSpec starts runs at times.
type ScheduleSpec struct {
	Cron          string        // five or six fields, or @hourly and the like
	Every         time.Duration // in place of Cron: an interval of at least 1 s
	Zone          string        // time zone of Cron, such as Europe/Berlin; "" means UTC
	MaxConcurrent int           // maximum number of active runs; 0 means 1, negative no limit
	Input         []byte        // of the runs, as JSON; nil means {}
	Paused        bool          // the schedule of a new workflow starts paused
	CatchUp       CatchUp       // which missed ticks run; "" means CatchUpOne
	CatchUpLimit  int           // maximum number of ticks of all; 0 means 100
}

// Trigger starts runs for records of a stream.
type Trigger struct {
	Stream        string
	Namespace     string        // of the stream; "" means that of the workflow
	Group         string        // consumer group; "" means wf-<name of the workflow>
	Mode          TriggerMode   // of the group; "" means TriggerShared
	BatchSize     int           // records of a run, 1-1,000; 0 means 1
	BatchTimeout  time.Duration // wait for a full batch; 0 means 5 s, negative none
	Start         TriggerStart  // of a new group; "" means TriggerLatest
	MaxConcurrent int           // maximum number of active runs; 0 means no limit
}

// Step is a step of a workflow.
type Step struct {
	Name        string // for transitions and paths
	Description string
	When        string // condition: the step is skipped if it is false
	Do          Work   // Call, WaitFor, Sleep, Parallel or Each
	Compensate  *Call  // undoes the step if the run fails, times out or is cancelled
	Transitions []Transition
}

// Transition maps an outcome of a step, such as OutcomeSuccess, to a step or terminal, such as
// TerminalCompleted.
type Transition struct{ On, To string }

// Work is what a step does: Call, WaitFor, Sleep, Parallel or Each.
type Work interface {
	work() mapping
}

// Call calls an action, plan or workflow.
type Call struct {
	Target  string        // @actions/<name>, @plan/<name> or @workflow/<name>[:<version>]
	Input   any           // template; nil means the input of the run, in Each the element
	Retry   *RetryPolicy  // in place of the retries of the action
	Poll    *PollPolicy   // of the outcome pending; nil treats it like any other outcome
	Timeout time.Duration // of an attempt; 0 means that of the action
}

// RetryPolicy defines how a failed call is retried.
type RetryPolicy struct {
	MaxAttempts int           // in all, 1-1,000; 0 means 3
	Backoff     Backoff       // "" means BackoffExponential
	Initial     time.Duration // before the second attempt; 0 means 1 s, negative none
	Max         time.Duration // the longest delay; 0 means 30 s
	Jitter      time.Duration // random amount, up to this, added to or subtracted from a delay
	Within      time.Duration // maximum time from the first attempt to the start of the last; 0 means no limit
}

// Backoff is the growth of the delays between the attempts of a call.
type Backoff string

// The back-off types.
const (
	BackoffConstant          Backoff = "constant"
	BackoffLinear            Backoff = "linear"
	BackoffExponential       Backoff = "exponential"
	BackoffExponentialJitter Backoff = "exponential-jitter"
)

// PollPolicy defines how a call with the outcome pending is repeated.
type PollPolicy struct {
	MaxAttempts int           // polls per attempt, 1-1,000; 0 means 10
	Backoff     Backoff       // "" means BackoffExponential
	First       time.Duration // before the first poll; 0 means Initial, negative none
	Initial     time.Duration // before the second poll; 0 means 1 s, negative none
	Max         time.Duration // the longest delay; 0 means 1 m
	Jitter      time.Duration // as in RetryPolicy
}

// WaitFor waits for a signal, whose payload is the output.
type WaitFor struct {
	Signal    string
	Timeout   time.Duration // 0 means none
	OnTimeout string        // outcome, step or terminal; "" means the outcome timeout
	Schema    any           // schema for payloads; nil means any payload
}

// Sleep waits for a duration, or until a time.
type Sleep struct {
	For   time.Duration
	Until string // instead of For: path to a time in ms or RFC 3339
}

// Parallel makes several calls in parallel.
type Parallel struct {
	Branches       []Branch
	Any            int // successes that end the step; 0 means all branches
	MaxConcurrency int // concurrent branches; 0 means no limit
}

// Branch is a call of Parallel.
type Branch struct {
	Name string
	Call Call
}

// Each makes a call for each element of an array, in parallel.
type Each struct {
	Array          string // path
	As             string // another name for $.item
	Call           Call
	Any            int // successes that end the step; 0 means all calls
	MaxConcurrency int // concurrent calls; 0 means no limit
}

// Terminal is an end state of runs.
type Terminal struct {
	Name        string
	Description string
	Status      Status // Completed, Failed, Cancelled or TimedOut; 0 means Failed
	Output      any    // template; nil means as of the workflow
}

// Plan is a choice of executors, see the package documentation.
type Plan struct {
	Name        string
	Description string
	Selection   string // static-order, round-robin, random or health-weighted; "" means static-order
	Executors   []Executor
	Health      Health
	Cache       *Cache
	Fallback    *Fallback
	Retryable   []string // the only errors retried with the same executor; nil means all
	Fatal       []string // errors after which the next executor is tried at once
}

// Executor is one executor of a Plan.
type Executor struct {
	Name        string
	Description string
	Call        Call     // of an action or workflow
	Priority    *int     // higher is tried first; nil means 100
	Breaker     *Breaker // nil means none
	RateLimit   RateLimit
	Async       bool          // wait for the outcome pending
	AsyncFor    time.Duration // maximum wait of Async; 0 means no limit
}

// Breaker stops calls to an executor that fails.
type Breaker struct {
	Failures int           // consecutive failures that open it; 0 means 5
	Cooldown time.Duration // time that it stays open; 0 means 1 m
	Probes   int           // concurrent calls after Cooldown; 0 means 2
}

// RateLimit limits the calls of an executor. All limits apply; 0 means no limit.
type RateLimit struct{ PerSecond, PerMinute, PerHour int }

// Health configures how the health of executors is measured.
type Health struct {
	Window     time.Duration // interval after which both counts are multiplied by Decay; 0 means 5 m
	Decay      float64       // above 0, up to 1; 0 means 0.9
	MinSamples int           // an executor with fewer counts as healthy; 0 means 50
}

// Cache configures the cache for outputs of the outcome success.
type Cache struct {
	Key          string        // text with paths in braces, such as charge:{input.customer_id}
	TTL          time.Duration // 0 means 5 m
	InvalidateOn []string      // types of signals
}

// Fallback is the output of a plan instead of a failure.
type Fallback struct {
	Value    any  // template; text that is valid JSON is parsed as JSON
	AnyError bool // after the first error instead of after all executors have failed
}

// mapping is a table of a definition.
type mapping = document.Mapping

// YAML returns the definition as text. The problems that Create and Validate report refer to its
// lines. They reject the text if encoding/json cannot encode a template or schema.
func (d Definition) YAML() []byte {
	all := document.With("kind", "Workflow")
	all.Set("name", d.Name)
	all.Opt("version", d.Version)
	all.Opt("description", d.Description)
	all.Opt("namespace", d.Namespace)
	all.Opt("idempotency", string(d.Idempotency))
	all.Opt("timeout_ms", d.Timeout)
	all.Opt("max_steps", d.MaxSteps)
	all.Opt("retention", d.Retention.doc())
	all.OptJSON("input_schema", d.InputSchema)
	all.Opt("signals", list(d.Signals, Signal.doc))
	all.Opt("search_attributes", list(d.Attributes, Attribute.doc))
	if d.Schedule != nil {
		all.Set("schedule", d.Schedule.doc())
	}
	if d.Trigger != nil {
		all.Set("trigger", d.Trigger.doc())
	}
	all.OptJSON("output", d.Output)
	start := d.Start.doc()
	start.Opt("name", d.Start.Name) // which no step has as a key
	all.Set("start", start)
	all.Opt("steps", named(d.Steps, func(s Step) (string, mapping) { return s.Name, s.doc() }))
	all.Opt("terminals", named(d.Terminals, func(t Terminal) (string, mapping) { return t.Name, t.doc() }))
	all.Opt("plans", named(d.Plans, func(p Plan) (string, mapping) { return p.Name, p.doc() }))
	return all.YAML()
}

func list[T any](all []T, doc func(T) mapping) (docs []mapping) {
	for _, one := range all {
		docs = append(docs, doc(one))
	}
	return docs
}

func named[T any](all []T, doc func(T) (string, mapping)) (docs mapping) {
	for _, one := range all {
		name, members := doc(one)
		docs.Set(name, members)
	}
	return docs
}

func (r Retention) doc() (all mapping) {
	all.OptOrNone("ms", document.Millis(r.For))
	all.OptOrNone("runs", int64(r.Runs))
	return all
}

func (s Signal) doc() mapping {
	all := document.With("type", s.Type)
	all.Opt("description", s.Description)
	all.OptJSON("schema", s.Schema)
	return all
}

func (a Attribute) doc() mapping {
	all := document.With("name", a.Name)
	all.Opt("type", string(a.Type))
	all.Set("from", a.From)
	return all
}

func (s *ScheduleSpec) doc() (all mapping) {
	all.Opt("cron", s.Cron)
	all.Opt("interval", s.Every)
	all.Opt("timezone", s.Zone)
	all.OptOrNone("max_concurrent", int64(s.MaxConcurrent))
	all.Opt("input", string(s.Input))
	all.Opt("paused", s.Paused)
	all.Opt("catch_up", string(s.CatchUp))
	all.Opt("catch_up_limit", s.CatchUpLimit)
	return all
}

func (t *Trigger) doc() mapping {
	all := document.With("stream", t.Stream)
	all.Opt("namespace", t.Namespace)
	all.Opt("consumer_group", t.Group)
	all.Opt("mode", string(t.Mode))
	all.Opt("batch_size", t.BatchSize)
	all.OptOrNone("batch_timeout_ms", document.Millis(t.BatchTimeout))
	all.Opt("start", string(t.Start))
	all.Opt("max_concurrent", t.MaxConcurrent)
	return all
}

func (s Step) doc() (all mapping) {
	all.Opt("description", s.Description)
	all.Opt("when", s.When)
	if s.Do != nil {
		all = append(all, s.Do.work()...)
	}
	if s.Compensate != nil {
		all.Set("compensate", s.Compensate.work())
	}
	transitions := mapping{}
	for _, t := range s.Transitions {
		transitions.Set(t.On, t.To)
	}
	all.Set("transitions", transitions)
	return all
}

func (c Call) work() mapping {
	all := document.With("run", c.Target)
	all.OptJSON("input", c.Input)
	if c.Retry != nil {
		all.Set("retry", c.Retry.doc())
	}
	if c.Poll != nil {
		all.Set("poll", c.Poll.doc())
	}
	all.Opt("timeout_ms", c.Timeout)
	return all
}

func (r *RetryPolicy) doc() (all mapping) {
	all.Opt("max_attempts", r.MaxAttempts)
	all.Opt("backoff", string(r.Backoff))
	all.OptOrNone("initial_delay_ms", document.Millis(r.Initial))
	all.Opt("max_delay_ms", r.Max)
	all.Opt("jitter_ms", r.Jitter)
	all.Opt("within_ms", r.Within)
	return all
}

func (p *PollPolicy) doc() (all mapping) {
	all.Opt("max_attempts", p.MaxAttempts)
	all.Opt("backoff", string(p.Backoff))
	all.OptOrNone("initial_delay_ms", document.Millis(p.First))
	all.OptOrNone("base_delay_ms", document.Millis(p.Initial))
	all.Opt("max_delay_ms", p.Max)
	all.Opt("jitter_ms", p.Jitter)
	return all
}

func (w WaitFor) work() mapping {
	all := document.With("type", w.Signal)
	all.Opt("timeout_ms", w.Timeout)
	all.Opt("on_timeout", w.OnTimeout)
	all.OptJSON("schema", w.Schema)
	return document.With("wait_for_signal", all)
}

func (s Sleep) work() (all mapping) {
	if s.For != 0 || s.Until == "" {
		all.Set("ms", s.For)
	}
	all.Opt("until", s.Until)
	return document.With("sleep", all)
}

func (p Parallel) work() mapping {
	branches := mapping{}
	for _, b := range p.Branches {
		branches.Set(b.Name, b.Call.work())
	}
	all := document.With("branches", branches)
	all.Opt("any", p.Any)
	all.Opt("max_concurrency", p.MaxConcurrency)
	return document.With("parallel", all)
}

func (e Each) work() mapping {
	all := document.With("each", e.Array)
	all.Opt("as", e.As)
	all = append(all, e.Call.work()...)
	all.Opt("any", e.Any)
	all.Opt("max_concurrency", e.MaxConcurrency)
	return document.With("parallel", all)
}

func (t Terminal) doc() mapping {
	all := mapping{}
	all.Opt("description", t.Description)
	if t.Status != 0 {
		all.Set("status", t.Status.String())
	}
	all.OptJSON("output", t.Output)
	return all
}

func (p Plan) doc() (all mapping) {
	all.Opt("description", p.Description)
	all.Opt("selection", p.Selection)
	all.Set("executors", list(p.Executors, Executor.doc))
	all.Opt("health", p.Health.doc())
	if p.Cache != nil {
		all.Set("cache", p.Cache.doc())
	}
	if p.Fallback != nil {
		all.Set("fallback", p.Fallback.doc())
	}
	var errors mapping
	errors.Opt("retryable", p.Retryable)
	errors.Opt("fatal", p.Fatal)
	all.Opt("errors", errors)
	return all
}

func (e Executor) doc() mapping {
	all := document.With("name", e.Name)
	all.Opt("description", e.Description)
	all = append(all, e.Call.work()...)
	if e.Priority != nil {
		all.Set("priority", *e.Priority)
	}
	if e.Breaker != nil {
		all.Set("breaker", e.Breaker.doc())
	}
	all.Opt("rate_limit", e.RateLimit.doc())
	var tracking mapping
	if e.Async {
		tracking.Set("mode", "async")
	}
	tracking.Opt("timeout_ms", e.AsyncFor)
	all.Opt("tracking", tracking)
	return all
}

func (b *Breaker) doc() (all mapping) {
	all.Opt("failure_threshold", b.Failures)
	all.Opt("cooldown_ms", b.Cooldown)
	all.Opt("half_open_max_calls", b.Probes)
	return all
}

func (r RateLimit) doc() (all mapping) {
	all.Opt("max_per_second", r.PerSecond)
	all.Opt("max_per_minute", r.PerMinute)
	all.Opt("max_per_hour", r.PerHour)
	return all
}

func (h Health) doc() (all mapping) {
	all.Opt("window_ms", h.Window)
	all.Opt("decay", h.Decay)
	all.Opt("min_samples", h.MinSamples)
	return all
}

func (c *Cache) doc() mapping {
	all := document.With("key", c.Key)
	all.Opt("ttl_ms", c.TTL)
	all.Opt("invalidate_on", c.InvalidateOn)
	return all
}

func (f *Fallback) doc() mapping {
	all := document.With("value", f.Value)
	if f.AnyError {
		all.Set("condition", "any_error")
	}
	return all
}
