package workflow_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/yaml"
	"github.com/floedb/floe/workflow"
)

// object is free-form JSON in a definition.
type object = map[string]any

// built has every key of a definition, and builtText is the same definition written by hand.
// TestDefinitionIsComplete finds keys missing in both.
var built = workflow.Definition{
	Name: "all", Version: "1.10", Description: "everything: yes", Namespace: "n", Idempotency: "required", Timeout: time.Hour,
	MaxSteps:  500,
	Retention: workflow.Retention{For: time.Minute, Runs: 7},
	InputSchema: object{
		"type": "object", "title": "order", "description": "of a customer", "required": []string{"n"}, "additionalProperties": false,
		"properties": object{
			"n":     object{"type": []string{"integer", "null"}, "minimum": 1, "maximum": 9.5},
			"name":  object{"minLength": 1, "maxLength": 5},
			"items": object{"items": object{"enum": []any{"a", 1, nil}}, "minItems": 1, "maxItems": 100},
			"kind":  json.RawMessage(`{"const": "yes"}`),
		},
	},
	Signals:    []workflow.Signal{{Type: "go", Description: "on", Schema: object{"type": "object"}}, {Type: "stop"}},
	Attributes: []workflow.Attribute{{Name: "n", Type: "number", From: "$.input.n"}, {Name: "who", From: "input.name"}},
	Schedule: &workflow.ScheduleSpec{
		Cron: "0 6 * * *", Zone: "Europe/Berlin", MaxConcurrent: 2, Input: []byte(`{"n": 1}`), Paused: true, CatchUp: "all",
		CatchUpLimit: 7,
	},
	Trigger: &workflow.Trigger{
		Stream: "orders", Namespace: "shop", Group: "flows", Mode: "key_shared", BatchSize: 5, BatchTimeout: time.Second, Start: "earliest",
		MaxConcurrent: 3,
	},
	Output: object{"n": "$.input.n", "list": []any{"yes", "1", 1.5, nil}},
	Start: workflow.Step{
		Description: "first", When: "input.n > 1",
		Do: workflow.Call{
			Target: "@actions/one", Input: object{"n": "$.input.n"}, Timeout: 1500 * time.Microsecond,
			Retry: &workflow.RetryPolicy{
				MaxAttempts: 5, Backoff: "linear", Initial: 2 * time.Second, Max: time.Minute, Jitter: time.Millisecond, Within: time.Hour,
			},
			Poll: &workflow.PollPolicy{
				MaxAttempts: 4, Backoff: "constant", First: time.Second, Initial: 2 * time.Second, Max: time.Hour, Jitter: time.Millisecond,
			},
		},
		Compensate:  &workflow.Call{Target: "@actions/undo", Retry: &workflow.RetryPolicy{}},
		Transitions: []workflow.Transition{{"success", "wait"}, {"yes", "bad"}, {"failure", "bad"}},
	},
	Steps: []workflow.Step{
		{
			Name: "wait", Do: workflow.WaitFor{Signal: "go", Timeout: time.Minute, OnTimeout: "bad", Schema: object{"type": "object"}},
			Transitions: []workflow.Transition{{"success", "sleep"}, {"bad", "bad"}},
		},
		{Name: "sleep", Do: workflow.Sleep{For: time.Second}, Transitions: []workflow.Transition{{"success", "until"}}},
		{Name: "until", Do: workflow.Sleep{Until: "$.input.at"}, Transitions: []workflow.Transition{{"success", "each"}}},
		{
			Name: "each",
			Do: workflow.Each{Array: "$.input.items", As: "one", Call: workflow.Call{Target: "@workflow/item:3", Input: "$.one"},
				Any: 2, MaxConcurrency: 4},
			Transitions: []workflow.Transition{{"success", "fan"}},
		},
		{
			Name: "fan",
			Do: workflow.Parallel{
				Branches: []workflow.Branch{{"b", workflow.Call{Target: "@actions/b", Timeout: time.Second}},
					{"a", workflow.Call{Target: "@plan/p"}}},
				Any: 1, MaxConcurrency: 1,
			},
			Transitions: []workflow.Transition{{"success", "flo.Completed"}},
		},
	},
	Terminals: []workflow.Terminal{
		{Name: "bad", Description: "it failed", Status: workflow.TimedOut, Output: object{"why": "$.steps._start.outcome"}},
		{Name: "unused"},
	},
	Plans: []workflow.Plan{{
		Name: "p", Description: "who pays", Selection: "health-weighted",
		Executors: []workflow.Executor{
			{
				Name: "x", Description: "the first", Call: workflow.Call{Target: "@actions/x", Input: json.RawMessage("null")},
				Priority:  new(0),
				Breaker:   &workflow.Breaker{Failures: 3, Cooldown: time.Second, Probes: 1},
				RateLimit: workflow.RateLimit{PerSecond: 1, PerMinute: 20, PerHour: 300}, Async: true, AsyncFor: time.Hour,
			},
			{Name: "y", Call: workflow.Call{Target: "@workflow/y"}, Breaker: &workflow.Breaker{}},
		},
		Health:    workflow.Health{Window: time.Hour, Decay: 0.5, MinSamples: 3},
		Cache:     &workflow.Cache{Key: "charge:{input.n}", TTL: time.Hour, InvalidateOn: []string{"stop"}},
		Fallback:  &workflow.Fallback{Value: object{"status": "declined"}, AnyError: true},
		Retryable: []string{"slow", "503"}, Fatal: []string{"no"},
	}},
}

