package workflow_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// A scenario consists of random definitions and all events of a run of the first of them: the
// result of each call, signals, and a cancel. The expected result is computed twice: by the
// machine, see TestDefinitions, and by a model that follows docs/reference/workflow.md and has no
// rows, entries or timers.
type scenario struct {
	seed    uint64
	defs    map[string]*flowGen
	main    *flowGen
	input   string
	cancel  int64 // time of the cancel, since the start
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
	when      string // false, or a step that must have succeeded
	call      callGen
	branches  []callGen // one for kind each
	any, most int
	signal    string
	onTimeout string
	ms        int64  // duration of a sleep or timeout of a wait
	undo      string // "", default or own
	input     string // the step that provides the input
	to        map[string]string
}

type callGen struct {
	target      string // with its kind as a prefix
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
	"flo.Completed": "completed", "flo.Failed": "failed", "flo.Cancelled": "cancelled", "flo.TimedOut": "timed_out", "fine": "completed",
	"bad": "failed",
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
		s.signals = append(s.signals, signalGen{1 + rng.Int64N(15_000), pick(rng, "go", "stop"),
			pick(rng, `1`, `{"outcome":"odd"}`, `{"k":"signal"}`)})
	}
	slices.SortFunc(s.signals, func(a, b signalGen) int { return cmp.Compare(a.at, b.at) })
	return s
}

func pick(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }

// some returns a number from the range with probability 1/one, otherwise 0.
func some(rng *rand.Rand, one int, from, to int64) int64 {
	if rng.IntN(one) != 0 {
		return 0
	}
	return from + rng.Int64N(to-from)
}

// add adds a definition. undoes selects whether steps are compensated.
func (s *scenario) add(rng *rand.Rand, name string, steps int, undoes bool) *flowGen {
	most := int64(25_000)
	if name != "main" {
		most = 4000 // which ends many children
	}
	f := &flowGen{name: name, plans: make(map[string]*planGen), timeout: some(rng, 4, 500, most)}
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
		for _, outcome := range []string{"failure", "timeout", "odd", "cancelled", "exhausted", "skipped", "timed_out",
			"target_not_found"} {
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
			if rng.IntN(4) == 0 { // a step with the name of an outcome
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

// lost reports whether the target cannot be called.
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

// source returns the text of a definition.
func (f *flowGen) source() []byte {
	steps := make(map[string]any)
	for _, t := range f.steps {
		steps[t.name] = t.source()
	}
	d := map[string]any{
		"name": f.name, "max_steps": maxStepsGen, "start": steps["_start"], "steps": steps,
		"terminals": map[string]string{"fine": "completed", "bad": "failed"},
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
		plan := map[string]any{"executors": list,
			"errors": map[string]any{"retryable": append([]string{}, p.retryable...), "fatal": append([]string{}, p.fatal...)}}
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
			d["input"] = json.RawMessage(fmt.Sprintf(`{"n":"$.input.n","last":"$.steps.%s.output.k","was":"$.steps.%s.outcome"}`, t.input,
				t.input))
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
			"run":   "@actions/undo",
			"input": json.RawMessage(fmt.Sprintf(`{"k":"$.steps.%s.output.k","o":"$.steps.%s.outcome","n":"$.input.n"}`, t.name, t.name)),
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

// fate is the result of a handler.
type fate struct {
	kind  string
	after int64 // ms
}

// fate returns the result of a handler, by the idempotency key of its call without the run, and the
// number of its calls so far.
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

// ownTimeout and ownRetries belong to the actions a and b; the others have none.
const ownTimeout = 20_000

var ownRetries = map[string]int{"@actions/a": 0, "@actions/b": 1}
