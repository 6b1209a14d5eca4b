package cron

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"
	"time"

	parser "github.com/netresearch/go-cron"
)

const day = 24 * 60 * 60 // in seconds

// wildcard is the bit that the parser sets in a field of all values.
const wildcard = 1 << 63

// expression is a parsed cron expression: the set of values of each field. It matches walls (see
// zone), without time zones.
type expression struct {
	second, minute, hour uint64
	dom, month, dow      uint64
	lasts                []int // days before the last of a month
	nths                 []parser.DowConstraint
	either               bool // one of day of month and day of week is enough
	everyHour            bool
}

// fields reads five or six fields. The meaning of an expression with both days restricted is fixed
// here, because it has changed between versions of the parser.
var fields = parser.MustNewParser(parser.SecondOptional | parser.Minute | parser.Hour | parser.Dom | parser.Month | parser.Dow |
	parser.Descriptor | parser.DomL | parser.DowNth | parser.DowLast | parser.DowOrDom)

func parseExpression(text string) (*expression, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	parsed, err := fields.Parse(text)
	if err != nil {
		return nil, err
	}
	spec, ok := parsed.(*parser.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("times of a day are needed")
	}
	e := &expression{
		second: spec.Second, minute: spec.Minute, hour: spec.Hour, dom: spec.Dom, month: spec.Month, dow: spec.Dow,
		nths:      spec.DowConstraints,
		either:    spec.Dom&wildcard == 0 && spec.Dow&wildcard == 0,
		everyHour: bits.OnesCount64(spec.Hour&(1<<24-1)) == 24,
	}
	for _, last := range spec.DomConstraints {
		e.lasts = append(e.lasts, last.N)
	}
	if _, ok := e.next(0); !ok {
		return nil, fmt.Errorf("there is no such day in any year")
	}
	return e, nil
}

// item matches an item of a field. The parser reads "*-5" as *, and "+5" as 5.
var item = regexp.MustCompile(`^(?:(?:[*?]|\w+(?:-\w+)?)(?:/\d+)?|\w+#\w)$`)

// checkText refuses text that the parser misinterprets.
func checkText(text string) error {
	if len(text) > maxCron {
		return fmt.Errorf("%d bytes are more than %d", len(text), maxCron)
	}
	for _, prefix := range []string{"TZ=", "CRON_TZ="} {
		if strings.HasPrefix(text, prefix) {
			return fmt.Errorf("%s is not accepted: the time zone is a field of its own", prefix)
		}
	}
	if strings.HasPrefix(text, "@") {
		return nil
	}
	list := strings.Fields(text)
	for i, field := range list {
		for part := range strings.SplitSeq(field, ",") {
			switch {
			case part == "":
				return fmt.Errorf("%q has an empty item", field)
			case !item.MatchString(part):
				return fmt.Errorf("%q is none of *, n, n-m, with or without /step", part)
			case i == len(list)-1 && wraps(part):
				return fmt.Errorf("%q: steps need weekdays in order, from Sunday 0 to Sunday 7", part)
			}
		}
	}
	return nil
}

// wraps reports whether an item is a range of weekdays beyond Saturday, with a step. For those the
// parser counts eight days in a week.
func wraps(part string) bool {
	from, rest, isRange := strings.Cut(strings.ToLower(part), "-")
	to, _, hasStep := strings.Cut(rest, "/")
	return isRange && hasStep && weekday(from) > weekday(to)
}

func weekday(name string) int {
	if len(name) == 3 {
		return strings.Index("sunmontuewedthufrisat", name) / 3
	}
	return int(name[0] - '0') // the parser refuses anything else
}

// next returns the first matching wall at or after another. Calendars repeat after 400 years, so a
// wall that does not occur within them never occurs.
func (e *expression) next(wall int64) (int64, bool) {
	date := time.Unix(wall, 0).UTC().Truncate(day * time.Second)
	clock := wall - date.Unix()
	for end := date.AddDate(400, 0, 1); date.Before(end); clock = 0 {
		if e.month>>date.Month()&1 == 0 {
			date = time.Date(date.Year(), date.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if e.isDay(date) {
			if at, ok := e.clock(clock); ok {
				return date.Unix() + at, true
			}
		}
		date = date.AddDate(0, 0, 1)
	}
	return 0, false
}

func (e *expression) isDay(date time.Time) bool {
	dom, dow := e.dom>>date.Day()&1 != 0, e.dow>>date.Weekday()&1 != 0
	left := time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() - date.Day() // days left in the month
	for _, last := range e.lasts {
		dom = dom || left == last
	}
	for _, nth := range e.nths {
		is := nth.N == (date.Day()+6)/7 || nth.N < 0 && left < 7
		dow = dow || is && nth.Weekday == int(date.Weekday())
	}
	if e.either {
		return dom || dow
	}
	return dom && dow
}

// clock returns the first matching time of day at or after another, in seconds of the day.
func (e *expression) clock(from int64) (int64, bool) {
	h, m, s := from/3600, from/60%60, from%60
	hour, ok := first(e.hour, h)
	if ok && hour == h {
		minute, ok := first(e.minute, m)
		if ok && minute == m {
			if second, ok := first(e.second, s); ok {
				return hour*3600 + minute*60 + second, true
			}
			minute, ok = first(e.minute, m+1)
		}
		if ok {
			return hour*3600 + minute*60 + lowest(e.second), true
		}
		hour, ok = first(e.hour, h+1)
		return hour*3600 + lowest(e.minute)*60 + lowest(e.second), ok
	}
	return hour*3600 + lowest(e.minute)*60 + lowest(e.second), ok
}

// first returns the least member of a set that is at least n.
func first(set uint64, n int64) (int64, bool) {
	set = set &^ wildcard >> n << n
	return lowest(set), set != 0
}

func lowest(set uint64) int64 { return int64(bits.TrailingZeros64(set)) }
