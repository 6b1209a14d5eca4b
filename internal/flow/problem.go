package flow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Severity says what follows from a Problem.
type Severity uint8

// The severities: a definition with warnings can be run, one with errors can not.
const (
	Warning Severity = iota + 1
	Error
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Problem is something that is wrong with a definition.
type Problem struct {
	Line     int    // from 1
	Code     string // names the kind of problem for programs: unknown-key
	Severity Severity
	Message  string // names the thing, the value and what is allowed
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Message) }

const (
	maxProblems = 100    // that are told
	maxFound    = 10_000 // after which nobody looks further
)

// report collects problems.
type report struct {
	problems []Problem
	failed   bool
}

func (r *report) add(line int, severity Severity, code, format string, args ...any) {
	r.failed = r.failed || severity == Error
	if len(r.problems) < maxFound {
		r.problems = append(r.problems, Problem{line, code, severity, fmt.Sprintf(format, args...)})
	}
}

func (r *report) fail(line int, code, format string, args ...any) {
	r.add(line, Error, code, format, args...)
}

func (r *report) warn(line int, code, format string, args ...any) {
	r.add(line, Warning, code, format, args...)
}

// sorted returns the problems by line. When there are too many, warnings are left out first.
func (r *report) sorted() []Problem {
	byLine := func(a, b Problem) int { return a.Line - b.Line }
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return byLine(a, b) })
	if len(r.problems) > maxProblems {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return int(b.Severity) - int(a.Severity) })
		r.problems = r.problems[:maxProblems]
		slices.SortStableFunc(r.problems, byLine)
	}
	return r.problems
}

// quote shows text in a message.
func quote(s string) string { return strconv.Quote(clip(s)) }

// oneOf lists what is allowed.
func oneOf(names []string) string {
	const most = 30
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "...")
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// nearest returns a hint at the name that is meant, if one is near. Only what is told needs hints, and nobody needs one among thousands of names.
func (r *report) nearest(name string, names func() []string) string {
	if len(name) > 64 || len(r.problems) >= maxProblems {
		return ""
	}
	best, found := 3, ""
	for _, n := range names() {
		if d := distance(name, n, best); d < best && d < len(n) {
			best, found = d, n
		}
	}
	if found == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", found)
}

// distance counts the letters to change, add, remove or swap, as far as it is less than most.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	two, one, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(one[j]+cost, one[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], two[j-1]+1)
			}
		}
		two, one, row = one, row, two
	}
	return one[len(b)]
}
