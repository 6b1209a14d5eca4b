package processing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
)

// MaxSamples is how many records Test takes at most.
const MaxSamples = 100_000

// Samples are what Test runs a definition on.
type Samples struct {
	Records []Sample
	// KV returns the value that kv_lookup finds under a key, nil if there is none. The namespace is "" for that of the job. A nil function finds nothing.
	KV func(namespace, key string) []byte
	// Funcs are the functions that operators of type func call, by their names.
	Funcs map[string]Func
}

// Sample is a record of a source.
type Sample struct {
	Source  string // its name; "" means the first one
	Key     string
	Value   []byte // of a source of time series: {"measurement", "value", "timestamp_ms", "tags"}
	Headers map[string]string
	Time    time.Time // of the append; zero means that of the sample before, and 1970 for the first one
}

// Tested is what has become of samples.
type Tested struct {
	Written   []Written         // in order
	Failures  []FailedSample    // in order
	Operators []OperatorMetrics // in the order of the definition
}

// Written is a record that a sink would have written.
type Written struct {
	Sink  string // its name
	Key   string // of the message, or in KV
	Value []byte // nil for a sink to time series
	Time  time.Time
	Tags  []string // that operators gave it
	Point *Point   // of a sink to time series
}

// Point is what a sink to time series would have written.
type Point struct {
	Tags   map[string]string
	Fields map[string]any
	Time   time.Time
}

// FailedSample is a record that a source, an operator or a sink could not work with. A job writes it to its stream of errors.
type FailedSample struct {
	Where  string // the name of the source, operator or sink
	Reason string
	Key    string
	Value  []byte // as it came from its source, if that is known
}

// Test runs a definition on sample records, without a node: one after the other, each with what its event time makes fire, and at the end everything that still waits,
// as a job with stop_at: latest does. It is for tests of definitions; that operators do the same in a job is tested by floe.
//
// Errors: *DefinitionError, which is ErrInvalid; ErrInvalid for more than MaxSamples, for a function that is not among Funcs, and for a sample of a source that the definition does not have; that of ctx.
func Test(ctx context.Context, definition []byte, samples Samples) (Tested, error) {
	p, err := parse(definition)
	if err != nil {
		return Tested{}, err
	}
	if len(samples.Records) > MaxSamples {
		return Tested{}, engine.Errorf(ErrInvalid, "processing: %d samples exceed %d", len(samples.Records), MaxSamples)
	}
	numbers := make(map[string]uint16)
	for _, n := range numberAll(p.parts) {
		if !n.source {
			numbers[n.name] = n.number
		}
	}
	if err := p.job.Use(pipelineFuncs(samples.Funcs)); err != nil {
		return Tested{}, engine.Errorf(ErrInvalid, "processing: %w", err)
	}
	prog, err := pipeline.Compile(p.job, numbers)
	if err != nil {
		return Tested{}, err
	}
	r := &trial{job: p.job, prog: prog, kv: samples.KV, state: sampleState{rows: make(map[string][]byte)}, mark: pipeline.MinTime}
	for i := range p.job.Sources {
		s := &p.job.Sources[i]
		r.parts = append(r.parts, pipeline.Part{CaughtUp: true, Disorder: s.Disorder, IdleAfter: -1})
	}
	for i := range p.job.Operators {
		r.done.Operators = append(r.done.Operators, OperatorMetrics{Name: p.job.Operators[i].Name})
	}
	at := time.UnixMilli(0)
	for i := range samples.Records {
		s := &samples.Records[i]
		if !s.Time.IsZero() {
			at = s.Time
		}
		if err := r.read(ctx, i, s, at); err != nil {
			return Tested{}, err
		}
	}
	return r.done, r.tick(ctx, nil, pipeline.EndOfTime)
}

// trial is a Test that runs.
type trial struct {
	job   *pipeline.Job
	prog  *pipeline.Program
	kv    func(namespace, key string) []byte
	state sampleState
	parts []pipeline.Part // one of each source
	mark  int64
	done  Tested
}

// read has a sample go through the operators.
func (r *trial) read(ctx context.Context, i int, s *Sample, at time.Time) error {
	source := slices.IndexFunc(r.job.Sources, func(known pipeline.Source) bool { return s.Source == "" || known.Name == s.Source })
	if source < 0 {
		return engine.Errorf(ErrInvalid, "processing: sample %d is of source %q, which the definition does not have", i, s.Source)
	}
	rec := pipeline.Record{
		Key: []byte(s.Key), Value: s.Value, Origin: pipeline.Origin{Source: source, Offset: uint64(i), ID: pipeline.ID{Millis: at.UnixMilli(), Seq: uint64(i)}},
	}
	for name, value := range s.Headers {
		rec.Headers = append(rec.Headers, pipeline.Tag{Name: name, Value: value})
	}
	slices.SortFunc(rec.Headers, func(a, b pipeline.Tag) int { return strings.Compare(a.Name, b.Name) })
	var err error
	if rec.EventTime, err = r.prog.EventTime(&rec); err != nil {
		r.fails(&pipeline.Failure{Operator: r.job.Sources[source].Name, Reason: err.Error(), Record: rec})
		return nil
	}
	part := &r.parts[source]
	if !part.Seen || rec.EventTime > part.Newest {
		part.Seen, part.Newest = true, rec.EventTime
	}
	return r.tick(ctx, []pipeline.Record{rec}, r.watermark())
}

