package workflow

import (
	"bytes"
	"encoding/json"
	"time"
)

// Builder makes a definition in Go instead of YAML: a value whose methods say what keys of the same name say there, see the package's documentation. What is wrong with it
// Create tells, as of any definition.
//
//	order := workflow.New("order").
//		Start(workflow.Call("@actions/charge").Retry(workflow.RetryPolicy{Attempts: 3}).Compensate(workflow.Call("@actions/refund")).
//			To("success", "approve").To("failure", "flo.Failed")).
//		Step("approve", workflow.WaitFor("approval", time.Hour).To("success", "flo.Completed").To("timeout", "flo.Failed"))
//	_, err := flows.Create(ctx, order.Definition())
type Builder struct{ doc, steps, terminals, plans, signals object }

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o *object) set(name string, value any) { *o = append(*o, member{name, value}) }

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(append(append(name, ':'), value...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// ms returns the duration in milliseconds, rounded up.
func ms(d time.Duration) int64 {
	n := d.Milliseconds()
	if d%time.Millisecond > 0 {
		n++
	}
	return n
}

// New begins the definition of a workflow.
func New(name string) *Builder {
	b := &Builder{}
	b.doc.set("name", name)
	return b
}

// with sets a key of the definition.
func (b *Builder) with(key string, value any) *Builder {
	b.doc.set(key, value)
	return b
}

// Version sets the version; the default is "1".
func (b *Builder) Version(v string) *Builder { return b.with("version", v) }

// Description says what the workflow does.
func (b *Builder) Description(text string) *Builder { return b.with("description", text) }

// Timeout bounds how long a run takes.
func (b *Builder) Timeout(d time.Duration) *Builder { return b.with("timeout_ms", ms(d)) }

// Retain sets how long ended runs are kept, and how many of them; each stays for 10 s at least.
func (b *Builder) Retain(d time.Duration, runs int) *Builder {
	return b.with("retention", object{{"ms", ms(d)}, {"runs", runs}})
}

// Idempotency says whether starts need an idempotency key: "optional", which is the default, "required" or "none".
func (b *Builder) Idempotency(rule string) *Builder { return b.with("idempotency", rule) }

// InputSchema sets what inputs have to be like: a JSON Schema, as a value that encoding/json can write.
func (b *Builder) InputSchema(schema any) *Builder { return b.with("input_schema", schema) }

// Output sets the output of runs that complete, with paths in it; the default is that of the last step.
func (b *Builder) Output(template any) *Builder { return b.with("output", template) }

// Attribute adds a search attribute: its type is "string", "number" or "timestamp", and path, such as
// "$.input.customer_id", says where in the input its value is.
func (b *Builder) Attribute(name, kind, path string) *Builder {
	for i := range b.doc {
		if b.doc[i].name == "search_attributes" {
			b.doc[i].value = append(b.doc[i].value.([]object), attributeOf(name, kind, path))
			return b
		}
	}
	return b.with("search_attributes", []object{attributeOf(name, kind, path)})
}

func attributeOf(name, kind, path string) object {
	return object{{"name", name}, {"type", kind}, {"from", path}}
}

// Signal declares a type of signals, with what their payloads have to be like.
func (b *Builder) Signal(kind string, schema any) *Builder {
	b.signals.set(kind, object{{"schema", schema}})
	return b
}

// Schedule has runs started at times: times is a mapping of the keys of schedule, such as {"cron": "0 6 * * *", "timezone": "Europe/Berlin"}.
func (b *Builder) Schedule(times map[string]any) *Builder { return b.with("schedule", times) }

// Trigger has runs started for records of a stream: from is a mapping of the keys of trigger, such as {"stream": "orders", "consumer_group": "flows"}.
func (b *Builder) Trigger(from map[string]any) *Builder { return b.with("trigger", from) }

// Start sets the first step.
func (b *Builder) Start(s *Step) *Builder { return b.with("start", s.doc()) }

// Step adds a step.
func (b *Builder) Step(name string, s *Step) *Builder {
	b.steps.set(name, s.doc())
	return b
}

// Terminal adds an end, with the state of runs that come to it, and their output, which may be nil.
func (b *Builder) Terminal(name string, status Status, output any) *Builder {
	t := object{{"status", status.String()}}
	if output != nil {
		t.set("output", output)
	}
	b.terminals.set(name, t)
	return b
}

// Plan adds a plan: a mapping of the keys of one.
func (b *Builder) Plan(name string, plan map[string]any) *Builder {
	b.plans.set(name, plan)
	return b
}

// Definition returns the definition, as JSON for Create and Validate.
func (b *Builder) Definition() []byte {
	doc := b.doc
	for _, part := range []struct {
		key string
		of  object
	}{{"signals", b.signals}, {"steps", b.steps}, {"terminals", b.terminals}, {"plans", b.plans}} {
		if len(part.of) > 0 {
			doc = append(doc, member{part.key, part.of})
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return []byte("# " + err.Error()) // which is no definition, and says why
	}
	return text
}

// Step is a step, a branch of one or what compensates one, of a Builder.
type Step struct {
	keys        object
	inner       string // the key that call goes into, of Each
	call        object
	transitions object
}

// Call runs a target: "@actions/x", "@plan/x" or "@workflow/x", maybe with ":version" behind it.
func Call(target string) *Step {
	s := &Step{}
	s.call.set("run", target)
	return s
}

// WaitFor waits for a signal of a type; timeout 0 waits for ever.
func WaitFor(signal string, timeout time.Duration) *Step {
	w := object{{"type", signal}}
	if timeout > 0 {
		w.set("timeout_ms", ms(timeout))
	}
	return &Step{keys: object{{"wait_for_signal", w}}}
}

// Sleep waits for a time.
func Sleep(d time.Duration) *Step {
	return &Step{keys: object{{"sleep", object{{"ms", ms(d)}}}}}
}

// SleepUntil waits until a time to which a path leads: milliseconds since 1970, or RFC 3339.
func SleepUntil(path string) *Step {
	return &Step{keys: object{{"sleep", object{{"until", path}}}}}
}

// Each runs a call for each element of the array to which a path leads, most of them at the same time (0: all). $.item and $.index lead to the element.
func Each(path string, call *Step, most int) *Step {
	p := append(object{{"each", path}}, call.call...)
	if most > 0 {
		p.set("max_concurrency", most)
	}
	return &Step{keys: object{{"parallel", p}}}
}

// Parallel runs calls at the same time. Branch adds them; with any, so many successes are enough, 0 means all.
func Parallel(any int) *Step {
	s := &Step{inner: "parallel"}
	if any > 0 {
		s.keys.set("any", any)
	}
	return s
}

// Branch adds a branch to a step of Parallel.
func (s *Step) Branch(name string, call *Step) *Step {
	s.call.set(name, call.call)
	return s
}

// with sets a key of the call.
func (s *Step) with(key string, value any) *Step {
	s.call.set(key, value)
	return s
}

// Input sets what is called gets: a value that encoding/json can write, whose strings that are paths stand for what they lead to. The default is the run's input.
func (s *Step) Input(template any) *Step { return s.with("input", template) }

// Timeout bounds an attempt.
func (s *Step) Timeout(d time.Duration) *Step { return s.with("timeout_ms", ms(d)) }

// RetryPolicy says how often a call is tried.
type RetryPolicy struct {
	Attempts int
	Backoff  string        // fixed, linear, exponential or exponential-jitter; "" is exponential
	Initial  time.Duration // the first pause; 0: a second
	Max      time.Duration // the longest pause; 0: 30 s
	Within   time.Duration // no attempt begins later after the first one; 0: no limit
}

// Retry sets how often the call is tried, instead of what its action says.
func (s *Step) Retry(p RetryPolicy) *Step {
	o := object{{"max_attempts", p.Attempts}}
	if p.Backoff != "" {
		o.set("backoff", p.Backoff)
	}
	for _, d := range []struct {
		key string
		is  time.Duration
	}{{"initial_delay_ms", p.Initial}, {"max_delay_ms", p.Max}, {"within_ms", p.Within}} {
		if d.is > 0 {
			o.set(d.key, ms(d.is))
		}
	}
	return s.with("retry", o)
}

// Poll has a call with the outcome "pending" made again, up to so many times: after a pause first, and then after growing ones from base to most.
func (s *Step) Poll(attempts int, first, base, most time.Duration) *Step {
	return s.with("poll", object{
		{"max_attempts", attempts}, {"initial_delay_ms", ms(first)}, {"backoff", "exponential"}, {"base_delay_ms", ms(base)}, {"max_delay_ms", ms(most)},
	})
}

// When sets a condition: if it is false the step is skipped.
func (s *Step) When(condition string) *Step {
	s.keys.set("when", condition)
	return s
}

// Compensate sets what undoes the step.
func (s *Step) Compensate(call *Step) *Step {
	s.keys.set("compensate", call.call)
	return s
}

// OnTimeout sets the outcome of a step of WaitFor to which no signal has come; the default is "timeout". A step or terminal that it names is where it leads.
func (s *Step) OnTimeout(outcome string) *Step {
	for i := range s.keys {
		if w, ok := s.keys[i].value.(object); ok && s.keys[i].name == "wait_for_signal" {
			w.set("on_timeout", outcome)
			s.keys[i].value = w
		}
	}
	return s
}

// To says where an outcome leads: to a step, or to a terminal such as "flo.Completed".
func (s *Step) To(outcome, place string) *Step {
	s.transitions.set(outcome, place)
	return s
}

// doc returns the step as it stands in a definition.
func (s *Step) doc() object {
	var o object
	if s.inner == "" {
		o = append(append(o, s.call...), s.keys...)
	} else {
		p := object{{"branches", s.call}}
		for _, k := range s.keys {
			if k.name == "any" {
				p.set(k.name, k.value)
			} else {
				o.set(k.name, k.value)
			}
		}
		o.set(s.inner, p)
	}
	o.set("transitions", s.transitions)
	return o
}