const builtText = `
kind: Workflow
name: all
version: "1.10"
description: "everything: yes"
namespace: n
idempotency: required
timeout_ms: 3600000
max_steps: 500
retention: { ms: 60000, runs: 7 }
input_schema:
  type: object
  title: order
  description: of a customer
  required: [n]
  additional_properties: false
  properties:
    n: { type: [integer, "null"], minimum: 1, maximum: 9.5 }
    name: { min_length: 1, max_length: 5 }
    items: { items: { enum: [a, 1, null] }, min_items: 1, max_items: 100 }
    kind: { const: "yes" }
signals: { go: { description: "on", schema: { type: object } }, stop: }
search_attributes: [{ name: n, type: number, from: $.input.n }, { name: who, from: input.name }]
schedule: { cron: 0 6 * * *, timezone: Europe/Berlin, max_concurrent: 2, input: { n: 1 }, paused: true, catch_up: all, catch_up_limit: 7 }
trigger: { stream: orders, namespace: shop, consumer_group: flows, mode: key_shared, batch_size: 5, batch_timeout_ms: 1000, start: earliest, max_concurrent: 3 }
output: { list: ["yes", "1", 1.5, null], n: $.input.n }
start:
  description: first
  when: input.n > 1
  run: "@actions/one"
  input: { n: $.input.n }
  timeout_ms: 2
  retry: { max_attempts: 5, backoff: linear, initial_delay_ms: 2000, max_delay_ms: 60000, jitter_ms: 1, within_ms: 3600000 }
  poll: { max_attempts: 4, backoff: constant, initial_delay_ms: 1000, base_delay_ms: 2000, max_delay_ms: 3600000, jitter_ms: 1 }
  compensate: { run: "@actions/undo", retry: {} }
  transitions: { success: wait, "yes": bad, failure: bad }
steps:
  wait:
    wait_for_signal: { type: go, timeout_ms: 60000, on_timeout: bad, schema: { type: object } }
    transitions: { success: sleep, bad: bad }
  sleep: { sleep: { ms: 1000 }, transitions: { success: until } }
  until: { sleep: { until: $.input.at }, transitions: { success: each } }
  each:
    parallel: { each: $.input.items, as: one, run: "@workflow/item:3", input: $.one, any: 2, max_concurrency: 4 }
    transitions: { success: fan }
  fan:
    parallel: { branches: { b: { run: "@actions/b", timeout_ms: 1000 }, a: "@plan/p" }, any: 1, max_concurrency: 1 }
    transitions: { success: flo.Completed }
terminals: { bad: { description: it failed, status: timed_out, output: { why: $.steps._start.outcome } }, unused: }
plans:
  p:
    description: who pays
    selection: health-weighted
    executors:
      - name: x
        description: the first
        run: "@actions/x"
        input: null
        priority: 0
        breaker: { failure_threshold: 3, cooldown_ms: 1000, half_open_max_calls: 1 }
        rate_limit: { max_per_second: 1, max_per_minute: 20, max_per_hour: 300 }
        tracking: { mode: async, timeout_ms: 3600000 }
      - { name: y, run: "@workflow/y", breaker: {} }
    health: { window_ms: 3600000, decay: 0.5, min_samples: 3 }
    cache: { key: "charge:{input.n}", ttl_ms: 3600000, invalidate_on: [stop] }
    fallback: { value: { status: declined }, condition: any_error }
    errors: { retryable: [slow, "503"], fatal: ["no"] }
`

