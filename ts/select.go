package ts

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// selector finds the series of a measurement for which all filters hold. It begins with the filter
// that is known to leave the fewest series, and looks at the tags of series themselves as soon as
// that is less than what the index has to say.
type selector struct {
	view   *engine.View
	inc    incarnation
	limits floql.Limits
	ids    []seriesID // ascending; meaningful once narrowed
	narrow bool       // ids are those that are left
	tags   map[seriesID]tagList
}

// fewSeries is how many series are looked at one by one instead of asking the index about a filter:
// a row of a series costs as much as some dozens of rows of the index, which are next to each
// other.
const fewSeries = 256

// selectSeries returns the series for which all filters hold, ascending. Their numbers take no more
// memory than the limits allow.
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

// counted is a filter for a value, and how many series have that.
type countedFilter struct {
	filter floql.Filter
	series uint64
}

// order sorts filters: those for one value by how many series have it, and the others with those
// first that select. If a value is nowhere, no series is left.
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

// rank is 0 for filters that select series by what they have, and 1 for those that leave out.
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

// apply keeps the series for which a filter holds that is not for a single value.
func (s *selector) apply(f floql.Filter) error {
	if s.narrow && len(s.ids) <= fewSeries {
		return s.keepIf(func(id seriesID) (bool, error) {
			tags, err := s.tagsOf(id)
			return f.Matches(tags.get(f.Tag)), err
		})
	}
	leaves := f.Matches("") // series without the tag stay, so those are subtracted that have it with another value
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

// having returns the series that have the tag with a value for which the filter holds or, if
// matches is false, does not hold. Values are skipped whole.
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
		// The last two bytes of an encoded string are its end, which a prefix has not.
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

// all makes ids those of all series.
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

// checkRoom returns a *floql.LimitError if n more numbers of series than are kept already take too
// much memory.
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
