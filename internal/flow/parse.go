package flow

import (
	"maps"
	"math"
	"slices"
)

// What a definition says when it leaves a key out.
const (
	defaultVersion    = "1"
	defaultRetainFor  = 30 * 24 * 3600 * 1000
	defaultRetainRuns = 10_000
)

// Parse reads a definition in YAML or JSON. It returns everything that is wrong with it, by line and at most 100 problems; the definition is nil if one of them is
// an Error.
func Parse(src []byte) (*Definition, []Problem) {
	var found report
	if doc := readDocument(src, &found); doc != nil {
		if d := readDefinition(doc, &found); !found.failed {
			return d, found.sorted()
		}
	}
	return nil, found.sorted()
}

func readDefinition(doc *node, found *report) *Definition {
	d := &Definition{Version: defaultVersion, MaxVisits: DefaultVisits, RetainFor: defaultRetainFor, RetainRuns: defaultRetainRuns}
	r := &reader{report: found, d: d, places: make(map[string]Place), plans: make(map[string]int), used: make(map[string]bool)}
	if doc.kind != nodeTable {
		r.fail(doc.line, "wrong-type", "%s is %s, expected a table", top, doc.describe())
		return nil
	}
	steps := r.stepsOf(doc)
	r.namePlaces(doc, steps)
	r.table(doc, top,
		field{names: "kind", read: word(r, new(bool), choice[bool]{"Workflow", true})},
		field{names: "name", read: r.name(&d.Name)},
		field{names: "version", read: r.version},
		field{names: "description", read: r.text(&d.Description)},
		field{names: "namespace", read: r.name(&d.Namespace)},
		field{names: "idempotency", read: word(r, &d.Idempotency, choice[Idempotency]{"optional", IdempotencyOptional},
			choice[Idempotency]{"none", IdempotencyNone}, choice[Idempotency]{"required", IdempotencyRequired})},
		field{names: "timeout_ms timeout", read: r.millis(&d.Timeout, 1)},
		field{names: "max_steps", read: r.count(&d.MaxVisits, 1, maxCount)},
		field{names: "retention", read: r.retention},
		field{names: "input_schema", read: r.schema(&d.Input)},
		field{names: "signals", read: r.signals},
		field{names: "search_attributes", read: r.each(MaxAttributes, r.attribute)},
		field{names: "schedule", read: r.schedule(&d.Schedule)},
		field{names: "trigger", read: r.trigger(&d.Trigger)},
		field{names: "output", read: r.mapping(&d.Output, pathRules{}, false), null: true},
		field{names: "start _start", read: func(*node, string) {}},
		field{names: "steps", read: r.named(math.MaxInt, func(string, *pair, string) {})},
		field{names: "terminals", read: r.named(MaxTerminals, r.terminal)},
		field{names: "plans", read: r.named(MaxPlans, func(name string, p *pair, at string) {
			d.Plans = append(d.Plans, Plan{Name: name})
			r.readPlan(&d.Plans[len(d.Plans)-1], p.value, at)
		})},
	)
	if doc.get("name") == nil {
		r.fail(doc.line, "missing", "%s has no name", top)
	}
	if d.Trigger != nil && d.Trigger.Group == "" {
		d.Trigger.Group = "wf-" + d.Name
	}
	for i, s := range steps {
		if i == MaxSteps {
			r.fail(s.line, "too-many", "%s has %d steps, at most %d are allowed", top, len(steps), MaxSteps)
			break
		}
		d.Steps = append(d.Steps, Step{Name: s.name})
		r.lines = append(r.lines, s.line)
		r.step(&d.Steps[i], s.node, s.at)
	}
	r.check(doc)
	return d
}

// version reads a version; a number is taken as it is written.
func (r *reader) version(n *node, at string) {
	if n.kind == nodeNumber {
		n = &node{kind: nodeText, line: n.line, text: n.text}
	}
	r.name(&r.d.Version)(n, at)
}

// namedStep is a step with where it stands.
type namedStep struct {
	name, at string
	line     int
	node     *node
}

// stepsOf returns the steps, that to start with first.
func (r *reader) stepsOf(doc *node) []namedStep {
	var list []namedStep
	start := doc.get("start _start")
	if start != nil {
		list = append(list, namedStep{StartStep, "start", start.line, start})
	}
	steps := doc.get("steps")
	if steps == nil || steps.kind != nodeTable {
		return list
	}
	for _, p := range steps.pairs {
		s := namedStep{p.key, under("steps", p.key), p.line, p.value}
		switch {
		case p.key == StartStep && start != nil:
			r.fail(p.line, "duplicate-name", "steps._start is the step to start with, which is there already as start")
			continue
		case start == nil && (p.key == StartStep || p.key == "start" && steps.get(StartStep) == nil):
			s.name = StartStep
			list = slices.Insert(list, 0, s)
			continue
		}
		list = append(list, s)
	}
	return list
}

// namePlaces gives steps, terminals and plans their places, before anything refers to them.
func (r *reader) namePlaces(doc *node, steps []namedStep) {
	for i, t := range builtIn {
		r.places[t.Name] = ^Place(i)
	}
	for i, s := range steps {
		if r.reserved(s.name, s.line, s.at) {
			continue
		}
		r.places[s.name] = Place(i)
	}
	if t := doc.get("terminals"); t != nil {
		for i, p := range t.pairs {
			if r.reserved(p.key, p.line, under("terminals", p.key)) {
				continue
			}
			if _, step := r.places[p.key]; step {
				r.fail(p.line, "duplicate-name", "%s has the name of a step", under("terminals", p.key))
			}
			r.places[p.key] = ^Place(builtInTerminals + i)
		}
	}
	if plans := doc.get("plans"); plans != nil {
		for i, p := range plans.pairs {
			r.plans[p.key] = i
		}
	}
}

// reserved refuses names that are built in.
func (r *reader) reserved(name string, line int, at string) bool {
	if len(name) < 4 || name[:4] != "flo." {
		return false
	}
	r.fail(line, "bad-name", "%s has a name that begins with flo., which is reserved", at)
	return true
}

func (r *reader) terminal(name string, p *pair, at string) {
	t := Terminal{Name: name, Status: Failed}
	status := word(r, &t.Status, choice[Status]{"completed", Completed}, choice[Status]{"failed", Failed},
		choice[Status]{"cancelled canceled", Cancelled}, choice[Status]{"timed_out", TimedOut})
	switch p.value.kind {
	case nodeNull:
	case nodeText:
		status(p.value, at)
	default:
		r.table(p.value, at,
			field{names: "description", read: r.text(new(string))},
			field{names: "status", read: status},
			field{names: "output", read: r.mapping(&t.Output, pathRules{}, false), null: true},
		)
	}
	r.d.Terminals = append(r.d.Terminals, t)
}

// keys returns the keys of a map in order, if they are not too many for a hint.
func keys[V any](m map[string]V) func() []string {
	return func() []string {
		if len(m) > 2*MaxSteps {
			return nil
		}
		return slices.Sorted(maps.Keys(m))
	}
}
