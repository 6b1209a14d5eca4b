package flow

import (
	"slices"
	"strings"
)

// builtIn are the terminals that every definition has, in the order of their places.
var builtIn = [builtInTerminals]Terminal{
	TerminalCompleted: {Name: "flo.Completed", Status: Completed},
	TerminalFailed:    {Name: "flo.Failed", Status: Failed},
	TerminalCancelled: {Name: "flo.Cancelled", Status: Cancelled},
	TerminalTimedOut:  {Name: "flo.TimedOut", Status: TimedOut},
}

// Terminal returns the terminal at a place that is one.
func (d *Definition) Terminal(p Place) *Terminal {
	if i := int(^p); i >= builtInTerminals {
		return &d.Terminals[i-builtInTerminals]
	}
	t := builtIn[^p]
	return &t
}

// whatSteps does is one of these keys.
var stepKinds = []struct {
	names string
	kind  Kind
}{{"run", KindCall}, {"wait_for_signal", KindWait}, {"sleep", KindSleep}, {"parallel", KindParallel}}

// step reads a step.
func (r *reader) step(s *Step, n *node, at string) {
	if n.kind != nodeTable {
		r.fail(n.line, "wrong-type", "%s is %s, expected a table", at, n.describe())
		return
	}
	if run := n.get("run"); run != nil && strings.EqualFold(run.text, "flo.WaitForSignal") {
		r.target(&s.Call)(run, under(at, "run"))
		return
	}
	s.Kind = r.stepKind(n, at)
	var compensate *node
	fields := append(r.callFields(&s.Call, pathRules{}),
		field{names: "description", read: r.text(new(string))},
		field{names: "when", read: r.condition(&s.When)},
		field{names: "wait_for_signal", read: r.wait(&s.Wait)},
		field{names: "sleep", read: r.sleep(&s.Sleep)},
		field{names: "parallel", read: r.parallel(&s.Parallel)},
		field{names: "compensate", read: func(n *node, at string) {
			compensate, s.Compensate = n, new(Call)
			r.call(s.Compensate, pathRules{})(n, at)
		}},
		field{names: "transitions", read: r.transitions(s)},
	)
	r.table(n, at, fields...)
	if s.Kind == KindWait && s.Wait.Timeout == 0 {
		s.Wait.Timeout = s.Call.Timeout
	}
	if s.Kind == KindCall {
		r.whole(&s.Call, n, at)
	} else if s.Kind != 0 {
		r.onlyRun(s.Kind, n, at)
		s.Call = Call{}
	}
	if compensate != nil && (s.Kind == KindWait || s.Kind == KindSleep) {
		r.fail(compensate.line, "misplaced-key", "%s does nothing that compensate could undo", at)
	}
	r.outcomes(s, n, at)
}

// stepKind says what a step does, which is one thing.
func (r *reader) stepKind(n *node, at string) (kind Kind) {
	for _, k := range stepKinds {
		switch v := n.get(k.names); {
		case v == nil:
		case kind != 0:
			r.fail(v.line, "step-kind", "%s does several things: expected only one of run, waitForSignal, sleep and parallel", at)
		default:
			kind = k.kind
		}
	}
	if kind == 0 {
		r.fail(n.line, "step-kind", "%s does nothing: expected one of run, waitForSignal, sleep and parallel", at)
	}
	return kind
}

// onlyRun refuses keys of run in steps that do something else.
func (r *reader) onlyRun(kind Kind, n *node, at string) {
	for _, key := range []string{"input", "input_mapping", "retry", "poll", "timeout_ms timeout"} {
		v := n.get(key)
		if v == nil || kind == KindWait && key == "timeout_ms timeout" {
			continue
		}
		name, _, _ := strings.Cut(key, " ")
		if kind == KindParallel {
			r.fail(v.line, "misplaced-key", "%s of %s belongs to what is run: put it into parallel", name, at)
		} else {
			r.fail(v.line, "misplaced-key", "%s of %s goes only with run", name, at)
		}
	}
}

