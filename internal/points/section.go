package points

import (
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// sectionBuilder builds the section of a field.
type sectionBuilder struct {
	first  uint32   // series of the first run
	gaps   []uint32 // series of each further run minus that of the previous run
	timeOf []uint32 // sequence of times of each run
	counts []uint32 // points - 1 of each sequence of times
	times  sequencesBuilder
	known  [64]knownTimes
	inTime []int64 // times of all sequences, for comparison

	kinds    []uint8
	decimals sequencesBuilder
	bits     sequencesBuilder

	guess uint8 // decimal places of the latest decimals
	xs    []int64
}

// knownTimes is a sequence of times that may occur again.
type knownTimes struct {
	at   uint32 // its number + 1
	from int    // in inTime
	n    int
}

func (s *sectionBuilder) reset() {
	s.gaps, s.timeOf, s.counts, s.kinds, s.inTime = s.gaps[:0], s.timeOf[:0], s.counts[:0], s.kinds[:0], s.inTime[:0]
	s.times.reset()
	s.decimals.reset()
	s.bits.reset()
	s.known = [64]knownTimes{}
}

// build adds the points of a field, in order.
func (s *sectionBuilder) build(points []point) {
	s.reset()
	s.xs = slices.Grow(s.xs[:0], MaxRun)[:MaxRun]
	s.first = points[0].series
	for before := s.first; len(points) > 0; {
		n := s.addValues(points[:endOfSeries(points[:min(len(points), MaxRun)], 0)])
		if len(s.kinds) > 1 {
			s.gaps = append(s.gaps, points[0].series-before)
		}
		before = points[0].series
		s.addTimes(points[:n])
		points = points[n:]
	}
}

// addTimes adds the times of a run, or finds the same times of an earlier run.
func (s *sectionBuilder) addTimes(run []point) {
	xs := s.xs[:len(run)]
	for i := range run {
		xs[i] = run[i].time
	}
	first, last := uint64(xs[0]), uint64(xs[len(xs)-1])
	k := &s.known[(first*0x9e3779b97f4a7c15^last*0xc2b2ae3d27d4eb4f^uint64(len(xs)))>>20%64]
	if k.at > 0 && slices.Equal(s.inTime[k.from:k.from+k.n], xs) {
		s.timeOf = append(s.timeOf, k.at-1)
		return
	}
	s.timeOf = append(s.timeOf, uint32(len(s.counts)))
	s.counts = append(s.counts, uint32(len(xs)-1))
	*k = knownTimes{uint32(len(s.counts)), len(s.inTime), len(xs)}
	s.inTime = append(s.inTime, xs...)
	s.times.add(xs)
}

// addValues adds the values of a run. If they are of different kinds, it adds only the leading ones
// of one kind. It returns their number.
func (s *sectionBuilder) addValues(run []point) (n int) {
	xs := s.xs[:len(run)]
	exponent, to := decimals(xs, run, s.guess)
	n = 0
	if to < min(len(run), fewestDecimals) {
		exponent, n, to = rowOf(xs, run, s.guess)
	}
	if n == 0 {
		s.guess = exponent
		s.kinds = append(s.kinds, exponent)
		s.decimals.add(xs[:to])
		return to
	}
	run, xs = run[:n], xs[:n]
	for i := range run {
		p := &run[i]
		if p.exponent == notDecimal {
			xs[i] = ordered(p.value)
			continue
		}
		xs[i] = ordered(int64(math.Float64bits(Value(p.value, p.exponent))))
	}
	s.kinds = append(s.kinds, kindBits)
	s.bits.add(xs)
	return n
}

func (s *sectionBuilder) appendShape(dst []byte) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(s.kinds)))
	dst = codec.AppendUvarint(dst, uint64(s.first))
	dst = appendColumn(dst, s.gaps)
	dst = codec.AppendUvarint(dst, uint64(len(s.counts)))
	if len(s.counts) > 1 && len(s.counts) < len(s.kinds) {
		dst = appendColumn(dst, s.timeOf)
	}
	dst = appendColumn(dst, s.counts)
	return s.times.appendTo(dst)
}

func (s *sectionBuilder) appendValues(dst []byte) []byte {
	dst = appendColumn(dst, s.kinds)
	dst = codec.AppendUvarint(dst, uint64(len(s.bits.first)))
	dst = s.decimals.appendTo(dst)
	return s.bits.appendTo(dst)
}
