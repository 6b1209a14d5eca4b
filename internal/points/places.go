package points

// Places returns the number of distinct pairs of series and time in several Encoders with one field
// each. Values of several fields with the same series and time count once.
func Places(all []*Encoder) int {
	var different [][]mark
	for i, e := range all {
		e.sort()
		if i == 0 || !samePlaces(e, all[i-1]) {
			different = append(different, e.places())
		}
	}
	// Merge pairs, so that a thousand fields take ten rounds instead of a thousand.
	for len(different) > 1 {
		half := (len(different) + 1) / 2
		for i := range len(different) / 2 {
			different[i] = joinMarks(different[i], different[half+i])
		}
		different = different[:half]
	}
	if len(different) == 0 {
		return 0
	}
	return len(different[0])
}

func samePlaces(a, b *Encoder) bool {
	if a.Len() != b.Len() || a.used != 1 || b.used != 1 {
		return false
	}
	for i := range a.buckets[0].points {
		p, q := &a.buckets[0].points[i], &b.buckets[0].points[i]
		if p.series != q.series || p.time != q.time {
			return false
		}
	}
	return true
}

// places returns the positions of the points of the only field.
func (e *Encoder) places() (all []mark) {
	for i := range e.used {
		for _, p := range e.buckets[i].points {
			all = append(all, mark{p.series, p.time})
		}
	}
	return all
}

// joinMarks merges two sorted lists without duplicates.
func joinMarks(a, b []mark) []mark {
	all := make([]mark, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].before(b[0]):
			all, a = append(all, a[0]), a[1:]
		case b[0].before(a[0]):
			all, b = append(all, b[0]), b[1:]
		default:
			all, a, b = append(all, a[0]), a[1:], b[1:]
		}
	}
	return append(append(all, a...), b...)
}
