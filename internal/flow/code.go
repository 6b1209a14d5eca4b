package flow

import (
	"fmt"
	"math"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/expression"
	"github.com/floedb/floe/internal/rawjson"
)

// Code codes the compiled form. A machine can run a decoded form without further checks: places,
// plans and kinds exist, lists are within the limits of definitions, and times and counts are not
// negative.
func (d *Definition) Code(c *codec.Coder) {
	c.String(&d.Name)
	c.String(&d.Version)
	c.String(&d.Description)
	c.String(&d.Namespace)
	enum(c, &d.Idempotency, IdempotencyOptional, IdempotencyRequired)
	naturals(c, &d.Timeout, &d.MaxVisits, &d.RetainFor, &d.RetainRuns)
	optional(c, &d.Input, codeSchema)
	list(c, &d.Signals, MaxSignals, codeSignal)
	list(c, &d.Attributes, MaxAttributes, codeAttribute)
	optional(c, &d.Output, codeTemplate)
	optional(c, &d.Schedule, codeSchedule)
	optional(c, &d.Trigger, codeTrigger)
	list(c, &d.Steps, MaxSteps, codeStep)
	list(c, &d.Terminals, MaxTerminals, codeTerminal)
	list(c, &d.Plans, MaxPlans, codePlan)
	if c.More(d.MaxSteps > 0) {
		naturals(c, &d.MaxSteps)
	}
	if c.Reading() && c.Err() == nil {
		d.refer(c)
	}
}

// refer fails the decoder if a step or call refers to a missing step, terminal or plan.
func (d *Definition) refer(c *codec.Coder) {
	if len(d.Steps) == 0 || d.Steps[0].Name != StartStep {
		c.Fail("no step to start with")
	}
	for i := range d.Steps {
		for _, t := range d.Steps[i].Transitions {
			if int(t.To) >= len(d.Steps) || t.To < 0 && int(^t.To) >= builtInTerminals+len(d.Terminals) {
				c.Fail("transition to nowhere")
			}
		}
	}
	d.calls(func(call *Call) {
		if call.Target == TargetPlan && (call.Plan < 0 || call.Plan >= len(d.Plans)) {
			c.Fail("plan that is not there")
		}
	})
	for i := range d.Plans {
		if len(d.Plans[i].Executors) == 0 {
			c.Fail("plan without executors")
		}
		for j := range d.Plans[i].Executors {
			if d.Plans[i].Executors[j].Call.Target == TargetPlan {
				c.Fail("plan in a plan")
			}
		}
	}
}

// calls calls yield for each call of each step.
func (d *Definition) calls(yield func(*Call)) {
	for i := range d.Steps {
		s := &d.Steps[i]
		switch s.Kind {
		case KindCall:
			yield(&s.Call)
		case KindParallel:
			if s.Parallel.Each != nil {
				yield(&s.Parallel.Body)
			}
			for j := range s.Parallel.Branches {
				yield(&s.Parallel.Branches[j].Call)
			}
		}
		if s.Compensate != nil {
			yield(s.Compensate)
		}
	}
}

func codeSignal(c *codec.Coder, s *Signal) {
	c.String(&s.Type)
	optional(c, &s.Schema, codeSchema)
}

func codeAttribute(c *codec.Coder, a *Attribute) {
	c.String(&a.Name)
	enum(c, &a.Kind, AttributeString, AttributeTimestamp)
	codePath(c, &a.From)
}

func codeSchedule(c *codec.Coder, s *Schedule) {
	c.String(&s.Cron)
	c.String(&s.Zone)
	naturals(c, &s.Every, &s.Most, &s.CatchUpLimit)
	enum(c, &s.CatchUp, 0, catchUpRules-1)
	c.Bytes(&s.Input)
	if c.Reading() && s.Input != nil && !rawjson.Valid(s.Input) {
		c.Fail("input of a schedule that is no JSON")
	}
	c.Bool(&s.Paused)
}

func codeTrigger(c *codec.Coder, t *Trigger) {
	c.String(&t.Stream)
	c.String(&t.Namespace)
	c.String(&t.Group)
	c.String(&t.Mode)
	c.String(&t.Start)
	naturals(c, &t.Batch, &t.Wait, &t.Most)
}

