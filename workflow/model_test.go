package workflow_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// model interprets a scenario.
type model struct {
	*scenario
	ties  bool // two events at the same time: their order is undefined
	depth int  // nesting of children
	runs  []string
}

const everGen = int64(1) << 60

// errorGen replaces the machine's output for an error.
const errorGen = `"error"`

// ended is the end of a call, or of an attempt.
type ended struct {
	at                      int64
	outcome, code, output   string // output is JSON
	bad, ambiguous, refused bool
	cut                     bool // it was ended by its limit
}

// course records the effects of a call over time.
type course struct {
	n        int
	open     []spanGen // spans in which it may have had an unreported effect
	kids     []kidGen
	handlers []handlerGen // handlers still running after the end of their calls
	work     []workGen
}

type spanGen struct {
	from, to int64
	open     bool
}

type kidGen struct {
	def      string
	input    string
	from, to int64 // until its end, or until it is cancelled
}

type handlerGen struct{ from, to int64 }

// workGen is a handler: its start, the end of its attempt, and its return.
type workGen struct{ from, to, back int64 }

// patienceGen is the wait for a handler whose call has ended.
const patienceGen = 60_000

// cutAt returns the handlers that are running when a call is given up at a time.
func (c *course) cutAt(at int64) (handlers []handlerGen) {
	for _, h := range c.handlers {
		if h.from <= at {
			handlers = append(handlers, h)
		}
	}
	for _, w := range c.work {
		if w.from <= at && at < w.to {
			handlers = append(handlers, handlerGen{at, min(w.back, at+patienceGen)})
		}
	}
	return handlers
}

// isOpen reports whether a call that is given up at a time may have had an effect.
func (m *model) isOpen(c *course, at int64) (open bool) {
	for _, s := range c.open {
		m.ties = m.ties || s.from == at || s.to == at
		open = open || s.open && s.from < at && at < s.to
	}
	return open
}

func (m *model) before(a, b int64) bool {
	m.ties = m.ties || a == b
	return a < b
}

func refusal(at int64, outcome string) ended {
	return ended{at: at, outcome: outcome, code: outcome, output: errorGen, bad: true, refused: true}
}

// try makes an attempt, which a limit may end.
func (m *model) try(c *callGen, c2 *course, key, input string, at, limit int64, tries int) (e ended) {
	if c.timeout > 0 {
		m.ties = m.ties || limit == at+c.timeout
		limit = min(limit, at+c.timeout)
	}
	defer func() { c2.open = append(c2.open, spanGen{at, e.at, true}) }()
	late := ended{at: limit, outcome: "timeout", code: "timeout", output: errorGen, bad: true, ambiguous: true, cut: true}
	if kid, ok := strings.CutPrefix(c.target, "@workflow/"); ok {
		m.depth++
		r := m.run(m.defs[kid], input, at, everGen)
		m.depth--
		k := kidGen{kid, input, at, r.at}
		if !m.before(r.at, limit) {
			k.to = limit
			c2.kids = append(c2.kids, k)
			return late
		}
		c2.kids = append(c2.kids, k)
		if r.status == "completed" {
			return ended{at: r.at, outcome: "success", output: r.output}
		}
		return ended{at: r.at, outcome: r.status, output: errorGen, bad: true, refused: r.status == "cancelled", ambiguous: r.suspect}
	}
	switch c.target {
	case "@actions/none":
		return refusal(at, "target_not_found")
	case "@actions/off":
		return refusal(at, "target_disabled")
	}
	own := int64(ownTimeout)
	if c.timeout > 0 {
		own = c.timeout
	}
	suspect := false
	for t, k := at, 1; ; k++ {
		c2.n++
		f := m.fate(key, c2.n)
		end, back := t+f.after, t+f.after
		switch f.kind {
		case "silent":
			end, back = t+own, everGen
		case "cancel":
			back = t + 2*f.after
		}
		m.ties = m.ties || m.depth > 0 && f.kind == "silent" && end == limit && k < tries // either of two timers may be first
		c2.work = append(c2.work, workGen{t, min(end, limit), back})
		if end > limit || end == limit && f.kind == "silent" {
			c2.handlers = append(c2.handlers, handlerGen{limit, min(back, limit+patienceGen)})
			return late
		}
		m.before(end, limit)
		r := ended{at: end, outcome: "failure", output: errorGen, bad: true, ambiguous: suspect}
		switch f.kind {
		case "succeed":
			return ended{at: end, outcome: "success", output: outputGen(key, c2.n)}
		case "odd", "pending":
			return ended{at: end, outcome: f.kind, output: outputGen(key, c2.n)}
		case "failure":
			r.output = outputGen(key, c2.n)
			return r
		case "refuse":
			r.code, r.refused = "bad", true
			return r
		case "cancel":
			c2.handlers = append(c2.handlers, handlerGen{end, min(back, end+patienceGen)})
			return ended{at: end, outcome: "cancelled", code: "cancelled", output: errorGen, bad: true, ambiguous: true, refused: true}
		case "fail":
			r.code = "busy"
		case "silent":
			r.outcome, r.code, r.ambiguous = "timeout", "timeout", true
		}
		if k >= tries {
			if f.kind == "silent" {
				c2.handlers = append(c2.handlers, handlerGen{end, end + patienceGen})
			}
			return r
		}
		suspect = suspect || f.kind == "silent"
		t = end
	}
}

