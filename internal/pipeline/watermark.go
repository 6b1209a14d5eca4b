package pipeline

// Watermark returns the watermark of partitions at a time. It is never less than before. idle
// reports whether all are idle.
//
// It is the minimum of the partitions' progress without idle ones. An idle partition has been read
// to its end, and its last record arrived longer ago than the timeout, or it never had one. When
// all are idle, event time advances with the clock from the newest arrival, so that the last
// windows fire. The order in which partitions become idle makes no difference, because the mark is
// the only state.
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

// Reached returns the maximum event time of the partitions, within their bound and not less than
// before. Event time need not advance with the clock to reach it.
func Reached(inputs []Progress, before int64) int64 {
	greatest := int64(MinTime)
	for i := range inputs {
		if inputs[i].Seen {
			greatest = max(greatest, inputs[i].mark())
		}
	}
	return max(before, min(greatest, Bound(inputs)))
}

// Bound returns the limit of the watermark of partitions, even if all are idle.
func Bound(inputs []Progress) int64 {
	bound := int64(EndOfTime)
	for i := range inputs {
		if inputs[i].Bounded {
			bound = min(bound, inputs[i].Bound)
		}
	}
	return bound
}

// Sum combines partitions into one Progress, which can be combined with others. It has their
// progress or, if all are idle, since when they are and how far event time may advance.
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

// mark returns the progress of a partition.
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
