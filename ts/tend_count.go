package ts

import (
	"cmp"
	"math"
	"slices"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/key"
)

// maxPlaces is how many points are counted at a time; of a single series it may be more.
const maxPlaces = 1 << 20

// count counts the points of a partition, if that is due: a point is in the pages of each field that it has a value of, so only all of them together tell
// how many points there are when some were written twice, or have gone.
func (t *tending) count() (*step, error) {
	var at *partitionAt
	prefix := tierKey(nil, rowPartition, t.inc, rawTier)
	it, err := t.view.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && err == nil && at == nil; ok = it.Next() {
		var p partitionRow
		if p, err = decodePartition(it.Value()); err != nil || p.state == exact {
			continue
		}
		if due := p.changed + t.patience(mergeQuiet); due > t.view.Now() && p.state == overlapping {
			t.wake(due)
			continue
		}
		at = &partitionAt{partitionOf(it.Key()), p}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil || at == nil {
		return nil, err
	}
	n, err := t.countPlaces(at)
	if err != nil {
		return nil, err
	}
	cmd := countBody{inc: t.inc, shape: t.content.shape, sealed: t.content.sealed, partition: at.number, points: n}
	return stepOf(t, countAgain, cmd)
}

// place is where a point is.
type place struct {
	series uint32
	time   int64
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.series, o.series), cmp.Compare(p.time, o.time))
}

// countPlaces counts the points of a partition, by ranges of series.
func (t *tending) countPlaces(p *partitionAt) (n int64, err error) {
	found, err := selectSeries(t.view, t.inc, nil, floql.Limits{Bytes: -1})
	if err != nil {
		return 0, err
	}
	s := &scan{view: t.view, open: t.open, column: columnValue, fields: fieldsOf(t.open, nil), from: minTime, to: maxTime + 1, bytes: -1}
	var all, more, joined []place
	for s.ids = found.ids; len(s.ids) > 0; {
		all = all[:0]
		bound := int64(math.MaxInt64) // the series from here on are for later
		for field := range s.fields {
			if more, bound, err = s.places(p, field, more[:0], bound); err != nil {
				return 0, err
			}
			if slices.Equal(all, more) {
				continue
			}
			joined = union(joined[:0], all, more)
			all, joined = joined, all
			if len(all) > maxPlaces && all[0].series != all[len(all)-1].series {
				bound = int64(max(all[len(all)/2].series, all[0].series+1))
			}
			all = slices.DeleteFunc(all, func(p place) bool { return int64(p.series) >= bound })
		}
		n += int64(len(all))
		next, _ := slices.BinarySearchFunc(s.ids, bound, func(id seriesID, bound int64) int { return cmp.Compare(int64(id), bound) })
		s.ids = s.ids[next:]
	}
	return n, nil
}

// places appends where a field has points in a partition, up to a series, or to an earlier one that it returns: before the next one there are too many.
func (s *scan) places(p *partitionAt, field int, dst []place, bound int64) ([]place, int64, error) {
	err := s.runField(p, spot{p.number, field, 0, math.MinInt64}, func(at spot, times []int64, _ []float64) error {
		if int64(at.series) >= bound {
			return errFull
		}
		if len(dst) > maxPlaces && at.series != dst[len(dst)-1].series {
			bound = int64(at.series)
			return errFull
		}
		for _, t := range times {
			dst = append(dst, place{at.series, t})
		}
		return nil
	})
	if err == errFull {
		err = nil
	}
	return dst, bound, err
}

// union appends what is in a or b, both in order.
func union(dst, a, b []place) []place {
	for len(a) > 0 && len(b) > 0 {
		switch c := a[0].compare(b[0]); {
		case c < 0:
			dst, a = append(dst, a[0]), a[1:]
		case c > 0:
			dst, b = append(dst, b[0]), b[1:]
		default:
			dst, a, b = append(dst, a[0]), a[1:], b[1:]
		}
	}
	return append(append(dst, a...), b...)
}
