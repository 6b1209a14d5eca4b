package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/spelling"
)

var txnRoutes = []route{
	endpoint("POST /api/v1/txn", (*handler).txn,
		"Commit a transaction over keys, queues, streams, time series, actions and workflows: if all conditions hold, do all operations, or nothing."),
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
	change(q *txnRequest) (txnDo, error)
}

// txnDo is what a part of do adds to the transaction: operations, and a function that returns what
// the response shows of them once the transaction is committed; nil means an empty object.
type txnDo struct {
	ops    []floe.Op
	result func(res *floe.TxnResult) (any, error)
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
				f.Refuse(unknownOp(p.op, slices.Sorted(maps.Keys(kinds))))
				return
			}
			p.txnOperation = kind()
		}
		if p.txnOperation != nil {
			p.fields(f)
		}
	}
}

// unknownOp names those that the unknown op may mean: the nearest one, else all.
func unknownOp(op string, known []string) error {
	if near := spelling.Nearest(op, known); near != "" {
		return engine.Errorf(engine.ErrInvalid, "op is %.64q, which is unknown (did you mean %q?)", op, near)
	}
	return engine.Errorf(engine.ErrInvalid, "op is %.64q, it takes %s", op, strings.Join(known, ", "))
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
	parts := make([]txnDo, len(q.dos))
	for i, p := range q.dos {
		var err error
		if parts[i], err = p.txnOperation.(txnChange).change(q); err != nil {
			return txnDone{}, engine.Errorf(engine.ErrInvalid, "body: do[%d]: %v", i, err)
		}
		txn.Do(parts[i].ops...)
	}
	res, err := txn.Commit(ctx)
	if err != nil {
		return txnDone{}, inPart(err, parts)
	}
	done := txnDone{true, make([]any, len(parts))}
	for i, part := range parts {
		if done.Results[i] = struct{}{}; part.result == nil {
			continue
		}
		if done.Results[i], err = part.result(res); err != nil {
			return txnDone{}, err
		}
	}
	return done, nil
}

// inPart makes the error of an operation name the part that it belongs to.
func inPart(err error, parts []txnDo) error {
	refused := (*floe.TxnError)(nil)
	if !errors.As(err, &refused) || refused.Condition {
		return err
	}
	named, before := *refused, 0
	for i := range parts {
		if before += len(parts[i].ops); refused.Index < before {
			named.Index = i
			break
		}
	}
	return &named
}

// did returns the operations of a part without a result.
func did(ops ...floe.Op) (txnDo, error) { return txnDo{ops: ops}, nil }

// didWith returns an operation with a function that reads and shows its result. Res is the type of
// results of transactions in the package of the operation, which *floe.TxnResult implements.
func didWith[Res, T, R any](op floe.Op, read func(Res) (T, error), show func(T) R) (txnDo, error) {
	return txnDo{[]floe.Op{op}, func(res *floe.TxnResult) (any, error) {
		v, err := read(any(res).(Res))
		if err != nil {
			return nil, err
		}
		return show(v), nil
	}}, nil
}
