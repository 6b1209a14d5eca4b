package dashboard

import (
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

var txnConditions = map[string]func() txnOperation{
	"kv.absent":         func() txnOperation { return &keyAbsent{} },
	"kv.present":        func() txnOperation { return &keyPresent{} },
	"kv.revision_is":    func() txnOperation { return &keyRevision{} },
	"queue.held":        func() txnOperation { return &messageHeld{} },
	"stream.last_id_is": func() txnOperation { return &lastIDIs{} },
	"action.held":       func() txnOperation { return &runHeld{} },
}

// txnOperations are the operations of programs; those of administrators have routes only.
var txnOperations = map[string]func() txnOperation{
	"kv.put":          func() txnOperation { return &txnPut{} },
	"kv.delete":       func() txnOperation { return &txnDelete{} },
	"kv.incr":         func() txnOperation { return &txnIncr{count: defaultIncrement} },
	"kv.touch":        func() txnOperation { return &txnTouch{} },
	"kv.patch":        func() txnOperation { return &txnPatch{} },
	"queue.enqueue":   func() txnOperation { return &txnEnqueue{} },
	"queue.dequeue":   func() txnOperation { return &txnDequeue{max: 1, lease: defaultLease} },
	"queue.ack":       func() txnOperation { return &txnAck{} },
	"queue.nack":      func() txnOperation { return &txnNack{nacking: nacking{longest: delayMillis.max}} },
	"queue.extend":    func() txnOperation { return &txnExtend{lease: defaultLease} },
	"queue.release":   func() txnOperation { return &txnRelease{} },
	"stream.append":   func() txnOperation { return &txnAppend{} },
	"stream.ack":      func() txnOperation { return &txnAckRecords{} },
	"stream.nack":     func() txnOperation { return &txnNackRecords{nacking: nacking{longest: longestGroupTime}} },
	"stream.extend":   func() txnOperation { return &txnExtendRecords{lease: defaultLease} },
	"stream.seek":     func() txnOperation { return &txnSeek{} },
	"stream.leave":    func() txnOperation { return &txnLeave{} },
	"ts.write":        func() txnOperation { return &txnWritePoints{} },
	"action.invoke":   func() txnOperation { return &txnInvoke{priority: action.DefaultPriority} },
	"action.complete": func() txnOperation { return &txnComplete{} },
	"action.fail":     func() txnOperation { return &txnFail{} },
	"action.cancel":   func() txnOperation { return &txnCancelRun{} },
	"workflow.start":  func() txnOperation { return &txnStart{} },
	"workflow.signal": func() txnOperation { return &txnSignal{} },
	"workflow.cancel": func() txnOperation { return &txnCancelFlow{} },
	"workflow.retry":  func() txnOperation { return &txnRetryFlow{} },
}

// oneKey is a part about a key.
type oneKey struct{ key string }

func (k *oneKey) fields(f *codec.Fields) {
	need(f, "key")
	f.Text("key", &k.key)
}

type keyAbsent struct{ oneKey }

func (k *keyAbsent) condition() (floe.Condition, error) { return kv.Absent(k.key), nil }

type keyPresent struct{ oneKey }

func (k *keyPresent) condition() (floe.Condition, error) { return kv.Present(k.key), nil }

type keyRevision struct {
	oneKey
	revision uint64
}

func (k *keyRevision) fields(f *codec.Fields) {
	k.oneKey.fields(f)
	need(f, "revision")
	f.Uvarint("revision", &k.revision)
}

func (k *keyRevision) condition() (floe.Condition, error) {
	return kv.RevisionIs(k.key, k.revision), nil
}

type messageHeld struct{ name, receipt string }

func (m *messageHeld) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &m.name)
	need(f, "receipt")
	f.Text("receipt", &m.receipt)
}

func (m *messageHeld) condition() (floe.Condition, error) {
	return queue.Held(m.name, queue.Receipt(m.receipt)), nil
}

type lastIDIs struct {
	name      string
	partition int
	id        string // "": the partition has never had a record
}

func (l *lastIDIs) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &l.name)
	f.Int("partition", &l.partition, codec.Range{Max: partitions.max})
	f.Text("id", &l.id)
}

func (l *lastIDIs) condition() (floe.Condition, error) {
	var id stream.ID
	if l.id != "" {
		var err error
		if id, err = stream.ParseID(l.id); err != nil {
			return nil, err
		}
	}
	return stream.LastIDIs(l.name, l.partition, id), nil
}

