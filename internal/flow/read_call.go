package flow

import (
	"strings"

	"github.com/floedb/floe/internal/document"
)

// callFields returns the keys for the target of a call and its retries.
func (r *reader) callFields(c *Call, rules pathRules) []document.Field {
	return []document.Field{
		{Names: "run", Read: r.target(c)},
		{Names: "input", Read: r.mapping(&c.Input, rules, false), Null: true},
		{Names: "input_mapping", Read: r.mapping(&c.Input, rules, true)},
		{Names: "retry", Read: r.retry(&c.Retry)},
		{Names: "poll", Read: r.poll(&c.Poll)},
		{Names: "timeout_ms timeout", Read: r.Millis(&c.Timeout, 1)},
	}
}

// call reads a call: a bare target or a table.
func (r *reader) call(c *Call, rules pathRules) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if n.Kind == document.Text {
			r.target(c)(n, at)
			return
		}
		r.Table(n, at, r.callFields(c, rules)...)
		r.whole(c, n, at)
	}
}

// whole reports missing and contradictory keys of a call.
func (r *reader) whole(c *Call, n *document.Node, at string) {
	if n.Kind != document.Table {
		return
	}
	if n.Get("run") == nil {
		r.Fail(n.Line, "missing", "%s has no run: name an action, plan or workflow", at)
	}
	if n.Get("input") != nil && n.Get("input_mapping") != nil {
		r.Fail(n.Get("input_mapping").Line, "duplicate-key", "%s has both input and input_mapping", at)
	}
}

const targetForms = "@actions/<name>, @plan/<name> or @workflow/<name>[:<version>]"

// target reads the target of a call.
func (r *reader) target(c *Call) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		text := ""
		if r.Told("target") {
			return
		}
		if r.Text(&text)(n, at); n.Kind != document.Text {
			return
		}
		kind, name, _ := strings.Cut(text, "/")
		switch kind {
		case "@actions":
			c.Target = TargetAction
		case "@plan":
			c.Target = TargetPlan
			r.plan(c, name, n.Line, at)
		case "@workflow":
			c.Target = TargetWorkflow
			if i := strings.LastIndexByte(name, ':'); i >= 0 {
				c.Version = name[i+1:]
				name = name[:i]
				r.CheckName(c.Version, "the version in "+at, n.Line)
			}
			if c.Version == Latest {
				c.Version = ""
			}
		default:
			r.Fail(n.Line, "bad-target", "%s is %s, expected %s%s", at, document.Quote(text), targetForms, hintTarget(text))
			return
		}
		if c.Name = name; c.Target != TargetPlan {
			r.CheckName(name, "the name in "+at, n.Line)
		}
	}
}

// hintTarget returns a hint for an invalid target.
func hintTarget(text string) string {
	switch {
	case strings.EqualFold(text, "flo.WaitForSignal"):
		return ": to wait for a signal, use waitForSignal: {type: ..., timeoutMs: ...} instead of run"
	case strings.HasPrefix(text, "@action/"):
		return " (did you mean @actions/?)"
	case strings.HasPrefix(text, "@plans/"):
		return " (did you mean @plan/?)"
	case strings.HasPrefix(text, "@workflows/"):
		return " (did you mean @workflow/?)"
	}
	return ""
}

// plan looks up a plan.
func (r *reader) plan(c *Call, name string, line int, at string) {
	i, known := r.plans[name]
	if !known {
		r.Fail(line, "unknown-plan", "%s runs unknown plan %s%s", at, document.Quote(name), r.Nearest(name, keys(r.plans)))
		return
	}
	c.Plan = i
	r.used[name] = true
}

// Defaults of a retry's keys.
const (
	defaultAttempts     = 3
	defaultInitial      = 1000
	defaultLongest      = 30_000
	defaultPolls        = 10
	defaultLongestPause = 60_000
)

