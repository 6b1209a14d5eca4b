package processing

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Kinds of queries; the numbers are part of the protocol between processes.
const (
	queryJob uint8 = iota + 1
	queryJobs
	querySubtasks
)

// jobQuery reads a job: arguments first, results after the blank line.
type jobQuery struct {
	namespace string // "": any; also a result
	ref       ref
	created   int64
	wait      uint64 // a savepoint: wait until it is complete or deleted

	found      bool
	job        Job
	source     []byte
	revision   uint64
	last       uint16
	numbers    []numbered
	savepoints []Savepoint
	saved      [][]numbered // of each savepoint
}

// SearchIn sets the namespace of the job, "" for any. It is called if an API key is valid only for
// some namespaces.
func (q *jobQuery) SearchIn(namespace string) { q.namespace = namespace }

// Found reports whether the job exists.
func (q *jobQuery) Found() bool { return q.found }

// jobsQuery reads a shard's jobs of a namespace.
type jobsQuery struct {
	namespace string
	prefix    string
	exact     bool // prefix is the name
	status    Status
	after     []byte // key after the namespace
	limit     int

	jobs []Job
	last []byte
	more bool
}

// Machine returns the machine of stream processing.
func (*jobQuery) Machine() engine.MachineID { return engine.MachineProcessing }

// Machine returns the machine of stream processing.
func (*jobsQuery) Machine() engine.MachineID { return engine.MachineProcessing }

// Kind implements engine.Query.
func (*jobQuery) Kind() uint8 { return queryJob }

// Kind implements engine.Query.
func (*jobsQuery) Kind() uint8 { return queryJobs }

func (m *machine) queryJob(v *engine.View, q *jobQuery) error {
	v.Freeze()
	if q.wait != 0 {
		if err := v.WaitOn(jobTopic(q.ref)); err != nil {
			return err
		}
	}
	j, ok, err := readJob(v, q.ref)
	if err != nil || !ok || j.created != q.created {
		return err
	}
	name, ok := v.NamespaceName(j.ns)
	if !ok || q.namespace != "" && q.namespace != name {
		return nil
	}
	if q.wait != 0 && j.pending == q.wait {
		return engine.ErrWait
	}
	d, err := readDefinition(v, q.ref)
	if err != nil {
		return err
	}
	q.found, q.namespace, q.source, q.numbers, q.revision, q.last = true, name, d.source, d.numbers, j.revision, j.numbers
	if q.job, err = m.describe(v, name, q.ref, &j); err != nil {
		return err
	}
	return q.readSavepoints(v)
}

func (q *jobQuery) readSavepoints(v *engine.View) error {
	prefix := jobKey(rowSavepoint, q.ref)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	q.savepoints, q.saved = nil, nil
	for ok := it.First(); ok; ok = it.Next() {
		s, err := decode(it.Value(), (*savepointRow).code)
		if err != nil {
			it.Close()
			return err
		}
		q.savepoints = append(q.savepoints, Savepoint{
			ID: savepointID(s.created, ref{q.ref.shard, uint64At(it.Key(), 1+refLen)}), CreatedAt: timeOf(s.created), Complete: s.complete,
			RecordsProcessed: s.records, Bytes: s.bytes,
		})
		q.saved = append(q.saved, s.numbers)
	}
	return it.Close()
}

func (m *machine) queryJobs(v *engine.View, q *jobsQuery) error {
	v.Freeze()
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	prefix := namePrefix(ns, q.prefix)
	if q.exact {
		prefix = append(prefix, 0)
	}
	lower, upper := prefix, key.PrefixEnd(prefix)
	if len(q.after) > 0 {
		var ok bool
		if lower, upper, ok = key.Behind(prefix, append(namePrefix(ns, ""), q.after...)); !ok {
			return nil
		}
	}
	it, err := v.Iter(lower, upper)
	if err != nil {
		return err
	}
	var found []ref
	for ok := it.First(); ok; ok = it.Next() {
		if len(found) == q.limit {
			q.more = true
			break
		}
		_, r := parseNameKey(it.Key())
		found = append(found, r)
		q.last = append(q.last[:0], it.Key()[5:]...)
	}
	if err := it.Close(); err != nil {
		return err
	}
	for _, r := range found {
		j, ok, err := readJob(v, r)
		if err != nil {
			return err
		}
		if !ok || q.status != 0 && j.status != q.status {
			continue
		}
		job, err := m.describe(v, q.namespace, r, &j)
		if err != nil {
			return err
		}
		q.jobs = append(q.jobs, job)
	}
	return nil
}

