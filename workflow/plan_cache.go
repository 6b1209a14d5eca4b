package workflow

import (
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
)

// Limits of a plan's cache in a shard. Beyond them the outputs that expire first are removed.
const (
	MaxCached      = 10_000
	MaxCachedBytes = 64 << 20
	maxEvicted     = 100 // at once
)

// keySource resolves paths in the key of a cache.
type keySource struct {
	flow.Source
	input []byte // of the step
}

// Root implements flow.Source.
func (s *keySource) Root(r flow.Root, name string) []byte {
	if r == flow.RootStepInput {
		return s.input
	}
	return s.Source.Root(r, name)
}

// takeCached ends the plan if its output is cached. Otherwise it notes the key under which to cache
// a success.
func (s *slot) takeCached(p *flow.Plan) bool {
	k, whole := p.Cache.Key.Append(nil, &keySource{s.paths(), s.input(s.call)})
	if !whole {
		return false
	}
	known := s.known()
	if b, ok := s.live.tx.Get(cacheKey(known.id, known.plan, k)); ok {
		if row := must(decode(b, (*cacheRow).code)); row.expires > s.live.tx.Now() {
			s.note(event{kind: PlanCacheHit, detail: string(k)})
			s.endPlan(result{outcome: OutcomeSuccess, output: row.output})
			return true
		}
	}
	s.state.plan.key, s.state.plan.generation = k, known.generation
	return false
}

// cache stores the output of a success, unless the cache was invalidated since the plan began.
func (s *slot) cache(p *flow.Plan, r *result) {
	st, known := &s.state.plan, s.known()
	if st.key == nil || st.generation != known.generation || r.outcome != OutcomeSuccess || len(r.output) > MaxOutput {
		return
	}
	known.forgetCached(st.key)
	size := int64(len(st.key) + len(r.output))
	full := func() bool {
		return (known.cached >= s.live.m.maxCached || known.cachedBytes+size > s.live.m.maxCachedBytes)
	}
	for n := 0; full(); n++ {
		if n == maxEvicted || !known.evict(never) {
			return
		}
	}
	row := cacheRow{s.live.tx.Now() + p.Cache.TTL, r.output}
	s.live.tx.Set(cacheKey(known.id, known.plan, st.key), encode(nil, &row, (*cacheRow).code))
	s.live.tx.Set(staleKey(known.id, known.plan, row.expires, st.key), nil)
	known.cached++
	known.cachedBytes += size
	known.oldest = min(known.oldest, row.expires)
	known.changed = true
}

// forgetCached removes a cached output.
func (k *known) forgetCached(at []byte) {
	b, ok := k.tx.Get(cacheKey(k.id, k.plan, at))
	if !ok {
		return
	}
	row := must(decode(b, (*cacheRow).code))
	k.tx.Delete(cacheKey(k.id, k.plan, at))
	k.tx.Delete(staleKey(k.id, k.plan, row.expires, at))
	k.cached--
	k.cachedBytes -= int64(len(at) + len(row.output))
	k.changed = true
}

// evict removes the output that expires first, if that is before a time.
func (k *known) evict(before int64) bool {
	prefix := planKey(nil, rowStale, k.id, k.plan)
	at := len(prefix)
	row, _, ok := k.tx.First(key.AppendInt64(planKey(nil, rowStale, k.id, k.plan), k.oldest), key.PrefixEnd(prefix))
	if !ok {
		k.oldest = never
		return false
	}
	if k.oldest = key.Int64(row[at:]); k.oldest > before {
		return false
	}
	k.forgetCached(append([]byte(nil), row[at+8:]...))
	return true
}

// expire removes expired outputs.
func (w *work) expire(id uint64, plan string) {
	if _, ok := w.tx.Get(planKey(nil, rowPlan, id, plan)); !ok {
		return // the workflow is gone
	}
	k := w.knownPlan(id, plan)
	k.changed, k.timer = true, never
	for n := 0; n < maxEvicted && !w.tx.Full() && k.evict(w.tx.Now()); n++ {
	}
}

// expireAt sets the timer that removes expired outputs. If the workflow is deleted meanwhile, the
// timer has no effect.
func (k *known) expireAt(at int64) {
	if at >= k.timer {
		return
	}
	token := append(key.AppendUint64([]byte{tokenPlan}, k.id), k.plan...)
	if k.timer != never {
		k.tx.Unschedule(k.timer, token)
	}
	k.timer = max(at, k.tx.Now())
	k.tx.ScheduleNew(k.timer, token)
}

// invalidate begins a new generation: cached outputs are dropped, and active calls add nothing to
// the new generation.
func (k *known) invalidate() {
	for _, kind := range [...]byte{rowCache, rowStale} {
		prefix := planKey(nil, kind, k.id, k.plan)
		k.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	k.generation++
	k.cached, k.cachedBytes, k.oldest, k.changed = 0, 0, never, true
}
