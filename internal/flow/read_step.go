package flow

import (
	"slices"
	"strings"

	"github.com/floedb/floe/internal/document"
)

// builtIn lists the terminals of every definition, ordered by place.
var builtIn = [builtInTerminals]Terminal{
	TerminalCompleted: {Name: "flo.Completed", Status: Completed},
	TerminalFailed:    {Name: "flo.Failed", Status: Failed},
	TerminalCancelled: {Name: "flo.Cancelled", Status: Cancelled},
	TerminalTimedOut:  {Name: "flo.TimedOut", Status: TimedOut},
}

// Terminal returns the terminal at a place, which must be a terminal's.
func (d *Definition) Terminal(p Place) *Terminal {
	if i := int(^p); i >= builtInTerminals {
		return &d.Terminals[i-builtInTerminals]
	}
	t := builtIn[^p]
	return &t
}

// stepKinds lists the keys that determine the kind of a step.
var stepKinds = []struct {
	names string
	kind  Kind
}{{"run", KindCall}, {"wait_for_signal", KindWait}, {"sleep", KindSleep}, {"parallel", KindParallel}}

// step reads a step.
func (r *reader) step(s *Step, n *document.Node, at string) {
	if n.Kind != document.Table {
		r.Fail(n.Line, "wrong-type", "%s is %s, expected a table", at, n.Describe())
		return
	}
	if run := n.Get("run"); run != nil && strings.EqualFold(run.Text, "flo.WaitForSignal") {
		r.target(&s.Call)(run, document.Under(at, "run"))
		return
	}
	s.Kind = r.stepKind(n, at)
	var compensate *document.Node
	fields := append(r.callFields(&s.Call, pathRules{}),
		document.Field{Names: "description", Read: r.Text(new(string))},
		document.Field{Names: "when", Read: r.condition(&s.When)},
		document.Field{Names: "wait_for_signal", Read: r.wait(&s.Wait)},
		document.Field{Names: "sleep", Read: r.sleep(&s.Sleep)},
		document.Field{Names: "parallel", Read: r.parallel(&s.Parallel)},
		document.Field{Names: "compensate", Read: func(n *document.Node, at string) {
			compensate, s.Compensate = n, new(Call)
			r.call(s.Compensate, pathRules{})(n, at)
		}},
		document.Field{Names: "transitions", Read: r.transitions(s)},
	)
	r.Table(n, at, fields...)
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
		r.Fail(compensate.Line, "misplaced-key", "%s does nothing that compensate can undo", at)
	}
	r.outcomes(s, n, at)
}

// stepKind returns the kind of a step. A step must have exactly one.
func (r *reader) stepKind(n *document.Node, at string) (kind Kind) {
	for _, k := range stepKinds {
		switch v := n.Get(k.names); {
		case v == nil:
		case kind != 0:
			r.Fail(v.Line, "step-kind", "%s does several things: expected only one of run, waitForSignal, sleep and parallel", at)
		default:
			kind = k.kind
		}
	}
	if kind == 0 {
		r.Fail(n.Line, "step-kind", "%s does nothing: expected one of run, waitForSignal, sleep and parallel", at)
	}
	return kind
}

// onlyRun rejects keys of run in steps of other kinds.
func (r *reader) onlyRun(kind Kind, n *document.Node, at string) {
	for _, key := range []string{"input", "input_mapping", "retry", "poll", "timeout_ms timeout"} {
		v := n.Get(key)
		if v == nil || kind == KindWait && key == "timeout_ms timeout" {
			continue
		}
		name, _, _ := strings.Cut(key, " ")
		if kind == KindParallel {
			r.Fail(v.Line, "misplaced-key", "%s of %s is misplaced: put it into parallel", name, at)
		} else {
			r.Fail(v.Line, "misplaced-key", "%s of %s is allowed only with run", name, at)
		}
	}
}

