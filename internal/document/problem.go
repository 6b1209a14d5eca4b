package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/floedb/floe/internal/spelling"
)

// Severity is the severity of a Problem.
type Severity uint8

// The severities. A document with warnings can run; one with errors cannot.
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

// Problem is a problem in a document.
type Problem struct {
	Line     int    // from 1
	Code     string // kind of problem, such as unknown-key, for programs
	Severity Severity
	Message  string // the thing, the value and the allowed values
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Message) }

const (
	// MaxProblems is the maximum number of problems reported for a document.
	MaxProblems = 100
	maxFound    = 10_000 // the search for problems stops here
)

// Report collects problems.
type Report struct {
	Problems []Problem
	Failed   bool // one of the problems is an Error
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

// Sorted returns the problems ordered by line. If there are too many, it drops warnings first.
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

// Quote quotes text for a message.
func Quote(s string) string { return strconv.Quote(Clip(s)) }

// OneOf formats a list of allowed names.
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

// Nearest returns a hint with the name closest to an unknown one, if one is close. Problems beyond
// MaxProblems are not reported and get no hint. names may return nil if there are thousands.
func (r *Report) Nearest(name string, names func() []string) string {
	if len(r.Problems) >= MaxProblems {
		return ""
	}
	if near := spelling.Nearest(name, names()); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}

// Clip shortens a value for a message.
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
