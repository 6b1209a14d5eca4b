package workflow_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/quota"
	"github.com/floedb/floe/internal/rig"
	"github.com/floedb/floe/workflow"
)

// A scenario is random definitions, and all that happens to a run of the first of them: what comes of each call, signals, and a cancel. What has to come of it is
// computed twice: by the machine, see TestDefinitions, and by a model that reads REFERENCE.md and knows no rows, entries or timers.
type scenario struct {
	seed    uint64
	defs    map[string]*flowGen
	main    *flowGen
	input   string
	cancel  int64 // when it is cancelled, since its start
	signals []signalGen
}

type flowGen struct {
	name    string
	timeout int64
	steps   []*stepGen
	plans   map[string]*planGen
}

type stepGen struct {
	name      string
	kind      string // call, branches, each, wait or sleep
	when      string // false, or a step that has to have been successful
	call      callGen
	branches  []callGen // of each: one
	any, most int
	signal    string
	onTimeout string
	ms        int64  // of sleep, and the timeout of wait
	undo      string // "", default or own
	input     string // the step that the input is about
	to        map[string]string
}

type callGen struct {
	target      string // with its kind in front of it
	timeout     int64
	attempts    int64
	pause       int64
	polls       int64
	first, base int64
}

type planGen struct {
	executors        []callGen
	fallback         string
	retryable, fatal []string
}

type signalGen struct {
	at      int64
	kind    string
	payload string
}

// maxStepsGen bounds the steps of runs of scenarios, which loop often.
const maxStepsGen = 9

// Ends of all definitions, with their states.
var endsGen = map[string]string{
	"flo.Completed": "completed", "flo.Failed": "failed", "flo.Cancelled": "cancelled", "flo.TimedOut": "timed_out", "fine": "completed", "bad": "failed",
}

func newScenario(seed uint64) *scenario {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := &scenario{seed: seed, defs: make(map[string]*flowGen), cancel: -1}
	s.add(rng, "kid", 2+rng.IntN(2), true)
	s.add(rng, "plain", 1+rng.IntN(3), false)
	s.main = s.add(rng, "main", 2+rng.IntN(5), true)
	s.input = fmt.Sprintf(`{"n":%d,"items":[%s]}`, rng.IntN(9), []string{"", "1", "1,2", "1,2,3,4"}[rng.IntN(4)])
	if rng.IntN(3) == 0 {
		s.cancel = 1 + rng.Int64N(20_000)
	}
	for range rng.IntN(4) {
		s.signals = append(s.signals, signalGen{1 + rng.Int64N(15_000), pick(rng, "go", "stop"), pick(rng, `1`, `{"outcome":"odd"}`, `{"k":"signal"}`)})
	}
	slices.SortFunc(s.signals, func(a, b signalGen) int { return cmp.Compare(a.at, b.at) })
	return s
}

func pick(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }

// some returns a number of a range, or 0 as often as says one in so many.
func some(rng *rand.Rand, one int, from, to int64) int64 {
	if rng.IntN(one) != 0 {
		return 0
	}
	return from + rng.Int64N(to-from)
}

