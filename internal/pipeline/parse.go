package pipeline

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/floedb/floe/internal/document"
)

// Limits of definitions.
const (
	MaxSource      = document.MaxSource // bytes
	MaxSources     = 100
	MaxOperators   = 100
	MaxSinks       = 100
	MaxTags        = 32 // added by operators and matched by sinks
	MaxParallelism = 64
	MaxBatch       = 10_000 // records per tick
	maxFields      = 1000   // per map or point
	maxRules       = 1000   // per classifier
)

// Defaults of a definition's keys.
const (
	defaultBatch    = 100
	defaultFuture   = 3600_000
	defaultDisorder = 5000 // for event times in the value
	defaultIdle     = 30_000
	defaultPoll     = 1000
	defaultDelay    = 5000 // for points of a series
)

// Parse reads a definition in YAML or JSON. It returns up to 100 problems, ordered by line. The job
// is nil if one of them is not a warning.
func Parse(src []byte) (*Job, []Problem) { return parse(src, false) }

// Stored parses a definition that was accepted when it was submitted. It accepts constructs that
// later versions reject.
func Stored(src []byte) (*Job, []Problem) { return parse(src, true) }

func parse(src []byte, stored bool) (*Job, []Problem) {
	var found document.Report
	var job *Job
	if doc := document.Read(src, &found); doc != nil {
		job = readJob(doc, &found, stored, nil)
	}
	if found.Failed {
		job = nil
	}
	var problems []Problem
	for _, p := range found.Sorted() {
		problems = append(problems, Problem{Line: p.Line, Code: p.Code, Warning: p.Severity == document.Warning, Message: p.Message})
	}
	return job, problems
}

// reader converts a document to a Job.
type reader struct {
	document.Reader
	job  *Job
	tags map[string]int // lines where tags are added

	stored bool // accept everything that was accepted before
	seen   func(at string, n *document.Node, fields []document.Field)
}

// readJob reads a definition. It calls seen, unless nil, with the keys of each table.
func readJob(doc *document.Node, found *document.Report, stored bool,
	seen func(at string, n *document.Node, fields []document.Field)) *Job {
	j := &Job{Parallelism: 1, BatchSize: defaultBatch, MaxFuture: defaultFuture}
	r := &reader{Reader: document.Reader{Report: found}, job: j, tags: make(map[string]int), stored: stored, seen: seen}
	parallelism, batch := int64(1), int64(defaultBatch)
	r.Table(doc, document.Top,
		document.Field{Names: "kind", Read: document.Word(&r.Reader, new(bool), document.Is("Processing", true))},
		document.Field{Names: "name", Read: r.Name(&j.Name)},
		document.Field{Names: "namespace", Read: r.Name(&j.Namespace)},
		document.Field{Names: "description", Read: r.Text(new(string))},
		document.Field{Names: "version", Read: func(*document.Node, string) {}},
		document.Field{Names: "parallelism", Read: r.Count(&parallelism, 1, MaxParallelism)},
		document.Field{Names: "batch_size", Read: r.Count(&batch, 1, MaxBatch)},
		document.Field{Names: "on_error", Read: document.Word(&r.Reader, &j.FailOnError, document.Is("stream errors continue", false),
			document.Is("fail", true))},
		document.Field{Names: "stop_at", Read: r.stopAt},
		document.Field{Names: "max_future_ms max_future", Read: r.Millis(&j.MaxFuture, 0)},
		document.Field{Names: "sources source", Read: r.oneOrMore(MaxSources, r.source)},
		document.Field{Names: "operators", Read: r.Each(MaxOperators, r.operator)},
		document.Field{Names: "sinks sink", Read: r.oneOrMore(MaxSinks, r.sink)},
		r.refused("triggers trigger",
			"jobs have no triggers: a job runs continuously, and a workflow can be started by a stream"),
		r.refused("wasm", noWASM),
	)
	j.Parallelism, j.BatchSize = int(parallelism), int(batch)
	if doc.Kind != document.Table {
		return nil
	}
	for _, key := range []string{"name", "sources source", "sinks sink"} {
		if n := doc.Get(key); n == nil || n.Kind == document.List && len(n.Items) == 0 {
			word, _, _ := strings.Cut(key, " ")
			r.Fail(doc.Line, "missing", "%s has no %s", document.Top, word)
		}
	}
	r.check(doc)
	return j
}

