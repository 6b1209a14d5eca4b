package processing

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/ts"
)

// effects are the writes of a tick: records for sinks, in order, and for the error stream.
type effects struct {
	writes   []pipeline.Write
	passes   []pipeline.Pass
	failures []failure
	missed   int64
	counts   []pipeline.Counts
	refused  map[int]string // reasons of refused writes, by index
	split    map[int]bool   // sinks that get an output for each record
}

// take takes the results of the operators.
func (e *effects) take(tick *pipeline.Tick, t *task) {
	e.writes, e.passes = tick.Writes(), tick.Passes()
	for _, f := range tick.Failures() {
		e.failures = append(e.failures, t.failureOf(&f))
	}
	e.counts = tick.Counts()
}

// size returns the approximate size of a step's writes.
func (s *step) size() (rows, size int) {
	rows, size = s.state.rows()
	for i := range s.effects.writes {
		w := &s.effects.writes[i]
		rows++
		size += len(w.Key) + len(w.Record.Value) + 64*len(w.Point.Fields) + 32
	}
	for i := range s.effects.passes {
		size += len(s.effects.passes[i].Record.Key) + len(s.effects.passes[i].Record.Value) + 32
	}
	for i := range s.effects.failures {
		rows++
		size += len(s.effects.failures[i].value) + 256
	}
	return rows, size
}

// finish makes the command of a step whose effects are known. It is called again if more of them
// are refused.
func (s *step) finish() {
	t, e := s.task, &s.effects
	row := &s.tick.task
	failures, written := e.failures, int64(0)
	s.tick.outputs = s.tick.outputs[:0]
	for sink := range t.def.Sinks {
		writes := e.of(sink)
		for _, at := range writes {
			if reason, bad := e.refused[at]; bad {
				failures = append(failures, t.refusedWrite(sink, reason, &e.writes[at]))
			}
		}
		made, bad := s.outputs(sink, writes)
		failures = append(failures, bad...)
		for i := range made {
			written += made[i].records
		}
		s.tick.outputs = append(s.tick.outputs, made...)
	}
	if len(failures) > 0 && t.def.FailOnError {
		*s = *t.failStep(s, &failures[0])
		return
	}
	s.failures = failures
	s.tick.outputs = append(s.tick.outputs, errorOutputs(t.job.name, failures)...)
	s.tick.outputs = append(s.tick.outputs, s.passes()...)
	s.count(row, failures, written)
	s.tick.cursors = s.tick.cursors[:0]
	for _, id := range sortedCursors(s.cursors) {
		s.tick.cursors = append(s.tick.cursors, cursorChange{t.sources[id.source], uint16(id.partition), s.cursors[id]})
	}
	s.tick.state = s.state.list()
	s.propose()
}

// propose encodes the command.
func (s *step) propose() {
	t := s.task
	s.command = engine.Command{
		Machine: engine.MachineProcessing, Kind: kindTick, Namespace: t.namespace, Spread: t.spread,
		Body: encode(make([]byte, 0, s.tick.about()), &s.tick, (*tickCommand).code),
	}
}

// about returns the approximate encoded size of a tick, rarely less than the real one.
func (t *tickCommand) about() int {
	n := 512 + len(t.task.fire) + 64*len(t.task.operators) + 64*len(t.cursors)
	for i := range t.state {
		n += len(t.state[i].key) + len(t.state[i].value) + 8
	}
	for i := range t.outputs {
		n += len(t.outputs[i].body) + len(t.outputs[i].lost) + len(t.outputs[i].route) + 64
	}
	return n
}

