package ts

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/points"
)

// chunkBytes is the approximate size of a chunk.
const chunkBytes = 60 << 10

// sealInput is the initial number of bytes of blocks per step. If the resulting chunks are too
// large, a step takes fewer.
const sealInput = 768 << 10

// seal turns the oldest blocks into chunks, if there are enough of them or they are old enough.
func (m *maintenance) seal() (*step, error) {
	w := &m.content.blocks
	if w.points == 0 {
		return nil, nil
	}
	if due := w.since + m.patience(sealAge); !w.full() && due > m.view.Now() {
		m.wake(due)
		return nil, nil
	}
	for input := sealInput; ; input /= 4 {
		cmd, blocks, err := m.sealUpTo(input)
		if err != nil {
			return nil, err
		}
		size := 0
		for i := range cmd.chunks {
			size += len(cmd.chunks[i].row)
		}
		if size <= maxSealBytes || blocks == 1 || input == 0 {
			return stepOf(m, seal, cmd)
		}
	}
}

// sealing sorts the points of blocks.
type sealing struct {
	*maintenance
	deleted map[seriesID]bool
	cut     int64 // partitions before it are no longer kept
	buckets []map[int64]bool
	lengths []int64 // of the buckets of each tier
	erased  []erasure
}

// sealUpTo makes chunks from about input bytes of blocks: whole writes, oldest first. It returns
// the number of writes.
func (m *maintenance) sealUpTo(input int) (cmd sealBody, writes int, err error) {
	defer m.release()
	cmd = sealBody{inc: m.inc, from: m.content.sealed, shape: m.content.shape}
	s := &sealing{maintenance: m, cut: math.MinInt64}
	if m.policy.rawTTL > 0 {
		needed, _, err := m.neededFrom(m.view.Now(), m.view.Iter)
		if err != nil {
			return cmd, 0, err
		}
		s.cut = floorDiv(needed, m.partition)
	}
	for _, tier := range m.policy.tiers {
		s.lengths = append(s.lengths, tier.every)
		s.buckets = append(s.buckets, make(map[int64]bool))
	}
	if s.deleted, err = m.deletedSeries(); err != nil {
		return cmd, 0, err
	}
	if s.erased, err = m.erasures(m.view); err != nil {
		return cmd, 0, err
	}
	prefix := incKey(nil, rowBlock, m.inc)
	it, err := m.view.Iter(blockKey(nil, m.inc, m.content.sealed+1, 0), key.PrefixEnd(prefix))
	if err != nil {
		return cmd, 0, err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		lsn := blockLSN(it.Key())
		if lsn != cmd.upTo {
			if writes > 0 && (int(cmd.bytes) >= input || cmd.written >= sealPoints || m.content.closesBetween(cmd.upTo, lsn)) {
				break
			}
			writes++
		}
		cmd.upTo = lsn
		row := it.Value()
		var b block
		if b, err = decodeBlock(row); err == nil {
			cmd.bytes += int64(len(row))
			cmd.written += b.span.points
			err = s.add(&b, lsn)
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return cmd, 0, err
	}
	cmd.chunks, cmd.points = m.chunks(rawTier)
	for i, tier := range m.policy.tiers {
		cmd.dirty = append(cmd.dirty, ranges(tier.id, tier.every, s.buckets[i])...)
	}
	return cmd, writes, nil
}

// deletedSeries returns the deleted series that may have points.
func (m *maintenance) deletedSeries() (map[seriesID]bool, error) {
	all, err := m.deletions()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	ids := make(map[seriesID]bool, len(all))
	for _, d := range all {
		ids[d.id] = true
	}
	return ids, nil
}

// add sorts the points of a block by partition and field.
func (s *sealing) add(b *block, lsn uint64) error {
	holes := holesOf(s.erased, rawTier, lsn)
	if err := s.reader.Open(b.points); err != nil {
		return err
	}
	for _, local := range s.reader.Fields(nil) {
		if int(local) >= len(b.fields) {
			return missingField(local, b)
		}
		if _, err := s.reader.Runs(local, &s.cursor); err != nil {
			return err
		}
		for s.cursor.Next() {
			place := s.cursor.Series()
			if int(place) >= len(b.ids) {
				return missingPlace(place, b)
			}
			if id := b.ids[place]; !s.deleted[id] {
				times, values := s.cursor.Read()
				_ = outside(holes, id, times, values, func(times []int64, values []float64) error {
					s.addRun(b.fields[local], id, times, values)
					return nil
				})
			}
		}
	}
	return nil
}

// addRun adds points of a series and field, in order of their times.
func (s *sealing) addRun(f fieldID, id seriesID, times []int64, values []float64) {
	for len(times) > 0 {
		partition := floorDiv(times[0], s.partition)
		end := (partition + 1) * s.partition
		n := 1
		for n < len(times) && times[n] < end {
			n++
		}
		if partition >= s.cut {
			at := chunkGroup{s.inc, rawTier, partition, f, columnValue}
			s.encoder(at).Run(uint32(id), uint16(f), times[:n], values[:n])
			s.mark(times[:n])
		}
		times, values = times[n:], values[n:]
	}
}

// since returns the points at or after a time.
func since(times []int64, values []float64, from int64) ([]int64, []float64) {
	n := 0
	if times[0] < from {
		n, _ = slices.BinarySearch(times, from)
	}
	return times[n:], values[n:]
}

// mark records the buckets that contain times.
func (s *sealing) mark(times []int64) {
	for i, every := range s.lengths {
		last := int64(math.MinInt64)
		for _, at := range times {
			if b := floorDiv(at, every); b != last {
				s.buckets[i][b] = true
				last = b
			}
		}
	}
}

func missingField(local uint16, b *block) error {
	return engine.Errorf(points.ErrCorrupt, "ts: block with field %d of %d", local, len(b.fields))
}

func missingPlace(place uint32, b *block) error {
	return engine.Errorf(points.ErrCorrupt, "ts: block with series %d of %d", place, len(b.ids))
}

// maxRanges bounds the ranges of dirty buckets that a seal marks; beyond it, gaps between ranges
// are marked too.
const maxRanges = 512

// ranges joins consecutive buckets.
func ranges(id tierID, every int64, buckets map[int64]bool) (all []dirtyRange) {
	for _, b := range slices.Sorted(maps.Keys(buckets)) {
		n := len(all)
		if n > 0 && (all[n-1].until == b*every || n == maxRanges) {
			all[n-1].until = (b + 1) * every
			continue
		}
		all = append(all, dirtyRange{id, b * every, (b + 1) * every})
	}
	return all
}

// chunks encodes the contents of the encoders, in order of partitions, and counts the points of
// each partition.
func (m *maintainer) chunks(id tierID) (all []newChunk, counts []counted) {
	order := slices.SortedFunc(maps.Keys(m.encoders), func(a, b chunkGroup) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.field, b.field), cmp.Compare(a.column, b.column))
	})
	var together []*points.Encoder // the fields of a partition
	for i, at := range order {
		e := m.encoders[at]
		for p := range e.Chunks(chunkBytes) {
			row := chunkRow{seriesID(p.Last), p.From, p.To, int64(p.Points), p.Data}
			all = append(all, newChunk{at.partition, at.field, at.column, seriesID(p.Series), p.Time, row.encode(nil)})
		}
		if id != rawTier {
			continue
		}
		together = append(together, e)
		if i+1 == len(order) || order[i+1].partition != at.partition {
			counts = append(counts, counted{at.partition, int64(points.Places(together))})
			together = together[:0]
		}
	}
	return all, counts
}
