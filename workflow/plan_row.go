package workflow

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
)

// planRow is the value of a row 'p': the state of a plan in the shard, shared by all versions of a
// workflow and all their runs.
type planRow struct {
	epochs      uint64 // of breakers, see known.enter
	turn        uint64 // of round-robin
	generation  uint64 // of the cache: outputs of calls of an older generation are not cached
	cached      int64  // number of cached outputs
	cachedBytes int64
	oldest      int64 // no cached output expires earlier
	timer       int64 // when expired outputs are removed; it may be early
	executors   []*executorRow
}

// executorRow is the state of an executor. Unused fields are zero.
type executorRow struct {
	name string

	// Its breaker.
	state    breakerState
	epoch    uint64
	failures int64 // consecutive failures
	probes   int64 // active probes, as far as known
	until    int64 // end of the open state; when half open, end of the wait for probes

	rates [3]int64 // see leave: per second, minute and hour

	// Its health.
	since     int64 // start of the window
	good, bad int64
}

// maxKnown limits the stored executors. Beyond it, those of older versions are removed.
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

// known is the state of a plan while a command changes it.
type known struct {
	planRow
	*work
	id      uint64
	plan    string
	changed bool
}

// known returns the state of the called plan.
func (s *slot) known() *known {
	p := s.plan()
	k := s.live.knownPlan(s.live.of, p.Name)
	if len(k.executors)+len(p.Executors) > maxKnown {
		k.executors = slices.DeleteFunc(k.executors, func(x *executorRow) bool {
			return !slices.ContainsFunc(p.Executors, func(e flow.Executor) bool { return e.Name == x.name })
		})
	}
	return k
}

// knownPlan returns the state of a plan of a workflow.
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

// executor returns the state of an executor.
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

// save writes the changes. Executors without state take no space.
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

// planKey is the key, or key prefix, of rows of a plan.
func planKey(dst []byte, kind byte, id uint64, plan string) []byte {
	dst = numberKey(dst, kind, id)
	if kind == rowPlan {
		return append(dst, plan...)
	}
	return key.AppendString(dst, []byte(plan))
}

// cacheKey is the key of a cached output.
func cacheKey(id uint64, plan string, k []byte) []byte {
	return append(planKey(nil, rowCache, id, plan), k...)
}

// staleKey is the key of a row 'h'.
func staleKey(id uint64, plan string, expires int64, k []byte) []byte {
	return append(key.AppendInt64(planKey(nil, rowStale, id, plan), expires), k...)
}