// count advances the task's counters by the step, starting from those of the previous step's row.
func (s *step) count(row *taskRow, failures []failure, written int64) {
	was, e := &s.task.row, &s.effects
	row.counts = was.counts
	n := &row.counts
	if s.stage.index == 0 {
		n.in += int64(s.read)
	}
	n.out += written
	n.errors += int64(len(failures))
	n.missed += e.missed
	row.ticks, row.latencySum, row.latencyMax = was.ticks, was.latencySum, was.latencyMax
	if s.stage.index == 0 {
		row.latencySum, row.latencyMax = row.latencySum+s.task.latency.rest, max(row.latencyMax, s.task.latency.whole)
		if s.read > 0 { // a stopped job has no tick after its last one
			s.took = s.micros()
			row.ticks, row.latencySum, row.latencyMax = row.ticks+1, row.latencySum+s.took, max(row.latencyMax, s.took)
		}
	}
	row.operators = make([]operatorCounts, len(e.counts))
	for i := range e.counts {
		c, o := &e.counts[i], &row.operators[i]
		o.name = s.task.def.Operators[i].Name
		for j := range was.operators {
			if was.operators[j].name == o.name {
				*o = was.operators[j]
			}
		}
		o.in, o.out, o.errors, o.late, o.dropped = o.in+c.In, o.out+c.Out, o.errors+c.Errors, o.late+c.Late, o.dropped+c.Dropped
		n.late += c.Late
		n.dropped += c.Dropped
	}
}

// failStep returns a step that ends the job. The original step has no effect.
func (t *task) failStep(s *step, f *failure) *step {
	failed := &step{task: t, stage: s.stage, began: s.began, mark: s.stage.mark}
	reason := engine.Cut(fmt.Sprintf("%s: %s", f.operator, f.reason), maxReason)
	failed.tick = tickCommand{job: t.ref, revision: t.job.revision, task: t.row, status: Failed, reason: reason, failure: t.shown(f)}
	failed.tick.task.n++
	failed.propose()
	return failed
}

// of returns the indexes of a sink's writes.
func (e *effects) of(sink int) (all []int) {
	n := 0
	for i := range e.writes {
		if e.writes[i].Sink == sink {
			n++
		}
	}
	all = make([]int, 0, n)
	for i := range e.writes {
		if e.writes[i].Sink == sink {
			all = append(all, i)
		}
	}
	return all
}

// Limits of one output, in records and bytes.
const (
	maxPerOutput   = 1000
	maxOutputBytes = 256 << 10
)

// outputs returns the commands for a sink's writes, and the failures of impossible writes.
func (s *step) outputs(sink int, writes []int) (all []output, bad []failure) {
	t, def := s.task, &s.task.def.Sinks[sink]
	var makers []*maker // one for each shard
	for _, at := range s.effects.collapse(def, writes) {
		if _, refused := s.effects.refused[at]; refused {
			continue
		}
		w := &s.effects.writes[at]
		route := t.routeOf(def, w)
		shard := t.shardOf(route)
		i := slices.IndexFunc(makers, func(m *maker) bool { return m.shard == shard })
		if i < 0 {
			i = len(makers)
			m := &maker{task: t, sink: sink, def: def, shard: shard, away: !t.here(def, route), limit: maxPerOutput}
			if s.effects.split[sink] || m.away && (def.Kind == pipeline.ToTS || def.Kind == pipeline.ToQueue) {
				m.limit = 1 // so that a refusal names the record, and a queue with little room takes them one by one
			}
			m.expected = min(len(writes), m.limit)
			makers = append(makers, m)
		}
		m := makers[i]
		if err := m.add(at, w); err != nil {
			bad = append(bad, t.refusedWrite(sink, err.Error(), w))
			continue
		}
		if m.away {
			m.lost = append(m.lost, t.refusedWrite(sink, "", w))
		}
		if len(m.at) >= m.limit || m.size >= maxOutputBytes {
			m.flush()
		}
	}
	for _, m := range makers {
		m.flush()
		all = append(all, m.made...)
	}
	return all, bad
}

// routeOf returns the routing key of a write in a spread namespace.
func (t *task) routeOf(def *pipeline.Sink, w *pipeline.Write) string {
	switch {
	case def.Kind == pipeline.ToKV:
		return w.Key
	case def.Kind == pipeline.ToTS && t.spread:
		return engine.OpOf(ts.WriteOp(pointOf(def.Target, &w.Point))).Route
	}
	return def.Target
}