// add makes a definition. What undoes says whether steps are compensated.
func (s *scenario) add(rng *rand.Rand, name string, steps int, undoes bool) *flowGen {
	f := &flowGen{name: name, plans: make(map[string]*planGen), timeout: some(rng, 4, 500, 25_000)}
	s.defs[name] = f
	var places []string
	for i := range steps {
		f.steps = append(f.steps, &stepGen{name: fmt.Sprintf("s%d", i), to: make(map[string]string)})
		places = append(places, f.steps[i].name)
	}
	f.steps[0].name, places[0] = "_start", "_start"
	for end := range endsGen {
		places = append(places, end)
	}
	slices.Sort(places[steps:])
	for i, t := range f.steps {
		next := "flo.Completed"
		if i+1 < steps {
			next = f.steps[i+1].name
		}
		if t.to["success"] = next; rng.IntN(4) == 0 {
			t.to["success"] = pick(rng, places...)
		}
		for _, outcome := range []string{"failure", "timeout", "odd", "cancelled", "exhausted", "skipped", "timed_out", "target_not_found"} {
			if n := rng.IntN(6); outcome == "failure" && n < 4 || n == 0 {
				t.to[outcome] = pick(rng, places...)
			}
		}
		if rng.IntN(6) == 0 {
			t.when = pick(rng, append(places[:steps:steps], "false")...)
		}
		kind := rng.IntN(10)
		if name != "main" {
			kind = rng.IntN(7)
		}
		switch {
		case kind < 6:
			t.kind = "call"
			if t.call = s.call(rng, f, name == "main"); rng.IntN(2) == 0 {
				t.input = pick(rng, places[:steps]...)
			}
		case kind == 6:
			t.kind, t.ms = "sleep", some(rng, 2, 1, 3000)
		case kind == 7:
			t.kind, t.signal, t.ms = "wait", pick(rng, "go", "stop"), 1+rng.Int64N(9000)
			if rng.IntN(2) == 0 {
				t.onTimeout = pick(rng, places...)
			}
			if rng.IntN(4) == 0 { // what is called as an outcome is one
				t.onTimeout = "odd"
				t.to["odd"] = pick(rng, places...)
			}
			if t.onTimeout != "" {
				delete(t.to, "timeout") // which would lead elsewhere
			}
		case kind == 8:
			t.kind = "each"
			t.branches = []callGen{s.branch(rng, f, false)}
			t.any, t.most = rng.IntN(3), rng.IntN(4)
		default:
			t.kind = "branches"
			lost := true
			for range 1 + rng.IntN(4) {
				c := s.branch(rng, f, lost)
				lost = lost && !c.lost()
				t.branches = append(t.branches, c)
			}
			t.any, t.most = rng.IntN(min(2, len(t.branches))+1), rng.IntN(4)
		}
		if undoes && t.kind != "sleep" && t.kind != "wait" && rng.IntN(4) != 0 {
			t.undo = pick(rng, "default", "default", "own")
		}
	}
	return f
}

// lost reports whether the target can not be called.
func (c *callGen) lost() bool { return c.target == "@actions/none" || c.target == "@actions/off" }

func (s *scenario) target(rng *rand.Rand, kid string) string {
	switch n := rng.IntN(20); {
	case n == 0:
		return "@actions/none"
	case n == 1:
		return "@actions/off"
	case n < 6 && kid != "":
		return "@workflow/" + kid
	}
	return pick(rng, "@actions/a", "@actions/b", "@actions/b")
}

// call makes a call of a step.
func (s *scenario) call(rng *rand.Rand, f *flowGen, kids bool) callGen {
	kid := ""
	if kids {
		kid = "kid"
	}
	c := callGen{target: s.target(rng, kid), timeout: some(rng, 2, 500, 4000)}
	if rng.IntN(4) == 0 {
		c.target = "@plan/" + s.plan(rng, f, kid)
	}
	if rng.IntN(2) == 0 {
		c.attempts, c.pause = 1+rng.Int64N(3), 1+rng.Int64N(2000)
	}
	if strings.HasPrefix(c.target, "@actions/") && rng.IntN(3) == 0 {
		c.polls, c.first, c.base = 1+rng.Int64N(2), 1+rng.Int64N(2000), 1+rng.Int64N(2000)
	}
	return c
}

// branch makes a call of a parallel step.
func (s *scenario) branch(rng *rand.Rand, f *flowGen, lost bool) callGen {
	for {
		c := s.call(rng, f, false)
		if rng.IntN(4) == 0 {
			c = callGen{target: "@workflow/plain", timeout: some(rng, 2, 500, 4000)}
		}
		if strings.HasPrefix(c.target, "@plan/") || c.lost() && !lost {
			continue
		}
		return c
	}
}