// least has only the required keys; none has no limit and no delay where the default is different.
var (
	done  = []workflow.Transition{{"success", "flo.Completed"}}
	least = workflow.Definition{Name: "least", Start: workflow.Step{Do: workflow.Sleep{}, Transitions: done}}
	none  = workflow.Definition{
		Name: "none", Retention: workflow.Retention{For: -1, Runs: -1}, Schedule: &workflow.ScheduleSpec{Every: time.Minute,
			MaxConcurrent: -1, Input: []byte(`"1"`)},
		Trigger: &workflow.Trigger{Stream: "s", BatchTimeout: -1}, Output: json.RawMessage("null"),
		Start: workflow.Step{
			Do: workflow.Call{
				Target: "@plan/p", Input: "text", Retry: &workflow.RetryPolicy{Initial: -time.Second}, Poll: &workflow.PollPolicy{First: -1,
					Initial: -1},
			},
			Transitions: done,
		},
		Plans: []workflow.Plan{{
			Name: "p", Executors: []workflow.Executor{{Name: "x", Call: workflow.Call{Target: "@actions/x"}, Priority: new(-1)}},
			Fallback: &workflow.Fallback{},
		}},
	}
)

const (
	leastText = "name: least\nstart: { sleep: 0, transitions: { success: flo.Completed } }\n"
	noneText  = `
name: none
retention: { ms: 0, runs: 0 }
schedule: { interval: 60000, max_concurrent: 0, input: '"1"' }
trigger: { stream: s, batch_timeout_ms: 0 }
output: null
start:
  run: "@plan/p"
  input: text
  retry: { initial_delay_ms: 0 }
  poll: { initial_delay_ms: 0, base_delay_ms: 0 }
  transitions: { success: flo.Completed }
plans: { p: { executors: [{ name: x, run: "@actions/x", priority: -1 }], fallback: { value: null } } }
`
)

// TestDefinition: a definition built in Go compiles to the same result as one written by hand.
func TestDefinition(t *testing.T) {
	for source, d := range map[string]workflow.Definition{builtText: built, leastText: least, noneText: none} {
		if got, want := compiled(t, d.YAML()), compiled(t, []byte(source)); got != want {
			t.Errorf("built:\n%s\ncompiled:\n%q\nwant:\n%q", d.YAML(), got, want)
		}
	}
}

// TestDefinitionIsComplete: built and none have every key of the reference, except alternative
// spellings.
func TestDefinitionIsComplete(t *testing.T) {
	reference, err := os.ReadFile("../docs/reference/workflow.md")
	if err != nil {
		t.Fatal(err)
	}
	definitions, _, _ := strings.Cut(string(reference), "\n# Outcomes")
	all, table := make(map[string][]string), ""
	for line := range strings.Lines(definitions) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			table = strings.TrimSpace(name)
		} else if cells := strings.Split(line, "`"); strings.HasPrefix(line, "| `") {
			all[table] = append(all[table], cells[1])
		}
	}
	has := make(map[string]bool)
	for _, d := range []workflow.Definition{built, none} {
		var doc object
		if err := yaml.Unmarshal(d.YAML(), &doc); err != nil {
			t.Fatal(err)
		}
		keysOf(all, "workflow", doc, has)
	}
	same := []string{
		"retention.days", "executors.action", "step.input_mapping", "call.input_mapping", "parallel.input_mapping",
		"executors.input_mapping",
		// Calls have the same keys everywhere.
		"call.poll", "call.input", "parallel.retry", "parallel.poll", "parallel.timeout_ms", "executors.retry", "executors.poll",
		"executors.timeout_ms",
	}
	n := 0
	for table, keys := range all {
		for _, key := range keys {
			if n++; has[table+"."+key] == slices.Contains(same, table+"."+key) {
				t.Errorf("%s.%s: a definition has it: %t", table, key, has[table+"."+key])
			}
		}
	}
	if n < 100 {
		t.Errorf("the reference has %d keys", n)
	}
}

// keysOf adds the keys of a table and of its nested tables, as <table of the reference>.<key>.
func keysOf(all map[string][]string, table string, doc object, has map[string]bool) {
	inside := map[string]string{"start": "step", "compensate": "call", "input_schema": "schema", "items": "schema"}
	byName := map[string]string{"steps": "step", "terminals": "terminals", "plans": "plans", "branches": "call", "properties": "schema"}
	for key, value := range doc {
		if table == "schema" { // which accepts both spellings, as all tables do
			key = strings.ToLower(strings.NewReplacer("L", "_l", "I", "_i", "P", "_p").Replace(key))
		}
		has[table+"."+key] = true
		in := inside[key]
		if in == "" {
			in = key
		}
		switch v := value.(type) {
		case object:
			if named := byName[key]; named != "" {
				for _, one := range v {
					keysOf(all, named, one.(object), has)
				}
			} else if all[in] != nil {
				keysOf(all, in, v, has)
			}
		case []any:
			for _, one := range v {
				if one, ok := one.(object); ok && all[in] != nil {
					keysOf(all, in, one, has)
				}
			}
		}
	}
}