// make makes a call with all its attempts and polls.
func (m *model) make(f *flowGen, c *callGen, key, input string, at int64) (e ended, way *course) {
	way = &course{}
	suspect := false
	tries := 1
	if c.attempts == 0 && c.polls == 0 {
		tries += ownRetries[c.target]
	}
	for t, attempt := at, int64(1); ; attempt++ {
		for polls := int64(0); ; polls++ {
			if plan, ok := strings.CutPrefix(c.target, "@plan/"); ok {
				before := len(way.open)
				e = m.plan(f.plans[plan], c, way, key, input, t)
				for i := range way.open[before:] {
					way.open[before+i].open = way.open[before+i].open || suspect
				}
			} else {
				e = m.try(c, way, key, input, t, everGen, tries)
			}
			if e.outcome != "pending" || c.polls == 0 {
				break
			}
			if polls == c.polls {
				return ended{at: e.at, outcome: "timeout", output: errorGen, bad: true, ambiguous: true}, way
			}
			t = e.at + c.base
			if polls == 0 {
				t = e.at + c.first
			}
			way.open = append(way.open, spanGen{e.at, t, true})
		}
		suspect = suspect || e.ambiguous
		if !e.bad || e.refused || attempt >= c.attempts {
			e.ambiguous, e.cut = suspect, false
			return e, way
		}
		t = e.at + c.pause
		way.open = append(way.open, spanGen{e.at, t, suspect})
	}
}

