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

// met reports whether the figure meets the bar; a row without a bar always meets it.
func (m measured) met() bool {
	switch {
	case m.more:
		return m.value >= m.bar
	case m.absolute:
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
		return []string{m.name, m.shown(m.value), "", "", m.barCell() + missed, duration(m.p50), duration(m.p99), "", ""}
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

// shown formats a value of the row with its unit.
func (r row) shown(value float64) string {
	if r.more {
		return thousands(value) + " " + r.unit
	}
	return number(value) + " " + r.unit
}

// barCell formats the bar of an absolute row.
func (r row) barCell() string {
	if r.more {
		return ">= " + r.shown(r.bar)
	}
	return fmt.Sprintf("<= %g %s", r.bar, r.unit)
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

// thousands formats a rate with thousands separators.
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
