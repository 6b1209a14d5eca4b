package pipeline

// Watermark returns the watermark of some partitions at a time, which is never before the one that
// was; idle reports whether all are idle.
//
// It is the least of what the partitions have come to, idle ones left out: those that have been
// read to their end, whose last record came longer ago than the timeout, or that never had one.
// When all are idle, event time runs on at the speed of the clock from the newest arrival on, so
// that the last windows fire. Which partition became idle first makes no difference: nothing is
// remembered but the mark.
func Watermark(inputs []Progress, now, before int64) (mark int64, idle bool) {
	least, greatest, arrived := int64(EndOfTime), int64(MinTime), int64(MinTime)
	idle = true
	bound := Bound(inputs)
	for i := range inputs {
		p := &inputs[i]
		if p.Seen {
			greatest, arrived = max(greatest, p.mark()), max(arrived, p.Arrived)
		}
		if p.idle(now) {
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
		return max(before, min(least, bound)), false
	case greatest == MinTime:
		return before, true
	}
	return max(before, min(greatest+max(0, now-arrived), bound)), true
}

// Reached returns the greatest event time that partitions have come to, within their bound, and no
// less than the watermark that was: that to which event time does not have to run on.
func Reached(inputs []Progress, before int64) int64 {
	greatest := int64(MinTime)
	for i := range inputs {
		if inputs[i].Seen {
			greatest = max(greatest, inputs[i].mark())
		}
	}
	return max(before, min(greatest, Bound(inputs)))
}

// Bound returns what the watermark of some partitions does not pass, however idle they are.
func Bound(inputs []Progress) int64 {
	bound := int64(EndOfTime)
	for i := range inputs {
		if inputs[i].Bounded {
			bound = min(bound, inputs[i].Bound)
		}
	}
	return bound
}

// Sum returns what partitions are together, for others who combine it with more of its kind: where
// they have come to, or that all are idle, since when, and how far event time may run on then.
func Sum(inputs []Progress, now, before int64) Progress {
	mark, idle := Watermark(inputs, now, before)
	if !idle {
		return Progress{Seen: mark != MinTime, Newest: mark}
	}
	sum := Progress{Idle: true, Newest: MinTime, Arrived: MinTime, Bound: Bound(inputs)}
	sum.Bounded = sum.Bound != EndOfTime
	for i := range inputs {
		if p := &inputs[i]; p.Seen {
			sum.Seen, sum.Newest, sum.Arrived = true, max(sum.Newest, p.mark()), max(sum.Arrived, p.Arrived)
		}
	}
	return sum
}

// mark is how far a partition has come.
func (p *Progress) mark() int64 {
	if p.Newest < MinTime+p.Disorder {
		return MinTime
	}
	return p.Newest - p.Disorder
}

func (p *Progress) idle(now int64) bool {
	if p.Idle {
		return true
	}
	if !p.CaughtUp || p.IdleAfter < 0 {
		return false
	}
	return !p.Seen || now-p.Arrived >= p.IdleAfter
}