type txnPut struct {
	oneKey
	value      []byte
	ttl        time.Duration // 0: none
	absent     bool
	onRevision bool
	revision   uint64
}

func (p *txnPut) fields(f *codec.Fields) {
	p.oneKey.fields(f)
	need(f, "value")
	f.Blob("value", &p.value)
	f.Duration("ttl_ms", &p.ttl, codec.Range{Max: ttlRange.Max})
	f.Bool("nx", &p.absent)
	if p.onRevision = f.Given("if_revision", p.onRevision); p.onRevision {
		f.Uvarint("if_revision", &p.revision)
	}
}

// txnWritten is the result of a write of a key.
type txnWritten struct {
	Version  uint64 `json:"version"`
	Revision uint64 `json:"revision"`
}

func showWritten(w kv.Written) txnWritten { return txnWritten{w.Version, w.Revision} }

func (p *txnPut) change(*txnRequest) (txnDo, error) {
	var opts []kv.PutOption
	if p.ttl > 0 {
		opts = append(opts, kv.TTL(p.ttl))
	}
	if p.absent {
		opts = append(opts, kv.IfAbsent())
	}
	if p.onRevision {
		opts = append(opts, kv.IfRevision(p.revision))
	}
	op := kv.PutOp(p.key, p.value, opts...)
	return didWith(op, op.Result, showWritten)
}

type txnDelete struct {
	oneKey
	onRevision bool
	revision   uint64
}

func (d *txnDelete) fields(f *codec.Fields) {
	d.oneKey.fields(f)
	if d.onRevision = f.Given("if_revision", d.onRevision); d.onRevision {
		f.Uvarint("if_revision", &d.revision)
	}
}

func (d *txnDelete) change(*txnRequest) (txnDo, error) {
	var opts []kv.DeleteOption
	if d.onRevision {
		opts = append(opts, kv.IfRevision(d.revision))
	}
	op := kv.DeleteOp(d.key, opts...)
	return didWith(op, op.Result, showWritten)
}

type txnIncr struct {
	oneKey
	count increment
}

func (i *txnIncr) fields(f *codec.Fields) {
	i.oneKey.fields(f)
	i.count.fields(f)
}

func (i *txnIncr) change(*txnRequest) (txnDo, error) {
	op := kv.IncrOp(i.key, i.count.by, i.count.options()...)
	return didWith(op, op.Result, showCounted)
}

type txnTouch struct {
	oneKey
	ttl time.Duration // 0: none
}

func (t *txnTouch) fields(f *codec.Fields) {
	t.oneKey.fields(f)
	need(f, "ttl_ms")
	f.Duration("ttl_ms", &t.ttl, codec.Range{Max: ttlRange.Max})
}

func (t *txnTouch) change(*txnRequest) (txnDo, error) {
	if t.ttl == 0 {
		return did(kv.PersistOp(t.key))
	}
	return did(kv.TouchOp(t.key, t.ttl))
}

type txnPatch struct {
	oneKey
	edits documentEdits
}

func (p *txnPatch) fields(f *codec.Fields) {
	p.oneKey.fields(f)
	p.edits.fields(f)
}

func (p *txnPatch) change(*txnRequest) (txnDo, error) {
	if err := p.edits.check(); err != nil {
		return txnDo{}, err
	}
	ops := p.edits.ops(p.key)
	last := ops[len(ops)-1]
	do, err := didWith(last, last.Result, showWritten)
	do.ops = nil
	for _, op := range ops {
		do.ops = append(do.ops, op)
	}
	return do, err
}

type txnEnqueue struct {
	name string
	newMessage
}

func (m *txnEnqueue) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &m.name)
	m.newMessage.fields(f)
}

// txnEnqueued is the result of queue.enqueue.
type txnEnqueued struct {
	Seq       uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"`
}

func (m *txnEnqueue) change(q *txnRequest) (txnDo, error) {
	if err := q.encoding.decodeHeaders(m.headers); err != nil {
		return txnDo{}, err
	}
	message := m.message()
	op := queue.EnqueueOp(m.name, message.Payload, message.Options...)
	return didWith(op, op.Result, func(a queue.Enqueued) txnEnqueued { return txnEnqueued{a.Seq, a.Duplicate} })
}

type txnAck struct {
	name     string
	receipts []string
}