// collapse removes puts of keys that a later write overwrites.
func (e *effects) collapse(def *pipeline.Sink, writes []int) []int {
	if def.Kind != pipeline.ToKV || def.Mode != pipeline.Upsert {
		return writes
	}
	last := make(map[string]int)
	for _, at := range writes {
		if _, refused := e.refused[at]; !refused {
			last[e.writes[at].Key] = at
		}
	}
	var kept []int
	for _, at := range writes {
		if last[e.writes[at].Key] == at {
			kept = append(kept, at)
		}
	}
	return kept
}

// maker makes the outputs of a sink.
type maker struct {
	task  *task
	sink  int
	def   *pipeline.Sink
	shard engine.ShardID // of the namespace of the job
	away  bool           // the shard is not the task's, or the sink is in another namespace
	made  []output

	limit    int // of writes per output
	expected int // maximum number of writes in the next output

	at       []int     // indexes of the writes in the next output
	lost     []failure // their failures if they are refused
	size     int
	messages []stream.Message
	puts     []byte
	route    string
	enqueued []queue.NewMessage
	points   []ts.Point
}

// add adds a write to the next output. It returns an error if the write is impossible.
func (m *maker) add(at int, w *pipeline.Write) error {
	r := &w.Record
	if err := engine.CheckPayload(len(r.Value), m.task.job.maxPayload); err != nil && m.def.Kind != pipeline.ToTS {
		return err
	}
	switch m.def.Kind {
	case pipeline.ToStream:
		if len(w.Key) > stream.MaxKeyBytes {
			return engine.Errorf(ErrInvalid, "key of %d bytes exceeds %d", len(w.Key), stream.MaxKeyBytes)
		}
		msg := stream.Message{Key: w.Key, Headers: headersOf(r.Headers), Payload: r.Value}
		if err := engine.CheckHeaders("stream", msg.Headers); err != nil {
			return err
		}
		if m.messages == nil {
			m.messages = make([]stream.Message, 0, m.expected)
		}
		m.messages = append(m.messages, msg)
	case pipeline.ToKV:
		op := engine.OpOf(kv.PutOp(w.Key, r.Value, m.putOptions()...))
		if op.Err != nil {
			return op.Err
		}
		m.puts, m.route = codec.AppendBytes(m.puts, op.Command.Body), w.Key
	case pipeline.ToQueue:
		opts := []queue.EnqueueOption{queue.Priority(int(m.def.Priority)), queue.Headers(headersOf(r.Headers))}
		if m.def.Delay > 0 {
			opts = append(opts, queue.Delay(time.Duration(m.def.Delay)*time.Millisecond))
		}
		if err := engine.OpOf(queue.EnqueueOp(m.def.Target, r.Value, opts...)).Err; err != nil {
			return err
		}
		m.enqueued = append(m.enqueued, queue.NewMessage{Payload: r.Value, Options: opts})
	case pipeline.ToTS:
		p := pointOf(m.def.Target, &w.Point)
		if err := engine.OpOf(ts.WriteOp(p)).Err; err != nil {
			return err
		}
		m.points = append(m.points, p)
	}
	if m.at == nil {
		m.at = make([]int, 0, m.expected)
	}
	m.at = append(m.at, at)
	m.size += len(w.Key) + len(r.Value)
	return nil
}

func (m *maker) putOptions() (opts []kv.PutOption) {
	if m.def.TTL > 0 {
		opts = append(opts, kv.TTL(time.Duration(m.def.TTL)*time.Millisecond))
	}
	if m.def.Mode == pipeline.IfAbsent {
		opts = append(opts, kv.IfAbsent())
	}
	return opts
}