// watermark is that of the sources that have had a record: the others are as idle as a partition without any.
func (r *trial) watermark() int64 {
	var parts []pipeline.Part
	for _, p := range r.parts {
		if p.Seen {
			parts = append(parts, p)
		}
	}
	mark, _ := pipeline.Watermark(parts, 0, r.mark)
	return mark
}

// tick runs records, and fires what is due.
func (r *trial) tick(ctx context.Context, batch []pipeline.Record, to int64) error {
	lookup := func(_ context.Context, namespace string, keys []string) ([][]byte, error) {
		values := make([][]byte, len(keys))
		for i, k := range keys {
			if r.kv != nil {
				values[i] = r.kv(namespace, k)
			}
		}
		return values, nil
	}
	t := r.prog.NewTick(&r.state, lookup, pipeline.Limits{}, r.mark)
	if len(batch) > 0 {
		if err := t.Add(ctx, batch); err != nil {
			return err
		}
	}
	next, err := t.Advance(ctx, to, nil)
	if err == nil && next != nil {
		err = fmt.Errorf("processing: a tick without limits stopped at %x", next)
	}
	if err != nil {
		return err
	}
	r.mark = max(r.mark, to)
	for _, w := range t.Writes() {
		r.done.Written = append(r.done.Written, r.written(&w))
	}
	for _, f := range t.Failures() {
		r.fails(&f)
	}
	for i, c := range t.Counts() {
		o := &r.done.Operators[i]
		o.In, o.Out, o.Errors, o.Late, o.Dropped = o.In+c.In, o.Out+c.Out, o.Errors+c.Errors, o.Late+c.Late, o.Dropped+c.Dropped
	}
	return nil
}

func (r *trial) fails(f *pipeline.Failure) {
	r.done.Failures = append(r.done.Failures, FailedSample{Where: f.Operator, Reason: f.Reason, Key: string(f.Record.Key), Value: slices.Clone(f.Record.Value)})
}

func (r *trial) written(w *pipeline.Write) Written {
	sink := &r.job.Sinks[w.Sink]
	made := Written{Sink: sink.Name, Key: strings.Clone(w.Key), Time: time.UnixMilli(w.Record.EventTime), Tags: w.Record.Tags.In(r.prog.Tags())}
	if sink.Kind != pipeline.ToTS {
		made.Value = slices.Clone(w.Record.Value)
		return made
	}
	p := &Point{Tags: make(map[string]string), Fields: make(map[string]any), Time: time.UnixMilli(w.Point.Time)}
	for _, tag := range w.Point.Tags {
		p.Tags[tag.Name] = tag.Value
	}
	for _, f := range w.Point.Fields {
		p.Fields[f.Name] = f.Value
	}
	made.Point = p
	return made
}

// sampleState is a pipeline.State in memory.
type sampleState struct {
	keys []string // in order
	rows map[string][]byte
}

// Get returns a value, nil if there is none.
func (s *sampleState) Get(k []byte) ([]byte, error) { return s.rows[string(k)], nil }

// Put changes a value.
func (s *sampleState) Put(k, v []byte) {
	if _, there := s.rows[string(k)]; !there {
		s.keys = slices.Insert(s.keys, s.find(k), string(k))
	}
	s.rows[string(k)] = append([]byte{}, v...)
}

// Delete removes a key.
func (s *sampleState) Delete(k []byte) {
	if _, there := s.rows[string(k)]; there {
		at := s.find(k)
		s.keys = slices.Delete(s.keys, at, at+1)
		delete(s.rows, string(k))
	}
}

func (s *sampleState) find(k []byte) int {
	at, _ := slices.BinarySearch(s.keys, string(k))
	return at
}

// DeleteRange removes all keys with lower <= key < upper.
func (s *sampleState) DeleteRange(lower, upper []byte) {
	from := s.find(lower)
	to := max(from, s.find(upper))
	for _, k := range s.keys[from:to] {
		delete(s.rows, k)
	}
	s.keys = slices.Delete(s.keys, from, to)
}

// Scan calls f with keys and values in order, until it returns false.
func (s *sampleState) Scan(lower, upper []byte, f func(k, v []byte) bool) error {
	from := s.find(lower)
	for _, k := range s.keys[from:max(from, s.find(upper))] {
		if !f([]byte(k), s.rows[k]) {
			break
		}
	}
	return nil
}
