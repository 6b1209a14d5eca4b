package check

import (
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is the state of one key. After a write whose revision is unknown to the client, the
// revision only has a lower bound.
type register struct {
	exists   bool
	value    string
	revision uint64 // of the last write or delete; a lower bound of it if not exact
	exact    bool
}

// conflict is what a refusal reveals about the key: its revision, 0 if it does not exist. If the
// revision is unknown, it only differs from the one of the condition.
type conflict struct {
	told     bool
	revision uint64
}

func (s register) String() string {
	if !s.exists {
		return "nothing"
	}
	about := ">"
	if s.exact {
		about = ""
	}
	return fmt.Sprintf("%q of revision %s%d", s.value, about, s.revision)
}

// at returns the state after the key is observed at a revision, and whether that is possible.
func (s register) at(revision uint64) (register, bool) {
	if !s.exists || s.exact && s.revision != revision || !s.exact && revision <= s.revision {
		return s, false
	}
	s.revision, s.exact = revision, true
	return s, true
}

// step returns the state after an operation, and whether its outcome is possible.
func (s register) step(p *Pending) (register, bool) {
	switch {
	case p.outcome == refused:
		return s.refuse(p)
	case p.op.Kind == Get:
		return s.get(p)
	}
	next, ok := s.change(p)
	if p.outcome == unknown {
		return next, true // with a condition that does not hold it was refused, and the refusal was lost
	}
	return next, ok
}

func (s register) get(p *Pending) (register, bool) {
	r := p.result
	if !r.Found || !s.exists || s.value != r.Value {
		return s, !r.Found && !s.exists
	}
	if r.Revision == 0 {
		return s, true
	}
	return s.at(r.Revision)
}

func (s register) refuse(p *Pending) (register, bool) {
	_, c := p.observation()
	switch {
	case !c.told:
		return s, !s.holds(p.op.Revision) || !s.exact
	case c.revision == 0:
		return s, !s.exists
	case p.op.Kind == CAS && c.revision == p.op.Revision:
		return s, false
	}
	return s.at(c.revision)
}

// holds reports whether a key in this state may satisfy the condition of a CAS.
func (s register) holds(revision uint64) bool {
	if revision == 0 {
		return !s.exists
	}
	_, ok := s.at(revision)
	return ok
}

// change returns the state after a write. If the write would have been refused or answered
// differently, it returns the old state, and ok is false.
func (s register) change(p *Pending) (next register, ok bool) {
	next = register{exists: true, value: p.op.Value, revision: s.revision}
	switch p.op.Kind {
	case Delete:
		if !s.exists {
			return s, false
		}
		next = register{revision: s.revision}
	case CAS:
		if !s.holds(p.op.Revision) {
			return s, false
		}
		next.revision = max(s.revision, p.op.Revision)
	case Incr:
		if next.value, ok = s.sum(p); !ok {
			return s, false
		}
	}
	if r := p.result.Revision; r != 0 {
		if r <= next.revision {
			return s, false
		}
		next.revision, next.exact = r, true
	}
	return next, true
}

func (s register) sum(p *Pending) (value string, ok bool) {
	old := int64(0)
	if s.exists {
		var err error
		if old, err = strconv.ParseInt(s.value, 10, 64); err != nil {
			return "", false
		}
	}
	sum := old + p.op.Delta
	return strconv.FormatInt(sum, 10), p.outcome == unknown || sum == p.result.Number
}

var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		next, ok := state.(register).step(input.(*Pending))
		return ok, next
	},
	DescribeOperation: func(input, _ any) string {
		p := input.(*Pending)
		return p.op.String() + " -> " + p.answer()
	},
	DescribeState: func(state any) string { return state.(register).String() },
}

// linearize searches for an order of the operations of a key.
func (h *History) linearize(key string, ops []*Pending, deadline time.Time) error {
	ops = slices.DeleteFunc(slices.Clone(ops), func(p *Pending) bool { return !p.matters() })
	verdict := search(ops, deadline)
	if verdict == porcupine.Ok {
		return nil
	}
	err := fmt.Errorf("no verdict on %d operations within %v", len(ops), checkTime)
	if verdict == porcupine.Illegal {
		err = contradiction(ops, deadline)
	}
	if h.Dir == "" {
		return err
	}
	picture, drawErr := draw(h.Dir, key, ops)
	if drawErr != nil {
		return fmt.Errorf("%w\n(no picture: %v)", err, drawErr)
	}
	return fmt.Errorf("%w\nsee %s", err, picture)
}

// matters reports whether the operation reveals something, or may have had an effect.
func (p *Pending) matters() bool {
	switch p.outcome {
	case unknown:
		return p.op.Kind != Get
	case refused:
		known, _ := p.observation()
		return known
	}
	return true
}

func search(ops []*Pending, deadline time.Time) porcupine.CheckResult {
	left := time.Until(deadline)
	if left <= 0 {
		return porcupine.Unknown
	}
	return porcupine.CheckOperationsTimeout(model, operations(ops), left)
}

// operations numbers calls and returns in their order, because the search treats operations at the
// same time as concurrent.
func operations(ops []*Pending) []porcupine.Operation {
	var moments []moment
	for _, p := range ops {
		moments = append(moments, p.called)
		if p.returned != never {
			moments = append(moments, p.returned)
		}
	}
	slices.SortFunc(moments, moment.compare)
	position := func(m moment) int64 {
		at, _ := slices.BinarySearchFunc(moments, m, moment.compare)
		return int64(at)
	}
	list := make([]porcupine.Operation, len(ops))
	for i, p := range ops {
		list[i] = porcupine.Operation{ClientId: p.op.Client, Input: p, Call: position(p.called), Return: position(p.returned)}
	}
	return list
}

// contradiction returns the first answer that has no explanation. An illegal history stays illegal
// when more is known, so bisection finds the answer.
func contradiction(ops []*Pending, deadline time.Time) error {
	answers := slices.DeleteFunc(slices.Clone(ops), func(p *Pending) bool { return p.returned == never })
	slices.SortFunc(answers, func(a, b *Pending) int { return a.returned.compare(b.returned) })
	first := sort.Search(len(answers)-1, func(i int) bool {
		return search(knownAt(ops, answers[i].returned), deadline) != porcupine.Ok
	})
	var s strings.Builder
	fmt.Fprintf(&s, "no order of the operations explains the answer\n\t%v\nBefore it, newest last:", answers[first])
	for _, p := range answers[max(0, first-20):first] {
		fmt.Fprintf(&s, "\n\t%v", p)
	}
	for _, p := range ops {
		if p.returned == never && p.called.compare(answers[first].returned) < 0 {
			fmt.Fprintf(&s, "\n\t%v", p)
		}
	}
	return fmt.Errorf("%s", s.String())
}

// knownAt returns the operations as known at a moment: those that had not returned might still have
// any outcome.
func knownAt(ops []*Pending, m moment) (known []*Pending) {
	for _, p := range ops {
		if p.called.compare(m) > 0 {
			continue
		}
		if p.returned.compare(m) > 0 {
			p = &Pending{op: p.op, called: p.called, returned: never}
			if !p.matters() {
				continue
			}
		}
		known = append(known, p)
	}
	return known
}

// draw writes a picture of the search to dir.
func draw(dir, key string, ops []*Pending) (path string, err error) {
	_, info := porcupine.CheckOperationsVerbose(model, operations(ops), checkTime)
	path = filepath.Join(dir, fmt.Sprintf("history-%x.html", key))
	return path, porcupine.VisualizePath(model, info, path)
}
