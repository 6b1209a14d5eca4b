package flow

import "strings"

// callFields are the keys that say what is run, and how often it is tried.
func (r *reader) callFields(c *Call, rules pathRules) []field {
	return []field{
		{names: "run", read: r.target(c)},
		{names: "input", read: r.mapping(&c.Input, rules, false), null: true},
		{names: "input_mapping", read: r.mapping(&c.Input, rules, true)},
		{names: "retry", read: r.retry(&c.Retry)},
		{names: "poll", read: r.poll(&c.Poll)},
		{names: "timeout_ms timeout", read: r.millis(&c.Timeout, 1)},
	}
}

// call reads a call: a target alone, or a table.
func (r *reader) call(c *Call, rules pathRules) func(*node, string) {
	return func(n *node, at string) {
		if n.kind == nodeText {
			r.target(c)(n, at)
			return
		}
		r.table(n, at, r.callFields(c, rules)...)
		r.whole(c, n, at)
	}
}

// whole says what a call lacks, and what it says twice.
func (r *reader) whole(c *Call, n *node, at string) {
	if n.kind != nodeTable {
		return
	}
	if n.get("run") == nil {
		r.fail(n.line, "missing", "%s has no run: name an action, plan or workflow", at)
	}
	if n.get("input") != nil && n.get("input_mapping") != nil {
		r.fail(n.get("input_mapping").line, "duplicate-key", "input and input_mapping in %s say the same", at)
	}
}

// get returns the value of a key in either spelling, nil if it is not there or null.
func (n *node) get(name string) *node {
	f := field{names: name}
	for i := range n.pairs {
		if f.is(n.pairs[i].key) && n.pairs[i].value.kind != nodeNull {
			return n.pairs[i].value
		}
	}
	return nil
}

const targetForms = "@actions/<name>, @plan/<name> or @workflow/<name>[:<version>]"

// target reads what is run.
func (r *reader) target(c *Call) func(*node, string) {
	return func(n *node, at string) {
		text := ""
		if r.text(&text)(n, at); n.kind != nodeText {
			return
		}
		kind, name, _ := strings.Cut(text, "/")
		switch kind {
		case "@actions":
			c.Target = TargetAction
		case "@plan":
			c.Target = TargetPlan
			r.plan(c, name, n.line, at)
		case "@workflow":
			c.Target = TargetWorkflow
			if i := strings.LastIndexByte(name, ':'); i >= 0 {
				c.Version = name[i+1:]
				name = name[:i]
				r.checkName(c.Version, "the version in "+at, n.line)
			}
			if c.Version == "latest" {
				c.Version = ""
			}
		default:
			r.fail(n.line, "bad-target", "%s is %s, expected %s%s", at, quote(text), targetForms, hintTarget(text))
			return
		}
		if c.Name = name; c.Target != TargetPlan {
			r.checkName(name, "the name in "+at, n.line)
		}
	}
}

// hintTarget says what may be meant by a target that is none.
func hintTarget(text string) string {
	switch {
	case strings.EqualFold(text, "flo.WaitForSignal"):
		return ": a step that waits for a signal has waitForSignal: {type: ..., timeoutMs: ...} instead of run"
	case strings.HasPrefix(text, "@action/"):
		return " (did you mean @actions/?)"
	case strings.HasPrefix(text, "@plans/"):
		return " (did you mean @plan/?)"
	case strings.HasPrefix(text, "@workflows/"):
		return " (did you mean @workflow/?)"
	}
	return ""
}

// plan looks a plan up.
func (r *reader) plan(c *Call, name string, line int, at string) {
	i, known := r.plans[name]
	if !known {
		r.fail(line, "unknown-plan", "%s runs plan %s, which is not there%s", at, quote(name), r.nearest(name, keys(r.plans)))
		return
	}
	c.Plan = i
	r.used[name] = true
}

// What a retry says when it leaves a key out.
const (
	defaultAttempts     = 3
	defaultInitial      = 1000
	defaultLongest      = 30_000
	defaultPolls        = 10
	defaultLongestPause = 60_000
)