func (a *txnAck) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &a.name)
	texts(f, "receipts", &a.receipts, queue.MaxBatch)
}

func (a *txnAck) change(*txnRequest) (txnDo, error) {
	return did(queue.AckOp(a.name, receiptsOf(a.receipts)...))
}

type txnDequeue struct {
	name  string
	max   int
	lease time.Duration
}

func (d *txnDequeue) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &d.name)
	f.Int("max", &d.max, codec.Range{Min: 1, Max: queue.MaxBatch})
	f.Duration("lease_ms", &d.lease, leaseRange)
}

func (d *txnDequeue) change(q *txnRequest) (txnDo, error) {
	op := queue.DequeueOp(d.name, queue.Max(d.max), queue.Lease(d.lease))
	return didWith(op, op.Result, q.encoding.leased)
}

type txnNack struct {
	name     string
	receipts []string
	nacking
}

func (n *txnNack) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &n.name)
	texts(f, "receipts", &n.receipts, queue.MaxBatch)
	n.nacking.fields(f)
}

func (n *txnNack) change(*txnRequest) (txnDo, error) {
	return did(queue.NackOp(n.name, receiptsOf(n.receipts), n.ofQueue()...))
}

type txnExtend struct {
	name, receipt string
	lease         time.Duration
}

func (e *txnExtend) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &e.name)
	need(f, "receipt")
	f.Text("receipt", &e.receipt)
	f.Duration("lease_ms", &e.lease, leaseRange)
}

func (e *txnExtend) change(*txnRequest) (txnDo, error) {
	op := queue.ExtendOp(e.name, queue.Receipt(e.receipt), e.lease)
	return didWith(op, op.Result, func(until time.Time) extendedLease { return extendedLease{until.UnixMilli()} })
}

type txnRelease struct{ txnAck }

func (r *txnRelease) change(*txnRequest) (txnDo, error) {
	op := queue.ReleaseOp(r.name, receiptsOf(r.receipts)...)
	return didWith(op, op.Result, func(n int64) releasedCount { return releasedCount{n} })
}

type txnAppend struct {
	name string
	sentMessage
	producing
}

func (a *txnAppend) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &a.name)
	a.sentMessage.fields(f)
	a.producing.fields(f)
}

// txnAppended is the result of stream.append.
type txnAppended struct {
	ID string `json:"id"`
}

func (a *txnAppend) change(q *txnRequest) (txnDo, error) {
	if err := q.encoding.decodeHeaders(a.headers); err != nil {
		return txnDo{}, err
	}
	op := stream.AppendOp(a.name, stream.Message{Key: string(a.key), Payload: a.payload, Headers: a.headers}, a.producing.options()...)
	return didWith(op, op.Result, func(a stream.Appended) txnAppended { return txnAppended{a.ID.String()} })
}

// deliveredRecords names records that a group has delivered.
type deliveredRecords struct {
	name, group string
	texts       []string
}

func (d *deliveredRecords) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &d.name)
	need(f, "group")
	f.Text("group", &d.group)
	texts(f, "refs", &d.texts, engine.MaxPageItems)
}

func (d *deliveredRecords) refs(q *txnRequest) (refs []stream.Ref, err error) {
	refs = make([]stream.Ref, len(d.texts))
	for i, text := range d.texts {
		if refs[i], err = parseRef(text, refChecksum(q.namespace, d.name, d.group)); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

type txnAckRecords struct{ deliveredRecords }

func (a *txnAckRecords) change(q *txnRequest) (txnDo, error) {
	refs, err := a.refs(q)
	if err != nil {
		return txnDo{}, err
	}
	op := stream.AckOp(a.name, a.group, refs...)
	return didWith(op, op.Result, func(n int) ackedCount { return ackedCount{n} })
}

type txnNackRecords struct {
	deliveredRecords
	nacking
}

func (n *txnNackRecords) fields(f *codec.Fields) {
	n.deliveredRecords.fields(f)
	n.nacking.fields(f)
}

func (n *txnNackRecords) change(q *txnRequest) (txnDo, error) {
	refs, err := n.refs(q)
	if err != nil {
		return txnDo{}, err
	}
	op := stream.NackOp(n.name, n.group, refs, n.ofGroup()...)
	return didWith(op, op.Result, func(n int) nackedCount { return nackedCount{n} })
}

type txnExtendRecords struct {
	deliveredRecords
	lease time.Duration
}

func (e *txnExtendRecords) fields(f *codec.Fields) {
	e.deliveredRecords.fields(f)
	f.Duration("lease_ms", &e.lease, codec.Range{Min: 1, Max: longestGroupTime})
}

func (e *txnExtendRecords) change(q *txnRequest) (txnDo, error) {
	refs, err := e.refs(q)
	if err != nil {
		return txnDo{}, err
	}
	op := stream.ExtendOp(e.name, e.group, refs, e.lease)
	return didWith(op, op.Result, showExtended)
}

type txnSeek struct {
	name, group, to string
	partitioned     bool
	partition       int
}

func (s *txnSeek) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &s.name)
	need(f, "group")
	f.Text("group", &s.group)
	need(f, "to")
	f.Text("to", &s.to, codec.Range{Min: 1, Max: 255})
	if s.partitioned = f.Given("partition", s.partitioned); s.partitioned {
		f.Int("partition", &s.partition, codec.Range{Max: partitions.max})
	}
}

