package processing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
)

// Problem is an error or a warning about a definition.
type Problem struct {
	Line    int    // from 1
	Code    string // identifies the kind of problem to programs, such as unknown-key
	Warning bool   // the job can be run nevertheless
	Message string // names the thing, the value and the allowed values
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Message) }

// DefinitionError lists the problems of a definition. It is ErrInvalid.
type DefinitionError struct {
	Problems []Problem // by line; up to 100
}

// Error returns the first few problems.
func (e *DefinitionError) Error() string {
	const shown = 3
	var all []string
	for _, p := range e.Problems {
		if !p.Warning {
			all = append(all, p.String())
		}
	}
	text := strings.Join(all[:min(len(all), shown)], "; ")
	if len(all) > shown {
		text += "; and " + strconv.Itoa(len(all)-shown) + " more"
	}
	return text
}

// Unwrap returns ErrInvalid.
func (e *DefinitionError) Unwrap() error { return ErrInvalid }

// Validate returns the errors and warnings of a definition, by line. A definition with warnings
// only can be submitted.
func Validate(definition []byte) []Problem {
	if len(definition) > MaxDefinition {
		return []Problem{{Line: 1, Code: "too-large", Message: tooLarge(definition)}}
	}
	job, problems := pipeline.Parse(definition)
	all := problemsOf(problems)
	if job != nil {
		if err := checkJob(job); err != nil {
			all = append(all, Problem{Line: 1, Code: "job", Message: err.Error()})
		}
	}
	return all
}

func tooLarge(definition []byte) string {
	return fmt.Sprintf("definition of %d bytes exceeds %d", len(definition), MaxDefinition)
}

func problemsOf(problems []pipeline.Problem) (all []Problem) {
	for _, p := range problems {
		all = append(all, Problem{p.Line, p.Code, p.Warning, p.Message})
	}
	return all
}

// parsed is a definition that can be submitted.
type parsed struct {
	job   *pipeline.Job
	parts []numbered // without numbers
}

// parse parses a definition. Errors: *DefinitionError, ErrInvalid.
func parse(source []byte) (*parsed, error) {
	if len(source) > MaxDefinition {
		return nil, engine.Errorf(ErrInvalid, "processing: %s", tooLarge(source))
	}
	job, problems := pipeline.Parse(source)
	if job == nil {
		return nil, &DefinitionError{problemsOf(problems)}
	}
	if err := checkJob(job); err != nil {
		return nil, err
	}
	p := &parsed{job: job}
	for i := range job.Sources {
		s := &job.Sources[i]
		p.parts = append(p.parts, numbered{source: true, name: s.Name, shape: sourceShape(s)})
	}
	for i := range job.Operators {
		if o := &job.Operators[i]; o.Shape != "" {
			p.parts = append(p.parts, numbered{name: o.Name, shape: o.Shape})
		}
	}
	return p, nil
}

// spread adds the parts that have a number only in a spread namespace: operators that look up keys,
// because records are passed to them there.
func (p *parsed) spread() {
	for i := range p.job.Operators {
		if o := &p.job.Operators[i]; o.Looks != "" {
			p.parts = append(p.parts, numbered{name: o.Name, shape: o.Type + " " + o.Looks + " in " + o.Lookup})
		}
	}
}

// sourceShape describes what a source's cursors refer to.
func sourceShape(s *pipeline.Source) string {
	if s.Stream != nil {
		return "stream " + s.Stream.Stream
	}
	return "ts " + s.TS.Measurement + " " + s.TS.Field
}

// checkJob rejects well-formed jobs that this version cannot run.
func checkJob(job *pipeline.Job) error {
	if err := engine.CheckName("stream", ErrorStream(job.Name)); err != nil {
		return err
	}
	if err := checkNamespaces(job); err != nil {
		return err
	}
	return checkLoops(job, job.Namespace)
}

// checkLoops rejects a job that would read what it writes in the namespace.
func checkLoops(job *pipeline.Job, namespace string) error {
	own := func(k *pipeline.Sink) bool { return k.Namespace == "" || k.Namespace == namespace }
	for i := range job.Sources {
		s := &job.Sources[i]
		for j := range job.Sinks {
			k := &job.Sinks[j]
			if k.Kind == pipeline.ToStream && s.Stream != nil && k.Target == s.Stream.Stream && own(k) {
				return engine.Errorf(ErrInvalid, "sink %q writes to stream %q, which source %q reads", k.Name, k.Target, s.Name)
			}
			if k.Kind == pipeline.ToTS && s.TS != nil && k.Target == s.TS.Measurement && own(k) {
				return engine.Errorf(ErrInvalid, "sink %q writes to measurement %q, which source %q reads", k.Name, k.Target, s.Name)
			}
		}
		if s.Stream != nil && s.Stream.Stream == ErrorStream(job.Name) {
			return engine.Errorf(ErrInvalid, "source %q reads stream %q, which the job writes its errors to", s.Name, s.Stream.Stream)
		}
	}
	return nil
}