func codeStep(c *codec.Coder, s *Step) {
	c.String(&s.Name)
	enum(c, &s.Kind, KindCall, KindParallel)
	optional(c, &s.When, codeExpr)
	switch s.Kind {
	case KindCall:
		codeCall(c, &s.Call)
	case KindWait:
		codeWait(c, &s.Wait)
	case KindSleep:
		naturals(c, &s.Sleep.For)
		optional(c, &s.Sleep.Until, codePath)
	case KindParallel:
		codeParallel(c, &s.Parallel)
	}
	optional(c, &s.Compensate, codeCall)
	list(c, &s.Transitions, MaxTransitions+1, codeTransition) // plus the one for a signal's timeout
}

func codeTransition(c *codec.Coder, t *Transition) {
	c.String(&t.Outcome)
	c.Int((*int)(&t.To))
}

func codeCall(c *codec.Coder, a *Call) {
	enum(c, &a.Target, TargetAction, TargetWorkflow)
	c.String(&a.Name)
	c.String(&a.Version)
	c.Int(&a.Plan)
	optional(c, &a.Input, codeTemplate)
	naturals(c, &a.Retry.Attempts, &a.Retry.Within, &a.Timeout)
	codeBackoff(c, &a.Retry.Backoff)
	optional(c, &a.Poll, codePoll)
}

func codePoll(c *codec.Coder, p *Poll) {
	naturals(c, &p.First, &p.Attempts)
	codeBackoff(c, &p.Backoff)
}

func codeBackoff(c *codec.Coder, b *Backoff) {
	enum(c, &b.Kind, BackoffFixed, BackoffExponentialJitter)
	naturals(c, &b.Initial, &b.Max, &b.Jitter)
}

func codeWait(c *codec.Coder, w *Wait) {
	c.String(&w.Type)
	naturals(c, &w.Timeout)
	c.String(&w.OnTimeout)
	optional(c, &w.Schema, codeSchema)
}

func codeParallel(c *codec.Coder, p *Parallel) {
	optional(c, &p.Each, codePath)
	if p.Each != nil {
		codeCall(c, &p.Body)
	} else {
		list(c, &p.Branches, MaxBranches, codeBranch)
	}
	naturals(c, &p.Any, &p.Most)
}

func codeBranch(c *codec.Coder, b *Branch) {
	c.String(&b.Name)
	codeCall(c, &b.Call)
}

func codeTerminal(c *codec.Coder, t *Terminal) {
	c.String(&t.Name)
	enum(c, &t.Status, Completed, TimedOut)
	optional(c, &t.Output, codeTemplate)
}

func codePlan(c *codec.Coder, p *Plan) {
	c.String(&p.Name)
	enum(c, &p.Selection, SelectStatic, SelectHealth)
	list(c, &p.Executors, MaxExecutors, codeExecutor)
	naturals(c, &p.Health.Window, &p.Health.Decay, &p.Health.MinSamples)
	if c.Reading() && p.Health.Decay > 1<<16 {
		c.Fail("decay above 1")
	}
	optional(c, &p.Cache, codeCache)
	optional(c, &p.Fallback, codeFallback)
	list(c, &p.Retryable, MaxNames, (*codec.Coder).String)
	list(c, &p.Fatal, MaxNames, (*codec.Coder).String)
}

func codeExecutor(c *codec.Coder, e *Executor) {
	c.String(&e.Name)
	codeCall(c, &e.Call)
	c.Varint(&e.Priority)
	optional(c, &e.Breaker, func(c *codec.Coder, b *Breaker) { naturals(c, &b.Failures, &b.Cooldown, &b.Probes) })
	list(c, &e.Rates, maxRates, codeRate)
	c.Bool(&e.Async)
	naturals(c, &e.TrackFor)
}

func codeRate(c *codec.Coder, r *Rate) {
	naturals(c, &r.Limit, &r.Per)
	if c.Reading() && (r.Limit == 0 || r.Per == 0) {
		c.Fail("rate of nothing")
	}
}

func codeCache(c *codec.Coder, k *Cache) {
	naturals(c, &k.TTL)
	list(c, &k.Key.parts, maxPaths+1, codePart)
	list(c, &k.InvalidateOn, MaxNames, (*codec.Coder).String)
}

