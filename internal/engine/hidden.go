package engine

import (
	"context"
	"reflect"
	"slices"
)

// The public types of a primitive's package have no exported fields or methods of the engine. They
// embed one of the types below through an unexported alias. Only its unexported methods are
// promoted, and only the engine can call them.
//
//	type hiddenOp = engine.HiddenOp
//
//	// Op is an operation of a transaction, see floe.Txn.
//	type Op struct{ hiddenOp }

// Operation is an operation of a transaction: an Op, or one hidden in the type of a primitive.
type Operation interface{ operation() *Op }

// Condition is a condition of a transaction: an operation that changes nothing and is refused if
// the condition does not hold.
type Condition interface{ condition() *Op }

// Result is the result of a transaction: a *TxnResult, or a pointer to a struct that embeds a
// HiddenResult.
type Result interface{ result() *TxnResult }

func (op Op) operation() *Op { return &op }
func (op Op) condition() *Op { return &op }

func (r *TxnResult) result() *TxnResult { return r }

// HiddenOp is an Op in a type for users. The zero value is refused.
type HiddenOp struct{ op *Op }

// Hide wraps op for a user.
func Hide(op Op) HiddenOp { return HiddenOp{&op} }

func (h HiddenOp) operation() *Op { return seen(h.op, "operation") }

// HiddenCondition is a condition in a type for users. The zero value is refused.
type HiddenCondition struct{ op *Op }

// HideCondition wraps op, which changes nothing, for a user.
func HideCondition(op Op) HiddenCondition { return HiddenCondition{&op} }

func (h HiddenCondition) condition() *Op { return seen(h.op, "condition") }

// HiddenResult is embedded in the public type of a transaction's result.
type HiddenResult struct{ res TxnResult }

// CommitHidden commits t and returns a result for a user.
func CommitHidden(ctx context.Context, t *Txn) (HiddenResult, error) {
	res, err := t.commit(ctx)
	return HiddenResult{res}, err
}

func (h *HiddenResult) result() *TxnResult { return &h.res }

// ResultOf returns the result of an operation in a transaction. Operations are distinguished by
// identity: all copies of a HiddenOp are one operation.
//
// Errors: ErrInvalid if there is no result, or if the transaction does not have the operation
// exactly once.
func ResultOf[T any](h HiddenOp, r Result) (none T, err error) {
	if h.op == nil {
		return none, seen(nil, "operation").Err
	}
	if v := reflect.ValueOf(r); r == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return none, Errorf(ErrInvalid, "transaction: no result: it was not committed")
	}
	res := r.result()
	i := slices.Index(res.ops, h.op)
	if i < 0 {
		return none, Errorf(ErrInvalid, "transaction: the operation is not part of it")
	}
	if more := slices.Index(res.ops[i+1:], h.op); more >= 0 {
		return none, Errorf(ErrInvalid, "transaction: operations %d and %d are the same value: make an operation for each result", i,
			i+1+more)
	}
	v, ok := res.Values[i].(T)
	if !ok {
		return none, Errorf(ErrInvalid, "transaction: operation %d returned a %T, not a %v", i, res.Values[i], reflect.TypeFor[T]())
	}
	return v, nil
}

func seen(op *Op, what string) *Op {
	if op == nil {
		return &Op{Err: Errorf(ErrInvalid, "%s was not made by a function of floe", what)}
	}
	return op
}

// OpOf returns the Op in an operation. For an invalid one the Op has an Err.
func OpOf(o Operation) Op { return *operationOf(o) }

func operationOf(o Operation) *Op {
	if o == nil {
		return seen(nil, "operation")
	}
	return o.operation()
}

// OpOfCondition returns the Op in a condition. For an invalid one the Op has an Err.
func OpOfCondition(c Condition) Op { return *conditionOf(c) }

func conditionOf(c Condition) *Op {
	if c == nil {
		return seen(nil, "condition")
	}
	return c.condition()
}

// wiring is how a primitive with stores S is built into nodes and clients.
type wiring[S any] struct {
	table   func() Primitive
	store   func(Scope) *S
	machine MachineID
}

// wirings has a *wiring for the store type of each primitive. It is read-only once all packages are
// initialized.
var wirings = make(map[reflect.Type]any)

// Provide gives the engine the table of a primitive and the constructor of its stores S. A
// primitive calls it when its package is initialized, as in
//
//	var _ = engine.Provide(table, newStore)
//
// because Go has no friend packages. Otherwise the public package of a primitive would export
// functions that only package floe needs. No behaviour depends on which packages are linked:
// package primitive names each store type.
func Provide[S any](table func() Primitive, store func(Scope) *S) struct{} {
	wirings[reflect.TypeFor[S]()] = &wiring[S]{table, store, table().ID}
	return struct{}{}
}

func wiringOf[S any]() *wiring[S] { return wirings[reflect.TypeFor[S]()].(*wiring[S]) }

// TableOf returns the table of the primitive with stores S.
func TableOf[S any]() Primitive { return wiringOf[S]().table() }

// DefaultMaxPayload is the default maximum size of a value or payload in bytes.
const DefaultMaxPayload = 1 << 20

// StoreOf returns the store of a namespace behind a router. maxPayload of 0 means
// DefaultMaxPayload.
func StoreOf[S any](r *Router, namespace string, maxPayload int) *S {
	if maxPayload == 0 {
		maxPayload = DefaultMaxPayload
	}
	w := wiringOf[S]()
	return handle(r, w.machine, namespace, maxPayload, w.store)
}