func (s *txnSeek) change(*txnRequest) (txnDo, error) {
	to, err := parseStart("to", s.to)
	if err != nil {
		return txnDo{}, err
	}
	var part []stream.SeekPartOption
	if s.partitioned {
		part = append(part, stream.Partition(s.partition))
	}
	return did(stream.SeekOp(s.name, s.group, to, part...))
}

type txnLeave struct{ name, group, consumer string }

func (l *txnLeave) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &l.name)
	need(f, "group")
	f.Text("group", &l.group)
	need(f, "consumer")
	f.Text("consumer", &l.consumer, codec.Range{Min: 1, Max: 255})
}

func (l *txnLeave) change(*txnRequest) (txnDo, error) {
	return did(stream.LeaveOp(l.name, l.group, l.consumer))
}

// txnWritePoints writes points, all or none.
type txnWritePoints struct{ newPoints }

// txnWrittenPoints is the result of ts.write.
type txnWrittenPoints struct {
	Written int `json:"written"`
}

func (w *txnWritePoints) change(*txnRequest) (txnDo, error) {
	points := w.list()
	do, err := did(ts.WriteOp(points...))
	do.result = func(*floe.TxnResult) (any, error) { return txnWrittenPoints{len(points)}, nil }
	return do, err
}

type txnInvoke struct {
	name                   string
	input                  []byte
	key                    string
	priority               int
	delay, expire, timeout time.Duration
	maxAttempts            int
}

func (i *txnInvoke) fields(f *codec.Fields) {
	attempt := codec.Range{Min: attemptMillis.min, Max: attemptMillis.max, Optional: true}
	need(f, "name")
	f.Text("name", &i.name)
	jsonField(f, "input", &i.input)
	f.Text("idempotency_key", &i.key, codec.Range{Max: action.MaxKeyBytes})
	f.Int("priority", &i.priority, codec.Range{Max: action.MaxPriority})
	f.Duration("delay_ms", &i.delay, codec.Range{Max: delayMillis.max})
	f.Duration("expire_ms", &i.expire, attempt)
	f.Duration("timeout_ms", &i.timeout, attempt)
	f.Int("max_attempts", &i.maxAttempts, codec.Range{Min: 1, Max: action.MaxAttemptsLimit, Optional: true})
}

// txnRun is the result of action.invoke and workflow.start.
type txnRun struct {
	RunID     string `json:"run_id"`
	Duplicate bool   `json:"duplicate"`
}

func (i *txnInvoke) change(*txnRequest) (txnDo, error) {
	opts := []action.InvokeOption{action.Priority(i.priority), action.Delay(i.delay)}
	if i.key != "" {
		opts = append(opts, action.IdempotencyKey(i.key))
	}
	if i.expire > 0 {
		opts = append(opts, action.Expire(i.expire))
	}
	if i.timeout > 0 {
		opts = append(opts, action.Timeout(i.timeout))
	}
	if i.maxAttempts > 0 {
		opts = append(opts, action.MaxAttempts(i.maxAttempts))
	}
	op := action.InvokeOp(i.name, i.input, opts...)
	return didWith(op, op.Result, func(r action.Invoked) txnRun { return txnRun{string(r.Run), r.Duplicate} })
}

// txnAttempt names an attempt of a run that a worker has: without a delivery the current one.
type txnAttempt struct {
	run, worker string
	delivery    int
}