// wait reads what signal a step waits for.
func (r *reader) wait(v *Wait) func(*node, string) {
	return func(n *node, at string) {
		if n.kind == nodeText {
			r.name(&v.Type)(n, at)
			return
		}
		r.table(n, at,
			field{names: "type", read: r.name(&v.Type)},
			field{names: "timeout_ms timeout", read: r.millis(&v.Timeout, 1)},
			field{names: "on_timeout", read: r.name(&v.OnTimeout)},
			field{names: "schema", read: r.schema(&v.Schema)},
		)
		if n.kind == nodeTable && n.get("type") == nil {
			r.fail(n.line, "missing", "%s has no type: name a signal", at)
		}
	}
}

// sleep reads a pause: a time, or a table.
func (r *reader) sleep(v *Sleep) func(*node, string) {
	return func(n *node, at string) {
		if n.kind != nodeTable {
			r.millis(&v.For, 0)(n, at)
			return
		}
		r.table(n, at,
			field{names: "ms duration for", read: r.millis(&v.For, 0)},
			field{names: "until", read: r.path(&v.Until, pathRules{bare: true})},
		)
		if length := n.get("ms duration for"); (length == nil) == (n.get("until") == nil) {
			r.fail(n.line, "bad-value", "%s needs either ms, or until with a path to a time", at)
		}
	}
}

// parallel reads calls that run at the same time.
func (r *reader) parallel(v *Parallel) func(*node, string) {
	return func(n *node, at string) {
		rules := pathRules{item: true}
		if as := n.get("as"); as != nil {
			r.name(&rules.as)(as, under(at, "as"))
			if slices.Contains([]string{"input", "steps", "signals", "flo", "index"}, rules.as) {
				r.fail(as.line, "bad-name", "%s.as is %s, which paths begin with already", at, quote(rules.as))
			}
		}
		each, branches := n.get("each"), n.get("branches")
		r.table(n, at, append(r.callFields(&v.Body, rules),
			field{names: "each", read: r.path(&v.Each, pathRules{bare: true})},
			field{names: "as", read: func(*node, string) {}},
			field{names: "branches", read: r.branches(v)},
			field{names: "any", read: r.count(&v.Any, 1, MaxItems)},
			field{names: "max_concurrency max_concurrent", read: r.count(&v.Most, 0, MaxItems)},
		)...)
		switch {
		case n.kind != nodeTable:
		case (each == nil) == (branches == nil):
			r.fail(n.line, "bad-value", "%s needs either each, with a path to an array, or branches", at)
		case each != nil:
			if r.whole(&v.Body, n, at); v.Body.Input == nil {
				v.Body.Input = &Template{parts: []part{{path: &Path{root: RootItem}}}}
			}
		default:
			r.onlyEach(n, at)
			v.Body = Call{}
			if any := n.get("any"); any != nil && v.Any > int64(len(v.Branches)) {
				r.fail(any.line, "bad-number", "%s.any is %d, but there are %d branches", at, v.Any, len(v.Branches))
			}
		}
	}
}

// onlyEach refuses keys of each where there are branches.
func (r *reader) onlyEach(n *node, at string) {
	for _, key := range []string{"run", "as", "input", "input_mapping", "retry", "poll", "timeout_ms timeout"} {
		if v := n.get(key); v != nil {
			name, _, _ := strings.Cut(key, " ")
			r.fail(v.line, "misplaced-key", "%s of %s goes only with each: put it into the branches", name, at)
		}
	}
}

func (r *reader) branches(v *Parallel) func(*node, string) {
	return func(n *node, at string) {
		r.named(MaxBranches, func(name string, p *pair, at string) {
			b := Branch{Name: name}
			r.call(&b.Call, pathRules{})(p.value, at)
			v.Branches = append(v.Branches, b)
		})(n, at)
		if n.kind == nodeTable && len(n.pairs) == 0 {
			r.fail(n.line, "missing", "%s is empty, expected at least one branch", at)
		}
	}
}