// wait reads a wait for a signal.
func (r *reader) wait(v *Wait) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if n.Kind == document.Text {
			r.Name(&v.Type)(n, at)
			return
		}
		r.Table(n, at,
			document.Field{Names: "type", Read: r.Name(&v.Type)},
			document.Field{Names: "timeout_ms timeout", Read: r.Millis(&v.Timeout, 1)},
			document.Field{Names: "on_timeout", Read: r.Name(&v.OnTimeout)},
			document.Field{Names: "schema", Read: r.schema(&v.Schema)},
		)
		if n.Kind == document.Table && n.Get("type") == nil {
			r.Fail(n.Line, "missing", "%s has no type: name a signal", at)
		}
	}
}

// sleep reads a pause: a time, or a table.
func (r *reader) sleep(v *Sleep) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if n.Kind != document.Table {
			r.Millis(&v.For, 0)(n, at)
			return
		}
		r.Table(n, at,
			document.Field{Names: "ms duration for", Read: r.Millis(&v.For, 0)},
			document.Field{Names: "until", Read: r.path(&v.Until, pathRules{bare: true})},
		)
		if length := n.Get("ms duration for"); (length == nil) == (n.Get("until") == nil) {
			r.Fail(n.Line, "bad-value", "%s needs either ms, or until with a path to a time", at)
		}
	}
}

// parallel reads concurrent calls.
func (r *reader) parallel(v *Parallel) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		rules := pathRules{item: true}
		if as := n.Get("as"); as != nil {
			r.Name(&rules.as)(as, document.Under(at, "as"))
			if slices.Contains([]string{"input", "steps", "signals", "flo", "floe", "index"}, rules.as) {
				r.Fail(as.Line, "bad-name", "%s.as is %s, which is a built-in root of paths", at, document.Quote(rules.as))
			}
		}
		each, branches := n.Get("each"), n.Get("branches")
		r.Table(n, at, append(r.callFields(&v.Body, rules),
			document.Field{Names: "each", Read: r.path(&v.Each, pathRules{bare: true})},
			document.Field{Names: "as", Read: func(*document.Node, string) {}},
			document.Field{Names: "branches", Read: r.branches(v)},
			document.Field{Names: "any", Read: r.Count(&v.Any, 1, MaxItems)},
			document.Field{Names: "max_concurrency max_concurrent", Read: r.Count(&v.Most, 0, MaxItems)},
		)...)
		switch {
		case n.Kind != document.Table:
		case (each == nil) == (branches == nil):
			r.Fail(n.Line, "bad-value", "%s needs either each, with a path to an array, or branches", at)
		case each != nil:
			if r.whole(&v.Body, n, at); v.Body.Input == nil {
				v.Body.Input = &Template{parts: []templatePart{{path: &Path{root: RootItem}}}}
			}
		default:
			r.onlyEach(n, at)
			v.Body = Call{}
			if any := n.Get("any"); any != nil && v.Any > int64(len(v.Branches)) {
				r.Fail(any.Line, "bad-number", "%s.any is %d, but there are %d branches", at, v.Any, len(v.Branches))
			}
		}
	}
}

// onlyEach rejects keys of each in a step with branches.
func (r *reader) onlyEach(n *document.Node, at string) {
	for _, key := range []string{"run", "as", "input", "input_mapping", "retry", "poll", "timeout_ms timeout"} {
		if v := n.Get(key); v != nil {
			name, _, _ := strings.Cut(key, " ")
			r.Fail(v.Line, "misplaced-key", "%s of %s is allowed only with each: put it into the branches", name, at)
		}
	}
}

func (r *reader) branches(v *Parallel) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		r.Named(MaxBranches, func(name string, p *document.Pair, at string) {
			b := Branch{Name: name}
			r.call(&b.Call, pathRules{})(p.Value, at)
			v.Branches = append(v.Branches, b)
		})(n, at)
		if n.Kind == document.Table && len(n.Pairs) == 0 {
			r.Fail(n.Line, "missing", "%s is empty, expected at least one branch", at)
		}
	}
}