// Table is document.Reader.Table.
func (r *reader) Table(n *document.Node, at string, fields ...document.Field) {
	if r.seen != nil {
		r.seen(at, n, fields)
	}
	r.Reader.Table(n, at, fields...)
}

const noWASM = "WebAssembly is not supported: write the condition or the value as an expr:"

// refused returns a field for names of another system that are rejected, with the reason.
func (r *reader) refused(names, why string) document.Field {
	return document.Field{Names: names, Read: func(n *document.Node, at string) { r.Fail(n.Line, "not-supported", "%s: %s", at, why) }}
}

// ignored returns a field for names of another system that are accepted without effect.
func ignored(names string) document.Field {
	return document.Field{Names: names, Read: func(*document.Node, string) {}}
}

// oneOrMore reads a list, or a table as a list of one.
func (r *reader) oneOrMore(most int, read func(n *document.Node, at string)) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if n.Kind == document.Table {
			n = &document.Node{Kind: document.List, Line: n.Line, Items: []*document.Node{n}}
		}
		r.Each(most, read)(n, at)
	}
}

func (r *reader) stopAt(n *document.Node, at string) {
	document.Word(&r.Reader, &r.job.StopAtEnd, document.Is("latest", true), document.Is("never", false))(n, at)
}

// called checks that a name is unique within its kind.
func called[T any](r *reader, n *document.Node, at, name string, all []T, nameOf func(*T) string) {
	if name != "" && slices.ContainsFunc(all, func(other T) bool { return nameOf(&other) == name }) {
		r.Fail(n.Line, "duplicate-name", "%s has the name %s, which is already used", at, document.Quote(name))
	}
}

// madeUp generates unique names for unnamed elements.
func madeUp[T any](all []T, name func(*T) (set *string, kind string)) {
	taken := make(map[string]bool)
	for i := range all {
		set, _ := name(&all[i])
		taken[*set] = true
	}
	for i := range all {
		set, kind := name(&all[i])
		for n := i + 1; *set == ""; n++ {
			if try := kind + "-" + strconv.Itoa(n); !taken[try] {
				*set, taken[try] = try, true
			}
		}
	}
}

// check checks the job as a whole.
func (r *reader) check(doc *document.Node) {
	j := r.job
	madeUp(j.Sources, func(s *Source) (*string, string) { return &s.Name, "source" })
	madeUp(j.Operators, func(o *Operator) (*string, string) { return &o.Name, o.Type })
	madeUp(j.Sinks, func(s *Sink) (*string, string) { return &s.Name, "sink" })
	main, key := len(j.Sources), ""
	for i := range j.Operators {
		o := &j.Operators[i]
		if k, ok := o.private.spec.(*keyBy); ok {
			key = k.text
		}
		if o.Keyed {
			// State by one key is useless with another key.
			o.Shape += " by " + key
		}
		if d, ok := o.private.spec.(*dedup); ok {
			d.events = slices.ContainsFunc(j.Operators[:i], makesRecords)
		}
		if o.Source == "" {
			continue
		}
		at := slices.IndexFunc(j.Sources, func(s Source) bool { return s.Name == o.Source })
		if at < 0 {
			r.Fail(o.private.line, "unknown-source", "%s joins unknown source %s%s", o.private.at, document.Quote(o.Source),
				r.Nearest(o.Source, r.sourceNames))
			continue
		}
		if slices.ContainsFunc(j.Operators[:i], func(other Operator) bool { return other.Source == o.Source }) {
			r.Fail(o.private.line, "duplicate-name", "%s joins source %s, which another operator joins already", o.private.at,
				document.Quote(o.Source))
		}
		if main--; main == 0 {
			r.Fail(o.private.line, "missing", "%s joins the only source: a join needs another one", o.private.at)
		}
	}
	for i := range j.Sinks {
		r.checkSink(&j.Sinks[i])
	}
}

// makesRecords reports whether an operator creates records, rather than passing on those of a
// source.
func makesRecords(o Operator) bool {
	switch o.private.spec.(type) {
	case *join, *panes, *sessions:
		return true
	}
	return false
}

func (r *reader) sourceNames() (names []string) {
	for i := range r.job.Sources {
		names = append(names, r.job.Sources[i].Name)
	}
	return names
}