func (r *reader) retry(v *Retry) func(*node, string) {
	return func(n *node, at string) {
		*v = Retry{Attempts: defaultAttempts, Backoff: Backoff{Kind: BackoffExponential, Initial: defaultInitial, Max: defaultLongest}}
		r.table(n, at,
			field{names: "max_attempts max attempts", read: r.count(&v.Attempts, 1, MaxAttempts)},
			field{names: "backoff", read: r.backoff(&v.Backoff)},
			field{names: "initial_delay_ms initial_delay backoff_ms", read: r.millis(&v.Backoff.Initial, 0)},
			field{names: "max_delay_ms max_delay", read: r.millis(&v.Backoff.Max, 1)},
			field{names: "jitter_ms jitter", read: r.millis(&v.Backoff.Jitter, 0)},
			field{names: "within_ms within", read: r.millis(&v.Within, 1)},
		)
		r.longest(&v.Backoff, n, at, "initial_delay_ms")
	}
}

func (r *reader) poll(v **Poll) func(*node, string) {
	return func(n *node, at string) {
		p := &Poll{First: -1, Attempts: defaultPolls, Backoff: Backoff{Kind: BackoffExponential, Initial: defaultInitial, Max: defaultLongestPause}}
		r.table(n, at,
			field{names: "initial_delay_ms initial_delay", read: r.millis(&p.First, 0)},
			field{names: "max_attempts max attempts", read: r.count(&p.Attempts, 1, MaxAttempts)},
			field{names: "backoff", read: r.backoff(&p.Backoff)},
			field{names: "base_delay_ms base_delay backoff_ms", read: r.millis(&p.Backoff.Initial, 0)},
			field{names: "max_delay_ms max_delay", read: r.millis(&p.Backoff.Max, 1)},
			field{names: "jitter_ms jitter", read: r.millis(&p.Backoff.Jitter, 0)},
		)
		if p.First < 0 {
			p.First = p.Backoff.Initial
		}
		r.longest(&p.Backoff, n, at, "base_delay_ms")
		*v = p
	}
}

// longest sets a limit that is below the first pause only because nobody said it, and refuses others.
func (r *reader) longest(b *Backoff, n *node, at, first string) {
	switch {
	case b.Max >= b.Initial:
	case n.get("max_delay_ms max_delay") == nil:
		b.Max = b.Initial
	default:
		r.fail(n.get("max_delay_ms max_delay").line, "bad-value", "max_delay_ms of %s is %d ms, which is below %s (%d ms)", at, b.Max, first, b.Initial)
	}
}

// backoffs are the kinds by name, in the order in which they are looked for at the beginning of a text.
var backoffs = []choice[BackoffKind]{
	{"exponential-jitter", BackoffExponentialJitter}, {"exp-jitter", BackoffExponentialJitter},
	{"exponential", BackoffExponential}, {"exp", BackoffExponential},
	{"linear", BackoffLinear}, {"constant", BackoffFixed}, {"fixed", BackoffFixed},
}

// backoff reads a kind, with a time behind it or not: exp-jitter-200ms is exponential with 200 ms of jitter, constant-500ms has pauses of 500 ms.
func (r *reader) backoff(b *Backoff) func(*node, string) {
	return func(n *node, at string) {
		text := dashed(n.text)
		for _, kind := range backoffs {
			rest, ok := strings.CutPrefix(text, kind.words)
			if n.kind != nodeText || !ok {
				continue
			}
			b.Kind = kind.value
			if rest == "" {
				return
			}
			ms, ok := duration(strings.TrimPrefix(rest, "-"))
			switch {
			case !ok || rest[0] != '-' || ms < 0 || ms > maxMillis:
			case kind.value == BackoffExponentialJitter:
				b.Jitter = ms
				return
			default:
				b.Initial = ms
				return
			}
			break
		}
		r.fail(n.line, "bad-value", "%s is %s, expected constant, linear, exponential, exponential_jitter or exp-jitter-<duration>", at, n.describe())
	}
}