func codeFallback(c *codec.Coder, f *Fallback) {
	optional(c, &f.Value, codeTemplate)
	c.Bool(&f.AnyError)
}

func codeTemplate(c *codec.Coder, t *Template) { list(c, &t.parts, maxPaths+1, codePart) }

func codePart(c *codec.Coder, p *templatePart) {
	c.String(&p.literal)
	optional(c, &p.path, codePath)
}

func codePath(c *codec.Coder, p *Path) {
	enum(c, &p.root, RootInput, RootStepInput)
	c.String(&p.name)
	list(c, &p.hops, expression.MaxHops, codeHop)
}

func codeHop(c *codec.Coder, h *expression.Hop) {
	if c.Bool(&h.Index); h.Index {
		naturals(c, &h.At)
	} else {
		c.String(&h.Key)
	}
}

func codeSchema(c *codec.Coder, s *Schema) {
	left := maxSchemaDepth
	codeSchemaIn(c, s, left)
}

// codeSchemaIn codes a schema with up to left nested levels.
func codeSchemaIn(c *codec.Coder, s *Schema, left int) {
	if left == 0 {
		c.Fail("schema nested too deep")
		return
	}
	if c.Byte(&s.types); c.Reading() && s.types >= typeEnd {
		c.Fail("type that is not known")
	}
	list(c, &s.required, math.MaxInt, (*codec.Coder).String)
	list(c, &s.members, math.MaxInt, func(c *codec.Coder, m *schemaMember) {
		c.String(&m.name)
		need(c, &m.schema, func(c *codec.Coder, s *Schema) { codeSchemaIn(c, s, left-1) })
	})
	for i := 1; c.Reading() && i < len(s.members); i++ {
		if s.members[i-1].name >= s.members[i].name {
			c.Fail("members out of order")
		}
	}
	c.Bool(&s.closed)
	optional(c, &s.items, func(c *codec.Coder, s *Schema) { codeSchemaIn(c, s, left-1) })
	list(c, &s.enum, math.MaxInt, codeJSON)
	optional(c, &s.min, codeFinite)
	optional(c, &s.max, codeFinite)
	for i := range s.size {
		optional(c, &s.size[i], func(c *codec.Coder, l *sizeLimit) {
			c.Varint(&l.min)
			c.Varint(&l.max)
		})
	}
}

func codeFinite(c *codec.Coder, v *float64) {
	if c.Float64(v); math.IsNaN(*v) || math.IsInf(*v, 0) {
		c.Fail("number that is none")
	}
}

func codeJSON(c *codec.Coder, raw *[]byte) {
	text := string(*raw)
	if c.String(&text); !c.Reading() {
		return
	}
	if *raw = []byte(text); !rawjson.Valid(*raw) {
		c.Fail("value that is no JSON")
	}
}

// enum codes a kind between first and last.
func enum[T ~uint8](c *codec.Coder, v *T, first, last T) {
	b := byte(*v)
	if c.Byte(&b); !c.Reading() {
		return
	}
	if *v = T(b); *v < first || *v > last {
		c.Fail(fmt.Sprintf("kind %d that is not known", b))
	}
}

// naturals codes non-negative integers.
func naturals(c *codec.Coder, list ...*int64) {
	for _, v := range list {
		if c.Varint(v); c.Reading() && *v < 0 {
			c.Fail("negative number")
		}
	}
}

// list codes a slice of up to most elements.
func list[T any](c *codec.Coder, v *[]T, most int, code func(*codec.Coder, *T)) {
	if codec.List(c, v, code); c.Reading() && len(*v) > most {
		c.Fail("list that is too long")
	}
}

// optional codes a pointer that may be nil.
func optional[T any](c *codec.Coder, v **T, code func(*codec.Coder, *T)) {
	there := *v != nil
	if c.Bool(&there); c.Reading() {
		*v = nil
	}
	if there {
		need(c, v, code)
	}
}

// need codes a pointer that must not be nil.
func need[T any](c *codec.Coder, v **T, code func(*codec.Coder, *T)) {
	if c.Reading() {
		*v = new(T)
	}
	code(c, *v)
}
