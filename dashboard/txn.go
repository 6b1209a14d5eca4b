package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

var txnRoutes = []route{
	endpoint("POST /api/v1/txn", (*handler).txn,
		"Commit a transaction over keys, queues, streams, actions and workflows: if all conditions hold, do all operations, or nothing."),
}

// maxParts is the maximum number of conditions, and of operations, of a transaction; together they
// are limited by the engine.
const maxParts = 1000

// txnRequest is a transaction. Its conditions and operations are objects with the member op, which
// names one of txnConditions or txnOperations, and the members of that one.
type txnRequest struct {
	namespace string
	encoding  encoding
	ifs       []txnPart
	dos       []txnPart
}

// txnPart is a condition or an operation.
type txnPart struct {
	op string
	txnOperation
}

// txnOperation is the rest of a part.
type txnOperation interface {
	fields(f *codec.Fields)
}

// txnCondition is a part of if.
type txnCondition interface {
	condition() (floe.Condition, error)
}

// txnChange is a part of do.
type txnChange interface {
	change(q *txnRequest) (floe.Op, txnResult, error)
}

// txnResult returns what the response shows of an operation, once the transaction is committed.
type txnResult func(res *floe.TxnResult) (any, error)

var txnConditions = map[string]func() txnOperation{
	"kv.absent":         func() txnOperation { return &keyAbsent{} },
	"kv.present":        func() txnOperation { return &keyPresent{} },
	"kv.revision_is":    func() txnOperation { return &keyRevision{} },
	"queue.held":        func() txnOperation { return &messageHeld{} },
	"stream.last_id_is": func() txnOperation { return &lastIDIs{} },
}

var txnOperations = map[string]func() txnOperation{
	"kv.put":          func() txnOperation { return &txnPut{} },
	"kv.delete":       func() txnOperation { return &txnDelete{} },
	"kv.incr":         func() txnOperation { return &txnIncr{by: 1} },
	"queue.enqueue":   func() txnOperation { return &txnEnqueue{} },
	"queue.ack":       func() txnOperation { return &txnAck{} },
	"stream.append":   func() txnOperation { return &txnAppend{} },
	"stream.ack":      func() txnOperation { return &txnAckRecords{} },
	"action.invoke":   func() txnOperation { return &txnInvoke{} },
	"workflow.start":  func() txnOperation { return &txnStart{} },
	"workflow.signal": func() txnOperation { return &txnSignal{} },
}

func (q *txnRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.encoding = in.encoding()
	readFields(in, q, (*txnRequest).fields)
}

func (q *txnRequest) fields(f *codec.Fields) {
	codec.ListOf(f, "if", &q.ifs, partFields(txnConditions), codec.Range{Max: maxParts})
	need(f, "do")
	codec.ListOf(f, "do", &q.dos, partFields(txnOperations), codec.Range{Min: 1, Max: maxParts})
}