// describe returns a job as users see it.
func (m *machine) describe(v *engine.View, namespace string, r ref, j *jobRow) (Job, error) {
	t, err := readTask(v, r)
	if err != nil {
		return Job{}, err
	}
	out, err := readOut(v, r, &t)
	if err != nil {
		return Job{}, err
	}
	job := Job{
		ID: jobID(j.created, r), Name: j.name, Namespace: namespace, Status: j.status, Reason: j.reason, Failure: j.failure,
		Parallelism: j.parallelism, BatchSize: j.batch,
		CreatedAt: timeOf(j.created), EndedAt: timeOf(j.ended), Metrics: t.metrics(),
	}
	job.Metrics.Errors += out.refused
	job.Metrics.RecordsOut -= out.refused + out.records
	job.Metrics.Backlog = out.bytes
	if l, ok := m.live.Load(r); ok && j.status == Running {
		job.add(l.(*live), v.Now())
	} else {
		job.Metrics.LatencyAvg = average(t.latencySum, t.ticks)
	}
	if j.pending != 0 && j.status == Running {
		subtask, err := readSubtask(v, r)
		if err != nil {
			return Job{}, err
		}
		if subtask.phase != phaseRunning {
			job.Held, job.Reason = true, "a savepoint is being made: the job is paused"
		}
	}
	if why, ok := m.stuck.Load(r); ok && (j.pending != 0 || j.restore != 0) {
		job.Held, job.Reason = true, why.(string)
	}
	if j.status == Running {
		job.Metrics.rates(v.Now() - j.created)
	}
	return job, nil
}

// readOut returns the sum of the outgoing messages and the exchanges of a task's stages.
func readOut(v *engine.View, r ref, t *taskRow) (sum outRow, err error) {
	stages := []uint16{0}
	for i := range t.stages {
		stages = append(stages, t.stages[i].number)
		in, err := readExchange(v, r, t.stages[i].number)
		if err != nil {
			return sum, err
		}
		sum.bytes += in.bytes
	}
	for _, stage := range stages {
		out, err := readOutOf(v, r, stage)
		if err != nil {
			return sum, err
		}
		sum.bytes, sum.refused, sum.records = sum.bytes+out.bytes, sum.refused+out.refused, sum.records+out.records
	}
	return sum, nil
}

func readOutOf(v *engine.View, r ref, stage uint16) (out outRow, err error) {
	b, ok, err := v.Get(outKey(r, stage))
	if err == nil && ok {
		out, err = decode(b, (*outRow).code)
	}
	return out, err
}

func (t *taskRow) metrics() Metrics {
	n := &t.counts
	m := Metrics{
		RecordsIn: n.in, RecordsOut: n.out, Errors: n.errors, Late: n.late, Dropped: n.dropped, Missed: n.missed,
		LatencyMax: time.Duration(t.latencyMax) * time.Microsecond, latencySum: t.latencySum, ticks: t.ticks,
	}
	for _, o := range t.operators {
		m.Operators = append(m.Operators, OperatorMetrics{o.name, o.in, o.out, o.errors, o.late, o.dropped})
	}
	return m
}

// average returns the mean of n latencies with the given sum in microseconds.
func average(sum, n int64) time.Duration {
	if n == 0 {
		return 0
	}
	return time.Duration(sum) * time.Microsecond / time.Duration(n)
}

// add adds the state that only the leader has.
func (j *Job) add(l *live, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &j.Metrics
	m.RecordsBehind = l.behind
	m.LastReadCount, m.LatencyLast = l.lastRead, l.last
	if l.polled != 0 {
		m.Idle = time.Duration(max(now-l.polled, 0)) * time.Millisecond
	}
	if l.mark != noTime && l.mark < now+maxAheadMillis {
		m.Watermark = time.UnixMilli(l.mark)
		m.Lag = time.Duration(max(now-l.mark, 0)) * time.Millisecond
	}
	m.latencySum += l.pending.rest
	m.LatencyMax, m.LatencyAvg = max(m.LatencyMax, time.Duration(l.pending.whole)*time.Microsecond), average(m.latencySum, m.ticks)
	if l.reason != "" {
		j.Held, j.Reason = true, l.reason
	}
}

// maxAheadMillis is how far in the future a watermark is shown. The watermark of a job that has
// read everything is not a time.
const maxAheadMillis = 365 * 24 * 60 * 60 * 1000

// rates computes the average rates per second since the job began.
func (m *Metrics) rates(lived int64) {
	if lived <= 0 {
		return
	}
	seconds := float64(lived) / 1000
	m.InPerSecond, m.OutPerSecond = float64(m.RecordsIn)/seconds, float64(m.RecordsOut)/seconds
}

func formatCursor(b []byte) string { return hex.EncodeToString(b) }

