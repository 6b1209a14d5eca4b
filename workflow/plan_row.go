package workflow

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
)

// planRow is the value of a row 'p': what all versions of a workflow and all their runs in the
// shard know of a plan.
type planRow struct {
	epochs      uint64 // of breakers, see known.enter
	turn        uint64 // of round-robin
	generation  uint64 // of what is cached: what a call of an older one comes to is not
	cached      int64  // outputs that are
	cachedBytes int64
	oldest      int64 // no cached output expires before
	timer       int64 // when what has expired is removed; it may be early
	executors   []*executorRow
}

// executorRow is what is known of an executor. What an executor does not need is zero.
type executorRow struct {
	name string

	// Its breaker.
	state    breakerState
	epoch    uint64
	failures int64 // in a row
	probes   int64 // that are under way, as far as is known
	until    int64 // the breaker is open; half open, the probes are waited for

	rates [3]int64 // see leave: of a second, a minute and an hour

	// Its health.
	since     int64 // when the window began
	good, bad int64
}

// maxKnown bounds the executors that something is known of: those of older versions are forgotten.
const maxKnown = 2 * flow.MaxExecutors

func (p *planRow) code(c *codec.Coder) {
	version(c, "plan")
	for _, v := range [...]*uint64{&p.epochs, &p.turn, &p.generation} {
		c.Uvarint(v)
	}
	c.Varint(&p.cached)
	c.Varint(&p.cachedBytes)
	c.Deadline(&p.oldest)
	c.Deadline(&p.timer)
	codec.List(c, &p.executors, func(c *codec.Coder, x **executorRow) {
		if *x == nil {
			*x = new(executorRow)
		}
		(*x).code(c)
	})
}

func (x *executorRow) code(c *codec.Coder) {
	c.String(&x.name)
	c.Byte((*byte)(&x.state))
	c.Uvarint(&x.epoch)
	for _, v := range [...]*int64{&x.failures, &x.probes, &x.until, &x.rates[0], &x.rates[1], &x.rates[2], &x.since, &x.good, &x.bad} {
		c.Varint(v)
	}
	if x.state >= breakerEnd {
		c.Fail(fmt.Sprintf("breaker in state %d", x.state))
	}
}

// cacheRow is the value of a row 'c'.
type cacheRow struct {
	expires int64
	output  []byte
}

func (r *cacheRow) code(c *codec.Coder) {
	version(c, "cache")
	c.Varint(&r.expires)
	c.Bytes(&r.output)
}

// known is what is known of a plan while a command changes it.
type known struct {
	planRow
	*work
	id      uint64
	plan    string
	changed bool
}

// known returns what is known of the plan that is called.
func (s *slot) known() *known {
	p := s.plan()
	k := s.knownPlan(s.of, p.Name)
	if len(k.executors)+len(p.Executors) > maxKnown {
		k.executors = slices.DeleteFunc(k.executors, func(x *executorRow) bool {
			return !slices.ContainsFunc(p.Executors, func(e flow.Executor) bool { return e.Name == x.name })
		})
	}
	return k
}

// knownPlan returns what is known of a plan of a workflow.
func (w *work) knownPlan(id uint64, plan string) *known {
	for _, k := range w.plans {
		if k.id == id && k.plan == plan {
			return k
		}
	}
	k := &known{work: w, id: id, plan: plan, planRow: planRow{oldest: never, timer: never}}
	if b, ok := w.tx.Get(planKey(nil, rowPlan, id, plan)); ok {
		k.planRow = must(decode(b, (*planRow).code))
	}
	w.plans = append(w.plans, k)
	return k
}

// executor returns what is known of an executor.
func (k *known) executor(name string) *executorRow {
	for _, x := range k.executors {
		if x.name == name {
			return x
		}
	}
	x := &executorRow{name: name}
	k.executors = append(k.executors, x)
	return x
}

// save writes what has changed. Executors that nothing is known of take no space.
func (k *known) save() {
	if !k.changed {
		return
	}
	k.changed = false
	k.expireAt(k.oldest)
	k.executors = slices.DeleteFunc(k.executors, func(x *executorRow) bool { return *x == executorRow{name: x.name} })
	k.buf = append(numberKey(k.buf[:0], rowPlan, k.id), k.plan...)
	k.row = encode(k.row[:0], &k.planRow, (*planRow).code)
	k.tx.Set(k.buf, k.row)
}

// planKey is the key, or what all keys begin with, of rows of a plan.
func planKey(dst []byte, kind byte, id uint64, plan string) []byte {
	dst = numberKey(dst, kind, id)
	if kind == rowPlan {
		return append(dst, plan...)
	}
	return key.AppendString(dst, []byte(plan))
}

// cacheKey is the key of an output that is cached.
func cacheKey(id uint64, plan string, k []byte) []byte {
	return append(planKey(nil, rowCache, id, plan), k...)
}

// staleKey is the key of a row 'h'.
func staleKey(id uint64, plan string, expires int64, k []byte) []byte {
	return append(key.AppendInt64(planKey(nil, rowStale, id, plan), expires), k...)
}