// TestBadDefinition: errors of a definition built in Go are found like those of other definitions.
func TestBadDefinition(t *testing.T) {
	step := func(w workflow.Work) workflow.Definition {
		return workflow.Definition{Name: "w", Start: workflow.Step{Do: w, Transitions: done}}
	}
	with := func(change func(*workflow.Definition)) workflow.Definition {
		d := least
		change(&d)
		return d
	}
	const most = math.MaxInt64 // ns, which is 9223372036855 ms
	call := workflow.Call{Target: "@actions/a"}
	for _, test := range []struct {
		d    workflow.Definition
		want string
	}{
		{workflow.Definition{}, "line 2: name is"},
		{with(func(d *workflow.Definition) { d.Output = func() {} }), "empty"},
		{with(func(d *workflow.Definition) { d.Start.Name = "first" }), `line 8: unknown key "name" in start`},
		{with(func(d *workflow.Definition) { d.Steps = []workflow.Step{{}} }), "steps"},
		{with(func(d *workflow.Definition) { d.Steps = []workflow.Step{d.Start, d.Start} }), "steps"},
		{with(func(d *workflow.Definition) { d.Schedule = &workflow.ScheduleSpec{} }), "schedule: "},
		{with(func(d *workflow.Definition) {
			d.Schedule = &workflow.ScheduleSpec{Every: time.Hour, Input: []byte("{")}
		}), "schedule.input is"},
		{with(func(d *workflow.Definition) { d.MaxSteps = -1 }), "max_steps is -1"},
		{with(func(d *workflow.Definition) { d.Timeout = most }), "9223372036855"},
		{with(func(d *workflow.Definition) { d.Timeout = most - 1 }), "9223372036855"},
		{with(func(d *workflow.Definition) { d.Retention.For = most }), "9223372036855"},
		{step(nil), "start does nothing"},
		{step(workflow.Call{Target: "@actions/a", Timeout: most}), "9223372036855"},
		{step(workflow.Call{Target: "@actions/a", Timeout: -1}), "timeout_ms is -1"},
		{step(workflow.Call{Target: "@actions/a", Retry: &workflow.RetryPolicy{Within: most}}), "9223372036855"},
		{step(workflow.Call{Target: "@actions/a", Poll: &workflow.PollPolicy{First: most}}), "9223372036855"},
		{step(workflow.WaitFor{Signal: "go", Timeout: most}), "9223372036855"},
		{step(workflow.Sleep{For: most}), "9223372036855"},
		{step(workflow.Sleep{For: 1, Until: "$.input"}), "start.sleep needs either"},
		{step(workflow.Parallel{}), "start.parallel.branches is empty"},
		{step(workflow.Parallel{Branches: []workflow.Branch{{"a", call}}, Any: 2}), "there are 1 branches"},
	} {
		var all []string
		for _, p := range workflow.Validate(test.d.YAML()) {
			all = append(all, fmt.Sprintf("line %d: %s", p.Line, p.Message))
		}
		if text := strings.Join(all, "\n"); !strings.Contains(text, test.want) {
			t.Errorf("problems of\n%s%s\nwant %s", test.d.YAML(), text, test.want)
		}
	}
}

// does returns a step with pairs of an outcome and its target.
func does(w workflow.Work, to ...string) workflow.Step {
	s := workflow.Step{Do: w}
	for pair := range slices.Chunk(to, 2) {
		s.Transitions = append(s.Transitions, workflow.Transition{On: pair[0], To: pair[1]})
	}
	return s
}

// named returns the step with a name.
func named(name string, s workflow.Step) workflow.Step {
	s.Name = name
	return s
}

// calling returns a call of a target.
func calling(target string) workflow.Call { return workflow.Call{Target: target} }

// startsWith returns a definition of steps, the first of which has no name.
func startsWith(name string, start workflow.Step, steps ...workflow.Step) []byte {
	return workflow.Definition{Name: name, Start: start, Steps: steps}.YAML()
}

func compiled(t *testing.T, source []byte) string {
	t.Helper()
	d, problems := flow.Parse(source)
	if d == nil {
		t.Fatalf("%s\n%v", source, problems)
	}
	c := codec.NewEncoder(nil)
	d.Code(&c)
	return string(c.Encoded())
}
