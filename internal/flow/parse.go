package flow

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/document"
)

// Defaults of a definition's keys.
const (
	defaultVersion    = "1"
	defaultRetainFor  = 30 * 24 * 3600 * 1000
	defaultRetainRuns = 10_000
)

// Parse reads a definition in YAML or JSON. It returns up to 100 problems, ordered by line. The
// definition is nil if one of them is an Error.
func Parse(src []byte) (*Definition, []Problem) {
	var found document.Report
	if doc := document.Read(src, &found); doc != nil {
		if d := newReader(&found).definition(doc); !found.Failed {
			return d, found.Sorted()
		}
	}
	return nil, found.Sorted()
}

func newReader(found *document.Report) *reader {
	d := &Definition{Version: defaultVersion, MaxVisits: DefaultVisits, RetainFor: defaultRetainFor, RetainRuns: defaultRetainRuns}
	return &reader{Reader: document.Reader{Report: found}, d: d, places: make(map[string]Place), plans: make(map[string]int),
		used: make(map[string]bool)}
}

// definition reads a definition.
func (r *reader) definition(doc *document.Node) *Definition {
	d := r.d
	if doc.Kind != document.Table {
		r.Fail(doc.Line, "wrong-type", "%s is %s, expected a table", document.Top, doc.Describe())
		return nil
	}
	steps := r.stepsOf(doc)
	r.namePlaces(doc, steps)
	r.Table(doc, document.Top,
		document.Field{Names: "kind", Read: document.Word(&r.Reader, new(bool), document.Is("Workflow", true))},
		document.Field{Names: "name", Read: r.Name(&d.Name)},
		document.Field{Names: "version", Read: r.version},
		document.Field{Names: "description", Read: r.Text(&d.Description)},
		document.Field{Names: "namespace", Read: r.Name(&d.Namespace)},
		document.Field{Names: "idempotency", Read: document.Word(&r.Reader, &d.Idempotency, document.Is("optional", IdempotencyOptional),
			document.Is("none", IdempotencyNone), document.Is("required", IdempotencyRequired))},
		document.Field{Names: "timeout_ms timeout", Read: r.Millis(&d.Timeout, 1)},
		document.Field{Names: "max_steps", Read: r.Count(&d.MaxSteps, 1, maxCount)},
		document.Field{Names: "retention", Read: r.retention},
		document.Field{Names: "input_schema", Read: r.schema(&d.Input)},
		document.Field{Names: "signals", Read: r.signals},
		document.Field{Names: "search_attributes", Read: r.Each(MaxAttributes, r.attribute)},
		document.Field{Names: "schedule", Read: r.schedule(&d.Schedule)},
		document.Field{Names: "trigger", Read: r.trigger(&d.Trigger)},
		document.Field{Names: "output", Read: r.mapping(&d.Output, pathRules{}, false), Null: true},
		document.Field{Names: "start _start", Read: func(*document.Node, string) {}},
		document.Field{Names: "steps", Read: r.Named(math.MaxInt, func(string, *document.Pair, string) {})},
		document.Field{Names: "terminals", Read: r.Named(MaxTerminals, r.terminal)},
		document.Field{Names: "plans", Read: r.Named(MaxPlans, func(name string, p *document.Pair, at string) {
			d.Plans = append(d.Plans, Plan{Name: name})
			r.readPlan(&d.Plans[len(d.Plans)-1], p.Value, at)
		})},
	)
	if doc.Get("name") == nil {
		r.Fail(doc.Line, "missing", "%s has no name", document.Top)
	}
	if d.MaxSteps > 0 {
		d.MaxVisits = min(d.MaxVisits, d.MaxSteps)
	}
	if d.Trigger != nil && d.Trigger.Group == "" {
		d.Trigger.Group = "wf-" + d.Name
	}
	for i, s := range steps {
		if i == MaxSteps {
			r.Fail(s.line, "too-many", "%s has %d steps, at most %d are allowed", document.Top, len(steps), MaxSteps)
			break
		}
		d.Steps = append(d.Steps, Step{Name: s.name})
		r.lines = append(r.lines, s.line)
		r.step(&d.Steps[i], s.node, s.at)
	}
	r.check(doc)
	return d
}

// version reads a version. A number keeps its spelling.
func (r *reader) version(n *document.Node, at string) {
	if n.Kind == document.Number {
		n = &document.Node{Kind: document.Text, Line: n.Line, Text: n.Text}
	}
	if r.Name(&r.d.Version)(n, at); r.d.Version == Latest {
		r.Fail(n.Line, "bad-name", "%s is %s, which is reserved for the default version: choose another name", at,
			document.Quote(Latest))
	}
}