// transitions reads the transitions of a step.
func (r *reader) transitions(s *Step) func(*document.Node, string) {
	return r.Named(MaxTransitions, func(outcome string, p *document.Pair, at string) {
		place := ""
		if r.Text(&place)(p.Value, at); p.Value.Kind != document.Text {
			return
		}
		if to, known := r.place(place); known {
			s.Transitions = append(s.Transitions, Transition{outcome, to})
			return
		}
		r.Fail(p.Value.Line, "unknown-target", "%s leads to %s, which is neither a step nor a terminal%s", at, document.Quote(place),
			r.Nearest(place, keys(r.places)))
	})
}

// place looks up a step or terminal.
func (r *reader) place(name string) (Place, bool) {
	p, known := r.places[r.stepName(name)]
	return p, known
}

// The predefined outcomes.
const (
	OutcomeSuccess = "success"
	OutcomeFailure = "failure"
	OutcomeTimeout = "timeout"
)

// leads reports whether a step has a transition for an outcome.
func (s *Step) leads(outcome string) bool {
	return slices.ContainsFunc(s.Transitions, func(t Transition) bool { return t.Outcome == outcome })
}

// bad lists the outcomes of failures. To continue, a step needs a transition for another outcome.
var bad = []string{
	OutcomeFailure, OutcomeTimeout, "pending", "target_not_found", "target_disabled", "execution_failure", "output_too_large", "failed",
	"cancelled", "timed_out", "exhausted",
}

// outcomes checks the transitions of a step and adds the one for a signal's timeout.
func (r *reader) outcomes(s *Step, n *document.Node, at string) {
	t := n.Get("transitions")
	if s.Kind == KindWait {
		r.timeout(s, n.Get("wait_for_signal"), at)
	}
	if t == nil {
		r.Fail(n.Line, "missing-transitions", "%s has no transitions, expected at least one for success", at)
		return
	}
	if t.Kind != document.Table || s.leads(OutcomeSuccess) || t.Get(OutcomeSuccess) != nil {
		return
	}
	named := slices.ContainsFunc(t.Pairs, func(p document.Pair) bool { return !slices.Contains(bad, p.Key) })
	switch {
	case s.Kind == KindSleep, s.Kind == KindParallel, !named:
		r.Fail(t.Line, "no-success", "%s has no transition for success", document.Under(at, "transitions"))
	default:
		r.Warn(t.Line, "no-success", "%s has no transition for success: that outcome fails the run", document.Under(at, "transitions"))
	}
}

// timeout sets the transition for a signal's timeout. onTimeout names an outcome, a step or a
// terminal; the default outcome is timeout. Without a transition for that, the run times out,
// regardless of how the step handles other failures.
func (r *reader) timeout(s *Step, n *document.Node, at string) {
	w := &s.Wait
	named := w.OnTimeout
	if named == "" || named == OutcomeTimeout || s.leads(named) {
		if named == "" {
			w.OnTimeout = OutcomeTimeout
		}
		if w.Timeout > 0 && !s.leads(w.OnTimeout) && (named == "" || !s.leads(OutcomeFailure)) {
			s.Transitions = append(s.Transitions, Transition{OutcomeTimeout, ^Place(TerminalTimedOut)})
		}
	} else if to, known := r.place(named); known {
		w.OnTimeout = OutcomeTimeout
		switch i := slices.IndexFunc(s.Transitions, func(t Transition) bool { return t.Outcome == OutcomeTimeout }); {
		case i < 0:
			s.Transitions = append(s.Transitions, Transition{OutcomeTimeout, to})
		case s.Transitions[i].To != to:
			r.Fail(n.Get("on_timeout").Line, "bad-value", "onTimeout of %s is %s, and its transition for timeout leads elsewhere", at,
				document.Quote(named))
		}
	} else {
		r.Fail(n.Get("on_timeout").Line, "unknown-target",
			"onTimeout of %s is %s, expected an outcome with a transition, a step or a terminal%s",
			at, document.Quote(named), r.Nearest(named, keys(r.places)))
	}
	if w.Timeout == 0 && n != nil {
		r.Warn(n.Line, "no-timeout", "%s waits for signal %s without a timeout: a run may wait forever", at, document.Quote(w.Type))
	}
}
