package engine

import (
	"bytes"
	"slices"
	"sort"
)

// keyRange is lower <= key < upper.
type keyRange struct{ lower, upper []byte }

// rangeSet is a set of keys, as sorted ranges that neither overlap nor touch.
type rangeSet []keyRange

// rangeSplit records how adding a range changed a set.
type rangeSplit struct {
	added    keyRange
	at       int        // index of the range that now contains the added one
	replaced []keyRange // previous ranges at that index
}

// add adds a range and merges it with those that it overlaps or touches.
func (s *rangeSet) add(r keyRange) rangeSplit {
	ranges := *s
	from := sort.Search(len(ranges), func(i int) bool { return bytes.Compare(ranges[i].upper, r.lower) >= 0 })
	to := from
	merged := r
	for ; to < len(ranges) && bytes.Compare(ranges[to].lower, r.upper) <= 0; to++ {
		if bytes.Compare(ranges[to].lower, merged.lower) < 0 {
			merged.lower = ranges[to].lower
		}
		if bytes.Compare(ranges[to].upper, merged.upper) > 0 {
			merged.upper = ranges[to].upper
		}
	}
	split := rangeSplit{added: r, at: from, replaced: slices.Clone(ranges[from:to])}
	*s = slices.Replace(ranges, from, to, merged)
	return split
}

// undo reverts the latest add.
func (s *rangeSet) undo(split *rangeSplit) {
	*s = slices.Replace(*s, split.at, split.at+1, split.replaced...)
}

// find returns the range that contains a key, or nil.
func (s rangeSet) find(key []byte) *keyRange {
	if len(s) == 0 {
		return nil
	}
	i := sort.Search(len(s), func(i int) bool { return bytes.Compare(s[i].upper, key) > 0 })
	if i == len(s) || bytes.Compare(s[i].lower, key) > 0 {
		return nil
	}
	return &s[i]
}

// within returns a copy of the ranges that contain keys with lower <= key < upper.
func (s rangeSet) within(lower, upper []byte) rangeSet {
	if len(s) == 0 {
		return nil
	}
	from := sort.Search(len(s), func(i int) bool { return bytes.Compare(s[i].upper, lower) > 0 })
	to := from + sort.Search(len(s)-from, func(i int) bool { return bytes.Compare(s[from+i].lower, upper) >= 0 })
	return slices.Clone(s[from:to])
}