func (a *txnAttempt) fields(f *codec.Fields) {
	need(f, "run_id")
	f.Text("run_id", &a.run)
	need(f, "worker_id")
	f.Text("worker_id", &a.worker)
	f.Int("delivery", &a.delivery)
}

func (a *txnAttempt) task() *action.Task {
	return action.Assigned(action.RunID(a.run), a.worker, a.delivery)
}

type runHeld struct{ txnAttempt }

func (r *runHeld) condition() (floe.Condition, error) { return action.Held(r.task()), nil }

type txnComplete struct {
	txnAttempt
	completion
}

func (c *txnComplete) fields(f *codec.Fields) {
	c.completion.fields(f)
	c.txnAttempt.fields(f)
}

func (c *txnComplete) change(*txnRequest) (txnDo, error) {
	return did(action.CompleteOp(c.task(), c.output, c.completion.options()...))
}

type txnFail struct {
	txnAttempt
	attemptFailure
}

func (t *txnFail) fields(f *codec.Fields) {
	t.attemptFailure.fields(f)
	t.txnAttempt.fields(f)
}

func (t *txnFail) change(*txnRequest) (txnDo, error) {
	return did(action.FailOp(t.task(), t.message, t.attemptFailure.options()...))
}

// txnCancel names a run to cancel.
type txnCancel struct{ run, reason string }

func (c *txnCancel) fields(f *codec.Fields) {
	need(f, "run_id")
	f.Text("run_id", &c.run)
	f.Text("reason", &c.reason)
}

type txnCancelRun struct{ txnCancel }

func (c *txnCancelRun) change(*txnRequest) (txnDo, error) {
	return did(action.CancelOp(action.RunID(c.run), c.reason))
}

type txnCancelFlow struct{ txnCancel }

func (c *txnCancelFlow) change(*txnRequest) (txnDo, error) {
	op := workflow.CancelOp(workflow.RunID(c.run), c.reason)
	return didWith(op, op.Result, showFlowStatus)
}

type txnRetryFlow struct {
	run, step string
	input     []byte
}

func (r *txnRetryFlow) fields(f *codec.Fields) {
	need(f, "run_id")
	f.Text("run_id", &r.run)
	f.Text("from_step", &r.step)
	jsonField(f, "input", &r.input)
}

func (r *txnRetryFlow) change(*txnRequest) (txnDo, error) {
	var opts []workflow.RetryOption
	if r.step != "" {
		opts = append(opts, workflow.FromStep(r.step))
	}
	if r.input != nil {
		opts = append(opts, workflow.ReplaceInput(r.input))
	}
	op := workflow.RetryOp(workflow.RunID(r.run), opts...)
	return didWith(op, op.Result, showFlowStatus)
}

type txnStart struct {
	name    string
	input   []byte
	key     string
	run     string
	version string
}

func (s *txnStart) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &s.name)
	jsonField(f, "input", &s.input)
	f.Text("idempotency_key", &s.key, codec.Range{Max: workflow.MaxIdempotencyKey})
	f.Text("run_id", &s.run)
	f.Text("version", &s.version)
}

func (s *txnStart) change(*txnRequest) (txnDo, error) {
	var opts []workflow.StartOption
	if s.key != "" {
		opts = append(opts, workflow.IdempotencyKey(s.key))
	}
	if s.run != "" {
		opts = append(opts, workflow.UseID(workflow.RunID(s.run)))
	}
	if s.version != "" {
		opts = append(opts, workflow.Version(s.version))
	}
	op := workflow.StartOp(s.name, s.input, opts...)
	return didWith(op, op.Result, func(r workflow.Started) txnRun { return txnRun{string(r.Run), r.Duplicate} })
}

type txnSignal struct {
	run, signal string
	payload     []byte
}

func (s *txnSignal) fields(f *codec.Fields) {
	f.Text("run_id", &s.run)
	need(f, "type")
	f.Text("type", &s.signal, codec.Range{Max: workflow.MaxSignalType})
	jsonField(f, "payload", &s.payload)
}

// txnFlowStatus is the result of a change of a workflow run.
type txnFlowStatus struct {
	Status string `json:"status"`
}

func showFlowStatus(status workflow.Status) txnFlowStatus { return txnFlowStatus{status.String()} }

func (s *txnSignal) change(*txnRequest) (txnDo, error) {
	op := workflow.SignalOp(workflow.RunID(s.run), s.signal, s.payload)
	return didWith(op, op.Result, showFlowStatus)
}
