package ts

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// selector finds the series of a measurement that match all filters. It starts with the filter
// known to leave the fewest series. Once that is cheaper than the index, it reads the tags of the
// remaining series.
type selector struct {
	view   *engine.View
	inc    incarnation
	limits floql.Limits
	ids    []seriesID // ascending; valid once narrow is set
	narrow bool       // ids are the remaining series
	tags   map[seriesID]tagList
}

// fewSeries is the number of series up to which each is read on its own instead of using the index
// for a filter. Reading a row of a series costs as much as dozens of index rows, which are
// adjacent.
const fewSeries = 256

// selectSeries returns the series that match all filters, ascending. The memory of their numbers
// stays within the limits.
func selectSeries(v *engine.View, inc incarnation, filters []floql.Filter, limits floql.Limits) (*selector, error) {
	s := &selector{view: v, inc: inc, limits: limits, tags: make(map[seriesID]tagList)}
	equal, others, err := s.order(filters)
	if err != nil || equal == nil && s.narrow {
		return s, err
	}
	for _, e := range equal {
		if err := s.keepValue(e.filter, e.series); err != nil {
			return s, err
		}
	}
	for _, f := range others {
		if err := s.apply(f); err != nil {
			return s, err
		}
	}
	if s.narrow {
		return s, nil
	}
	return s, s.all()
}

// countedFilter is a filter for a value, with the number of series that have it.
type countedFilter struct {
	filter floql.Filter
	series uint64
}

// order splits and sorts filters. Filters for one value are sorted by their number of series. Of
// the others, those that require some value come first. If a required value does not exist, no
// series match.
func (s *selector) order(filters []floql.Filter) (equal []countedFilter, others []floql.Filter, err error) {
	for _, f := range filters {
		if f.Op != floql.Equal || f.Value == "" {
			others = append(others, f)
			continue
		}
		b, ok, err := s.view.Get(valueKey(nil, s.inc, f.Tag, f.Value))
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			s.narrow = true
			return nil, nil, nil
		}
		n, err := decodeCount(b)
		if err != nil {
			return nil, nil, err
		}
		equal = append(equal, countedFilter{f, n})
	}
	slices.SortStableFunc(equal, func(a, b countedFilter) int { return cmp.Compare(a.series, b.series) })
	slices.SortStableFunc(others, func(a, b floql.Filter) int { return cmp.Compare(rank(&a), rank(&b)) })
	return equal, others, nil
}

// rank is 0 for filters that select series by a value they have, and 1 for those that exclude
// series.
func rank(f *floql.Filter) int {
	if f.Matches("") {
		return 1
	}
	return 0
}

// keepValue keeps the n series that have a value.
func (s *selector) keepValue(f floql.Filter, count uint64) error {
	if s.narrow && uint64(len(s.ids)) < count/8 {
		return s.keepIf(func(id seriesID) (bool, error) {
			_, ok, err := s.view.Get(postingKey(nil, s.inc, f.Tag, f.Value, id))
			return ok, err
		})
	}
	found, err := s.having(f.Tag, &f, true)
	s.intersect(found)
	return err
}

func (s *selector) keepIf(keep func(seriesID) (bool, error)) error {
	kept := s.ids[:0]
	for _, id := range s.ids {
		ok, err := keep(id)
		if err = cmp.Or(err, s.view.Ended()); err != nil { // a pattern may take milliseconds for a long value
			return err
		}
		if ok {
			kept = append(kept, id)
		}
	}
	s.ids = kept
	return nil
}

// apply keeps the series that match a filter for more than a single value.
func (s *selector) apply(f floql.Filter) error {
	if s.narrow && len(s.ids) <= fewSeries {
		return s.keepIf(func(id seriesID) (bool, error) {
			tags, err := s.tagsOf(id)
			return f.Matches(tags.get(f.Tag)), err
		})
	}
	leaves := f.Matches("") // series without the tag stay, so series with other values of it are subtracted
	found, err := s.having(f.Tag, &f, !leaves)
	if err != nil {
		return err
	}
	if !leaves {
		s.intersect(found)
		return nil
	}
	if !s.narrow {
		if err := s.all(); err != nil {
			return err
		}
	}
	s.subtract(found)
	return nil
}

