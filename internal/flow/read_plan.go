package flow

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/floedb/floe/internal/document"
)

// Defaults of a plan's keys.
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
func (r *reader) readPlan(p *Plan, n *document.Node, at string) {
	p.Health = Health{Window: defaultWindow, Decay: defaultDecay, MinSamples: defaultMinSamples}
	r.Table(n, at,
		document.Field{Names: "description", Read: r.Text(new(string))},
		document.Field{Names: "selection", Read: document.Word(&r.Reader, &p.Selection,
			document.Is("static-order static priority", SelectStatic), document.Is("round-robin", SelectRoundRobin),
			document.Is("random", SelectRandom), document.Is("health-weighted", SelectHealth))},
		document.Field{Names: "executors", Read: r.Each(MaxExecutors, func(n *document.Node, at string) { r.executor(p, n, at) })},
		document.Field{Names: "health", Read: r.health(&p.Health)},
		document.Field{Names: "cache", Read: r.cache(&p.Cache)},
		document.Field{Names: "fallback", Read: r.fallback(&p.Fallback)},
		document.Field{Names: "errors classify_error", Read: r.classes(p)},
	)
	if n.Kind != document.Table {
		return
	}
	if list := n.Get("executors"); list == nil || list.Kind == document.List && len(list.Items) == 0 {
		r.Fail(n.Line, "no-executors", "%s has no executors, expected at least one", at)
	}
	slices.SortStableFunc(p.Executors, func(a, b Executor) int { return cmp.Compare(b.Priority, a.Priority) })
}

func (r *reader) executor(p *Plan, n *document.Node, at string) {
	e := Executor{Priority: defaultPriority}
	fields := append(r.callFields(&e.Call, pathRules{}),
		document.Field{Names: "name", Read: r.Name(&e.Name)},
		document.Field{Names: "action", Read: func(n *document.Node, at string) {
			if n.Kind == document.Text && n.Text != "" && n.Text[0] != '@' {
				n = &document.Node{Kind: document.Text, Line: n.Line, Text: "@actions/" + n.Text}
			}
			r.target(&e.Call)(n, at)
		}},
		document.Field{Names: "description", Read: r.Text(new(string))},
		document.Field{Names: "priority", Read: r.Count(&e.Priority, -maxCount, maxCount)},
		document.Field{Names: "breaker", Read: r.breaker(&e.Breaker)},
		document.Field{Names: "rate_limit", Read: r.rates(&e.Rates)},
		document.Field{Names: "tracking", Read: r.tracking(&e)},
	)
	r.Table(n, at, fields...)
	if n.Kind != document.Table {
		return
	}
	run, action := n.Get("run"), n.Get("action")
	switch {
	case run == nil && action == nil:
		r.Fail(n.Line, "missing", "%s has no run: name an action or workflow", at)
	case run != nil && action != nil:
		r.Fail(action.Line, "duplicate-key", "%s has both run and action", at)
	case e.Call.Target == TargetPlan:
		r.Fail(cmp.Or(run, action).Line, "bad-target", "%s runs plan %s, expected an action or workflow: plans are not nested", at,
			document.Quote(e.Call.Name))
	}
	switch i := slices.IndexFunc(p.Executors, func(other Executor) bool { return other.Name == e.Name }); {
	case n.Get("name") == nil:
		r.Fail(n.Line, "missing", "%s has no name", at)
	case i >= 0:
		r.Fail(n.Get("name").Line, "duplicate-name", "%s has the name %s, like another executor of the plan", at, document.Quote(e.Name))
	}
	p.Executors = append(p.Executors, e)
}

func (r *reader) breaker(v **Breaker) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		b := &Breaker{Failures: defaultThreshold, Cooldown: defaultCooldown, Probes: defaultProbes}
		r.Table(n, at,
			document.Field{Names: "failure_threshold", Read: r.Count(&b.Failures, 1, maxCount)},
			document.Field{Names: "cooldown_ms cooldown", Read: r.Millis(&b.Cooldown, 1)},
			document.Field{Names: "half_open_max_calls", Read: r.Count(&b.Probes, 1, maxCount)},
		)
		*v = b
	}
}