// plan executes a plan.
func (m *model) plan(p *planGen, c *callGen, way *course, key, input string, at int64) ended {
	deadline := everGen
	if c.timeout > 0 {
		deadline = at + c.timeout
	}
	suspect, fatal := false, false
	var e ended
	t := at
	for i := range p.executors {
		x := &p.executors[i]
		for k := int64(1); ; k++ {
			e = m.try(x, way, key, input, t, deadline, 1)
			if e.cut && e.at == deadline {
				return e
			}
			listed := func(list []string) bool {
				return slices.Contains(list, e.outcome) || e.code != "" && slices.Contains(list, e.code)
			}
			fatal = false
			again := false
			switch {
			case e.outcome == "cancelled":
			case listed(p.fatal):
				fatal = true
			case listed(p.retryable):
				again = true
			case !e.bad:
				return e
			default:
				again = len(p.retryable) == 0
			}
			suspect = suspect || e.ambiguous
			if p.fallback == "any_error" {
				return ended{at: e.at, outcome: "success", output: `"fallback"`, ambiguous: suspect}
			}
			if e.outcome == "cancelled" {
				e.ambiguous, e.refused = suspect, true
				return e
			}
			if !again || e.refused || k >= x.attempts {
				break
			}
			t = e.at + x.pause
			if !m.before(t, deadline) {
				way.open = append(way.open, spanGen{e.at, deadline, suspect})
				return ended{at: deadline, outcome: "timeout", code: "timeout", output: errorGen, bad: true, ambiguous: suspect}
			}
			way.open = append(way.open, spanGen{e.at, t, suspect})
		}
		t = e.at
	}
	if p.fallback != "" {
		return ended{at: e.at, outcome: "success", output: `"fallback"`, ambiguous: suspect}
	}
	return ended{at: e.at, outcome: "exhausted", code: e.code, output: errorGen, bad: true, ambiguous: suspect, refused: fatal}
}

// fan makes the calls of a parallel step, up to a given time. done lists the calls that had an
// effect.
func (m *model) fan(f *flowGen, t *stepGen, key, input string, at, until int64) (e ended, way *course) {
	way = &course{}
	var calls []*callGen
	var inputs []string
	if t.kind == "each" {
		var in struct{ Items []json.RawMessage }
		if err := json.Unmarshal([]byte(m.input), &in); err != nil {
			panic(err)
		}
		for _, item := range in.Items {
			calls, inputs = append(calls, &t.branches[0]), append(inputs, string(item))
		}
	} else {
		for i := range t.branches {
			calls, inputs = append(calls, &t.branches[i]), append(inputs, input)
		}
	}
	need := len(calls)
	if t.any > 0 {
		need = min(t.any, need)
	}
	type branch struct {
		e    ended
		way  *course
		over bool
	}
	all := make([]*branch, len(calls))
	started, running, good, bad := 0, 0, 0, 0
	now, touched, cut := at, false, false
	for good < need && len(calls)-bad >= need {
		for started < len(calls) && (t.most == 0 || running < t.most) {
			b := &branch{}
			b.e, b.way = m.make(f, calls[started], fmt.Sprintf("%s[%d]", key, started), inputs[started], now)
			all[started] = b
			started++
			running++
		}
		next := -1
		for i, b := range all[:started] {
			if !b.over && (next < 0 || b.e.at < all[next].e.at) {
				next = i
			}
		}
		for i, b := range all[:started] {
			m.ties = m.ties || i != next && !b.over && b.e.at == all[next].e.at && b.e.at > now
		}
		b := all[next]
		if !m.before(b.e.at, until) {
			now, cut = until, true
			break
		}
		now = b.e.at
		b.over = true
		running--
		touched = touched || !b.e.bad || b.e.ambiguous
		if b.e.bad {
			bad++
		} else {
			good++
		}
	}
	outputs := make([]string, len(calls))
	for i, b := range all {
		if outputs[i] = "null"; b != nil && b.over && !b.e.bad {
			outputs[i] = b.e.output
		}
		if t.kind == "branches" {
			outputs[i] = fmt.Sprintf(`"b%d":%s`, i, outputs[i])
		}
		if b == nil {
			continue
		}
		for _, k := range b.way.kids {
			if k.to = min(k.to, now); b.over || k.from <= now {
				way.kids = append(way.kids, k)
			}
		}
		for _, h := range b.way.handlers {
			if h.from <= now {
				way.handlers = append(way.handlers, h)
			}
		}
		if !b.over {
			for _, s := range b.way.open { // those that have just started are open as well
				touched = touched || s.open && s.from <= now && now < s.to
				m.ties = m.ties || s.to == now || s.from == now && now > at && s.from != b.way.open[0].from
				if s.from < now && now < s.to { // its handler may run for a while
					m.ties = m.ties || strings.HasPrefix(f.name, "kid")
				}
			}
		}
	}
	e = ended{at: now, outcome: "success", output: "{" + strings.Join(outputs, ",") + "}", cut: cut}
	if t.kind == "each" {
		e.output = "[" + strings.Join(outputs, ",") + "]"
	}
	if good < need || cut {
		e.outcome, e.bad, e.ambiguous = "failure", true, touched
	}
	return e, way
}

