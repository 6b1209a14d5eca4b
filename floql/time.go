package floql

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/internal/agg"
)

// Instant is one end of the range of a query.
type instant struct {
	relative bool
	millis   int64 // since the epoch; of a relative one, before now
}

func (i instant) at(now int64) int64 {
	if i.relative {
		return now - i.millis
	}
	return i.millis
}

// timeRange is the range of a query. relative means that it was given as one duration, or as two
// instants before now.
type timeRange struct{ from, to instant }

// hour is the default range of a query.
var hour = timeRange{from: instant{relative: true, millis: 60 * 60 * 1000}, to: instant{relative: true}}

// units are the units of durations, longest first, with their ms. Months and years are calendar
// units.
var units = []struct {
	name   string
	millis int64
	months int64
}{
	{"y", 0, 12}, {"mo", 0, 1},
	{"w", 7 * 24 * 3600_000, 0}, {"d", 24 * 3600_000, 0}, {"h", 3600_000, 0}, {"m", 60_000, 0}, {"s", 1000, 0}, {"ms", 1, 0},
}

// span reads a duration: numbers and units. Calendar units are allowed only in windows.
func (l *lexer) span(calendar bool) (s agg.Step) {
	l.space()
	start := l.pos
	for l.pos == start || l.err == nil && l.pos < len(l.text) && isDigit(l.text[l.pos]) {
		at := l.pos
		digits, unit := l.digits(), ""
		if digits == "" {
			l.fail(at, "found %s, expected a duration like 5m or 1h30m", l.found())
			return s
		}
		if at = l.pos; l.pos < len(l.text) {
			unit = l.letters()
		}
		months, millis, ok := unitOf(unit)
		switch {
		case !ok && unit == "":
			l.fail(at, "found %s, expected a unit of time: ms, s, m, h, d or w", l.found())
		case !ok:
			l.fail(at, "unknown unit of time %q, expected ms, s, m, h, d or w%s", unit, orCalendar(calendar))
		case months > 0 && !calendar:
			l.fail(at, "calendar unit %q is only for windows", unit)
		}
		l.addUnit(&s, start, digits, agg.Step{Months: months, Millis: millis})
		if l.err != nil {
			return agg.Step{}
		}
	}
	return s
}

func orCalendar(calendar bool) string {
	if calendar {
		return ", mo or y"
	}
	return ""
}

func unitOf(unit string) (months, millis int64, ok bool) {
	for _, u := range units {
		if u.name == unit {
			return u.months, u.millis, true
		}
	}
	return 0, 0, false
}

// addUnit adds a number of units to a duration.
func (l *lexer) addUnit(s *agg.Step, start int, digits string, unit agg.Step) {
	const maxMonths = 12 * 100_000
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || unit.Millis > 0 && n > agg.MaxTime/unit.Millis || unit.Months > 0 && n > maxMonths/unit.Months:
		l.fail(start, "duration is longer than 285,000 years")
		return
	}
	s.Millis += n * unit.Millis
	s.Months += n * unit.Months
	switch {
	case s.Millis > agg.MaxTime || s.Months > maxMonths:
		l.fail(start, "duration is longer than 285,000 years")
	case s.Millis > 0 && s.Months > 0:
		l.fail(start, "months and years cannot be combined with other units")
	}
}

// printSpan returns a duration in query syntax, in the longest units.
func printSpan(s agg.Step) string {
	var b strings.Builder
	for _, u := range units {
		left, size := &s.Millis, u.millis
		if u.months > 0 {
			left, size = &s.Months, u.months
		}
		if n := *left / size; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10))
			b.WriteString(u.name)
			*left %= size
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

// timeRange reads the contents of the brackets of a range.
func (l *lexer) timeRange() (r timeRange) {
	l.space()
	start := l.pos
	if r.to.relative = true; l.isDuration() {
		r.from = instant{relative: true, millis: l.span(false).Millis}
		return r
	}
	r.from = l.instant()
	if l.err == nil && !l.eat("..") {
		l.fail(l.pos, "found %s, expected \"..\" and the end of the range", l.found())
	}
	r.to = l.instant()
	backwards := r.from.millis > r.to.millis
	if r.from.relative {
		backwards = r.from.millis < r.to.millis
	}
	if l.err == nil && r.from.relative == r.to.relative && backwards {
		l.fail(start, "the range ends before it begins")
	}
	return r
}