// checkNamespaces rejects system namespaces: a job would read or write there with the rights of the
// node instead of those of the API key that submitted it.
func checkNamespaces(job *pipeline.Job) error {
	refuse := func(what, name, namespace string) error {
		if namespace == "" || !engine.IsSystem(namespace) {
			return nil
		}
		return engine.Errorf(ErrInvalid, "%s %q: namespace %q is a system namespace, which no job can use", what, name, namespace)
	}
	if err := refuse("job", job.Name, job.Namespace); err != nil {
		return err
	}
	for i := range job.Sinks {
		if err := refuse("sink", job.Sinks[i].Name, job.Sinks[i].Namespace); err != nil {
			return err
		}
	}
	for i := range job.Operators {
		if err := refuse("operator", job.Operators[i].Name, job.Operators[i].Lookup); err != nil {
			return err
		}
	}
	return nil
}

// numberAll numbers parts in their order.
func numberAll(parts []numbered) []numbered {
	for i := range parts {
		parts[i].number = uint16(i + 1)
	}
	return parts
}

// Plan lists which state of a job a restore would keep and drop.
type Plan struct {
	Kept    []string // sources and operators that continue with their state
	Dropped []string // those whose state is lost: removed, renamed or of another shape
	New     []string // those that start without state
	Notes   []string // remarks about those kept

	numbers     []numbered
	last        uint16
	parallelism int // of the job
}

// Drops reports whether the restore would drop state.
func (p *Plan) Drops() bool { return len(p.Dropped) > 0 }

// plan matches the parts of a new definition with those that have state.
func plan(was, is []numbered, current []numbered, last uint16) Plan {
	p := Plan{numbers: make([]numbered, len(is))}
	kept := make(map[string]bool)
	for i := range is {
		n := is[i]
		title := n.title()
		n.number = 0
		if old := find(current, &n); old != nil {
			n.number = old.number
		} else {
			last++
			n.number = last
		}
		p.numbers[i] = n
		if find(was, &n) != nil {
			p.Kept = append(p.Kept, title)
			kept[title] = true
		} else {
			p.New = append(p.New, title)
		}
	}
	for i := range was {
		if title := was[i].title(); !kept[title] {
			p.Dropped = append(p.Dropped, title)
		}
	}
	p.last = last
	return p
}

// restarted removes the sources to restart from the existing parts, so that they get numbers
// without cursors.
func restarted(names []string, is, was, current []numbered) (_, _ []numbered, err error) {
	for _, name := range names {
		called := func(n numbered) bool { return n.source && n.name == name }
		if !slices.ContainsFunc(is, called) {
			return nil, nil, engine.Errorf(ErrInvalid, "processing: the job has no source %q", name)
		}
		was, current = slices.DeleteFunc(slices.Clone(was), called), slices.DeleteFunc(slices.Clone(current), called)
	}
	return was, current, nil
}

// notes reports changes of the event time of kept sources, because their records are compared with
// watermarks of the old definition.
func notes(before, after []byte, p *Plan) (all []string) {
	old, err := parse(before)
	if err != nil {
		return nil
	}
	is, err := parse(after)
	if err != nil {
		return nil
	}
	said := func(path string) string {
		if path == "" {
			return "the time of the append"
		}
		return path
	}
	for i := range is.job.Sources {
		s := &is.job.Sources[i]
		at := slices.IndexFunc(old.job.Sources, func(o pipeline.Source) bool { return o.Name == s.Name })
		if title := "source " + s.Name; at >= 0 && old.job.Sources[at].EventTime != s.EventTime && slices.Contains(p.Kept, title) {
			all = append(all, fmt.Sprintf("%s: event_time was %s and is %s: records before the current watermark of the job are late",
				title,
				said(old.job.Sources[at].EventTime), said(s.EventTime)))
		}
	}
	return all
}

func find(all []numbered, n *numbered) *numbered {
	for i := range all {
		if o := &all[i]; o.source == n.source && o.name == n.name && o.shape == n.shape {
			return o
		}
	}
	return nil
}

func (n *numbered) title() string {
	if n.source {
		return "source " + n.name
	}
	return "operator " + n.name
}
