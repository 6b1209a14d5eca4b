package engine

import (
	"context"

	"github.com/floedb/floe/internal/codec"
)

// Limits of a transaction.
const (
	MaxTxnOps   = 1000    // conditions and operations together
	MaxTxnBytes = 4 << 20 // encoded
)

// Txn collects the parts of a transaction over the primitives of one namespace.
//
//	res, err := node.Txn("shop").
//		If(kv.RevisionIs("order:42", rev)).
//		Do(kv.PutOp("order:42", v), kv.IncrOp("orders", 1)).
//		Commit(ctx)
//
// All conditions hold and all operations succeed, in order and in one log entry, or the transaction
// has no effect. In a spread namespace all parts must be in one shard, that is, their names must
// have a common {tag}.
type Txn struct {
	router     *Router
	namespace  string
	maxPayload int
	conditions []*Op
	ops        []*Op
}

// NewTxn starts a transaction in a namespace whose values and payloads are at most maxPayload
// bytes; hosts call floe.Node.Txn instead.
func NewTxn(router *Router, namespace string, maxPayload int) *Txn {
	return &Txn{router: router, namespace: namespace, maxPayload: maxPayload}
}

// If adds conditions, which are checked before the first operation.
func (t *Txn) If(conditions ...Condition) *Txn {
	for _, c := range conditions {
		t.conditions = append(t.conditions, conditionOf(c))
	}
	return t
}

// Do adds operations. Each sees the effects of the previous ones.
func (t *Txn) Do(ops ...Operation) *Txn {
	for _, op := range ops {
		t.ops = append(t.ops, operationOf(op))
	}
	return t
}

// TxnResult holds the results of a transaction's operations.
type TxnResult struct {
	Values []any // one per operation of Do, in order; nil if it returns nothing

	ops []*Op
}

// Commit executes the transaction. When it returns nil, all of it is committed (see
// floe.Config.Durability) and visible. After a ctx error or ErrUnknownOutcome it may or may not
// have happened, as a whole.
//
// Errors: *TxnError naming the condition or operation that was refused, which unwraps to its reason
// (ErrConflict, ErrNotFound, ...); ErrInvalid if it is empty, exceeds 1,000 parts or 4 MiB, or has
// names in several shards.
func (t *Txn) Commit(ctx context.Context) (*TxnResult, error) {
	res, err := t.commit(ctx)
	if err != nil {
		return nil, err
	}
	return &res, nil
}

func (t *Txn) commit(ctx context.Context) (none TxnResult, err error) {
	cmd, err := t.command()
	if err != nil {
		return none, err
	}
	result, err := t.router.propose(ctx, cmd, t.route)
	if err != nil {
		return none, err
	}
	return t.decode(result)
}

func (t *Txn) command() (Command, error) {
	none := Command{}
	if err := CheckWritable(t.namespace); err != nil {
		return none, err
	}
	if n := len(t.conditions) + len(t.ops); n > MaxTxnOps {
		return none, Errorf(ErrInvalid, "transaction: %d conditions and operations exceed %d", n, MaxTxnOps)
	}
	if len(t.ops) == 0 && len(t.conditions) == 0 {
		return none, Errorf(ErrInvalid, "transaction: nothing to do")
	}
	body := codec.AppendUvarint(nil, uint64(len(t.conditions)))
	body = codec.AppendUvarint(body, uint64(len(t.ops)))
	var err error
	if body, err = t.appendParts(body, t.conditions, true); err != nil {
		return none, err
	}
	if body, err = t.appendParts(body, t.ops, false); err != nil {
		return none, err
	}
	return Command{Machine: machineEngine, Kind: kindTxn, Namespace: t.namespace, Body: body}, nil
}

func (t *Txn) appendParts(body []byte, ops []*Op, conditions bool) ([]byte, error) {
	var part []byte
	for i, op := range ops {
		cmd, err := op.Limit(t.maxPayload)
		if err != nil {
			return nil, &TxnError{Index: i, Condition: conditions, Err: err}
		}
		cmd.Namespace = "" // the transaction's own
		part = cmd.AppendTo(part[:0])
		body = codec.AppendBytes(body, part)
		if len(body) > MaxTxnBytes {
			return nil, Errorf(ErrInvalid, "transaction: more than %d bytes", MaxTxnBytes)
		}
	}
	return body, nil
}

// route returns a name that routes to the shard of all parts.
func (t *Txn) route(spread bool) (string, error) {
	if !spread {
		return "", nil
	}
	shards := t.router.Door().Shards()
	first := ""
	for _, p := range append(t.conditions[:len(t.conditions):len(t.conditions)], t.ops...) {
		name := p.route(t.namespace, shards)
		if first == "" {
			first = name
		}
		if name != "" && NameShard(t.namespace, name, shards) != NameShard(t.namespace, first, shards) {
			return "", Errorf(ErrInvalid, "transaction: %q and %q live in different shards of the spread namespace %q: "+
				"give the names a common {tag}", first, name, t.namespace)
		}
	}
	return first, nil
}

func (t *Txn) decode(result []byte) (TxnResult, error) {
	r := codec.NewReader(result)
	res := TxnResult{Values: make([]any, len(t.ops)), ops: t.ops}
	for i, op := range t.ops {
		part := r.Bytes()
		if r.Err() != nil || op.Decode == nil {
			continue
		}
		var err error
		if res.Values[i], err = op.Decode(part); err != nil {
			return TxnResult{}, err
		}
	}
	return res, r.Done()
}

// CheckWritable returns ErrInvalid for invalid namespace names and for system namespaces.
func CheckWritable(namespace string) error {
	if err := CheckName("namespace", namespace); err != nil {
		return err
	}
	if IsSystem(namespace) {
		return Errorf(ErrInvalid, "namespace %q is a system namespace and cannot be written", namespace)
	}
	return nil
}