func (r *reader) rates(v *[]Rate) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		per := [maxRates]Rate{{Per: 1000}, {Per: 60_000}, {Per: 3_600_000}}
		r.Table(n, at,
			document.Field{Names: "max_per_second", Read: r.Count(&per[0].Limit, 0, maxCount)},
			document.Field{Names: "max_per_minute", Read: r.Count(&per[1].Limit, 0, maxCount)},
			document.Field{Names: "max_per_hour", Read: r.Count(&per[2].Limit, 0, maxCount)},
		)
		for _, rate := range per {
			if rate.Limit > 0 {
				*v = append(*v, rate)
			}
		}
	}
}

func (r *reader) tracking(e *Executor) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		r.Table(n, at,
			document.Field{Names: "mode", Read: document.Word(&r.Reader, &e.Async, document.Is("sync", false), document.Is("async", true))},
			document.Field{Names: "timeout_ms timeout", Read: r.Millis(&e.TrackFor, 1)},
		)
	}
}

func (r *reader) health(h *Health) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		r.Table(n, at,
			document.Field{Names: "window_ms window", Read: r.Millis(&h.Window, 1)},
			document.Field{Names: "decay", Read: r.decay(&h.Decay)},
			document.Field{Names: "min_samples", Read: r.Count(&h.MinSamples, 1, maxCount)},
		)
	}
}

// decay reads a factor above 0, up to 1, in units of 1/65536.
func (r *reader) decay(v *int64) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if r.Told("number above 0, up to 1; default `%.3g`", float64(*v)/(1<<16)) {
			return
		}
		f, err := strconv.ParseFloat(n.Text, 64)
		fixed := math.Round(f * (1 << 16))
		if n.Kind != document.Number || err != nil || f > 1 || fixed < 1 {
			r.Fail(n.Line, "bad-number", "%s is %s, expected a number above 0, up to 1", at, n.Describe())
			return
		}
		*v = int64(fixed)
	}
}

func (r *reader) cache(v **Cache) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		c := &Cache{TTL: defaultTTL}
		r.Table(n, at,
			document.Field{Names: "ttl_ms ttl", Read: r.Millis(&c.TTL, 1)},
			document.Field{Names: "key key_template", Read: r.keyTemplate(&c.Key)},
			document.Field{Names: "invalidate_on", Read: r.Texts(&c.InvalidateOn)},
		)
		if n.Kind == document.Table && n.Get("key key_template") == nil {
			r.Fail(n.Line, "missing", "%s has no key: add a template such as charge:{input.customer_id}", at)
		}
		*v = c
	}
}

func (r *reader) fallback(v **Fallback) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		f := &Fallback{}
		r.Table(n, at,
			document.Field{Names: "value", Read: r.fallbackValue(&f.Value), Null: true},
			document.Field{Names: "condition",
				Read: document.Word(&r.Reader, &f.AnyError, document.Is("exhausted", false), document.Is("any_error", true))},
		)
		if n.Kind == document.Table && f.Value == nil &&
			!slices.ContainsFunc(n.Pairs, func(p document.Pair) bool { return p.Key == "value" }) {
			r.Fail(n.Line, "missing", "%s has no value", at)
		}
		*v = f
	}
}

// fallbackValue reads a value that may be JSON in text; other text is used literally.
func (r *reader) fallbackValue(v **Template) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if r.Told("template") {
			return
		}
		if n.Kind == document.Text && !isPath(n.Text) {
			if inner := document.ReadText(n, r.Report); inner != nil {
				n = inner
			}
		}
		*v = r.compile(n, at, pathRules{})
	}
}

func (r *reader) classes(p *Plan) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		r.Table(n, at,
			document.Field{Names: "retryable", Read: r.Texts(&p.Retryable)},
			document.Field{Names: "fatal", Read: r.Texts(&p.Fatal)},
		)
		for _, code := range p.Fatal {
			if slices.Contains(p.Retryable, code) {
				r.Fail(n.Line, "bad-value", "%s has %s in both retryable and fatal", at, document.Quote(code))
			}
		}
	}
}