func parseCursor(text string) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil || text != "" && len(b) < refLen+2 {
		return nil, engine.BadCursor(text)
	}
	return b, nil
}

// Arguments implements engine.Query.
func (q *jobQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	codeRef(c, &q.ref)
	c.Varint(&q.created)
	c.Uvarint(&q.wait)
}

// Results implements engine.Query.
func (q *jobQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	if c.Bool(&q.found); !q.found {
		return
	}
	c.String(&q.namespace)
	q.job.code(c)
	c.Bytes(&q.source)
	c.Uvarint(&q.revision)
	c.Uint16(&q.last)
	codec.List(c, &q.numbers, func(c *codec.Coder, n *numbered) { n.code(c) })
	codec.List(c, &q.savepoints, func(c *codec.Coder, s *Savepoint) { s.code(c) })
	codec.List(c, &q.saved, func(c *codec.Coder, s *[]numbered) {
		codec.List(c, s, func(c *codec.Coder, n *numbered) { n.code(c) })
	})
	if len(q.saved) != len(q.savepoints) {
		c.Fail("savepoints without numbers")
	}
	if c.More(q.job.Metrics.RecordsBehind != 0 || q.job.Failure != nil) {
		c.Varint(&q.job.Metrics.RecordsBehind)
	}
	codeFailure(c, &q.job.Failure)
}

// Arguments implements engine.Query.
func (q *jobsQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.prefix)
	c.Bool(&q.exact)
	if c.Byte((*byte)(&q.status)); q.status > Completed {
		c.Fail("unknown state")
	}
	c.Bytes(&q.after)
	if c.Int(&q.limit); q.limit < 1 || q.limit > engine.MaxPageItems {
		c.Fail("limit out of range")
	}
}

// Results implements engine.Query.
func (q *jobsQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	codec.List(c, &q.jobs, func(c *codec.Coder, j *Job) { j.code(c) })
	c.Bytes(&q.last)
	c.Bool(&q.more)
	failed := slices.ContainsFunc(q.jobs, func(j Job) bool { return j.Failure != nil })
	codeTail(c, len(q.jobs), failed, func(i int) *int64 { return &q.jobs[i].Metrics.RecordsBehind })
	if !c.More(failed) {
		return
	}
	for i := range q.jobs {
		f := &q.jobs[i].Failure
		has := *f != nil
		if c.Bool(&has); has {
			codeFailure(c, f)
		}
	}
}

// codeTail codes fields of the elements of a list in the tail of the list's record, because the
// format of the elements is fixed. Older fields come first. more is set if other fields follow
// them.
func codeTail(c *codec.Coder, n int, more bool, fields ...func(i int) *int64) {
	for at, of := range fields {
		set := more || slices.ContainsFunc(fields[at:], func(of func(i int) *int64) bool {
			for i := range n {
				if *of(i) != 0 {
					return true
				}
			}
			return false
		})
		if !c.More(set) {
			return
		}
		for i := range n {
			c.Varint(of(i))
		}
	}
}

func (s *Savepoint) code(c *codec.Coder) {
	c.String((*string)(&s.ID))
	c.Time(&s.CreatedAt)
	c.Bool(&s.Complete)
	c.Varint(&s.RecordsProcessed)
	c.Varint(&s.Bytes)
}

func (j *Job) code(c *codec.Coder) {
	for _, s := range [...]*string{(*string)(&j.ID), &j.Name, &j.Namespace, &j.Reason} {
		c.String(s)
	}
	c.Byte((*byte)(&j.Status))
	c.Bool(&j.Held)
	c.Int(&j.Parallelism)
	c.Int(&j.BatchSize)
	c.Time(&j.CreatedAt)
	c.Time(&j.EndedAt)
	m := &j.Metrics
	for _, n := range [...]*int64{&m.RecordsIn, &m.RecordsOut, &m.Errors, &m.Late, &m.Dropped, &m.Missed, &m.Backlog} {
		c.Varint(n)
	}
	for _, d := range [...]*time.Duration{&m.Idle, &m.Lag, &m.LatencyLast, &m.LatencyAvg, &m.LatencyMax} {
		c.Varint((*int64)(d))
	}
	c.Float64(&m.InPerSecond)
	c.Float64(&m.OutPerSecond)
	c.Int(&m.LastReadCount)
	c.Time(&m.Watermark)
	codec.List(c, &m.Operators, func(c *codec.Coder, o *OperatorMetrics) {
		c.String(&o.Name)
		for _, n := range [...]*int64{&o.In, &o.Out, &o.Errors, &o.Late, &o.Dropped} {
			c.Varint(n)
		}
	})
}
