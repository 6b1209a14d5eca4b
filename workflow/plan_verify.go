package workflow

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
)

// auditedPlan is a plan's cache while it is recounted.
type auditedPlan struct {
	cached, bytes, oldest int64
}

// plans checks the state of plans: cached outputs are counted and expire, and breakers have valid
// states.
func (v *verifier) plans() error {
	found := make(map[string]*auditedPlan)
	err := each(v, []byte{rowCache}, 0, (*cacheRow).code, func(k []byte, row *cacheRow) error {
		at, cacheKey, ok := cutPlan(k)
		if !ok {
			v.Reportf("workflow: row %x belongs to no plan", k)
			return nil
		}
		p := found[at]
		if p == nil {
			p = &auditedPlan{oldest: never}
			found[at] = p
		}
		p.cached++
		p.bytes += int64(len(cacheKey) + len(row.output))
		p.oldest = min(p.oldest, row.expires)
		stale := append(key.AppendInt64(append([]byte{rowStale}, k[1:len(k)-len(cacheKey)]...), row.expires), cacheKey...)
		return v.wants(fmt.Sprintf("the cached output %x", k), rowStale, stale)
	})
	if err != nil {
		return err
	}
	err = each(v, []byte{rowPlan}, 0, (*planRow).code, func(k []byte, row *planRow) error {
		if len(k) <= partAt || v.workflows[binary.BigEndian.Uint64(k[1:])] == nil {
			v.Reportf("workflow: row %x belongs to no plan", k)
			return nil
		}
		at := string(k[1:])
		p := found[at]
		delete(found, at)
		return v.plan(at, row, p)
	})
	if err != nil {
		return err
	}
	for at := range found {
		v.Reportf("workflow: plan %q has cached outputs, but no row", at)
	}
	return nil
}

// cutPlan splits a key into the plan's part and the key of a cached output.
func cutPlan(k []byte) (at string, cacheKey []byte, ok bool) {
	if len(k) <= partAt {
		return "", nil, false
	}
	plan, rest, ok := key.CutString(k[partAt:])
	return string(k[1:partAt]) + string(plan), rest, ok
}

func (v *verifier) plan(at string, row *planRow, p *auditedPlan) error {
	if p == nil {
		p = &auditedPlan{oldest: never}
	}
	if row.cached != p.cached || row.cachedBytes != p.bytes {
		v.Reportf("workflow: plan %q: its row counts %d cached outputs of %d bytes, but there are %d of %d", at, row.cached,
			row.cachedBytes, p.cached, p.bytes)
	}
	if row.oldest > p.oldest || row.timer > p.oldest {
		v.Reportf("workflow: plan %q: a cached output expires at %d, its row says %d, and its timer is due at %d", at, p.oldest,
			row.oldest, row.timer)
	}
	if len(row.executors) > maxKnown {
		v.Reportf("workflow: plan %q has %d executors", at, len(row.executors))
	}
	for i, x := range row.executors {
		if slices.ContainsFunc(row.executors[:i], func(other *executorRow) bool { return other.name == x.name }) {
			v.Reportf("workflow: plan %q has executor %q twice", at, x.name)
		}
		if x.epoch > row.epochs || x.state != breakerClosed && x.epoch == 0 || x.failures < 0 || x.probes < 0 || x.good < 0 || x.bad < 0 ||
			x.good+x.bad > healthMost {
			v.Reportf("workflow: plan %q: executor %+v, after %d epochs", at, *x, row.epochs)
		}
	}
	if row.timer == never {
		return nil
	}
	ok, err := v.HasTimer(row.timer, v.workflows[binary.BigEndian.Uint64([]byte(at))].ns, append([]byte{tokenPlan}, at...))
	if err == nil && !ok {
		v.Reportf("workflow: plan %q has no timer at %d", at, row.timer)
	}
	return err
}

// planTimer checks a timer of a plan. The timer of a deleted workflow fires without effect.
func (v *verifier) planTimer(due int64, ns uint32, token []byte) error {
	w := v.workflows[binary.BigEndian.Uint64(token[1:])]
	if w == nil {
		return nil
	}
	b, ok, err := v.Get(append([]byte{rowPlan}, token[1:]...))
	if err != nil {
		return err
	}
	if row, err := decode(b, (*planRow).code); !ok || err != nil || row.timer != due || w.ns != ns {
		v.Reportf("workflow: unexpected timer at %d of plan %q: %v", due, token[1:], err)
	}
	return nil
}

// checkPlan checks the state of the plan that the run's step calls.
func (r *auditedRun) checkPlan(d *flow.Definition) {
	s, step := &r.header.call, &d.Steps[r.header.step]
	if r.header.wait != waitCall || step.Call.Target != flow.TargetPlan {
		return
	}
	st, executors := &s.plan, len(d.Plans[step.Call.Plan].Executors)
	chosen := st.begun && st.at >= 0 && st.at < executors
	choosing := st.begun && st.at == -1 && s.phase == phaseRate && st.next == planChoose
	if s.phase != phasePause && !chosen && !choosing || slices.ContainsFunc(st.rest, func(at byte) bool { return int(at) >= executors }) {
		r.Reportf("workflow: %s: its plan is in phase %d at executor %d of %d, then at %v", r.who, s.phase, st.at, executors, st.rest)
	}
}
