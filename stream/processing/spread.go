package processing

import (
	"context"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// In a spread namespace a job has a subtask in every shard, under one ref. A subtask has the same
// rows as a job in one shard, and its task reads the shard's part of the sources. Users change the
// job at its home, the shard in the ref, which notifies the others (follow). Other shards notify
// the home when their subtask ends (report).
//
//	home                                    other shards
//	submit, stop, restore ...  - follow ->  the subtask does likewise
//	the job has failed         <- report -  the subtask has failed
//	the job is completed, once all subtasks are
//
// Each run of a job is an epoch: messages about an earlier one are ignored.
//
// exchange.go describes how records of the same key meet.

// subtaskRow is the value of a row 'b'.
type subtaskRow struct {
	heard uint64 // revision of the job at its home that the shard has received
	epoch uint64 // LSN, at home, at which the run of the job began
	done  bool   // the subtask has read all its input
	ended int    // at home: number of subtasks that have ended
	reset uint64 // epoch of the last restore from a savepoint: records passed in earlier ones are dropped
	goal  Status // status of the subtask after its restore

	saving uint64 // the savepoint being made; 0: none
	phase  phase  // phase of the subtask in it
	saved  saved  // at home: progress of all subtasks
}

func (p *subtaskRow) code(c *codec.Coder) {
	version(c, "subtask")
	c.Uvarint(&p.heard)
	c.Uvarint(&p.epoch)
	c.Bool(&p.done)
	c.Int(&p.ended)
	c.Uvarint(&p.reset)
	c.Byte((*byte)(&p.goal))
	c.Uvarint(&p.saving)
	c.Byte((*byte)(&p.phase))
	p.saved.code(c)
}

// followCommand has the state of a job at its home.
type followCommand struct {
	job         ref
	revision    uint64
	epoch       uint64
	name        string
	created     int64
	status      Status
	reason      string
	parallelism int
	batch       int
	maxPayload  int
	numbers     uint16
	restore     uint64        // savepoint from which the epoch begins; 0: none
	savepoints  []savepointOf // all savepoints of the job
	saving      uint64
	copies      bool // all subtasks are quiesced for the savepoint
	defined     bool // the command has a new definition
	definition  definitionRow
}

func (f *followCommand) code(c *codec.Coder) {
	codeRef(c, &f.job)
	c.Uvarint(&f.revision)
	c.Uvarint(&f.epoch)
	c.String(&f.name)
	c.Varint(&f.created)
	if c.Byte((*byte)(&f.status)); f.status < Running || f.status > Completed {
		c.Fail("unknown state")
	}
	c.String(&f.reason)
	for _, n := range [...]*int{&f.parallelism, &f.batch, &f.maxPayload} {
		c.Int(n)
	}
	c.Uint16(&f.numbers)
	c.Uvarint(&f.restore)
	codec.List(c, &f.savepoints, func(c *codec.Coder, s *savepointOf) { s.code(c) })
	c.Uvarint(&f.saving)
	c.Bool(&f.copies)
	if c.Bool(&f.defined); f.defined {
		f.definition.code(c)
	}
}

// reportCommand reports the end of a subtask.
type reportCommand struct {
	job    ref
	epoch  uint64
	status Status // Failed or Completed
	reason string

	failure *Failure
}

func (r *reportCommand) code(c *codec.Coder) {
	codeRef(c, &r.job)
	c.Uvarint(&r.epoch)
	if c.Byte((*byte)(&r.status)); r.status != Failed && r.status != Completed {
		c.Fail("unknown end")
	}
	c.String(&r.reason)
	codeFailure(c, &r.failure)
}

// home reports whether users change the job in this shard.
func (w *work) home(j *job) bool {
	return j.subtask == nil || engine.ShardID(j.ref.shard) == w.tx.Shard()
}

// saveSubtask writes the row of the subtask. At home it also sends the state of the job to the
// other shards if it has changed.
func (w *work) saveSubtask(j *job) {
	if w.home(j) {
		j.subtask.heard = j.revision
	}
	w.tx.Set(jobKey(rowSubtask, j.ref), encode(nil, j.subtask, (*subtaskRow).code))
	w.tx.Notify(jobTopic(j.ref), -1)
	if !w.home(j) || j.told == j.revision {
		return
	}
	f := followCommand{
		job: j.ref, revision: j.revision, epoch: j.subtask.epoch, name: j.name, created: j.created, status: j.status, reason: j.reason,
		parallelism: j.parallelism, batch: j.batch, maxPayload: j.maxPayload, numbers: j.numbers,
		restore: j.restore, savepoints: w.savepointsOf(j), saving: j.subtask.saving, copies: j.subtask.phase >= phaseCopying,
	}
	if j.defined != nil {
		f.defined, f.definition = true, *j.defined
	}
	body := encode(nil, &f, (*followCommand).code)
	for shard := range engine.ShardID(w.tx.Shards()) {
		if shard != w.tx.Shard() {
			w.tell(j, shard, kindFollow, body)
		}
	}
	j.told, j.defined = j.revision, nil
}

// tell sends a command about the job to another shard. It does not wait for sinks.
func (w *work) tell(j *job, shard engine.ShardID, kind uint8, body []byte) {
	w.tx.Send(engine.Message{
		Command: engine.Command{Machine: engine.MachineProcessing, Kind: kind, Namespace: w.tx.NamespaceName(), Spread: true, Body: body},
		Name:    engine.RouteTo(w.tx.NamespaceName(), shard, w.tx.Shards()), Lane: ^laneOf(j.ref, 0),
	})
}

// follow updates the subtask in this shard to the state of the job.
func (w *work) follow(f *followCommand) ([]byte, error) {
	j := w.load(f.job)
	if j == nil && !f.defined {
		return nil, nil // the job has been forgotten
	}
	if j == nil {
		j = w.begin(f.job, jobRow{name: f.name, created: f.created})
		j.subtask.epoch = f.epoch
	}
	known := j.numbers
	j.subtask.heard, j.revision, j.numbers = f.revision, uint64(w.tx.LSN()), f.numbers
	again := f.epoch != j.subtask.epoch
	restores := again && f.restore != 0
	if f.defined {
		w.define(j, &f.definition)
		if !restores {
			w.keep(j, f.definition.numbers, known)
		}
	}
	j.parallelism, j.batch, j.maxPayload = f.parallelism, f.batch, f.maxPayload
	if again {
		j.subtask.epoch, j.subtask.done, j.since, j.began = f.epoch, false, uint64(w.tx.LSN()), w.tx.Now()
	}
	if j.subtask.goal = f.status; restores {
		j.subtask.goal = Running
	}
	switch {
	case f.status == Cancelled:
		w.abandon(j)
		return nil, nil
	case restores:
		if j.status == Running {
			w.end(j, f.status, f.reason, nil)
		}
		w.beginRestore(j, f.restore)
	case f.status == Running && again && j.restore == 0:
		w.run(j)
	case f.status != Running && j.status == Running:
		w.end(j, f.status, f.reason, nil)
	}
	w.followSaving(j, f)
	// A failed subtask stays failed. Its home has received the report or will receive it.
	w.save(j)
	return nil, nil
}

// endSubtask ends this shard's subtask of a job.
func (w *work) endSubtask(j *job, s Status, reason string, f *Failure) {
	home := w.home(j)
	switch {
	case s == Completed:
		j.subtask.done = true
		w.save(j)
	case !home:
		w.end(j, s, reason, nil)
	}
	r := reportCommand{j.ref, j.subtask.epoch, s, engine.Cut(reason, maxReason), f}
	if home {
		w.subtaskEnded(j, &r)
		return
	}
	w.tell(j, engine.ShardID(j.ref.shard), kindReport, encode(nil, &r, (*reportCommand).code))
}

// report handles at home the end of a subtask.
func (w *work) report(r *reportCommand) ([]byte, error) {
	if j := w.load(r.job); j != nil && j.status == Running && (r.epoch == j.subtask.epoch) {
		w.subtaskEnded(j, r)
	}
	return nil, nil
}

// subtaskEnded ends a running job when a subtask has failed, or the last one is done.
func (w *work) subtaskEnded(j *job, r *reportCommand) {
	if r.status == Failed {
		w.end(j, Failed, r.reason, r.failure)
		return
	}
	if j.subtask.ended++; j.subtask.ended < w.tx.Shards() {
		w.save(j)
		return
	}
	w.end(j, Completed, "", nil)
}

// subtasksQuery reads a shard's subtasks of jobs: arguments first, results after the blank line.
type subtasksQuery struct {
	namespace string
	jobs      []ref
	heard     uint64 // wait until the subtasks have received that revision

	subtasks []subtaskInfo
}

// subtaskInfo is a shard's answer about a subtask.
type subtaskInfo struct {
	found      bool
	job        Job   // only fields that can differ between subtasks are used
	latencySum int64 // in microseconds
	ticks      int64
	lived      int64 // ms
}

// Machine returns the machine of stream processing.
func (*subtasksQuery) Machine() engine.MachineID { return engine.MachineProcessing }

// Kind implements engine.Query.
func (*subtasksQuery) Kind() uint8 { return querySubtasks }

// Arguments implements engine.Query.
func (q *subtasksQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	codec.List(c, &q.jobs, codeRef)
	c.Uvarint(&q.heard)
	if len(q.jobs) > engine.MaxPageItems {
		c.Fail("too many jobs")
	}
}

// Results implements engine.Query.
func (q *subtasksQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	fractions := make([]int64, len(q.subtasks)) // of latencySum
	for i := range fractions {
		fractions[i] = q.subtasks[i].latencySum % millisecond
	}
	codec.List(c, &q.subtasks, func(c *codec.Coder, p *subtaskInfo) {
		if c.Bool(&p.found); p.found {
			p.job.code(c)
			sum := p.latencySum / millisecond
			if c.Varint(&sum); c.Reading() {
				p.latencySum = sum * millisecond
			}
			c.Varint(&p.ticks)
			c.Varint(&p.lived)
		}
	})
	if c.Reading() && len(q.subtasks) != len(q.jobs) {
		c.Fail("not one answer for each job")
		return
	}
	if c.Reading() {
		fractions = make([]int64, len(q.subtasks))
	}
	codeTail(c, len(q.subtasks), false, func(i int) *int64 { return &q.subtasks[i].job.Metrics.RecordsBehind },
		func(i int) *int64 { return &fractions[i] })
	if c.Reading() {
		for i := range fractions {
			q.subtasks[i].latencySum += fractions[i]
		}
	}
}

func (m *machine) querySubtasks(v *engine.View, q *subtasksQuery) error {
	v.Freeze()
	q.subtasks = make([]subtaskInfo, len(q.jobs))
	for i, r := range q.jobs {
		if q.heard != 0 {
			if err := v.WaitOn(jobTopic(r)); err != nil {
				return err
			}
		}
		subtask, err := readSubtask(v, r)
		if err != nil {
			return err
		}
		if subtask.heard < q.heard {
			return engine.ErrWait
		}
		if subtask.epoch == 0 {
			continue
		}
		if err := m.describeSubtask(v, q.namespace, r, &q.subtasks[i]); err != nil {
			return err
		}
	}
	return nil
}

// readSubtask returns the subtask of a job, without an epoch if it does not exist.
func readSubtask(v *engine.View, r ref) (p subtaskRow, err error) {
	b, ok, err := v.Get(jobKey(rowSubtask, r))
	if err == nil && ok {
		p, err = decode(b, (*subtaskRow).code)
	}
	return p, err
}

func (m *machine) describeSubtask(v *engine.View, namespace string, r ref, p *subtaskInfo) error {
	j, ok, err := readJob(v, r)
	if err != nil || !ok {
		return err
	}
	if name, ok := v.NamespaceName(j.ns); !ok || name != namespace {
		return nil
	}
	p.found, p.lived = true, v.Now()-j.created
	if p.job, err = m.describe(v, namespace, r, &j); err != nil {
		return err
	}
	p.latencySum, p.ticks = p.job.Metrics.latencySum, p.job.Metrics.ticks
	return nil
}

// gather adds the metrics of all subtasks to jobs of a spread namespace. Before, the jobs have only
// the metrics of their homes.
func (s *Store) gather(ctx context.Context, jobs []Job) error {
	if spread, err := s.scope.Spread(ctx); err != nil || !spread || len(jobs) == 0 {
		return err
	}
	q := subtasksQuery{namespace: s.Namespace()}
	for i := range jobs {
		_, r, err := jobs[i].ID.parse()
		if err != nil {
			return err
		}
		q.jobs = append(q.jobs, r)
	}
	answers, _, err := engine.AskAll(ctx, &s.scope, q)
	if err != nil {
		return err
	}
	for i := range jobs {
		var subtasks []*subtaskInfo
		for _, a := range answers {
			if p := &a.subtasks[i]; p.found {
				subtasks = append(subtasks, p)
			}
		}
		jobs[i].sum(subtasks)
	}
	return nil
}

// heard waits until all shards have received the last change of a job in a spread namespace.
func (s *Store) heard(ctx context.Context, id JobID) error {
	if spread, err := s.scope.Spread(ctx); err != nil || !spread {
		return err
	}
	q, err := s.query(ctx, id, s.Namespace())
	if err != nil {
		return err
	}
	_, _, err = engine.AskAll(ctx, &s.scope, subtasksQuery{namespace: s.Namespace(), jobs: []ref{q.ref}, heard: q.revision})
	return err
}

// sum sets the metrics of a job to those of all its subtasks.
func (j *Job) sum(subtasks []*subtaskInfo) {
	sum, ticks, lived := Metrics{}, int64(0), int64(0)
	var latency int64
	for _, p := range subtasks {
		m := &p.job.Metrics
		sum.add(m)
		latency, ticks, lived = latency+p.latencySum, ticks+p.ticks, max(lived, p.lived)
		if p.job.Held && !j.Held && j.Status == Running {
			j.Held, j.Reason = true, p.job.Reason
		}
	}
	sum.LatencyAvg = average(latency, ticks)
	if j.Status == Running {
		sum.rates(lived)
	}
	j.Metrics = sum
}

// add adds the metrics of a subtask.
func (m *Metrics) add(o *Metrics) {
	for _, n := range [...]struct {
		to      *int64
		subtask int64
	}{
		{&m.RecordsIn, o.RecordsIn}, {&m.RecordsOut, o.RecordsOut}, {&m.Errors, o.Errors}, {&m.Late, o.Late}, {&m.Dropped, o.Dropped},
		{&m.Missed, o.Missed}, {&m.RecordsBehind, o.RecordsBehind}, {&m.Backlog, o.Backlog},
	} {
		*n.to += n.subtask
	}
	m.LastReadCount = max(m.LastReadCount, o.LastReadCount)
	m.Idle, m.Lag = max(m.Idle, o.Idle), max(m.Lag, o.Lag)
	m.LatencyLast, m.LatencyMax = max(m.LatencyLast, o.LatencyLast), max(m.LatencyMax, o.LatencyMax)
	if m.Watermark.IsZero() || !o.Watermark.IsZero() && o.Watermark.Before(m.Watermark) {
		m.Watermark = o.Watermark
	}
	for _, op := range o.Operators {
		i := slices.IndexFunc(m.Operators, func(known OperatorMetrics) bool { return known.Name == op.Name })
		if i < 0 {
			m.Operators = append(m.Operators, op)
			continue
		}
		known := &m.Operators[i]
		known.In, known.Out, known.Errors = known.In+op.In, known.Out+op.Out, known.Errors+op.Errors
		known.Late, known.Dropped = known.Late+op.Late, known.Dropped+op.Dropped
	}
}
