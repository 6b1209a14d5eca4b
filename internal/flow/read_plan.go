package flow

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// What a plan says when it leaves a key out.
const (
	defaultPriority   = 100
	defaultThreshold  = 5
	defaultCooldown   = 60_000
	defaultProbes     = 2
	defaultWindow     = 300_000
	defaultDecay      = 58_982 // 0.9
	defaultMinSamples = 50
	defaultTTL        = 300_000
	maxRates          = 3
	maxCount          = math.MaxInt32
)

// readPlan reads a plan.
func (r *reader) readPlan(p *Plan, n *node, at string) {
	p.Health = Health{Window: defaultWindow, Decay: defaultDecay, MinSamples: defaultMinSamples}
	r.table(n, at,
		field{names: "description", read: r.text(new(string))},
		field{names: "selection", read: word(r, &p.Selection,
			choice[Selection]{"static-order static priority", SelectStatic}, choice[Selection]{"round-robin", SelectRoundRobin},
			choice[Selection]{"random", SelectRandom}, choice[Selection]{"health-weighted", SelectHealth})},
		field{names: "executors", read: r.each(MaxExecutors, func(n *node, at string) { r.executor(p, n, at) })},
		field{names: "health", read: r.health(&p.Health)},
		field{names: "cache", read: r.cache(&p.Cache)},
		field{names: "fallback", read: r.fallback(&p.Fallback)},
		field{names: "errors classify_error", read: r.classes(p)},
	)
	if n.kind != nodeTable {
		return
	}
	if list := n.get("executors"); list == nil || list.kind == nodeList && len(list.items) == 0 {
		r.fail(n.line, "no-executors", "%s has no executors, expected at least one", at)
	}
	slices.SortStableFunc(p.Executors, func(a, b Executor) int { return cmp.Compare(b.Priority, a.Priority) })
}

func (r *reader) executor(p *Plan, n *node, at string) {
	e := Executor{Priority: defaultPriority}
	fields := append(r.callFields(&e.Call, pathRules{}),
		field{names: "name", read: r.name(&e.Name)},
		field{names: "action", read: func(n *node, at string) {
			if n.kind == nodeText && n.text != "" && n.text[0] != '@' {
				n = &node{kind: nodeText, line: n.line, text: "@actions/" + n.text}
			}
			r.target(&e.Call)(n, at)
		}},
		field{names: "description", read: r.text(new(string))},
		field{names: "priority", read: r.count(&e.Priority, -maxCount, maxCount)},
		field{names: "breaker", read: r.breaker(&e.Breaker)},
		field{names: "rate_limit", read: r.rates(&e.Rates)},
		field{names: "tracking", read: r.tracking(&e)},
	)
	r.table(n, at, fields...)
	if n.kind != nodeTable {
		return
	}
	run, action := n.get("run"), n.get("action")
	switch {
	case run == nil && action == nil:
		r.fail(n.line, "missing", "%s has no run: name an action or workflow", at)
	case run != nil && action != nil:
		r.fail(action.line, "duplicate-key", "run and action in %s say the same", at)
	case e.Call.Target == TargetPlan:
		r.fail(cmp.Or(run, action).line, "bad-target", "%s runs plan %s, expected an action or workflow: plans are not nested", at, quote(e.Call.Name))
	}
	switch i := slices.IndexFunc(p.Executors, func(other Executor) bool { return other.Name == e.Name }); {
	case n.get("name") == nil:
		r.fail(n.line, "missing", "%s has no name", at)
	case i >= 0:
		r.fail(n.get("name").line, "duplicate-name", "%s has the name %s, as another executor of the plan", at, quote(e.Name))
	}
	p.Executors = append(p.Executors, e)
}

func (r *reader) breaker(v **Breaker) func(*node, string) {
	return func(n *node, at string) {
		b := &Breaker{Failures: defaultThreshold, Cooldown: defaultCooldown, Probes: defaultProbes}
		r.table(n, at,
			field{names: "failure_threshold", read: r.count(&b.Failures, 1, maxCount)},
			field{names: "cooldown_ms cooldown", read: r.millis(&b.Cooldown, 1)},
			field{names: "half_open_max_calls", read: r.count(&b.Probes, 1, maxCount)},
		)
		*v = b
	}
}