// partFields returns the function that codes a part, which is one of the kinds.
func partFields(kinds map[string]func() txnOperation) func(*txnPart, *codec.Fields) {
	return func(p *txnPart, f *codec.Fields) {
		need(f, "op")
		f.Text("op", &p.op)
		if f.Parsing() {
			kind := kinds[p.op]
			if kind == nil {
				f.Refuse(engine.Errorf(engine.ErrInvalid, "op is %.64q, it takes %s", p.op,
					strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")))
				return
			}
			p.txnOperation = kind()
		}
		if p.txnOperation != nil {
			p.fields(f)
		}
	}
}

// txnDone is the response to a transaction: an object for each operation, in their order.
type txnDone struct {
	OK      bool  `json:"ok"`
	Results []any `json:"results"`
}

// txnRefused is the error for a part that was refused.
type txnRefused struct{ *floe.TxnError }

func (e *txnRefused) Unwrap() error { return e.TxnError }

func (e *txnRefused) body() any {
	part := "do"
	if e.Condition {
		part = "if"
	}
	return txnRefusedBody{e.Error(), part, e.Index}
}

type txnRefusedBody struct {
	Error string `json:"error"`
	Part  string `json:"part"` // if or do
	Index int    `json:"index"`
}

func (h *handler) txn(ctx context.Context, q txnRequest) (txnDone, error) {
	done, err := q.commit(ctx, h.backend)
	if refused := (*floe.TxnError)(nil); errors.As(err, &refused) {
		err = &txnRefused{refused}
	}
	return done, err
}

// Transaction is a transaction in the JSON form of POST /api/v1/txn.
type Transaction struct {
	Namespace string
	JSON      []byte // an object with the members if and do
	Base64    bool   // values, payloads and headers are base64; otherwise they are text
}

// Commit commits the transaction in db, and returns the body of the response of POST /api/v1/txn.
//
// Errors: ErrInvalid for malformed JSON; otherwise those of floe.Txn.Commit.
func (t Transaction) Commit(ctx context.Context, db floe.DB) (response []byte, err error) {
	q := txnRequest{namespace: t.Namespace, encoding: utf8Text}
	if t.Base64 {
		q.encoding = base64Text
	}
	if err := readObject(t.JSON, q.encoding, q.fields); err != nil {
		return nil, err
	}
	if err := refused(codec.CheckFields(&q, false, (*txnRequest).fields)); err != nil {
		return nil, err
	}
	done, err := q.commit(ctx, db)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(done)
	return b.Bytes(), err
}

func (q *txnRequest) commit(ctx context.Context, db floe.DB) (txnDone, error) {
	txn := db.Txn(q.namespace)
	for i, p := range q.ifs {
		c, err := p.txnOperation.(txnCondition).condition()
		if err != nil {
			return txnDone{}, engine.Errorf(engine.ErrInvalid, "body: if[%d]: %v", i, err)
		}
		txn.If(c)
	}
	results := make([]txnResult, len(q.dos))
	for i, p := range q.dos {
		op, result, err := p.txnOperation.(txnChange).change(q)
		if err != nil {
			return txnDone{}, engine.Errorf(engine.ErrInvalid, "body: do[%d]: %v", i, err)
		}
		txn.Do(op)
		results[i] = result
	}
	res, err := txn.Commit(ctx)
	if err != nil {
		return txnDone{}, err
	}
	done := txnDone{true, make([]any, len(results))}
	for i, result := range results {
		if done.Results[i], err = result(res); err != nil {
			return txnDone{}, err
		}
	}
	return done, nil
}

// noResult is the result of an operation without one.
func noResult(*floe.TxnResult) (any, error) { return struct{}{}, nil }

// resultOf returns a function that reads the result of an operation and shows it. Res is the type
// of results of transactions in the package of the operation, which *floe.TxnResult implements.
func resultOf[Res, T, R any](read func(Res) (T, error), show func(T) R) txnResult {
	return func(res *floe.TxnResult) (any, error) {
		v, err := read(any(res).(Res))
		if err != nil {
			return nil, err
		}
		return show(v), nil
	}
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

func (p *txnPut) change(*txnRequest) (floe.Op, txnResult, error) {
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
	return op, resultOf(op.Result, showWritten), nil
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

func (d *txnDelete) change(*txnRequest) (floe.Op, txnResult, error) {
	var opts []kv.DeleteOption
	if d.onRevision {
		opts = append(opts, kv.IfRevision(d.revision))
	}
	op := kv.DeleteOp(d.key, opts...)
	return op, resultOf(op.Result, showWritten), nil
}

type txnIncr struct {
	oneKey
	by int64
}

func (i *txnIncr) fields(f *codec.Fields) {
	i.oneKey.fields(f)
	f.Varint("by", &i.by)
}

func (i *txnIncr) change(*txnRequest) (floe.Op, txnResult, error) {
	op := kv.IncrOp(i.key, i.by)
	return op, resultOf(op.Result, showCounted), nil
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

func (m *txnEnqueue) change(q *txnRequest) (floe.Op, txnResult, error) {
	if err := q.encoding.decodeHeaders(m.headers); err != nil {
		return nil, nil, err
	}
	message := m.message()
	op := queue.EnqueueOp(m.name, message.Payload, message.Options...)
	return op, resultOf(op.Result, func(a queue.Enqueued) txnEnqueued { return txnEnqueued{a.Seq, a.Duplicate} }), nil
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

func (a *txnAck) change(*txnRequest) (floe.Op, txnResult, error) {
	return queue.AckOp(a.name, receiptsOf(a.receipts)...), noResult, nil
}

type txnAppend struct {
	name string
	sentMessage
}

func (a *txnAppend) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &a.name)
	a.sentMessage.fields(f)
}

// txnAppended is the result of stream.append.
type txnAppended struct {
	ID string `json:"id"`
}

func (a *txnAppend) change(q *txnRequest) (floe.Op, txnResult, error) {
	if err := q.encoding.decodeHeaders(a.headers); err != nil {
		return nil, nil, err
	}
	op := stream.AppendOp(a.name, stream.Message{Key: string(a.key), Payload: a.payload, Headers: a.headers})
	return op, resultOf(op.Result, func(a stream.Appended) txnAppended { return txnAppended{a.ID.String()} }), nil
}

type txnAckRecords struct {
	name, group string
	refs        []string
}

func (a *txnAckRecords) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &a.name)
	need(f, "group")
	f.Text("group", &a.group)
	texts(f, "refs", &a.refs, engine.MaxPageItems)
}

func (a *txnAckRecords) change(q *txnRequest) (floe.Op, txnResult, error) {
	refs := make([]stream.Ref, len(a.refs))
	for i, text := range a.refs {
		var err error
		if refs[i], err = parseRef(text, refChecksum(q.namespace, a.name, a.group)); err != nil {
			return nil, nil, err
		}
	}
	op := stream.AckOp(a.name, a.group, refs...)
	return op, resultOf(op.Result, func(n int) ackedCount { return ackedCount{n} }), nil
}

type txnInvoke struct {
	name  string
	input []byte
	key   string
}

func (i *txnInvoke) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &i.name)
	jsonField(f, "input", &i.input)
	f.Text("idempotency_key", &i.key)
}

