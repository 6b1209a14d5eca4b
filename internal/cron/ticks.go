package cron

import (
	"math"
	"time"
)

// Never is the time of a tick that does not come, ms.
const Never = math.MaxInt64

// Ticks is what is to be decided of a schedule at a time; all times are Unix ms.
type Ticks struct {
	Run    []int64 // ascending; one, but for CatchUpAll
	Missed int64
	Last   int64 // until when ticks are decided with these
	Next   int64 // the first tick behind Last, or Never
	After  int64 // the first tick behind now, or Never
}

// Ticks returns what has come due after the ticks that were decided last. At most so many of them
// run as there is room for; the others are for the next time.
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
	switch {
	case len(t.Run) > 0:
		t.Last = t.Run[len(t.Run)-1]
	case len(due.Run) > 0 || t.Missed > 0:
		t.Last = now
	}
	if rest := due.Run[len(t.Run):]; len(rest) > 0 {
		t.Next = rest[0].UnixMilli()
	}
	return t
}

// Parser is Parse with a memory of what was read, by what it says and not by whose it is. It is for
// one goroutine.
type Parser struct{ parsed map[Spec]*Schedule }

// maxParsed bounds the memory of a Parser to a few MiB.
const maxParsed = 10_000

// Parse returns the schedule that a Spec describes. Errors are those of the function Parse, and not
// remembered.
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
