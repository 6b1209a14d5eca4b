package flow

import (
	"strings"

	"github.com/floedb/floe/internal/document"
)

// check checks the definition as a whole.
func (r *reader) check(doc *document.Node) {
	if len(r.d.Steps) == 0 || r.d.Steps[0].Name != StartStep {
		r.Fail(doc.Line, "no-start", "%s has no start step", document.Top)
	}
	for _, use := range r.steps {
		if p, known := r.places[use.name]; !known || p < 0 {
			r.Fail(use.line, "unknown-step", "%s refers to unknown step %s%s", use.at, document.Quote(use.name),
				r.Nearest(use.name, keys(r.places)))
		}
	}
	r.checkPlans(doc)
	if r.Failed {
		return
	}
	r.checkReach()
	r.checkLoops()
}

// checkPlans reports plans that no call uses.
func (r *reader) checkPlans(doc *document.Node) {
	plans := doc.Get("plans")
	if plans == nil {
		return
	}
	for _, p := range plans.Pairs {
		if !r.used[p.Key] {
			r.Warn(p.Line, "unused-plan", "no step runs %s", document.Under("plans", p.Key))
		}
	}
}

// checkReach reports steps that no transition reaches.
func (r *reader) checkReach() {
	reached := make([]bool, len(r.d.Steps))
	reached[0] = true
	for todo := []int{0}; len(todo) > 0; {
		s := &r.d.Steps[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		for _, t := range s.Transitions {
			if t.To >= 0 && !reached[t.To] {
				reached[t.To] = true
				todo = append(todo, int(t.To))
			}
		}
	}
	for i, there := range reached {
		if !there {
			r.Warn(r.lines[i], "unreachable-step", "no transition leads to %s", document.Under("steps", r.d.Steps[i].Name))
		}
	}
}

// checkLoops reports steps that can follow each other forever without waiting for a signal or a
// time. After immediate failures, such a loop would retry without a pause.
func (r *reader) checkLoops() {
	l := loops{d: r.d, seen: make([]int, len(r.d.Steps)), low: make([]int, len(r.d.Steps)), on: make([]bool, len(r.d.Steps))}
	for i := range r.d.Steps {
		if l.seen[i] == 0 && l.busy(i) {
			l.visit(i)
		}
	}
	for _, loop := range l.found {
		var names []string
		first := loop[0]
		for _, i := range loop {
			first = min(first, i)
			names = append(names, r.d.Steps[i].Name)
		}
		if len(names) > 10 {
			names = append(names[:10], "...")
		}
		r.Warn(r.lines[first], "busy-loop", "steps %s can loop forever: none of them waits for a signal or a time",
			strings.Join(names, ", "))
	}
}

// loops finds strongly connected steps with Tarjan's algorithm.
type loops struct {
	d         *Definition
	count     int
	seen, low []int
	on        []bool
	stack     []int
	found     [][]int
}

// busy reports whether a step does not wait for a signal or a time.
func (l *loops) busy(i int) bool {
	k := l.d.Steps[i].Kind
	return k != KindWait && k != KindSleep
}

func (l *loops) visit(i int) {
	l.count++
	l.seen[i], l.low[i] = l.count, l.count
	l.stack, l.on[i] = append(l.stack, i), true
	itself := false
	for _, t := range l.d.Steps[i].Transitions {
		next := int(t.To)
		if next < 0 || !l.busy(next) {
			continue
		}
		itself = itself || next == i
		if l.seen[next] == 0 {
			l.visit(next)
			l.low[i] = min(l.low[i], l.low[next])
		} else if l.on[next] {
			l.low[i] = min(l.low[i], l.seen[next])
		}
	}
	if l.low[i] != l.seen[i] {
		return
	}
	var loop []int
	for {
		last := l.stack[len(l.stack)-1]
		l.stack, l.on[last] = l.stack[:len(l.stack)-1], false
		if loop = append(loop, last); last == i {
			break
		}
	}
	if len(loop) > 1 || itself {
		for a, b := 0, len(loop)-1; a < b; a, b = a+1, b-1 {
			loop[a], loop[b] = loop[b], loop[a]
		}
		l.found = append(l.found, loop)
	}
}
