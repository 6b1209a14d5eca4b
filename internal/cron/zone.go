package cron

import "time"

// farthest is more than the offset from UTC of any zone ever, in seconds.
const farthest = 24 * 60 * 60

// zone finds instants by wall clock times.
//
// A wall is the time that clocks show, in seconds as if it were UTC. As time passes, the greatest
// wall shown so far never decreases. It does not change while clocks repeat an hour, and jumps when
// they skip one. So a wall is reached at exactly one instant: when clocks first show it, or the
// first instant after the gap that contains it. Walls are reached in their own order, so the search
// for the next one is a search among walls.
type zone struct{ loc *time.Location }

// next returns the first instant after another at which an expression is due, in Unix seconds. It
// exists because Parse refuses expressions that never match.
func (z zone) next(e *expression, after int64) int64 {
	if e.everyHour {
		return z.nextShown(e, after)
	}
	wall, _ := e.next(z.greatest(after) + 1)
	return z.reached(wall)
}

// nextShown moves from one offset of a zone to the next. Between changes, walls and instants
// advance equally.
func (z zone) nextShown(e *expression, after int64) int64 {
	for at := after + 1; ; {
		offset, _, end := z.period(at)
		wall, _ := e.next(at + offset)
		if wall-offset < end {
			return wall - offset
		}
		at = end // no closer to the wall: the next period may repeat earlier walls
	}
}

// greatest returns the greatest wall that clocks have shown up to an instant.
func (z zone) greatest(at int64) int64 {
	offset, begin, _ := z.period(at)
	greatest := at + offset
	for at-begin < 2*farthest { // earlier walls are smaller
		offset, earlier, _ := z.period(begin - 1)
		greatest = max(greatest, begin-1+offset)
		begin = earlier
	}
	return greatest
}

// reached returns the first instant at which clocks show a wall or a later one.
func (z zone) reached(wall int64) int64 {
	for at := wall - farthest; ; {
		offset, begin, end := z.period(at)
		if at = max(begin, wall-offset); at < end {
			return at
		}
		at = end
	}
}

// period returns the offset from UTC at an instant, and a period with that offset around it. The
// period may not be the longest possible.
func (z zone) period(at int64) (offset, begin, end int64) {
	t := time.Unix(at, 0).In(z.loc)
	_, o := t.Zone()
	begin, end = -1<<62, 1<<62
	b, e := t.ZoneBounds()
	if !b.IsZero() {
		begin = b.Unix()
	}
	if !e.IsZero() {
		end = e.Unix()
	}
	// Beyond the table of a zone, a period ends 365 days after New Year, which is past on the last
	// day of a leap year.
	if end <= at {
		end = at + 60*60
	}
	return int64(o), min(begin, at), end
}