// having returns the series whose value of the tag matches the filter or, if matches is false, does
// not match it. It skips whole values.
func (s *selector) having(tag string, f *floql.Filter, matches bool) (found []seriesID, err error) {
	prefix := key.AppendString(incKey(nil, rowPosting, s.inc), []byte(tag))
	lower, upper := prefix, key.PrefixEnd(prefix)
	switch {
	case f.Op == floql.Equal || f.Op == floql.NotEqual && !matches && f.Value != "":
		if f.Value == "" {
			break
		}
		lower = key.AppendString(slices.Clone(prefix), []byte(f.Value))
		upper = key.PrefixEnd(lower)
	case matches:
		// The last two bytes of an encoded string are its end, which a prefix does not have.
		start := key.AppendString(slices.Clone(prefix), []byte(f.Prefix()))
		lower = start[:len(start)-2]
		upper = key.PrefixEnd(lower)
	}
	it, err := s.view.Iter(lower, upper)
	if err != nil {
		return nil, err
	}
	values := 0
	for ok := it.First(); ok && err == nil; {
		value, _, whole := key.CutString(it.Key()[len(prefix):])
		if !whole {
			err = missingRow(it.Key())
			break
		}
		head := append([]byte(nil), it.Key()[:len(it.Key())-4]...)
		values++
		matched := f.Matches(string(value)) == matches
		if err = s.view.Ended(); err != nil { // a pattern may take milliseconds for a long value
			break
		}
		if !matched {
			ok = it.SeekGE(key.PrefixEnd(head))
			continue
		}
		for ; ok && bytes.HasPrefix(it.Key(), head); ok = it.Next() {
			found = append(found, seriesOf(it.Key()))
			if err = s.checkRoom(len(found)); err != nil {
				break
			}
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if values > 1 {
		slices.Sort(found)
	}
	return found, err
}

// all sets ids to all series.
func (s *selector) all() error {
	prefix := incKey(nil, rowSeries, s.inc)
	it, err := s.view.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	s.ids, s.narrow = s.ids[:0], true
	for ok := it.First(); ok; ok = it.Next() {
		s.ids = append(s.ids, seriesOf(it.Key()))
		if err = s.checkRoom(len(s.ids)); err != nil {
			break
		}
	}
	return cmp.Or(err, it.Close())
}

// checkRoom returns a *floql.LimitError if n more series numbers would exceed the memory limit.
func (s *selector) checkRoom(n int) error {
	return s.limits.CheckBytes(seriesBytes * int64(n+len(s.ids)))
}

func (s *selector) intersect(found []seriesID) {
	if !s.narrow {
		s.ids, s.narrow = found, true
		return
	}
	kept := s.ids[:0]
	for _, id := range s.ids {
		for len(found) > 0 && found[0] < id {
			found = found[1:]
		}
		if len(found) > 0 && found[0] == id {
			kept = append(kept, id)
		}
	}
	s.ids = kept
}

func (s *selector) subtract(found []seriesID) {
	kept := s.ids[:0]
	for _, id := range s.ids {
		for len(found) > 0 && found[0] < id {
			found = found[1:]
		}
		if len(found) == 0 || found[0] != id {
			kept = append(kept, id)
		}
	}
	s.ids = kept
}

// tagsOf returns the tags of a series.
func (s *selector) tagsOf(id seriesID) (tagList, error) {
	if tags, ok := s.tags[id]; ok {
		return tags, nil
	}
	k := seriesKey(nil, rowSeries, s.inc, id)
	b, ok, err := s.view.Get(k)
	if err == nil && !ok {
		err = missingRow(k)
	}
	if err != nil {
		return nil, err
	}
	row, err := decodeSeries(b)
	s.tags[id] = row.tags
	return row.tags, err
}