func (r *reader) retry(v *Retry) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		*v = Retry{Attempts: defaultAttempts, Backoff: Backoff{Kind: BackoffExponential, Initial: defaultInitial, Max: defaultLongest}}
		r.Table(n, at,
			document.Field{Names: "max_attempts max attempts", Read: r.Count(&v.Attempts, 1, MaxAttempts)},
			document.Field{Names: "backoff", Read: r.backoff(&v.Backoff)},
			document.Field{Names: "initial_delay_ms initial_delay backoff_ms", Read: r.Millis(&v.Backoff.Initial, 0)},
			document.Field{Names: "max_delay_ms max_delay", Read: r.Millis(&v.Backoff.Max, 1)},
			document.Field{Names: "jitter_ms jitter", Read: r.Millis(&v.Backoff.Jitter, 0)},
			document.Field{Names: "within_ms within", Read: r.Millis(&v.Within, 1)},
		)
		r.longest(&v.Backoff, n, at, "initial_delay_ms")
	}
}

func (r *reader) poll(v **Poll) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		p := &Poll{First: -1, Attempts: defaultPolls,
			Backoff: Backoff{Kind: BackoffExponential, Initial: defaultInitial, Max: defaultLongestPause}}
		r.Table(n, at,
			document.Field{Names: "initial_delay_ms initial_delay", Read: r.Millis(&p.First, 0)},
			document.Field{Names: "max_attempts max attempts", Read: r.Count(&p.Attempts, 1, MaxAttempts)},
			document.Field{Names: "backoff", Read: r.backoff(&p.Backoff)},
			document.Field{Names: "base_delay_ms base_delay backoff_ms", Read: r.Millis(&p.Backoff.Initial, 0)},
			document.Field{Names: "max_delay_ms max_delay", Read: r.Millis(&p.Backoff.Max, 1)},
			document.Field{Names: "jitter_ms jitter", Read: r.Millis(&p.Backoff.Jitter, 0)},
		)
		if p.First < 0 {
			p.First = p.Backoff.Initial
		}
		r.longest(&p.Backoff, n, at, "base_delay_ms")
		*v = p
	}
}

// longest raises the default limit to the first pause, and rejects an explicit limit below it.
func (r *reader) longest(b *Backoff, n *document.Node, at, first string) {
	switch {
	case b.Max >= b.Initial:
	case n.Get("max_delay_ms max_delay") == nil:
		b.Max = b.Initial
	default:
		r.Fail(n.Get("max_delay_ms max_delay").Line, "bad-value", "max_delay_ms of %s is %d ms, which is below %s (%d ms)", at, b.Max,
			first, b.Initial)
	}
}

// backoffs lists the kinds by name, in the order in which prefixes are matched.
var backoffs = []document.Choice[BackoffKind]{
	document.Is("exponential-jitter", BackoffExponentialJitter), document.Is("exp-jitter", BackoffExponentialJitter),
	document.Is("exponential", BackoffExponential), document.Is("exp", BackoffExponential),
	document.Is("linear", BackoffLinear), document.Is("constant", BackoffFixed), document.Is("fixed", BackoffFixed),
}

// backoffName returns a kind's name for messages.
func backoffName(kind BackoffKind) (name string) {
	for _, c := range backoffs {
		if c.Value == kind && len(c.Words) > len(name) {
			name = c.Words
		}
	}
	return name
}

// backoff reads a kind with an optional time: exp-jitter-200ms is exponential with 200 ms of
// jitter, constant-500ms has pauses of 500 ms.
func (r *reader) backoff(b *Backoff) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if r.Told("text; default `%s`", backoffName(b.Kind)) {
			return
		}
		text := document.Dashed(n.Text)
		for _, kind := range backoffs {
			rest, ok := strings.CutPrefix(text, kind.Words)
			if n.Kind != document.Text || !ok {
				continue
			}
			b.Kind = kind.Value
			if rest == "" {
				return
			}
			ms, ok := document.Duration(strings.TrimPrefix(rest, "-"))
			switch {
			case !ok || rest[0] != '-' || ms < 0 || ms > document.MaxMillis:
			case kind.Value == BackoffExponentialJitter:
				b.Jitter = ms
				return
			default:
				b.Initial = ms
				return
			}
			break
		}
		r.Fail(n.Line, "bad-value", "%s is %s, expected constant, linear, exponential, exponential_jitter or exp-jitter-<duration>", at,
			n.Describe())
	}
}