// namedStep is a step with its position in the document.
type namedStep struct {
	name, at string
	line     int
	node     *document.Node
}

// stepsOf returns the steps, with the start step first.
func (r *reader) stepsOf(doc *document.Node) []namedStep {
	var list []namedStep
	start := doc.Get("start _start")
	if start != nil {
		list = append(list, namedStep{StartStep, "start", start.Line, start})
	}
	steps := doc.Get("steps")
	if steps == nil || steps.Kind != document.Table {
		return list
	}
	for _, p := range steps.Pairs {
		s := namedStep{p.Key, document.Under("steps", p.Key), p.Line, p.Value}
		switch {
		case p.Key == StartStep && start != nil:
			r.Fail(p.Line, "duplicate-name", "steps._start repeats the first step, which is also defined as start")
			continue
		case start == nil && (p.Key == StartStep || p.Key == "start" && steps.Get(StartStep) == nil):
			s.name = StartStep
			list = slices.Insert(list, 0, s)
			continue
		}
		list = append(list, s)
	}
	return list
}

// namePlaces assigns places to steps, terminals and plans, before any references are read.
func (r *reader) namePlaces(doc *document.Node, steps []namedStep) {
	for i, t := range builtIn {
		r.places[t.Name] = ^Place(i)
		r.places["floe."+strings.TrimPrefix(t.Name, "flo.")] = ^Place(i)
	}
	for i, s := range steps {
		if r.reserved(s.name, s.line, s.at) {
			continue
		}
		r.places[s.name] = Place(i)
	}
	if t := doc.Get("terminals"); t != nil {
		for i, p := range t.Pairs {
			if r.reserved(p.Key, p.Line, document.Under("terminals", p.Key)) {
				continue
			}
			if _, step := r.places[p.Key]; step {
				r.Fail(p.Line, "duplicate-name", "%s has the same name as a step", document.Under("terminals", p.Key))
			}
			r.places[p.Key] = ^Place(builtInTerminals + i)
		}
	}
	if plans := doc.Get("plans"); plans != nil {
		for i, p := range plans.Pairs {
			r.plans[p.Key] = i
		}
	}
}

// reserved rejects built-in names.
func (r *reader) reserved(name string, line int, at string) bool {
	for _, prefix := range []string{"flo.", "floe."} {
		if strings.HasPrefix(name, prefix) {
			r.Fail(line, "bad-name", "%s uses the reserved prefix %s", at, prefix)
			return true
		}
	}
	return false
}

// status reads the status of a terminal. As in Flo, an unknown status means failed.
func (r *reader) status(v *Status) func(*document.Node, string) {
	known := []document.Choice[Status]{
		document.Is("completed", Completed), document.Is("failed", Failed), document.Is("cancelled canceled",
			Cancelled), document.Is("timed_out", TimedOut),
	}
	return func(n *document.Node, at string) {
		isKnown := slices.ContainsFunc(known, func(c document.Choice[Status]) bool {
			return slices.ContainsFunc(strings.Fields(c.Words),
				func(s string) bool { return document.Dashed(s) == document.Dashed(n.Text) })
		})
		if n.Kind != document.Text || isKnown {
			document.Word(&r.Reader, v, known...)(n, at)
			return
		}
		*v = Failed
		r.Warn(n.Line, "unknown-status", "%s is %s, expected completed, failed, cancelled or timed_out: it counts as failed", at,
			document.Quote(n.Text))
	}
}

func (r *reader) terminal(name string, p *document.Pair, at string) {
	t := Terminal{Name: name, Status: Failed}
	status := r.status(&t.Status)
	switch p.Value.Kind {
	case document.Null:
	case document.Text:
		status(p.Value, at)
	default:
		r.Table(p.Value, at,
			document.Field{Names: "description", Read: r.Text(new(string))},
			document.Field{Names: "status", Read: status},
			document.Field{Names: "output", Read: r.mapping(&t.Output, pathRules{}, false), Null: true},
		)
	}
	r.d.Terminals = append(r.d.Terminals, t)
}

// keys returns the map's keys in order, unless there are too many for a hint.
func keys[V any](m map[string]V) func() []string {
	return func() []string {
		if len(m) > 2*MaxSteps {
			return nil
		}
		return slices.Sorted(maps.Keys(m))
	}
}