func (s *scenario) plan(rng *rand.Rand, f *flowGen, kid string) string {
	p := &planGen{fallback: pick(rng, "", "", "exhausted", "any_error")}
	if rng.IntN(3) == 0 {
		p.retryable = []string{pick(rng, "busy", "timeout", "odd")}
	}
	if rng.IntN(3) == 0 {
		p.fatal = []string{pick(rng, "bad", "busy", "target_not_found", "timeout")}
	}
	if slices.Equal(p.fatal, p.retryable) {
		p.fatal = nil
	}
	if p.retryable != nil || p.fatal != nil {
		kid = ""
	}
	for range 1 + rng.IntN(3) {
		c := callGen{target: s.target(rng, kid), timeout: some(rng, 2, 500, 4000)}
		if rng.IntN(2) == 0 {
			c.attempts, c.pause = 1+rng.Int64N(3), 1+rng.Int64N(2000)
		}
		p.executors = append(p.executors, c)
	}
	name := fmt.Sprintf("p%d", len(f.plans))
	f.plans[name] = p
	return name
}

// source writes a definition.
func (f *flowGen) source() []byte {
	steps := make(map[string]any)
	for _, t := range f.steps {
		steps[t.name] = t.source()
	}
	d := map[string]any{
		"name": f.name, "max_steps": maxStepsGen, "start": steps["_start"], "steps": steps, "terminals": map[string]string{"fine": "completed", "bad": "failed"},
	}
	delete(steps, "_start")
	if f.timeout > 0 {
		d["timeout_ms"] = f.timeout
	}
	plans := make(map[string]any)
	for name, p := range f.plans {
		var list []map[string]any
		for i := range p.executors {
			x := p.executors[i].source()
			x["name"], x["priority"] = fmt.Sprint("x", i), 100-i
			list = append(list, x)
		}
		plan := map[string]any{"executors": list, "errors": map[string]any{"retryable": append([]string{}, p.retryable...), "fatal": append([]string{}, p.fatal...)}}
		if p.fallback != "" {
			plan["fallback"] = map[string]any{"value": "fallback", "condition": p.fallback}
		}
		plans[name] = plan
	}
	if len(plans) > 0 {
		d["plans"] = plans
	}
	b, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return b
}

func (t *stepGen) source() map[string]any {
	d := map[string]any{"transitions": t.to}
	switch t.kind {
	case "call":
		d = t.call.source()
		d["transitions"] = t.to
		if t.input != "" {
			d["input"] = json.RawMessage(fmt.Sprintf(`{"n":"$.input.n","last":"$.steps.%s.output.k","was":"$.steps.%s.outcome"}`, t.input, t.input))
		}
	case "sleep":
		d["sleep"] = map[string]any{"ms": t.ms}
	case "wait":
		w := map[string]any{"type": t.signal, "timeout_ms": t.ms}
		if t.onTimeout != "" {
			w["on_timeout"] = t.onTimeout
		}
		d["wait_for_signal"] = w
	case "each":
		p := t.branches[0].source()
		p["each"] = "$.input.items"
		d["parallel"] = p
	case "branches":
		all := make(map[string]any)
		for i := range t.branches {
			all[fmt.Sprint("b", i)] = t.branches[i].source()
		}
		d["parallel"] = map[string]any{"branches": all}
	}
	if p, ok := d["parallel"].(map[string]any); ok {
		p["max_concurrency"] = t.most
		if t.any > 0 {
			p["any"] = t.any
		}
	}
	switch t.when {
	case "":
	case "false":
		d["when"] = "false"
	default:
		d["when"] = fmt.Sprintf(`steps[%q].outcome == "success"`, t.when)
	}
	switch t.undo {
	case "default":
		d["compensate"] = "@actions/undo"
	case "own":
		d["compensate"] = map[string]any{
			"run": "@actions/undo", "input": json.RawMessage(fmt.Sprintf(`{"k":"$.steps.%s.output.k","o":"$.steps.%s.outcome","n":"$.input.n"}`, t.name, t.name)),
		}
	}
	return d
}

