package ts

import (
	"cmp"
	"math"
	"slices"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/key"
)

// maxCountedPoints bounds the number of points counted at a time. A single series may have more.
const maxCountedPoints = 1 << 20

// count counts the points of a partition, if that is due. A point is in the chunks of each of its
// fields. So if some points were written twice or removed, only all fields together give the number
// of points.
func (m *maintenance) count() (*step, error) {
	var at *partitionAt
	prefix := tierKey(nil, rowPartition, m.inc, rawTier)
	it, err := m.view.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && err == nil && at == nil; ok = it.Next() {
		var p partitionRow
		if p, err = decodePartition(it.Value()); err != nil || p.state == exact {
			continue
		}
		if due := p.changed + m.patience(mergeQuiet); due > m.view.Now() && p.state == overlapping {
			m.wake(due)
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
	n, err := m.countPartition(at)
	if err != nil {
		return nil, err
	}
	cmd := countBody{inc: m.inc, shape: m.content.shape, sealed: m.content.sealed, partition: at.number, points: n}
	return stepOf(m, countAgain, cmd)
}

// pointID identifies a point within a field.
type pointID struct {
	series uint32
	time   int64
}

func (p pointID) compare(o pointID) int {
	return cmp.Or(cmp.Compare(p.series, o.series), cmp.Compare(p.time, o.time))
}

// countPartition counts the points of a partition, by ranges of series.
func (m *maintenance) countPartition(p *partitionAt) (n int64, err error) {
	found, err := selectSeries(m.view, m.inc, nil, floql.Limits{Bytes: -1})
	if err != nil {
		return 0, err
	}
	s := &scan{view: m.view, open: m.open, column: columnValue, fields: fieldsOf(m.open, nil), from: minTime, to: maxTime + 1, bytes: -1}
	var all, more, joined []pointID
	for s.ids = found.ids; len(s.ids) > 0; {
		all = all[:0]
		bound := int64(math.MaxInt64) // series from here on are counted later
		for field := range s.fields {
			if more, bound, err = s.pointIDs(p, field, more[:0], bound); err != nil {
				return 0, err
			}
			if slices.Equal(all, more) {
				continue
			}
			joined = union(joined[:0], all, more)
			all, joined = joined, all
			if len(all) > maxCountedPoints && all[0].series != all[len(all)-1].series {
				bound = int64(max(all[len(all)/2].series, all[0].series+1))
			}
			all = slices.DeleteFunc(all, func(p pointID) bool { return int64(p.series) >= bound })
		}
		n += int64(len(all))
		next, _ := slices.BinarySearchFunc(s.ids, bound, func(id seriesID, bound int64) int { return cmp.Compare(int64(id), bound) })
		s.ids = s.ids[next:]
	}
	return n, nil
}

// pointIDs appends the IDs of a field's points in a partition, up to the series bound. If dst is
// full, it stops before a series and returns that series as the bound.
func (s *scan) pointIDs(p *partitionAt, field int, dst []pointID, bound int64) ([]pointID, int64, error) {
	err := s.runField(p, spot{p.number, field, 0, math.MinInt64}, func(at spot, times []int64, _ []float64) error {
		if int64(at.series) >= bound {
			return errFull
		}
		if len(dst) > maxCountedPoints && at.series != dst[len(dst)-1].series {
			bound = int64(at.series)
			return errFull
		}
		for _, t := range times {
			dst = append(dst, pointID{at.series, t})
		}
		return nil
	})
	if err == errFull {
		err = nil
	}
	return dst, bound, err
}

// union appends the union of a and b, both in order.
func union(dst, a, b []pointID) []pointID {
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
