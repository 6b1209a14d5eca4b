package processing

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
	"github.com/floedb/floe/internal/protocol"
)

// MaxSamples is the maximum number of samples of a Test.
const MaxSamples = 100_000

// Samples are the input of Test.
type Samples struct {
	Records []Sample
	// KV returns the value that kv_lookup reads for a key, nil if the key does not exist. The
	// namespace is "" for the job's. A nil function finds no keys.
	KV func(namespace, key string) []byte
	// Funcs are the functions for operators of type func, by name.
	Funcs map[string]Func
}

// Sample is a record of a source.
type Sample struct {
	Source  string // name of the source; "" means the first one
	Key     string
	Value   []byte // for a source of time series: {"measurement", "value", "timestamp_ms", "tags"}
	Headers map[string]string
	// time of the append, not before that of the previous sample; zero means the same time. Until a
	// sample has a time, it is the event time, but not before 1970
	Time time.Time
}

// Tested is the result of a Test.
type Tested struct {
	Written   []Written         // in order
	Failures  []FailedSample    // in order
	Operators []OperatorMetrics // in the order of the definition
	Failed    string            // why the job ended early: on_error: fail, or a window that is too large; later samples are not read
}

// Written is a record that a sink would have written.
type Written struct {
	Sink  string // name of the sink
	Key   string // of the message, or in KV
	Value []byte // nil for a time series sink
	Time  time.Time
	Tags  []string // added by operators
	Point *Point   // for a time series sink
}

// Point is a point that a time series sink would have written.
type Point struct {
	Tags   map[string]string
	Fields map[string]float64 // true is 1, false 0; text is omitted
	Time   time.Time
}

// FailedSample is a record that a source, an operator or a sink could not process. A job writes it
// to its error stream.
type FailedSample struct {
	Where  string // name of the source, operator or sink
	Reason string
	Key    string
	Value  []byte // as read from its source, if known
}

// Test runs a definition on sample records, without a node, using the code that runs jobs. The
// job's sources have one partition each. Each sample is read at the time of its append, and
// everything that its event time fires is emitted before the next one. Between two samples the
// clock advances to the Time of the second. A source without records for its idle timeout stops
// holding up event time. When all sources are idle, event time advances. At the end, everything
// that waits for a time fires, as with stop_at: latest. A count window that is not full does not
// fire.
//
// A job may read many records in one step, and compares all of them with the watermark before the
// step. So a record that is late in Test may be in time in a job. Sinks accept everything within a
// node's default size limits: no queue is full, and no namespace has too many series.
//
// Errors: *DefinitionError, which is ErrInvalid; ErrInvalid for more than MaxSamples, for a
// function that is not in Funcs, and for a sample of an unknown source; ctx's error.
func Test(ctx context.Context, definition []byte, samples Samples) (Tested, error) {
	p, err := parse(definition)
	if err != nil {
		return Tested{}, err
	}
	if len(samples.Records) > MaxSamples {
		return Tested{}, engine.Errorf(ErrInvalid, "processing: %d samples exceed %d", len(samples.Records), MaxSamples)
	}
	if err := p.job.Use(pipelineFuncs(samples.Funcs)); err != nil {
		return Tested{}, engine.Errorf(ErrInvalid, "processing: %w", err)
	}
	r, err := newTrial(p, samples.KV)
	if err != nil {
		return Tested{}, err
	}
	for i := range samples.Records {
		if err := r.read(ctx, i, &samples.Records[i]); err != nil {
			return Tested{}, err
		}
	}
	if err := r.run(ctx, &input{done: true}); err != nil {
		return Tested{}, err
	}
	return r.tested(), nil
}

// trial is a running Test. It is the scene of its task.
type trial struct {
	task *task
	kv   func(namespace, key string) []byte
	keys []string // of state, in order
	rows map[string][]byte
	now  int64 // ms
	wake int64 // when the task has to look again
	told bool  // a sample had a time
	done Tested
}