// txnRun is the result of action.invoke and workflow.start.
type txnRun struct {
	RunID     string `json:"run_id"`
	Duplicate bool   `json:"duplicate"`
}

func (i *txnInvoke) change(*txnRequest) (floe.Op, txnResult, error) {
	var opts []action.InvokeOption
	if i.key != "" {
		opts = append(opts, action.IdempotencyKey(i.key))
	}
	op := action.InvokeOp(i.name, i.input, opts...)
	return op, resultOf(op.Result, func(r action.Invoked) txnRun { return txnRun{string(r.Run), r.Duplicate} }), nil
}

type txnStart struct {
	name  string
	input []byte
	key   string
	run   string
}

func (s *txnStart) fields(f *codec.Fields) {
	need(f, "name")
	f.Text("name", &s.name)
	jsonField(f, "input", &s.input)
	f.Text("idempotency_key", &s.key)
	f.Text("run_id", &s.run)
}

func (s *txnStart) change(*txnRequest) (floe.Op, txnResult, error) {
	var opts []workflow.StartOption
	if s.key != "" {
		opts = append(opts, workflow.IdempotencyKey(s.key))
	}
	if s.run != "" {
		opts = append(opts, workflow.UseID(workflow.RunID(s.run)))
	}
	op := workflow.StartOp(s.name, s.input, opts...)
	return op, resultOf(op.Result, func(r workflow.Started) txnRun { return txnRun{string(r.Run), r.Duplicate} }), nil
}

type txnSignal struct {
	run, signal string
	payload     []byte
}

func (s *txnSignal) fields(f *codec.Fields) {
	f.Text("run_id", &s.run)
	need(f, "type")
	f.Text("type", &s.signal)
	jsonField(f, "payload", &s.payload)
}

// txnSignaled is the result of workflow.signal.
type txnSignaled struct {
	Status string `json:"status"`
}

func (s *txnSignal) change(*txnRequest) (floe.Op, txnResult, error) {
	op := workflow.SignalOp(workflow.RunID(s.run), s.signal, s.payload)
	return op, resultOf(op.Result, func(status workflow.Status) txnSignaled { return txnSignaled{fmt.Sprint(status)} }), nil
}