func (c *callGen) source() map[string]any {
	d := map[string]any{"run": c.target}
	if c.timeout > 0 {
		d["timeout_ms"] = c.timeout
	}
	if c.attempts > 0 {
		d["retry"] = map[string]any{"max_attempts": c.attempts, "backoff": "constant", "initial_delay_ms": c.pause}
	}
	if c.polls > 0 {
		d["poll"] = map[string]any{"max_attempts": c.polls, "initial_delay_ms": c.first, "backoff": "constant", "base_delay_ms": c.base}
	}
	return d
}

// fate is what comes of a handler.
type fate struct {
	kind  string
	after int64 // ms
}

// fate says what comes of a handler, by the idempotency key of its call without the run, and how often that was called.
func (s *scenario) fate(key string, n int) fate {
	h := xxhash.Sum64String(fmt.Sprint(s.seed, key, n))
	after := int64(1 + h>>32%2500)
	if strings.HasSuffix(key, undoOf) {
		if h%5 == 0 {
			return fate{"refuse", 0}
		}
		return fate{"succeed", 0}
	}
	for _, f := range []struct {
		below uint64
		kind  string
	}{{46, "succeed"}, {54, "refuse"}, {68, "fail"}, {74, "odd"}, {78, "failure"}, {85, "pending"}, {95, "silent"}, {100, "cancel"}} {
		if h%100 < f.below {
			return fate{f.kind, after}
		}
	}
	panic("no fate")
}

// outputGen is the output of a handler.
func outputGen(key string, n int) string { return fmt.Sprintf(`{"k":"%s/%d"}`, key, n) }

// ownTimeout and ownRetries are those of the actions a and b; the others have none.
const ownTimeout = 20_000

var ownRetries = map[string]int{"@actions/a": 0, "@actions/b": 1}

// model interprets a scenario.
type model struct {
	*scenario
	ties  bool // two things happen at the same time: there is no telling what comes of them
	depth int  // of children
	runs  []string
}

const everGen = int64(1) << 60

// errorGen stands for the output that the machine makes of an error.
const errorGen = `"error"`

// ended is what has become of a call, or of an attempt.
type ended struct {
	at                      int64
	outcome, code, output   string // output is JSON
	bad, ambiguous, refused bool
	cut                     bool // its limit has ended it
}

// course is what a call has done on its way.
type course struct {
	n     int
	open  []spanGen // when it may have had an effect of which nobody has heard
	kids  []kidGen
	hands []handGen // handlers that are at work behind the end of their calls
}

type spanGen struct {
	from, to int64
	open     bool
}

type kidGen struct {
	def      string
	input    string
	from, to int64 // to its end, or until it is cancelled
}

type handGen struct{ from, to int64 }

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
		return ended{at: r.at, outcome: r.status, output: errorGen, bad: true, refused: r.status == "cancelled"}
	}
	switch c.target {
	case "@actions/none":
		return refusal(at, "target_not_found")
	case "@actions/off":
		return refusal(at, "target_disabled")
	}
	patience, own := int64(60_000), int64(ownTimeout)
	if c.timeout > 0 {
		patience, own = min(patience, c.timeout), c.timeout
	}
	doubt := false
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
		m.ties = m.ties || m.depth > 0 && f.kind == "silent" && end == limit && k < tries // which of two timers is first
		if end > limit || end == limit && f.kind == "silent" {
			c2.hands = append(c2.hands, handGen{limit, min(back, limit+patience)})
			return late
		}
		m.before(end, limit)
		r := ended{at: end, outcome: "failure", output: errorGen, bad: true, ambiguous: doubt}
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
			c2.hands = append(c2.hands, handGen{end, min(back, end+patience)})
			return ended{at: end, outcome: "cancelled", code: "cancelled", output: errorGen, bad: true, ambiguous: true, refused: true}
		case "fail":
			r.code = "busy"
		case "silent":
			r.outcome, r.code, r.ambiguous = "timeout", "timeout", true
		}
		if k >= tries {
			if f.kind == "silent" {
				c2.hands = append(c2.hands, handGen{end, end + patience})
			}
			return r
		}
		doubt = doubt || f.kind == "silent"
		t = end
	}
}