func (r *reader) rates(v *[]Rate) func(*node, string) {
	return func(n *node, at string) {
		per := [maxRates]Rate{{Per: 1000}, {Per: 60_000}, {Per: 3_600_000}}
		r.table(n, at,
			field{names: "max_per_second", read: r.count(&per[0].Limit, 0, maxCount)},
			field{names: "max_per_minute", read: r.count(&per[1].Limit, 0, maxCount)},
			field{names: "max_per_hour", read: r.count(&per[2].Limit, 0, maxCount)},
		)
		for _, rate := range per {
			if rate.Limit > 0 {
				*v = append(*v, rate)
			}
		}
	}
}

func (r *reader) tracking(e *Executor) func(*node, string) {
	return func(n *node, at string) {
		r.table(n, at,
			field{names: "mode", read: word(r, &e.Async, choice[bool]{"sync", false}, choice[bool]{"async", true})},
			field{names: "timeout_ms timeout", read: r.millis(&e.TrackFor, 1)},
		)
	}
}

func (r *reader) health(h *Health) func(*node, string) {
	return func(n *node, at string) {
		r.table(n, at,
			field{names: "window_ms window", read: r.millis(&h.Window, 1)},
			field{names: "decay", read: r.decay(&h.Decay)},
			field{names: "min_samples", read: r.count(&h.MinSamples, 1, maxCount)},
		)
	}
}

// decay reads a factor above 0, up to 1, as 1/65536.
func (r *reader) decay(v *int64) func(*node, string) {
	return func(n *node, at string) {
		f, err := strconv.ParseFloat(n.text, 64)
		fixed := math.Round(f * (1 << 16))
		if n.kind != nodeNumber || err != nil || f > 1 || fixed < 1 {
			r.fail(n.line, "bad-number", "%s is %s, expected a number above 0, up to 1", at, n.describe())
			return
		}
		*v = int64(fixed)
	}
}

func (r *reader) cache(v **Cache) func(*node, string) {
	return func(n *node, at string) {
		c := &Cache{TTL: defaultTTL}
		r.table(n, at,
			field{names: "ttl_ms ttl", read: r.millis(&c.TTL, 1)},
			field{names: "key key_template", read: r.keyTemplate(&c.Key)},
			field{names: "invalidate_on", read: r.texts(&c.InvalidateOn)},
		)
		if n.kind == nodeTable && n.get("key key_template") == nil {
			r.fail(n.line, "missing", "%s has no key: say what results are remembered by, such as charge:{input.customer_id}", at)
		}
		*v = c
	}
}

func (r *reader) fallback(v **Fallback) func(*node, string) {
	return func(n *node, at string) {
		f := &Fallback{}
		r.table(n, at,
			field{names: "value", read: r.fallbackValue(&f.Value), null: true},
			field{names: "condition", read: word(r, &f.AnyError, choice[bool]{"exhausted", false}, choice[bool]{"any_error", true})},
		)
		if n.kind == nodeTable && f.Value == nil && !slices.ContainsFunc(n.pairs, func(p pair) bool { return p.key == "value" }) {
			r.fail(n.line, "missing", "%s has no value", at)
		}
		*v = f
	}
}

// fallbackValue reads a value that may be JSON in text; text that is no JSON is meant as it is.
func (r *reader) fallbackValue(v **Template) func(*node, string) {
	return func(n *node, at string) {
		if n.kind == nodeText && !isPath(n.text) {
			if inner := r.jsonIn(n); inner != nil {
				n = inner
			}
		}
		*v = r.compile(n, at, pathRules{})
	}
}

func (r *reader) classes(p *Plan) func(*node, string) {
	return func(n *node, at string) {
		r.table(n, at,
			field{names: "retryable", read: r.texts(&p.Retryable)},
			field{names: "fatal", read: r.texts(&p.Fatal)},
		)
		for _, code := range p.Fatal {
			if slices.Contains(p.Retryable, code) {
				r.fail(n.line, "bad-value", "%s has %s among retryable and fatal", at, quote(code))
			}
		}
	}
}