func newTrial(p *parsed, kv func(namespace, key string) []byte) (*trial, error) {
	j := p.job
	t := &task{
		def: j, namespace: cmp.Or(j.Namespace, engine.DefaultNamespace), shards: 1, job: jobRow{name: j.Name, batch: j.BatchSize,
			maxPayload: engine.DefaultMaxPayload},
		cursors: make(map[cursorID]cursor), cache: newCache(newMemory(0)), live: &live{}, crowd: &crowd{},
		row: taskRow{progress: progress{watermark: noTime, target: noTime}},
	}
	operators := make(map[string]uint16)
	for _, n := range numberAll(p.parts) {
		if n.source {
			t.sources = append(t.sources, n.number)
		} else {
			operators[n.name] = n.number
		}
	}
	var err error
	if t.prog, err = pipeline.Compile(j, operators); err != nil {
		return nil, err
	}
	t.divide()
	return &trial{task: t, kv: kv, rows: make(map[string][]byte)}, nil
}

// read passes a sample through the operators.
func (r *trial) read(ctx context.Context, i int, s *Sample) error {
	t := r.task
	source := slices.IndexFunc(t.def.Sources, func(known pipeline.Source) bool { return s.Source == "" || known.Name == s.Source })
	if source < 0 {
		return engine.Errorf(ErrInvalid, "processing: sample %d is of source %q, which the definition does not have", i, s.Source)
	}
	rec := pipeline.Record{Key: []byte(s.Key), Value: s.Value,
		Origin: pipeline.Origin{Source: source, Offset: uint64(i), ID: pipeline.ID{Seq: uint64(i)}}}
	for name, value := range s.Headers {
		rec.Headers = append(rec.Headers, pipeline.Tag{Name: name, Value: value})
	}
	slices.SortFunc(rec.Headers, func(a, b pipeline.Tag) int { return strings.Compare(a.Name, b.Name) })
	if err := r.pass(ctx, r.timeOf(s, &rec)); err != nil {
		return err
	}
	in := r.input()
	in.partitions[source].given = []pipeline.Record{rec}
	in.partitions[source].measure(&t.def.Sources[source])
	return r.run(ctx, in)
}

// timeOf returns the time to which the clock advances before a record is read. It also sets the
// record's append time. A point is read when it is old enough.
func (r *trial) timeOf(s *Sample, rec *pipeline.Record) int64 {
	def, at := &r.task.def.Sources[rec.Origin.Source], &rec.Origin.ID.Millis
	*at = r.now
	switch {
	case !s.Time.IsZero():
		*at, r.told = max(s.Time.UnixMilli(), r.now), true
	case !r.told:
		rec.Origin.ID.Millis = math.MaxInt64 // of no limit
		if ms, err := r.task.prog.EventTime(rec); err == nil && def.EventTime != "" {
			*at = max(ms, r.now)
		} else {
			*at = r.now
		}
	}
	if def.TS == nil {
		return *at
	}
	if ms := gjson.GetBytes(rec.Value, "timestamp_ms"); ms.Type == gjson.Number {
		*at = ms.Int()
	}
	return max(r.now, *at+def.TS.Delay+1)
}

// input returns an input without records, of one partition for each source.
func (r *trial) input() *input {
	in := &input{}
	for i := range r.task.def.Sources {
		id := cursorID{source: i}
		p := &sourcePartition{id: id, cursor: r.task.cursors[id]}
		p.measure(&r.task.def.Sources[i])
		in.partitions = append(in.partitions, p)
	}
	return in
}

// pass advances the clock to a time, and fires everything that is due on the way.
func (r *trial) pass(ctx context.Context, to int64) error {
	for r.done.Failed == "" {
		r.wake = math.MaxInt64
		in := r.input()
		due, err := r.task.due(r, r.task.stages[0], in, r.now)
		switch {
		case err != nil:
			return err
		case due:
			if err := r.run(ctx, in); err != nil {
				return err
			}
		case r.wake > to:
			r.now = max(r.now, to)
			return nil
		default:
			r.now = r.wake
		}
	}
	return nil
}

// run runs the step that reads an input, and then the steps that fire what is due.
func (r *trial) run(ctx context.Context, in *input) error {
	t := r.task
	if r.done.Failed != "" {
		return nil
	}
	for first := true; first || t.row.fire != nil; first = false {
		s, err := t.compute(ctx, r, t.stages[0], in)
		if err == nil && s == nil {
			err = engine.Errorf(engine.ErrUnavailable, "processing: %s", t.hold.reason)
		}
		if err != nil {
			return err
		}
		if s.tick.status == Failed {
			r.done.Failed = s.tick.reason
			return nil
		}
		r.keep(s)
		in = nil
	}
	return nil
}