// undoGen is a visit that must be compensated.
type undoGen struct {
	step           *stepGen
	visit          int
	input, outcome string
	output         string
	handlers       []handlerGen
}

// ranGen is the result of a run.
type ranGen struct {
	at             int64
	status, output string
	text           string // everything visible of it
	suspect        bool   // it was cut off with possible effects left uncompensated
	kids           []kidGen
}

// outcomesGen are the targets of outcomes without a transition.
var outcomesGen = map[string]string{
	"cancelled": "failure", "execution_failure": "failure", "exhausted": "failure", "failed": "failure", "output_too_large": "failure",
	"skipped":         "success",
	"target_disabled": "execution_failure", "target_not_found": "execution_failure", "timed_out": "failure", "timeout": "failure",
}

// run runs a definition, until it is cancelled.
func (m *model) run(f *flowGen, input string, at, cancel int64) (r ranGen) {
	end, how := cancel, "cancelled"
	if f.timeout > 0 && at+f.timeout <= cancel {
		m.ties = m.ties || at+f.timeout == cancel
		end, how = at+f.timeout, "timed_out"
	}
	type last struct{ outcome, output string }
	ended_ := make(map[string]last)
	taken := make([]bool, len(m.signals))
	var undo []undoGen
	var path []string
	var kids []kidGen
	now, step, visit := at, f.steps[0], 0
	cut, bare := false, false // bare: a step was taken that makes a call and has no compensation
	n := member(input, "n")
	for r.status == "" {
		if visit++; visit > maxStepsGen {
			r.status = "failed"
			break
		}
		var e ended
		way := &course{}
		sent := input
		outcome := ""
		if step.when != "" && (step.when == "false" || ended_[step.when].outcome != "success") {
			path = append(path, step.name+": skipped")
			ended_[step.name] = last{"skipped", "null"}
			outcome = "skipped"
			m.before(now, end)
		} else {
			key := fmt.Sprintf("%s#%d", step.name, visit)
			bare = bare || step.undo == "" && step.kind != "sleep" && step.kind != "wait"
			switch step.kind {
			case "call":
				if step.input != "" {
					was := "null"
					if o := ended_[step.input].outcome; o != "" {
						was = fmt.Sprintf("%q", o)
					}
					sent = fmt.Sprintf(`{"n":%s,"last":%s,"was":%s}`, n, member(ended_[step.input].output, "k"), was)
				}
				e, way = m.make(f, &step.call, key, sent, now)
				if !m.before(e.at, end) {
					e.cut, e.ambiguous, e.output = true, m.isOpen(way, end), "null"
				}
			case "branches", "each":
				e, way = m.fan(f, step, key, input, now, end)
			case "sleep":
				e = ended{at: now + step.ms, outcome: "success", output: "null"}
			case "wait":
				e = m.await(step, taken, now, at)
			}
			if !m.before(e.at, end) {
				e.cut = true
			}
			stop := min(e.at, end)
			for _, k := range way.kids {
				m.ties = m.ties || k.from == stop && stop > now
				if k.from <= stop {
					k.to = min(k.to, stop)
					kids = append(kids, k)
				}
			}
			if e.cut {
				way.handlers = way.cutAt(stop)
				if step.undo != "" && e.ambiguous {
					undo = append(undo, undoGen{step, visit, sent, how, e.output, way.handlers})
				}
				r.status, now, cut = how, end, true
				break
			}
			now = e.at
			path = append(path, step.name+": "+e.outcome)
			ended_[step.name] = last{e.outcome, e.output}
			if e.bad && (step.kind == "branches" || step.kind == "each") {
				ended_[step.name] = last{e.outcome, errorGen}
			}
			if step.undo != "" && (!e.bad || e.ambiguous) {
				undo = append(undo, undoGen{step, visit, sent, e.outcome, e.output, way.handlers})
			}
			outcome = e.outcome
		}
		to := ""
		for o := outcome; o != "" && to == ""; o = outcomesGen[o] {
			to = step.to[o]
			if step.kind == "wait" && o == "timeout" && to == "" {
				to = cmp.Or(step.onTimeout, "flo.TimedOut")
			}
		}
		switch i := slices.IndexFunc(f.steps, func(s *stepGen) bool { return s.name == to }); {
		case to == "":
			r.status = "failed"
		case i >= 0:
			step = f.steps[i]
		default:
			r.status = endsGen[to]
		}
	}
	text := []string{ranText(f.name, input, r.status, path)}
	if r.output = "null"; r.status == "completed" {
		r.output = ended_[step.name].output
		text = append(text, "output "+plainly(r.output))
	} else {
		for _, u := range slices.Backward(undo) {
			for _, h := range u.handlers {
				now = max(now, h.to)
			}
			data := fmt.Sprintf(`{"input":%s,"output":%s}`, u.input, u.output)
			if u.step.undo == "own" {
				data = fmt.Sprintf(`{"k":%s,"o":%q,"n":%s}`, member(u.output, "k"), u.outcome, n)
			}
			text = append(text, fmt.Sprintf("undo %s#%d with %s", u.step.name, u.visit, plainly(data)))
			bare = bare || m.fate(fmt.Sprintf("%s#%d%s", u.step.name, u.visit, undoOf), 1).kind == "refuse"
		}
	}
	r.suspect = cut && bare
	r.at, r.text, r.kids = now, strings.Join(text, "; "), kids
	return r
}

