package ts

import (
	"cmp"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// sumRests reads the parts of sums beyond the first two, for the buckets of a field in a partition.
// The columns from columnSumRest on hold them. A column is opened when the first bucket needs it.
// Series come in ascending order.
type sumRests struct {
	scan      *scan
	partition *partitionAt
	field     fieldID
	mergers   []*merger
	rests     [][]float64 // by column, of the buckets read; 0 where a bucket has no such part
	one       []float64
}

// read reads the parts of the buckets of a series; counts are their numbers of parts.
func (s *sumRests) read(id seriesID, times []int64, counts []float64) error {
	n := 0
	for _, c := range counts {
		n = max(n, int(c))
	}
	if n > maxSumParts {
		return engine.Errorf(codec.ErrCorrupt, "series %d: sum of %d parts", id, n)
	}
	s.rests = s.rests[:0]
	for i := range n {
		if i == len(s.mergers) {
			m := &merger{bytes: s.scan.bytes}
			s.mergers = append(s.mergers, m)
			if err := s.scan.feeds(m, s.partition, s.field, columnSumRest+column(i)); err != nil {
				return err
			}
		}
		rest := make([]float64, len(times))
		err := s.mergers[i].each(id, times[0], times[len(times)-1]+1, func(ts []int64, vs []float64) error {
			for k, t := range ts {
				if at, ok := slices.BinarySearch(times, t); ok {
					rest[at] = vs[k]
				}
			}
			return s.scan.ended(len(ts))
		})
		if err != nil {
			return err
		}
		s.rests = append(s.rests, rest)
	}
	return nil
}

// of returns the parts of a bucket, valid until the next call.
func (s *sumRests) of(k int, count float64) []float64 {
	s.one = s.one[:0]
	for i := range min(int(count), len(s.rests)) {
		s.one = append(s.one, s.rests[i][k])
	}
	return s.one
}

func (s *sumRests) close() (err error) {
	for _, m := range s.mergers {
		err = cmp.Or(err, m.close())
	}
	return err
}