// keep applies the results of a step.
func (r *trial) keep(s *step) {
	t := r.task
	var written []int
	for i := range s.tick.outputs {
		written = append(written, s.tick.outputs[i].at...)
	}
	slices.Sort(written)
	for _, at := range written {
		r.done.Written = append(r.done.Written, r.written(&s.effects.writes[at]))
	}
	for i := range s.failures {
		f := &s.failures[i]
		r.done.Failures = append(r.done.Failures,
			FailedSample{Where: f.operator, Reason: engine.Cut(f.reason, maxReason), Key: string(f.key), Value: slices.Clone(f.value)})
	}
	for _, gone := range s.state.ranges {
		from, to := r.find(stateKey(nil, t.ref, t.row.generation, []byte(gone.lower))),
			r.find(stateKey(nil, t.ref, t.row.generation, []byte(gone.upper)))
		for _, k := range r.keys[from:to] {
			delete(r.rows, k)
		}
		r.keys = slices.Delete(r.keys, from, to)
	}
	for _, c := range s.state.keys {
		r.set(stateKey(nil, t.ref, t.row.generation, []byte(c.key)), c.value)
	}
	t.applied(s)
}

func (r *trial) set(k, v []byte) {
	at := r.find(k)
	switch _, there := r.rows[string(k)]; {
	case v != nil && !there:
		r.keys = slices.Insert(r.keys, at, string(k))
		fallthrough
	case v != nil:
		r.rows[string(k)] = v
	case there:
		r.keys = slices.Delete(r.keys, at, at+1)
		delete(r.rows, string(k))
	}
}

func (r *trial) find(k []byte) int {
	at, _ := slices.BinarySearch(r.keys, string(k))
	return at
}

func (r *trial) tested() Tested {
	for i := range r.task.def.Operators {
		o := OperatorMetrics{Name: r.task.def.Operators[i].Name}
		for _, c := range r.task.row.operators {
			if c.name == o.Name {
				o.In, o.Out, o.Errors, o.Late, o.Dropped = c.in, c.out, c.errors, c.late, c.dropped
			}
		}
		r.done.Operators = append(r.done.Operators, o)
	}
	return r.done
}

func (r *trial) written(w *pipeline.Write) Written {
	sink := &r.task.def.Sinks[w.Sink]
	made := Written{Sink: sink.Name, Key: strings.Clone(w.Key), Time: time.UnixMilli(w.Record.EventTime),
		Tags: w.Record.Tags.In(r.task.prog.Tags())}
	if sink.Kind != pipeline.ToTS {
		made.Value = slices.Clone(w.Record.Value)
		return made
	}
	p := pointOf(sink.Target, &w.Point)
	made.Point = &Point{Tags: p.Tags, Fields: p.Fields, Time: p.Time}
	return made
}

// Now implements scene.
func (r *trial) Now() int64 { return r.now }

// WakeAt implements scene.
func (r *trial) WakeAt(ms int64) { r.wake = min(r.wake, ms) }

// Get implements scene.
func (r *trial) Get(k []byte) ([]byte, bool, error) {
	v, ok := r.rows[string(k)]
	return v, ok, nil
}

func (r *trial) iter(lower, upper []byte) (rows, error) {
	from := r.find(lower)
	return &trialRows{r.rows, r.keys[from:max(from, r.find(upper))]}, nil
}

func (r *trial) values(namespace string, keys []string) ([][]byte, error) {
	if namespace == r.task.namespace {
		namespace = ""
	}
	all := make([][]byte, len(keys))
	for i, k := range keys {
		if r.kv != nil {
			all[i] = r.kv(namespace, k)
		}
	}
	return all, nil
}

func (r *trial) room(string, string) (protocol.QueueRoom, error) {
	return protocol.QueueRoom{Messages: math.MaxInt64, Bytes: math.MaxInt64}, nil
}

func (r *trial) awaitRoom(string, string) error { return nil }

// trialRows iterates over rows.
type trialRows struct {
	all  map[string][]byte
	keys []string
}

func (t *trialRows) First() bool { return len(t.keys) > 0 }

func (t *trialRows) Next() bool {
	t.keys = t.keys[1:]
	return t.First()
}

func (t *trialRows) Key() []byte   { return []byte(t.keys[0]) }
func (t *trialRows) Value() []byte { return t.all[t.keys[0]] }
func (t *trialRows) Close() error  { return nil }
