package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Severity says what follows from a Problem.
type Severity uint8

// The severities: what a document with warnings defines can be run, what one with errors does can
// not.
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

// Problem is something that is wrong with a document.
type Problem struct {
	Line     int    // from 1
	Code     string // names the kind of problem for programs: unknown-key
	Severity Severity
	Message  string // names the thing, the value and what is allowed
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Message) }

const (
	// MaxProblems is how many problems of a document are told.
	MaxProblems = 100
	maxFound    = 10_000 // after which nobody looks further
)

// Report collects problems.
type Report struct {
	Problems []Problem
	Failed   bool // one of them is an Error
}

func (r *Report) add(line int, severity Severity, code, format string, args ...any) {
	r.Failed = r.Failed || severity == Error
	if len(r.Problems) < maxFound {
		r.Problems = append(r.Problems, Problem{line, code, severity, fmt.Sprintf(format, args...)})
	}
}

// Fail adds an error.
func (r *Report) Fail(line int, code, format string, args ...any) {
	r.add(line, Error, code, format, args...)
}

// Warn adds a warning.
func (r *Report) Warn(line int, code, format string, args ...any) {
	r.add(line, Warning, code, format, args...)
}

// Sorted returns the problems by line. When there are too many, warnings are left out first.
func (r *Report) Sorted() []Problem {
	byLine := func(a, b Problem) int { return a.Line - b.Line }
	slices.SortStableFunc(r.Problems, func(a, b Problem) int { return byLine(a, b) })
	if len(r.Problems) > MaxProblems {
		slices.SortStableFunc(r.Problems, func(a, b Problem) int { return int(b.Severity) - int(a.Severity) })
		r.Problems = r.Problems[:MaxProblems]
		slices.SortStableFunc(r.Problems, byLine)
	}
	return r.Problems
}

// Quote shows text in a message.
func Quote(s string) string { return strconv.Quote(Clip(s)) }

// OneOf lists what is allowed.
func OneOf(names []string) string {
	const most = 30
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "...")
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// Nearest returns a hint at the name that is meant, if one is near. Only what is told needs hints,
// and nobody needs one among thousands of names.
func (r *Report) Nearest(name string, names func() []string) string {
	if len(name) > 64 || len(r.Problems) >= MaxProblems {
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

// Clip shortens what is shown of a value in a message.
func Clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	for i := range s {
		if i > most {
			return s[:i] + "..."
		}
	}
	return s
}
