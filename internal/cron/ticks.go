package cron

import (
	"math"
	"time"
)

// Never is the time, in ms, of a tick that never comes due.
const Never = math.MaxInt64

// Ticks are the ticks to decide at a time. All times are Unix ms.
type Ticks struct {
	Run    []int64 // ascending; at most one, except for CatchUpAll
	Missed int64
	Last   int64 // the time up to which these ticks are decided
	Next   int64 // the first tick after Last, or Never
	After  int64 // the first tick after now, or Never
}

// Ticks returns the ticks that came due after last, up to which ticks are already decided. At most
// room of them run, which is at least 1. The rest are left for the next call.
func (s *Schedule) Ticks(last, now int64, rule CatchUp, n, room int) Ticks {
	due := s.Due(time.UnixMilli(last), time.UnixMilli(now), rule, n)
	t := Ticks{Missed: int64(due.Missed), Last: last, After: Never}
	if !due.Next.IsZero() {
		t.After = due.Next.UnixMilli()
	}
	t.Next = t.After
	for _, at := range due.Run[:min(room, len(due.Run))] {
		t.Run = append(t.Run, at.UnixMilli())
	}
	if len(t.Run) > 0 {
		t.Last = t.Run[len(t.Run)-1]
	} else if t.Missed > 0 {
		t.Last = now
	}
	if rest := due.Run[len(t.Run):]; len(rest) > 0 {
		t.Next = rest[0].UnixMilli()
	}
	return t
}

// Parser is Parse with a cache, keyed by Spec and shared by all schedules with the same one. It is
// not safe for concurrent use.
type Parser struct{ parsed map[Spec]*Schedule }

// maxParsed bounds the cache of a Parser to a few MiB.
const maxParsed = 10_000

// Parse returns the schedule of a Spec. Errors are those of the function Parse and are not cached.
func (p *Parser) Parse(spec Spec) (*Schedule, error) {
	if s, ok := p.parsed[spec]; ok {
		return s, nil
	}
	s, err := Parse(spec)
	if err != nil {
		return nil, err
	}
	if p.parsed == nil || len(p.parsed) >= maxParsed {
		p.parsed = make(map[Spec]*Schedule)
	}
	p.parsed[spec] = s
	return s, nil
}