// isDuration reports whether a number with a unit is next.
func (l *lexer) isDuration() bool {
	i := l.pos
	for i < len(l.text) && isDigit(l.text[i]) {
		i++
	}
	return i > l.pos && i < len(l.text) && l.text[i]|0x20 >= 'a' && l.text[i]|0x20 <= 'z'
}

// instant reads a time: epoch ms, now, now-1h, -1h, or RFC 3339.
func (l *lexer) instant() instant {
	const expected = "a time: epoch ms, now, now-1h, -1h or RFC 3339"
	c := l.next()
	at := l.pos
	switch {
	case l.err != nil:
	case c == '-':
		l.pos++
		return instant{relative: true, millis: l.span(false).Millis}
	case isDigit(c):
		return l.absolute()
	case c == 'n':
		if w := l.letters(); w != "now" {
			l.fail(at, "found %q, expected %s", w, expected)
		}
		if l.eat("-") {
			return instant{relative: true, millis: l.span(false).Millis}
		}
		return instant{relative: true}
	default:
		if w := l.letters(); w != "" {
			l.fail(at, "found %q, expected %s", w, expected)
		}
		l.fail(at, "found %s, expected %s", l.found(), expected)
	}
	return instant{}
}

// absolute reads epoch ms or RFC 3339.
func (l *lexer) absolute() instant {
	start := l.pos
	end := start
	for end < len(l.text) && !strings.HasPrefix(l.text[end:], "..") &&
		(isDigit(l.text[end]) || strings.IndexByte("-:.+TZtz", l.text[end]) >= 0) {
		end++
	}
	text := l.text[start:end]
	l.pos = end
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms <= agg.MaxTime {
		if l.isLetter() {
			l.fail(start, "found a duration, expected a time like now-1h or -1h")
		}
		return instant{millis: ms}
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(text))
	if err != nil {
		if strings.Trim(text, "0123456789") == "" {
			l.fail(start, "time %s is beyond %d ms", text, int64(agg.MaxTime))
		} else {
			l.fail(start, "time %q is neither epoch ms nor RFC 3339 like 2024-05-01T12:00:00Z", text)
		}
	}
	return instant{millis: t.UnixMilli()}
}

func (l *lexer) isLetter() bool {
	return l.pos < len(l.text) && l.text[l.pos]|0x20 >= 'a' && l.text[l.pos]|0x20 <= 'z'
}

func (i instant) String() string {
	switch {
	case i.relative && i.millis == 0:
		return "now"
	case i.relative:
		return "now-" + printSpan(agg.Step{Millis: i.millis})
	case i.millis >= 0:
		return strconv.FormatInt(i.millis, 10)
	}
	return time.UnixMilli(i.millis).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

func (r timeRange) String() string {
	if r.from.relative && r.to == (instant{relative: true}) && r.from.millis > 0 {
		return "[" + printSpan(agg.Step{Millis: r.from.millis}) + "]"
	}
	return "[" + r.from.String() + ".." + r.to.String() + "]"
}

// number reads a number.
func (l *lexer) number() float64 {
	l.space()
	start := l.pos
	end := start
	for end < len(l.text) && (isDigit(l.text[end]) || l.text[end] == '.' ||
		(l.text[end] == '-' || l.text[end] == '+') && (end == start || l.text[end-1]|0x20 == 'e') ||
		l.text[end]|0x20 == 'e' && end > start) {
		end++
	}
	v, err := strconv.ParseFloat(l.text[start:end], 64)
	switch {
	case start == end:
		l.fail(start, "found %s, expected a number", l.found())
	case err != nil && math.IsInf(v, 0):
		l.fail(start, "number %s is too large", l.text[start:end])
	case err != nil:
		l.fail(start, "found %q, expected a number", l.text[start:end])
	}
	l.pos = max(l.pos, end)
	return v + 0 // -0 is 0
}

func printNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