// transitions reads where outcomes lead.
func (r *reader) transitions(s *Step) func(*node, string) {
	return r.named(MaxTransitions, func(outcome string, p *pair, at string) {
		place := ""
		if r.text(&place)(p.value, at); p.value.kind != nodeText {
			return
		}
		if to, known := r.place(place); known {
			s.Transitions = append(s.Transitions, Transition{outcome, to})
			return
		}
		r.fail(p.value.line, "unknown-target", "%s leads to %s, which is no step and no terminal%s", at, quote(place), r.nearest(place, keys(r.places)))
	})
}

// place looks a step or terminal up.
func (r *reader) place(name string) (Place, bool) {
	p, known := r.places[r.stepName(name)]
	return p, known
}

// OutcomeSuccess and its like are the outcomes with a meaning of their own.
const (
	OutcomeSuccess = "success"
	OutcomeFailure = "failure"
	OutcomeTimeout = "timeout"
)

// leads says whether a step has a transition for an outcome.
func (s *Step) leads(outcome string) bool {
	return slices.ContainsFunc(s.Transitions, func(t Transition) bool { return t.Outcome == outcome })
}

// bad are outcomes that lead nowhere good: a step needs another one to go on.
var bad = []string{
	OutcomeFailure, OutcomeTimeout, "pending", "target_not_found", "target_disabled", "execution_failure", "output_too_large", "failed", "cancelled", "timed_out", "exhausted",
}

// outcomes checks the transitions of a step, and adds those of a signal that does not come.
func (r *reader) outcomes(s *Step, n *node, at string) {
	t := n.get("transitions")
	if s.Kind == KindWait {
		r.timeout(s, n.get("wait_for_signal"), at)
	}
	if t == nil {
		r.fail(n.line, "missing-transitions", "%s has no transitions: say where success leads", at)
		return
	}
	if t.kind != nodeTable || s.leads(OutcomeSuccess) || t.get(OutcomeSuccess) != nil {
		return
	}
	named := slices.ContainsFunc(t.pairs, func(p pair) bool { return !slices.Contains(bad, p.key) })
	switch {
	case s.Kind == KindSleep, s.Kind == KindParallel, !named:
		r.fail(t.line, "no-success", "%s has no transition for success: say where it leads", under(at, "transitions"))
	default:
		r.warn(t.line, "no-success", "%s has no transition for success: that outcome fails the run", under(at, "transitions"))
	}
}

// timeout says what becomes of a step whose signal does not come: onTimeout names an outcome, a step or a terminal. Without it the outcome is timeout, or failure,
// and a run without a transition for either is timed out.
func (r *reader) timeout(s *Step, n *node, at string) {
	w := &s.Wait
	named := w.OnTimeout
	if named == "" || named == OutcomeTimeout || s.leads(named) {
		if named == "" {
			w.OnTimeout = OutcomeTimeout
		}
		if w.Timeout > 0 && !s.leads(w.OnTimeout) && !s.leads(OutcomeFailure) {
			s.Transitions = append(s.Transitions, Transition{OutcomeTimeout, ^Place(TerminalTimedOut)})
		}
	} else if to, known := r.place(named); known {
		w.OnTimeout = OutcomeTimeout
		switch i := slices.IndexFunc(s.Transitions, func(t Transition) bool { return t.Outcome == OutcomeTimeout }); {
		case i < 0:
			s.Transitions = append(s.Transitions, Transition{OutcomeTimeout, to})
		case s.Transitions[i].To != to:
			r.fail(n.get("on_timeout").line, "bad-value", "onTimeout of %s is %s, and its transition for timeout leads elsewhere", at, quote(named))
		}
	} else {
		r.fail(n.get("on_timeout").line, "unknown-target", "onTimeout of %s is %s, which is no outcome with a transition, no step and no terminal%s",
			at, quote(named), r.nearest(named, keys(r.places)))
	}
	if w.Timeout == 0 && n != nil {
		r.warn(n.line, "no-timeout", "%s waits for signal %s without a timeout: a run may wait for ever", at, quote(w.Type))
	}
}