// flush makes an output of the added writes.
func (m *maker) flush() {
	if len(m.at) == 0 {
		return
	}
	var op engine.Op
	switch m.def.Kind {
	case pipeline.ToStream:
		op = forwardOp(m.def.Target, m.messages)
	case pipeline.ToKV:
		op = engine.Op{Command: engine.Command{Machine: engine.MachineKV, Kind: protocol.KindPutMany, Body: m.puts}, Route: m.route}
	case pipeline.ToQueue:
		op = engine.OpOf(queue.EnqueueManyOp(m.def.Target, m.enqueued))
	case pipeline.ToTS:
		op = engine.OpOf(ts.WriteOp(m.points...))
	}
	o := outputOf(op, m.sink)
	o.records, o.at = int64(len(m.at)), m.at
	if m.task.elsewhere(m.def) {
		o.where = m.def.Namespace
	}
	if m.away {
		o.lost = encodeFailures(m.lost)
	}
	m.made = append(m.made, o)
	m.at, m.lost, m.size, m.messages, m.puts, m.enqueued, m.points = nil, nil, 0, nil, nil, nil, nil
}

// forwardOp appends to a stream, in whichever shards its partitions are.
func forwardOp(name string, messages []stream.Message) engine.Op {
	op := engine.OpOf(stream.AppendManyOp(name, messages))
	op.Command.Kind = protocol.KindAppendMany
	return op
}

func outputOf(op engine.Op, sink int) output {
	return output{sink: sink, route: op.Route, machine: op.Command.Machine, kind: op.Command.Kind, body: op.Command.Body}
}

func pointOf(measurement string, p *pipeline.Point) ts.Point {
	made := ts.Point{Measurement: measurement, Fields: make(map[string]float64), Time: time.UnixMilli(p.Time)}
	for _, t := range p.Tags {
		if made.Tags == nil {
			made.Tags = make(map[string]string)
		}
		made.Tags[t.Name] = t.Value
	}
	for _, f := range p.Fields {
		switch v := f.Value.(type) {
		case float64:
			made.Fields[f.Name] = v
		case int64:
			made.Fields[f.Name] = float64(v)
		case bool:
			made.Fields[f.Name] = 0
			if v {
				made.Fields[f.Name] = 1
			}
		}
	}
	return made
}

func sortedCursors(m map[cursorID]cursor) []cursorID {
	all := make([]cursorID, 0, len(m))
	for id := range m {
		all = append(all, id)
	}
	sortCursors(all)
	return all
}

// refusedOutputs continues after sinks have refused a tick. Permanently refused records go to the
// error stream, once they are identified. If no refusal is permanent, the task waits.
func (t *task) refusedOutputs(s *step, refused *refusedError, now int64) {
	e, forGood := &s.effects, false
	for _, r := range refused.outputs {
		o := &s.tick.outputs[r.output]
		switch {
		case o.sink < 0 || forNow(r.err):
			continue
		case len(o.at) > 1:
			e.split = with(e.split, o.sink, true)
		default:
			e.refused = with(e.refused, o.at[0], r.err.Error())
		}
		forGood = true
	}
	if forGood {
		s.finish()
		t.again = s
		return
	}
	first := refused.outputs[0]
	name := "the stream of errors"
	if o := &s.tick.outputs[first.output]; o.sink >= 0 {
		name = "sink " + t.def.Sinks[o.sink].Name
	}
	reason := fmt.Sprintf("%s: %v", name, first.err)
	if most := min(s.stage.limit, max(s.read, len(s.effects.writes))); most > 1 {
		s.stage.limit = most / 2 // there may be room for fewer records
		t.live.hold(reason)
		return
	}
	t.held(now, reason)
}

// forNow reports whether a refusal is temporary. A refusal because of a namespace's limit of series
// is not.
func forNow(err error) bool {
	var series *ts.LimitError
	return (errors.Is(err, engine.ErrBusy) || errors.Is(err, engine.ErrUnavailable)) && !errors.As(err, &series)
}

func with[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	if m == nil {
		m = make(map[K]V)
	}
	m[k] = v
	return m
}

// laneOf returns the lane of a stage's messages to other shards.
func laneOf(r ref, stage uint16) uint64 {
	return binary.BigEndian.Uint64(r.append(nil)[2:]) ^ uint64(r.shard)<<48 ^ uint64(stage)<<40
}

func sortCursors(all []cursorID) {
	slices.SortFunc(all, func(a, b cursorID) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.partition, b.partition))
	})
}
