package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // so that every machine has the same time zones, or any at all
)

// Spec defines the times of a schedule. Exactly one of Cron and Every is required.
type Spec struct {
	Cron   string
	Every  time.Duration // at least MinEvery, in whole milliseconds
	Anchor time.Time     // ticks of Every lie whole intervals before and after it; default 1970-01-01 00:00 UTC
	Zone   string        // for Cron: a name of the IANA database; default UTC
}

// Limits of a Spec.
const (
	MinEvery = time.Second
	maxCron  = 256  // bytes of an expression, far more than one needs
	lastYear = 9999 // RFC 3339 cannot express later years
)

// Schedule is a parsed, valid Spec. It is safe for concurrent use.
type Schedule struct {
	expr   *expression // nil for Every
	zone   zone
	every  int64 // ms
	anchor int64 // Unix ms
}

// Parse returns the schedule of a Spec.
//
// Errors name the field and the problem. An expression that never matches, such as the 30th of
// February, is an error.
func Parse(spec Spec) (*Schedule, error) {
	text := strings.TrimSpace(spec.Cron)
	switch {
	case text == "" && spec.Every == 0:
		return nil, errors.New("neither a cron expression nor an interval")
	case text != "" && spec.Every != 0:
		return nil, errors.New("both a cron expression and an interval")
	}
	if d, ok := strings.CutPrefix(text, "@every "); ok {
		every, err := time.ParseDuration(strings.TrimSpace(d))
		if err != nil {
			return nil, fmt.Errorf("cron %q: %q is not a duration such as 90s or 1h30m", text, d)
		}
		spec.Every = every
		return parseEvery(spec)
	}
	if text == "" {
		return parseEvery(spec)
	}
	if !spec.Anchor.IsZero() {
		return nil, errors.New("an anchor needs an interval: the times of a cron expression are its own")
	}
	expr, err := parseExpression(text)
	if err != nil {
		return nil, fmt.Errorf("cron %q: %w", text, err)
	}
	loc, err := location(spec.Zone)
	if err != nil {
		return nil, err
	}
	return &Schedule{expr: expr, zone: zone{loc}}, nil
}

func parseEvery(spec Spec) (*Schedule, error) {
	switch every := spec.Every; {
	case every < MinEvery:
		return nil, fmt.Errorf("an interval of %v is below %v", every, MinEvery)
	case every%time.Millisecond != 0:
		return nil, fmt.Errorf("an interval of %v is not whole milliseconds", every)
	case spec.Zone != "" && spec.Zone != "UTC":
		return nil, errors.New("a time zone needs a cron expression: intervals are the same everywhere")
	}
	s := &Schedule{every: spec.Every.Milliseconds()}
	if !spec.Anchor.IsZero() {
		if year := spec.Anchor.UTC().Year(); year < 1 || year > lastYear {
			return nil, fmt.Errorf("an anchor in the year %d", year)
		}
		s.anchor = spec.Anchor.UnixMilli()
	}
	return s, nil
}

func location(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("the time zone of a machine has no name")
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is unknown: names are such as Europe/Berlin", name)
	}
	return loc, nil
}

// Next returns the first tick after a time, in UTC and in whole milliseconds. It is the zero time
// if none exists before the year 10000.
func (s *Schedule) Next(after time.Time) time.Time {
	var next time.Time
	if s.expr == nil {
		next = time.UnixMilli(s.grid(after.UnixMilli()) + s.every).UTC()
	} else {
		next = time.Unix(s.zone.next(s.expr, after.Unix()), 0).UTC()
	}
	if next.Year() > lastYear {
		return time.Time{}
	}
	return next
}

// grid returns the last tick of an interval at or before a time.
func (s *Schedule) grid(ms int64) int64 {
	rest := (ms - s.anchor) % s.every
	if rest < 0 {
		rest += s.every
	}
	return ms - rest
}
