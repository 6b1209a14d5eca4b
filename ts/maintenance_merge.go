package ts

import (
	"cmp"
	"math"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/points"
)

// Triggers for merging the generations of a partition.
const (
	mergeAt    = 8              // number of generations; then the newest of them and all that are not larger than those
	mergeQuiet = 10 * 60 * 1000 // ms without additions after which all generations of a past partition are merged
	mergeInput = 700 << 10      // bytes of chunks per step
)

// merge merges several generations into one in part of a partition. It continues where the previous
// step merged, because a backfill has thousands of partitions. When nothing is left after that, it
// restarts at the front.
func (m *maintenance) merge() (*step, error) {
	front := incKey(nil, rowPartition, m.inc)
	if from := m.mergedAt[m.inc]; from != nil {
		if s, err := m.mergeFrom(from); err != nil || s != nil {
			return s, err
		}
		delete(m.mergedAt, m.inc)
	}
	return m.mergeFrom(front)
}

// mergeFrom merges in the first partition at or after a key that has generations to merge.
func (m *maintenance) mergeFrom(from []byte) (*step, error) {
	type found struct {
		tier      tierID
		partition int64
		merged    []uint64
	}
	var f *found
	it, err := m.view.Iter(from, key.PrefixEnd(incKey(nil, rowPartition, m.inc)))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && err == nil && f == nil; ok = it.Next() {
		var p partitionRow
		if p, err = decodePartition(it.Value()); err != nil {
			break
		}
		tier, partition := tierOf(it.Key()), partitionOf(it.Key())
		if merged := m.toMerge(m.apart(tier, &p), m.endOf(tier, partition)); len(merged) > 1 {
			f = &found{tier, partition, merged}
			m.mergedAt[m.inc] = slices.Clone(it.Key())
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil || f == nil {
		return nil, err
	}
	return m.mergeSome(f.tier, f.partition, f.merged)
}

// endOf returns the end of a partition.
func (m *maintenance) endOf(id tierID, partition int64) int64 {
	length := m.partition
	if tier := m.policy.find(id); tier != nil {
		length = tier.partition(m.partition)
	}
	return (partition + 1) * length
}

// apart returns the partition without the generations that have hidden points. If they were merged
// with others, those points would become visible again.
func (m *maintenance) apart(id tierID, p *partitionRow) *partitionRow {
	rest := *p
	for _, c := range m.content.closed {
		for id == rawTier && len(rest.generations) > 0 && rest.generations[0].number <= c.upTo {
			rest.generations = rest.generations[1:]
		}
	}
	return &rest
}

// toMerge returns the generations of a partition to merge now, oldest first.
func (m *maintenance) toMerge(p *partitionRow, end int64) (merged []uint64) {
	n := len(p.generations)
	if n < 2 {
		return nil
	}
	first := n
	if n >= mergeAt {
		size := int64(0)
		for first > 0 && (n-first < mergeAt || p.generations[first-1].bytes <= size) {
			first--
			size += p.generations[first].bytes
		}
	} else if due := max(end, p.changed) + m.patience(mergeQuiet); due <= m.view.Now() {
		first = 0
	} else {
		m.wake(due)
	}
	for _, g := range p.generations[first:] {
		merged = append(merged, g.number)
	}
	return merged
}

// heldChunk is a chunk of the view.
type heldChunk struct {
	group      chunkGroup
	generation uint64
	first      seriesID
	time       int64
	row        chunkRow
	bytes      int64
}

func (p *heldChunk) old() oldChunk {
	return oldChunk{p.generation, p.group.field, p.group.column, p.first, p.time, p.bytes}
}

func readChunk(k, value []byte) (p heldChunk, err error) {
	p = heldChunk{group: chunkGroupOf(k), generation: generationOf(k), bytes: int64(len(value))}
	p.first, p.time = firstOf(k)
	p.row, err = decodeChunk(value)
	return p, err
}

// mergeSome merges generations of a partition in one column of a field, starting with the first
// unmerged series. It continues with the next columns while they are small.
func (m *maintenance) mergeSome(tier tierID, partition int64, merged []uint64) (*step, error) {
	defer m.release()
	cmd := rewriteBody{inc: m.inc, shape: m.content.shape, tier: tier, partition: partition}
	lower, _ := chunksOf(m.inc, tier, partition)
	size := int64(0)
	for {
		group, ok, err := m.unmerged(lower, tier, partition, merged)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		inputs, bound, err := m.cutChunks(group, merged)
		if err != nil {
			return nil, err
		}
		for i := range inputs {
			size += inputs[i].bytes
		}
		if len(cmd.old) > 0 && size > mergeInput {
			break
		}
		if err := m.mergeColumn(&cmd, group, merged, inputs, bound); err != nil {
			return nil, err
		}
		if bound != math.MaxInt64 {
			break
		}
		lower = key.PrefixEnd(columnPrefix(nil, group))
	}
	if len(cmd.old) == 0 {
		return nil, nil
	}
	return stepOf(m, rewrite, cmd)
}

// mergeColumn adds the merge of chunks to a command, oldest generation first, for the series before
// a bound.
func (m *maintenance) mergeColumn(cmd *rewriteBody, group chunkGroup, merged []uint64, inputs []heldChunk, bound int64) error {
	target := merged[len(merged)-1]
	e := m.encoder(group)
	rests := make(map[uint64]*points.Encoder)
	for i := range inputs {
		p := &inputs[i]
		cmd.old = append(cmd.old, p.old())
		err := m.eachRun(p, func(id seriesID, times []int64, values []float64) {
			if int64(id) < bound {
				e.Run(uint32(id), uint16(group.field), times, values)
				return
			}
			rest := rests[p.generation]
			if rest == nil {
				rest = new(points.Encoder)
				rests[p.generation] = rest
			}
			rest.Run(uint32(id), uint16(group.field), times, values)
		})
		if err != nil {
			return err
		}
	}
	cmd.addChunks(group, target, e)
	for _, g := range merged {
		if rest := rests[g]; rest != nil {
			cmd.addChunks(group, g, rest)
		}
	}
	m.merged[group] = mergedUpTo{target, bound}
	return nil
}

// addChunks adds the contents of an encoder as chunks.
func (r *rewriteBody) addChunks(at chunkGroup, generation uint64, e *points.Encoder) {
	for p := range e.Chunks(chunkBytes) {
		row := chunkRow{seriesID(p.Last), p.From, p.To, int64(p.Points), p.Data}
		n := newChunk{at.partition, at.field, at.column, seriesID(p.Series), p.Time, row.encode(nil)}
		r.chunks = append(r.chunks, placedChunk{n, generation})
	}
}

// eachRun calls f for the runs of a chunk. The slices are valid during the call.
func (m *maintainer) eachRun(p *heldChunk, f func(id seriesID, times []int64, values []float64)) error {
	if err := m.reader.Open(p.row.data); err != nil {
		return err
	}
	ok, err := m.reader.Runs(uint16(p.group.field), &m.cursor)
	if err != nil || !ok {
		return cmp.Or(err, engine.Errorf(points.ErrCorrupt, "ts: page without points of field %d", p.group.field))
	}
	for m.cursor.Next() {
		times, values := m.cursor.Read()
		f(seriesID(m.cursor.Series()), times, values)
	}
	return nil
}

// unmerged returns the first column of a field, at or after a key, that has chunks of the
// generations to merge other than the last one.
func (m *maintenance) unmerged(lower []byte, tier tierID, partition int64, merged []uint64) (at chunkGroup, ok bool, err error) {
	_, upper := chunksOf(m.inc, tier, partition)
	for {
		it, err := m.view.Iter(lower, upper)
		if err != nil {
			return at, false, err
		}
		more := it.First()
		var g uint64
		if more {
			at, g = chunkGroupOf(it.Key()), generationOf(it.Key())
		}
		// Unmerged generations come before merged ones, so this group needs no merge if it begins
		// with the last one.
		for more && !slices.Contains(merged, g) {
			if more = it.Next() && chunkGroupOf(it.Key()) == at; more {
				g = generationOf(it.Key())
			}
		}
		if err := it.Close(); err != nil {
			return at, false, err
		}
		if more && g != merged[len(merged)-1] {
			return at, true, nil
		}
		if at == (chunkGroup{}) {
			return at, false, nil
		}
		lower, at = key.PrefixEnd(columnPrefix(nil, at)), chunkGroup{}
	}
}

// mergedUpTo records the progress of a merge: the target's chunks do not straddle the series.
type mergedUpTo struct {
	target uint64
	bound  int64
}

// collected are chunks of one generation, as many as one step may take.
type collected struct {
	chunks []heldChunk
	limit  int64 // the first series that may have chunks not collected
}

// cutChunks returns the chunks for one step, by generations, and the series at which the merge
// ends: later series stay unchanged. It begins with the first series that has a chunk outside the
// target generation.
func (m *maintenance) cutChunks(at chunkGroup, merged []uint64) (inputs []heldChunk, bound int64, err error) {
	target := merged[len(merged)-1]
	var parts []collected
	from := int64(math.MaxInt64)
	for _, g := range merged[:len(merged)-1] {
		c, err := m.collect(at, g, 0, 0)
		if err != nil {
			return nil, 0, err
		}
		if len(c.chunks) > 0 {
			from = min(from, int64(c.chunks[0].first))
		}
		parts = append(parts, c)
	}
	start := int64(0)
	if last := m.merged[at]; last.target == target && last.bound <= from {
		start = last.bound
	}
	c, err := m.collect(at, target, start, from)
	if err != nil {
		return nil, 0, err
	}
	bound = boundOf(append(parts, c))
	for _, c := range append(parts, c) {
		for _, p := range c.chunks {
			if int64(p.first) < bound {
				inputs = append(inputs, p)
			}
		}
	}
	return inputs, bound, nil
}

// collect reads the chunks of a generation that have points of a range of series.
func (m *maintenance) collect(at chunkGroup, generation uint64, start, from int64) (c collected, err error) {
	prefix := generationPrefix(nil, at, generation)
	it, err := m.view.Iter(key.AppendUint32(slices.Clone(prefix), uint32(start)), key.PrefixEnd(prefix))
	if err != nil {
		return c, err
	}
	c.limit = math.MaxInt64
	size := int64(0)
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		first, _ := firstOf(it.Key())
		if n := len(c.chunks); n > 0 && size > mergeInput && int64(first) > max(int64(c.chunks[0].first), from) &&
			first > c.chunks[n-1].first {
			c.limit = int64(first)
			break
		}
		var p heldChunk
		if p, err = readChunk(it.Key(), it.Value()); err == nil && int64(p.row.last) >= from {
			p.row.data = slices.Clone(p.row.data)
			c.chunks = append(c.chunks, p)
			size += p.bytes
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return c, err
}

// boundOf returns the series at which a merge of about mergeInput bytes ends. It covers at
// least the first series.
func boundOf(parts []collected) int64 {
	bound := int64(math.MaxInt64)
	var byFirst []*heldChunk
	for i := range parts {
		bound = min(bound, parts[i].limit)
		for j := range parts[i].chunks {
			byFirst = append(byFirst, &parts[i].chunks[j])
		}
	}
	slices.SortStableFunc(byFirst, func(a, b *heldChunk) int { return cmp.Compare(a.first, b.first) })
	size := int64(0)
	for i, p := range byFirst {
		if size > 0 && size+p.bytes > mergeInput && p.first > byFirst[i-1].first {
			return min(bound, int64(p.first))
		}
		size += p.bytes
	}
	return bound
}
