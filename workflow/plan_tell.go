package workflow

import (
	"context"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
)

// planBody is a message about a plan of a workflow: an invalidation by a user, or a notification
// from another shard of a spread namespace.
type planBody struct {
	plan     string
	executor string // executor whose breaker has opened; "": invalidates the cache
	cooldown int64  // of the breaker
}

func (v *planBody) code(f *codec.Fields) {
	f.Text("plan", &v.plan)
	if c := f.Binary(); c != nil {
		c.String(&v.executor)
		if c.Varint(&v.cooldown); v.cooldown < 0 {
			c.Fail("cooldown out of range")
		}
	}
}

func (v *planBody) check() error {
	if v.executor != "" || v.cooldown != 0 {
		return engine.Errorf(ErrInvalid, "workflow: breakers open by themselves")
	}
	return engine.CheckName("plan", v.plan)
}

// invalidatePlan clears a plan's cache, at the home of its workflow.
func (w *work) invalidatePlan(c *planBody) error {
	k := w.workflow(w.subject)
	if k == nil {
		return notFound(w.subject)
	}
	plans := w.definition(k.id, k.current).Plans
	if !slices.ContainsFunc(plans, func(p flow.Plan) bool { return p.Name == c.plan }) {
		if _, ok := w.tx.Get(planKey(nil, rowPlan, k.id, c.plan)); !ok {
			return engine.Errorf(ErrNotFound, "workflow %q has no plan %q", k.name, c.plan)
		}
	}
	w.knownPlan(k.id, c.plan).invalidate()
	w.tellPlan(k.name, c)
	return nil
}

// planNews applies a notification about a plan from another shard.
func (w *work) planNews(c *planBody) error {
	k := w.workflow(w.subject)
	if k == nil {
		return nil
	}
	p := w.knownPlan(k.id, c.plan)
	if c.executor == "" {
		p.invalidate()
		return nil
	}
	until := w.tx.Now() + c.cooldown
	if x := p.executor(c.executor); x.state != breakerOpen || x.until < until {
		p.open(x, until)
	}
	return nil
}

// tellPlan notifies all other shards of a spread namespace.
func (w *work) tellPlan(workflow string, c *planBody) {
	if w.tx.Spread() {
		w.tx.SendOthers(command(kindPlanNews, workflow, c, (*planBody).code))
	}
}

// tellOpen notifies the other shards that a breaker has opened.
func (s *slot) tellOpen(executor string, cooldown int64) {
	if k := s.live.byID(s.live.of); k != nil && !k.deleted {
		s.live.tellPlan(k.name, &planBody{s.plan().Name, executor, cooldown})
	}
}

// invalidate clears the caches of plans that a signal invalidates.
func (l *live) invalidate(signal string) {
	for i := range l.def.Plans {
		p := &l.def.Plans[i]
		if p.Cache == nil || !slices.Contains(p.Cache.InvalidateOn, signal) {
			continue
		}
		l.knownPlan(l.of, p.Name).invalidate()
		if k := l.byID(l.of); k != nil && !k.deleted {
			l.tellPlan(k.name, &planBody{plan: p.Name})
		}
	}
}

// InvalidatePlan removes the cached outputs of a workflow's plan, for all versions and runs.
// Results of calls that are active now are not cached either. In a spread namespace the other
// shards do the same a moment later.
//
// Errors: ErrNotFound if there is no such workflow, or it has no such plan.
func (s *Store) InvalidatePlan(ctx context.Context, workflow, plan string) error {
	_, err := invalidate.Do(ctx, &s.scope, workflow, planBody{plan: plan}, nil)
	return err
}
