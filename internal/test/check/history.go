package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// MaxOperations is the maximum number of operations per key in a History. Beyond it the search for
// an order may not end.
const MaxOperations = 500

// checkTime bounds the search of Check over all keys. If the search does not finish in time, Check
// fails.
const checkTime = 60 * time.Second

// Kind is the kind of an operation.
type Kind uint8

// The operations of a History. CAS is a Put on condition that the key's revision is Op.Revision or,
// if that is 0, that the key does not exist.
const (
	Get Kind = iota
	Put
	Delete
	Incr
	CAS
)

func (k Kind) String() string { return [...]string{"get", "put", "delete", "incr", "cas"}[k] }

// Op is an operation as a client requests it.
type Op struct {
	Client   int // from 0; a client does one operation at a time
	Kind     Kind
	Key      string
	Value    string // for Put and CAS: unique per key, even when an attempt is repeated
	Revision uint64 // the condition of CAS
	Delta    int64  // for Incr
}

// Result is the answer to a client.
type Result struct {
	Found    bool   // for Get
	Value    string // for Get
	Revision uint64 // of the value read, or of the write; 0 if unknown to the client
	Number   int64  // for Incr
}

// History records the operations of clients on keys and their answers. Check verifies that some
// sequential order of the operations, each between its call and its return, explains all answers
// (Herlihy and Wing, Linearizability, 1990).
//
//	p := h.Invoke(now(), check.Op{Kind: check.Put, Key: "k", Value: "v1"})
//	w, err := store.Put(ctx, "k", []byte("v1"))
//	p.Done(now(), check.Result{Revision: w.Revision}) // or p.Refused(now(), err), or p.Unknown(now())
//
// A crash needs no operation of its own: append a read of every key when the node is back. Times
// only order operations, so any unit will do. Events at equal times happened in the order in which
// they were recorded. It is safe for concurrent use.
type History struct {
	// Dir is where Check writes an HTML picture of a refused history; "" means nowhere.
	Dir string

	mu     sync.Mutex // guards what follows and all Pendings
	events int64
	keys   map[string][]*Pending
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{keys: make(map[string][]*Pending)} }

// moment is the time of a recorded event.
type moment struct{ time, event int64 }

func (m moment) compare(o moment) int {
	return cmp.Or(cmp.Compare(m.time, o.time), cmp.Compare(m.event, o.event))
}

// never is the return time of operations with unknown outcome: they may take effect until then.
var never = moment{math.MaxInt64, math.MaxInt64}

// Pending is an operation that has been called. One that never ends counts as Unknown.
type Pending struct {
	history          *History
	op               Op
	called, returned moment
	outcome          outcome
	result           Result
	err              error
}

type outcome uint8

const (
	unknown outcome = iota
	done
	refused
)

// Invoke records a call. It must come before the node can have seen the operation.
func (h *History) Invoke(now int64, op Op) *Pending {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &Pending{history: h, op: op, called: h.momentLocked(now), returned: never}
	h.keys[op.Key] = append(h.keys[op.Key], p)
	return p
}

func (h *History) momentLocked(now int64) moment {
	h.events++
	return moment{now, h.events}
}

// Done records that the operation was carried out. That includes a Get that finds nothing.
func (p *Pending) Done(now int64, r Result) { p.end(now, done, r, nil) }

// Refused records a definite error: the operation never took effect. What the error implies about
// the key (kv.ErrConflict, kv.ErrNotFound) must be true as well.
func (p *Pending) Refused(now int64, err error) { p.end(now, refused, Result{}, err) }

// Unknown records an unknown outcome: the operation may take effect at any time after its call, or
// never.
func (p *Pending) Unknown(now int64) { p.end(now, unknown, Result{}, nil) }

func (p *Pending) end(now int64, o outcome, r Result, err error) {
	p.history.mu.Lock()
	defer p.history.mu.Unlock()
	p.outcome, p.result, p.err = o, r, err
	if o != unknown {
		p.returned = p.history.momentLocked(now)
	}
}

// Operations returns the number of recorded operations.
func (h *History) Operations() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ops := range h.keys {
		n += len(ops)
	}
	return n
}

// Check returns nil if the history is possible, key by key. Otherwise its error names the key, and
// the first answer that contradicts everything before it.
func (h *History) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	deadline := time.Now().Add(checkTime)
	for _, key := range slices.Sorted(maps.Keys(h.keys)) {
		if err := h.checkKey(key, deadline); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	return nil
}

func (h *History) checkKey(key string, deadline time.Time) error {
	ops := h.keys[key]
	if len(ops) > MaxOperations {
		return fmt.Errorf("%d operations, which is too much for one key: the suite has to go on with another one after %d", len(ops),
			MaxOperations)
	}
	if err := checkValues(ops); err != nil {
		return err
	}
	return h.linearize(key, ops, deadline)
}

// checkValues returns an error if a value was read that was never written, or whose write was
// refused.
func checkValues(ops []*Pending) error {
	written, sums := make(map[string]*Pending), false
	for _, p := range ops {
		sums = sums || p.op.Kind == Incr
		if p.op.Kind != Put && p.op.Kind != CAS {
			continue
		}
		if written[p.op.Value] != nil {
			return fmt.Errorf("the suite wrote the value %q twice: nobody could tell which one was read", p.op.Value)
		}
		written[p.op.Value] = p
	}
	for _, p := range ops {
		if p.op.Kind != Get || p.outcome != done || !p.result.Found {
			continue
		}
		switch w := written[p.result.Value]; {
		case w == nil && !sums:
			return fmt.Errorf("%v: nobody wrote that value", p)
		case w != nil && w.outcome == refused:
			return fmt.Errorf("%v: but its write was refused: %v", p, w)
		}
	}
	return nil
}

// String describes the operation and its outcome.
func (p *Pending) String() string {
	s := fmt.Sprintf("client %d at %d: %v", p.op.Client, p.called.time, p.op)
	if p.returned == never {
		return s + " -> unknown"
	}
	return fmt.Sprintf("%s -> %s at %d", s, p.answer(), p.returned.time)
}

func (o Op) String() string {
	switch o.Kind {
	case Put:
		return fmt.Sprintf("put %q", o.Value)
	case CAS:
		return fmt.Sprintf("cas %q if at %d", o.Value, o.Revision)
	case Incr:
		return fmt.Sprintf("incr %d", o.Delta)
	}
	return o.Kind.String()
}

func (p *Pending) answer() string {
	r := p.result
	switch {
	case p.outcome == unknown:
		return "unknown"
	case p.outcome == refused:
		return fmt.Sprintf("refused: %v", p.err)
	case p.op.Kind == Get && !r.Found:
		return "not found"
	case p.op.Kind == Get:
		return fmt.Sprintf("%q of revision %d", r.Value, r.Revision)
	case p.op.Kind == Incr:
		return fmt.Sprintf("%d", r.Number)
	}
	return fmt.Sprintf("revision %d", r.Revision)
}

// observation returns what a refusal reveals about the key, if anything.
func (p *Pending) observation() (known bool, c conflict) {
	var detail *kv.ConflictError
	var bound *kv.BoundError
	switch {
	case errors.As(p.err, &bound): // a conflict with the bounds of a counter, perhaps of another key
	case errors.As(p.err, &detail):
		return true, conflict{told: true, revision: detail.Revision}
	case errors.Is(p.err, engine.ErrConflict):
		return true, conflict{}
	case errors.Is(p.err, engine.ErrNotFound):
		return true, conflict{told: true}
	}
	return false, conflict{}
}
