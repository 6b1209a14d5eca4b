package pipeline

import "github.com/floedb/floe/internal/plant"

// Watermark returns the watermark of some partitions at a time, which is never before the one that was; idle reports whether all are idle.
//
// It is the least of what the partitions have come to, idle ones left out: those that have been read to their end, whose last record came
// longer ago than the timeout, or that never had one. When all are idle, event time runs on at the speed of the clock from the newest arrival on, so that the
// last windows fire. Which partition became idle first makes no difference: nothing is remembered but the mark.
func Watermark(parts []Part, now, before int64) (mark int64, idle bool) {
	least, greatest, arrived := int64(EndOfTime), int64(MinTime), int64(MinTime)
	idle = true
	for i := range parts {
		p := &parts[i]
		if p.Seen {
			greatest, arrived = max(greatest, p.mark()), max(arrived, p.Arrived)
		}
		if p.idle(now) && !plant.On(plant.IdleHolds) {
			continue
		}
		idle = false
		if !p.Seen {
			return before, false
		}
		least = min(least, p.mark())
	}
	switch {
	case !idle:
		if plant.On(plant.MarkFalls) {
			return least, false
		}
		return max(before, least), false
	case greatest == MinTime || plant.On(plant.IdleStands):
		return before, true
	}
	return max(before, greatest+max(0, now-arrived)), true
}

// mark is how far a partition has come.
func (p *Part) mark() int64 {
	if p.Newest < MinTime+p.Disorder {
		return MinTime
	}
	return p.Newest - p.Disorder
}

func (p *Part) idle(now int64) bool {
	if !p.CaughtUp || p.IdleAfter < 0 {
		return false
	}
	return !p.Seen || now-p.Arrived >= p.IdleAfter
}