// make makes a call with all its attempts and polls.
func (m *model) make(f *flowGen, c *callGen, key, input string, at int64) (e ended, way *course) {
	way = &course{}
	doubt := false
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
					way.open[before+i].open = way.open[before+i].open || doubt
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
		doubt = doubt || e.ambiguous
		if !e.bad || e.refused || attempt >= c.attempts {
			e.ambiguous, e.cut = doubt, false
			return e, way
		}
		t = e.at + c.pause
		way.open = append(way.open, spanGen{e.at, t, doubt})
	}
}

// plan carries out a plan.
func (m *model) plan(p *planGen, c *callGen, way *course, key, input string, at int64) ended {
	deadline := everGen
	if c.timeout > 0 {
		deadline = at + c.timeout
	}
	doubt, fatal := false, false
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
			doubt = doubt || e.ambiguous
			if p.fallback == "any_error" {
				return ended{at: e.at, outcome: "success", output: `"fallback"`, ambiguous: doubt}
			}
			if e.outcome == "cancelled" {
				e.ambiguous, e.refused = doubt, true
				return e
			}
			if !again || e.refused || k >= x.attempts {
				break
			}
			t = e.at + x.pause
			if !m.before(t, deadline) {
				way.open = append(way.open, spanGen{e.at, deadline, doubt})
				return ended{at: deadline, outcome: "timeout", code: "timeout", output: errorGen, bad: true, ambiguous: doubt}
			}
			way.open = append(way.open, spanGen{e.at, t, doubt})
		}
		t = e.at
	}
	if p.fallback != "" {
		return ended{at: e.at, outcome: "success", output: `"fallback"`, ambiguous: doubt}
	}
	return ended{at: e.at, outcome: "exhausted", code: e.code, output: errorGen, bad: true, ambiguous: doubt, refused: fatal}
}

// fan makes the calls of a parallel step, until a time at most. done says which have had an effect.
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
		for _, h := range b.way.hands {
			if h.from <= now {
				way.hands = append(way.hands, h)
			}
		}
		if !b.over {
			for _, s := range b.way.open { // those that have begun just now are open as well
				touched = touched || s.open && s.from <= now && now < s.to
				m.ties = m.ties || s.to == now || s.from == now && now > at && s.from != b.way.open[0].from
				if s.from < now && now < s.to { // its handler may be at work for a while
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

// undoGen is a visit that has to be compensated.
type undoGen struct {
	step           *stepGen
	visit          int
	input, outcome string
	output         string
	hands          []handGen
}

// ranGen is what has become of a run.
type ranGen struct {
	at             int64
	status, output string
	text           string // all that can be seen of it
	kids           []kidGen
}

// outcomesGen are where outcomes lead that have no transition.
var outcomesGen = map[string]string{
	"cancelled": "failure", "execution_failure": "failure", "exhausted": "failure", "failed": "failure", "output_too_large": "failure", "skipped": "success",
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
				if step.undo != "" && e.ambiguous {
					undo = append(undo, undoGen{step, visit, sent, how, e.output, way.hands})
				}
				r.status, now = how, end
				break
			}
			now = e.at
			path = append(path, step.name+": "+e.outcome)
			ended_[step.name] = last{e.outcome, e.output}
			if e.bad && (step.kind == "branches" || step.kind == "each") {
				ended_[step.name] = last{e.outcome, errorGen}
			}
			if step.undo != "" && (!e.bad || e.ambiguous) {
				undo = append(undo, undoGen{step, visit, sent, e.outcome, e.output, way.hands})
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
			for _, h := range u.hands {
				now = max(now, h.to)
			}
			data := fmt.Sprintf(`{"input":%s,"output":%s}`, u.input, u.output)
			if u.step.undo == "own" {
				data = fmt.Sprintf(`{"k":%s,"o":%q,"n":%s}`, member(u.output, "k"), u.outcome, n)
			}
			text = append(text, fmt.Sprintf("undo %s#%d with %s", u.step.name, u.visit, plainly(data)))
		}
	}
	r.at, r.text, r.kids = now, strings.Join(text, "; "), kids
	return r
}

// ranText says what has become of a run, without its output and compensations.
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

// all writes down what has to become of a run and its children.
func (m *model) all(r ranGen) {
	m.runs = append(m.runs, r.text)
	for _, k := range r.kids {
		m.all(m.run(m.defs[k.def], k.input, k.from, k.to))
	}
}

// member returns a member of an object, null if there is none.
func member(object, name string) string {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &o) != nil || o[name] == nil {
		return "null"
	}
	return string(o[name])
}