func (r *reader) checkSink(s *Sink) {
	for i := range r.job.Sources {
		source := &r.job.Sources[i]
		ns := s.Namespace == "" || s.Namespace == r.job.Namespace
		switch {
		case ns && s.Kind == ToStream && source.Stream != nil && source.Stream.Stream == s.Target:
			r.Fail(s.private.line, "loop", "%s writes to stream %s, which the job reads: an endless loop", s.private.at,
				document.Quote(s.Target))
		case ns && s.Kind == ToTS && source.TS != nil && source.TS.Measurement == s.Target:
			r.Fail(s.private.line, "loop", "%s writes to measurement %s, which the job reads: an endless loop", s.private.at,
				document.Quote(s.Target))
		}
	}
	for i, tag := range r.job.tags {
		if s.private.match&(1<<i) != 0 && r.tags[tag] == 0 {
			r.Warn(s.private.line, "unknown-tag", "%s matches tag %s, which no operator sets", s.private.at, document.Quote(tag))
		}
	}
}

// tag returns the set of a tag. A new tag gets a number.
func (r *reader) tag(name string, line int, at string) TagSet {
	if !r.CheckName(name, at, line) {
		return 0
	}
	i := slices.Index(r.job.tags, name)
	if i < 0 {
		if i = len(r.job.tags); i >= MaxTags {
			if i == MaxTags {
				r.Fail(line, "too-many", "%s is the tag %s: a job has at most %d tags", at, document.Quote(name), MaxTags)
			}
			return 0
		}
		r.job.tags = append(r.job.tags, name)
	}
	return 1 << i
}

// gives is tag for an operator that adds the tag.
func (r *reader) gives(name string, line int, at string) TagSet {
	if r.tags[name] == 0 {
		r.tags[name] = line
	}
	return r.tag(name, line, at)
}

// maxSecondsBits allows numbers of seconds far beyond the limits, with milliseconds that fit a
// float64.
const maxSecondsBits = 40

// seconds reads a duration: a number of seconds, or text such as 5m.
func (r *reader) seconds(v *int64, least int64) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		ms, ok := document.MillisOf(n)
		switch {
		case n.Kind == document.Number:
			var f float64
			f, err := strconv.ParseFloat(n.Text, 64)
			ms = int64(math.Round(f * 1000))
			ok = err == nil && math.Abs(f) < 1<<maxSecondsBits && float64(ms) == f*1000
		case n.Kind == document.Text && isDigits(n.Text):
			s, err := strconv.ParseInt(n.Text, 10, maxSecondsBits)
			ms, ok = s*1000, err == nil
		}
		switch {
		case !ok:
			r.Fail(n.Line, "bad-duration", "%s is %s, expected a number of seconds or a duration such as 500ms, 5m or 7d", at, n.Describe())
		case ms < least || ms > document.MaxMillis:
			r.Fail(n.Line, "bad-duration", "%s is %s, expected %d ms to 100 years", at, n.Describe(), least)
		default:
			*v = ms
		}
	}
}

func isDigits(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool { return c < '0' || c > '9' }) < 0
}

// number reads a number within bounds.
func (r *reader) number(v *float64, least, most float64) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		f, err := strconv.ParseFloat(n.Text, 64)
		if n.Kind != document.Number || err != nil || f < least || f > most {
			r.Fail(n.Line, "bad-number", "%s is %s, expected a number from %g to %g", at, n.Describe(), least, most)
			return
		}
		*v = f
	}
}

// hasWord reports whether a space-separated list contains a word.
func hasWord(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// anyText reads text, or a number or boolean with its spelling.
func (r *reader) anyText(v *string) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		switch n.Kind {
		case document.Text, document.Number, document.Bool:
			*v = n.Text
		default:
			r.Fail(n.Line, "wrong-type", "%s is %s, expected text", at, n.Describe())
		}
	}
}

// pairs reads a table of names and texts, sorted by name.
func (r *reader) pairs(v *[]Tag) func(*document.Node, string) {
	return r.Named(maxFields, func(name string, p *document.Pair, at string) {
		text := ""
		r.anyText(&text)(p.Value, at)
		i, _ := slices.BinarySearchFunc(*v, name, func(t Tag, name string) int { return strings.Compare(t.Name, name) })
		*v = slices.Insert(*v, i, Tag{name, text})
	})
}

func parseID(s string) (ID, error) {
	millis, seq, dashed := strings.Cut(s, "-")
	ms, err := strconv.ParseUint(millis, 10, 63)
	id := ID{Millis: int64(ms)}
	if err == nil && dashed {
		id.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil {
		return ID{}, fmt.Errorf("not of the form <milliseconds>-<sequence>")
	}
	return id, nil
}