// ranText describes the result of a run, without its output and compensations.
func ranText(name, input, status string, path []string) string {
	return fmt.Sprintf("%s %s is %s: %s", name, plainly(input), status, strings.Join(path, ", "))
}

// await waits for a signal.
func (m *model) await(t *stepGen, taken []bool, now, begin int64) ended {
	for i, s := range m.signals {
		at := begin + s.at
		if m.ties = m.ties || at == now; taken[i] || s.kind != t.signal {
			continue
		}
		if at > now && !m.before(at, now+t.ms) {
			break
		}
		taken[i] = true
		e := ended{at: max(at, now), outcome: "success", output: s.payload}
		if strings.Contains(s.payload, "odd") && (t.to["odd"] != "" || t.onTimeout == "odd") {
			e.outcome = "odd"
		}
		return e
	}
	if t.onTimeout == "odd" {
		return ended{at: now + t.ms, outcome: t.onTimeout, output: "null"}
	}
	return ended{at: now + t.ms, outcome: "timeout", output: errorGen, bad: true, ambiguous: false}
}

// all records the expected results of a run and its children.
func (m *model) all(r ranGen) {
	m.runs = append(m.runs, r.text)
	for _, k := range r.kids {
		m.all(m.run(m.defs[k.def], k.input, k.from, k.to))
	}
}

// member returns a member of a JSON object, or null if it is absent.
func member(object, name string) string {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &o) != nil || o[name] == nil {
		return "null"
	}
	return string(o[name])
}

// plainly returns JSON with the machine's texts about errors replaced by "error".
func plainly(text string) string {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	b, err := json.Marshal(withoutErrors(v))
	if err != nil {
		panic(err)
	}
	return string(b)
}

func withoutErrors(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutErrors(v[i])
		}
	case map[string]any:
		if v["error"] != nil {
			return "error"
		}
		for k := range v {
			v[k] = withoutErrors(v[k])
		}
	}
	return v
}