// plainly returns JSON in which what the machine says of errors is "error".
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

// play is a scenario that the machine plays.
type play struct {
	*scenario
	t       *testing.T
	r       *rig.Rig
	flows   *workflow.Store
	actions *action.Store
	called  map[string]int
	undone  map[workflow.RunID][]string
	due     []dueGen
}

// dueGen is something that happens at a time.
type dueGen struct {
	at int64
	do func() error
}

// startPlay makes what a scenario needs.
func (s *scenario) startPlay(t *testing.T, r *rig.Rig, namespace string, opts ...action.RegisterOption) *play {
	p := &play{
		scenario: s, t: t, r: r, flows: flowsOf(r, namespace), actions: actionsOf(r, namespace), called: make(map[string]int), undone: make(map[workflow.RunID][]string),
	}
	for _, name := range []string{"a", "b", "off", "undo"} {
		opts := append(slices.Clone(opts), action.MaxRetries(ownRetries["@actions/"+name]), action.Timeout(ownTimeout*time.Millisecond), action.Backoff(0, 0))
		if _, err := p.actions.Register(t.Context(), name, opts...); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.actions.Disable(t.Context(), "off"); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.defs {
		if _, err := p.flows.Create(t.Context(), f.source()); err != nil {
			t.Fatalf("%s\n%v", f.source(), err)
		}
	}
	return p
}

// play carries the scenario out, and returns what has become of all runs.
func (p *play) play() (runs []string) {
	ctx := p.t.Context()
	began := p.r.Now()
	s, err := p.flows.Start(ctx, "main", []byte(p.input))
	if err != nil {
		p.t.Fatal(err)
	}
	if p.cancel > 0 {
		p.at(began+p.cancel, func() error { _, err := p.flows.Cancel(ctx, s.Run, "by chance"); return err })
	}
	for _, g := range p.signals {
		p.at(began+g.at, func() error { _, err := p.flows.Signal(ctx, s.Run, g.kind, []byte(g.payload)); return err })
	}
	for n := 0; ; n++ {
		p.take()
		active := false
		for _, err := range p.flows.Runs().All(ctx, workflow.Active()) {
			if active = true; err != nil {
				p.t.Fatal(err)
			}
		}
		if !active {
			break
		}
		next := p.r.NextDue()
		for _, d := range p.due {
			next = min(next, d.at)
		}
		if next == engine.NoTimer || n > 3000 {
			p.t.Fatal("there are active runs that nothing happens to")
		}
		p.r.Pass(max(next-p.r.Now(), 0))
		p.r.Fire()
		for i := 0; i < len(p.due); i++ {
			if d := p.due[i]; d.at <= p.r.Now() {
				p.due = slices.Delete(p.due, i, i+1)
				i--
				if err := d.do(); err != nil && !errors.Is(err, action.ErrConflict) && !errors.Is(err, workflow.ErrConflict) {
					p.t.Fatal(err)
				}
			}
		}
	}
	for run, err := range p.flows.Runs().All(ctx) {
		if err != nil {
			p.t.Fatal(err)
		}
		runs = append(runs, p.text(run.ID))
	}
	return runs
}

func (p *play) at(at int64, do func() error) { p.due = append(p.due, dueGen{at, do}) }

// take has all begin that waits for a worker.
func (p *play) take() {
	ctx := p.t.Context()
	for {
		tasks, err := p.actions.Await(ctx, "w", []string{"a", "b", "off", "undo"}, action.Max(100))
		if err != nil {
			p.t.Fatal(err)
		}
		if len(tasks) == 0 {
			return
		}
		for i := range tasks {
			p.begin(&tasks[i])
		}
	}
}

func (p *play) begin(task *action.Task) {
	ctx, now := p.t.Context(), p.r.Now()
	run, key, _ := strings.Cut(task.IdempotencyKey, "/")
	p.called[task.IdempotencyKey]++
	n := p.called[task.IdempotencyKey]
	f := p.fate(key, n)
	done := func(outcome, output string) func() error {
		return func() error {
			return p.actions.Complete(ctx, task.Run, "w", []byte(output), action.WithOutcome(outcome))
		}
	}
	if visit, ok := strings.CutSuffix(key, undoOf); ok {
		p.undone[workflow.RunID(run)] = append(p.undone[workflow.RunID(run)], fmt.Sprintf("undo %s with %s", visit, plainly(string(task.Input))))
	}
	var do func() error
	switch f.kind {
	case "succeed":
		do = done("success", outputGen(key, n))
	case "odd", "pending", "failure":
		do = done(f.kind, outputGen(key, n))
	case "refuse":
		do = func() error { return p.actions.Fail(ctx, task.Run, "w", "no", action.WithCode("bad")) }
	case "fail":
		do = func() error { return p.actions.Fail(ctx, task.Run, "w", "no", action.WithCode("busy"), action.Retry()) }
	case "silent":
		return
	case "cancel":
		do = func() error { return p.actions.Cancel(ctx, task.Run, "by chance") }
		p.at(now+2*f.after, done("success", "1"))
	}
	if f.after == 0 {
		if err := do(); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	p.at(now+f.after, do)
}

// text says what has become of a run, as the model does.
func (p *play) text(id workflow.RunID) string {
	run, err := p.flows.Run(p.t.Context(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	var path []string
	for e, err := range p.flows.History(id).All(p.t.Context()) {
		if err != nil {
			p.t.Fatal(err)
		}
		switch e.Type {
		case workflow.StepCompleted:
			path = append(path, e.Step+": "+e.Outcome)
		case workflow.StepSkipped:
			path = append(path, e.Step+": skipped")
		}
	}
	text := []string{ranText(run.Workflow, string(run.Input), run.Status.String(), path)}
	if run.Status == workflow.Completed {
		text = append(text, "output "+plainly(cmp.Or(string(run.Output), "null")))
	}
	return strings.Join(append(text, p.undone[id]...), "; ")
}

// TestDefinitions plays random scenarios, in plain namespaces and in spread ones: what becomes of their runs, by which steps, and what is compensated with what has to
// be what the documentation says.
func TestDefinitions(t *testing.T) {
	seed := rig.Seed(t)
	told := 0
	q := quota.New(t, 60)
	for q.More() {
		s := newScenario(seed + uint64(q.Rounds()))
		m := &model{scenario: s}
		cancel := everGen
		if s.cancel > 0 {
			cancel = s.cancel
		}
		if m.all(m.run(s.main, s.input, 0, cancel)); m.ties {
			continue
		}
		told++
		slices.Sort(m.runs)
		for _, at := range spaces {
			r := newRig(t, at.shards)
			if at.shards > 1 {
				if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "n", true); err != nil {
					t.Fatal(err)
				}
			}
			got := s.startPlay(t, r, "n", at.opts...).play()
			slices.Sort(got)
			if !slices.Equal(got, m.runs) {
				t.Errorf("%s, scenario %d:\n%s\n%s\n%s\nsignals %v, cancel %d\ngot\n\t%s\nwant\n\t%s", at.name, s.seed, s.main.source(), s.defs["kid"].source(), s.defs["plain"].source(), s.signals, s.cancel,
					strings.Join(got, "\n\t"), strings.Join(m.runs, "\n\t"))
				break
			}
		}
	}
	if told < q.Rounds()/2 {
		t.Errorf("the model could tell what becomes of %d of %d scenarios", told, q.Rounds())
	}
}
