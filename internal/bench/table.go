package main

import (
	"fmt"
	"strings"
	"time"
)

// measured is a row with its result.
type measured struct {
	row
	result
}

// met reports whether the figure is on the right side of the bar; a row without one has nothing to miss.
func (m measured) met() bool {
	if m.absolute {
		return m.value <= m.bar+slack
	}
	return m.bar == 0 || m.ratio >= m.bar
}

// render returns the table in Markdown.
func render(on machine, how string, all []measured) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v. %s\n\n", on, how)
	b.WriteString("| row | floe ops/s | limit ops/s | ratio | bar | p50 | p99 | written/user byte | allocs |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for _, m := range all {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(m.cells(), " | "))
	}
	return b.String()
}

func (m measured) cells() []string {
	missed := ""
	if !m.met() {
		missed = ", missed"
	}
	if m.absolute {
		return []string{m.name, number(m.value) + " " + m.unit, "", "", fmt.Sprintf("<= %g %s%s", m.bar, m.unit, missed), "", "", "", ""}
	}
	bar := ""
	if m.bar > 0 {
		bar = fmt.Sprintf(">= %.2f%s", m.bar, missed)
	}
	return []string{
		m.name, thousands(m.rate), fmt.Sprintf("%s %s", m.against, thousands(m.limit.rate)), fmt.Sprintf("%.2f", m.ratio), bar,
		duration(m.p50), duration(m.p99), writtenCell(m.written, m.limit.written), number(m.allocs),
	}
}

func writtenCell(floe, limit float64) string {
	if floe == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f (limit %.1f)", floe, limit)
}

func number(f float64) string {
	if f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.1f", f)
}

// thousands writes a rate with separators.
func thousands(f float64) string {
	digits := fmt.Sprintf("%.0f", f)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return short(d).String()
}
